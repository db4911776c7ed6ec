//! Which copy of each block counts, for some leaves at a time.
//!
//! The highest birth wins. Every winner is read: a crash may have cut its stripe short, and of a group that was discarded
//! drives may have kept a P2L and not the blocks. One that fails its check gives way to another copy of the same birth,
//! which garbage collection made. To an older version it gives way only if its stripe was the last of its group, and so
//! perhaps never named: elsewhere an older version is not what hosts were promised, and the block is lost.
//!
//! **Price**: all live data are read once.

use super::reader::Reader;
use super::survey::{Line, Survey, Told};
use super::{RebuildError, RebuildPhase, RebuildReport, Rebuilding};
use crate::engine::Engine;
use crate::limits::{CLEANER_RUN_MAX, MERGES_MAX};
use crate::map::LeafKey;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_format::{Entry, LEAF_ENTRIES, LeafImage, P2lEntry, Placement, crc24};
use varve_units::{LeafIndex, Lsn, Ppa, VolumeId};

/// Runs of blocks read beside one another. Arbitrary: 4 MiB in memory.
const RUNS: usize = 8;

/// What is known of one block.
#[derive(Clone, Copy)]
struct Slot {
    /// Of the winner; without one, what another must have at least.
    birth: Lsn,
    ppa: Ppa,
    crc: u32,
    marks: u8,
}

/// It has a winner.
const TAKEN: u8 = 1;
/// The winner's stripe is the last of its group, or its copies differ.
const LAST: u8 = 2;
/// Nothing changes it any more.
const FINAL: u8 = 8;
/// A winner of it could not be read.
const FAILED: u8 = 16;
/// An older version was passed over.
const PASSED: u8 = 32;

impl Slot {
    const EMPTY: Self = Self {
        birth: Lsn::ZERO,
        ppa: Ppa::ABSENT,
        crc: 0,
        marks: 0,
    };

    const fn is(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }
}

/// The blocks of a leaf.
type Leaf = Box<[Slot; LEAF_ENTRIES]>;

/// What is known of a volume.
#[derive(Clone, Copy, Default)]
pub(super) struct VolumeFacts {
    pub(super) mapped: u64,
    pub(super) lost: u64,
    /// Behind its last block.
    pub(super) end: u64,
}

/// Chooses, and writes what was chosen.
pub(super) struct Choice<'a> {
    engine: &'a Engine,
    reader: &'a Rc<Reader>,
    survey: &'a Survey,
    told: Told<'a>,
    /// Leaves of a pass.
    leaves: usize,
    volumes: BTreeMap<VolumeId, VolumeFacts>,
}

/// A place that was chosen.
struct Winner {
    ppa: Ppa,
    crc: u32,
    key: LeafKey,
    index: usize,
}

/// The leaves of one pass.
struct Table {
    leaves: BTreeMap<LeafKey, Leaf>,
    /// Places whose block is not what its P2L says.
    rejected: BTreeSet<u64>,
}

impl<'a> Choice<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        reader: &'a Rc<Reader>,
        survey: &'a Survey,
        wanted: &Rebuilding<'a>,
    ) -> Self {
        let leaves = wanted.memory / size_of::<[Slot; LEAF_ENTRIES]>() as u64;
        let leaves = leaves.max(1);
        let mut told = Told::new(wanted.progress, RebuildPhase::Map);
        told.total = survey.leaves.len().div_ceil(leaves) * survey.count();
        Self {
            engine,
            reader,
            survey,
            told,
            leaves: leaves as usize,
            volumes: BTreeMap::new(),
        }
    }

    pub(super) fn into_volumes(self) -> BTreeMap<VolumeId, VolumeFacts> {
        self.volumes
    }

    /// Makes all leaves.
    pub(super) async fn make(&mut self, report: &mut RebuildReport) -> Result<(), RebuildError> {
        let survey = self.survey;
        let mut keys = survey.leaves.iter().peekable();
        while keys.peek().is_some() {
            let leaves = keys.by_ref().take(self.leaves);
            let mut table = Table {
                leaves: leaves
                    .map(|key| (key, Box::new([Slot::EMPTY; LEAF_ENTRIES])))
                    .collect(),
                rejected: BTreeSet::new(),
            };
            loop {
                self.fill(&mut table).await?;
                report.passes += 1;
                if !self.verify(&mut table, report).await? {
                    break;
                }
                self.told.total += survey.count();
            }
            self.write(table, report).await?;
        }
        Ok(())
    }

    /// Reads all P2L areas once for the leaves of a table.
    async fn fill(&mut self, table: &mut Table) -> Result<(), RebuildError> {
        let (reader, survey) = (self.reader, self.survey);
        let mut readings = reader.read_ahead(survey.stripes());
        let mut line = Line::default();
        while let Some(reading) = readings.next().await? {
            self.told.step();
            if reading.stripe == 0 {
                line = Line::default();
            }
            let Some(p2l) = &reading.p2l else { continue };
            let facts = &survey.groups[reading.group as usize];
            let counts = p2l.generation == facts.generation && line.takes(p2l.epoch);
            if !counts {
                continue;
            }
            let is_last = reading.is_mixed || reading.stripe + 1 == facts.stripes;
            let geometry = &reader.geometry;
            let first = geometry.stripe_first_user_block(reading.stripe);
            for (block, entry) in (first..).zip(&p2l.entries) {
                if entry.volume != VolumeId(0) {
                    let ppa = geometry.dense_ppa(reading.group, block);
                    table.consider(entry, ppa, is_last, reader.is_upside_down);
                }
            }
        }
        Ok(())
    }

    /// Reads the winners. True if one is not what it seems: another has to be found.
    async fn verify(
        &self,
        table: &mut Table,
        report: &mut RebuildReport,
    ) -> Result<bool, RebuildError> {
        let winners = table.winners();
        report.verified += winners.len() as u64;
        let geometry = self.reader.geometry;
        let follows = |one: &Winner, next: &Winner| {
            let is_near = one.ppa.bits() + 1 == next.ppa.bits();
            is_near && geometry.unit_of(one.ppa) == geometry.unit_of(next.ppa)
        };
        let runs = winners.chunk_by(follows);
        let mut runs = runs.flat_map(|run| run.chunks(CLEANER_RUN_MAX));
        let (mut ahead, mut is_other_wanted) = (VecDeque::new(), false);
        loop {
            while ahead.len() < RUNS
                && let Some(run) = runs.next()
            {
                let crcs: Vec<u32> = run.iter().map(|winner| winner.crc).collect();
                let (reader, first) = (Rc::clone(self.reader), run[0].ppa);
                let read = async move { Box::pin(reader.verify_run(first, crcs)).await };
                ahead.push_back((run, self.reader.world.run(read)));
            }
            let Some((run, read)) = ahead.pop_front() else {
                return Ok(is_other_wanted);
            };
            let sound = read.await?;
            for (winner, is_sound) in run.iter().zip(sound) {
                if !is_sound {
                    report.gave_way += 1;
                    is_other_wanted = true;
                }
                table.settle(winner, is_sound);
            }
        }
    }

    /// Appends the leaves of a table to the log, several beside one another.
    async fn write(
        &mut self,
        table: Table,
        report: &mut RebuildReport,
    ) -> Result<(), RebuildError> {
        let shared = &self.engine.shared;
        let most = shared.config.reserve.leaves_max;
        let mut ahead = VecDeque::new();
        for (key, leaf) in table.leaves {
            let Some(image) = self.image(key, &leaf, report) else {
                continue;
            };
            report.leaves += 1;
            if report.leaves > most {
                return Err(RebuildError::TooManyLeaves { most });
            }
            if ahead.len() == MERGES_MAX
                && let Some(merge) = ahead.pop_front()
            {
                let merge: varve_io::Receiver<_> = merge;
                let merged: Result<(), crate::error::EngineError> = merge.await;
                merged?;
            }
            let shard = shared.shard();
            let seed = async move { shard.seed_leaf(key, *image).await };
            ahead.push_back(shared.world.run(seed));
        }
        for merge in ahead {
            merge.await?;
        }
        Ok(())
    }

    /// The image of a leaf, if it has a block, and the live bits of these.
    fn image(
        &mut self,
        key: LeafKey,
        leaf: &Leaf,
        report: &mut RebuildReport,
    ) -> Option<Box<LeafImage>> {
        let mut image = Box::new(LeafImage::BLANK);
        let (mut mapped, mut lost, mut end) = (0, 0, 0);
        for (index, slot) in (0_u16..).zip(leaf.iter()) {
            report.passed_over += u64::from(slot.is(PASSED));
            let entry = if slot.is(TAKEN) {
                mapped += 1;
                self.engine.shared.units.append(slot.ppa);
                Entry::new(slot.ppa, crc24(slot.crc))
            } else if slot.is(FAILED) {
                lost += 1;
                Entry::LOST
            } else {
                continue;
            };
            image.set(index, entry, Placement::new(Placement::UNKNOWN, true));
            end = first_block(key.leaf) + u64::from(index) + 1;
        }
        if end == 0 {
            return None;
        }
        report.mapped += mapped;
        report.lost += lost;
        let volume = self.volumes.entry(key.volume).or_default();
        volume.mapped += mapped;
        volume.lost += lost;
        volume.end = volume.end.max(end);
        Some(image)
    }
}

const fn first_block(leaf: LeafIndex) -> u64 {
    leaf.0 * LEAF_ENTRIES as u64
}

impl Table {
    /// Winners that are not final, in order of place.
    fn winners(&self) -> Vec<Winner> {
        let mut winners = Vec::new();
        for (key, leaf) in &self.leaves {
            for (index, slot) in leaf.iter().enumerate() {
                if slot.is(TAKEN) && !slot.is(FINAL) {
                    winners.push(Winner {
                        ppa: slot.ppa,
                        crc: slot.crc,
                        key: *key,
                        index,
                    });
                }
            }
        }
        winners.sort_unstable_by_key(|winner| winner.ppa.bits());
        winners
    }

    /// A winner was read.
    fn settle(&mut self, winner: &Winner, is_sound: bool) {
        let leaf = self.leaves.get_mut(&winner.key);
        let slot = &mut leaf.expect("a leaf of this table")[winner.index];
        if is_sound {
            slot.marks |= FINAL;
            return;
        }
        self.rejected.insert(winner.ppa.bits());
        if slot.is(LAST) {
            slot.birth = Lsn::ZERO;
        }
        slot.marks = slot.marks & PASSED | FAILED;
    }
    /// A stripe that counts says that it holds this block at this place.
    fn consider(&mut self, entry: &P2lEntry, ppa: Ppa, is_last: bool, is_upside_down: bool) {
        let key = LeafKey {
            volume: entry.volume,
            leaf: entry.lba.leaf(),
        };
        let Some(leaf) = self.leaves.get_mut(&key) else {
            return;
        };
        let slot = &mut leaf[entry.lba.index()];
        if slot.is(FINAL) || self.rejected.contains(&ppa.bits()) {
            return;
        }
        let is_taken = slot.is(TAKEN);
        let is_higher = match is_upside_down {
            true => !is_taken || entry.birth < slot.birth,
            false => entry.birth > slot.birth || (!is_taken && entry.birth >= slot.birth),
        };
        if is_taken && entry.birth == slot.birth {
            // Another copy of the same bytes: one is enough.
            return;
        }
        if is_taken {
            slot.marks |= PASSED;
        }
        if is_higher {
            let last = if is_last { LAST } else { 0 };
            slot.marks = slot.marks & (FAILED | PASSED) | TAKEN | last;
            (slot.birth, slot.ppa, slot.crc) = (entry.birth, ppa, entry.crc);
        }
    }
}
