//! A single-threaded event: flows wait until something they look at may have changed.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

/// Wakes all who listen. The usual loop: look; if it is not so yet, `listen().await`; look again.
#[derive(Default)]
pub struct Event {
    count: Cell<u64>,
    listeners: RefCell<Listeners>,
}

/// Who listens, each at a place of its own: however many there are, none is looked for.
#[derive(Default)]
struct Listeners {
    places: Vec<Option<Waker>>,
    /// Places of those who listen no more.
    free: Vec<u32>,
}

impl Event {
    /// An event nobody listens to yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes everyone who listens now.
    #[inline]
    pub fn notify(&self) {
        self.count.set(self.count.get().wrapping_add(1));
        if !self.listeners.borrow().places.is_empty() {
            self.wake_all();
        }
    }

    fn wake_all(&self) {
        let mut all = core::mem::take(&mut *self.listeners.borrow_mut());
        all.places.drain(..).flatten().for_each(Waker::wake);
        all.free.clear();
        // Its memory is for those who listen next, if nobody did meanwhile.
        let mut next = self.listeners.borrow_mut();
        if next.places.is_empty() {
            *next = all;
        }
    }

    /// A future that ends at the first [`Event::notify`] from now on.
    #[inline]
    pub fn listen(&self) -> Listen<'_> {
        Listen {
            event: self,
            count: self.count.get(),
            place: None,
        }
    }
}

/// Waits for one notification.
pub struct Listen<'a> {
    event: &'a Event,
    count: u64,
    /// Where its waker is, until the event is notified.
    place: Option<u32>,
}

impl Listen<'_> {
    fn is_over(&self) -> bool {
        self.event.count.get() != self.count
    }
}

impl Future for Listen<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.is_over() {
            return Poll::Ready(());
        }
        let listeners = &mut *self.event.listeners.borrow_mut();
        let place = self.place.or_else(|| listeners.free.pop());
        let place = place.unwrap_or_else(|| {
            listeners.places.push(None);
            listeners.places.len() as u32 - 1
        });
        match &mut listeners.places[place as usize] {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        self.place = Some(place);
        Poll::Pending
    }
}

impl Drop for Listen<'_> {
    /// Who listens no more is not woken, and leaves nothing behind: a flow may listen to one event over and over
    /// while it waits for another.
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        if self.is_over() {
            return;
        }
        let listeners = &mut *self.event.listeners.borrow_mut();
        listeners.places[place as usize] = None;
        listeners.free.push(place);
        if listeners.free.len() == listeners.places.len() {
            listeners.free.clear();
            listeners.places.clear();
        }
    }
}
