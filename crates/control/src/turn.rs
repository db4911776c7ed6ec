//! One after the other: who wants to change something waits until nobody else does.

use std::cell::Cell;
use varve_io::Event;

/// Taken by one flow at a time.
#[derive(Default)]
pub(crate) struct Turn {
    is_taken: Cell<bool>,
    given_back: Event,
}

/// Gives the turn back when dropped.
pub(crate) struct Taken<'a>(&'a Turn);

impl Turn {
    pub(crate) async fn take(&self) -> Taken<'_> {
        while self.is_taken.replace(true) {
            self.given_back.listen().await;
        }
        Taken(self)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.is_taken.set(false);
        self.0.given_back.notify();
    }
}
