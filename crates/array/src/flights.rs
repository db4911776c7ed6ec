//! Ranges with writes in flight, and ranges held while old content is copied over them.
//!
//! A copy *holds* its range: writes that overlap wait until it is released; the copy begins when
//! the writes that were in flight before have ended. So a copy never races with a write.
//! Ranges are bytes of a member, from its base.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::Range;
use varve_io::Event;

/// All writes in flight and all held ranges of one array.
#[derive(Default)]
pub(crate) struct Flights {
    table: RefCell<Table>,
    /// A write ended or a range was released.
    changed: Event,
}

#[derive(Default)]
struct Table {
    /// Slots; an empty range is a free one.
    ranges: Vec<Range<u64>>,
    free: Vec<usize>,
    held: Vec<Range<u64>>,
}

impl Flights {
    /// Notes a write in flight until the returned value is dropped.
    pub(crate) fn enter(self: &Rc<Self>, range: Range<u64>) -> Flight {
        let mut table = self.table.borrow_mut();
        let slot = if let Some(slot) = table.free.pop() {
            table.ranges[slot] = range;
            slot
        } else {
            table.ranges.push(range);
            table.ranges.len() - 1
        };
        Flight {
            flights: Rc::clone(self),
            slot,
        }
    }

    /// True if a write of `range` must wait.
    pub(crate) fn is_held(&self, range: &Range<u64>) -> bool {
        let table = self.table.borrow();
        table.held.iter().any(|held| overlap(held, range))
    }

    /// Ends when no held range overlaps `range`.
    pub(crate) async fn released(&self, range: &Range<u64>) {
        while self.is_held(range) {
            self.changed.listen().await;
        }
    }

    /// Holds `range` until the returned value is dropped.
    pub(crate) fn hold(self: &Rc<Self>, range: Range<u64>) -> Hold {
        self.table.borrow_mut().held.push(range.clone());
        Hold {
            flights: Rc::clone(self),
            range,
        }
    }

    /// Ends when no write in flight overlaps `range`.
    pub(crate) async fn drained(&self, range: &Range<u64>) {
        while self.is_in_flight(range) {
            self.changed.listen().await;
        }
    }

    /// The ranges of all writes in flight.
    pub(crate) fn in_flight(&self) -> Vec<Range<u64>> {
        let table = self.table.borrow();
        let ranges = table.ranges.iter();
        ranges.filter(|range| !range.is_empty()).cloned().collect()
    }

    fn is_in_flight(&self, range: &Range<u64>) -> bool {
        let table = self.table.borrow();
        table.ranges.iter().any(|flight| overlap(flight, range))
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// A write in flight.
pub(crate) struct Flight {
    flights: Rc<Flights>,
    slot: usize,
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut table = self.flights.table.borrow_mut();
        table.ranges[self.slot] = 0..0;
        table.free.push(self.slot);
        drop(table);
        self.flights.changed.notify();
    }
}

/// A held range.
pub(crate) struct Hold {
    flights: Rc<Flights>,
    range: Range<u64>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut table = self.flights.table.borrow_mut();
        let at = table.held.iter().position(|held| *held == self.range);
        table.held.swap_remove(at.expect("a held range is listed"));
        drop(table);
        self.flights.changed.notify();
    }
}
