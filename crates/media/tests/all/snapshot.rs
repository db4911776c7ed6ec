//! States that are kept: all of them come back, nothing else does.

use crate::common::{IU, Rng, drive, fill, nobody, overwrite};
use varve_media::{Shape, SnapshotError, Ssd};

fn aged() -> Ssd {
    let mut ssd = drive(40, 32, 1_100_000);
    fill(&mut ssd);
    overwrite(&mut ssd, &mut Rng(1), 3.0);
    ssd.deallocate(0, 100 * u64::from(IU));
    for iu in [3, 500, 77] {
        ssd.write(iu * u64::from(IU) + 4096, 8192, &mut nobody);
    }
    ssd
}

/// That restored drives go on as before is part of the property test.
#[test]
fn what_was_saved_comes_back() {
    let ssd = aged();
    let bytes = ssd.save();
    let mut back = Ssd::restore(*ssd.shape(), &bytes).expect("what was saved");
    assert_eq!(back.counters(), ssd.counters());
    assert_eq!(back.wear(), ssd.wear());
    assert_eq!(back.waiting(), 3);
    assert_eq!(back.save(), bytes);
    // The rest of a part that waited.
    let rest = u64::from(IU) - 12288;
    back.write(3 * u64::from(IU), 4096, &mut nobody);
    back.write(3 * u64::from(IU) + 12288, rest, &mut nobody);
    assert_eq!(back.waiting(), 2);
}

#[test]
fn damage_is_seen() {
    let ssd = aged();
    let (shape, bytes) = (*ssd.shape(), ssd.save());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let found = Ssd::restore(shape, &damaged).err();
        assert_eq!(found, Some(SnapshotError::Damaged), "byte {at}");
    }
    for length in [0, 7, 8, 100, bytes.len() - 1] {
        let found = Ssd::restore(shape, &bytes[..length]).err();
        assert_eq!(found, Some(SnapshotError::Damaged), "{length} bytes");
    }
}

#[test]
fn another_shape_is_refused() {
    let bytes = aged().save();
    let other = Shape::new((40 * 32) << 16, IU, 40, 1_100_000, 33, true).expect("possible");
    let found = Ssd::restore(other, &bytes).err();
    assert_eq!(found, Some(SnapshotError::Shape));
}

/// Bytes whose checksum is right and whose content is not never make a drive that breaks.
#[test]
fn nonsense_is_refused() {
    let ssd = aged();
    let (shape, bytes) = (*ssd.shape(), ssd.save());
    let body = bytes.len() - 8;
    let mut rng = Rng(2);
    // Behind magic, shape, sums and the number of victims.
    let from = 8 + 15 * 8;
    let mut refused = 0;
    for _ in 0..2000 {
        let mut nonsense = bytes.clone();
        let at = from + rng.below((body - from) as u64) as usize;
        nonsense[at] ^= 1 << rng.below(8);
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let check = nonsense[..body].iter().fold(0xcbf2_9ce4_8422_2325, step);
        nonsense[body..].copy_from_slice(&check.to_le_bytes());
        match Ssd::restore(shape, &nonsense) {
            Ok(mut drive) => overwrite(&mut drive, &mut rng, 0.2),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 500, "{refused} of 2000");
}
