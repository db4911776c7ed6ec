//! A block found in a chunk or group that is being emptied or scrubbed.

use crate::lifetime::UNTOLD;
use crate::map::LeafKey;
use crate::placement::Item;
use varve_format::{BroughtBlock, P2lEntry};
use varve_units::{Lba, Lsn, Ppa, VolumeId};

/// A block found in a victim that the map perhaps still needs.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) volume: VolumeId,
    pub(crate) lba: Lba,
    pub(crate) ppa: Ppa,
    pub(crate) birth: Lsn,
    pub(crate) crc: u32,
    /// Its lifetime class, if it has one.
    pub(crate) class: u8,
    /// It stayed in the log before, for this class.
    pub(crate) kept_for: Option<u8>,
    /// It is to stay there.
    pub(crate) stays: bool,
}

impl Candidate {
    /// A block that a batch brought.
    pub(crate) fn brought(one: &BroughtBlock) -> Self {
        Self {
            volume: one.volume,
            lba: one.lba,
            ppa: Ppa::fast(one.sector),
            birth: one.birth,
            crc: one.crc,
            class: one.class,
            kept_for: one.is_kept.then_some(one.class),
            stays: false,
        }
    }

    /// The block at a place of the dense tier, by the P2L there.
    pub(crate) const fn listed(entry: &P2lEntry, ppa: Ppa) -> Self {
        Self {
            volume: entry.volume,
            lba: entry.lba,
            ppa,
            birth: entry.birth,
            crc: entry.crc,
            class: UNTOLD,
            kept_for: None,
            stays: false,
        }
    }

    /// On its way, block `at` of the memory that it was read into.
    pub(crate) const fn with(&self, at: usize) -> Item {
        let Self {
            volume,
            lba,
            ppa,
            birth,
            crc,
            class,
            ..
        } = *self;
        Item {
            volume,
            lba,
            old: ppa,
            birth,
            crc,
            at: at as u32,
            class,
        }
    }

    pub(crate) const fn key(&self) -> LeafKey {
        LeafKey {
            volume: self.volume,
            leaf: self.lba.leaf(),
        }
    }
}
