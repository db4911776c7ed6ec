//! The write buffer, as far as it decides what is programmed: IUs written in part wait there for
//! their rest.
//!
//! An IU leaves the buffer when all of it was written, when another one needs its slot (the least
//! recently written leaves), or at a flush of a drive that would lose it with the power.

use alloc::vec::Vec;
use core::ops::Range;
use varve_units::SECTOR_BYTES;

/// Sectors of an IU that were written, one bit each: an IU has at most 128.
type Sectors = u128;

/// Most slots a buffer has. Arbitrary; they are searched one after another.
pub(crate) const SLOTS_MAX: u32 = 256;

pub(crate) struct Slot {
    pub(crate) iu: u32,
    pub(crate) written: Sectors,
    /// Handle of the last write.
    pub(crate) handle: u8,
    /// When it was written last, in writes.
    pub(crate) at: u64,
}

pub(crate) struct Buffer {
    slots: Vec<Slot>,
    slots_max: usize,
    /// All sectors of an IU.
    whole: Sectors,
    now: u64,
}

/// What a write in part leads to.
pub(crate) enum Joined {
    /// It waits.
    Waits,
    /// Its IU is whole and has left.
    Whole,
    /// It waits; this IU, last written under this handle, left in part to make room.
    Evicted(u32, u8),
}

impl Buffer {
    pub(crate) fn new(slots_max: u32, iu_bytes: u32) -> Self {
        assert!(slots_max > 0, "a buffer has slots");
        Self {
            slots: Vec::with_capacity(slots_max as usize),
            slots_max: slots_max as usize,
            whole: sectors(0, u64::from(iu_bytes)),
            now: 0,
        }
    }

    /// Bytes `from..to` of an IU are written under a handle.
    pub(crate) fn join(&mut self, iu: u32, from: u64, to: u64, handle: u8) -> Joined {
        let more = sectors(from, to);
        self.now += 1;
        if let Some(at) = self.find(iu) {
            let slot = &mut self.slots[at];
            slot.written |= more;
            slot.at = self.now;
            slot.handle = handle;
            if slot.written != self.whole {
                return Joined::Waits;
            }
            self.slots.swap_remove(at);
            return Joined::Whole;
        }
        let slot = Slot {
            iu,
            written: more,
            handle,
            at: self.now,
        };
        if self.slots.len() < self.slots_max {
            self.slots.push(slot);
            return Joined::Waits;
        }
        let oldest = self.slots.iter_mut().min_by_key(|slot| slot.at);
        let oldest = oldest.expect("a buffer has slots");
        let oldest = core::mem::replace(oldest, slot);
        Joined::Evicted(oldest.iu, oldest.handle)
    }

    /// What waits of an IU was overwritten or deallocated. True if something did.
    pub(crate) fn drop(&mut self, iu: u32) -> bool {
        let found = self.find(iu);
        if let Some(at) = found {
            self.slots.swap_remove(at);
        }
        found.is_some()
    }

    /// What waits of these IUs was overwritten.
    pub(crate) fn drop_all(&mut self, ius: &Range<u32>) {
        self.slots.retain(|slot| !ius.contains(&slot.iu));
    }

    /// The IU written longest ago leaves in part, and its handle.
    pub(crate) fn pop(&mut self) -> Option<(u32, u8)> {
        let oldest = (0..self.slots.len()).min_by_key(|at| self.slots[*at].at)?;
        let oldest = self.slots.swap_remove(oldest);
        Some((oldest.iu, oldest.handle))
    }

    /// IUs that wait.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// What waits, the least recently written first.
    pub(crate) fn slots(&self) -> Vec<&Slot> {
        let mut slots: Vec<_> = self.slots.iter().collect();
        slots.sort_by_key(|slot| slot.at);
        slots
    }

    /// Puts what waited back, as the most recently written; false if that cannot be.
    pub(crate) fn put(&mut self, mut slot: Slot) -> bool {
        let is_part = slot.written != 0 && slot.written & self.whole != self.whole;
        let is_possible = is_part
            && slot.written & !self.whole == 0
            && self.slots.len() < self.slots_max
            && self.find(slot.iu).is_none();
        if is_possible {
            self.now += 1;
            slot.at = self.now;
            self.slots.push(slot);
        }
        is_possible
    }

    fn find(&self, iu: u32) -> Option<usize> {
        self.slots.iter().position(|slot| slot.iu == iu)
    }
}

/// The sectors of bytes `from..to`.
fn sectors(from: u64, to: u64) -> Sectors {
    assert!(from < to, "an empty range");
    let count = (to - from) / SECTOR_BYTES;
    let ones = Sectors::MAX >> (u64::from(Sectors::BITS) - count);
    ones << (from / SECTOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_of_ranges() {
        assert_eq!(sectors(0, 512), 1);
        assert_eq!(sectors(4096, 8192), 0xff00);
        assert_eq!(sectors(0, 65536), Sectors::MAX);
        assert_eq!(sectors(65024, 65536), 1 << 127);
    }

    #[test]
    fn parts_join_and_the_oldest_leaves() {
        let mut buffer = Buffer::new(2, 16384);
        assert!(matches!(buffer.join(7, 0, 8192, 0), Joined::Waits));
        assert!(matches!(buffer.join(8, 0, 4096, 5), Joined::Waits));
        // What is written twice counts once.
        assert!(matches!(buffer.join(7, 4096, 8192, 1), Joined::Waits));
        assert!(matches!(buffer.join(9, 0, 512, 0), Joined::Evicted(8, 5)));
        assert!(matches!(buffer.join(7, 8192, 16384, 0), Joined::Whole));
        assert_eq!(buffer.len(), 1);
        assert!(buffer.drop(9));
        assert!(!buffer.drop(9));
        assert_eq!(buffer.pop(), None);
    }
}
