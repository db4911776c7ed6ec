//! A pool in use that is scrubbed: what one drive has wrong is right afterwards, and another drive may die.

use crate::common::rig::{MIB, Rig, dense, run};
use std::cell::Cell;
use std::rc::Rc;
use varve_pool::{Defects, PoolError, ScrubProgress, ScrubReport, SlotState};

/// Where the rig's drives are: two fast ones, then the dense ones.
const DENSE: usize = 2;

fn scrub(rig: &Rig) -> ScrubReport {
    let pool = Rc::clone(&rig.pool);
    let done = run(
        &rig.world,
        async move { pool.scrub(None, &mut |_| true).await },
    );
    done.unwrap()
}

fn defects(rig: &Rig) -> Defects {
    let pool = Rc::clone(&rig.pool);
    let (outcome, defects) = run(&rig.world, async move { pool.audit().await });
    outcome.unwrap();
    defects
}

/// Whatever drive has lost all it held, data and parity alike, has it again, and then any other one may die.
#[test]
fn a_drive_that_holds_nothing_is_mended_and_then_another_dies() {
    for (bad, dies) in [(DENSE, DENSE + 2), (DENSE + 2, DENSE), (0, 1), (1, 0)] {
        let rig = Rig::new(3, 5);
        rig.write(1, 1500);
        rig.world.drain();
        assert_eq!(scrub(&rig).repairs, 0);
        rig.drives[bad].erase_content();
        let wrong = defects(&rig).sum();
        assert!(wrong > 0, "drive {bad}");
        let report = scrub(&rig);
        assert!(report.is_whole && report.is_clean(), "{report:?}");
        let mended = report.repairs + report.parity_repairs;
        assert!(
            mended >= wrong,
            "drive {bad}: {report:?}, {wrong} were wrong"
        );
        assert_eq!(report.parity_repairs > 0, bad >= DENSE, "{report:?}");
        assert_eq!(defects(&rig).sum(), 0, "drive {bad}");
        let counters = rig.pool.counters();
        assert_eq!(counters["scrubs"], 2);
        assert_eq!(
            counters.get("scrub_parity_repairs").copied().unwrap_or(0),
            report.parity_repairs
        );
        rig.drives[dies].set_gone(true);
        rig.check();
    }
}

/// Parity alone is wrong: no read shows it, the scrub does, and mends it block by block.
#[test]
fn wrong_parity_is_mended() {
    let rig = Rig::new(3, 6);
    rig.write(1, 1500);
    rig.world.drain();
    for drive in &rig.drives[DENSE..] {
        // One row of three has one block that is wrong, of data or parity, living or dead.
        for at in (0..8 * MIB).step_by(4096 * 9) {
            drive.flip(at + 7);
        }
        let report = scrub(&rig);
        assert!(report.is_clean(), "{report:?}");
        assert!(
            report.repairs > 0 && report.parity_repairs > 0,
            "{report:?}"
        );
        assert_eq!(defects(&rig).sum(), 0);
        rig.check();
    }
    let last = scrub(&rig);
    assert_eq!((last.repairs, last.parity_repairs), (0, 0), "{last:?}");
}

/// While a drive is away nothing can be compared with it: that is told, and nothing is written.
#[test]
fn what_cannot_be_compared_is_told() {
    let rig = Rig::new(3, 7);
    rig.write(1, 1500);
    rig.world.drain();
    rig.drives[DENSE + 1].set_gone(true);
    rig.write(2, 300);
    rig.world.drain();
    assert_eq!(rig.state(dense(1)), SlotState::Lost);
    let report = scrub(&rig);
    assert!(report.away > 0 && !report.is_clean(), "{report:?}");
    assert_eq!(
        (report.repairs, report.parity_repairs),
        (0, 0),
        "{report:?}"
    );
    assert_eq!((report.lost_blocks, report.unknown), (0, 0), "{report:?}");
    rig.check();
}

/// One at a time; the end of the pool is the end of a scrub.
#[test]
fn a_close_ends_a_scrub() {
    let rig = Rig::new(3, 8);
    rig.write(1, 1500);
    let (pool, ended) = (Rc::clone(&rig.pool), Rc::new(Cell::new(None)));
    let note = Rc::clone(&ended);
    let task = async move {
        let mut last = ScrubProgress::default();
        let mut watch = |progress| {
            last = progress;
            true
        };
        // Slow enough to be at work for minutes.
        let outcome = pool.scrub(Some(64 << 10), &mut watch).await;
        note.set(Some((outcome.unwrap().is_whole, last.done < last.total)));
    };
    crate::common::as_world(&rig.world).spawn(Box::pin(task));
    let pool = Rc::clone(&rig.pool);
    let (second, closed) = run(&rig.world, async move {
        let second = pool.scrub(None, &mut |_| true).await;
        (second, pool.close(false).await)
    });
    assert!(matches!(second, Err(PoolError::Scrubbing)), "{second:?}");
    closed.unwrap();
    assert_eq!(ended.get(), Some((false, true)));
}
