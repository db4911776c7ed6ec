//! How far the moves out of a unit are, and who is told when a record of them is acknowledged.

use crate::load::Ticket;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::{Poll, Waker};
use varve_io::Event;

/// How far the moves out of one unit are.
#[derive(Default)]
pub struct Progress {
    outstanding: Cell<usize>,
    failed: Cell<bool>,
    away: Cell<bool>,
    retained: Cell<usize>,
    event: Event,
}

impl Progress {
    /// So many moves more are under way.
    pub(crate) fn add(&self, count: usize) {
        self.outstanding.set(self.outstanding.get() + count);
    }

    /// So many of them were applied, or never will be.
    pub(crate) fn done(&self, count: usize, ok: bool) {
        self.outstanding.set(self.outstanding.get() - count);
        if !ok {
            self.failed.set(true);
        }
        self.event.notify();
    }

    /// One of them leads back to the log.
    pub(crate) fn note_retained(&self) {
        self.retained.set(self.retained.get() + 1);
    }

    /// Those that lead back to the log.
    pub(crate) fn retained(&self) -> usize {
        self.retained.get()
    }

    /// Something of the unit cannot be read now: it stays where it is.
    pub(crate) fn keep(&self) {
        self.failed.set(true);
        self.away.set(true);
    }

    /// True if something of the unit cannot be read now.
    pub(crate) fn is_away(&self) -> bool {
        self.away.get()
    }

    /// Waits until every move was applied or has failed.
    pub(crate) async fn settled(&self) {
        while self.outstanding.get() > 0 {
            self.event.listen().await;
        }
    }

    /// Moves under way.
    #[cfg(test)]
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding.get()
    }

    /// True if a move was not applied because the engine stopped or the tier refused it, or something cannot be read now.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get()
    }
}

/// What waits for the moves of one record: of each unit being emptied, how many of its blocks.
pub(crate) enum Party {
    /// They leave one unit, as a rule.
    One(Rc<Progress>, usize),
    Several(Vec<(Rc<Progress>, usize)>),
}

impl Party {
    /// So many blocks leave one unit.
    pub(crate) fn of(progress: &Rc<Progress>, count: usize) -> Self {
        Self::One(Rc::clone(progress), count)
    }

    /// Of each block, the unit that it leaves.
    pub(crate) fn of_each<'a>(blocks: impl Iterator<Item = &'a Rc<Progress>>) -> Self {
        let mut units: Vec<(Rc<Progress>, usize)> = Vec::new();
        for progress in blocks {
            match units.last_mut() {
                Some((last, count)) if Rc::ptr_eq(last, progress) => *count += 1,
                _ => units.push((Rc::clone(progress), 1)),
            }
        }
        Self::Several(units)
    }

    /// Blocks in all.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::One(_, count) => *count,
            Self::Several(units) => units.iter().map(|(_, count)| count).sum(),
        }
    }

    /// Tells each unit how its moves ended.
    pub(crate) fn done(&self, ok: bool) {
        match self {
            Self::One(progress, count) => progress.done(*count, ok),
            Self::Several(units) => {
                for (progress, count) in units {
                    progress.done(*count, ok);
                }
            }
        }
    }
}

/// How the records of one stripe's moves end. One for all of them: an appender who waits for each takes memory
/// for each.
#[derive(Default)]
pub struct Moves {
    /// Of each record that was appended, whether it was acknowledged; none as long as nobody knows.
    ended: RefCell<Vec<Option<bool>>>,
    /// Who waits, and for which of them.
    waits: RefCell<Option<(usize, Waker)>>,
}

impl Moves {
    /// For a record that is appended now.
    pub(crate) fn ticket(self: &Rc<Self>) -> Ticket {
        let mut ended = self.ended.borrow_mut();
        ended.push(None);
        Ticket::Moves(Rc::clone(self), ended.len() as u32 - 1)
    }

    /// Waits until a record that was appended is acknowledged (true), or will never be.
    pub(crate) async fn ended(&self, record: usize) -> bool {
        poll_fn(|context| match self.ended.borrow()[record] {
            Some(ok) => Poll::Ready(ok),
            None => {
                let waits = (record, context.waker().clone());
                self.waits.replace(Some(waits));
                Poll::Pending
            }
        })
        .await
    }

    /// A record was acknowledged, or will never be.
    pub(crate) fn end(&self, record: u32, ok: bool) {
        let record = record as usize;
        let before = self.ended.borrow_mut()[record].replace(ok);
        assert!(before.is_none(), "a record ends once");
        let mut waits = self.waits.borrow_mut();
        if let Some((_, waker)) = waits.take_if(|(waited, _)| *waited == record) {
            drop(waits);
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use alloc::task::Wake;
    use core::pin::pin;
    use core::sync::atomic::{AtomicU32, Ordering};
    use core::task::Context;

    #[derive(Default)]
    struct Counted(AtomicU32);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Who waits for a record is woken by that one alone, and by none that has ended before.
    #[test]
    fn records_end_one_by_one() {
        let moves = Rc::new(Moves::default());
        let tickets: [_; 3] = core::array::from_fn(|_| moves.ticket());
        let numbers = tickets.map(|ticket| match ticket {
            Ticket::Moves(_, record) => record,
            _ => panic!("a ticket of these moves"),
        });
        let [first, second, third] = numbers;
        let wakes = Arc::new(Counted::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut context = Context::from_waker(&waker);
        let mut waiting = pin!(async {
            let mut ended = Vec::new();
            for record in 0..3 {
                ended.push(moves.ended(record).await);
            }
            ended
        });
        moves.end(third, true);
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        moves.end(second, false);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0, "it waits for the first");
        moves.end(first, true);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        let ended = waiting.as_mut().poll(&mut context);
        assert_eq!(ended, Poll::Ready(alloc::vec![true, false, true]));
    }
}
