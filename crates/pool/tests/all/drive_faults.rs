//! Drives that fail in part under a pool in use: single writes, labels alone, no answer at all, places that
//! cannot be read while another drive is filled.

use crate::common::as_world;
use crate::common::ram::{Ram, RamDrive};
use crate::common::rig::{BLOCKS, Rig, dense, dense_drive, fast, fast_drive, run};
use std::cell::RefCell;
use std::rc::Rc;
use varve_array::Restored;
use varve_ftl::EngineError;
use varve_io::{Blocks, IoError};
use varve_pool::label::MemberState;
use varve_pool::{PoolError, Slot, SlotState};
use varve_units::Lba;

/// Blocks that cannot be read.
fn unreadable(rig: &Rig) -> Vec<u64> {
    let of = rig.clone();
    run(&rig.world, async move {
        let mut failed = Vec::new();
        for lba in 0..BLOCKS {
            let engine = of.pool.engine();
            let block = engine.read(of.volume, Lba(lba), Blocks::zeroed(1)).await;
            failed.extend(block.is_err().then_some(lba));
        }
        failed
    })
}

/// While the labels note that a dense drive is given up another one fails a single write: it is
/// needed by then, and stays in use.
#[test]
fn a_write_fails_while_another_drive_is_given_up() {
    let mut rig = Rig::new(4, 31);
    rig.write(1, 1500);
    rig.drives.iter().for_each(|ram| ram.delay_labels(400));
    let pool = Rc::clone(&rig.pool);
    let is_given_up = Rc::new(RefCell::new(None));
    let told = Rc::clone(&is_given_up);
    as_world(&rig.world).spawn(Box::pin(async move {
        let outcome = pool.give_up(dense(0)).await;
        *told.borrow_mut() = Some(outcome.is_ok());
    }));
    rig.drives[3].fail_writes(1);
    let filling = rig.clone().fill(2, 1500);
    rig.world.run(400_000, filling);
    rig.drives.iter().for_each(|ram| ram.delay_labels(0));
    assert_eq!(rig.drives[3].writes_to_fail(), 0);
    assert_eq!(*is_given_up.borrow(), Some(true));
    assert_eq!(rig.state(dense(0)), SlotState::Lost);
    assert_eq!(rig.state(dense(1)), SlotState::Live);
    assert_eq!(rig.pool.counters()["members_lost"], 1);
    assert_eq!(unreadable(&rig), []);
    rig.restart(32);
    assert_eq!(unreadable(&rig), []);
    assert_eq!(rig.state(dense(1)), SlotState::Live);
}

/// The same of the fast tier: with one drive on its way out nobody holds what the other does. The
/// pool stops, as with any log that cannot be written, and the next start has everything.
#[test]
fn a_log_write_fails_while_the_other_fast_drive_is_given_up() {
    let mut rig = Rig::new(3, 33);
    rig.write(1, 600);
    rig.drives.iter().for_each(|ram| ram.delay_labels(400));
    let pool = Rc::clone(&rig.pool);
    as_world(&rig.world).spawn(Box::pin(async move {
        pool.give_up(fast(0)).await.unwrap();
    }));
    rig.drives[1].fail_writes(1);
    let host = rig.clone();
    let byte = 7;
    as_world(&rig.world).spawn(Box::pin(async move {
        let mut data = Blocks::zeroed(1);
        data.bytes_mut().fill(byte);
        let engine = host.pool.engine();
        // It may be told to have failed or to have ended well: no other block is touched.
        let _ = engine.write(host.volume, Lba(0), data, false).await;
    }));
    rig.world.drain();
    rig.drives.iter().for_each(|ram| ram.delay_labels(0));
    assert_eq!(rig.drives[1].writes_to_fail(), 0);
    assert_eq!(rig.state(fast(0)), SlotState::Lost);
    assert_eq!(rig.state(fast(1)), SlotState::Live);
    rig.restart(34);
    assert_eq!(unreadable(&rig), []);
    assert_eq!(rig.row(1), MemberState::Active);
}

/// A drive that takes data and no labels is given up by the next heartbeat, on either tier, and can be replaced; one that
/// the others cannot do without stays.
#[test]
fn a_drive_that_takes_no_labels_is_given_up() {
    for (slot, index) in [(fast(1), 1), (dense(0), 2)] {
        let mut rig = Rig::new(3, 5);
        let beat = |rig: &Rig| {
            let pool = Rc::clone(&rig.pool);
            run(&rig.world, async move { pool.beat().await.unwrap() });
            rig.world.drain();
        };
        rig.write(1, 300);
        beat(&rig);
        rig.drives[index].fail_labels(true);
        rig.write(2, 100);
        assert_eq!(rig.state(slot), SlotState::Live, "it takes data");
        // A write that ended late counts at the next one.
        beat(&rig);
        beat(&rig);
        assert_eq!(rig.state(slot), SlotState::Lost);
        assert_eq!(rig.row(index as u32), MemberState::Lost);
        assert_eq!(rig.pool.counters()["members_lost"], 1);
        let needed = if index == 1 {
            (fast(0), 0)
        } else {
            (dense(1), 3)
        };
        rig.drives[needed.1].fail_labels(true);
        beat(&rig);
        beat(&rig);
        assert_eq!(rig.state(needed.0), SlotState::Live, "it is needed");
        rig.check();
        rig.drives[needed.1].fail_labels(false);
        let new = if index == 1 {
            fast_drive()
        } else {
            dense_drive()
        };
        rig.replace(slot, index, new);
        beat(&rig);
        assert_eq!(rig.state(slot), SlotState::Live);
        rig.restart(6);
        rig.check();
    }
}

/// A drive that was lost from a slot takes its seat again.
fn come_back(rig: &Rig, slot: Slot, drive: &Rc<Ram>) -> Result<Restored, PoolError> {
    let (pool, drive) = (Rc::clone(&rig.pool), RamDrive::attach(&rig.world, drive));
    run(&rig.world, async move {
        pool.replace(slot, drive, &mut |_| {}).await
    })
}

/// A fast drive hangs, hosts wait for it. Given up it frees them; what it had it may end later, and only
/// then it comes back, and holds what was written meanwhile.
#[test]
fn a_drive_that_hangs_is_given_up_and_comes_back_when_it_has_ended_all() {
    let rig = Rig::new(3, 47);
    rig.write(1, 300);
    let old = Rc::clone(&rig.drives[0]);
    old.set_stuck(true);
    let has_written = Rc::new(RefCell::new(false));
    let (host, told) = (rig.clone(), Rc::clone(&has_written));
    as_world(&rig.world).spawn(Box::pin(async move {
        host.fill(2, 40).await;
        *told.borrow_mut() = true;
    }));
    rig.world.drain();
    assert!(
        !*has_written.borrow(),
        "the log waits for both of its drives"
    );
    let pool = Rc::clone(&rig.pool);
    run(&rig.world, async move {
        pool.give_up(fast(0)).await.unwrap();
    });
    rig.world.drain();
    assert!(*has_written.borrow());
    rig.check();
    old.set_stuck(false);
    let come_back = || come_back(&rig, fast(0), &old);
    for are_labels in [true, false] {
        let refused = come_back().unwrap_err();
        assert!(matches!(refused, PoolError::StillBusy(_)), "{refused}");
        assert!(old.unstick(are_labels) > 0);
        rig.world.drain();
    }
    come_back().unwrap();
    assert_eq!(rig.state(fast(0)), SlotState::Live);
    rig.drives[1].set_gone(true);
    rig.check();
}

/// As above, but it is a label that comes late.
#[test]
fn a_drive_whose_label_hangs_does_not_come_back() {
    let rig = Rig::new(3, 48);
    rig.write(1, 100);
    let old = Rc::clone(&rig.drives[4]);
    old.set_stuck(true);
    let pool = Rc::clone(&rig.pool);
    run(&rig.world, async move {
        pool.give_up(dense(2)).await.unwrap();
    });
    rig.world.drain();
    old.set_stuck(false);
    old.unstick(false);
    rig.world.drain();
    let come_back = || come_back(&rig, dense(2), &old);
    let refused = come_back().unwrap_err();
    assert!(matches!(refused, PoolError::StillBusy(_)), "{refused}");
    assert_eq!(old.unstick(true), 1);
    rig.world.drain();
    come_back().unwrap();
    assert_eq!(rig.state(dense(2)), SlotState::Live);
}

/// The newest batch of the log lies on one fast drive alone and cannot be read there, its head or what
/// follows; another drive is filled from that one. What was flushed is not there, and the next start says
/// so, from either of them.
#[test]
fn a_fill_that_cannot_read_the_end_of_the_log_hides_nothing() {
    for is_head in [true, false] {
        for is_filled_alone in [false, true] {
            let mut rig = Rig::new(3, 51);
            rig.write(1, 100);
            let pool = Rc::clone(&rig.pool);
            run(&rig.world, async move {
                pool.give_up(fast(1)).await.unwrap();
            });
            rig.write(2, 3);
            let host = rig.clone();
            run(&rig.world, async move {
                host.pool.engine().flush().await.unwrap();
            });
            rig.world.drain();
            let last = rig.drives[0].last_write();
            let head = last.start..last.start + 512;
            let bad = if is_head {
                head
            } else {
                last.end - 4096..last.end - 2048
            };
            rig.drives[0].spoil(bad.clone());
            rig.drives[1] = fast_drive();
            let drive = RamDrive::attach(&rig.world, &rig.drives[1]);
            let pool = Rc::clone(&rig.pool);
            let restored = run(&rig.world, async move {
                pool.replace(fast(1), drive, &mut |_| {}).await.unwrap()
            });
            let lost: u64 = restored
                .unreadable
                .iter()
                .map(|range| range.end - range.start)
                .sum();
            assert_eq!(lost, bad.end - bad.start);
            rig.world.drain();
            assert_eq!(rig.drives[0].last_write(), last, "nothing came after it");
            if is_filled_alone {
                rig.drives[0].set_gone(true);
            }
            rig.restart(52);
            let damage = &rig.pool.recovery().damage;
            assert_eq!(damage.len(), 1, "head {is_head}, alone {is_filled_alone}");
        }
    }
}

fn hand_over(rig: &Rig, slot: Slot) {
    let pool = Rc::clone(&rig.pool);
    run(&rig.world, async move {
        pool.hand_over(slot).await.unwrap();
    });
    rig.world.drain();
}

/// A drive is replaced while it works, and the new one fails as it is filled. The old one is kept: what another drive
/// lost meanwhile can still be read, and the next new drive is filled from it. It is let go when that is whole, or when
/// it is given up for good.
#[test]
fn a_new_drive_that_fails_leaves_the_old_one() {
    for is_given_up in [false, true] {
        let mut rig = Rig::new(3, 61);
        rig.write(1, 1500);
        // What is moved from here on the old drive does not get.
        rig.world.drain();
        hand_over(&rig, dense(0));
        let bad = dense_drive();
        bad.fail_writes(1);
        let failed = come_back(&rig, dense(0), &bad).unwrap_err();
        assert!(matches!(failed, PoolError::Restore(_)), "{failed}");
        rig.world.drain();
        assert_eq!(rig.state(dense(0)), SlotState::Lost);
        assert!(rig.held()[2], "it is kept");
        if is_given_up {
            let pool = Rc::clone(&rig.pool);
            run(&rig.world, async move {
                pool.give_up(dense(0)).await.unwrap();
            });
            rig.world.drain();
            assert!(!rig.held()[2]);
            continue;
        }
        rig.drives[3].erase_content();
        rig.check();
        rig.replace(dense(0), 2, dense_drive());
        assert!(!rig.held()[2], "it is let go");
        rig.check();
        rig.restart(62);
        rig.check();
    }
}

/// One drive is being replaced and what is kept of it is wrong; another one, that is needed, does not answer for a while.
/// Nobody says that what it holds is lost, hosts may ask again, and when it is back all is there.
#[test]
fn what_a_needed_drive_holds_is_not_lost_while_it_is_gone() {
    let rig = Rig::new(3, 63);
    rig.write(1, 1500);
    hand_over(&rig, dense(0));
    rig.drives[2].erase_content();
    rig.drives[3].set_gone(true);
    let of = rig.clone();
    let away = run(&rig.world, async move {
        let mut away = 0;
        for lba in 0..BLOCKS {
            let engine = of.pool.engine();
            match engine.read(of.volume, Lba(lba), Blocks::zeroed(1)).await {
                Ok(_) => {}
                Err(EngineError::Io(IoError::Gone)) => away += 1,
                Err(error) => panic!("block {lba}: {error}"),
            }
        }
        away
    });
    assert!(away > 0);
    assert_eq!(rig.state(dense(1)), SlotState::Live, "it is needed");
    as_world(&rig.world).spawn(Box::pin(rig.clone().fill(2, 1500)));
    rig.world.run(20_000, std::future::pending::<()>());
    rig.drives[3].set_gone(false);
    rig.world.drain();
    rig.check();
    assert_eq!(rig.pool.counters().get("blocks_lost"), None);
}

/// An audit while a drive is kept, whose copies are old or wrong by now: nothing of it is a bad copy.
#[test]
fn what_a_kept_drive_lacks_is_no_bad_copy() {
    for (slot, index) in [(fast(0), 0), (dense(0), 2)] {
        for is_wrong in [false, true] {
            let rig = Rig::new(3, 65);
            rig.write(1, 1000);
            hand_over(&rig, slot);
            rig.write(2, 300);
            if is_wrong {
                rig.drives[index].erase_content();
            }
            let pool = Rc::clone(&rig.pool);
            let (report, defects) = run(&rig.world, async move { pool.audit().await });
            report.unwrap();
            assert_eq!(defects.sum(), 0, "{slot}, wrong {is_wrong}: {defects:?}");
        }
    }
}
