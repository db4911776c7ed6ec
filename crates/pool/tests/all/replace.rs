//! Drives that are lost and replaced under a pool in use.
//!
//! Story: a pool is filled, a drive dies, hosts go on, a new drive takes its place while they do,
//! and then the *other* one dies: whatever was acknowledged is there, from the new drive alone.

use crate::common::ram::{Ram, RamDrive};
use crate::common::rig::{MIB, Rig, dense, dense_drive, fast, fast_drive, open, run};
use crate::common::{TestWorld, as_world};
use std::cell::RefCell;
use std::rc::Rc;
use varve_pool::label::{ImportError, Loss, MemberId, MemberState};
use varve_pool::{PoolError, Slot, SlotState};

#[test]
fn a_fast_drive_is_replaced_and_then_the_other_dies() {
    let mut rig = Rig::new(3, 1);
    rig.write(1, 600);
    rig.drives[0].set_gone(true);
    rig.write(2, 200);
    assert_eq!(rig.row(0), MemberState::Lost);
    assert_eq!(rig.state(fast(0)), SlotState::Lost);
    rig.check();
    let repairs = rig.pool.counters().contains_key("repair_failures");
    assert!(!repairs, "nobody repairs a drive that is lost");
    rig.replace(fast(0), 0, fast_drive());
    assert_eq!(rig.row(0), MemberState::Removed);
    assert_eq!(rig.row(5), MemberState::Active);
    rig.drives[1].set_gone(true);
    rig.check();
    rig.write(3, 100);
    assert_eq!(rig.row(1), MemberState::Lost);
    rig.restart(2);
    rig.check();
    let counters = rig.pool.counters();
    assert_eq!(counters["members_lost"], 0, "known before");
}

#[test]
fn a_dense_drive_is_replaced_and_then_another_dies() {
    let mut rig = Rig::new(4, 3);
    rig.write(1, 1500);
    rig.drives[3].set_gone(true);
    rig.write(2, 1500);
    assert_eq!(rig.row(3), MemberState::Lost);
    rig.check();
    rig.replace(dense(1), 3, dense_drive());
    rig.drives[5].set_gone(true);
    rig.check();
    rig.restart(4);
    rig.check();
    assert_eq!(rig.state(dense(1)), SlotState::Live);
    assert_eq!(rig.state(dense(3)), SlotState::Lost);
}

/// A crash after so many steps of a replacement: the next start goes on from where the labels are.
#[test]
fn a_crash_ends_a_rebuild_and_a_start_begins_it_again() {
    let mut resumed = 0;
    for limit in [1, 40, 70, 90, 97, 104, 111, 118, 125, 132, 139, 1000] {
        let mut rig = Rig::new(3, limit);
        rig.write(1, 500);
        rig.drives[0].set_gone(true);
        rig.write(2, 50);
        rig.drives[0] = fast_drive();
        let drive = RamDrive::attach(&rig.world, &rig.drives[0]);
        let pool = Rc::clone(&rig.pool);
        let flow = async move { pool.replace(fast(0), drive, &mut |_| {}).await.map(|_| ()) };
        rig.world.run(limit, flow);
        rig.restart(limit + 1);
        match rig.state(fast(0)) {
            SlotState::Rebuilding => {
                resumed += 1;
                let pool = Rc::clone(&rig.pool);
                let world = as_world(&rig.world);
                run(&rig.world, async move {
                    while pool.counters()["remirrors"] == 0 {
                        world.yield_now().await;
                    }
                });
            }
            SlotState::Lost => rig.replace(fast(0), 0, fast_drive()),
            // The labels say so already, whether or not anybody was told.
            state => assert_eq!(state, SlotState::Live),
        }
        assert_eq!(rig.state(fast(0)), SlotState::Live);
        rig.drives[1].set_gone(true);
        rig.check();
    }
    assert!(resumed > 1, "{resumed} rebuilds resumed");
}

/// The drives to copy from do not answer for a while: the rebuild that a start began again goes
/// on by itself when they do.
#[test]
fn a_rebuild_outlasts_its_source() {
    let mut resumed = 0;
    for limit in (40..300).step_by(20) {
        let mut rig = Rig::new(3, limit);
        rig.write(1, 1500);
        rig.drives[3].set_gone(true);
        rig.write(2, 1500);
        rig.drives[3] = dense_drive();
        let drive = RamDrive::attach(&rig.world, &rig.drives[3]);
        let pool = Rc::clone(&rig.pool);
        let flow = async move { pool.replace(dense(1), drive, &mut |_| {}).await.map(|_| ()) };
        rig.world.run(limit, flow);
        rig.restart(limit + 1);
        if rig.state(dense(1)) != SlotState::Rebuilding {
            continue;
        }
        resumed += 1;
        rig.drives[4].set_gone(true);
        rig.world.run(2000, std::future::pending::<()>());
        assert_eq!(rig.state(dense(1)), SlotState::Rebuilding);
        assert_eq!(rig.state(dense(2)), SlotState::Live, "it is needed");
        rig.drives[4].set_gone(false);
        let (pool, world) = (Rc::clone(&rig.pool), as_world(&rig.world));
        rig.world
            .run(200_000, async move {
                while pool.counters()["remirrors"] == 0 {
                    world.yield_now().await;
                }
            })
            .expect("the rebuild ends");
        rig.drives[4].set_gone(true);
        rig.check();
    }
    assert!(resumed > 1, "{resumed} rebuilds resumed");
}

/// A drive that is slow to take its first label: the pool may be gone at once when its replacement
/// has ended, and the next start finds it a member that holds all it should.
#[test]
fn a_drive_is_whole_only_with_a_label_of_its_own() {
    let mut rig = Rig::new(4, 17);
    rig.write(1, 600);
    rig.drives[3].set_gone(true);
    rig.write(2, 600);
    rig.drives[3] = dense_drive();
    rig.drives[3].delay_labels(100_000);
    let drive = RamDrive::attach(&rig.world, &rig.drives[3]);
    let pool = Rc::clone(&rig.pool);
    run(&rig.world, async move {
        pool.replace(dense(1), drive, &mut |_| {}).await.unwrap();
    });
    rig.drives[3].delay_labels(0);
    rig.restart(18);
    assert_eq!(rig.state(dense(1)), SlotState::Live);
    rig.drives[5].set_gone(true);
    rig.check();
}

/// A drive that served this pool before returns without its label: no header of then is left on
/// it, not even in chunks that are free and not copied.
#[test]
fn a_rebuilt_drive_has_no_headers_of_its_own() {
    let mut rig = Rig::new(3, 19);
    rig.write(1, 900);
    rig.drives[0].set_gone(true);
    rig.write(2, 900);
    let old = Rc::clone(&rig.drives[0]);
    old.set_gone(false);
    old.erase_label();
    let headers = |ram: &Ram| -> Vec<Vec<u8>> {
        (0..19)
            .map(|chunk| ram.content(chunk * MIB, 4096))
            .collect()
    };
    assert_ne!(headers(&old), headers(&rig.drives[1]));
    rig.replace(fast(0), 0, old);
    assert!(headers(&rig.drives[0]) == headers(&rig.drives[1]));
}

/// Only the drive that was lost is left: an import says what it would lose, and does it on demand.
#[test]
fn the_stale_half_alone_is_refused() {
    let rig = Rig::new(0, 7);
    rig.write(1, 100);
    let before = rig.content.borrow().clone();
    rig.drives[1].set_gone(true);
    rig.write(2, 100);
    assert_eq!(rig.row(1), MemberState::Lost);
    rig.world.clear();
    rig.drives[1].set_gone(false);
    let world = TestWorld::new(8);
    let stale = &rig.drives[1..];
    let refused = open(&world, stale, false).err().expect("refused");
    let PoolError::Import(ImportError::WouldLose(loss)) = refused else {
        panic!("refused for another reason: {refused}");
    };
    // It does not know itself that it was declared lost.
    let text = loss.to_string();
    let Loss::NoQuorum { missing, .. } = loss else {
        panic!("another loss: {text}");
    };
    assert_eq!(missing, [MemberId(0)]);
    assert!(text.contains("drive 0"), "{text}");
    let pool = Rc::new(open(&world, stale, true).unwrap());
    let rig = Rig {
        world,
        pool,
        content: Rc::new(RefCell::new(before)),
        ..rig
    };
    rig.check();
    rig.world.clear();
    // The drive with what was given up is the stale one now.
    rig.drives[0].set_gone(false);
    let world = TestWorld::new(9);
    let pool = open(&world, &rig.drives, false).unwrap();
    let row = pool.membership().state();
    let row = row.members.get(MemberId(0)).unwrap();
    assert_eq!(row.state, MemberState::Lost);
}

#[test]
fn what_cannot_replace_a_drive_is_refused() {
    let rig = Rig::new(3, 11);
    rig.write(1, 50);
    let try_with = |slot: Slot, ram: &Rc<Ram>| {
        let (pool, drive) = (Rc::clone(&rig.pool), RamDrive::attach(&rig.world, ram));
        run(&rig.world, async move {
            pool.replace(slot, drive, &mut |_| {}).await.unwrap_err()
        })
    };
    let give_up = |slot: Slot| {
        let pool = Rc::clone(&rig.pool);
        run(&rig.world, async move { pool.give_up(slot).await })
    };
    let spare = fast_drive();
    assert!(matches!(try_with(fast(0), &spare), PoolError::SlotInUse(_)));
    assert!(matches!(try_with(fast(2), &spare), PoolError::NoSlot(_)));
    give_up(fast(0)).unwrap();
    give_up(fast(0)).unwrap();
    assert!(matches!(give_up(fast(1)), Err(PoolError::Needed(_))));
    give_up(dense(2)).unwrap();
    assert!(matches!(give_up(dense(0)), Err(PoolError::Needed(_))));
    let small = Ram::new(18 * MIB, 512);
    let coarse = Ram::new(20 * MIB, 4096);
    for unfit in [small, coarse] {
        let error = try_with(fast(0), &unfit);
        assert!(matches!(error, PoolError::Assemble(_)), "{error}");
    }
    let taken = try_with(fast(0), &rig.drives[1]);
    assert!(matches!(taken, PoolError::Labels(_)), "{taken}");
    let dead = fast_drive();
    dead.set_gone(true);
    assert!(matches!(try_with(fast(0), &dead), PoolError::Drive(_)));
    // The drive that was given up may come back: it is filled again.
    let (pool, drive) = (
        Rc::clone(&rig.pool),
        RamDrive::attach(&rig.world, &rig.drives[0]),
    );
    rig.write(2, 50);
    run(&rig.world, async move {
        pool.replace(fast(0), drive, &mut |_| {}).await.unwrap();
    });
    assert_eq!(rig.row(0), MemberState::Active);
    rig.drives[1].set_gone(true);
    rig.check();
}

/// Drives that are away are declared lost only if the others hold everything: when they answer
/// again, the pool starts as if nothing had been.
#[test]
fn too_many_dense_drives_away_change_nothing() {
    let mut rig = Rig::new(3, 13);
    rig.write(1, 300);
    rig.world.clear();
    let away = [&rig.drives[2], &rig.drives[3]];
    away.iter().for_each(|ram| ram.set_gone(true));
    let world = TestWorld::new(14);
    let refused = open(&world, &rig.drives, false).err().expect("refused");
    assert!(
        matches!(refused, PoolError::DenseMissing { away: 2 }),
        "{refused}"
    );
    away.iter().for_each(|ram| ram.set_gone(false));
    rig.restart(15);
    rig.check();
    let slots = rig.pool.slots();
    assert!(slots.iter().all(|slot| slot.state == SlotState::Live));
}

/// A drive that is lost by the labels is let go, whoever noticed, and a start does not keep one either: it can be
/// taken away, or be opened by whoever brings it back.
#[test]
fn a_lost_drive_is_let_go() {
    let mut rig = Rig::new(3, 23);
    rig.write(1, 200);
    assert_eq!(rig.held(), [true; 5]);
    rig.drives[0].set_gone(true);
    rig.write(2, 50);
    let pool = Rc::clone(&rig.pool);
    run(&rig.world, async move {
        pool.give_up(dense(2)).await.unwrap();
    });
    rig.world.drain();
    assert_eq!(rig.row(0), MemberState::Lost);
    assert_eq!(rig.held(), [false, true, true, true, false]);
    rig.check();
    rig.drives[0].set_gone(false);
    rig.restart(24);
    rig.world.drain();
    assert_eq!(rig.held(), [false, true, true, true, false]);
    rig.check();
}

/// One fast drive is away, the other turns out not to hold the log any more: the start fails. When
/// the first is back the pool starts.
#[test]
fn a_start_that_fails_gives_nobody_up() {
    for tries_alone in [false, true] {
        let mut rig = Rig::new(3, 41);
        rig.write(1, 500);
        rig.world.clear();
        rig.drives[0].erase_content();
        if tries_alone {
            let world = TestWorld::new(42);
            let some: Vec<_> = [0, 2, 3, 4].map(|at| Rc::clone(&rig.drives[at])).into();
            let refused = open(&world, &some, false).err();
            assert!(
                matches!(refused, Some(PoolError::Recover(_))),
                "an empty log does not start: {refused:?}"
            );
        }
        rig.world = TestWorld::new(43);
        let pool = open(&rig.world, &rig.drives, false);
        let pool = pool.unwrap_or_else(|error| panic!("tried alone {tries_alone}: {error}"));
        rig.pool = Rc::new(pool);
        rig.check();
    }
}

/// The same of a start that accepts a loss: one that cannot read what is there gives nobody up.
#[test]
fn a_start_that_accepts_a_loss_and_fails_gives_nobody_up() {
    for is_stale in [false, true] {
        let mut rig = Rig::new(0, 46);
        rig.write(1, 300);
        if is_stale {
            rig.drives[1].set_gone(true);
            rig.write(2, 50);
            assert_eq!(rig.row(1), MemberState::Lost);
            rig.drives[1].set_gone(false);
        }
        rig.world.clear();
        rig.drives[1].erase_content();
        let world = TestWorld::new(47);
        let some = [Rc::clone(&rig.drives[1])];
        let refused = open(&world, &some, false).err();
        let Some(PoolError::Import(ImportError::WouldLose(_))) = refused else {
            panic!("{refused:?}");
        };
        let failed = open(&world, &some, true).err();
        assert!(matches!(failed, Some(PoolError::Recover(_))), "{failed:?}");
        world.drain();
        rig.restart(48);
        rig.check();
        assert_eq!(rig.row(0), MemberState::Active);
    }
}

/// Drives of both tiers are away: a start that succeeds notes their losses before it ends, each
/// once, and the pool does without them.
#[test]
fn a_start_without_drives_notes_their_losses() {
    let mut rig = Rig::new(3, 44);
    rig.write(1, 500);
    rig.world.clear();
    rig.world = TestWorld::new(45);
    let some: Vec<_> = [0, 2, 4].map(|at| Rc::clone(&rig.drives[at])).into();
    rig.pool = Rc::new(open(&rig.world, &some, false).unwrap());
    for (id, slot) in [(1, fast(1)), (3, dense(1))] {
        assert_eq!(rig.row(id), MemberState::Lost);
        assert_eq!(rig.state(slot), SlotState::Lost);
    }
    assert_eq!(rig.pool.counters()["members_lost"], 2);
    rig.check();
    rig.write(2, 200);
    rig.check();
}
