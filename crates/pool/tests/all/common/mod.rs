//! A world and drives for tests: seeded order of tasks and completions, volatile caches, crashes.

mod drive;
pub mod ram;
pub mod rig;
mod rng;
mod world;

pub use drive::{Medium, TestDrive};
pub use rng::Rng;
pub use world::TestWorld;

use std::rc::Rc;
use varve_format::{Geometry, Name, Protection};
use varve_io::{Drive, World};
use varve_pool::label::{Finding, LabelStore, Owner, PoolId, Role, create};

pub const POOL: PoolId = PoolId([7; 16]);
pub const ME: Owner = Owner([1; 16]);
pub const OTHER: Owner = Owner([2; 16]);

pub fn name() -> Name {
    Name::new("shelf").unwrap()
}

pub fn geometry() -> Geometry {
    Geometry {
        chunk_bytes: 1 << 20,
        chunks: 64,
        slices: 16,
        group_blocks: 0,
        groups: 0,
        stripe_data_blocks: 0,
        strip_blocks: 0,
        protection: Protection::None,
        data_strips: 0,
        parity_strips: 0,
        lba_bytes: 512,
        fast_bytes: 64 << 20,
        over_provision_per_mille: 70,
    }
}

/// Opens the label stores of these drives, in order, and what they hold.
pub async fn open(
    world: Rc<TestWorld>,
    media: Vec<Rc<Medium>>,
) -> (Vec<Rc<LabelStore>>, Vec<Finding>) {
    let (mut stores, mut found) = (Vec::new(), Vec::new());
    for medium in media {
        let drive: Rc<dyn Drive> = Rc::new(TestDrive::new(Rc::clone(&world), medium));
        let store = Rc::new(LabelStore::open(drive).await);
        found.push(store.finding());
        stores.push(store);
    }
    (stores, found)
}

/// A pool of `fast` + `dense` blank drives.
pub fn new_pool(fast: usize, dense: usize, seed: u64) -> Vec<Rc<Medium>> {
    new_pool_of(geometry(), fast, dense, seed)
}

/// A pool of `fast` + `dense` blank drives with these fixed numbers.
pub fn new_pool_of(geometry: Geometry, fast: usize, dense: usize, seed: u64) -> Vec<Rc<Medium>> {
    let media: Vec<_> = (0..fast + dense).map(|_| Rc::new(Medium::new())).collect();
    let world = TestWorld::new(seed);
    let inner = (Rc::clone(&world), media.clone());
    let done = world.run(u64::MAX, async move {
        let (stores, _) = open(inner.0, inner.1).await;
        let roles = stores.iter().enumerate().map(|(index, store)| {
            let role = if index < fast {
                Role::Fast
            } else {
                Role::Dense
            };
            (role, Rc::clone(store))
        });
        create(POOL, name(), geometry, &roles.collect::<Vec<_>>()).await
    });
    done.expect("creation ends").expect("creation succeeds");
    world.clear();
    media
}

pub fn as_world(world: &Rc<TestWorld>) -> Rc<dyn World> {
    Rc::clone(world) as Rc<dyn World>
}
