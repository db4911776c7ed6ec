//! A run of blocks in every way there is: what each gives, and the wrong ones made right.

use super::Scrub;
use crate::config::Canary;
use crate::geometry::{Tier, UnitId};
use crate::ways::Ways;
use alloc::vec::Vec;
use core::ops::Range;
use varve_format::block_crc;
use varve_io::{BlockRef, Blocks, Command, Gather, IoError};
use varve_units::{BLOCK_BYTES, Generation};

/// Of so many blocks of a run, if one or more is not known, all are read once more together. Arbitrary: a way that
/// sums up many drives is dear for one block, and a command for each of many is too.
const TOGETHER_ONE_IN: usize = 4;

/// What a block must be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// Content with this checksum.
    Crc(u32),
    /// Padding.
    Zeroes,
    /// Whatever lies there: a sum of other blocks, which is compared with them.
    Unsaid,
}

/// Blocks behind one another in one unit.
pub(super) struct Run<'a> {
    pub(super) unit: UnitId,
    pub(super) generation: Generation,
    /// Byte of the tier where they begin.
    pub(super) offset: u64,
    /// What each of them must be.
    pub(super) checks: &'a [Check],
}

/// What a run came to.
pub(super) struct Settled {
    /// Its blocks, as far as they are known.
    pub(super) blocks: Blocks,
    pub(super) is_known: Vec<bool>,
    /// Those that no way gives, and none may give later.
    pub(super) lost: Vec<usize>,
    /// A way could not be asked.
    pub(super) is_away: bool,
    /// Those that a way has wrong, and which.
    wrong: Vec<(u8, usize)>,
}

impl Settled {
    fn take(&mut self, at: usize, from: &Blocks, index: usize) {
        if !self.is_known[at] {
            self.blocks.copy_from(at, from, index, 1);
            self.is_known[at] = true;
        }
    }

    fn unknown(&self) -> usize {
        self.is_known.iter().filter(|is_known| !**is_known).count()
    }
}

impl Scrub<'_> {
    /// Ways to read a tier that each give something that no other does.
    pub(super) fn plain_ways(&self, tier: Tier) -> u8 {
        match tier {
            Tier::Dense if self.beneath.parity_bytes() > 0 => 1,
            _ => self.beneath.ways(tier),
        }
    }

    /// Reads a run in every plain way, what none of them gives in the others, and writes what is wrong again. `None` if
    /// the unit was reused meanwhile.
    pub(super) async fn settle(&self, run: &Run<'_>) -> Option<Settled> {
        let count = run.checks.len();
        let mut settled = Settled {
            blocks: Blocks::new(count, self.shared.config.elided),
            is_known: alloc::vec![false; count],
            lost: Vec::new(),
            is_away: false,
            wrong: Vec::new(),
        };
        let plain = self.plain_ways(run.unit.tier);
        for way in 0..plain {
            self.pace(count as u64 * BLOCK_BYTES).await;
            self.read_way(run, way, &mut settled).await;
        }
        if settled.unknown() * TOGETHER_ONE_IN >= count {
            for way in plain..self.beneath.ways(run.unit.tier) {
                self.pace(count as u64 * BLOCK_BYTES).await;
                self.read_together(run, way, &mut settled).await;
            }
        }
        for at in 0..count {
            if settled.is_known[at] || self.shared.is_stopped() {
                continue;
            }
            match self.seek(run, at).await {
                Ok(block) => settled.take(at, &block, 0),
                Err(ways) if ways.is_lost() => settled.lost.push(at),
                Err(_) => settled.is_away = true,
            }
        }
        if self.is_reused(run.unit, run.generation) || self.shared.is_stopped() {
            return None;
        }
        self.report.borrow_mut().blocks += count as u64;
        self.mend(run, &mut settled).await;
        Some(settled)
    }

    /// Reads a run by one way, and notes what it has wrong.
    async fn read_way(&self, run: &Run<'_>, way: u8, settled: &mut Settled) {
        match self.read(run, 0..run.checks.len(), way).await {
            Ok(blocks) => {
                for at in 0..run.checks.len() {
                    self.weigh(run, (way, at), (&blocks, at), settled);
                }
            }
            Err(error) if error.is_absence() => settled.is_away = true,
            // It may have failed for one of them.
            Err(_) => {
                for at in 0..run.checks.len() {
                    match self.read(run, at..at + 1, way).await {
                        Ok(block) => self.weigh(run, (way, at), (&block, 0), settled),
                        Err(IoError::Media) => settled.wrong.push((way, at)),
                        Err(_) => settled.is_away = true,
                    }
                }
            }
        }
    }

    fn weigh(
        &self,
        run: &Run<'_>,
        (way, at): (u8, usize),
        (blocks, index): (&Blocks, usize),
        settled: &mut Settled,
    ) {
        match self.passes(run.checks[at], blocks.block(index)) {
            true => settled.take(at, blocks, index),
            false => settled.wrong.push((way, at)),
        }
    }

    /// Reads a run by a way that is no plain one, for what is not known yet.
    async fn read_together(&self, run: &Run<'_>, way: u8, settled: &mut Settled) {
        let Ok(blocks) = self.read(run, 0..run.checks.len(), way).await else {
            return;
        };
        for (at, check) in run.checks.iter().enumerate() {
            if self.passes(*check, blocks.block(at)) {
                settled.take(at, &blocks, at);
            }
        }
    }

    /// A block by whichever way gives it, or what all of them came to.
    async fn seek(&self, run: &Run<'_>, at: usize) -> Result<Blocks, Ways> {
        let mut ways = Ways::default();
        loop {
            for way in 0..self.beneath.ways(run.unit.tier) {
                match self.read(run, at..at + 1, way).await {
                    Ok(block) if self.passes(run.checks[at], block.block(0)) => return Ok(block),
                    Ok(_) => ways.note_mismatch(),
                    Err(error) => ways.note_error(error),
                }
            }
            if !ways.tries_again() {
                return Err(ways);
            }
        }
    }

    async fn read(&self, run: &Run<'_>, blocks: Range<usize>, way: u8) -> Result<Blocks, IoError> {
        let into = self
            .shared
            .world
            .blocks(blocks.len(), self.shared.config.elided);
        let offset = run.offset + blocks.start as u64 * BLOCK_BYTES;
        let drive = self.shared.drive_of(run.unit);
        drive.read_data(offset, into, way).await
    }

    fn passes(&self, check: Check, block: BlockRef<'_>) -> bool {
        if self.shared.config.is_planted(Canary::ScrubTrustsData) {
            return true;
        }
        match (check, block) {
            (Check::Crc(crc), block) => block_crc(block) == crc,
            (Check::Unsaid, _) => true,
            (Check::Zeroes, BlockRef::Bytes(bytes)) => bytes.iter().all(|byte| *byte == 0),
            (Check::Zeroes, BlockRef::Symbol(symbol)) => symbol == 0,
        }
    }

    /// Writes what is known to where it is wrong, neighbours together.
    async fn mend(&self, run: &Run<'_>, settled: &mut Settled) {
        let mut wrong = core::mem::take(&mut settled.wrong);
        wrong.retain(|(_, at)| settled.is_known[*at]);
        for same in wrong.chunk_by(|one, next| *next == (one.0, one.1 + 1)) {
            let (copy, first) = same[0];
            if !self.pin(run.unit, run.generation) {
                return;
            }
            let mut gather = Gather::new();
            gather.push_data(settled.blocks.extract(first, same.len()));
            let command = Command::Repair {
                offset: run.offset + first as u64 * BLOCK_BYTES,
                gather,
                copy,
            };
            let done = self.shared.drive_of(run.unit).submit(command).await;
            self.unpin(run.unit);
            self.note_repair(same.len() as u64, done.is_ok());
        }
    }
}
