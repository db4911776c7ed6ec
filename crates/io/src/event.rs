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
    wakers: RefCell<Vec<Waker>>,
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
        if !self.wakers.borrow().is_empty() {
            self.wake_all();
        }
    }

    fn wake_all(&self) {
        let mut wakers = core::mem::take(&mut *self.wakers.borrow_mut());
        wakers.drain(..).for_each(Waker::wake);
        // Its memory is for those who listen next, if nobody did meanwhile.
        let mut next = self.wakers.borrow_mut();
        if next.is_empty() {
            *next = wakers;
        }
    }

    /// A future that ends at the first [`Event::notify`] from now on.
    #[inline]
    pub fn listen(&self) -> Listen<'_> {
        Listen {
            event: self,
            count: self.count.get(),
        }
    }
}

/// Waits for one notification.
pub struct Listen<'a> {
    event: &'a Event,
    count: u64,
}

impl Future for Listen<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.event.count.get() != self.count {
            return Poll::Ready(());
        }
        let mut wakers = self.event.wakers.borrow_mut();
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}
