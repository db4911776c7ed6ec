//! CSAL on zones: what it decides is what the drive was told, in an order that a zoned drive takes.

use super::super::bed::randomly;
use super::*;
use varve_media::AnySheet;
use varve_sim::executor::{Executor, Journal, Reactor};
use varve_sim::rng::Rng;

const ZONES: u32 = 120;

/// The drive of the sheet with few zones, of a row in each of two dies.
fn sheet() -> AnySheet {
    let Ok(AnySheet::Zoned(mut sheet)) = AnySheet::named("zns-zn540") else {
        panic!("it comes with the program");
    };
    sheet.zones.count.value = ZONES;
    sheet.nand.dies.value = 2;
    AnySheet::Zoned(sheet)
}

/// A volume of so many tenants over all but a fifth of the zones.
fn create(reactor: &Rc<Reactor>, tenants: u64) -> Rc<Csal> {
    let dense = Station::new(&sheet(), 1, reactor).unwrap();
    let band_blocks = (dense.zones().unwrap().capacity_bytes / BLOCK_BYTES) as u32;
    let user_blocks = u64::from(ZONES * band_blocks) * 4 / 5 / tenants * tenants;
    let plan = CsalPlan {
        policy: PolicyName::CsalPaper,
        bands: ZONES,
        band_blocks,
        user_blocks,
        tenants,
        fast_blocks: 300,
        map_cache: 100.0,
        cores: 2,
    };
    let fast = AnySheet::named("slc-002").unwrap();
    let fast = Station::new(&fast, plan.fast_bytes(), reactor).unwrap();
    Csal::create(reactor.clone(), plan, (fast, dense))
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
