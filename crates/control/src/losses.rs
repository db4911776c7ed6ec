//! Which blocks of a pool's volumes cannot be read, by the names of the volumes.
//!
//! The engine's audit ends at the first thing that no copy can mend. This goes on from there: every leaf of
//! every volume is read as a host would read it, and of those that fail each block.
//!
//! **Invariant**: only for pools whose leaves the audit has read. Reading a block of a leaf that no copy
//! holds makes the engine give the whole leaf up, and a check decides nothing for its user.
//!
//! **Not here**: why a block cannot be read, and what else may be wrong (`ftl`'s audit).

use crate::running::Running;
use serde::{Deserialize, Serialize};
use std::fmt;
use varve_format::CatalogueEntry;
use varve_ftl::{AuditError, EngineError};
use varve_io::World;
use varve_pool::ScrubLoss;
use varve_units::{BLOCK_BYTES, LEAF_BLOCKS, Lba, LeafIndex, VolumeId};

/// Losses that are named; of more than these only the number is told. Arbitrary.
const LOSSES_MAX: usize = 100;
/// Leaves without a stored image that are read: they hold nothing, or what was written last. Arbitrary:
/// 2 TiB of a thin volume, some minutes.
const BLANK_LEAVES_MAX: u64 = 1 << 20;
/// Leaves looked at without a pause.
const LEAVES_A_TURN: u64 = 1 << 12;

/// Neighbouring blocks of a volume that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Loss {
    /// The volume.
    pub volume: String,
    /// First block, of 4096 bytes.
    pub lba: u64,
    /// Blocks.
    pub blocks: u64,
    /// Where they begin in the volume, in bytes.
    pub offset_bytes: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

impl Loss {
    fn new(volume: &CatalogueEntry, lba: Lba, blocks: u64) -> Self {
        Self {
            volume: volume.name.as_str().to_owned(),
            lba: lba.0,
            blocks,
            offset_bytes: lba.0 * BLOCK_BYTES,
            bytes: blocks * BLOCK_BYTES,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            volume,
            lba,
            offset_bytes,
            bytes,
            ..
        } = self;
        write!(
            f,
            "volume {volume}: {bytes} bytes from byte {offset_bytes} on (lba {lba})"
        )
    }
}

/// What reading everything showed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Losses {
    /// The first of them, by volume and block.
    pub(crate) named: Vec<Loss>,
    /// How many there are.
    pub(crate) ranges: u64,
    /// Blocks in all of them.
    pub(crate) blocks: u64,
    /// True if there may be others.
    pub(crate) is_partial: bool,
    /// The volume and the block behind the last loss.
    end: Option<(VolumeId, Lba)>,
}

impl Losses {
    /// What an audit that failed lets be told: all losses, or the one that it found.
    pub(crate) async fn after(error: &AuditError, world: &dyn World, running: &Running) -> Self {
        if are_leaves_read(error) {
            return Self::find(world, running).await;
        }
        let mut losses = Self {
            is_partial: true,
            ..Self::default()
        };
        if let AuditError::LeafUnreadable { volume, leaf, .. } = error
            && let Some(volume) = named(running, *volume)
        {
            let blocks = leaf_blocks(&volume, *leaf);
            losses.add(&volume, leaf.first(), blocks);
        }
        losses
    }

    /// Reads everything.
    pub(crate) async fn find(world: &dyn World, running: &Running) -> Self {
        let mut losses = Self::default();
        if losses.read_all(world, running).await.is_err() {
            losses.is_partial = true;
        }
        losses
    }

    /// What a scrub found, in the order of volumes and blocks. Of volumes that are gone nothing is told.
    pub(crate) fn of_scrub(lost: &[ScrubLoss], running: &Running) -> Self {
        let (mut losses, mut lost) = (Self::default(), lost.to_vec());
        lost.sort_unstable();
        for one in lost {
            if let Some(volume) = named(running, one.volume) {
                let left = volume.size.0.saturating_sub(one.lba.0);
                losses.add(&volume, one.lba, one.blocks.min(left));
            }
        }
        losses
    }

    async fn read_all(&mut self, world: &dyn World, running: &Running) -> Result<(), EngineError> {
        let engine = running.pool.engine();
        let usage = engine.usage().await?;
        let mut blank = 0;
        let used = |volume: &CatalogueEntry| usage.contains_key(&volume.id);
        for volume in engine.volumes().into_iter().filter(used) {
            for leaf in 0..volume.size.0.div_ceil(LEAF_BLOCKS) {
                if leaf % LEAVES_A_TURN == 0 {
                    world.yield_now().await;
                }
                let leaf = LeafIndex(leaf);
                if engine.stored_leaf(volume.id, leaf).is_none() {
                    blank += 1;
                    if blank > BLANK_LEAVES_MAX {
                        self.is_partial = true;
                        continue;
                    }
                }
                self.read_leaf(world, running, &volume, leaf).await?;
            }
        }
        Ok(())
    }

    /// Reads a leaf; what fails is read once more in halves, so that one block costs few reads.
    async fn read_leaf(
        &mut self,
        world: &dyn World,
        running: &Running,
        volume: &CatalogueEntry,
        leaf: LeafIndex,
    ) -> Result<(), EngineError> {
        let engine = running.pool.engine();
        let mut todo = vec![(leaf.first(), leaf_blocks(volume, leaf))];
        while let Some((lba, blocks)) = todo.pop() {
            let memory = world.blocks(blocks as usize, false);
            match engine.read(volume.id, lba, memory).await {
                Ok(_) => {}
                Err(EngineError::Lost(..) | EngineError::Io(_)) if blocks == 1 => {
                    self.add(volume, lba, 1);
                }
                Err(EngineError::Lost(..) | EngineError::Io(_)) => {
                    let half = blocks / 2;
                    todo.push((Lba(lba.0 + half), blocks - half));
                    todo.push((lba, half));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Notes blocks that cannot be read; they come in the order of volumes and blocks.
    fn add(&mut self, volume: &CatalogueEntry, lba: Lba, blocks: u64) {
        let is_next = self.end == Some((volume.id, lba));
        self.blocks += blocks;
        self.end = Some((volume.id, Lba(lba.0 + blocks)));
        if !is_next {
            self.ranges += 1;
            if self.named.len() < LOSSES_MAX {
                self.named.push(Loss::new(volume, lba, blocks));
            }
        } else if self.ranges == self.named.len() as u64
            && let Some(last) = self.named.last_mut()
        {
            *last = Loss::new(volume, Lba(last.lba), last.blocks + blocks);
        }
    }
}

/// What an audit found broken, with the volume's name where it is about one.
pub(crate) fn told(error: &AuditError, running: &Running) -> String {
    let place = place(error).and_then(|(volume, lba)| Some((named(running, volume)?, lba)));
    match place {
        Some((volume, lba)) => {
            let (name, byte) = (volume.name.as_str(), lba.0 * BLOCK_BYTES);
            format!("volume {name}, byte {byte}: {error}")
        }
        None => error.to_string(),
    }
}

fn named(running: &Running, id: VolumeId) -> Option<CatalogueEntry> {
    let volumes = running.pool.engine().volumes().into_iter();
    volumes.into_iter().find(|volume| volume.id == id)
}

/// Blocks of a leaf, which the end of the volume may cut.
fn leaf_blocks(volume: &CatalogueEntry, leaf: LeafIndex) -> u64 {
    LEAF_BLOCKS.min(volume.size.0.saturating_sub(leaf.first().0))
}

/// True if the audit had read all leaves, and found no contradiction in what they say, before it failed.
const fn are_leaves_read(error: &AuditError) -> bool {
    matches!(
        error,
        AuditError::BlockUnreadable { .. }
            | AuditError::P2lUnreadable { .. }
            | AuditError::PlaceInP2lArea { .. }
            | AuditError::P2lDisagrees { .. }
            | AuditError::PartUnreadable { .. }
    )
}

/// The block that a broken invariant is about, if it is about one.
const fn place(error: &AuditError) -> Option<(VolumeId, Lba)> {
    match error {
        AuditError::BlockUnreadable { at, .. }
        | AuditError::PlaceNotInUse { at, .. }
        | AuditError::LiveBitClear { at, .. }
        | AuditError::PlaceBeyondPointer { at, .. }
        | AuditError::ReferenceOlderThanStamp { at, .. }
        | AuditError::PlaceShared { at, .. }
        | AuditError::P2lUnreadable { at, .. }
        | AuditError::PlaceInP2lArea { at, .. }
        | AuditError::P2lDisagrees { at, .. } => Some((at.volume, at.lba)),
        AuditError::NoSuchPlace { volume, lba, .. }
        | AuditError::CacheDisagrees { volume, lba, .. } => Some((*volume, *lba)),
        AuditError::LeafUnreadable { volume, leaf, .. }
        | AuditError::LeafNotInUse { volume, leaf, .. }
        | AuditError::LeafBeyondPointer { volume, leaf, .. } => Some((*volume, leaf.first())),
        _ => None,
    }
}
