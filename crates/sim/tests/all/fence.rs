//! Two machines reach the same drives: one takes over the pool that the other has.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use varve_ftl::{NewVolume, StopReason};
use varve_io::{Blocks, Command, Completion, Drive, DriveInfo, World};
use varve_pool::label::{CommitError, ImportError, Owner, PoolId, RESERVED_BYTES, Role, Taken};
use varve_pool::{BEAT, NewPool, Pool, PoolError, PoolOptions, Protect, Settings, Slot, Tuning};
use varve_sim::atlas::{Atlas, Extent, Layout, Scheme, Tier};
use varve_sim::drive::{DriveSpec, SimDrive};
use varve_sim::executor::{Executor, Reactor};
use varve_sim::rng::Rng;
use varve_units::{Lba, Nanos, TenantId, VolumeId};

const MIB: u64 = 1 << 20;
const BLOCKS: u64 = 500;
const HERE: Owner = Owner([1; 16]);
const THERE: Owner = Owner([2; 16]);
const ELSEWHERE: Owner = Owner([3; 16]);
const SEEDS: std::ops::Range<u64> = 0..6;
const SECOND: Nanos = Nanos::from_secs(1);

/// When a machine wrote, and what: labels and all else.
#[derive(Default)]
struct Tally {
    labels: Cell<u64>,
    others: Cell<u64>,
    first_other: Cell<Option<Nanos>>,
    last: Cell<Nanos>,
}

impl Tally {
    fn all(&self) -> u64 {
        self.labels.get() + self.others.get()
    }
}

/// A drive as one machine reaches it.
struct Tallied {
    drive: Rc<dyn Drive>,
    clock: Rc<Reactor>,
    tally: Rc<Tally>,
}

impl Drive for Tallied {
    fn info(&self) -> DriveInfo {
        self.drive.info()
    }

    fn submit(&self, command: Command) -> Completion {
        let Tally {
            labels,
            others,
            first_other,
            last,
        } = &*self.tally;
        let offset = match &command {
            Command::Write { offset, .. }
            | Command::Repair { offset, .. }
            | Command::Discard { offset, .. } => Some(*offset),
            Command::Read { .. } | Command::Flush => None,
        };
        match offset {
            Some(offset) if offset < RESERVED_BYTES => labels.set(labels.get() + 1),
            Some(_) => {
                others.set(others.get() + 1);
                first_other.set(first_other.get().or(Some(self.clock.now())));
            }
            None => return self.drive.submit(command),
        }
        last.set(self.clock.now());
        self.drive.submit(command)
    }
}

/// The drives, and the clock of all machines: two fast ones, a dense tier of three.
struct Shelf {
    drives: Vec<SimDrive>,
    world: Rc<Reactor>,
}

impl Shelf {
    fn new(seed: u64, executor: &Executor) -> Rc<Self> {
        let tier = |first: usize, count: usize, bytes: u64| Tier {
            scheme: Scheme::Mirror,
            extents: (first..first + count)
                .map(|drive| Extent {
                    drive,
                    base: RESERVED_BYTES,
                    bytes: bytes - RESERVED_BYTES,
                })
                .collect(),
        };
        let bytes = |drive: usize| if drive < 2 { 20 * MIB } else { 9 * MIB };
        let atlas = Rc::new(RefCell::new(Atlas::new(Layout {
            drives: 5,
            tiers: vec![tier(0, 2, bytes(0)), tier(2, 3, bytes(2))],
            guard_bytes: 0,
            losses_max: 1,
        })));
        let drive = |index: usize| {
            let spec = DriveSpec {
                bytes: bytes(index),
                lba_bytes: 512,
                volatile_cache: true,
                handles: 1,
                gap_blocks: 0,
                hangs_repairs: false,
            };
            let rng = Rng::new(seed).split_at("drive", index as u64);
            SimDrive::new(index, spec, rng, Rc::clone(&atlas))
        };
        Rc::new(Self {
            drives: (0..5).map(drive).collect(),
            world: executor.reactor(),
        })
    }

    fn clock(&self) -> Rc<dyn World> {
        Rc::clone(&self.world) as Rc<dyn World>
    }

    /// The drives as one more machine reaches them, and what it will have written.
    fn reach(&self) -> (Vec<Rc<dyn Drive>>, Rc<Tally>) {
        let tally = Rc::new(Tally::default());
        let attached = self.drives.iter().map(|drive| {
            Rc::new(Tallied {
                drive: drive.attach(&self.world),
                clock: Rc::clone(&self.world),
                tally: Rc::clone(&tally),
            }) as Rc<dyn Drive>
        });
        (attached.collect(), tally)
    }

    async fn import(
        &self,
        drives: &[Rc<dyn Drive>],
        owner: Owner,
        take_over: bool,
    ) -> Result<Pool, PoolError> {
        let settings = Settings {
            take_over,
            ..settings(owner)
        };
        Pool::open(self.clock(), drives, None, settings).await
    }
}

fn settings(owner: Owner) -> Settings {
    Settings {
        owner,
        take_over: false,
        accept_loss: false,
        beat: Some(BEAT),
        lanes: 1,
        map_bytes: 4 * MIB,
        elided: false,
        tuning: Tuning::USUAL,
        bypass: true,
        canary: None,
    }
}

/// A machine that has the pool.
#[derive(Clone)]
struct Machine {
    shelf: Rc<Shelf>,
    pool: Rc<Pool>,
    tally: Rc<Tally>,
    volume: VolumeId,
    /// What hosts were told is there.
    content: Rc<RefCell<BTreeMap<u64, u8>>>,
    /// It stands still: neither hosts nor heartbeats get on.
    is_still: Rc<Cell<bool>>,
    /// When a heartbeat found that the pool is another's.
    stopped: Rc<Cell<Option<Nanos>>>,
}

impl Machine {
    async fn create(shelf: &Rc<Shelf>) -> Self {
        let (drives, tally) = shelf.reach();
        let (fast, dense) = drives.split_at(2);
        let options = PoolOptions {
            chunk_bytes: MIB,
            slices: 4,
            protect: Protect::Parity,
            strip_blocks: 4,
            zone_strips: 4,
            over_provision_per_mille: 200,
        };
        let new = NewPool {
            id: PoolId([7; 16]),
            name: "shelf",
            fast,
            dense,
            options,
        };
        let pool = Pool::create(shelf.clock(), new, settings(HERE)).await;
        let pool = pool.expect("blank drives");
        let new = NewVolume {
            name: "v",
            size: varve_units::Blocks(BLOCKS),
            tenant: TenantId(1),
            uuid: [1; 16],
            nguid: [2; 16],
        };
        let volume = pool.engine().create_volume(new).await.expect("room");
        Self {
            shelf: Rc::clone(shelf),
            pool: Rc::new(pool),
            tally,
            volume,
            content: Rc::default(),
            is_still: Rc::default(),
            stopped: Rc::default(),
        }
    }

    /// Heartbeats, until one finds that they are over.
    fn beat(&self) {
        let one = self.clone();
        self.shelf.world.spawn(Box::pin(async move {
            loop {
                one.shelf.world.sleep(BEAT).await;
                while one.is_still.get() {
                    one.shelf.world.sleep(Nanos::from_millis(100)).await;
                }
                if one.pool.beat().await.is_err() {
                    one.stopped.set(Some(one.shelf.world.now()));
                    return;
                }
            }
        }));
    }

    /// Hosts that write, until they get errors.
    fn serve(&self, seed: u64) {
        let one = self.clone();
        self.shelf.world.spawn(Box::pin(async move {
            let mut rng = Rng::new(seed);
            loop {
                one.shelf
                    .world
                    .sleep(Nanos::from_millis(rng.below(50)))
                    .await;
                if one.is_still.get() {
                    continue;
                }
                let (lba, byte) = (rng.below(BLOCKS), 1 + rng.below(255) as u8);
                // What is in flight may be there or not.
                one.content.borrow_mut().remove(&lba);
                let mut data = Blocks::zeroed(1);
                data.bytes_mut().fill(byte);
                let write = one.pool.engine().write(one.volume, Lba(lba), data, true);
                if write.await.is_err() {
                    return;
                }
                one.content.borrow_mut().insert(lba, byte);
            }
        }));
    }

    /// Everything that hosts were told is there, is in `pool`.
    async fn check(&self, pool: &Pool) {
        let content = self.content.borrow().clone();
        assert!(content.len() > 100, "hosts wrote");
        for (lba, byte) in content {
            let read = pool.engine().read(self.volume, Lba(lba), Blocks::zeroed(1));
            let read = read.await.expect("it is there");
            assert!(read.bytes().iter().all(|found| *found == byte), "{lba}");
        }
    }
}

fn each_seed<F: Future<Output = ()> + 'static>(story: impl Fn(u64, Rc<Shelf>) -> F) {
    for seed in SEEDS {
        let mut executor = Executor::new(Rc::default(), Rng::new(seed), Nanos(0));
        let shelf = Shelf::new(seed, &executor);
        // Machines stand still here, and nobody tells that anything ended.
        shelf.world.set_patience(Nanos::from_secs(1 << 20));
        executor.run(story(seed, shelf)).expect("the story ends");
    }
}

/// An owner that stood still for long wakes up when another machine has claimed its pool: its next heartbeat ends it, and
/// it has written its last before the other one writes its first.
#[test]
fn an_owner_that_was_taken_over_writes_nothing_more() {
    each_seed(|seed, shelf| async move {
        let old = Machine::create(&shelf).await;
        old.beat();
        old.serve(seed);
        shelf.world.sleep(Nanos::from_secs(60)).await;
        old.is_still.set(true);
        let (drives, tally) = shelf.reach();
        let (waking, new_tally) = (old.clone(), Rc::clone(&tally));
        shelf.world.spawn(Box::pin(async move {
            while new_tally.labels.get() == 0 {
                waking.shelf.world.sleep(Nanos::from_millis(100)).await;
            }
            waking.is_still.set(false);
        }));
        let new = shelf
            .import(&drives, THERE, true)
            .await
            .expect("it is still");
        let stopped = old.stopped.get().expect("its heartbeat told it");
        let first = tally.first_other.get().expect("a start writes");
        assert!(stopped < first && old.tally.last.get() < first);
        let Some(Taken::Claimed { epoch, .. }) = old.pool.taken() else {
            panic!("{:?}", old.pool.taken());
        };
        assert_eq!(epoch, new.membership().state().epoch);
        assert_eq!(old.pool.engine().stop_reason(), Some(StopReason::Fenced));
        old.check(&new).await;
        let before = old.tally.all();
        let slot = Slot {
            role: Role::Fast,
            number: 1,
        };
        let refused = old.pool.give_up(slot).await;
        assert!(matches!(
            refused,
            Err(PoolError::Labels(CommitError::Fenced(_)))
        ));
        let closed = old.pool.close(false).await;
        assert!(matches!(
            closed,
            Err(PoolError::Stopped(StopReason::Fenced))
        ));
        shelf.world.sleep(Nanos::from_secs(60)).await;
        assert_eq!(old.tally.all(), before);
        new.close(false).await.expect("nobody is in its way");
    });
}

/// An owner that lives is not taken over, whatever it does beside its heartbeats.
#[test]
fn an_owner_that_lives_is_not_taken_over() {
    each_seed(|seed, shelf| async move {
        let old = Machine::create(&shelf).await;
        old.beat();
        old.serve(seed);
        shelf.world.sleep(Nanos::from_secs(60)).await;
        let (drives, tally) = shelf.reach();
        let refused = shelf.import(&drives, THERE, true).await.err();
        let Some(PoolError::Import(ImportError::OwnerAlive {
            owner,
            before,
            heartbeat,
            watched,
        })) = refused
        else {
            panic!("{refused:?}");
        };
        assert!(owner == HERE && heartbeat == before + 1 && watched <= BEAT + SECOND);
        assert_eq!(tally.all(), 0);
        shelf.world.sleep(Nanos::from_secs(60)).await;
        assert_eq!(old.stopped.get(), None);
        old.pool.close(true).await.expect("it is its own");
        // Released, and clean: nobody has to be waited for.
        let before = shelf.world.now();
        let new = shelf.import(&drives, THERE, false).await.expect("released");
        assert!(shelf.world.now().since(before) < BEAT);
        old.check(&new).await;
    });
}

/// An owner that slept through all of it learns from whatever it would write to its labels first, and from a close.
#[test]
fn whatever_would_change_labels_looks_at_them_first() {
    for what in 0..3 {
        each_seed(move |seed, shelf| async move {
            let old = Machine::create(&shelf).await;
            old.serve(seed);
            shelf.world.sleep(Nanos::from_secs(20)).await;
            old.is_still.set(true);
            shelf.world.sleep(SECOND).await;
            let (drives, _) = shelf.reach();
            let new = shelf
                .import(&drives, THERE, true)
                .await
                .expect("it is still");
            let before = old.tally.all();
            let slot = Slot {
                role: Role::Dense,
                number: 1,
            };
            let outcome = match what {
                0 => old.pool.close(true).await,
                1 => old.pool.give_up(slot).await,
                _ => old.pool.beat().await,
            };
            assert!(outcome.is_err(), "{what}");
            old.is_still.set(false);
            shelf.world.sleep(Nanos::from_secs(60)).await;
            assert_eq!(old.tally.all(), before, "{what}");
            assert_eq!(old.pool.engine().stop_reason(), Some(StopReason::Fenced));
            old.check(&new).await;
        });
    }
}

/// Cut short before the old owner had its time, a take-over has changed nobody's: the pool is the old owner's, and another
/// attempt begins anew.
#[test]
fn a_take_over_that_is_cut_short_is_none() {
    each_seed(|seed, shelf| async move {
        let old = Machine::create(&shelf).await;
        old.serve(seed);
        shelf.world.sleep(Nanos::from_secs(20)).await;
        old.is_still.set(true);
        let (drives, tally) = shelf.reach();
        let cut = Rc::clone(&shelf);
        let mut taking = Box::pin(async move { cut.import(&drives, THERE, true).await.map(drop) });
        // In the middle of the time that the old owner has.
        let mut end = shelf.world.sleep(Nanos::from_secs(45));
        let until = std::future::poll_fn(move |context| {
            let outcome = taking.as_mut().poll(context);
            assert!(outcome.is_pending(), "{outcome:?}");
            Pin::new(&mut end).poll(context)
        });
        until.await;
        assert!(tally.labels.get() >= 13 && tally.others.get() == 0);
        let (drives, _) = shelf.reach();
        let refused = shelf.import(&drives, THERE, false).await.err();
        let Some(PoolError::Import(ImportError::OwnedElsewhere { owner, .. })) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(owner, HERE);
        let before = shelf.world.now();
        let new = shelf
            .import(&drives, THERE, true)
            .await
            .expect("nobody lives");
        assert!(shelf.world.now().since(before) > Nanos(4 * BEAT.0));
        assert!(old.pool.beat().await.is_err());
        old.check(&new).await;
    });
}

/// Two machines take the pool of a third one over at the same time: one has it at most.
#[test]
fn of_two_that_take_over_one_has_the_pool_at_most() {
    let had = Rc::new(Cell::new(0));
    let count = Rc::clone(&had);
    each_seed(move |seed, shelf| {
        let count = Rc::clone(&count);
        async move {
            let old = Machine::create(&shelf).await;
            old.serve(seed);
            shelf.world.sleep(Nanos::from_secs(20)).await;
            old.is_still.set(true);
            let outcomes: Rc<RefCell<Vec<_>>> = Rc::default();
            let mut rng = Rng::new(seed);
            for owner in [THERE, ELSEWHERE] {
                let (shelf, outcomes) = (Rc::clone(&shelf), Rc::clone(&outcomes));
                let late = Nanos::from_millis(rng.below(4) * rng.below(20_000));
                let clock = Rc::clone(&shelf.world);
                clock.spawn(Box::pin(async move {
                    shelf.world.sleep(late).await;
                    let (drives, _) = shelf.reach();
                    let outcome = shelf.import(&drives, owner, true).await;
                    outcomes.borrow_mut().push(outcome);
                }));
            }
            while outcomes.borrow().len() < 2 {
                shelf.world.sleep(SECOND).await;
            }
            let outcomes = outcomes.take();
            let pools = || outcomes.iter().flatten();
            for pool in pools() {
                let _ = pool.beat().await;
            }
            let live: Vec<_> = pools().filter(|pool| pool.taken().is_none()).collect();
            assert!(live.len() <= 1, "seed {seed}");
            if let [pool] = live[..] {
                count.set(count.get() + 1);
                old.check(pool).await;
            }
        }
    });
    assert!(had.get() > 0, "somebody gets it");
}
