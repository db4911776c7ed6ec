//! Placement handles: hosts say which writes belong together.
//!
//! NVMe's flexible data placement. Each handle has an erase unit of its own open (there a *reclaim
//! unit*), so that what was written under two handles does not lie in one. What garbage collection
//! moves does so too, or not: that is the kind of isolation.
//!
//! **Not here**: reclaim groups, the time a unit may stay open, events, changing a handle's unit by
//! command.
//!
//! # Source
//! NVM Express, TP4146 Flexible Data Placement; NVMe Base 2.1, 3.2.4.

use crate::op::Why;

/// Most handles of a drive, as in NVMe.
pub(crate) const HANDLES_MAX: u8 = 128;
/// Owner of units that hold data of any handle.
pub(crate) const SHARED: u8 = u8::MAX;

/// What becomes of handles when data are moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    /// What is moved goes to a unit that all handles share.
    Initially,
    /// What is moved stays with its handle.
    Persistently,
}

/// The handles of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Handles, from 1 to 128; one is a drive without placement.
    pub handles: u8,
    /// What becomes of them when data are moved.
    pub isolation: Isolation,
}

impl Placement {
    /// A drive without placement.
    pub const NONE: Self = Self {
        handles: 1,
        isolation: Isolation::Initially,
    };

    /// Units that may be open at once: of hosts by handle, then of garbage collection, then of wear
    /// levelling.
    pub(crate) fn slots(self) -> usize {
        self.slot(Why::Wear, self.handles - 1) + 1
    }

    /// Which of them is for data of a handle.
    pub(crate) fn slot(self, why: Why, handle: u8) -> usize {
        let handles = usize::from(self.handles);
        let moved = match self.isolation {
            Isolation::Initially => 1,
            Isolation::Persistently => handles,
        };
        let of_handle = usize::from(handle).min(moved - 1);
        match why {
            Why::Host => usize::from(handle),
            Why::Gc => handles + of_handle,
            Why::Wear => handles + moved + of_handle,
        }
    }

    /// Whose data a unit holds that is open in a slot.
    pub(crate) fn owner(self, slot: usize) -> u8 {
        let handles = usize::from(self.handles);
        let handle = match self.isolation {
            // One handle shares with nobody.
            Isolation::Initially if slot >= handles && handles > 1 => return SHARED,
            _ => slot % handles,
        };
        u8::try_from(handle).expect("a handle of the drive")
    }
}

/// What was done under a handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HandleCounters {
    /// Bytes that hosts wrote.
    pub host_bytes: u64,
    /// Bytes programmed for that, and those moved.
    pub media_bytes: u64,
    /// Bytes moved out of units of this handle; what is moved out of shared units is counted for the
    /// drive only.
    pub moved_bytes: u64,
}

impl HandleCounters {
    /// What was done since `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            host_bytes: self.host_bytes - before.host_bytes,
            media_bytes: self.media_bytes - before.media_bytes,
            moved_bytes: self.moved_bytes - before.moved_bytes,
        }
    }

    /// Bytes programmed by bytes written; `None` before the first write. With initial isolation the
    /// part of it that can be told: what the shared unit costs has no handle.
    #[must_use]
    pub fn waf_device(&self) -> Option<f64> {
        (self.host_bytes > 0).then(|| self.media_bytes as f64 / self.host_bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each slot is that of the data of its owner, and of no other.
    #[test]
    fn slots_and_owners_agree() {
        for isolation in [Isolation::Initially, Isolation::Persistently] {
            for handles in [1, 2, 8, HANDLES_MAX] {
                let placement = Placement { handles, isolation };
                let mut seen = alloc::vec![false; placement.slots()];
                for why in [Why::Host, Why::Gc, Why::Wear] {
                    for handle in 0..handles {
                        let slot = placement.slot(why, handle);
                        let owner = placement.owner(slot);
                        let is_moved = why != Why::Host && handles > 1;
                        let is_shared = isolation == Isolation::Initially && is_moved;
                        assert_eq!(owner, if is_shared { SHARED } else { handle });
                        seen[slot] = true;
                    }
                }
                assert!(seen.into_iter().all(|seen| seen), "{placement:?}");
            }
        }
        assert_eq!(Placement::NONE.slots(), 3);
    }
}
