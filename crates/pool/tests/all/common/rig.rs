//! A pool in use on drives in memory, and what its only volume must hold.

use super::ram::{Ram, RamDrive};
use super::{ME, POOL, Rng, TestWorld, as_world};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use varve_ftl::{EngineError, NewVolume};
use varve_io::{Blocks, Drive};
use varve_pool::label::{MemberId, MemberState, Role};
use varve_pool::{
    NewPool, Pool, PoolError, PoolOptions, Progress, Protect, Settings, Slot, SlotState, Tuning,
};
use varve_units::{Lba, Nanos, TenantId, VolumeId};

pub const MIB: u64 = 1 << 20;
pub const BLOCKS: u64 = 1200;

pub const OPTIONS: PoolOptions = PoolOptions {
    chunk_bytes: MIB,
    slices: 4,
    protect: Protect::Parity,
    strip_blocks: 4,
    zone_strips: 4,
    over_provision_per_mille: 200,
};

pub const fn settings(accept_loss: bool) -> Settings {
    Settings {
        owner: ME,
        take_over: false,
        accept_loss,
        beat: None,
        lanes: 1,
        map_bytes: 4 * MIB,
        elided: false,
        tuning: Tuning::USUAL,
        bypass: true,
        canary: None,
    }
}

pub const fn fast(number: u8) -> Slot {
    Slot {
        role: Role::Fast,
        number,
    }
}

pub const fn dense(number: u8) -> Slot {
    Slot {
        role: Role::Dense,
        number,
    }
}

pub fn fast_drive() -> Rc<Ram> {
    Ram::new(20 * MIB, 512)
}

pub fn dense_drive() -> Rc<Ram> {
    Ram::new(9 * MIB, 512)
}

/// A pool in use, its drives, and what its only volume must hold.
#[derive(Clone)]
pub struct Rig {
    pub world: Rc<TestWorld>,
    pub drives: Vec<Rc<Ram>>,
    /// What the pool was given of them, not kept open by this.
    pub handles: Vec<Weak<dyn Drive>>,
    pub pool: Rc<Pool>,
    pub volume: VolumeId,
    pub content: Rc<RefCell<BTreeMap<u64, u8>>>,
}

pub fn attach(world: &Rc<TestWorld>, drives: &[Rc<Ram>]) -> Vec<Rc<dyn Drive>> {
    let drives = drives.iter();
    drives.map(|ram| RamDrive::attach(world, ram)).collect()
}

impl Rig {
    /// A new pool of two fast and `dense` dense drives.
    pub fn new(dense: usize, seed: u64) -> Self {
        Self::of(dense, seed, OPTIONS)
    }

    /// The same with other sizes.
    pub fn of(dense: usize, seed: u64, options: PoolOptions) -> Self {
        let world = TestWorld::new(seed);
        let mut drives = vec![fast_drive(), fast_drive()];
        drives.resize_with(2 + dense, dense_drive);
        let attached = attach(&world, &drives);
        let handles = attached.iter().map(Rc::downgrade).collect();
        let seat = as_world(&world);
        let (pool, volume) = run(&world, async move {
            let (fast, dense) = attached.split_at(2);
            let new = NewPool {
                id: POOL,
                name: "shelf",
                fast,
                dense,
                options,
            };
            let pool = Pool::create(seat, new, settings(false)).await.unwrap();
            let new = NewVolume {
                name: "v",
                size: varve_units::Blocks(BLOCKS),
                tenant: TenantId(1),
                uuid: [1; 16],
                nguid: [2; 16],
            };
            let volume = pool.engine().create_volume(new).await.unwrap();
            (pool, volume)
        });
        Self {
            world,
            drives,
            handles,
            pool: Rc::new(pool),
            volume,
            content: Rc::default(),
        }
    }

    /// Writes `count` runs of a few blocks anywhere.
    pub async fn fill(self, seed: u64, count: u64) {
        let mut rng = Rng::new(seed);
        for _ in 0..count {
            let length = 1 + rng.below(16);
            let lba = rng.below(BLOCKS - length);
            let byte = 1 + rng.below(255) as u8;
            let write = async || {
                let mut data = Blocks::zeroed(length as usize);
                data.bytes_mut().fill(byte);
                let engine = self.pool.engine();
                engine.write(self.volume, Lba(lba), data, false).await
            };
            let mut done = write().await;
            while done == Err(EngineError::DenseAway) {
                as_world(&self.world).sleep(Nanos::from_millis(10)).await;
                done = write().await;
            }
            done.unwrap();
            let mut content = self.content.borrow_mut();
            content.extend((lba..lba + length).map(|lba| (lba, byte)));
        }
    }

    pub fn write(&self, seed: u64, count: u64) {
        run(&self.world, self.clone().fill(seed, count));
    }

    /// Reads everything.
    pub fn check(&self) {
        let rig = self.clone();
        run(&self.world, async move {
            for lba in 0..BLOCKS {
                let engine = rig.pool.engine();
                let block = engine.read(rig.volume, Lba(lba), Blocks::zeroed(1)).await;
                let block = block.unwrap_or_else(|error| panic!("block {lba}: {error}"));
                let byte = rig.content.borrow().get(&lba).copied().unwrap_or(0);
                assert!(
                    block.bytes().iter().all(|&found| found == byte),
                    "block {lba}"
                );
            }
        });
    }

    /// Replaces a lost drive while a host writes.
    pub fn replace(&mut self, slot: Slot, index: usize, ram: Rc<Ram>) {
        self.drives[index] = ram;
        let drive = RamDrive::attach(&self.world, &self.drives[index]);
        let world = as_world(&self.world);
        world.spawn(Box::pin(self.clone().fill(index as u64 + 77, 400)));
        let pool = Rc::clone(&self.pool);
        let restored = run(&self.world, async move {
            let mut last = 0;
            let mut note = |progress: Progress| {
                assert!(progress.done > last && progress.done <= progress.total);
                last = progress.done;
            };
            pool.replace(slot, drive, &mut note).await.unwrap()
        });
        assert!(restored.bytes > MIB / 4 && restored.unreadable.is_empty());
        assert_eq!(self.state(slot), SlotState::Live);
        self.world.drain();
    }

    pub fn state(&self, slot: Slot) -> SlotState {
        let slots = self.pool.slots();
        slots.iter().find(|found| found.slot == slot).unwrap().state
    }

    pub fn row(&self, id: u32) -> MemberState {
        let state = self.pool.membership().state();
        state.members.get(MemberId(id)).unwrap().state
    }

    /// The process dies; another imports whatever answers.
    pub fn restart(&mut self, seed: u64) {
        self.world.clear();
        self.world = TestWorld::new(seed);
        let attached = attach(&self.world, &self.drives);
        self.handles = attached.iter().map(Rc::downgrade).collect();
        let seat = as_world(&self.world);
        let pool = run(&self.world, async move {
            Pool::open(seat, &attached, None, settings(false)).await
        });
        self.pool = Rc::new(pool.unwrap());
    }

    /// Which drives somebody has open.
    pub fn held(&self) -> Vec<bool> {
        let handles = self.handles.iter();
        handles.map(|handle| handle.strong_count() > 0).collect()
    }
}

pub fn run<T: 'static>(world: &Rc<TestWorld>, flow: impl Future<Output = T> + 'static) -> T {
    world.run(u64::MAX, flow).expect("no limit of steps")
}

pub fn open(world: &Rc<TestWorld>, drives: &[Rc<Ram>], accept: bool) -> Result<Pool, PoolError> {
    let (seat, attached) = (as_world(world), attach(world, drives));
    run(world, async move {
        Pool::open(seat, &attached, None, settings(accept)).await
    })
}
