//! A turn: one flow at a time.

use alloc::rc::Rc;
use core::cell::Cell;
use varve_io::Event;

/// What flows take turns for.
#[derive(Clone, Default)]
pub(crate) struct Turns(Rc<Gate>);

#[derive(Default)]
struct Gate {
    is_taken: Cell<bool>,
    event: Event,
}

/// One flow's turn; over when dropped.
pub(crate) struct Turn(Rc<Gate>);

impl Turns {
    /// Waits for the turn.
    pub(crate) async fn take(&self) -> Turn {
        while self.0.is_taken.replace(true) {
            self.0.event.listen().await;
        }
        Turn(Rc::clone(&self.0))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.is_taken.set(false);
        self.0.event.notify();
    }
}
