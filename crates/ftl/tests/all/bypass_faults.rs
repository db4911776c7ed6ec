//! What passes the log while the dense tier answers late, is away, or does not answer at all.
//!
//! Each property is held to be true of the same pools with and without bypass: what the log does without is what
//! hosts may expect.

use crate::common::{Pool, first_word};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use varve_ftl::{Engine, EngineError, NewVolume};
use varve_io::{Blocks, World};
use varve_units::{BLOCK, Blocks as Count, Lba, TenantId, VolumeId};

/// Blocks of each volume that are written.
const SPAN: u64 = 800;
/// Blocks of a write that may pass, and of one that is too short to.
const LONG: u64 = 16;
const SHORT: u64 = 12;

/// A volume whose writes may be in flight side by side, and what each of its blocks should begin with.
#[derive(Clone)]
struct Disk {
    engine: Rc<Engine>,
    volume: VolumeId,
    model: Rc<RefCell<Vec<u64>>>,
}

impl Disk {
    fn new(pool: &Pool, engine: &Rc<Engine>, number: u8) -> Self {
        let inner = Rc::clone(engine);
        let create = async move {
            let name = format!("disk-{number}");
            let new = NewVolume {
                name: &name,
                size: Count(SPAN),
                tenant: TenantId(1),
                uuid: [number; 16],
                nguid: [number; 16],
            };
            inner.create_volume(new).await.expect("a new volume")
        };
        Self {
            engine: Rc::clone(engine),
            volume: pool.executor.block_on(create),
            model: Rc::new(RefCell::new(vec![0; SPAN as usize])),
        }
    }

    async fn write(&self, lba: u64, length: u64, stamp: u64) {
        let mut data = Blocks::zeroed(length as usize);
        for (index, block) in data.bytes_mut().chunks_mut(BLOCK).enumerate() {
            let word = (stamp << 20) + lba + index as u64;
            block[..8].copy_from_slice(&word.to_le_bytes());
            self.model.borrow_mut()[lba as usize + index] = word;
        }
        let done = self.engine.write(self.volume, Lba(lba), data, false).await;
        // A refusal is an answer; what it was to write is missed where it is read.
        let is_answer = matches!(done, Ok(()) | Err(EngineError::DenseAway));
        assert!(is_answer, "a write in range, within capacity: {done:?}");
    }

    /// Writes the first `to` blocks in order, `depth` writes at a time, asked for in that order as by a host's queue.
    async fn in_order(self, to: u64, length: u64, depth: usize, stamp: u64) {
        let lbas: Vec<u64> = (0..to).step_by(length as usize).collect();
        for some in lbas.chunks(depth) {
            let begin = |&lba: &u64| {
                let disk = self.clone();
                let length = length.min(to - lba);
                let write = async move { disk.write(lba, length, stamp).await };
                Some(Box::pin(write) as Pin<Box<dyn Future<Output = ()>>>)
            };
            let mut running: Vec<_> = some.iter().map(begin).collect();
            let all_ended = poll_fn(move |context| {
                for slot in &mut running {
                    if let Some(write) = slot
                        && write.as_mut().poll(context).is_ready()
                    {
                        *slot = None;
                    }
                }
                if running.iter().all(Option::is_none) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            });
            all_ended.await;
        }
    }

    /// Blocks that hold something else than was written last.
    async fn wrong(self) -> Vec<String> {
        let mut wrong = Vec::new();
        for lba in 0..SPAN {
            let wanted = self.model.borrow()[lba as usize];
            let into = Blocks::zeroed(1);
            match self.engine.read(self.volume, Lba(lba), into).await {
                Ok(block) if first_word(&block) == wanted => {}
                Ok(block) => wrong.push(format!("{lba}: {:x}, not {wanted:x}", first_word(&block))),
                Err(error) => wrong.push(format!("{lba}: {error}")),
            }
        }
        wrong
    }
}

/// A pool of one reactor with two volumes.
struct Rig {
    pool: Pool,
    engine: Rc<Engine>,
    disks: [Disk; 2],
}

impl Rig {
    fn new(seed: u64, copies: u8, bypass: bool, nodes: usize) -> Self {
        Self::on(Pool::new(seed, 1, copies), bypass, nodes)
    }

    fn on(mut pool: Pool, bypass: bool, nodes: usize) -> Self {
        pool.config.lanes = 1;
        pool.config.bypass = bypass;
        pool.config.map.delta_nodes = nodes;
        let engine = pool.create();
        let disks = [1, 2].map(|number| Disk::new(&pool, &engine, number));
        Self {
            pool,
            engine,
            disks,
        }
    }

    fn passed(&self) -> u64 {
        let counters = self.engine.counters();
        counters.get("bypassed_blocks").copied().unwrap_or(0)
    }

    /// Begins a flow; true once it has ended.
    fn begin(&self, flow: impl Future<Output = ()> + 'static) -> Rc<Cell<bool>> {
        let ended = Rc::new(Cell::new(false));
        let end = Rc::clone(&ended);
        let world = &*self.pool.executor as &dyn World;
        drop(world.run(async move {
            flow.await;
            end.set(true);
        }));
        ended
    }

    /// Both at once: the first `to` blocks in order in writes of `length` that may pass, and in short ones that fill the log.
    fn begin_both(
        &self,
        (to, length, depth): (u64, u64, usize),
        stamp: u64,
    ) -> [Rc<Cell<bool>>; 2] {
        let [long, short] = self.disks.clone();
        [
            self.begin(long.in_order(to, length, depth, stamp)),
            self.begin(short.in_order(to, SHORT, 4, stamp)),
        ]
    }

    /// Takes turns until something is true. False if it is not after so many.
    fn turn_until(&self, turns: usize, mut is_so: impl FnMut() -> bool) -> bool {
        (0..turns).any(|_| {
            self.pool.executor.turn();
            is_so()
        })
    }

    fn run_both(&self, shape: (u64, u64, usize), stamp: u64) {
        let ended = self.begin_both(shape, stamp);
        let all_ended = || ended.iter().all(|ended| ended.get());
        assert!(self.turn_until(4_000_000, all_ended), "hosts stand still");
    }
}

/// A stripe of which the tier stored all, and said that it had come to nothing, has the P2L that its place will
/// have; if what is written there next is lost on one copy, that P2L counts. So it has to be the same.
fn wrong_after_late_answers(bypass: bool) -> (u64, Vec<String>) {
    let (mut passed, mut wrong) = (0, Vec::new());
    for seed in 0..40 {
        let rig = Rig::new(seed, 2, bypass, 128);
        rig.pool.dense.late_every.set(5);
        (1..10).for_each(|stamp| rig.run_both((SPAN, LONG, 8), stamp));
        // Nothing fails any more. Three quarters of what passed are overwritten, so that groups are collected
        // that hold the rest of it.
        rig.pool.dense.late_every.set(0);
        for stamp in 10..30 {
            let [long, short] = rig.disks.clone();
            rig.pool.executor.block_on(async move {
                for (index, lba) in (0..SPAN - SHORT).step_by(SHORT as usize).enumerate() {
                    if index % 4 != 0 {
                        long.write(lba, SHORT, stamp).await;
                    }
                    short.write(lba, SHORT, stamp).await;
                }
            });
        }
        rig.pool.executor.drain();
        passed += rig.passed();
        for disk in rig.disks.clone() {
            let blocks = rig.pool.executor.block_on(disk.wrong());
            wrong.extend(
                blocks
                    .first()
                    .map(|first| format!("seed {seed}, block {first}")),
            );
        }
        let engine = Rc::clone(&rig.engine);
        let audit = rig
            .pool
            .executor
            .block_on(async move { engine.audit().await });
        wrong.extend(audit.err().map(|error| format!("seed {seed}: {error}")));
    }
    (passed, wrong)
}

#[test]
fn a_refused_stripe_is_written_again_as_it_was() {
    let (passed, wrong) = wrong_after_late_answers(true);
    assert!(passed > 1000, "{passed} blocks");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(wrong_after_late_answers(false), (0, Vec::new()));
}

/// Blocks that pass while whole leaves are written at once: their records take 190 delta nodes together.
fn passed_in_whole_leaves(bypass: bool, nodes: usize) -> u64 {
    let mut passed = 0;
    for seed in 0..8 {
        let rig = Rig::new(seed, 1, bypass, nodes);
        (1..6).for_each(|stamp| {
            let [_, short] = rig.disks.clone();
            let ended = rig.begin(short.in_order(SPAN, SHORT, 4, stamp));
            assert!(
                rig.turn_until(1_000_000, || ended.get()),
                "the log stands still"
            );
        });
        (7..11).for_each(|stamp| rig.run_both((SPAN, 512, 2), stamp));
        passed += rig.passed();
    }
    passed
}

/// A write that needs more delta nodes than a shard has, or most of them, is written through the log.
#[test]
fn whole_leaves_pass_where_there_are_delta_nodes() {
    assert_eq!(passed_in_whole_leaves(true, 128), 0);
    assert!(passed_in_whole_leaves(true, 1024) > 0);
    assert_eq!(passed_in_whole_leaves(false, 1024), 0);
}

/// Writes in order that stand still, though others find room, after the dense tier has gone.
fn standing_still(bypass: bool) -> Vec<u64> {
    let mut seeds = Vec::new();
    for seed in 0..12 {
        let rig = Rig::new(seed, 1, bypass, 128);
        rig.run_both((SPAN, LONG, 8), 1);
        rig.pool.executor.drain();
        // Once more, until something passes.
        let before = rig.passed();
        let [ended, _] = rig.begin_both((SPAN, LONG, 8), 2);
        rig.turn_until(20_000, || ended.get() || rig.passed() > before);
        rig.pool.dense.gone.set(true);
        rig.turn_until(200_000, || ended.get());
        let others = (0..10).all(|index| {
            let [_, short] = rig.disks.clone();
            let one = rig.begin(async move { short.write(index * SHORT, SHORT, 3).await });
            rig.turn_until(20_000, || one.get())
        });
        if others && !ended.get() {
            seeds.push(seed);
        }
    }
    seeds
}

#[test]
fn nobody_waits_for_a_tier_that_is_away() {
    assert_eq!(standing_still(true), []);
    assert_eq!(standing_still(false), []);
}

/// Pools of one group for compaction and garbage collection where hosts get no answer once the tier takes no writes: the one
/// holds the turn for a stripe that is refused again and again, what passes the log waits for the turn.
fn unanswered(bypass: bool) -> (u64, Vec<u64>) {
    let (mut passed, mut seeds) = (0, Vec::new());
    for seed in 0..24 {
        let pool = Pool::new(seed, 1, 1);
        pool.dense.handles.set(1);
        let rig = Rig::on(pool, bypass, 128);
        // Groups die in part, so that there is something to collect.
        (1..6).for_each(|stamp| rig.run_both((SPAN, LONG, 8), stamp));
        (0..SPAN / SHORT / 2).for_each(|index| {
            let [long, _] = rig.disks.clone();
            let scattered = index * 2 * SHORT;
            let write = async move { long.write(scattered, SHORT, 6).await };
            rig.pool.executor.block_on(write);
        });
        let before = rig.passed();
        let ended = rig.begin_both((SPAN, LONG, 8), 7);
        let collects = || rig.engine.waits()["groups_collected_now"] > 0;
        rig.turn_until(20_000, || rig.passed() > before && collects());
        passed += rig.passed() - before;
        rig.turn_until(seed as usize * 7, || false);
        rig.pool.dense.read_only.set(true);
        if !rig.turn_until(400_000, || ended.iter().all(|ended| ended.get())) {
            seeds.push(seed);
        }
    }
    (passed, seeds)
}

#[test]
fn all_are_answered_while_the_tier_takes_nothing() {
    let (passed, seeds) = unanswered(true);
    assert!(passed > 1000, "{passed} blocks");
    assert_eq!(seeds, []);
    assert_eq!(unanswered(false), (0, Vec::new()));
}

/// Writes that have not ended in an engine that stopped while its dense tier answered nothing.
fn forgotten(bypass: bool) -> usize {
    let mut forgotten = 0;
    for seed in 0..24 {
        let rig = Rig::new(seed, 1, bypass, 128);
        rig.run_both((SPAN, LONG, 8), 1);
        rig.pool.executor.drain();
        rig.run_both((SPAN / 2, LONG, 8), 2);
        rig.pool.dense.silent.set(true);
        let [long, short] = rig.disks.clone();
        let mut ended = Vec::new();
        let mut spawn = |disk: &Disk, lba: u64, length: u64| {
            let disk = disk.clone();
            ended.push(rig.begin(async move {
                let data = Blocks::zeroed(length as usize);
                let _ = disk.engine.write(disk.volume, Lba(lba), data, false).await;
            }));
            rig.pool.executor.turn();
        };
        (SPAN / 2..SPAN - LONG)
            .step_by(LONG as usize)
            .for_each(|lba| spawn(&long, lba, LONG));
        rig.turn_until(20_000, || false);
        rig.pool.fast.gone.set(true);
        (0..4).for_each(|index| {
            let disk = short.clone();
            ended.push(rig.begin(async move {
                let data = Blocks::zeroed(SHORT as usize);
                let _ = disk
                    .engine
                    .write(disk.volume, Lba(index * SHORT), data, false)
                    .await;
            }));
        });
        rig.turn_until(50_000, || false);
        assert!(rig.engine.stop_reason().is_some(), "its log is gone");
        forgotten += ended.iter().filter(|ended| !ended.get()).count();
    }
    forgotten
}

#[test]
fn an_engine_that_stops_tells_all() {
    assert_eq!(forgotten(true), 0);
    assert_eq!(forgotten(false), 0);
}
