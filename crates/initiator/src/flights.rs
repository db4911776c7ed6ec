//! Commands of a queue that are not answered yet, in a bounded slab with their deadlines.
//!
//! A CID is the slot's number with the count of its uses above: an answer to a command of long ago is
//! told from one to its successor.

use crate::QUEUE_ENTRIES_MAX;
use crate::payload::Payload;
use crate::requests::Part;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use varve_units::Nanos;

/// Bits of a CID that name the slot.
const INDEX_BITS: u32 = QUEUE_ENTRIES_MAX.trailing_zeros();
const _: () = assert!(QUEUE_ENTRIES_MAX.is_power_of_two() && INDEX_BITS < 16);

/// Whose command it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// Connect.
    Connect,
    /// The admin command that the association waits for.
    Dialogue,
    /// Keep Alive.
    KeepAlive,
    /// A request for events.
    AsyncEvent,
    /// Part of a request.
    Part(Part),
}

/// Which way a command's data goes.
#[derive(Clone)]
pub(crate) enum Transfer {
    /// Nowhere.
    None,
    /// So many bytes to the host.
    ToHost(u32),
    /// So many bytes to the controller.
    ToController(Payload, u32),
}

/// A command that is not answered yet.
pub(crate) struct Flight {
    pub owner: Owner,
    pub transfer: Transfer,
    /// Bytes that were received or asked for.
    pub moved: u32,
    /// Data was damaged.
    pub is_bad: bool,
    /// No more data will come.
    pub has_last: bool,
    serial: u64,
}

struct Slot {
    uses: u16,
    flight: Option<Flight>,
}

/// The slab.
pub(crate) struct Flights {
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// Deadlines in order; those of commands that were answered are dropped when they are met.
    deadlines: VecDeque<(Nanos, u16, u64)>,
    next_serial: u64,
}

impl Flights {
    /// With room for `count` commands.
    ///
    /// # Panics
    /// For more than CIDs can name.
    pub fn new(count: u16) -> Self {
        assert!(count <= QUEUE_ENTRIES_MAX, "{count} commands");
        let slot = |_| Slot {
            uses: 0,
            flight: None,
        };
        Self {
            slots: (0..count).map(slot).collect(),
            free: (0..count).rev().collect(),
            deadlines: VecDeque::new(),
            next_serial: 0,
        }
    }

    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Commands that are not answered.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Makes room for more commands.
    pub fn grow(&mut self, count: u16) {
        let old = self.slots.len() as u16;
        assert!((old..=QUEUE_ENTRIES_MAX).contains(&count), "{count}");
        for index in old..count {
            self.slots.push(Slot {
                uses: 0,
                flight: None,
            });
            self.free.insert(0, index);
        }
    }

    /// Takes a command in; gives its CID.
    ///
    /// Deadlines do not decrease from call to call.
    ///
    /// # Panics
    /// If there is no room.
    pub fn insert(&mut self, owner: Owner, transfer: Transfer, deadline: Option<Nanos>) -> u16 {
        let index = self.free.pop().expect("room was asked for");
        let serial = self.next_serial;
        self.next_serial += 1;
        let slot = &mut self.slots[usize::from(index)];
        slot.uses = slot.uses.wrapping_add(1) & (u16::MAX >> INDEX_BITS);
        slot.flight = Some(Flight {
            owner,
            transfer,
            moved: 0,
            is_bad: false,
            has_last: false,
            serial,
        });
        let cid = slot.uses << INDEX_BITS | index;
        if let Some(deadline) = deadline {
            self.deadlines.push_back((deadline, index, serial));
            if self.deadlines.len() > 2 * self.slots.len() + 64 {
                self.forget_answered();
            }
        }
        cid
    }

    /// A slow command in front keeps what lies behind it in the list: that is bounded here.
    fn forget_answered(&mut self) {
        let slots = &self.slots;
        self.deadlines
            .retain(|(_, index, serial)| is_live(slots, *index, *serial));
    }

    /// Slot of the command with this CID, if there is one.
    fn index(&self, cid: u16) -> Option<usize> {
        let index = usize::from(cid & (QUEUE_ENTRIES_MAX - 1));
        let slot = self.slots.get(index)?;
        (slot.flight.is_some() && slot.uses == cid >> INDEX_BITS).then_some(index)
    }

    pub fn get_mut(&mut self, cid: u16) -> Option<&mut Flight> {
        let index = self.index(cid)?;
        self.slots[index].flight.as_mut()
    }

    pub fn remove(&mut self, cid: u16) -> Option<Flight> {
        let index = self.index(cid)?;
        self.free.push(index as u16);
        self.slots[index].flight.take()
    }

    /// When the first command is late.
    pub fn deadline(&mut self) -> Option<Nanos> {
        while let Some((deadline, index, serial)) = self.deadlines.front().copied() {
            if is_live(&self.slots, index, serial) {
                return Some(deadline);
            }
            self.deadlines.pop_front();
        }
        None
    }

    /// All commands, from now on nobody's.
    pub fn drain(&mut self) -> impl Iterator<Item = Flight> {
        self.deadlines.clear();
        let slots = core::mem::take(&mut self.slots);
        self.free.clear();
        slots.into_iter().filter_map(|slot| slot.flight)
    }
}

fn is_live(slots: &[Slot], index: u16, serial: u64) -> bool {
    let flight = slots[usize::from(index)].flight.as_ref();
    flight.is_some_and(|flight| flight.serial == serial)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cid_of_long_ago_names_nothing() {
        let mut flights = Flights::new(2);
        let first = flights.insert(Owner::KeepAlive, Transfer::None, None);
        assert!(flights.remove(first).is_some());
        let second = flights.insert(Owner::KeepAlive, Transfer::None, None);
        assert_ne!(first, second);
        assert!(flights.get_mut(first).is_none());
        assert!(flights.get_mut(second).is_some());
        assert!(flights.get_mut(0xffff).is_none());
    }

    #[test]
    fn deadlines_are_those_of_what_is_left() {
        let mut flights = Flights::new(4);
        let slow = flights.insert(Owner::Dialogue, Transfer::None, Some(Nanos(5)));
        for at in 6..10_000 {
            let cid = flights.insert(Owner::Dialogue, Transfer::None, Some(Nanos(at)));
            assert!(flights.remove(cid).is_some());
        }
        assert!(flights.deadlines.len() < 100);
        assert_eq!(flights.deadline(), Some(Nanos(5)));
        assert!(flights.remove(slow).is_some());
        assert_eq!(flights.deadline(), None);
        assert_eq!(flights.len(), 0);
    }
}
