//! How CSAL divides a dense drive into bands.
//!
//! A real band is of 1 GiB: thousands of IUs, and so many blocks that bands which were written beside one another
//! die beside one another. Drives of rigs are a thousand times smaller. Were bands too, chance would decide
//! which is the emptiest, and an erase unit whose bands die in disorder is copied by the drive; and bands of broken
//! IUs would share their first and last one with their neighbours. So bands shrink in number before they do in size.

/// Reclaim groups of a drive: it is one erase unit and a little, and a drive has some hundreds.
const GROUPS: u64 = 200;
/// Bands of a group at most: 72 of 1 GiB.
///
/// # Source
/// SPDK, `lib/ftl/mngt/ftl_mngt_band.c`, `BASE_BDEV_RECLAIM_UNIT_SIZE`.
const GROUP_BANDS_MAX: u64 = 72;
/// Blocks of a band at least, where the drive has room. Measured under uniform writes at `--scale 1`: with 265 the
/// drive programs 2.47 bytes for one of `csal-paper`, with 256 (whole IUs) 1.30, with 544 1.10, with 1,024 1.00.
const BLOCKS_MIN: u64 = 1024;
/// Bands that garbage collection keeps free, at most.
const RESERVE: u64 = 5;

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
    /// Bands that fill a drive of so many blocks, in IUs of so many, of which a system writes `open` at once and
    /// does not export some per cent.
    pub(super) fn new((blocks, iu_blocks): (u64, u64), open: u64, over_provision: f64) -> Self {
        // Twice as many spare bands as may be open or kept free.
        let spare = (2 * (open + RESERVE)) as f64;
        let least = (spare * 100.0 / over_provision).ceil() as u64;
        let group = (blocks / GROUPS / BLOCKS_MIN)
            .max(least.div_ceil(GROUPS))
            .clamp(1, GROUP_BANDS_MAX);
        let band = (blocks / (GROUPS * group) / iu_blocks).max(1) * iu_blocks;
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

    /// At every scale, on every drive: whole IUs, a thousand blocks where 200 bands of them fit, the drive full to
    /// a group, spare bands for all that is open.
    #[test]
    fn bands_are_whole_and_large_enough() {
        for name in sheets() {
            let sheet = Sheet::named(name).unwrap();
            let iu_blocks = u64::from(sheet.flash.iu_bytes.value) / BLOCK_BYTES;
            for (scale, open) in (1..=32).flat_map(|scale| [2, 9, 65].map(|open| (scale, open))) {
                let blocks = Shape::smallest(&sheet) / scale / BLOCK_BYTES;
                let bands = Bands::new((blocks, iu_blocks), open, 18.0);
                let (count, band) = (u64::from(bands.count), u64::from(bands.blocks));
                let what = format!("{name} at {scale}, {open} open: {bands:?} of {blocks}");
                assert!(band.is_multiple_of(iu_blocks), "{what}");
                let is_roomy = blocks / GROUPS >= BLOCKS_MIN + iu_blocks && open <= 9;
                assert!(!is_roomy || band + iu_blocks > BLOCKS_MIN, "{what}");
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
        let bands = Bands::new((blocks, 16), 9, 18.0);
        assert_eq!(bands.group, 72);
        assert!((200..220).contains(&(bands.count / 72)), "{bands:?}");
    }
}
