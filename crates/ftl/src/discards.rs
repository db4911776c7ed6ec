//! Free groups that the drives have not been told of yet.
//!
//! To a conventional drive a group that the map has left is full of data: its own garbage
//! collection moves them until they are written over. So a group is discarded as soon as it is
//! free, and opened only behind that.
//!
//! **Order**: the commit that frees the group is flushed, its generation is raised, the discard is
//! submitted, answered, the group goes to the free list. Whoever reads the group late sees the
//! generation; no start can come to name what is gone. A crash in between leaves what was in the
//! group on the drives, so a start discards every free group again, as does creation: what the
//! drives held before is nobody's.
//!
//! A discard is a hint. How it ends is of no consequence.
//!
//! **Not here**: chunks. The log writes them over in turn, soon and whole.

use crate::control::Control;
use crate::shared::Shared;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use varve_io::{Command, Event};

/// Groups discarded at once. Arbitrary: enough that a slow drive does not hold up the others'.
pub(crate) const DISCARDS_AT_ONCE: usize = 4;

/// Free groups to be discarded before they are opened.
#[derive(Default)]
pub(crate) struct Discards {
    waiting: RefCell<VecDeque<u32>>,
    in_flight: RefCell<BTreeSet<u32>>,
    /// There are some.
    pub(crate) wanted: Event,
}

impl Discards {
    /// A group is free.
    pub(crate) fn add(&self, group: u32) {
        self.waiting.borrow_mut().push_back(group);
        self.wanted.notify();
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.waiting.borrow().len() + self.in_flight.borrow().len()
    }

    /// All of them.
    pub(crate) fn list(&self) -> Vec<u32> {
        let waiting = self.waiting.borrow();
        let in_flight = self.in_flight.borrow();
        waiting.iter().chain(in_flight.iter()).copied().collect()
    }

    fn begin(&self) -> Option<u32> {
        let group = self.waiting.borrow_mut().pop_front()?;
        self.in_flight.borrow_mut().insert(group);
        Some(group)
    }

    fn end(&self, group: u32) {
        let was_in_flight = self.in_flight.borrow_mut().remove(&group);
        assert!(was_in_flight, "a discard ends once");
    }
}

impl Shared {
    /// Discards free groups, one after the other, and has them opened from then on. On the first
    /// reactor.
    pub(crate) async fn run_discards(self: Rc<Self>) {
        let control: Rc<Control> = self.control();
        while !self.is_stopped() {
            let Some(group) = control.discards.begin() else {
                control.discards.wanted.listen().await;
                continue;
            };
            self.discard_group(group).await;
            control.discards.end(group);
            control.discarded(group);
            self.count("groups_discarded", 1);
        }
    }

    /// Tells the drives that a group holds nothing.
    pub(crate) async fn discard_group(&self, group: u32) {
        let geometry = self.units.geometry();
        let Some(dense) = &self.dense else { return };
        let discard = Command::Discard {
            offset: geometry.group_start(group),
            length: geometry.group_bytes(),
        };
        let _hint = dense.submit(discard).await;
    }
}
