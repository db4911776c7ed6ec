//! Narrow stripes: whichever member is missing when they are written, and whichever is missed later.

use crate::common::{BLOCK, Executor, MemoryDrive, Recorder, drives, gather, pattern, read};
use std::rc::Rc;
use varve_array::{Geometry, Member, MemberState, Protection, StripeSet};
use varve_io::{Drive, Gather, IoError, LeftOut, NARROW_WAYS, World};

const BASE: u64 = 4096;

struct Rig {
    executor: Rc<Executor>,
    drives: Vec<Rc<MemoryDrive>>,
    membership: Rc<Recorder>,
    set: Rc<StripeSet>,
    geometry: Geometry,
}

/// Strips of 2 blocks, zones of 5 strips, 3 groups: 15 stripes, so that every member has every role.
fn rig(protection: Protection, count: usize) -> Rig {
    let executor = Executor::new(17);
    let geometry = Geometry::new(count, 2, 5, 3, protection).unwrap();
    let drives = drives(&executor, count, BASE + geometry.member_bytes());
    let membership = Recorder::new(&executor);
    let members = drives
        .iter()
        .map(|drive| Member::live(Rc::clone(drive) as Rc<dyn Drive>, BASE));
    let world = Rc::clone(&executor) as Rc<dyn World>;
    let recorder = Rc::clone(&membership) as _;
    let set = StripeSet::new(geometry, members.collect(), recorder, world).unwrap();
    Rig {
        executor,
        drives,
        membership,
        set: Rc::new(set),
        geometry,
    }
}

fn parity(data: usize) -> Rig {
    rig(Protection::Parity { data }, data + 1)
}

impl Rig {
    fn stripe(&self) -> usize {
        self.geometry.stripe_bytes() as usize
    }

    fn read(&self, offset: usize, bytes: usize, copy: u8) -> Result<Vec<u8>, IoError> {
        let drive = Rc::clone(&self.set) as Rc<dyn Drive>;
        self.executor
            .block_on(async move { read(&*drive, offset, bytes, copy).await })
    }

    fn write(&self, stripe: u64, gather: Gather) -> Result<(), IoError> {
        let drive = Rc::clone(&self.set) as Rc<dyn Drive>;
        let offset = stripe * self.geometry.stripe_bytes();
        self.executor
            .block_on(async move { drive.write(offset, gather).await })
    }

    fn left_out(&self, stripe: u64) -> Option<LeftOut> {
        self.set.left_out(stripe * self.geometry.stripe_bytes())
    }

    /// What the caller has for a stripe: patterns, zeroes where it is left out.
    fn content(&self, stripe: u64, left_out: Option<LeftOut>) -> Vec<u8> {
        let mut bytes = pattern(stripe + 1, self.stripe());
        if let Some(out) = left_out {
            let from = out.first as usize * BLOCK;
            bytes[from..from + out.count as usize * BLOCK].fill(0);
        }
        bytes
    }

    /// Writes a stripe as who asks what is to be left out does.
    fn write_narrow(&self, stripe: u64) -> LeftOut {
        let out = self.left_out(stripe).expect("a member is missing");
        let bytes = self.content(stripe, Some(out));
        let gather = match out.is_sum {
            false => gather(&bytes),
            true => {
                let end = out.first as usize * BLOCK;
                assert_eq!(end + out.count as usize * BLOCK, self.stripe());
                self.set.complete(gather(&bytes[..end]))
            }
        };
        self.write(stripe, gather).unwrap();
        out
    }

    fn is_left_out(out: &LeftOut, block: usize) -> bool {
        (out.first..out.first + out.count).contains(&(block as u32))
    }

    fn lose(&self, member: usize) {
        self.set.set_lost(member);
    }

    fn strip(&self, member: usize, stripe: u64) -> Vec<u8> {
        let strip = self.geometry.strip_bytes();
        self.drives[member].peek((BASE + stripe * strip) as usize, strip as usize)
    }
}

/// Every pair of members, each stripe of more than a rotation: all that was written is read while both are away, in the
/// way of the first one alone, and what is read is what was written. Nothing is taken from the first one.
#[test]
fn narrow_stripes_bear_the_loss_of_any_other_member() {
    for data in 2..=4 {
        for missing in 0..=data {
            let rig = parity(data);
            // What an earlier use left there.
            let old = pattern(99, rig.geometry.member_bytes() as usize);
            rig.drives
                .iter()
                .for_each(|drive| drive.poke(BASE as usize, &old));
            rig.lose(missing);
            let stripes = 0..rig.geometry.stripes();
            let outs: Vec<_> = stripes.clone().map(|at| rig.write_narrow(at)).collect();
            assert!(outs.iter().any(|out| out.is_sum) && outs.iter().any(|out| !out.is_sum));
            let way = NARROW_WAYS + missing as u8;
            assert_eq!(rig.set.narrow_ways(), [way]);
            for second in (0..=data).filter(|second| *second != missing) {
                rig.drives[second].broken.set(Some(IoError::Gone));
                for (stripe, out) in stripes.clone().zip(&outs) {
                    let bytes = rig.content(stripe, Some(*out));
                    for block in 0..rig.stripe() / BLOCK {
                        if Rig::is_left_out(out, block) {
                            continue;
                        }
                        let at = stripe as usize * rig.stripe() + block * BLOCK;
                        let expected = &bytes[block * BLOCK..][..BLOCK];
                        let what = format!("{data} {missing} {second} {stripe} {block}");
                        let is_direct = rig.set.member_of(at as u64, 0) != Some(second);
                        match rig.read(at, BLOCK, 0) {
                            Ok(found) => assert!(found == expected && is_direct, "{what}"),
                            Err(IoError::Gone) => assert!(!is_direct, "{what}"),
                            Err(error) => panic!("{what}: {error}"),
                        }
                        if !is_direct {
                            assert_eq!(rig.read(at, BLOCK, 1), Err(IoError::GivenUp), "{what}");
                            assert!(rig.read(at, BLOCK, way).unwrap() == expected, "{what}");
                        }
                    }
                }
                rig.drives[second].broken.set(None);
            }
            assert!(
                rig.membership.asked.borrow().is_empty(),
                "nobody was given up"
            );
        }
    }
}

/// The missing member's strip is zeroes as far as the others tell, so a drive that is filled in its place gets
/// those; then the stripes are like all others.
#[test]
fn a_drive_that_is_filled_gets_zeroes() {
    for missing in 0..4 {
        let rig = parity(3);
        rig.lose(missing);
        let stripes = rig.geometry.stripes();
        let outs: Vec<_> = (0..stripes).map(|at| rig.write_narrow(at)).collect();
        let fresh = MemoryDrive::new(Rc::clone(&rig.executor), BASE + rig.geometry.member_bytes());
        fresh.poke(
            BASE as usize,
            &pattern(5, rig.geometry.member_bytes() as usize),
        );
        let drive = Rc::clone(&fresh) as Rc<dyn Drive>;
        rig.set.replace(missing, drive, BASE).unwrap();
        assert_eq!(rig.left_out(0), None, "it takes writes");
        assert_eq!(rig.set.narrow_ways(), [NARROW_WAYS + missing as u8]);
        let (set, all) = (Rc::clone(&rig.set), 0..stripes);
        let restored = rig.executor.block_on(async move {
            set.rebuild(missing, std::slice::from_ref(&all), |_| {})
                .await
        });
        assert!(restored.unwrap().unreadable.is_empty());
        rig.set.set_live(missing);
        let bytes = rig.geometry.member_bytes() as usize;
        assert!(
            fresh
                .peek(BASE as usize, bytes)
                .iter()
                .all(|byte| *byte == 0)
        );
        assert!(rig.set.narrow_ways().is_empty());
        for (stripe, out) in (0..stripes).zip(&outs) {
            let expected = rig.content(stripe, Some(*out));
            for copy in 0..2 {
                let at = stripe as usize * rig.stripe();
                let found = rig.read(at, rig.stripe(), copy).unwrap();
                for block in (0..rig.stripe() / BLOCK)
                    .filter(|at| !(out.is_sum && Rig::is_left_out(out, *at)))
                {
                    let range = block * BLOCK..(block + 1) * BLOCK;
                    assert!(
                        found[range.clone()] == expected[range],
                        "{stripe} {block} {copy}"
                    );
                }
            }
        }
    }
}

/// A stripe that was put together for a missing member is one like any other when that member has been replaced
/// before it is written.
#[test]
fn a_member_that_is_back_gets_its_zeroes() {
    for missing in 0..4 {
        let rig = parity(3);
        rig.lose(missing);
        let outs: Vec<_> = (0..4).map(|at| rig.left_out(at).unwrap()).collect();
        let drive = Rc::clone(&rig.drives[missing]) as Rc<dyn Drive>;
        rig.set.replace(missing, drive, BASE).unwrap();
        for (stripe, out) in (0..4).zip(&outs) {
            let bytes = rig.content(stripe, Some(*out));
            let end = out.first as usize * BLOCK;
            let whole = match out.is_sum {
                true => rig.set.complete(gather(&bytes[..end])),
                false => gather(&bytes),
            };
            rig.write(stripe, whole).unwrap();
            assert!(rig.strip(missing, stripe).iter().all(|byte| *byte == 0));
        }
    }
}

#[test]
fn only_one_missing_member_makes_stripes_narrow() {
    for (protection, count) in [(Protection::None, 4), (Protection::Mirror, 4)] {
        let rig = rig(protection, count);
        assert_eq!(rig.left_out(0), None);
        if protection == Protection::Mirror {
            rig.lose(1);
        }
        assert_eq!(rig.left_out(0), None, "{protection:?}");
        assert!(rig.set.narrow_ways().is_empty(), "{protection:?}");
    }
    let rig = parity(3);
    assert_eq!(rig.left_out(0), None, "all are there");
    rig.lose(2);
    assert!((0..15).all(|stripe| rig.left_out(stripe).unwrap().member == 2));
    rig.lose(0);
    assert_eq!(rig.left_out(0), None, "two are missing");
    assert_eq!(rig.set.narrow_ways(), [NARROW_WAYS, NARROW_WAYS + 2]);
}

/// Where more is missing than the way can do without it says so, and the missing member's own strip is never made up.
#[test]
fn a_narrow_way_makes_nothing_up() {
    let rig = parity(3);
    rig.lose(1);
    for at in 0..15 {
        rig.write_narrow(at);
    }
    let way = NARROW_WAYS + 1;
    for block in 0..15 * rig.stripe() / BLOCK {
        let direct = rig.set.member_of((block * BLOCK) as u64, 0).unwrap();
        if direct == 1 {
            assert_eq!(rig.read(block * BLOCK, BLOCK, way), Err(IoError::Media));
            continue;
        }
        let third = (0..4).find(|at| ![1, direct].contains(at)).unwrap();
        rig.drives[third].broken.set(Some(IoError::Media));
        assert_eq!(rig.read(block * BLOCK, BLOCK, way), Err(IoError::Media));
        rig.drives[third].broken.set(None);
    }
    rig.set.set_lost(0);
    let other = (0..15 * rig.stripe() / BLOCK).find(|block| {
        let direct = rig.set.member_of((block * BLOCK) as u64, 0);
        direct == Some(2)
    });
    assert_eq!(
        rig.read(other.unwrap() * BLOCK, BLOCK, way),
        Err(IoError::GivenUp)
    );
    assert_eq!(rig.set.state(2), MemberState::Live);
}
