//! Reads of what one command of a host wants, run by run.
//!
//! **Invariant**: every read is awaited to its end.

use crate::geometry::Place;
use crate::limits::{READS_AT_ONCE, READS_OF_ALL};
use crate::shard::Shard;
use alloc::collections::VecDeque;
use core::ops::Range;
use varve_io::{Blocks, Completion, IoError, Target, blocks_of};
use varve_units::Generation;

/// Contiguous blocks of one unit to be read in one command.
pub(crate) struct Run {
    pub(crate) blocks: Range<usize>,
    pub(crate) place: Place,
    pub(crate) generation: Generation,
}

/// What a read of a run came to.
pub(crate) struct Found {
    pub(crate) content: Content,
    /// The copy that gave it.
    pub(crate) copy: u8,
}

pub(crate) enum Content {
    /// In memory of its own.
    Apart(Blocks),
    /// In the caller's.
    InPlace,
    Not(IoError),
}

/// Reads of the runs of one command, in order, so many beside one another: what hosts wrote in another order
/// lies scattered, and flash takes its time for each place.
pub(crate) struct RunReads<'a> {
    shard: &'a Shard,
    runs: &'a [Run],
    elided: bool,
    /// The first that is not yet begun.
    next: usize,
    under_way: VecDeque<(Completion, u8)>,
}

impl<'a> RunReads<'a> {
    /// Nothing is read yet.
    pub(crate) const fn new(shard: &'a Shard, runs: &'a [Run], elided: bool) -> Self {
        Self {
            shard,
            runs,
            elided,
            next: 0,
            under_way: VecDeque::new(),
        }
    }

    /// What was read of the next run.
    pub(crate) async fn next(&mut self) -> Found {
        let commands = self.shard.shared.host_reads.get().max(1);
        let most = (READS_OF_ALL / commands).clamp(1, READS_AT_ONCE);
        while self.under_way.len() < most
            && let Some(run) = self.runs.get(self.next)
        {
            let world = &self.shard.shared.world;
            let memory = || Target::Data(world.blocks(run.blocks.len(), self.elided));
            let drive = self.shard.drive_of(run.place.unit);
            let begun = drive.read_in_use(run.place.offset, memory);
            self.under_way.push_back(begun);
            self.next += 1;
        }
        let first = self.under_way.pop_front();
        let (completion, copy) = first.expect("there is one more run");
        let content = blocks_of(completion.await).map_or_else(Content::Not, Content::Apart);
        Found { content, copy }
    }

    /// Waits for what is still under way: a drive works on memory that is ours.
    pub(crate) async fn end(self) {
        for (completion, _) in self.under_way {
            let _ = completion.await;
        }
    }
}
