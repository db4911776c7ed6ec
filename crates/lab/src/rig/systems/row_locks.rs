//! Rows of stripes that somebody writes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use varve_io::Event;

/// Rows of a stripe.
#[derive(Default)]
struct Held {
    /// Bytes of the strips that somebody has.
    rows: Vec<Range<u64>>,
    /// Told of those that are given back. One for each stripe: a thousand writes may wait, most of them for others.
    freed: Rc<Event>,
}

/// Rows of stripes that somebody writes: whoever wants some of them waits.
///
/// md has one `stripe_head` for each 4 KiB row of a stripe, and what is done to a row is done before the
/// next begins; an update of several rows holds all of them.
#[derive(Default)]
pub(crate) struct RowLocks {
    /// By stripe.
    held: RefCell<BTreeMap<u64, Held>>,
}

impl RowLocks {
    /// Waits until nobody holds any of these rows, and holds them.
    pub(crate) async fn lock(&self, stripe: u64, rows: &Range<u64>) {
        while let Err(freed) = self.try_lock(stripe, rows) {
            freed.listen().await;
        }
    }

    /// Holds them, or says what tells that rows of the stripe are given back.
    fn try_lock(&self, stripe: u64, rows: &Range<u64>) -> Result<(), Rc<Event>> {
        let mut held = self.held.borrow_mut();
        let held = held.entry(stripe).or_default();
        let is_held = |other: &Range<u64>| other.start < rows.end && rows.start < other.end;
        if held.rows.iter().any(is_held) {
            return Err(Rc::clone(&held.freed));
        }
        held.rows.push(rows.clone());
        Ok(())
    }

    /// Gives them back.
    ///
    /// # Panics
    /// If they are not held.
    pub(crate) fn unlock(&self, stripe: u64, rows: &Range<u64>) {
        let mut all = self.held.borrow_mut();
        let held = all.get_mut(&stripe).expect("the rows are held");
        let at = held.rows.iter().position(|other| other == rows);
        held.rows.swap_remove(at.expect("the rows are held"));
        let freed = Rc::clone(&held.freed);
        if held.rows.is_empty() {
            all.remove(&stripe);
        }
        drop(all);
        freed.notify();
    }
}
