//! Writes of a host that is lost, while they wait for room in the log: they are not done, and take nothing with them.

use crate::common::Pool;
use std::rc::Rc;
use varve_ftl::{Engine, EngineError, NewVolume, Recall};
use varve_io::{Blocks, Receiver, World};
use varve_units::{BLOCK, Blocks as Count, Lba, TenantId, VolumeId};

type Outcome = Result<(), EngineError>;

/// Blocks of a volume, of two leaves.
const BLOCKS: u64 = 600;
/// Ranges that are written while nothing passes: a block, more than one record, and parts of two leaves.
const RANGES: [(u64, usize); 4] = [(3, 1), (20, 130), (260, 120), (400, 180)];

fn content(stamp: u8, length: usize) -> Blocks {
    let mut blocks = Blocks::zeroed(length);
    blocks.bytes_mut().fill(stamp);
    blocks
}

async fn volume(engine: &Engine, number: u8) -> VolumeId {
    let new = NewVolume {
        name: &format!("volume{number}"),
        size: Count(BLOCKS),
        tenant: TenantId(u32::from(number)),
        uuid: [number; 16],
        nguid: [number; 16],
    };
    engine.create_volume(new).await.expect("a new volume")
}

/// A pool whose log is full because its dense tier does not answer, two volumes full of ones, and one that hosts write
/// without end.
struct Full {
    pool: Pool,
    engine: Rc<Engine>,
    volumes: [VolumeId; 2],
    /// Of the writes without end.
    busy: Recall,
}

impl Full {
    /// The writes without end are of so many blocks, one record each.
    fn of(seed: u64, blocks: u64) -> Self {
        let mut pool = Pool::new(seed, 1, 1);
        pool.set_lanes(1);
        pool.config.bypass = false;
        pool.config.lane.batch_blocks_max = blocks.max(64);
        let engine = pool.create();
        let inner = Rc::clone(&engine);
        let (volumes, busy) = pool.executor.block_on(async move {
            let volumes = [volume(&inner, 1).await, volume(&inner, 2).await];
            for of in volumes {
                let ones = content(1, BLOCKS as usize);
                let done = inner.write(of, Lba(0), ones, false).await;
                done.expect("a write");
            }
            (volumes, volume(&inner, 3).await)
        });
        pool.executor.drain();
        pool.dense.holds_writes.set(true);
        let (inner, recall) = (Rc::clone(&engine), Recall::default());
        let (world, host) = (Rc::clone(&pool.executor) as Rc<dyn World>, recall.clone());
        let _busy = world.run(async move {
            for step in 0.. {
                let lba = Lba(step * blocks % (BLOCKS - blocks));
                let data = content(9, blocks as usize);
                if let Err(error) = inner.write_for(&host, busy, lba, data, false).await {
                    assert_eq!(error, EngineError::Recalled);
                    return;
                }
            }
        });
        let waits = || {
            engine
                .waits()
                .get("log_waiters")
                .is_some_and(|one| *one > 0)
        };
        assert!(pool.executor.turns(400_000, waits), "hosts wait");
        // Until nothing moves any more.
        pool.executor.turns(100_000, || false);
        Self {
            pool,
            engine,
            volumes,
            busy: recall,
        }
    }

    /// Writes all ranges, of a host that is recalled by this.
    fn write(&self, recall: &Recall, volume: VolumeId, stamp: u8) -> Vec<Receiver<Outcome>> {
        let write = |(lba, length): (u64, usize)| {
            let (engine, recall) = (Rc::clone(&self.engine), recall.clone());
            let world = Rc::clone(&self.pool.executor) as Rc<dyn World>;
            world.run(async move {
                let data = content(stamp, length);
                engine
                    .write_for(&recall, volume, Lba(lba), data, false)
                    .await
            })
        };
        RANGES.map(write).into()
    }

    /// The first byte of each block.
    fn read(&self, volume: VolumeId) -> Vec<u8> {
        let engine = Rc::clone(&self.engine);
        let read = async move {
            engine
                .read(volume, Lba(0), Blocks::zeroed(BLOCKS as usize))
                .await
        };
        let blocks = self.pool.executor.block_on(read).expect("blocks");
        blocks.bytes().iter().step_by(BLOCK).copied().collect()
    }
}

fn outcomes(writes: &mut [Receiver<Outcome>]) -> Vec<Option<Outcome>> {
    writes.iter_mut().map(Receiver::try_take).collect()
}

/// What waits goes at once, though nothing else moves; what others wrote is done when there is room, and nothing that
/// was set aside for the lost ones stays so.
#[test]
fn writes_of_a_lost_host_are_not_done() {
    let full = Full::of(5, 16);
    let pending = || full.engine.waits()["pending_blocks"];
    // Of the busy one.
    let before = pending();
    let (lost, kept) = (Recall::default(), Recall::default());
    let mut recalled = full.write(&lost, full.volumes[0], 2);
    full.pool.executor.turns(10_000, || false);
    assert!(pending() > before, "set aside");
    let mut left = full.write(&kept, full.volumes[1], 3);
    full.pool.executor.turns(10_000, || false);
    assert_eq!(outcomes(&mut recalled), [None; RANGES.len()]);
    lost.recall();
    full.pool.executor.turns(10_000, || false);
    let gone = Some(Err(EngineError::Recalled));
    assert_eq!(outcomes(&mut recalled), [gone; RANGES.len()]);
    assert_eq!(outcomes(&mut left), [None; RANGES.len()]);
    let blocks = RANGES.map(|(_, length)| length as u64).iter().sum::<u64>();
    assert_eq!(pending(), before + blocks, "those of the other host alone");
    // One more of it does not even wait.
    let mut late = full.write(&lost, full.volumes[0], 4);
    full.pool.executor.turns(10_000, || false);
    assert_eq!(outcomes(&mut late), [gone; RANGES.len()]);

    full.pool.dense.release();
    let mut ended = vec![None; RANGES.len()];
    full.pool.executor.turns(1_000_000, || {
        for (ended, now) in ended.iter_mut().zip(outcomes(&mut left)) {
            *ended = ended.or(now);
        }
        ended.iter().all(Option::is_some)
    });
    assert_eq!(ended, [Some(Ok(())); RANGES.len()]);
    assert_eq!(full.read(full.volumes[0]), [1; BLOCKS as usize]);
    let mut expected = [1; BLOCKS as usize];
    for (lba, length) in RANGES {
        expected[lba as usize..lba as usize + length].fill(3);
    }
    assert_eq!(full.read(full.volumes[1]), expected);
    let counters = full.engine.counters();
    assert!(
        counters["writes_recalled"] >= 2 * RANGES.len() as u64,
        "{counters:?}"
    );
}

/// The write whose turn it is needs more room than there is. When it is recalled, a smaller one behind it passes,
/// though nothing was freed.
#[test]
fn the_gate_does_not_wait_for_a_write_that_is_gone() {
    let full = Full::of(5, 128);
    let turns = |most| full.pool.executor.turns(most, || false);
    turns(100_000);
    let waiting = full.engine.waits();
    assert!(waiting["log_waiters"] > 0, "{waiting:?}");
    let (engine, volume) = (Rc::clone(&full.engine), full.volumes[1]);
    let world = Rc::clone(&full.pool.executor) as Rc<dyn World>;
    let mut behind =
        world.run(async move { engine.write(volume, Lba(1), content(2, 1), false).await });
    turns(10_000);
    assert_eq!(behind.try_take(), None, "it waits for its turn");
    full.busy.recall();
    turns(10_000);
    let waits = full.engine.waits();
    assert_eq!(behind.try_take(), Some(Ok(())), "{waiting:?}\n{waits:?}");
}
