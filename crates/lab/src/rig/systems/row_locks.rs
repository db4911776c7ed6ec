//! Rows of stripes that somebody writes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use varve_io::Event;

/// Rows of stripes that somebody writes: whoever wants some of them waits.
///
/// md has one `stripe_head` for each 4 KiB row of a stripe, and what is done to a row is done before the
/// next begins; an update of several rows holds all of them.
#[derive(Default)]
pub(crate) struct RowLocks {
    /// By stripe, bytes of the strips.
    held: RefCell<BTreeMap<u64, Vec<Range<u64>>>>,
    freed: Event,
}

impl RowLocks {
    /// Waits until nobody holds any of these rows, and holds them.
    pub(crate) async fn lock(&self, stripe: u64, rows: &Range<u64>) {
        while !self.try_lock(stripe, rows) {
            self.freed.listen().await;
        }
    }

    fn try_lock(&self, stripe: u64, rows: &Range<u64>) -> bool {
        let mut held = self.held.borrow_mut();
        let held = held.entry(stripe).or_default();
        let is_held = |other: &Range<u64>| other.start < rows.end && rows.start < other.end;
        if held.iter().any(is_held) {
            return false;
        }
        held.push(rows.clone());
        true
    }

    /// Gives them back.
    ///
    /// # Panics
    /// If they are not held.
    pub(crate) fn unlock(&self, stripe: u64, rows: &Range<u64>) {
        let mut all = self.held.borrow_mut();
        let held = all.get_mut(&stripe).expect("the rows are held");
        let at = held.iter().position(|other| other == rows);
        held.swap_remove(at.expect("the rows are held"));
        if held.is_empty() {
            all.remove(&stripe);
        }
        drop(all);
        self.freed.notify();
    }
}
