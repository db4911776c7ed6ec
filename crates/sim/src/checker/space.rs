//! Space accounting: what the pool says it uses, against what hosts wrote.

use crate::checker::register::Register;
use crate::checker::{Moment, Oracle, Ticket};
use std::collections::BTreeSet;
use varve_units::{LEAF_BLOCKS, Lba, VolumeId};

/// Space as a pool reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Blocks in use.
    pub used_blocks: u64,
    /// Blocks that can be in use.
    pub capacity_blocks: u64,
    /// Leaves that can be in use.
    pub capacity_leaves: u64,
    /// False if `used_blocks` is an upper bound only.
    pub is_exact: bool,
}

impl Oracle {
    /// Least and most data blocks that can be in use, operations in flight included.
    #[must_use]
    pub fn used_blocks(&self) -> (u64, u64) {
        let blocks = self.volumes.values().flat_map(|volume| &volume.blocks);
        blocks
            .map(Register::mapped)
            .fold((0, 0), |sum, bounds| (sum.0 + bounds.0, sum.1 + bounds.1))
    }

    /// Most leaves that can be in use, those of a write to `lba..lba + count` included.
    fn used_leaves(&self, volume: VolumeId, lba: Lba, count: u64) -> u64 {
        let mut used = BTreeSet::new();
        for (&id, volume) in &self.volumes {
            for (leaf, blocks) in volume.blocks.chunks(LEAF_BLOCKS as usize).enumerate() {
                if blocks
                    .iter()
                    .any(|block| block.held().iter().any(|held| !held.is_zero))
                {
                    used.insert((id, leaf as u64));
                }
            }
        }
        let touched = lba.0 / LEAF_BLOCKS..(lba.0 + count).div_ceil(LEAF_BLOCKS);
        used.extend(touched.map(|leaf| (volume, leaf)));
        used.len() as u64
    }

    /// Counts from scratch what the incremental count follows.
    pub(super) fn recount(&mut self) {
        self.most = self.used_blocks().1;
        self.note_peak();
    }

    /// Remembers the space in use and in flight at this moment.
    pub(super) fn note_peak(&mut self) {
        let writing: u64 = self.outstanding.values().sum();
        let needed = self.most + writing;
        while let Some(last) = self.peaks.last_entry()
            && *last.get() <= needed
        {
            last.remove();
        }
        self.peaks.insert(self.now, needed);
        let oldest = self
            .outstanding
            .first_key_value()
            .map_or(self.now, |entry| *entry.0);
        while let Some((&second, _)) = self.peaks.iter().nth(1)
            && second <= oldest
        {
            self.peaks.pop_first();
        }
    }

    /// A start of the pool, and the space that it has from now on: with more lanes it is less.
    pub fn note_space(&mut self, space: Space) {
        let oldest = self.outstanding.first_key_value();
        let oldest = oldest.map_or(self.now, |entry| *entry.0);
        let is_over = |pair: &[(Moment, Space)]| pair[1].0 < oldest;
        while self.starts.windows(2).next().is_some_and(is_over) {
            self.starts.remove(0);
        }
        self.starts.push((self.now, space));
    }

    /// The least space that the pool had since a moment, counted in blocks and in leaves.
    fn least_since(&self, begun: Moment, now: Space) -> (u64, u64) {
        let ended = self.starts.windows(2).filter(|pair| pair[1].0 < begun);
        let since = &self.starts[ended.count()..];
        let spaces = since.iter().map(|(_, space)| *space).chain([now]);
        spaces.fold((u64::MAX, u64::MAX), |(blocks, leaves), space| {
            let leaves = leaves.min(space.capacity_leaves);
            (blocks.min(space.capacity_blocks), leaves)
        })
    }

    /// A write that is in flight was refused for lack of space: there must have been none at some
    /// moment since it began, counting what was in flight then as new. Part of it may have been refused
    /// before a crash that the rest outlived.
    ///
    /// # Errors
    /// In words, if there was space.
    pub fn check_refusal(
        &self,
        space: Space,
        ticket: Ticket,
        volume: VolumeId,
        lba: Lba,
        count: u64,
    ) -> Result<(), String> {
        let before = self.peaks.range(..=ticket.begun).next_back();
        let since = self.peaks.range(ticket.begun..).next();
        let peak = before.into_iter().chain(since).map(|(_, &peak)| peak).max();
        let peak = peak.unwrap_or(0);
        let (capacity_blocks, capacity_leaves) = self.least_since(ticket.begun, space);
        if peak > capacity_blocks {
            return Ok(());
        }
        let leaves = self.used_leaves(volume, lba, count);
        if leaves > capacity_leaves {
            return Ok(());
        }
        Err(format!(
            "a write of {count} blocks was refused with at most {peak} of {capacity_blocks} blocks and \
             {leaves} of {capacity_leaves} leaves in use"
        ))
    }

    /// Nothing is in flight: the report must match.
    ///
    /// # Errors
    /// In words, if it does not.
    pub fn check_space(&self, space: Space) -> Result<(), String> {
        let (least, most) = self.used_blocks();
        let used = space.used_blocks;
        if used < least || (space.is_exact && used > most) || used > space.capacity_blocks {
            return Err(format!(
                "{used} of {} blocks reported in use, {least} to {most} expected",
                space.capacity_blocks
            ));
        }
        Ok(())
    }
}
