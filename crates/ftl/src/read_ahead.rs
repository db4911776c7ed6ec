//! Reads of the blocks of a victim: in order, and so many beside one another as the drive takes time.
//!
//! A read that is ready at once is used before another begins, so that what a drive in memory gives is
//! still in the cache. Flash takes a hundred microseconds, and milliseconds where its die is programmed:
//! while the first read is under way the ones behind it are begun.
//!
//! What lies between two candidates is read with them where the drive says that this costs less than
//! another command. On flash it does: a command senses a page whether it wants much of it or little.
//!
//! **Invariants**: the blocks under way are never more than one run may have, of those that are read half
//! at least are wanted; every read is awaited to its end.

use crate::candidate::Candidate;
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

/// Candidates that one command reads.
struct Run {
    candidates: Range<usize>,
    /// Blocks that it reads, from the first of them to the last.
    blocks: usize,
}

/// Reads of a victim's blocks.
pub(crate) struct ReadAhead<'a> {
    shared: &'a Shared,
    unit: UnitId,
    /// Blocks between two candidates that are read with them at most.
    gap_max: usize,
    candidates: &'a [Candidate],
    /// The first that is not yet read.
    next: usize,
    under_way: VecDeque<(Run, Completion)>,
    /// Blocks of these.
    blocks: usize,
}

impl<'a> ReadAhead<'a> {
    /// Nothing is read yet.
    pub(crate) fn new(shared: &'a Shared, unit: UnitId, candidates: &'a [Candidate]) -> Self {
        let gap_max = match unit.tier {
            Tier::Dense => shared.drive_of(unit).info().gap_blocks.into(),
            // Headers and images lie between blocks of a chunk.
            Tier::Fast => 0,
        };
        Self {
            shared,
            unit,
            gap_max,
            candidates,
            next: 0,
            under_way: VecDeque::new(),
            blocks: 0,
        }
    }

    /// The next candidates, and what was read from the first of them to the last ([`blocks_apart`]).
    /// `None` behind the last.
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
        let (run, completion) = self.under_way.pop_front()?;
        self.blocks -= run.blocks;
        Some((run.candidates, blocks_of(completion.await)))
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
        let (wanted, blocks) = run_of(self.unit.tier, self.gap_max, left);
        let run = Run {
            candidates: self.next..self.next + wanted,
            blocks,
        };
        if !self.under_way.is_empty() && self.blocks + blocks > CLEANER_RUN_MAX {
            return false;
        }
        self.shared.yield_to_reads().await;
        let shared = self.shared;
        let memory = || Target::Data(shared.world.blocks(blocks, shared.config.elided));
        let offset = shared.place_offset(left[0].ppa);
        let (completion, _) = shared.drive_of(self.unit).read_in_use(offset, memory);
        self.next = run.candidates.end;
        self.blocks += blocks;
        self.under_way.push_back((run, completion));
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
        let (run, _) = self.under_way.pop_front().expect("it was the first");
        self.blocks -= run.blocks;
        Some((run.candidates, blocks_of(outcome)))
    }
}

/// How many candidates from the first on one command reads, and how many blocks.
fn run_of(tier: Tier, gap_max: usize, candidates: &[Candidate]) -> (usize, usize) {
    let (mut wanted, mut blocks) = (1, 1);
    for pair in candidates.windows(2) {
        let Some(apart) = blocks_apart(tier, pair[0].ppa, pair[1].ppa) else {
            break;
        };
        let most = CLEANER_RUN_MAX.min(2 * (wanted + 1));
        if apart > 1 + gap_max || blocks + apart > most {
            break;
        }
        wanted += 1;
        blocks += apart;
    }
    (wanted, blocks)
}

/// How many blocks `next` lies behind `one` in the same unit; `None` if no whole number.
pub(crate) const fn blocks_apart(tier: Tier, one: Ppa, next: Ppa) -> Option<usize> {
    match tier {
        Tier::Dense => Some((next.bits() - one.bits()) as usize),
        Tier::Fast => {
            // Counted down.
            let sectors = one.bits() - next.bits();
            match sectors.is_multiple_of(BLOCK_SECTORS) {
                true => Some((sectors / BLOCK_SECTORS) as usize),
                false => None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use varve_units::{Lba, Lsn, VolumeId};

    fn at(ppas: impl Iterator<Item = Ppa>) -> Vec<Candidate> {
        let candidate = |ppa| Candidate {
            volume: VolumeId(1),
            lba: Lba(0),
            ppa,
            birth: Lsn::ZERO,
            crc: 0,
            class: 0,
            kept_for: None,
            stays: false,
        };
        ppas.map(candidate).collect()
    }

    fn dense(gap_max: usize, blocks: &[u64]) -> (usize, usize) {
        let candidates = at(blocks.iter().map(|block| Ppa::dense(*block)));
        run_of(Tier::Dense, gap_max, &candidates)
    }

    #[test]
    fn small_gaps_are_read_with_what_lies_around_them() {
        assert_eq!(dense(0, &[7]), (1, 1));
        assert_eq!(dense(0, &[7, 8, 9, 11]), (3, 3));
        assert_eq!(dense(1, &[7, 8, 9, 11]), (4, 5));
        assert_eq!(dense(1, &[7, 8, 9, 12]), (3, 3), "two between them");
        assert_eq!(dense(2, &[7, 8, 9, 12]), (4, 6));
    }

    #[test]
    fn half_of_what_is_read_is_wanted() {
        assert_eq!(dense(6, &[0, 3, 6, 9]), (2, 4), "of 7 blocks 3");
        assert_eq!(dense(6, &[0, 1, 2, 3, 9]), (5, 10));
        assert_eq!(dense(6, &[0, 1, 2, 3, 10]), (4, 4), "11 blocks for 5");
    }

    #[test]
    fn a_run_is_not_longer_than_a_buffer() {
        let all: Vec<u64> = (0..2 * CLEANER_RUN_MAX as u64).collect();
        let every_other: Vec<u64> = all.iter().map(|block| block * 2).collect();
        assert_eq!(dense(6, &all), (CLEANER_RUN_MAX, CLEANER_RUN_MAX));
        assert_eq!(dense(6, &every_other).1, CLEANER_RUN_MAX - 1);
    }

    /// Places there are sectors, counted down.
    #[test]
    fn blocks_of_the_log_are_read_as_they_lie() {
        let fast = |sectors: &[u64]| {
            let candidates = at(sectors.iter().map(|sector| Ppa::fast(*sector)));
            run_of(Tier::Fast, 0, &candidates)
        };
        assert_eq!(fast(&[8, 16, 24]), (3, 3));
        assert_eq!(fast(&[8, 16, 25]), (2, 2), "a header between them");
        assert_eq!(fast(&[8, 24]), (1, 1));
    }
}
