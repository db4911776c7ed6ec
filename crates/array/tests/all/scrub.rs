//! Parity that is wrong is found and mended, where the data beside it are known.

use crate::common::{BLOCK, Executor, MemoryDrive, Recorder, blocks, drives, gather, pattern};
use std::rc::Rc;
use varve_array::{Geometry, Member, Protection, StripeSet};
use varve_io::{Command, Drive, Handle, IoError, World};

const BASE: u64 = 4096;

struct Rig {
    executor: Rc<Executor>,
    drives: Vec<Rc<MemoryDrive>>,
    set: Rc<StripeSet>,
    geometry: Geometry,
}

/// Four drives, strips of 3 blocks, zones of 5 strips, 2 groups; two stripes of which are written.
fn rig(protection: Protection) -> (Rig, Vec<u8>) {
    let executor = Executor::new(5);
    let geometry = Geometry::new(4, 3, 5, 2, protection).unwrap();
    let drives = drives(&executor, 4, BASE + geometry.member_bytes());
    let members = drives
        .iter()
        .map(|drive| Member::live(Rc::clone(drive) as Rc<dyn Drive>, BASE));
    let world = Rc::clone(&executor) as Rc<dyn World>;
    let recorder = Recorder::new(&executor) as _;
    let set = StripeSet::new(geometry, members.collect(), recorder, world).unwrap();
    let rig = Rig {
        executor,
        drives,
        set: Rc::new(set),
        geometry,
    };
    let bytes = pattern(3, 2 * geometry.stripe_bytes() as usize);
    let write = Command::Write {
        offset: 0,
        gather: gather(&bytes),
        handle: Handle::default(),
    };
    let written = rig.set.submit(write);
    assert!(rig.executor.block_on(written).is_ok());
    (rig, bytes)
}

impl Rig {
    fn wrong(&self, stripe: u64, data: &[u8], is_known: &[bool]) -> Result<Vec<u64>, IoError> {
        let (set, data, is_known) = (Rc::clone(&self.set), blocks(data), is_known.to_vec());
        self.executor
            .block_on(async move { set.wrong_parity(stripe, &data, &is_known).await })
    }

    fn mend(&self, stripe: u64, data: &[u8], rows: &[u64]) -> Result<(), IoError> {
        let (set, data, rows) = (Rc::clone(&self.set), blocks(data), rows.to_vec());
        self.executor
            .block_on(async move { set.mend_parity(stripe, &data, &rows).await })
    }

    /// Byte of a drive where a row of a stripe lies.
    fn height(&self, stripe: u64, row: u64) -> u64 {
        BASE + stripe * self.geometry.strip_bytes() + row * BLOCK as u64
    }
}

/// Of each stripe: no row is wrong as written; a flipped bit and a row that cannot be read are, each by its
/// height; mended they are right, and nothing else has changed.
#[test]
fn wrong_parity_is_told_by_row_and_mended() {
    let (rig, bytes) = rig(Protection::Parity { data: 3 });
    let stripe_bytes = rig.geometry.stripe_bytes() as usize;
    for stripe in 0..2 {
        let data = &bytes[stripe as usize * stripe_bytes..][..stripe_bytes];
        let known = [true; 9];
        assert_eq!(rig.wrong(stripe, data, &known), Ok(vec![]));
        let parity = &rig.drives[rig.geometry.parity(stripe).unwrap()];
        let before = parity.peek(0, (BASE + rig.geometry.member_bytes()) as usize);
        let at = rig.height(stripe, 0) as usize;
        parity.poke(at + 77, &[before[at + 77] ^ 4]);
        parity.spoil(rig.height(stripe, 2), BLOCK as u64);
        assert_eq!(rig.wrong(stripe, data, &known), Ok(vec![0, 2]));
        assert_eq!(rig.mend(stripe, data, &[0, 2]), Ok(()));
        assert_eq!(rig.wrong(stripe, data, &known), Ok(vec![]));
        assert!(parity.peek(0, before.len()) == before);
        assert_eq!(
            parity.writes.get(),
            3,
            "the stripes, and a write for each row"
        );
    }
}

/// A row of which a block is not known says nothing of its parity.
#[test]
fn rows_that_are_not_known_are_left_alone() {
    let (rig, bytes) = rig(Protection::Parity { data: 3 });
    let mut data = bytes[..rig.geometry.stripe_bytes() as usize].to_vec();
    // Block 4 is the second of the second strip: row 1.
    data[4 * BLOCK] ^= 1;
    let mut known = [true; 9];
    assert_eq!(rig.wrong(0, &data, &known), Ok(vec![1]));
    known[4] = false;
    assert_eq!(rig.wrong(0, &data, &known), Ok(vec![]));
}

/// Without the parity's drive nothing is compared, and without parity there is nothing to compare.
#[test]
fn parity_that_is_away_is_not_wrong() {
    let (rig, bytes) = rig(Protection::Parity { data: 3 });
    let data = &bytes[..rig.geometry.stripe_bytes() as usize];
    rig.set.set_lost(rig.geometry.parity(0).unwrap());
    assert_eq!(rig.wrong(0, data, &[true; 9]), Err(IoError::GivenUp));
    let (rig, bytes) = self::rig(Protection::Mirror);
    let data = &bytes[..rig.geometry.stripe_bytes() as usize];
    assert_eq!(rig.wrong(0, data, &[true; 6]), Ok(vec![]));
}
