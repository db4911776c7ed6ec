//! From what the drives hold to a running engine.
//!
//! 1. `scan`: read all chunk headers; choose the newest commit.
//! 2. `walk`: follow each lane of the commit's epoch from its redo position to its end.
//! 3. `load`: slices, unit tables, bitmaps, catalogue from the commit's parts.
//!    `ahead` reads headers of several chunks side by side. What was flushed and finds no room in
//!    memory is not kept: it is read again in step 5.
//! 4. Make the unflushed tail equal on all copies, and flush it.
//! 5. `redo`: apply the records behind the cuts, once, in lane order.
//! 6. Commit a checkpoint; serve.
//!
//! Everything written here goes to chunks that the commit calls free and no lane's redo touches,
//! under a new epoch: a crash at any point leaves the next start with the same commit to begin
//! from, or with the new one (ADR 9, 10).

mod ahead;
mod gap;
mod hole;
mod load;
mod names;
mod redo;
mod scan;
mod slices;
#[cfg(test)]
mod tests;
mod walk;
mod whole;

use crate::config::Config;
use crate::engine::{Engine, Seats};
use crate::error::{EngineError, StopReason};
use crate::geometry::Geometry;
use crate::shared::Identity;
use ahead::Ahead;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use scan::Scan;
use varve_format::{CommitBody, CommitPlace};
use varve_io::Flow;
use varve_units::{LaneId, Lsn};
use walk::LaneWalk;
pub(crate) use walk::{Expect, Sought, seek_decoded};

/// LSNs skipped at a start: more than can have been handed out beyond what was found
/// (discarded tails were never acknowledged as durable; arbitrary, far above any such number).
pub(crate) const LSN_GAP: u64 = 1 << 16;

/// Bytes of a delta node (`map`).
const DELTA_NODE_BYTES: usize = 64;

/// Why a pool could not be recovered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RecoverError {
    /// No chunk names a checkpoint: this is no fast tier of the pool, or nothing of it is left.
    NoCheckpoint,
    /// The newest checkpoint is named but cannot be read.
    CommitUnreadable {
        /// Its number.
        checkpoint: u64,
    },
    /// A part that the newest checkpoint needs cannot be read.
    PartUnreadable {
        /// The checkpoint that wrote it.
        checkpoint: u64,
        /// Fast-tier sector of its payload.
        sector: u64,
    },
    /// A batch that was read a moment ago cannot be read again. Another start may.
    BatchUnreadable {
        /// Fast-tier sector of its header.
        sector: u64,
    },
    /// A part does not fit the pool's geometry.
    PartMismatch {
        /// Fast-tier sector of its payload.
        sector: u64,
    },
    /// The engine stopped while it recovered.
    Engine(EngineError),
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCheckpoint => f.write_str("no chunk of the fast tier names a checkpoint"),
            Self::CommitUnreadable { checkpoint } => {
                write!(
                    f,
                    "checkpoint {checkpoint} is the newest but cannot be read"
                )
            }
            Self::PartUnreadable { checkpoint, sector } => write!(
                f,
                "a part of checkpoint {checkpoint} at fast-tier sector {sector} cannot be read"
            ),
            Self::BatchUnreadable { sector } => write!(
                f,
                "the batch at fast-tier sector {sector} cannot be read a second time"
            ),
            Self::PartMismatch { sector } => {
                write!(
                    f,
                    "the checkpoint part at fast-tier sector {sector} does not fit the pool"
                )
            }
            Self::Engine(EngineError::Stopped) => {
                f.write_str("the engine stopped while it recovered")
            }
            Self::Engine(error) => write!(f, "the engine stopped while it recovered: {error}"),
        }
    }
}

impl core::error::Error for RecoverError {}

impl From<EngineError> for RecoverError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// Batches of a lane that cannot be read any more: they were flushed once, or the drives cannot say
/// whether there were any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The lane.
    pub lane: LaneId,
    /// First LSN missing.
    pub from: Lsn,
    /// First LSN found again; the highest there is if the lane ends where it cannot be read.
    pub to: Lsn,
}

/// A part of a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartPhase {
    /// Chunk headers are read, the newest commit is found.
    Scan,
    /// The headers of the batches behind the checkpoint are read.
    Walk,
    /// Slices, unit tables, bitmaps and the catalogue are loaded.
    Load,
    /// The records behind the cuts are applied.
    Redo,
    /// Copies are made equal, a checkpoint is committed, the engine serves.
    Commit,
}

/// What a start found and did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// Checkpoint it began from.
    pub checkpoint: u64,
    /// Records redone.
    pub records: u64,
    /// Of these, what hosts asked for: none after a pool was closed in good order.
    pub of_hosts: u64,
    /// Batches walked.
    pub batches: u64,
    /// Batches rewritten to make all copies equal.
    pub equalised: u64,
    /// Ranges of the log that were lost.
    pub damage: Vec<Damage>,
}

impl Engine {
    /// Recovers a pool and starts it.
    ///
    /// # Errors
    /// [`RecoverError`] if what the newest checkpoint needs cannot be read.
    pub fn open(
        seats: Seats,
        geometry: Geometry,
        config: Config,
        identity: Identity,
    ) -> Flow<'static, Result<(Self, RecoveryReport), RecoverError>> {
        Box::pin(
            async move { Self::open_watched(seats, geometry, config, identity, &|_| ()).await },
        )
    }

    /// [`Engine::open`] that tells when each of its phases has ended.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_watched(
        seats: Seats,
        geometry: Geometry,
        config: Config,
        identity: Identity,
        ended: &dyn Fn(StartPhase),
    ) -> Flow<'_, Result<(Self, RecoveryReport), RecoverError>> {
        Box::pin(async move {
            let (engine, body, place, walks) =
                Self::begin(seats, geometry, config, identity, ended).await?;
            match engine.recover(&body, place, walks, ended).await {
                Ok(report) => Ok((engine, report)),
                Err(error) => Err(engine.why(error)),
            }
        })
    }

    /// Does what a start does before it writes anything, and lets go of it: what fails here would fail the
    /// start.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn rehearse(
        seats: Seats,
        geometry: Geometry,
        config: Config,
        identity: Identity,
    ) -> Flow<'static, Result<(), RecoverError>> {
        Box::pin(async move {
            let (engine, body, place, walks) =
                Self::begin(seats, geometry, config, identity, &|_| ()).await?;
            let loaded = engine.load(&body, place, &walks).await;
            loaded.map_err(|error| engine.why(error))
        })
    }

    /// Reads the newest commit and what lies behind it; writes nothing.
    async fn begin(
        seats: Seats,
        geometry: Geometry,
        config: Config,
        identity: Identity,
        ended: &dyn Fn(StartPhase),
    ) -> Result<(Self, CommitBody, CommitPlace, Vec<LaneWalk>), RecoverError> {
        let scan = Scan::read(&*seats.fast, &geometry, &config, identity).await;
        let (body, place) = scan.newest_commit(&*seats.fast).await?;
        ended(StartPhase::Scan);
        let mut walks = Vec::new();
        let room = redo_bytes(&config) / body.lanes.len().max(1);
        for position in &body.lanes {
            let lane = scan.lane(body.epoch, position.lane);
            let ahead = Ahead::new(&seats.world, &seats.fast);
            let walk = LaneWalk::follow(&*seats.fast, &scan, position, &lane, ahead, room);
            walks.push(walk.await);
        }
        ended(StartPhase::Walk);
        let next = first_lsn(&scan, &body, &walks);
        let engine = Self::assemble(seats, geometry, config, identity, next).await?;
        Ok((engine, body, place, walks))
    }

    /// Why a start failed: of an engine that stopped, what stopped it.
    fn why(&self, error: RecoverError) -> RecoverError {
        let stopped = RecoverError::Engine(EngineError::Stopped);
        match self.stop_reason() {
            Some(StopReason::Log(why) | StopReason::Flush(why)) if error == stopped => {
                RecoverError::Engine(EngineError::Io(why))
            }
            _ => error,
        }
    }

    async fn flush_fast(&self) -> Result<(), RecoverError> {
        let flushed = self.shared.fast.flush().await;
        flushed.map_err(|why| RecoverError::Engine(EngineError::Io(why)))
    }

    /// Loads what the newest checkpoint says, redoes what came behind it, and serves.
    async fn recover(
        &self,
        body: &CommitBody,
        place: CommitPlace,
        mut walks: Vec<LaneWalk>,
        ended: &dyn Fn(StartPhase),
    ) -> Result<RecoveryReport, RecoverError> {
        self.load(body, place, &walks).await?;
        ended(StartPhase::Load);
        let stopped = RecoverError::Engine(EngineError::Stopped);
        let mut report = RecoveryReport {
            checkpoint: body.checkpoint,
            ..Default::default()
        };
        // A process that was killed may have left the commit in caches alone: if power failed now the one before it
        // would count, and what follows is written over what only that one refers to.
        self.flush_fast().await?;
        // It may be on one copy alone: the same, if power failed and took that copy along.
        for walk in &walks {
            report.equalised += self.equalise(walk).await?;
        }
        if report.equalised > 0 {
            self.flush_fast().await?;
        }
        // Merges ask it: places of volumes that this checkpoint knows as deleted may be others'.
        self.shared.share_catalogue().await.map_err(|_| stopped)?;
        self.run().await?;
        let passed_over = self.is_short().then_some(body.bits_stamp);
        for walk in &mut walks {
            self.redo(walk, &mut report, passed_over).await?;
            report.damage.extend(&walk.damage);
        }
        ended(StartPhase::Redo);
        self.count_leaves().await.map_err(|_| stopped)?;
        self.shared.resume_open_groups();
        self.empty_dead_chunks(&walks);
        self.shared.share_catalogue().await.map_err(|_| stopped)?;
        self.shared.take_checkpoint().await.map_err(|_| stopped)?;
        self.serve();
        self.resume_deletes();
        ended(StartPhase::Commit);
        Ok(report)
    }
}

/// Memory for the records of all lanes between walk and redo: an eighth of what the delta nodes take,
/// which are there for the same records. Beside it stands only what was not flushed.
const fn redo_bytes(config: &Config) -> usize {
    config.map.delta_nodes * DELTA_NODE_BYTES / 8 * config.owners() as usize
}

/// An LSN above every one that was ever handed out.
fn first_lsn(scan: &Scan, body: &CommitBody, walks: &[LaneWalk]) -> Lsn {
    let cuts = body.cuts.iter().copied();
    let positions = body.lanes.iter().map(|position| position.first_lsn);
    let found = walks.iter().map(|walk| walk.last_lsn);
    let highest = cuts.chain(positions).chain(found).chain(scan.lsns()).max();
    highest.unwrap_or(Lsn::ZERO).plus(LSN_GAP)
}
