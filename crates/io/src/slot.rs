//! A single-threaded one-shot: one value from whoever completes to whoever awaits.

use alloc::rc::Rc;
use core::any::Any;
use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

enum State<T> {
    Empty(Option<Waker>),
    Full(T),
    Taken,
}

/// The completing end.
pub struct Sender<T>(Rc<RefCell<State<T>>>);

/// The awaiting end: a future of the value.
pub struct Receiver<T>(Rc<RefCell<State<T>>>);

/// A new one-shot.
#[must_use]
pub fn slot<T>() -> (Sender<T>, Receiver<T>) {
    let state = Rc::new(RefCell::new(State::Empty(None)));
    (Sender(Rc::clone(&state)), Receiver(state))
}

impl<T> Sender<T> {
    /// Hands the value over and wakes the receiver.
    pub fn send(self, value: T) {
        let before = self.0.replace(State::Full(value));
        match before {
            State::Empty(Some(waker)) => waker.wake(),
            State::Empty(None) => {}
            State::Full(_) | State::Taken => unreachable!("a one-shot is sent once"),
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
    #[must_use]
    pub fn try_take(&mut self) -> Option<T> {
        let mut state = self.0.borrow_mut();
        if matches!(*state, State::Full(_)) {
            let State::Full(value) = core::mem::replace(&mut *state, State::Taken) else {
                unreachable!("just seen full");
            };
            return Some(value);
        }
        None
    }
}

impl<T> Future for Receiver<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if let Some(value) = self.try_take() {
            return Poll::Ready(value);
        }
        let mut state = self.0.borrow_mut();
        match &mut *state {
            State::Empty(waker) => *waker = Some(context.waker().clone()),
            State::Full(_) | State::Taken => panic!("a one-shot is awaited once"),
        }
        Poll::Pending
    }
}
