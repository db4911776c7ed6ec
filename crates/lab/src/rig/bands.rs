//! How CSAL divides a dense drive into bands.
//!
//! A real band is of 1 GiB: thousands of IUs, and so many writes of hosts that bands which were written beside one
//! another die beside one another. Drives of rigs are a thousand times smaller. Were bands too, chance would decide
//! which is the emptiest, and an erase unit whose bands die in disorder is copied by the drive; and bands of broken
//! IUs would share their first and last one with their neighbours. So bands shrink in number before they do in size.

use crate::comparators::{CSAL, CSAL_TODAY};

/// Writes of hosts that a band has room for at least, while there are [`BANDS_MIN`]. Measured at `--scale 1` under
/// uniform writes of `csal-paper`: of 4 KiB the drive programs 2.47 bytes for one if a band has 265 blocks, 1.30 with
/// 256 (whole IUs), 1.10 with 544, 1.02 with 1,024; of 64 KiB 2.01 if a band has room for 64, 1.07 for 307, 1.00 for 615.
const WRITES_MIN: u64 = CSAL.band_writes_min;
/// Bands at least: of fewer, those that are open weigh. Measured as above, 64 KiB: 1001 MB/s with 400, 969 with 200.
const BANDS_MIN: u64 = CSAL.bands_min;
/// Bands that garbage collection keeps free, at most: today's.
const RESERVE: u64 = CSAL_TODAY.free_bands as u64;

/// Bands of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bands {
    /// How many: whole groups.
    pub(super) count: u32,
    /// Blocks of each: whole IUs of the drive.
    pub(super) blocks: u32,
    /// Bands of a group.
    pub(super) group: u32,
}

impl Bands {
    /// Bands that fill a drive of so many blocks, in IUs of so many. What dies at once are `piece` blocks; so many
    /// bands are open at once, and some per cent are not exported.
    pub(super) fn new(
        (blocks, iu_blocks): (u64, u64),
        piece: u64,
        (open, over_provision): (u64, f64),
    ) -> Self {
        // Twice as many spare bands as may be open or kept free.
        let spare = (2 * (open + RESERVE)) as f64;
        let least = BANDS_MIN.max((spare * 100.0 / over_provision).ceil() as u64);
        let group = (blocks / CSAL.groups / (WRITES_MIN * piece))
            .max(least.div_ceil(CSAL.groups))
            .clamp(1, CSAL.group_bands.into());
        let band = (blocks / (CSAL.groups * group) / iu_blocks).max(1) * iu_blocks;
        let count = blocks / (band * group) * group;
        Self {
            count: count as u32,
            blocks: band as u32,
            group: group as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_media::{Shape, Sheet, sheets};
    use varve_units::BLOCK_BYTES;

    /// At every scale, on every drive: whole IUs, a thousand writes where 400 bands of them fit, the drive full to
    /// a group, spare bands for all that is open.
    #[test]
    fn bands_are_whole_and_large_enough() {
        for name in sheets() {
            let sheet = Sheet::named(name).unwrap();
            let iu_blocks = u64::from(sheet.flash.iu_bytes.value) / BLOCK_BYTES;
            let loads = [(2, 1), (9, 1), (9, 16), (65, 1)];
            for (scale, (open, piece)) in (1..=32).flat_map(|at| loads.map(|load| (at, load))) {
                let blocks = Shape::smallest(&sheet) / scale / BLOCK_BYTES;
                let bands = Bands::new((blocks, iu_blocks), piece, (open, 18.0));
                let (count, band) = (u64::from(bands.count), u64::from(bands.blocks));
                let what = format!("{name} at {scale}, {open} open: {bands:?} of {blocks}");
                assert!(band.is_multiple_of(iu_blocks), "{what}");
                let least = WRITES_MIN * piece;
                let is_roomy = blocks / BANDS_MIN >= least && open <= 9;
                assert!(!is_roomy || band + iu_blocks > least, "{what}");
                let group = u64::from(bands.group);
                assert!(count.is_multiple_of(group), "{what}");
                assert!(blocks - count * band < group * band, "{what}");
                assert!(count * 18 / 100 >= open + RESERVE, "{what}");
            }
        }
    }

    /// As the document has it: 72 to a group, of 1 GiB.
    #[test]
    fn where_there_is_room_a_group_has_72() {
        let blocks = (15_360_000_000_000_u64) / BLOCK_BYTES;
        let bands = Bands::new((blocks, 16), 16, (9, 18.0));
        assert_eq!(bands.group, 72);
        assert!((200..220).contains(&(bands.count / 72)), "{bands:?}");
    }
}
