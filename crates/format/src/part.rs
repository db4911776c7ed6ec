//! The payload of a checkpoint part, in the memory it is written from.

use core::fmt;
use varve_io::{Sectors, Supply};

/// So many bytes, in sectors of which the last one is padded with zeroes.
#[derive(Clone)]
pub struct PartPayload {
    sectors: Sectors,
    len: usize,
}

impl PartPayload {
    /// The payload of these bytes, in memory of that supply.
    #[must_use]
    pub fn new(bytes: &[u8], supply: Supply) -> Self {
        Self {
            sectors: supply.copy(bytes),
            len: bytes.len(),
        }
    }

    /// Its bytes, padding apart.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.sectors.bytes()[..self.len]
    }

    /// The sectors it is written as.
    #[must_use]
    pub fn into_sectors(self) -> Sectors {
        self.sectors
    }

    /// Makes its first bytes `head`.
    pub(crate) fn set_head(&mut self, head: &[u8]) {
        self.sectors.bytes_mut()[..head.len()].copy_from_slice(head);
    }
}

impl fmt::Debug for PartPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part of {} bytes", self.len)
    }
}
