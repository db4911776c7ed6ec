//! A disk for each tenant.

use super::stated::Stated;
use crate::rig::RigRequest;

/// Parameters of an array of disks.
pub(crate) struct Disks {
    /// How many there are.
    pub(crate) count: u32,
    /// Which.
    pub(crate) drive: &'static str,
}

pub(crate) const DISKS: Disks = Disks {
    count: 8,
    drive: "hdd-002",
};

impl Disks {
    pub(super) fn stated(&self, request: &RigRequest) -> Vec<Stated> {
        let Self { count, drive } = *self;
        vec![
            Stated::asked(
                "disks",
                request.drives.into(),
                &count.into(),
                "document 002, test bed: a disk for each of eight tenants",
            ),
            Stated::of("disk", drive, "document 002, table of drives"),
            Stated::of(
                "charge to a processor",
                "nothing",
                "chosen: there is no software between",
            ),
        ]
    }
}
