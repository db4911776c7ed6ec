//! How far the moves out of a unit are, and who is told when a record of them is acknowledged.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use varve_io::Event;

/// How far the moves out of one unit are.
#[derive(Default)]
pub(crate) struct Progress {
    outstanding: Cell<usize>,
    failed: Cell<bool>,
    event: Event,
}

impl Progress {
    /// So many moves more are under way.
    pub(crate) fn add(&self, count: usize) {
        self.outstanding.set(self.outstanding.get() + count);
    }

    /// So many of them were applied, or never will be.
    pub(crate) fn done(&self, count: usize, ok: bool) {
        self.outstanding.set(self.outstanding.get() - count);
        if !ok {
            self.failed.set(true);
        }
        self.event.notify();
    }

    /// Something of the unit cannot be moved now.
    pub(crate) fn fail(&self) {
        self.failed.set(true);
    }

    /// Waits until every move was applied or has failed.
    pub(crate) async fn settled(&self) {
        while self.outstanding.get() > 0 {
            self.event.listen().await;
        }
    }

    /// True if a move was not applied because the engine stopped or the tier refused it.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get()
    }
}

/// What waits for the moves of one record: of each unit being emptied, how many of its blocks.
pub(crate) struct Party(Vec<(Rc<Progress>, usize)>);

/// What waits for a record: of each of its blocks, the unit that it leaves.
pub(crate) fn party<'a>(blocks: impl Iterator<Item = &'a Rc<Progress>>) -> Party {
    let mut blocks = blocks.peekable();
    let mut party = Vec::new();
    while let Some(progress) = blocks.next() {
        let mut count = 1;
        while blocks.next_if(|next| Rc::ptr_eq(next, progress)).is_some() {
            count += 1;
        }
        party.push((Rc::clone(progress), count));
    }
    Party(party)
}

impl Party {
    /// Blocks in all.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Tells each unit how its moves ended.
    pub(crate) fn done(&self, ok: bool) {
        for (progress, count) in &self.0 {
            progress.done(*count, ok);
        }
    }
}
