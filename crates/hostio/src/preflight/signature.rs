//! What a disk holds, by marks at fixed places.
//!
//! Found: the usual file systems, swap, encryption, volume managers and partition tables of Linux.
//! Everything else that is not zero within the first MiB is told as data of an unknown kind. A disk
//! whose only content lies behind that, with no known mark at its end, is taken for blank.
//!
//! # Source
//! The superblock definitions of each; offsets as in util-linux, `libblkid/src/superblocks`.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes looked at from the start on.
const HEAD: usize = 1 << 20;

/// A mark at a fixed place within the first MiB.
#[derive(Clone, Copy, Debug)]
pub struct Magic {
    /// What it is a mark of.
    pub name: &'static str,
    /// Where, in bytes from the start.
    pub offset: usize,
    /// The mark.
    pub bytes: &'static [u8],
}

/// What a disk holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Something known.
    Known(&'static str),
    /// Something else.
    Unknown,
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Known(name) => name,
            Self::Unknown => "data of an unknown kind",
        })
    }
}

const fn magic(name: &'static str, offset: usize, bytes: &'static [u8]) -> Magic {
    Magic {
        name,
        offset,
        bytes,
    }
}

const LVM: &str = "an LVM physical volume";
const MD: &str = "a member of a Linux RAID";
const GPT: &str = "a partition table (GPT)";
const SWAP: &str = "swap space";
const MD_MAGIC: &[u8] = &0xa92b_4efc_u32.to_le_bytes();
const GPT_MAGIC: &[u8] = b"EFI PART";

const MAGICS: [Magic; 26] = [
    magic("an ext2, ext3 or ext4 file system", 0x438, &[0x53, 0xef]),
    magic("an XFS file system", 0, b"XFSB"),
    magic("a Btrfs file system", 0x1_0040, b"_BHRfS_M"),
    magic("an F2FS file system", 0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    magic("a SquashFS file system", 0, b"hsqs"),
    magic("an NTFS file system", 3, b"NTFS    "),
    magic("an exFAT file system", 3, b"EXFAT   "),
    magic("a FAT file system", 0x52, b"FAT32   "),
    magic("a FAT file system", 0x36, b"FAT16   "),
    magic("a FAT file system", 0x36, b"FAT12   "),
    magic("an ISO 9660 file system", 0x8001, b"CD001"),
    magic("a LUKS volume", 0, b"LUKS\xba\xbe"),
    magic("a Ceph BlueStore device", 0, b"bluestore block device"),
    magic("a QCOW2 image", 0, b"QFI\xfb"),
    magic(
        "a bcache device",
        0x1018,
        &[
            0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba,
            0x6d, 0x81,
        ],
    ),
    magic(SWAP, 4096 - 10, b"SWAPSPACE2"),
    magic(SWAP, 65536 - 10, b"SWAPSPACE2"),
    magic(LVM, 0, b"LABELONE"),
    magic(LVM, 0x200, b"LABELONE"),
    magic(LVM, 0x400, b"LABELONE"),
    magic(LVM, 0x600, b"LABELONE"),
    magic(MD, 0, MD_MAGIC),
    magic(MD, 0x1000, MD_MAGIC),
    magic(GPT, 512, GPT_MAGIC),
    magic(GPT, 4096, GPT_MAGIC),
    magic("a boot sector or partition table (MBR)", 510, &[0x55, 0xaa]),
];

/// Uberblocks of ZFS lie every KiB in this range of the first label.
const ZFS: (std::ops::Range<usize>, u64) = (128 << 10..256 << 10, 0x00ba_b10c);

/// What the disk of `bytes` bytes holds, each once; empty if it looks blank. `own` are the marks of the
/// caller's own kind of content.
///
/// # Errors
/// The system's.
pub fn content(file: &File, bytes: u64, own: &[Magic]) -> io::Result<Vec<Content>> {
    let mut head = vec![0; HEAD.min(usize::try_from(bytes).unwrap_or(HEAD))];
    file.read_exact_at(&mut head, 0)?;
    let is_there = |magic: &&Magic| {
        let end = magic.offset + magic.bytes.len();
        head.get(magic.offset..end) == Some(magic.bytes)
    };
    let mut names: Vec<&'static str> = Vec::new();
    let mut add = |name| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    own.iter()
        .chain(&MAGICS)
        .filter(is_there)
        .for_each(|magic| add(magic.name));
    if has_uberblock(&head) {
        add("a member of a ZFS pool");
    }
    for (name, offset, magic) in at_the_end(bytes) {
        let mut mark = vec![0; magic.len()];
        file.read_exact_at(&mut mark, offset)?;
        if mark == magic {
            add(name);
        }
    }
    let mut contents: Vec<_> = names.into_iter().map(Content::Known).collect();
    if contents.is_empty() && head.iter().any(|&byte| byte != 0) {
        contents.push(Content::Unknown);
    }
    Ok(contents)
}

fn has_uberblock(head: &[u8]) -> bool {
    let (range, magic) = ZFS;
    let marks = range.step_by(1 << 10).filter_map(|at| head.get(at..at + 8));
    let is_mark = |mark: &[u8]| mark == magic.to_le_bytes() || mark == magic.to_be_bytes();
    marks.into_iter().any(is_mark)
}

/// Marks at places that depend on the size: what they are of, where, and the mark.
fn at_the_end(bytes: u64) -> Vec<(&'static str, u64, &'static [u8])> {
    const AREA: u64 = 64 << 10;
    if bytes < 2 * AREA {
        return Vec::new();
    }
    vec![
        // Version 0.90: the last whole 64 KiB but one of them; 1.0: 8 KiB from the end, in 4 KiB.
        (MD, bytes / AREA * AREA - AREA, MD_MAGIC),
        (MD, (bytes / 512 - 16) / 8 * 8 * 512, MD_MAGIC),
        // The table's copy, whose loss of the first is a partition table still.
        (GPT, bytes - 512, GPT_MAGIC),
        (GPT, bytes - 4096, GPT_MAGIC),
    ]
}
