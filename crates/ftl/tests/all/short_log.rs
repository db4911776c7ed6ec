//! Deallocations leave the end of the log to those who free it: pools whose dense tier was away, or that
//! are flooded with deallocations, go on, and can be started.

use crate::common::{MemoryDrive, Pool};
use std::cell::Cell;
use std::rc::Rc;
use varve_ftl::{Demand, Engine, EngineError, Geometry, NewVolume, Reserve};
use varve_io::{Blocks, World};
use varve_units::{Blocks as Count, Lba, Nanos, TenantId, VolumeId};

fn wait(engine: &Engine, name: &str) -> u64 {
    engine.waits().get(name).copied().unwrap_or(0)
}

/// Chunks of the log, of 1 MiB: some 800 leaves before 2 GiB.
const CHUNKS: u32 = 32;
/// How long a host waits that was refused.
const PAUSE: Nanos = Nanos::from_millis(100);

/// A pool whose settings are those that `varve-pool` gives one of its size, with so many delta nodes.
fn sparse_pool_of(seed: u64, delta_nodes: u64) -> Pool {
    let mut pool = Pool::new(seed, 1, 1);
    pool.geometry = Geometry {
        chunk_bytes: 1 << 20,
        chunks: CHUNKS,
        lba_bytes: 512,
        group_blocks: 32_768,
        groups: 16,
        stripe_blocks: 64,
        p2l_copies: 1,
        slices: 16,
    };
    let demand = Demand {
        lanes: 1,
        delta_nodes,
        checkpoint_bytes: u64::from(CHUNKS) << 16,
        over_provision_per_mille: 0,
    };
    let reserve = Reserve::derive(&pool.geometry, &demand).expect("room for the reserve");
    pool.fast = MemoryDrive::new(Rc::clone(&pool.executor), u64::from(CHUNKS) << 20, 1);
    pool.dense = MemoryDrive::new(
        Rc::clone(&pool.executor),
        pool.geometry.dense_blocks() * 4096,
        1,
    );
    pool.config.lanes = 1;
    pool.config.reserve = reserve;
    pool.config.map.delta_nodes = demand.delta_nodes as usize;
    pool.config.map.leaves_max = reserve.leaves_max as usize;
    pool.config.checkpoint_bytes = demand.checkpoint_bytes;
    pool.config.window = 1;
    pool
}

/// A pool with many leaves of one block each, none of them stored, whose dense tier is away and whose log hosts have
/// filled.
struct Outage {
    pool: Pool,
    engine: Rc<Engine>,
    /// A volume that holds nothing.
    blank: VolumeId,
    /// The volume of the leaves, and how many there are.
    sparse: VolumeId,
    leaves: u64,
    /// The volume that fills the log, and its blocks.
    wide: VolumeId,
    wide_blocks: u64,
    /// Writes to it that have ended.
    written: Rc<Cell<u64>>,
}

/// A deallocation was done, or refused because it would have taken what is left of the log.
fn deallocated(done: Result<(), EngineError>) {
    assert!(
        matches!(done, Ok(()) | Err(EngineError::DenseAway)),
        "{done:?}"
    );
}

impl Outage {
    fn new(pool: Pool) -> Self {
        let engine = pool.create();
        let leaves = pool.config.reserve.leaves_max - 30;
        let wide_blocks = u64::from(pool.geometry.chunks) * 256;
        let inner = Rc::clone(&engine);
        let (blank, sparse, wide) = pool.executor.block_on(async move {
            let blank = create(&inner, "blank", 1100).await;
            let sparse = create(&inner, "sparse", leaves * 512).await;
            for leaf in 0..leaves {
                let lba = Lba(leaf * 512 + leaf % 512);
                let done = inner.write(sparse, lba, Blocks::zeroed(1), false).await;
                done.expect("a write");
            }
            (blank, sparse, create(&inner, "wide", wide_blocks).await)
        });
        pool.executor.drain();
        pool.dense.gone.set(true);
        let outage = Self {
            pool,
            engine,
            blank,
            sparse,
            leaves,
            wide,
            wide_blocks,
            written: Rc::default(),
        };
        outage.fill();
        let waits = || wait(&outage.engine, "dense_short") > 0;
        assert!(
            outage.pool.executor.turns(400_000, waits),
            "hosts are refused"
        );
        outage.pool.executor.turns(100_000, || false);
        outage
    }

    fn world(&self) -> Rc<dyn World> {
        Rc::clone(&self.pool.executor) as Rc<dyn World>
    }

    /// A host that writes without end.
    fn fill(&self) {
        let (counted, inner) = (Rc::clone(&self.written), Rc::clone(&self.engine));
        let (wide, blocks, world) = (self.wide, self.wide_blocks, self.world());
        let _filling = self.world().run(async move {
            for step in 0.. {
                let lba = Lba(step * 16 % blocks);
                let mut done = inner.write(wide, lba, Blocks::zeroed(16), false).await;
                while done == Err(EngineError::DenseAway) {
                    world.sleep(PAUSE).await;
                    done = inner.write(wide, lba, Blocks::zeroed(16), false).await;
                }
                done.expect("a write");
                counted.set(counted.get() + 1);
            }
        });
    }

    /// Deallocates a block so often that checkpoints are taken, then so many blocks that hold nothing, one of each
    /// leaf in turn.
    fn deallocate(&self, holes: u64) {
        let (inner, leaves) = (Rc::clone(&self.engine), self.leaves);
        let (blank, sparse) = (self.blank, self.sparse);
        let mut burning = self.world().run(async move {
            for _ in 0..700 {
                deallocated(inner.discard(blank, Lba(0), 1).await);
            }
            for step in 0..holes {
                let index = (step / leaves + 2 + step % leaves) % 512;
                let hole = Lba(step % leaves * 512 + index);
                deallocated(inner.discard(sparse, hole, 1).await);
            }
        });
        let most = if holes > 0 { 1_500_000 } else { 400_000 };
        self.pool
            .executor
            .turns(most, || burning.try_take().is_some());
        self.pool.executor.turns(400_000, || false);
    }

    /// The power fails so often, each time soon after a start.
    fn restart(&mut self, times: u32) {
        for epoch in 0..times {
            self.pool.executor.crash();
            self.engine = self.pool.open(2 + epoch);
            let (inner, sparse) = (Rc::clone(&self.engine), self.sparse);
            let mut holing = self.world().run(async move {
                for leaf in 0..100 {
                    let hole = Lba(leaf * 512 + u64::from(epoch));
                    let _ = inner.discard(sparse, hole, 1).await;
                }
            });
            self.pool
                .executor
                .turns(20_000, || holing.try_take().is_some());
        }
    }

    /// The dense tier is back: hosts' writes go on.
    fn end(self, restarts: u32) {
        self.pool.dense.gone.set(false);
        if restarts > 0 {
            self.fill();
        }
        let waited = self.written.get();
        let goes_on = || self.written.get() >= waited + 400;
        let is_well = self.pool.executor.turns(1_500_000, goes_on);
        let (waits, counters) = (self.engine.waits(), self.engine.counters());
        assert!(is_well, "{waits:?}\n{counters:?}");
    }
}

async fn create(engine: &Engine, name: &'static str, blocks: u64) -> VolumeId {
    let new = NewVolume {
        name,
        size: Count(blocks),
        tenant: TenantId(1),
        uuid: [9; 16],
        nguid: [9; 16],
    };
    engine.create_volume(new).await.expect("a new volume")
}

/// Hosts go on after an outage of the dense tier, in which so many blocks that hold nothing were deallocated and the
/// power failed so often.
fn goes_on_after_an_outage(holes: u64, restarts: u32) {
    let pool = sparse_pool_of(3, 2048);
    let mut outage = Outage::new(pool);
    outage.deallocate(holes);
    outage.restart(restarts);
    outage.end(restarts);
}

/// A round of old chains ends where the log is short: what is left is for those who free it. All leaves would take it.
#[test]
fn old_chains_leave_the_end_of_the_log() {
    let mut pool = sparse_pool_of(3, 2048);
    pool.config.chain_age = 1500;
    let outage = Outage::new(pool);
    outage.deallocate(0);
    let merged = outage.engine.counters()["aged_merges"];
    assert!((1..outage.leaves).contains(&merged), "{merged}");
    assert!(wait(&outage.engine, "log_to_clean") > 0);
    outage.end(0);
}

/// Leaves that deallocations make long, without any that is old, leave the log to those who free it.
#[test]
fn long_chains_do_not_take_the_reserve() {
    goes_on_after_an_outage(20_000, 0);
}

/// A read of a leaf's image takes long, and meanwhile a host deallocates ranges of it none of which lies in another
/// that came later, as many as may be, and then writes the whole leaf, and a block of it again.
#[test]
fn a_full_chain_takes_writes() {
    let mut pool = Pool::new(8, 1, 1);
    pool.geometry.groups = 0;
    pool.config.reserve.capacity_blocks = 2600;
    pool.config.reserve.groups = 0;
    pool.config.lanes = 1;
    pool.config.map.delta_nodes = 4096;
    pool.config.reserve.chunks = 5;
    let engine = pool.create_fast_only();
    let mut host = pool.host(&engine, 1);
    let host = pool.executor.block_on(async move {
        for at in 0..68 {
            host.write(16 * at, 16).await;
        }
        for at in 0..80 {
            host.discard(600 + 2 * at, 1).await;
        }
        host
    });
    pool.executor.drain();
    let host = pool.executor.block_on(async move {
        let read = host.engine.read(host.volume, Lba(0), Blocks::zeroed(1));
        read.await.expect("a block");
        host
    });
    pool.executor.drain();
    let stored = engine
        .stored_leaf(host.volume, varve_units::LeafIndex(1))
        .expect("a stored leaf");
    pool.fast
        .held
        .set(Some((stored * 512, stored * 512 + 4608)));
    let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
    let (inner, volume) = (Rc::clone(&engine), host.volume);
    let mut flood = world.run(async move {
        for length in (1..500_u64).rev() {
            for from in 0..511 - length {
                let hole = Lba(512 + from);
                inner
                    .discard(volume, hole, length)
                    .await
                    .expect("a deallocation");
            }
        }
    });
    // The next one waits: the chain holds as many as it may.
    assert!(
        !pool
            .executor
            .turns(2_000_000, || flood.try_take().is_some())
    );
    assert_eq!(wait(&engine, "node_waiters"), 1);
    let mut host = host;
    let mut writing = world.run(async move {
        for at in 0..8 {
            host.write(512 + 64 * at, 64).await;
        }
        for at in 0..8 {
            host.write(512 + at, 1).await;
        }
        host
    });
    let mut host = None;
    pool.executor.turns(2_000_000, || {
        host = writing.try_take();
        host.is_some()
    });
    assert!(host.is_some(), "all are acknowledged");
}

/// Many deallocate all over the leaves while others write, and the drives are well.
#[test]
fn a_flood_of_deallocations_in_a_busy_pool() {
    let mut stuck = Vec::new();
    for (seed, nodes) in [(1, 2048), (1, 8192), (3, 8192), (7, 8192)] {
        let pool = sparse_pool_of(seed, nodes);
        let leaves = pool.config.reserve.leaves_max - 30;
        let engine = pool.create();
        let executor = Rc::clone(&pool.executor);
        let (writes, holes) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let world: Rc<dyn World> = Rc::clone(&pool.executor) as Rc<dyn World>;
        let inner = Rc::clone(&engine);
        let made = async move { create(&inner, "sparse", leaves * 512).await };
        let sparse = pool.executor.block_on(made);
        for number in 0..72 {
            let (inner, executor) = (Rc::clone(&engine), Rc::clone(&executor));
            let counted = Rc::clone(if number < 8 { &writes } else { &holes });
            let _running = world.run(async move {
                loop {
                    let leaf = executor.below(leaves as usize) as u64;
                    let length = 1 + executor.below(16) as u64;
                    let at = Lba(leaf * 512 + executor.below(480) as u64);
                    if number >= 8 {
                        inner
                            .discard(sparse, at, 1 + length % 3)
                            .await
                            .expect("a deallocation");
                    } else {
                        let data = Blocks::zeroed(length as usize);
                        inner.write(sparse, at, data, false).await.expect("a write");
                    }
                    counted.set(counted.get() + 1);
                }
            });
        }
        // Slow is not stuck: nothing is left to do then.
        if !pool.executor.turns(700_000, || writes.get() > 6000) && !pool.executor.turn() {
            stuck.push(format!(
                "{seed} {nodes}: {} {} {:?} {:?}",
                writes.get(),
                holes.get(),
                engine.waits(),
                engine.counters()
            ));
        }
    }
    assert!(stuck.is_empty(), "{stuck:#?}");
}

/// The same after many deallocations, no chain is old.
#[test]
fn starts_during_an_outage_end_after_deallocations() {
    goes_on_after_an_outage(20_000, 12);
}
