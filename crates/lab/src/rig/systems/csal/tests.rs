//! CSAL on zones: what it decides is what the drive was told, in an order that a zoned drive takes.

use super::super::bed::{randomly, write, zoned};
use super::*;
use crate::draw::Random;
use varve_media::{AnySheet, Sheet};
use varve_sim::executor::{Executor, Journal, Reactor};
use varve_sim::rng::Rng;
use varve_units::Nanos;

const ZONES: u32 = 120;

/// A volume of so many tenants over all but a fifth of a drive's bands.
fn volume(
    reactor: &Rc<Reactor>,
    (bands, band_blocks): (u32, u64),
    tenants: u64,
    dense: Rc<Station>,
) -> Rc<Csal> {
    volume_with_map(reactor, (bands, band_blocks), tenants, dense, 100.0)
}

/// The same with so many per cent of its map in memory.
fn volume_with_map(
    reactor: &Rc<Reactor>,
    (bands, band_blocks): (u32, u64),
    tenants: u64,
    dense: Rc<Station>,
    map_cache: f64,
) -> Rc<Csal> {
    let user_blocks = u64::from(bands) * band_blocks * 4 / 5 / tenants * tenants;
    let plan = CsalPlan {
        policy: PolicyName::CsalPaper,
        bands,
        band_blocks: band_blocks as u32,
        group_bands: 1,
        user_blocks,
        tenants,
        fast_blocks: 300,
        map_cache,
        cores: 2,
    };
    let fast = AnySheet::named("slc-002").unwrap();
    let fast = Station::new(&fast, plan.fast_bytes(), reactor).unwrap();
    Csal::create(reactor.clone(), plan, (fast, dense))
}

fn create(reactor: &Rc<Reactor>, tenants: u64) -> Rc<Csal> {
    let dense = zoned(ZONES, reactor);
    let band_blocks = dense.zones().unwrap().capacity_bytes / BLOCK_BYTES;
    volume(reactor, (ZONES, band_blocks), tenants, dense)
}

impl Csal {
    /// Every block of the dense tier was written to its zone since that was reset, or is gathered for it.
    fn audit(&self) {
        let written = self.dense.zones_written();
        let (tiers, gathered) = (self.tiers.borrow(), self.gathered.borrow());
        let mut found = 0;
        for block in 0..self.plan.user_blocks {
            let Some(Err(place)) = tiers.place(block as u32) else {
                continue;
            };
            let (zone, within) = (place / self.plan.band_blocks, place % self.plan.band_blocks);
            let is_written = u64::from(within) * BLOCK_BYTES < written[zone as usize];
            let is_gathered = gathered.get(&zone).is_some_and(|batch| {
                let (offset, bytes) = batch.place();
                (offset..offset + bytes).contains(&(u64::from(place) * BLOCK_BYTES))
            });
            assert!(is_written != is_gathered, "block {block} at {place}");
            found += 1;
        }
        assert!(found > self.plan.user_blocks / 2, "{found} blocks");
    }
}

#[test]
fn the_drive_has_what_was_decided() {
    for (seed, tenants) in [(1, 1), (2, 4), (3, 13)] {
        let journal = Rc::new(Journal::default());
        let mut executor = Executor::new(journal, Rng::new(seed), Nanos(0)).in_order();
        let reactor = executor.reactor();
        let ran = executor.run(async move {
            let csal = create(&reactor, tenants);
            let system = Rc::clone(&csal) as Rc<dyn System>;
            randomly(&reactor, &system, (seed, 4_000), (16, 20)).await;
            csal.audit();
            system.start();
            randomly(&reactor, &system, (seed + 100, 8_000), (64, 20)).await;
            reactor.sleep(Nanos::from_secs(1)).await;
            csal.audit();
            let reuse = csal.reuse.as_ref().unwrap().borrow();
            assert!(reuse.resets() > 4 * ZONES, "{} resets", reuse.resets());
            assert!(csal.dense.counters().erases >= u64::from(reuse.resets()));
        });
        assert!(ran.is_ok(), "{tenants} tenants: {:?}", ran.err());
    }
}

/// Writes of 16 blocks by four tenants, each of whom writes six times as much as the next: what they write
/// in turn dies at different times.
async fn unequally(csal: &Rc<Csal>, (seed, requests): (u64, u64)) {
    let mut random = Random::new(seed);
    let area = csal.plan.user_blocks / 4;
    for _ in 0..requests {
        let tenant = match random.below(259) {
            0 => 3,
            1..7 => 2,
            7..43 => 1,
            _ => 0,
        };
        write(csal, tenant * area + random.below(area - 15), 16).await;
    }
}

/// A handle for each stream, and bands as long as reclaim units: the drive finds its units empty, where
/// without handles it has to move what streams have mixed in them.
#[test]
fn handles_spare_the_drive_its_collection() {
    let waf = |has_handles: bool| {
        let journal = Rc::new(Journal::default());
        let mut executor = Executor::new(journal, Rng::new(1), Nanos(0)).in_order();
        let reactor = executor.reactor();
        let ran = executor.run(async move {
            let Ok(AnySheet::Flash(mut sheet)) = AnySheet::named("fdp-pm9d3a") else {
                panic!("it comes with the program");
            };
            let drive = |sheet: &Sheet| {
                let sheet = AnySheet::Flash(Box::new(sheet.clone()));
                Station::new(&sheet, 1 << 30, &reactor).unwrap()
            };
            let unit = drive(&sheet).reclaim_unit().unwrap();
            if !has_handles {
                sheet.placement = None;
            }
            let dense = drive(&sheet);
            let bands = (dense.bytes() / unit) as u32;
            let csal = volume(&reactor, (bands, unit / BLOCK_BYTES), 4, dense);
            unequally(&csal, (7, 150_000)).await;
            let before = csal.dense.counters();
            unequally(&csal, (8, 80_000)).await;
            let counted = csal.dense.counters().since(&before);
            counted.media_bytes as f64 / counted.host_bytes as f64
        });
        ran.expect("it ends")
    };
    let (with, without) = (waf(true), waf(false));
    println!("{with} with handles, {without} without");
    assert!(with < 1.05 && without > 1.2, "{with}, {without}");
}

/// What is moved changes the map too: with a tenth of it in memory its pages are written and read about once for each
/// block that hosts write and once for each that is moved.
#[test]
fn what_is_moved_changes_the_map() {
    const WRITES: u64 = 20_000;
    let traffic = |map_cache: f64| {
        let bands = (120, 1024);
        let blocks = u64::from(bands.0) * bands.1;
        let ran = super::super::bed::run((300, blocks), |reactor, (_, dense)| async move {
            let csal = volume_with_map(&reactor, bands, 1, dense, map_cache);
            for first in (0..csal.plan.user_blocks / 16).map(|run| run * 16) {
                write(&csal, first, 16).await;
            }
            csal.start();
            let before = csal.fast.traffic();
            let moved = csal.dense.traffic().written_bytes;
            let mut random = Random::new(4);
            for _ in 0..WRITES {
                write(&csal, random.below(csal.plan.user_blocks), 1).await;
                reactor.progress();
            }
            let moved = csal.dense.traffic().written_bytes - moved;
            let fast = csal.fast.traffic().since(&before);
            [fast.written_bytes, fast.read_bytes, moved].map(|bytes| {
                let blocks = bytes / BLOCK_BYTES;
                blocks as f64 / WRITES as f64
            })
        });
        ran.0
    };
    let (all, tenth) = (traffic(100.0), traffic(10.0));
    println!("{all:?} with all of it, {tenth:?} with a tenth");
    let [written, read, moved] = tenth;
    assert!(moved > 0.95 && (all[0] - 1.0).abs() < 0.05, "{all:?}");
    for pages in [written - all[0], read - all[1]] {
        let share = pages / (1.0 + moved);
        assert!((0.8..1.0).contains(&share), "{pages} pages: {share}");
    }
}

/// A zone is reset when all uses of its life are over, and written again only then.
#[test]
fn lives_of_a_zone_follow_one_another() {
    let mut reuse = Reuse::new(4);
    let first = reuse.life(2);
    reuse.begin(first);
    assert_eq!(reuse.empty(2), first);
    let second = reuse.life(2);
    reuse.begin(second);
    assert!(!reuse.is_unused(first) && reuse.is_begun(first) && !reuse.is_begun(second));
    reuse.end(first);
    assert!(reuse.is_unused(first) && !reuse.is_unused(second));
    reuse.was_reset(first);
    assert!(reuse.is_begun(second) && !reuse.is_begun(first));
    assert_eq!(second.blocks(48), (96, 48));
}
