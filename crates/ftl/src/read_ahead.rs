//! Reads of the blocks of a victim: in order, and so many beside one another as the drive takes time.
//!
//! A read that is ready at once is used before another begins, so that what a drive in memory gives is
//! still in the cache. Flash takes a hundred microseconds, and milliseconds where its die is programmed:
//! while the first read is under way the ones behind it are begun.
//!
//! **Invariants**: the blocks under way are never more than one run may have; every read is awaited to
//! its end.

use crate::cleaner::Candidate;
use crate::geometry::{BLOCK_SECTORS, Tier, UnitId};
use crate::limits::CLEANER_RUN_MAX;
use crate::shared::Shared;
use alloc::collections::VecDeque;
use core::future::poll_fn;
use core::ops::Range;
use core::pin::Pin;
use core::task::Poll;
use varve_io::{Blocks, Completion, IoError, Target, blocks_of};
use varve_units::Ppa;

/// Reads of a victim's blocks.
pub(crate) struct ReadAhead<'a> {
    shared: &'a Shared,
    unit: UnitId,
    candidates: &'a [Candidate],
    /// The first that is not yet read.
    next: usize,
    under_way: VecDeque<(Range<usize>, Completion)>,
    /// Blocks of these.
    blocks: usize,
}

impl<'a> ReadAhead<'a> {
    /// Nothing is read yet.
    pub(crate) const fn new(shared: &'a Shared, unit: UnitId, candidates: &'a [Candidate]) -> Self {
        Self {
            shared,
            unit,
            candidates,
            next: 0,
            under_way: VecDeque::new(),
            blocks: 0,
        }
    }

    /// The next candidates that lie behind one another, and what was read there. `None` behind the
    /// last.
    pub(crate) async fn next(&mut self) -> Option<(Range<usize>, Result<Blocks, IoError>)> {
        loop {
            if self.under_way.is_empty() && !self.begin().await {
                return None;
            }
            if let Some(read) = self.poll_first().await {
                return Some(read);
            }
            if !self.begin().await {
                break;
            }
        }
        let (range, completion) = self.under_way.pop_front()?;
        self.blocks -= range.len();
        Some((range, blocks_of(completion.await)))
    }

    /// Waits for what is still under way: a drive works on memory that is ours.
    pub(crate) async fn end(self) {
        for (_, completion) in self.under_way {
            let _ = completion.await;
        }
    }

    /// Begins one more read; false if there is no more to read, or no more may be under way.
    async fn begin(&mut self) -> bool {
        let left = &self.candidates[self.next..];
        if left.is_empty() {
            return false;
        }
        let length = self.run_length(left);
        if !self.under_way.is_empty() && self.blocks + length > CLEANER_RUN_MAX {
            return false;
        }
        self.shared.yield_to_reads().await;
        let shared = self.shared;
        let memory = || Target::Data(shared.world.blocks(length, shared.config.elided));
        let offset = shared.place_offset(left[0].ppa);
        let (completion, _) = shared.drive_of(self.unit).read_in_use(offset, memory);
        let range = self.next..self.next + length;
        self.next = range.end;
        self.blocks += length;
        self.under_way.push_back((range, completion));
        true
    }

    /// The first read, if it has ended.
    async fn poll_first(&mut self) -> Option<(Range<usize>, Result<Blocks, IoError>)> {
        let first = self.under_way.front_mut();
        let completion = &mut first.expect("a read is under way").1;
        let outcome = poll_fn(|context| {
            Poll::Ready(match Pin::new(&mut *completion).poll(context) {
                Poll::Ready(outcome) => Some(outcome),
                Poll::Pending => None,
            })
        })
        .await?;
        let (range, _) = self.under_way.pop_front().expect("it was the first");
        self.blocks -= range.len();
        Some((range, blocks_of(outcome)))
    }

    /// How many candidates from the first on lie behind one another.
    fn run_length(&self, candidates: &[Candidate]) -> usize {
        let most = candidates.len().min(CLEANER_RUN_MAX);
        let (first, rest) = candidates[..most].split_first().expect("one to be read");
        let mut last = first.ppa;
        let follows = |next: &&Candidate| {
            let before = core::mem::replace(&mut last, next.ppa);
            lies_behind(self.unit.tier, before, next.ppa)
        };
        1 + rest.iter().take_while(follows).count()
    }
}

/// True if a block lies right behind another one of the same unit.
const fn lies_behind(tier: Tier, one: Ppa, next: Ppa) -> bool {
    match tier {
        Tier::Dense => one.bits() + 1 == next.bits(),
        // Counted down.
        Tier::Fast => next.bits() + BLOCK_SECTORS == one.bits(),
    }
}
