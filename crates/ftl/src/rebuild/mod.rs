//! The map from the dense tier alone: what a pool gets back that has lost its fast tier.
//!
//! 1. `survey`: every P2L area is read by every way. That tells of each group its newest generation and how far it
//!    was written, and which leaves there are.
//! 2. An engine is assembled on the new fast drives. Nothing that they held before is believed: the heads of all
//!    chunks are written over.
//! 3. `choice`: for as many leaves at a time as memory allows, all P2L areas are read again. Of each block the
//!    highest birth wins. Winners are read; one that does not pass its check gives way to the next.
//! 4. The leaves are appended to the log (`seed`), the groups are closed, those without a block are free, volumes get into
//!    the catalogue.
//! 5. `evacuate`: if too few groups are free, the emptiest ones are emptied into the log.
//! 6. One checkpoint. A start of the pool goes on from there.
//!
//! **Invariants**: nothing is written to the dense tier, and nothing is discarded there; memory is bounded, however
//! many blocks there are.
//!
//! **What cannot be known**: what was in the log alone, deallocations and deletions (so freed data may come back),
//! the catalogue. A stripe that a crash left without a name may win: its blocks were written by hosts, and lost since.
//!
//! # Source
//! engine.md 1, «LSN and birth are two numbers», and U9.

mod choice;
mod error;
mod evacuate;
mod leaf_set;
mod reader;
mod survey;

pub use error::RebuildError;

use crate::config::Config;
use crate::engine::{Engine, Seats};
use crate::error::{EngineError, StopReason};
use crate::geometry::{Geometry, Tier, UnitId};
use crate::load::Stopped;
use crate::recovery::LSN_GAP;
use crate::shared::Identity;
use crate::units::{UnitRestore, UnitState};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use choice::Choice;
use core::sync::atomic::Ordering;
use reader::Reader;
use survey::Survey;
use varve_format::{CHUNK_HEAD_BYTES, CatalogueEntry, Name, VOLUME_BLOCKS_MAX, VolumeState};
use varve_io::{Flow, Gather, IoError, Sectors};
use varve_units::{Blocks, Generation, Lsn, SECTOR, SECTOR_BYTES, TenantId, VolumeId};

/// A part of a rebuild.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RebuildPhase {
    /// All P2L areas are read for the first time.
    Survey,
    /// They are read again, once or several times, and the map is written.
    Map,
}

/// How far a rebuild is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RebuildProgress {
    /// What is being done.
    pub phase: RebuildPhase,
    /// Stripes whose P2L was read in this phase.
    pub done: u64,
    /// All of them, as far as is known by now.
    pub total: u64,
}

/// What a volume becomes of which nothing but blocks is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Draft {
    /// Its name.
    pub name: Name,
    /// Its size; what was found makes it larger.
    pub size: Blocks,
    /// Its owner.
    pub tenant: TenantId,
    /// UUID that hosts see.
    pub uuid: [u8; 16],
    /// NGUID that hosts see.
    pub nguid: [u8; 16],
}

/// What a rebuild is given beside the drives.
pub struct Rebuilding<'a> {
    /// What a volume becomes of which blocks up to the second value, that excluded, were found.
    pub draft: &'a dyn Fn(VolumeId, Blocks) -> Draft,
    /// Told now and then.
    pub progress: &'a dyn Fn(RebuildProgress),
    /// Memory for choosing, in bytes.
    pub memory: u64,
}

/// A volume that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundVolume {
    /// Its number.
    pub id: VolumeId,
    /// Its blocks that the map names now.
    pub mapped: u64,
    /// Its blocks of which no copy could be read.
    pub lost: u64,
}

/// What a rebuild found and did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RebuildReport {
    /// Volumes, by number.
    pub volumes: Vec<FoundVolume>,
    /// Blocks that the map names now.
    pub mapped: u64,
    /// Blocks of which no copy could be read: reads of them fail.
    pub lost: u64,
    /// Leaves of the map.
    pub leaves: u64,
    /// Stripes whose P2L was read and counts.
    pub stripes: u64,
    /// Stripes that were written and whose P2L nobody can read.
    pub stripes_unreadable: u64,
    /// Groups with such stripes.
    pub groups_unreadable: Vec<u32>,
    /// Blocks of which older versions were passed over.
    pub passed_over: u64,
    /// Blocks that were read to be sure of them.
    pub verified: u64,
    /// Of these, those that could not be read: another copy was taken, or an older version, or they are lost.
    pub gave_way: u64,
    /// Groups taken as free.
    pub groups_free: u64,
    /// Groups that were emptied into the log, so that enough are free.
    pub groups_evacuated: u64,
    /// Times that all P2L areas were read.
    pub passes: u64,
}

impl Engine {
    /// Makes the map of a pool anew, from what its dense tier holds, on a fast tier that holds nothing. What is on the fast
    /// tier is written over; the dense tier is only read. When this returns a start of the pool finds a checkpoint.
    ///
    /// # Errors
    /// [`RebuildError`]; the same may be tried again.
    ///
    /// # Panics
    /// If there is no dense tier, or the configuration has more than one lane.
    pub fn rebuild<'a>(
        seats: Seats,
        geometry: Geometry,
        config: Config,
        identity: Identity,
        wanted: &'a Rebuilding<'a>,
    ) -> Flow<'a, Result<RebuildReport, RebuildError>> {
        Box::pin(async move {
            assert_eq!(config.lanes, 1, "a map is rebuilt on one reactor");
            let dense = seats
                .dense
                .as_ref()
                .expect("a map is rebuilt from a dense tier");
            let world = Rc::clone(&seats.world);
            let reader = Reader::new(world, Rc::clone(dense), geometry, &config, identity);
            let reader = Rc::new(reader);
            let survey = Survey::take(&reader, wanted.progress).await?;
            blank_chunks(&seats, &geometry)
                .await
                .map_err(RebuildError::Fast)?;
            let first = survey.newest_birth.plus(LSN_GAP);
            let engine = Self::assemble(seats, geometry, config, identity, first).await?;
            let outcome = engine.rebuild_from(&reader, &survey, wanted).await;
            let outcome = outcome.map_err(|error| engine.why_not_rebuilt(error));
            engine.shared.stop(StopReason::Closed);
            outcome
        })
    }

    async fn rebuild_from(
        &self,
        reader: &Rc<Reader>,
        survey: &Survey,
        wanted: &Rebuilding<'_>,
    ) -> Result<RebuildReport, RebuildError> {
        let shared = &self.shared;
        let has_narrow = survey.has_narrow;
        shared.has_narrow.store(has_narrow, Ordering::Relaxed);
        for id in shared.units.ids(Tier::Fast) {
            shared.control().add_free(id);
        }
        self.count_leaves()
            .await
            .map_err(|Stopped| EngineError::Stopped)?;
        self.run().await?;
        self.declare_groups(survey);
        let mut report = survey.report();
        let mut choice = Choice::new(self, reader, survey, wanted);
        choice.make(&mut report).await?;
        let volumes = choice.into_volumes();
        self.catalogue(&volumes, wanted);
        report.volumes = volumes
            .iter()
            .map(|(id, volume)| FoundVolume {
                id: *id,
                mapped: volume.mapped,
                lost: volume.lost,
            })
            .collect();
        self.settle_groups(survey);
        report.groups_evacuated = self.make_room(&report).await?;
        shared.control().ask_exact_checkpoint();
        shared.control().take_checkpoint_asked();
        let taken = shared.take_checkpoint().await;
        taken.map_err(|Stopped| EngineError::Stopped)?;
        report.groups_free = shared.control().ready_groups(shared) as u64;
        Ok(report)
    }

    /// Groups of which something was found take blocks, as far as they were written.
    fn declare_groups(&self, survey: &Survey) {
        for (group, facts) in (0..).zip(&survey.groups) {
            if facts.stripes > 0 {
                let restore = UnitRestore {
                    state: UnitState::Open,
                    generation: facts.generation,
                    // Older than every reference.
                    stamp: Lsn(1),
                    write_pointer: 0,
                    is_resumed: facts.is_mixed,
                };
                self.shared.units.restore(UnitId::group(group), &restore);
            }
        }
    }

    /// Groups of which blocks were chosen are closed, all others are free, in a generation that none of their stripes has.
    fn settle_groups(&self, survey: &Survey) {
        let shared = &self.shared;
        let stripe = shared.units.geometry().stripe_blocks;
        for (group, facts) in (0..).zip(&survey.groups) {
            let id = UnitId::group(group);
            if shared.units.unit(id).live() > 0 {
                shared.close_written(group, facts.stripes * stripe);
                continue;
            }
            let restore = UnitRestore {
                state: UnitState::Free,
                generation: Generation(survey.newest_generation.0 + 1),
                stamp: Lsn(1),
                write_pointer: 0,
                is_resumed: false,
            };
            shared.units.restore(id, &restore);
            shared.control().add_free(id);
        }
    }

    fn catalogue(&self, found: &BTreeMap<VolumeId, choice::VolumeFacts>, wanted: &Rebuilding<'_>) {
        let mut volumes = self.shared.volumes.borrow_mut();
        for (id, facts) in found {
            let end = Blocks(facts.end);
            let draft = (wanted.draft)(*id, end);
            volumes.put(CatalogueEntry {
                id: *id,
                uuid: draft.uuid,
                nguid: draft.nguid,
                size: Blocks(draft.size.0.max(end.0).clamp(1, VOLUME_BLOCKS_MAX)),
                tenant: draft.tenant,
                state: VolumeState::Present,
                parent: None,
                name: draft.name,
            });
            volumes.next_id = volumes.next_id.max(id.0 + 1);
        }
    }

    /// Why a rebuild failed: of an engine that stopped, what stopped it.
    fn why_not_rebuilt(&self, error: RebuildError) -> RebuildError {
        let stopped = RebuildError::Engine(EngineError::Stopped);
        match self.stop_reason() {
            Some(StopReason::Log(why) | StopReason::Flush(why)) if error == stopped => {
                RebuildError::Fast(why)
            }
            _ => error,
        }
    }
}

/// Writes over what a start would believe of an older use of the fast drives: they may be the pool's own, with headers of a
/// younger checkpoint than the first one of what is made here.
async fn blank_chunks(seats: &Seats, geometry: &Geometry) -> Result<(), IoError> {
    for chunk in 0..geometry.chunks {
        let zeroes = Sectors::zeroed(CHUNK_HEAD_BYTES / SECTOR);
        let mut gather = Gather::default();
        gather.push_meta(zeroes);
        let offset = geometry.chunk_start(chunk) * SECTOR_BYTES;
        seats.fast.write(offset, gather).await?;
    }
    seats.fast.flush().await
}
