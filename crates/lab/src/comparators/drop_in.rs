//! The dense drive as it is.

use super::stated::{Stated, bytes};

/// Parameters of a drop-in drive.
pub(crate) struct DropIn {
    /// All of the drive is exported, in whole numbers of these bytes.
    pub(crate) whole_bytes: u64,
}

pub(crate) const DROP_IN: DropIn = DropIn {
    whole_bytes: 1 << 20,
};

impl DropIn {
    pub(super) fn stated(&self) -> Vec<Stated> {
        let Self { whole_bytes } = *self;
        vec![
            Stated::of(
                "exported",
                format!("all of the drive, in multiples of {}", bytes(whole_bytes)),
                "document 002: a QLC drive in place of another",
            ),
            Stated::of(
                "charge to a processor",
                "nothing",
                "chosen: there is no software between",
            ),
        ]
    }
}
