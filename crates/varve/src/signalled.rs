//! Signals that ask a process to end, heard from its start on.

use crate::cli::abandon;
use std::cell::Cell;
use std::rc::Rc;
use varve_hostio::Signals;
use varve_io::{Event, World};

/// Whether one came.
#[derive(Clone)]
pub(crate) struct Signalled {
    came: Rc<Cell<bool>>,
    event: Rc<Event>,
}

impl Signalled {
    /// Notes the first signal, for which `on_first` is called; the second one ends the process at once, because of
    /// `second`. Signals that cannot be read are as good as one that came: nobody could end the process otherwise.
    pub(crate) fn watch(
        world: &Rc<dyn World>,
        signals: Signals,
        on_first: impl FnOnce() + 'static,
        second: &'static str,
    ) -> Self {
        let signalled = Self {
            came: Rc::default(),
            event: Rc::new(Event::new()),
        };
        let own = signalled.clone();
        world.spawn(Box::pin(async move {
            let first = signals.next().await;
            on_first();
            own.came.set(true);
            own.event.notify();
            if first.is_ok() && signals.next().await.is_ok() {
                abandon("second-signal", second);
            }
        }));
        signalled
    }

    /// Set from the first one on.
    pub(crate) fn came(&self) -> &Rc<Cell<bool>> {
        &self.came
    }

    /// Until the first one.
    pub(crate) async fn wait(&self) {
        while !self.came.get() {
            self.event.listen().await;
        }
    }
}
