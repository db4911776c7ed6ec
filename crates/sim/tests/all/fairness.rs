//! Tenants beside one another, in virtual time: who floods pays for it.

use std::cell::RefCell;
use std::rc::Rc;
use varve_io::{Blocks, World};
use varve_sim::atlas::Atlas;
use varve_sim::checker::volumes::Naming;
use varve_sim::drive::{DriveSpec, SimDrive};
use varve_sim::executor::{Executor, Journal};
use varve_sim::real::Real;
use varve_sim::rng::Rng;
use varve_sim::subject::{Config, Dense, Factory, Subject};
use varve_units::{BLOCK_BYTES, Lba, Nanos, TenantId, VolumeId};

const MIB: u64 = 1 << 20;
/// Writes of the tenant that floods, in flight at a time.
const FLOOD_DEPTH: u64 = 128;
/// Blocks that the flood writes in all: several times the fast tier.
const FLOOD_BLOCKS: u64 = 40_000;
/// Blocks of a write of the flood at most.
const FLOOD_COUNT: u64 = 16;
/// 99 of 100 single writes beside the flood, in microseconds.
const FEW_P99_US: u64 = 5_000;
/// The longest of them. Some drives of these pools take 60 times as long for some reads.
const FEW_MAX_US: u64 = 100_000;
/// Longest write of the flood.
const FLOOD_MAX_US: u64 = 250_000;
/// Longest time in which no write of the flood ends.
const PAUSE_MAX_US: u64 = 100_000;

/// Latencies in virtual time.
#[derive(Default)]
struct Seen {
    few: Vec<u64>,
    flood: Vec<u64>,
    flooded: u64,
    /// When a write of the flood last ended, and the longest time between two ends.
    last: u64,
    gap: u64,
}

fn config(seed: u64) -> Config {
    let mut config = Config {
        seed,
        fast: 2,
        dense: Dense::Mirror,
        fast_bytes: 17 * MIB,
        dense_bytes: 32 * MIB,
        slices: 16,
        lanes: 1,
        lanes_max: 2,
        lba_bytes: 512,
        count_max: 128,
        record_blocks: 128,
        map_bytes: MIB,
        chain_age: varve_pool::Tuning::USUAL.chain_age,
        images_min: varve_pool::Tuning::USUAL.images_min,
        idle_after: Nanos::from_secs(3),
        is_elided: true,
        volatile_cache: true,
    };
    Real::new(None).adapt(&mut config);
    config
}

async fn write(subject: &dyn Subject, volume: VolumeId, lba: u64, count: u64) {
    let blocks = Blocks::new(count as usize, true);
    let done = subject.write(volume, Lba(lba), blocks, false).await;
    done.expect("a write within capacity");
}

fn spec(config: &Config, index: usize) -> DriveSpec {
    DriveSpec {
        bytes: if index < config.fast {
            config.fast_bytes
        } else {
            config.dense_bytes
        },
        lba_bytes: config.lba_bytes,
        volatile_cache: true,
        handles: 1,
        gap_blocks: 0,
        hangs_repairs: false,
    }
}

/// The worst latency of a tenant's single writes, and of the flood's, beside a flood.
fn run(seed: u64) -> Seen {
    let config = config(seed);
    let factory = Real::new(None);
    let atlas = Rc::new(RefCell::new(Atlas::new(factory.layout(&config))));
    let rng = Rng::new(seed);
    let mut executor = Executor::new(Rc::<Journal>::default(), rng.split("order"), Nanos(0));
    let reactor = executor.reactor();
    let drives = (0..config.drives()).map(|index| {
        let rng = rng.split_at("drive", index as u64);
        SimDrive::new(index, spec(&config, index), rng, Rc::clone(&atlas)).attach(&reactor)
    });
    let world: Rc<dyn World> = Rc::clone(&reactor) as Rc<dyn World>;
    let starting = factory.create(Rc::clone(&world), drives.collect(), config);
    let progress = Rc::clone(&reactor);
    let whole = async move {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let subject = starting.await.expect("a blank pool");
        let size = subject.space().capacity_blocks * 45 / 100;
        let flooded = subject
            .create_volume(&Naming::new(1, 1, TenantId(1)), size)
            .await
            .unwrap();
        let quiet = subject
            .create_volume(&Naming::new(1, 2, TenantId(2)), size)
            .await
            .unwrap();
        seen.borrow_mut().last = world.now().0;
        let mut flood = Vec::new();
        for flow in 0..FLOOD_DEPTH {
            let (subject, seen) = (Rc::clone(&subject), Rc::clone(&seen));
            let (reactor, clock) = (Rc::clone(&progress), Rc::clone(&world));
            let mut rng = Rng::new(seed).split_at("flood", flow);
            flood.push(world.run(async move {
                while seen.borrow().flooded < FLOOD_BLOCKS {
                    let count = rng.within(1, FLOOD_COUNT);
                    let begun = clock.now().0;
                    write(&*subject, flooded, rng.below(size - count), count).await;
                    let mut seen = seen.borrow_mut();
                    seen.flooded += count;
                    let now = clock.now().0;
                    seen.flood.push(now - begun);
                    seen.gap = seen.gap.max(now - seen.last.max(1));
                    seen.last = now;
                    reactor.progress();
                }
            }));
        }
        let mut rng = Rng::new(seed).split("quiet");
        while seen.borrow().flooded < FLOOD_BLOCKS {
            let begun = world.now().0;
            write(&*subject, quiet, rng.below(size - 1), 1).await;
            seen.borrow_mut().few.push(world.now().0 - begun);
            world.sleep(Nanos::from_micros(rng.within(1, 400))).await;
        }
        for flow in flood {
            flow.await;
        }
        let counters = subject.status();
        assert!(counters["chunks_cleaned"] > 20, "cleaning was under way");
        assert!(counters["paced_writes"] > 0, "writes were slowed down");
        seen.take()
    };
    executor.run(whole).expect("an end")
}

fn at(latencies: &mut [u64], per_mille: usize) -> u64 {
    latencies.sort_unstable();
    latencies[(latencies.len() - 1) * per_mille / 1000]
}

/// The bounds are those of a pool with 16 chunks of a megabyte, in which every few chunks cost a checkpoint.
#[test]
fn a_flood_does_not_stop_another_tenant() {
    let is_small = |seed: &u64| config(*seed).record_blocks * 2 * BLOCK_BYTES == MIB;
    for seed in (1..).filter(is_small).take(6) {
        let mut seen = run(seed);
        let few = [500, 990, 1000].map(|share| at(&mut seen.few, share) / 1000);
        let flood = [500, 990, 1000].map(|share| at(&mut seen.flood, share) / 1000);
        let gap = seen.gap / 1000;
        let story = format!(
            "seed {seed}: p50, p99 and longest of {} single writes {few:?} us, of {} in the flood \
             {flood:?} us, longest pause {gap} us",
            seen.few.len(),
            seen.flood.len()
        );
        println!("{story}");
        assert!(few[0] * 5 < flood[0] && few[2] < flood[2], "{story}");
        assert!(few[1] <= FEW_P99_US && few[2] <= FEW_MAX_US, "{story}");
        assert!(flood[2] <= FLOOD_MAX_US && gap <= PAUSE_MAX_US, "{story}");
    }
}
