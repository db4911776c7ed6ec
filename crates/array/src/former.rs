//! The drive that sat in a seat before: a source for the one that takes its place.
//!
//! A drive that still reads may hold what the others do not: where a strip's parity is rotten, its data
//! are on one drive alone. So a drive that is replaced while it works stays here to be read from until
//! the copy has ended, by the copy and, where nobody else gives what is right, by others (`kept_read`; with parity it
//! is a part of what other drives' strips are summed from). It gets no writes; what was written since it was given up is
//! taken from the others. One that does not answer for [`PATIENCE`] is let go as one that is gone: it may hang for ever,
//! and the range that is copied is held meanwhile.
//!
//! **Invariants**: `stale` is sorted, its ranges are not empty and do not touch; there are no more of
//! them than writes, nor than the array has places to write at.

use crate::members::Members;
use crate::restore::Holding;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::ops::Range;
use core::pin::Pin;
use core::task::Poll;
use varve_io::{Command, Completion, Drive, IoError, Outcome, Target, slot};
use varve_units::Nanos;

/// How long a read of a drive that is kept may take. Arbitrary: as long as Linux gives a local drive for a
/// command before it resets it.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// A drive that is kept.
pub(crate) struct Former {
    drive: Rc<dyn Drive>,
    base: u64,
    /// What was written without it.
    stale: Vec<Range<u64>>,
    /// Reads that it has not answered for so long that nobody waits for them any more. While there are such
    /// nobody waits for others either.
    overdue: Rc<Cell<u32>>,
}

impl Former {
    pub(crate) fn new(drive: Rc<dyn Drive>, base: u64, in_flight: Vec<Range<u64>>) -> Self {
        let stale = Vec::new();
        let overdue = Rc::default();
        let mut former = Self {
            drive,
            base,
            stale,
            overdue,
        };
        in_flight.into_iter().for_each(|range| former.note(range));
        former
    }

    /// Notes that a range is written without it.
    pub(crate) fn note(&mut self, mut range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.stale.partition_point(|old| old.end < range.start);
        let last = self.stale.partition_point(|old| old.start <= range.end);
        if first < last {
            range.start = range.start.min(self.stale[first].start);
            range.end = range.end.max(self.stale[last - 1].end);
        }
        self.stale.splice(first..last, [range]);
    }

    fn holding(&self, range: &Range<u64>) -> Holding {
        let first = self.stale.partition_point(|old| old.end <= range.start);
        match self.stale.get(first) {
            Some(old) if old.start <= range.start && old.end >= range.end => Holding::Nothing,
            Some(old) if old.start < range.end => Holding::Part,
            _ => Holding::All,
        }
    }
}

impl Members {
    /// What the drive that sat in the seat before holds of a range.
    pub(crate) fn former_holding(&self, member: usize, range: &Range<u64>) -> Holding {
        let seats = self.seats.borrow();
        let former = seats[member].former.as_ref();
        former.map_or(Holding::Nothing, |former| former.holding(range))
    }

    /// Reads a range that the former drive holds. `Gone` also for one that does not answer.
    pub(crate) async fn read_former(
        &self,
        member: usize,
        range: &Range<u64>,
        into: Target,
    ) -> Outcome {
        let (read, begun, overdue) = self.ask_former(member, range, into).ok_or(IoError::Gone)?;
        // A task of its own holds what the drive has until it has ended, whoever waits for that.
        let (sender, mut ended) = slot();
        let is_late = Rc::new(Cell::new(false));
        let (was_late, of_drive) = (Rc::clone(&is_late), Rc::clone(&overdue));
        self.world.spawn(Box::pin(async move {
            let outcome = read.await;
            drop(begun);
            of_drive.set(of_drive.get() - u32::from(was_late.get()));
            sender.send(outcome);
        }));
        let mut late = self.world.sleep(PATIENCE);
        poll_fn(move |context| {
            if let Poll::Ready(outcome) = Pin::new(&mut ended).poll(context) {
                return Poll::Ready(outcome);
            }
            let late = Pin::new(&mut late).poll(context);
            late.map(|()| {
                is_late.set(true);
                overdue.set(overdue.get() + 1);
                Err(IoError::Gone)
            })
        })
        .await
    }

    /// Has the drive read, though it has left its seat; also what counts as begun there, and what counts the reads that
    /// nobody waits for. Nothing if there are any.
    fn ask_former(
        &self,
        member: usize,
        range: &Range<u64>,
        into: Target,
    ) -> Option<(Completion, Rc<()>, Rc<Cell<u32>>)> {
        let seats = self.seats.borrow();
        let seat = &seats[member];
        let former = seat
            .former
            .as_ref()
            .filter(|former| former.overdue.get() == 0)?;
        let overdue = Rc::clone(&former.overdue);
        let (drive, begun) = (Rc::clone(&former.drive), seat.begin());
        let command = Command::Read {
            offset: former.base + range.start,
            into,
            copy: 0,
        };
        drop(seats);
        Some((drive.submit(command), begun, overdue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_io::DriveInfo;

    struct Silent;

    impl Drive for Silent {
        fn info(&self) -> DriveInfo {
            unreachable!("nobody asks")
        }

        fn submit(&self, _: Command) -> Completion {
            unreachable!("nobody asks")
        }
    }

    /// Every pair of ranges among ten places, and what is then held of every third one: as a table of
    /// places has it.
    #[test]
    fn what_was_written_is_no_longer_held() {
        let ranges = || (0..9_u64).flat_map(|start| (start + 1..=9).map(move |end| start..end));
        for one in ranges() {
            for other in ranges() {
                let mut former = Former::new(Rc::new(Silent), 0, alloc::vec![one.clone()]);
                former.note(other.clone());
                let is_apart = |two: &[Range<u64>]| two[0].end < two[1].start;
                assert!(former.stale.windows(2).all(is_apart), "{:?}", former.stale);
                for range in ranges() {
                    let is_held = |at: &u64| !one.contains(at) && !other.contains(at);
                    let expected = match range.clone().filter(is_held).count() as u64 {
                        0 => Holding::Nothing,
                        all if all == range.end - range.start => Holding::All,
                        _ => Holding::Part,
                    };
                    assert_eq!(
                        former.holding(&range),
                        expected,
                        "{one:?} {other:?} {range:?}"
                    );
                }
            }
        }
    }
}
