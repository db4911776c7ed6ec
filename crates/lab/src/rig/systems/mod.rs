//! The storage systems that can be measured.

#[cfg(test)]
mod bed;
pub(crate) mod concat;
pub(crate) mod csal;
pub(crate) mod dm_zoned;
mod ledger;
mod locks;
pub(crate) mod open_cas;
pub(crate) mod parity_raid;
pub(crate) mod raid0;
pub(crate) mod raid10;
pub(crate) mod rotation;
mod row_locks;
mod stripe_update;
pub(crate) mod varve;

use super::station::Station;
use crate::comparators::MD;
use std::rc::Rc;

/// md's chunk: what lies on one drive before the next one's turn.
pub(crate) const CHUNK_BYTES: u64 = MD.chunk_bytes;

/// What all of md's arrays tell of themselves.
fn array_parameters(drives: &[Rc<Station>]) -> Vec<(&'static str, String)> {
    vec![
        (
            "drives",
            format!("{} of {}", drives.len(), drives[0].name()),
        ),
        ("chunk", format!("{} KiB", CHUNK_BYTES >> 10)),
        ("processors", "not charged".to_owned()),
    ]
}
