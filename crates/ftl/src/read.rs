//! Verified reads: look up, read, compare generation and checksum, try every copy, repair.

use crate::config::Canary;
use crate::error::EngineError;
use crate::geometry::{Place, UnitId};
use crate::limits::READ_RETRIES_MAX;
use crate::map::{LeafKey, Lookup};
use crate::run_reads::{Content, Found, Run, RunReads};
use crate::shard::Shard;
use crate::shared::Shared;
use crate::units::UnitState;
use crate::ways::Ways;
use alloc::vec::Vec;
use core::sync::atomic::{Ordering, fence};
use varve_format::{block_crc, crc24};
use varve_io::{Blocks, Command, Gather, IoError, Sectors};
use varve_units::{BLOCK_BYTES, Generation, LEAF_BLOCKS, Lba, Ppa, SECTOR_BYTES, VolumeId};

/// A block to be read: where it lies and the 24 bits its checksum must have.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) ppa: Ppa,
    pub(crate) crc24: u32,
}

/// Where one block lay when it was looked up, which any reactor can use: the generation tells whether
/// it lies there still.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    place: Place,
    generation: Generation,
    /// The 24 bits its checksum must have.
    crc24: u32,
}

/// How a verified read of one block ended.
enum Verdict {
    Good,
    Moved,
    /// No copy passes its check, and none can be asked another time.
    Lost,
    /// A copy may answer another time.
    Away(IoError),
}

impl Shard {
    /// Reads `count` blocks from `lba` on, all in one leaf, into `into` from `at` on.
    pub(crate) async fn read(
        &self,
        volume: VolumeId,
        lba: Lba,
        count: usize,
        into: &mut Blocks,
        at: usize,
    ) -> Result<(), EngineError> {
        assert!(
            lba.index() + count <= LEAF_BLOCKS as usize,
            "a read stays in one leaf"
        );
        let key = LeafKey {
            volume,
            leaf: lba.leaf(),
        };
        if into.len() == 1 && self.read_one(key, lba.index(), into).await {
            return Ok(());
        }
        let mut todo: Vec<usize> = (0..count).collect();
        for attempt in 0.. {
            todo = self.read_once(key, lba.index(), &todo, into, at).await?;
            if todo.is_empty() {
                break;
            }
            self.shared.count("read_retries", 1);
            if attempt >= READ_RETRIES_MAX {
                self.shared.world.yield_now().await;
            }
        }
        Ok(())
    }

    /// Reads all the caller asked for, one block, the usual way and without any list. False if it
    /// has no place, must be looked up again or fails its check: the long way finds out.
    async fn read_one(&self, key: LeafKey, index: usize, into: &mut Blocks) -> bool {
        match self.spot(key, index) {
            Some(spot) => self.shared.read_spot(spot, into).await,
            None => false,
        }
    }

    /// Where a block lies. Nothing if it lies nowhere, or only the leaf's image can tell.
    pub(crate) fn spot(&self, key: LeafKey, index: usize) -> Option<Spot> {
        let found = self.map.borrow().lookup(key, index as u16);
        let Lookup::Entry { entry, .. } = found else {
            return None;
        };
        let units = &self.shared.units;
        let place = units
            .geometry()
            .locate(entry.ppa())
            .expect("the map names places that exist");
        Some(Spot {
            place,
            generation: units.unit(place.unit).generation(),
            crc24: entry.crc24(),
        })
    }

    /// One pass over the blocks `todo`; returns those whose place was reused meanwhile.
    async fn read_once(
        &self,
        key: LeafKey,
        first: usize,
        todo: &[usize],
        into: &mut Blocks,
        at: usize,
    ) -> Result<Vec<usize>, EngineError> {
        let wanted = self.look_up(key, first, todo, into, at).await?;
        let runs = self.runs(&wanted);
        let mut again = Vec::new();
        if let [run] = &runs[..]
            && wanted.len() == into.len()
        {
            let found = self.read_in_place(run, into).await;
            let verdicts = self.verify(run, &wanted, found, into, at).await;
            self.judge((key, first), &wanted, verdicts, &mut again)?;
            return Ok(again);
        }
        let mut reads = RunReads::new(self, &runs, into.is_elided());
        let mut judged = Ok(());
        for run in &runs {
            let places = &wanted[run.blocks.clone()];
            let found = reads.next().await;
            let verdicts = self.verify(run, places, found, into, at).await;
            judged = self.judge((key, first), places, verdicts, &mut again);
            if judged.is_err() {
                break;
            }
        }
        reads.end().await;
        judged.map(|()| again)
    }

    /// Adds to `again` those blocks of a run that are to be looked up once more.
    fn judge(
        &self,
        (key, first): (LeafKey, usize),
        places: &[(usize, Wanted)],
        verdicts: Vec<Verdict>,
        again: &mut Vec<usize>,
    ) -> Result<(), EngineError> {
        for ((block, want), verdict) in places.iter().zip(verdicts) {
            match verdict {
                Verdict::Good => {}
                Verdict::Moved => again.push(*block),
                Verdict::Lost | Verdict::Away(_) if self.has_moved(key, first + block, *want) => {
                    again.push(*block);
                }
                // Nothing is written off: the host may ask again.
                Verdict::Away(error) => {
                    self.shared.count("reads_away", 1);
                    return Err(EngineError::Io(error));
                }
                Verdict::Lost => {
                    self.shared.count("blocks_lost", 1);
                    let lba = key.leaf.block(first + block);
                    return Err(EngineError::Lost(key.volume, lba));
                }
            }
        }
        Ok(())
    }

    /// True if the map names another place for a block by now.
    fn has_moved(&self, key: LeafKey, index: usize, want: Wanted) -> bool {
        if self.planted(Canary::GenerationIgnored) {
            return false;
        }
        match self.map.borrow().lookup(key, index as u16) {
            Lookup::Entry { entry, .. } => entry.ppa() != want.ppa,
            Lookup::Zeroes | Lookup::Lost | Lookup::NeedsImage => true,
        }
    }

    /// Looks up the blocks `todo`; zeroes are filled in at once, the others returned.
    async fn look_up(
        &self,
        key: LeafKey,
        first: usize,
        todo: &[usize],
        into: &mut Blocks,
        at: usize,
    ) -> Result<Vec<(usize, Wanted)>, EngineError> {
        'again: loop {
            let mut wanted = Vec::with_capacity(todo.len());
            for block in todo {
                let found = self.map.borrow().lookup(key, (first + block) as u16);
                match found {
                    Lookup::Entry { entry, .. } => {
                        let (ppa, crc24) = (entry.ppa(), entry.crc24());
                        wanted.push((*block, Wanted { ppa, crc24 }));
                    }
                    Lookup::Zeroes => into.zero(at + block, 1),
                    Lookup::Lost => {
                        return Err(EngineError::Lost(key.volume, key.leaf.block(first + block)));
                    }
                    Lookup::NeedsImage => {
                        self.ensure_image(key).await?;
                        continue 'again;
                    }
                }
            }
            return Ok(wanted);
        }
    }

    /// Cuts blocks into runs that lie contiguously in one unit and in the caller's memory.
    fn runs(&self, wanted: &[(usize, Wanted)]) -> Vec<Run> {
        let units = &self.shared.units;
        let mut runs: Vec<Run> = Vec::new();
        for (index, (block, want)) in wanted.iter().enumerate() {
            let place = units
                .geometry()
                .locate(want.ppa)
                .expect("the map names places that exist");
            if let Some(run) = runs.last_mut() {
                let length = run.blocks.len() as u64;
                let first_block = wanted[run.blocks.start].0;
                if run.place.unit == place.unit
                    && run.place.offset + length * BLOCK_BYTES == place.offset
                    && first_block + run.blocks.len() == *block
                {
                    run.blocks.end = index + 1;
                    continue;
                }
            }
            let generation = units.unit(place.unit).generation();
            runs.push(Run {
                blocks: index..index + 1,
                place,
                generation,
            });
        }
        runs
    }

    /// Reads a run that is all the caller asked for into his memory.
    async fn read_in_place(&self, run: &Run, into: &mut Blocks) -> Found {
        let (count, elided) = (into.len(), into.is_elided());
        let fresh = || self.shared.world.blocks(count, elided);
        let mut his = Some(core::mem::replace(into, Blocks::new(0, elided)));
        let memory = || his.take().unwrap_or_else(fresh);
        let drive = self.drive_of(run.place.unit);
        let (read, copy) = drive.read_data_in_use(run.place.offset, memory).await;
        let found = match &read {
            Ok(_) => Content::InPlace,
            Err(error) => Content::Not(*error),
        };
        // A failed read keeps its memory.
        *into = read.unwrap_or_else(|_| fresh());
        Found {
            content: found,
            copy,
        }
    }

    /// Verifies each block of a run that was read, and puts it where the caller wants it; blocks that fail
    /// are tried by every other copy, one by one.
    async fn verify(
        &self,
        run: &Run,
        places: &[(usize, Wanted)],
        found: Found,
        into: &mut Blocks,
        at: usize,
    ) -> Vec<Verdict> {
        let elided = into.is_elided();
        let is_gone =
            found.copy > 0 || matches!(found.content, Content::Not(error) if error.is_absence());
        let moved = self.shared.is_reused(run.place.unit, run.generation);
        let mut verdicts = Vec::with_capacity(places.len());
        for (index, (block, want)) in places.iter().enumerate() {
            if moved {
                verdicts.push(Verdict::Moved);
                continue;
            }
            let is_good = |block| crc24(block_crc(block)) == want.crc24;
            match &found.content {
                Content::Apart(blocks) if is_good(blocks.block(index)) => {
                    into.copy_from(at + block, blocks, index, 1);
                    verdicts.push(Verdict::Good);
                    continue;
                }
                Content::InPlace if is_good(into.block(index)) => {
                    verdicts.push(Verdict::Good);
                    continue;
                }
                Content::Apart(_) | Content::InPlace | Content::Not(_) => {}
            }
            let offset = run.place.offset + index as u64 * BLOCK_BYTES;
            verdicts.push(
                match self
                    .read_elsewhere(run, offset, *want, is_gone, elided)
                    .await
                {
                    Ok(good) => {
                        into.copy_from(at + block, &good, 0, 1);
                        Verdict::Good
                    }
                    Err(verdict) => verdict,
                },
            );
        }
        verdicts
    }

    /// Reads one block by the copies after the first (the first again, last, if it failed with an
    /// error that may pass), and writes what is good back to the copy that failed, unless its
    /// drive is gone: there is nothing to repair then.
    async fn read_elsewhere(
        &self,
        run: &Run,
        offset: u64,
        want: Wanted,
        is_gone: bool,
        elided: bool,
    ) -> Result<Blocks, Verdict> {
        let drive = self.drive_of(run.place.unit);
        let mut ways = Ways::default();
        loop {
            for copy in (1..drive.info().copies).chain([0]) {
                let read = drive.read_data(offset, Blocks::new(1, elided), copy).await;
                if self.shared.is_reused(run.place.unit, run.generation) {
                    return Err(Verdict::Moved);
                }
                match read {
                    Ok(good) if crc24(block_crc(good.block(0))) == want.crc24 => {
                        if copy > 0 && !is_gone {
                            self.repair(run, offset, good.clone()).await;
                        }
                        return Ok(good);
                    }
                    Ok(_) => ways.note_mismatch(),
                    Err(error) => ways.note_error(error),
                }
            }
            if let Some(good) = self.shared.read_narrow(want.ppa, want.crc24).await {
                if self.shared.is_reused(run.place.unit, run.generation) {
                    return Err(Verdict::Moved);
                }
                if !is_gone {
                    self.repair(run, offset, good.clone()).await;
                }
                return Ok(good);
            }
            if !ways.tries_again() {
                break;
            }
        }
        if self.shared.is_reused(run.place.unit, run.generation) {
            return Err(Verdict::Moved);
        }
        Err(ways.away().map_or(Verdict::Lost, Verdict::Away))
    }

    /// Writes verified content of a run back to the usual copy, which failed. The unit is pinned, so that
    /// it is not reused under the write.
    async fn repair(&self, run: &Run, offset: u64, good: Blocks) {
        let unit = run.place.unit;
        if !self.pin(unit, run.generation) {
            return;
        }
        let mut gather = Gather::new();
        gather.push_data(good);
        let command = Command::Repair {
            offset,
            gather,
            copy: 0,
        };
        let done = self.drive_of(unit).submit(command).await;
        self.unpin(unit);
        self.shared.count(
            if done.is_ok() {
                "repairs"
            } else {
                "repair_failures"
            },
            1,
        );
    }

    /// A repair begins. False if the unit is another one by now, or about to be.
    pub(crate) fn pin(&self, unit: UnitId, generation: Generation) -> bool {
        self.planted(Canary::RepairUnpinned) || self.shared.units.unit(unit).try_pin(generation)
    }

    /// A repair has ended. A unit that was emptied meanwhile was passed over by a commit, which may have freed nothing:
    /// it is looked at again.
    pub(crate) fn unpin(&self, unit: UnitId) {
        if self.planted(Canary::RepairUnpinned) {
            return;
        }
        let pinned = self.shared.units.unit(unit);
        pinned.unpin();
        if pinned.state() == UnitState::Emptied {
            self.shared.tell_control(|control, _| {
                control.checkpoint_wanted.notify();
                control.gc_wanted.notify();
            });
        }
    }

    /// Writes verified metadata back to the usual copy, if it is whole LBAs. A leaf that the map names lies there.
    pub(crate) async fn repair_sectors(&self, sector: u64, content: Sectors) {
        let lba = u64::from(self.shared.units.geometry().lba_bytes);
        let offset = sector * SECTOR_BYTES;
        if !offset.is_multiple_of(lba) || !(content.len() as u64 * SECTOR_BYTES).is_multiple_of(lba)
        {
            return;
        }
        let unit = UnitId::chunk(self.shared.units.geometry().chunk_of(sector));
        let is_pinned = self.pin(unit, self.shared.units.unit(unit).generation());
        assert!(is_pinned, "a leaf that the map names keeps its chunk");
        let mut gather = Gather::new();
        gather.push_meta(content);
        let command = Command::Repair {
            offset,
            gather,
            copy: 0,
        };
        let done = self.shared.fast.submit(command).await;
        self.unpin(unit);
        self.shared.count(
            if done.is_ok() {
                "repairs"
            } else {
                "repair_failures"
            },
            1,
        );
    }
}

impl Shared {
    /// Reads a block, all that is asked for, where it was looked up. False if it lies there no longer
    /// or fails its check.
    pub(crate) async fn read_spot(&self, spot: Spot, into: &mut Blocks) -> bool {
        let elided = into.is_elided();
        let mut his = Some(core::mem::replace(into, Blocks::new(0, elided)));
        let fresh = || self.world.blocks(1, elided);
        let memory = || his.take().unwrap_or_else(fresh);
        let drive = self.drive_of(spot.place.unit);
        let (Ok(read), _) = drive.read_data_in_use(spot.place.offset, memory).await else {
            // A failed read keeps its memory.
            *into = fresh();
            return false;
        };
        *into = read;
        !self.is_reused(spot.place.unit, spot.generation)
            && crc24(block_crc(into.block(0))) == spot.crc24
    }

    /// True if a unit was reused since a place in it was looked up.
    pub(crate) fn is_reused(&self, unit: UnitId, generation: Generation) -> bool {
        // The bytes are read before the generation is read again; an acquiring load alone would let
        // them be read after it. Who frees a unit raises the generation (acquire and release) before
        // anything in it is written again.
        fence(Ordering::Acquire);
        self.units.unit(unit).generation() != generation
            && !self.config.is_planted(Canary::GenerationIgnored)
    }
}
