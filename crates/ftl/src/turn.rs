//! A turn: one flow at a time, in the order in which they asked.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use varve_io::Event;

/// What flows take turns for.
#[derive(Clone, Default)]
pub(crate) struct Turns(Rc<Queue>);

#[derive(Default)]
struct Queue {
    /// Who has the turn, and who waits for it.
    flows: RefCell<VecDeque<u64>>,
    last: Cell<u64>,
    event: Event,
}

/// One flow's turn, or its place in the queue for it; over when dropped.
pub(crate) struct Turn {
    queue: Rc<Queue>,
    number: u64,
}

impl Turns {
    /// Waits for the turn.
    pub(crate) async fn take(&self) -> Turn {
        let turn = self.ask();
        while turn.queue.flows.borrow().front() != Some(&turn.number) {
            turn.queue.event.listen().await;
        }
        turn
    }

    /// Waits for the turn; `None` once it is not wanted any more, which is asked at first and at each
    /// [`Turns::look_again`].
    pub(crate) async fn take_unless(&self, is_vain: impl Fn() -> bool) -> Option<Turn> {
        let turn = self.ask();
        while !is_vain() {
            if turn.queue.flows.borrow().front() == Some(&turn.number) {
                return Some(turn);
            }
            turn.queue.event.listen().await;
        }
        None
    }

    /// Has who waits ask itself whether it still wants the turn.
    pub(crate) fn look_again(&self) {
        self.0.event.notify();
    }

    fn ask(&self) -> Turn {
        let queue = Rc::clone(&self.0);
        let number = queue.last.get() + 1;
        queue.last.set(number);
        queue.flows.borrow_mut().push_back(number);
        Turn { queue, number }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut flows = self.queue.flows.borrow_mut();
        flows.retain(|number| *number != self.number);
        drop(flows);
        self.queue.event.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::future::Future;
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};

    #[test]
    fn who_wants_it_no_more_leaves_the_queue() {
        let turns = Turns::default();
        let is_vain = Cell::new(false);
        let mut context = Context::from_waker(Waker::noop());
        let mut first = pin!(turns.take());
        let Poll::Ready(held) = first.as_mut().poll(&mut context) else {
            panic!("nobody else has it");
        };
        let mut second = pin!(turns.take_unless(|| is_vain.get()));
        let mut third = pin!(turns.take());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(third.as_mut().poll(&mut context).is_pending());
        is_vain.set(true);
        turns.look_again();
        let Poll::Ready(None) = second.as_mut().poll(&mut context) else {
            panic!("it has left");
        };
        drop(held);
        assert!(third.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn turns_go_in_order_and_past_who_left() {
        let turns = Turns::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut first = pin!(turns.take());
        let Poll::Ready(held) = first.as_mut().poll(&mut context) else {
            panic!("nobody else has it");
        };
        let mut leaves = alloc::boxed::Box::pin(turns.take());
        let mut second = pin!(turns.take());
        let mut third = pin!(turns.take());
        assert!(leaves.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(third.as_mut().poll(&mut context).is_pending());
        drop(leaves);
        drop(held);
        // Who asked later does not overtake, even if it looks first.
        assert!(third.as_mut().poll(&mut context).is_pending());
        let Poll::Ready(held) = second.as_mut().poll(&mut context) else {
            panic!("it is next");
        };
        drop(held);
        assert!(third.as_mut().poll(&mut context).is_ready());
    }
}
