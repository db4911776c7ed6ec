//! A pool on sparse files: loaded until it compacts and collects, dropped in the middle of its work
//! again and again, and read back whole.

use crate::common::{Random, Scratch};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use varve_ftl::NewVolume;
use varve_hostio::{Disk, DiskOptions, Executor, FileDrive, Io, OpenError};
use varve_io::{Blocks, Drive, World};
use varve_pool::label::{Owner, PoolId};
use varve_pool::{NewPool, Pool, PoolOptions, Protect, Settings, Tuning};
use varve_units::{BLOCK, Lba, TenantId, VolumeId};

const MIB: u64 = 1 << 20;
const FAST: usize = 2;
const FAST_BYTES: u64 = 65 * MIB;
const DENSE: usize = 3;
const DENSE_BYTES: u64 = 49 * MIB;
const VOLUME_BLOCKS: u64 = 16 << 10;
const FLOWS: u64 = 16;
/// Blocks of one operation at most.
const RUN_MAX: u64 = 8;

const SETTINGS: Settings = Settings {
    owner: Owner([7; 16]),
    take_over: false,
    accept_loss: false,
    beat: None,
    lanes: 1,
    map_bytes: 4 * MIB,
    elided: false,
    tuning: Tuning::USUAL,
    bypass: true,
    canary: None,
};

/// What each block may hold: the version acknowledged last, and the one being written.
struct Model {
    blocks: Vec<(u64, Option<u64>)>,
    /// Blocks written and acknowledged.
    written: u64,
}

fn fill(bytes: &mut [u8], block: u64, version: u64) {
    if version == 0 {
        bytes.fill(0);
    } else {
        Random(block << 32 | version).fill(bytes);
    }
}

fn paths(scratch: &Scratch) -> Vec<PathBuf> {
    let fast = (0..FAST).map(|index| scratch.path(&format!("fast{index}")));
    let dense = (0..DENSE).map(|index| scratch.path(&format!("dense{index}")));
    fast.chain(dense).collect()
}

fn drives(world: &dyn World, paths: &[PathBuf], is_new: bool) -> Vec<Rc<dyn Drive>> {
    let io = Io::of(world).unwrap();
    let options = DiskOptions::default();
    let open = |(index, path): (usize, &PathBuf)| {
        let bytes = if index < FAST {
            FAST_BYTES
        } else {
            DENSE_BYTES
        };
        let disk = if is_new {
            Disk::create(path, bytes, &options)
        } else {
            Disk::open(path, &options)
        };
        Rc::new(FileDrive::new(io.clone(), disk.unwrap())) as Rc<dyn Drive>
    };
    paths.iter().enumerate().map(open).collect()
}

async fn create(world: Rc<dyn World>, drives: &[Rc<dyn Drive>]) -> (Pool, VolumeId) {
    let (fast, dense) = drives.split_at(FAST);
    let options = PoolOptions {
        chunk_bytes: MIB,
        slices: 4,
        protect: Protect::Parity,
        strip_blocks: 16,
        zone_strips: 8,
        over_provision_per_mille: 200,
    };
    let new = NewPool {
        id: PoolId([3; 16]),
        name: "files",
        fast,
        dense,
        options,
    };
    let pool = Pool::create(world, new, SETTINGS).await.unwrap();
    let volume = NewVolume {
        name: "v",
        size: varve_units::Blocks(VOLUME_BLOCKS),
        tenant: TenantId(1),
        uuid: [1; 16],
        nguid: [1; 16],
    };
    let volume = pool.engine().create_volume(volume).await.unwrap();
    pool.engine().flush().await.unwrap();
    (pool, volume)
}

/// Overwrites runs of one flow's part of the volume for ever.
async fn load(pool: Rc<Pool>, volume: VolumeId, model: Rc<RefCell<Model>>, flow: u64, seed: u64) {
    let part = VOLUME_BLOCKS / FLOWS;
    let mut random = Random(seed << 8 | flow);
    loop {
        let count = 1 + random.below(RUN_MAX);
        let first = flow * part + random.below(part - count + 1);
        let mut data = Blocks::zeroed(count as usize);
        for (at, bytes) in data.bytes_mut().chunks_exact_mut(BLOCK).enumerate() {
            let block = first + at as u64;
            let version = &mut model.borrow_mut().blocks[block as usize];
            let next = version.0 + 1;
            version.1 = Some(next);
            fill(bytes, block, next);
        }
        pool.engine()
            .write(volume, Lba(first), data, false)
            .await
            .unwrap();
        let mut model = model.borrow_mut();
        for version in &mut model.blocks[first as usize..(first + count) as usize] {
            version.0 = version.1.take().unwrap();
        }
        model.written += count;
    }
}

/// Every block holds what was acknowledged last, or what was being written when the pool was dropped.
async fn check(pool: &Pool, volume: VolumeId, model: &RefCell<Model>) {
    for first in (0..VOLUME_BLOCKS).step_by(64) {
        let found = pool.engine().read(volume, Lba(first), Blocks::zeroed(64));
        let found = found.await.unwrap();
        for (at, bytes) in found.bytes().chunks_exact(BLOCK).enumerate() {
            let block = first + at as u64;
            let (acknowledged, written) = model.borrow().blocks[block as usize];
            let mut expected = [0; BLOCK];
            let version = [Some(acknowledged), written]
                .into_iter()
                .flatten()
                .find(|version| {
                    fill(&mut expected, block, *version);
                    expected[..] == *bytes
                });
            let version = version.unwrap_or_else(|| panic!("block {block} is not itself"));
            model.borrow_mut().blocks[block as usize] = (version, None);
        }
    }
}

#[test]
fn a_pool_that_is_dropped_without_a_close_loses_nothing() {
    const CYCLES: u64 = 4;
    let scratch = Scratch::new();
    let paths = paths(&scratch);
    let model = Rc::new(RefCell::new(Model {
        blocks: vec![(0, None); VOLUME_BLOCKS as usize],
        written: 0,
    }));
    let counts = Rc::new(RefCell::new((0, 0)));
    for cycle in 0..CYCLES {
        let executor = Executor::new();
        let world = executor.world();
        let drives = drives(&*world, &paths, cycle == 0);
        let (model, counts) = (Rc::clone(&model), Rc::clone(&counts));
        let inside = world.clone();
        let session = async move {
            let world = inside;
            let (pool, volume) = if cycle == 0 {
                create(Rc::clone(&world), &drives).await
            } else {
                let pool = Pool::open(Rc::clone(&world), &drives, None, SETTINGS)
                    .await
                    .unwrap();
                (pool, VolumeId(1))
            };
            check(&pool, volume, &model).await;
            let pool = Rc::new(pool);
            for flow in 0..FLOWS {
                let (pool, model) = (Rc::clone(&pool), Rc::clone(&model));
                world.spawn(Box::pin(load(pool, volume, model, flow, cycle)));
            }
            // Ends with writes, flushes, compaction and collection in flight.
            let until = model.borrow().written + 40_000 + 777 * cycle;
            while model.borrow().written < until {
                world.sleep(varve_units::Nanos::from_millis(3)).await;
            }
            let counters = pool.engine().counters();
            let mut counts = counts.borrow_mut();
            let count = |name| counters.get(name).copied().unwrap_or(0);
            counts.0 += count("compacted_blocks");
            counts.1 += count("gc_blocks");
        };
        executor.run(session).unwrap();
    }
    let (compacted, collected) = *counts.borrow();
    assert!(compacted > 0 && collected > 0, "{compacted} {collected}");

    let executor = Executor::new();
    let world = executor.world();
    let drives = drives(&*world, &paths, false);
    let busy = Disk::open(&paths[0], &DiskOptions::default());
    assert!(matches!(busy, Err(OpenError::InUse(_))));
    let last = async move {
        let pool = Pool::open(world, &drives, None, SETTINGS).await.unwrap();
        check(&pool, VolumeId(1), &model).await;
        pool.close(true).await.unwrap();
    };
    executor.run(last).unwrap();
}
