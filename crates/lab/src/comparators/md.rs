//! Linux md: RAID-0, 10, 5 and 6.

use super::stated::{Stated, bytes};
use crate::rig::{RigRequest, SystemName};

/// Parameters of md.
pub(crate) struct Md {
    /// Drives of an array.
    pub(crate) drives: u32,
    /// What lies on one drive before the next one's turn.
    pub(crate) chunk_bytes: u64,
    /// Copies of a chunk of RAID-10.
    pub(crate) copies: u64,
    /// How parity is made anew: 0 always reconstructs, 1 does what reads less, 2 modifies if both read as much.
    pub(crate) rmw_level: u8,
}

pub(crate) const MD: Md = Md {
    drives: 8,
    chunk_bytes: 512 << 10,
    copies: 2,
    rmw_level: 1,
};

impl Md {
    pub(super) fn stated(&self, request: &RigRequest) -> Vec<Stated> {
        let Self {
            drives,
            chunk_bytes,
            copies,
            rmw_level,
        } = *self;
        let mut stated = vec![
            Stated::asked(
                "drives",
                request.drives.into(),
                &drives.into(),
                "document 004",
            ),
            Stated::of(
                "chunk",
                bytes(chunk_bytes),
                "mdadm(8), --chunk (from memory)",
            ),
            Stated::of(
                "charge to a processor",
                "nothing",
                "chosen: none was measured, and this is kind; nor has it a bitmap, or a stripe cache that is too small",
            ),
        ];
        let layout = |words, source| Stated::of("layout", words, source);
        match request.system {
            SystemName::Raid10 => {
                stated.push(layout(
                    "near",
                    "Linux, drivers/md/raid10.c: n2 (from memory)",
                ));
                stated.push(Stated::of(
                    "copies",
                    copies,
                    "Linux, drivers/md/raid10.c: n2 (from memory)",
                ));
                let read = "the drive with fewest requests, the first of equals";
                stated.push(Stated::of(
                    "read from",
                    read,
                    "Linux, drivers/md/raid10.c, read_balance()",
                ));
            }
            SystemName::Raid5 | SystemName::Raid6 => {
                let source = "Linux 6.6, drivers/md/raid5.c, raid5_compute_sector()";
                stated.push(layout("left-symmetric", source));
                stated.push(Stated::asked(
                    "rmw_level",
                    u32::from(request.rmw_level).into(),
                    &u32::from(rmw_level).into(),
                    "Linux 6.6, drivers/md/raid5.c: 1 unless told (from memory)",
                ));
            }
            _ => stated.push(layout(
                "chunks of all drives in turn",
                "Linux, drivers/md/raid0.c (from memory)",
            )),
        }
        stated
    }
}
