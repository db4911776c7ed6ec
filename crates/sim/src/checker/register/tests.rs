//! The register of one block against histories written by hand.

use super::*;

fn written(register: &mut Register, id: WriteId, from: Moment, to: Moment) {
    register.invoke(id, false, from);
    register.acknowledge(id, to, false, from, 0);
}

/// After a write is acknowledged, neither the one before nor zeroes may be read.
#[test]
fn overwritten_values_are_stale() {
    let mut register = Register::new(1);
    written(&mut register, 1, 10, 11);
    written(&mut register, 2, 12, 13);
    assert_eq!(register.returned(1, 14, 15), Err(Wrong::Stale));
    assert_eq!(register.returned_zero(14, 15), Err(Wrong::Lost));
    assert_eq!(register.returned(2, 14, 15), Ok(()));
}

/// Two concurrent writes may be read in either order, but not in both.
#[test]
fn new_old_inversion_is_found() {
    let mut register = Register::new(1);
    register.invoke(1, false, 10);
    register.invoke(2, false, 11);
    assert_eq!(register.returned(1, 12, 13), Ok(()));
    assert_eq!(register.returned(2, 14, 15), Ok(()));
    assert_eq!(register.returned(1, 16, 17), Err(Wrong::Stale));
    register.acknowledge(1, 18, false, 10, 0);
    register.acknowledge(2, 19, false, 11, 0);
    assert_eq!(register.returned(1, 20, 21), Err(Wrong::Stale));
    assert_eq!(register.returned(2, 20, 21), Ok(()));
}

/// The answer of a write comes after the crash, but was sent before it. What was written meanwhile may have come
/// after it; what had ended before it began is gone if it was durable; and one value is all that survives.
#[test]
fn a_late_answer_is_of_the_life_before() {
    let register = || {
        let mut register = Register::new(1);
        written(&mut register, 1, 4, 5);
        register.invoke(2, false, 10);
        register.repeat(2, false);
        written(&mut register, 3, 12, 13);
        register.crash(20, 2, 21, 10);
        register
    };
    for is_durable in [false, true] {
        let mut late = register();
        late.acknowledge_late(2, 22, is_durable);
        let old = if is_durable {
            Err(Wrong::Stale)
        } else {
            Ok(())
        };
        assert_eq!(late.clone().returned(1, 30, 31), old);
        for survivor in [2, 3] {
            let mut late = late.clone();
            assert_eq!(late.returned(survivor, 30, 31), Ok(()));
            assert_eq!(late.returned(5 - survivor, 32, 33), Err(Wrong::Stale));
        }
    }
    // Sent again and answered then, it comes after all of them.
    let mut again = register();
    again.acknowledge(2, 25, true, 26, 0);
    assert_eq!(again.clone().returned(3, 30, 31), Err(Wrong::Stale));
    assert_eq!(again.returned(2, 30, 31), Ok(()));
}

/// A crash may bring back any acknowledged write since the durable one, and one alone.
#[test]
fn crash_fixes_one_value() {
    for survivor in [1, 2, 3] {
        let mut register = Register::new(1);
        written(&mut register, 9, 4, 5);
        written(&mut register, 1, 10, 11);
        written(&mut register, 2, 12, 13);
        register.invoke(3, false, 14);
        register.crash(20, 12, 20, 20);
        assert_eq!(register.clone().returned(9, 21, 22), Err(Wrong::Stale));
        assert_eq!(register.clone().returned_zero(21, 22), Err(Wrong::Lost));
        assert_eq!(register.returned(survivor, 21, 22), Ok(()));
        for other in [1, 2, 3] {
            let expected = if other == survivor {
                Ok(())
            } else {
                Err(Wrong::Stale)
            };
            assert_eq!(register.clone().returned(other, 23, 24), expected);
        }
        register.crash(30, 0, 30, 30);
        let expected = if survivor == 1 {
            Ok(())
        } else {
            Err(Wrong::Stale)
        };
        assert_eq!(register.returned(1, 31, 32), expected);
    }
}

/// What a flush covered survives; what it did not cover may be lost.
#[test]
fn flushed_writes_survive() {
    let mut register = Register::new(1);
    written(&mut register, 1, 10, 11);
    register.invoke(2, true, 12);
    register.acknowledge(2, 13, false, 12, 0);
    let mut kept = register.clone();
    kept.crash(20, 14, 20, 20);
    assert_eq!(kept.clone().returned(1, 21, 22), Err(Wrong::Stale));
    assert_eq!(kept.returned_zero(21, 22), Ok(()));
    register.crash(20, 12, 20, 20);
    assert_eq!(register.returned(1, 21, 22), Ok(()));
    assert_eq!(register.returned_zero(23, 24), Err(Wrong::Lost));
}

/// A write that was refused may have happened or not.
#[test]
fn refused_writes_are_open() {
    let mut register = Register::new(1);
    register.invoke(1, false, 10);
    assert_eq!(register.mapped(), (0, 1));
    assert_eq!(register.clone().returned(1, 11, 12), Ok(()));
    assert_eq!(register.returned_zero(11, 12), Ok(()));
    written(&mut register, 2, 20, 21);
    assert_eq!(register.mapped(), (1, 1));
}

/// Nor does it happen later: not over what was written since, nor over what a crash must leave.
#[test]
fn a_refused_write_does_not_land_later() {
    let mut register = Register::new(1);
    register.invoke(1, false, 10);
    register.give_up(1, 11);
    written(&mut register, 2, 20, 21);
    assert_eq!(register.clone().returned(1, 30, 31), Err(Wrong::Stale));
    assert_eq!(register.clone().returned(2, 30, 31), Ok(()));
    let mut lost = register.clone();
    lost.crash(40, 5, 40, 40);
    assert_eq!(lost.returned(1, 41, 42), Ok(()), "neither was durable");
    register.crash(40, 22, 40, 40);
    assert_eq!(register.clone().returned(1, 41, 42), Err(Wrong::Stale));
    assert_eq!(register.returned(2, 41, 42), Ok(()));
    // One that another was written beside may have come after it.
    let mut beside = Register::new(1);
    beside.invoke(1, false, 10);
    written(&mut beside, 2, 12, 13);
    beside.give_up(1, 14);
    assert_eq!(beside.clone().returned(2, 30, 31), Ok(()));
    assert_eq!(beside.returned(1, 30, 31), Ok(()));
    assert_eq!(beside.returned(2, 32, 33), Err(Wrong::Stale));
}

/// A write that is sent again may come and go until it is answered; then it stays or is gone.
#[test]
fn repeated_writes_come_back_until_answered() {
    let mut register = Register::new(1);
    register.invoke(1, false, 10);
    register.repeat(1, false);
    assert_eq!(register.returned(1, 11, 12), Ok(()));
    written(&mut register, 2, 13, 14);
    assert_eq!(register.returned(2, 15, 16), Ok(()));
    assert_eq!(register.returned(1, 17, 18), Ok(()));
    register.acknowledge(1, 19, false, 19, 0);
    let mut other = register.clone();
    assert_eq!(register.returned(1, 20, 21), Ok(()));
    assert_eq!(register.returned(2, 22, 23), Err(Wrong::Stale));
    assert_eq!(other.returned(2, 20, 21), Ok(()));
    assert_eq!(other.returned(1, 22, 23), Err(Wrong::Stale));
}

/// A write that outlives a crash may be there after it or not, and lands later still; what was
/// there before it is stale once it was answered.
#[test]
fn repeated_writes_outlive_a_crash() {
    let mut register = Register::new(1);
    written(&mut register, 1, 4, 5);
    register.invoke(2, false, 10);
    register.repeat(2, false);
    register.crash(20, 6, 21, 20);
    assert_eq!(register.returned(1, 22, 23), Ok(()));
    assert_eq!(register.returned(2, 24, 25), Ok(()));
    assert_eq!(register.returned_zero(24, 25), Err(Wrong::Lost));
    register.acknowledge(2, 26, false, 26, 0);
    assert_eq!(register.returned(1, 27, 28), Err(Wrong::Stale));
    assert_eq!(register.returned(2, 27, 28), Ok(()));
}

/// Of a long write a part that was answered before a crash is not sent again: what was written over it
/// there stays when the whole of it is answered. What was there before it is stale then all the same.
#[test]
fn an_answered_part_is_not_repeated() {
    for in_parts in [true, false] {
        let mut register = Register::new(1);
        written(&mut register, 1, 4, 5);
        register.invoke(2, false, 10);
        register.repeat(2, in_parts);
        register.invoke(3, false, 11);
        register.acknowledge(3, 12, true, 10, 0);
        register.crash(20, 6, 21, 10);
        let mut before = register.clone();
        assert_eq!(before.returned(1, 22, 23), Err(Wrong::Stale));
        register.acknowledge(2, 26, true, 26, 0);
        let kept = if in_parts { Ok(()) } else { Err(Wrong::Stale) };
        assert_eq!(register.clone().returned(3, 27, 28), kept);
        assert_eq!(register.returned(2, 27, 28), Ok(()));
        assert_eq!(register.returned(3, 29, 30), Err(Wrong::Stale));
    }
    // Nor is it forgotten, as what stood behind what stays.
    let mut register = Register::new(1);
    register.invoke(2, false, 10);
    register.repeat(2, true);
    written(&mut register, 3, 11, 12);
    register.crash(20, 13, 21, 10);
    register.acknowledge(2, 26, false, 26, 0);
    assert_eq!(register.returned(3, 27, 28), Ok(()));
    register.invoke(4, false, 40);
    register.acknowledge(4, 41, false, 39, 0);
    assert_eq!(register.returned(3, 39, 45), Ok(()));
    assert_eq!(register.returned(2, 46, 47), Err(Wrong::Stale));
    assert_eq!(register.returned(3, 46, 47), Err(Wrong::Stale));
    // What it stood behind before.
    let mut register = Register::new(1);
    written(&mut register, 1, 4, 5);
    register.invoke(2, false, 10);
    register.repeat(2, true);
    register.crash(20, 6, 21, 10);
    register.crash(30, 0, 31, 10);
    register.acknowledge(2, 40, true, 40, 0);
    assert_eq!(register.returned(1, 41, 42), Err(Wrong::Stale));
    assert_eq!(register.returned(2, 41, 42), Ok(()));
}

/// Pruning forgets values, not verdicts.
#[test]
fn pruned_values_stay_stale() {
    let mut register = Register::new(1);
    for id in 1..200 {
        let at = id * 10;
        register.invoke(id, false, at);
        register.acknowledge(id, at + 1, true, at + 2, 0);
        assert!(register.held().len() <= 3);
    }
    assert_eq!(register.returned(100, 3_000, 3_001), Err(Wrong::Stale));
    assert_eq!(register.returned(199, 3_000, 3_001), Ok(()));
    assert_eq!(register.mapped(), (1, 1));
}

/// Of writes that were refused none is kept once a later one is durable, and none may be read then.
#[test]
fn pruned_refusals_stay_stale() {
    let mut register = Register::new(1);
    for id in 1..200 {
        let at = id * 10;
        register.invoke(id, false, at);
        if id % 4 == 0 {
            register.acknowledge(id, at + 1, true, at + 2, 0);
            assert!(register.held().len() <= 3, "{}", register.held().len());
        } else {
            register.give_up(id, at + 1);
        }
    }
    let mut other = register.clone();
    assert_eq!(other.returned(195, 3_000, 3_001), Err(Wrong::Stale));
    // What was refused since the last one that was acknowledged may be there.
    assert_eq!(other.returned(198, 3_000, 3_001), Ok(()));
    assert_eq!(register.returned(196, 3_000, 3_001), Ok(()));
}

/// A value that is read after a later write was refused is still there: that write never happened, and goes.
#[test]
fn a_refusal_that_came_to_nothing_outdates_nothing() {
    let mut register = Register::new(1);
    register.invoke(1, false, 10);
    register.acknowledge(1, 12, true, 12, 0);
    register.invoke(2, false, 20);
    register.give_up(2, 30);
    assert_eq!(register.returned(1, 40, 41), Ok(()));
    register.invoke(3, false, 50);
    register.acknowledge(3, 51, false, 45, 0);
    assert!(register.held().iter().all(|one| one.id != 2));
    assert_eq!(register.clone().returned(2, 60, 61), Err(Wrong::Stale));
    register.invoke(4, false, 70);
    register.give_up(4, 71);
    register.crash(80, 0, 80, 80);
    assert_eq!(register.returned(1, 90, 91), Ok(()));
}

/// The answer of a read may be on its way when the power fails: it may be older than what the crash
/// left, and tells nothing of that.
#[test]
fn an_answer_may_outlive_a_crash() {
    let mut register = Register::new(1);
    written(&mut register, 1, 10, 11);
    register.invoke(2, false, 13);
    register.acknowledge(2, 14, true, 12, 0);
    register.crash(20, 0, 20, 12);
    assert_eq!(register.clone().returned(1, 15, 25), Err(Wrong::Stale));
    assert_eq!(register.clone().returned(1, 21, 25), Err(Wrong::Stale));
    assert_eq!(register.clone().returned_zero(12, 25), Err(Wrong::Lost));
    assert_eq!(register.returned(1, 12, 25), Ok(()));
    assert_eq!(register.returned(2, 26, 27), Ok(()));
    assert_eq!(register.returned(1, 28, 29), Err(Wrong::Stale));
    // The next crash is outlived by nothing.
    register.crash(30, 0, 30, 30);
    assert_eq!(register.returned(1, 12, 31), Err(Wrong::Stale));
}
