//! Whether what lies where a label was is what became of that label, or what somebody else put there.
//!
//! A copy that is no label is one of these:
//! - *erased or never written*: zeroes;
//! - *torn*: sectors (of 512 bytes, where a drive has no larger ones) of two labels, or of a label and zeroes;
//!   the first one begins with the mark of labels or is zero;
//! - *rotten*: a label, but for some bytes. Where they are in the mark, the pool's identity tells it;
//! - *another use*: a partition table, a file system, a volume manager put something there. The other copy may have
//!   survived it: before the first partition lies a gap of a MiB. Whoever trusts that copy overwrites what is not his.
//!
//! The mark of labels alone proves nothing: parted and sfdisk keep the first 440 bytes of a drive, as the code of a boot
//! sector. So the marks of others that may stand behind it, or behind zeroes, come first. None of them can be a part of a
//! label: they would be sizes, generations or ids that no member has.
//!
//! The price: a member with something else's sector over the first one of a copy, by a misdirected write say, is
//! taken for another use, not for a member. It is as one that is lost then.

use crate::label::state::PoolId;
use varve_format::LABEL_MAGIC;
use varve_units::SECTOR;

/// Where a label has the identity of its pool.
const POOL_AT: usize = 16;

/// A mark of others, where it stands in the first 4 KiB of a drive.
struct Mark {
    offset: usize,
    bytes: &'static [u8],
}

const fn mark(offset: usize, bytes: &'static [u8]) -> Mark {
    Mark { offset, bytes }
}

/// Marks of others that leave the start of a drive as it was, or zero. Those at the very start need none: it is no
/// label's then.
///
/// # Source
/// As those of the preflight: util-linux, `libblkid/src`.
const MARKS: [Mark; 8] = [
    // The boot sector's, of every partition table of PCs.
    mark(510, &[0x55, 0xaa]),
    mark(512, b"EFI PART"),
    mark(0x200, b"LABELONE"),
    mark(0x400, b"LABELONE"),
    mark(0x600, b"LABELONE"),
    // F2FS; ext2, ext3 and ext4.
    mark(0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    mark(0x438, &[0x53, 0xef]),
    mark(4096 - 10, b"SWAPSPACE2"),
];

/// True if the bytes of a copy that is no label were put there by somebody else; `pool` is the one of the other copy.
#[must_use]
pub fn is_other_use(bytes: &[u8], pool: PoolId) -> bool {
    let has = |mark: &Mark| {
        let rest = bytes.get(mark.offset..);
        rest.is_some_and(|rest| rest.starts_with(mark.bytes))
    };
    if MARKS.iter().any(has) {
        return true;
    }
    let first = bytes.get(..SECTOR).unwrap_or(bytes);
    let is_zero = first.iter().all(|byte| *byte == 0);
    !is_zero && !is_like(first, 0, &LABEL_MAGIC) && !is_like(first, POOL_AT, &pool.0)
}

/// True if half of the bytes at this place, or more, are those expected: so many are not alike by chance, and rot
/// leaves more.
fn is_like(bytes: &[u8], at: usize, expected: &[u8]) -> bool {
    let found = bytes.get(at..).unwrap_or_default();
    let pairs = found.iter().zip(expected);
    let alike = pairs.filter(|(one, other)| one == other).count();
    alike * 2 >= expected.len()
}
