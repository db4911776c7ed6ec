//! A single-threaded one-shot: one value from whoever completes to whoever awaits.

use alloc::rc::Rc;
use core::any::Any;
use core::cell::Cell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

struct Place<T> {
    value: Cell<Option<T>>,
    /// Who waits for it.
    waker: Cell<Option<Waker>>,
    is_taken: Cell<bool>,
}

/// The completing end.
pub struct Sender<T>(Rc<Place<T>>);

/// The awaiting end: a future of the value.
pub struct Receiver<T>(Rc<Place<T>>);

/// A new one-shot.
#[inline]
#[must_use]
pub fn slot<T>() -> (Sender<T>, Receiver<T>) {
    let place = Rc::new(Place {
        value: Cell::new(None),
        waker: Cell::new(None),
        is_taken: Cell::new(false),
    });
    (Sender(Rc::clone(&place)), Receiver(place))
}

impl<T> Sender<T> {
    /// Hands the value over and wakes the receiver.
    #[inline]
    pub fn send(self, value: T) {
        self.0.value.set(Some(value));
        if let Some(waker) = self.0.waker.take() {
            waker.wake();
        }
    }
}

impl<T: 'static> Sender<T> {
    /// The same end without its type, to be kept beside others.
    pub(crate) fn into_any(self) -> Rc<dyn Any> {
        self.0
    }

    /// The end that [`Sender::into_any`] was given; `None` if it is of another type.
    pub(crate) fn from_any(end: Rc<dyn Any>) -> Option<Self> {
        end.downcast().ok().map(Self)
    }
}

impl<T> Receiver<T> {
    /// The value, if it has arrived; the receiver is used up by that.
    #[inline]
    #[must_use]
    pub fn try_take(&mut self) -> Option<T> {
        let value = self.0.value.take();
        if value.is_some() {
            self.0.is_taken.set(true);
        }
        value
    }

    /// A sender of another value to the same place, once its value was taken: who waits for one thing after another
    /// needs memory once.
    ///
    /// # Panics
    /// If no value was taken.
    #[inline]
    #[must_use]
    pub fn renew(&self) -> Sender<T> {
        let is_taken = self.0.is_taken.replace(false);
        assert!(is_taken, "a one-shot is renewed when its value was taken");
        Sender(Rc::clone(&self.0))
    }
}

impl<T> Future for Receiver<T> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if let Some(value) = self.try_take() {
            return Poll::Ready(value);
        }
        assert!(!self.0.is_taken.get(), "a one-shot is awaited once");
        self.0.waker.set(Some(context.waker().clone()));
        Poll::Pending
    }
}
