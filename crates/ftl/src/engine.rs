//! The engine as its owner sees it: volumes, reads, writes, flushes, status.
//!
//! A command across leaves becomes one record per leaf, perhaps in several lanes; it is
//! acknowledged when all of them are. What is atomic is the record (design.md 4.10).

use crate::config::{Canary, Config};
use crate::control::Control;
use crate::error::{EngineError, StopReason};
use crate::gate::HostRead;
use crate::geometry::{Geometry, Tier};
use crate::lane::{Appended, Lane, Stopped};
use crate::map::Map;
use crate::shard::Shard;
use crate::shared::{Identity, Shared};
use crate::units::{UnitState, UnitTable};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ops::Range;
use varve_format::{Crcs, Record, block_crc};
use varve_io::{Blocks, Drive, Receiver, World};
use varve_units::{LEAF_BLOCKS, Lba, LeafIndex, Lsn, SliceId, VolumeId};

/// Delta nodes a discard of one slice can need: its first and its last leaf are partly covered.
const DISCARD_NODES: usize = 2;

/// What an engine runs on.
pub struct Seats {
    /// Clock and tasks.
    pub world: Rc<dyn World>,
    /// The fast tier.
    pub fast: Rc<dyn Drive>,
    /// The dense tier, if the pool has one.
    pub dense: Option<Rc<dyn Drive>>,
}

/// A running engine.
pub struct Engine {
    pub(crate) shared: Rc<Shared>,
    closing: Cell<bool>,
}

impl Engine {
    /// The parts of an engine, not yet running: shards with lanes that begin at `first_lsn`.
    pub(crate) fn assemble(
        seats: Seats,
        geometry: Geometry,
        config: Config,
        identity: Identity,
        first_lsn: Lsn,
    ) -> Self {
        let (reserve, map) = (config.reserve, config.map);
        reserve.assert_holds(&geometry);
        let nodes = (map.leaves_max * 4).div_ceil(3);
        assert!(
            map.leaves_max as u64 <= reserve.leaves_max,
            "the leaf cap holds"
        );
        assert!(
            map.delta_nodes >= nodes,
            "the delta pool has four deltas for each leaf"
        );
        let units = UnitTable::new(geometry);
        let shared = Shared::new(
            seats.world,
            seats.fast,
            seats.dense,
            units,
            config,
            identity,
        );
        let shards: Vec<Rc<Shard>> = (0..config.lanes)
            .map(|index| {
                let lane = Lane::new(
                    varve_units::LaneId(index),
                    identity,
                    geometry,
                    config.lane,
                    first_lsn,
                );
                let mut map = Map::new(config.map, geometry.slices);
                for slice in (index..geometry.slices).step_by(usize::from(config.lanes)) {
                    map.add_slice(SliceId(slice));
                }
                Shard::new(Rc::clone(&shared), lane, map)
            })
            .collect();
        shared.attach(shards, Rc::new(Control::default()));
        Self {
            shared,
            closing: Cell::new(false),
        }
    }

    /// Starts the flows that run for the engine's whole life.
    pub(crate) fn run(&self) {
        let shared = &self.shared;
        for shard in shared.shards() {
            shared.spawn(Rc::clone(&shard).run_pump());
            shared.spawn(Rc::clone(&shard).run_merger());
            shared.spawn(shard.run_clearer());
        }
        shared.spawn(Rc::clone(shared).run_flusher());
    }

    /// Starts what changes units: checkpoints, cleaning, compaction, garbage collection. After
    /// recovery only.
    pub(crate) fn serve(&self) {
        let shared = &self.shared;
        shared.spawn(Rc::clone(shared).run_checkpointer());
        shared.spawn(Rc::clone(shared).run_cleaner());
        shared.spawn(Rc::clone(shared).run_gate());
        if shared.dense.is_some() {
            shared.spawn(Rc::clone(shared).run_gc());
        }
    }

    /// A new, empty pool. Returns once its first checkpoint has committed. O(1): what the drives
    /// held before is of another epoch or pool.
    ///
    /// # Errors
    /// [`EngineError::Stopped`] if the log could not be written.
    pub async fn create(
        seats: Seats,
        geometry: Geometry,
        config: Config,
        identity: Identity,
    ) -> Result<Self, EngineError> {
        let engine = Self::assemble(seats, geometry, config, identity, Lsn(1));
        let shared = &engine.shared;
        for tier in [Tier::Fast, Tier::Dense] {
            shared
                .units
                .ids(tier)
                .for_each(|unit| shared.control().add_free(unit));
        }
        engine.run();
        shared
            .take_checkpoint()
            .await
            .map_err(|Stopped| EngineError::Stopped)?;
        engine.serve();
        Ok(engine)
    }

    /// Reads blocks.
    ///
    /// # Errors
    /// Unknown volume, range beyond its end, a lost block, a stopped engine.
    pub async fn read(
        &self,
        volume: VolumeId,
        lba: Lba,
        mut into: Blocks,
    ) -> Result<Blocks, EngineError> {
        let count = into.len() as u64;
        let _entered = self.enter(volume, lba, count)?;
        let _reading = HostRead::begin(&self.shared);
        let mut at = 0;
        for piece in pieces(lba, count) {
            let owner = self.owner(volume, piece.lba);
            owner
                .read(volume, piece.lba, piece.count, &mut into, at)
                .await?;
            at += piece.count;
        }
        Ok(into)
    }

    /// Writes blocks. Durable when this returns if `fua` is set or the fast tier has no volatile
    /// cache; else at the next [`Engine::flush`].
    ///
    /// # Errors
    /// Unknown volume, range beyond its end, no room for new blocks, a stopped engine.
    pub async fn write(
        &self,
        volume: VolumeId,
        lba: Lba,
        data: Blocks,
        fua: bool,
    ) -> Result<(), EngineError> {
        let count = data.len() as u64;
        let _entered = self.enter(volume, lba, count)?;
        self.check_capacity(volume, lba, count).await?;
        // Counted before any wait: who asks meanwhile must see it.
        let pending = &self.shared.pending_blocks;
        pending.set(pending.get() + count);
        let reserved = self.reserve_leaves(volume, lba, count).await;
        let new_leaves = reserved.inspect_err(|_| pending.set(pending.get() - count))?;
        let data = Rc::new(data);
        let most = self.shared.config.lane.batch_blocks_max as usize;
        let blocks = data.len();
        if blocks <= most && lba.index() + blocks <= LEAF_BLOCKS as usize {
            let appended = self.append_put(volume, lba, &data, 0..blocks, &new_leaves);
            appended
                .await?
                .await
                .map_err(|Stopped| EngineError::Stopped)?;
            return if fua { self.flush().await } else { Ok(()) };
        }
        let mut waiting = Vec::new();
        let mut at = 0;
        for piece in pieces(lba, count) {
            let mut done = 0;
            while done < piece.count {
                let length = (piece.count - done).min(most);
                let range = at + done..at + done + length;
                let lba = Lba(piece.lba.0 + done as u64);
                // Only the first record of a leaf makes it.
                let new = if done == 0 { &new_leaves[..] } else { &[] };
                waiting.push(self.append_put(volume, lba, &data, range, new).await?);
                done += length;
            }
            at += piece.count;
        }
        self.acknowledged(waiting, fua).await
    }

    /// Queues one record of a write: the blocks `range` of `data`, all in one leaf, from `lba` on.
    async fn append_put(
        &self,
        volume: VolumeId,
        lba: Lba,
        data: &Rc<Blocks>,
        range: Range<usize>,
        new_leaves: &[LeafIndex],
    ) -> Result<Receiver<Result<Appended, Stopped>>, EngineError> {
        let crcs = range.clone().map(|index| block_crc(data.block(index)));
        let record = Record::Put {
            volume,
            lba,
            class: 0,
            crcs: crcs.collect::<Crcs>(),
        };
        let blocks = range.len();
        self.shared
            .pass_gate(self.shared.tenant_of(volume), blocks as u64)
            .await?;
        // Three deltas to a node, and one node for the chain's last.
        let nodes = blocks.div_ceil(3) + 1;
        let pending = (blocks as u64, new_leaves.contains(&lba.leaf()));
        let payload = Some((Rc::clone(data), range));
        let owner = self.owner(volume, lba);
        Ok(owner.append(record, payload, nodes, pending).await)
    }

    /// Waits for records, and for a flush if they must be durable.
    async fn acknowledged(
        &self,
        waiting: Vec<Receiver<Result<Appended, Stopped>>>,
        durable: bool,
    ) -> Result<(), EngineError> {
        for receiver in waiting {
            receiver.await.map_err(|Stopped| EngineError::Stopped)?;
        }
        if durable { self.flush().await } else { Ok(()) }
    }

    /// Deallocates blocks: they read as zeroes from completion on, durably so from the next
    /// flush on. Works on a full pool.
    ///
    /// # Errors
    /// Unknown volume, range beyond its end, a stopped engine.
    pub async fn discard(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
    ) -> Result<(), EngineError> {
        let _entered = self.enter(volume, lba, blocks)?;
        if self.shared.config.is_planted(Canary::DiscardNotLogged) {
            return self.discard_unlogged(volume, lba, blocks);
        }
        let waiting = self.append_discard(volume, lba, blocks, false).await;
        self.acknowledged(waiting, false).await
    }

    /// Writes zeroes without taking space.
    ///
    /// # Errors
    /// Unknown volume, range beyond its end, a stopped engine.
    pub async fn write_zeroes(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
        fua: bool,
    ) -> Result<(), EngineError> {
        let _entered = self.enter(volume, lba, blocks)?;
        let waiting = self.append_discard(volume, lba, blocks, true).await;
        self.acknowledged(waiting, fua).await
    }

    /// One record per slice that owns a leaf of the range.
    pub(crate) async fn append_discard(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
        zero: bool,
    ) -> Vec<Receiver<Result<Appended, Stopped>>> {
        let mut waiting = Vec::new();
        for slice in self.slices_of(volume, lba, blocks) {
            let record = Record::Discard {
                slice,
                volume,
                lba,
                blocks,
                zero,
            };
            let owner = self.shared.owner(slice);
            waiting.push(owner.append(record, None, DISCARD_NODES, (0, false)).await);
        }
        waiting
    }

    /// The planted bug: the map changes, the log does not.
    fn discard_unlogged(&self, volume: VolumeId, lba: Lba, blocks: u64) -> Result<(), EngineError> {
        let mut dead = Vec::new();
        for slice in self.slices_of(volume, lba, blocks) {
            let owner = self.shared.owner(slice);
            let lsn = owner.map.borrow().applied(slice);
            owner.apply_discard(slice, volume, lba, blocks, false, lsn, &mut dead);
            owner.bury(&mut dead);
        }
        Ok(())
    }

    fn slices_of(&self, volume: VolumeId, lba: Lba, blocks: u64) -> Vec<SliceId> {
        if blocks == 0 {
            return Vec::new();
        }
        let geometry = self.shared.units.geometry();
        let first = lba.leaf().0;
        let last = Lba(lba.0 + blocks - 1).leaf().0;
        let end = last.min(first + u64::from(geometry.slices) - 1);
        (first..=end)
            .map(|leaf| geometry.slice_of(volume, varve_units::LeafIndex(leaf)))
            .collect()
    }

    /// Everything acknowledged before this call is durable when it returns.
    ///
    /// # Errors
    /// The fast tier's, which stops the engine.
    pub async fn flush(&self) -> Result<(), EngineError> {
        self.shared.flush_log().await.map_err(EngineError::Io)
    }

    /// Cleanly stops the engine: waits for the operations in flight and commits a checkpoint.
    /// Cleaner and garbage collection may go on meanwhile: what they append behind the checkpoint
    /// is redone.
    ///
    /// # Errors
    /// [`EngineError::Stopped`] if it had stopped already.
    pub async fn close(&self) -> Result<(), EngineError> {
        self.closing.set(true);
        let inflight = self.shared.volumes.borrow().inflight();
        for operations in inflight {
            operations.drained().await;
        }
        let _turn = self.shared.catalogue_turn.take().await;
        let control = self.shared.control();
        let before = control.checkpoint.get();
        control.ask_checkpoint();
        // The one that is running may have begun before the last records.
        while control.checkpoint.get() < before + 2 {
            if self.shared.is_stopped() {
                return Err(EngineError::Stopped);
            }
            control.ask_exact_checkpoint();
            control.committed.listen().await;
        }
        self.shared.stop(StopReason::Closed);
        Ok(())
    }

    /// What hosts may not use, and what is left for them.
    #[must_use]
    pub fn reserve(&self) -> &crate::reserve::Reserve {
        &self.shared.config.reserve
    }

    /// True if completed writes can be lost with the power before a flush.
    #[must_use]
    pub fn is_volatile(&self) -> bool {
        self.shared.fast.info().volatile_cache
    }

    /// Why the engine stopped, if it did.
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.shared.stop_reason()
    }

    /// Chunks or groups that may hold something: ranges of their numbers, in order. Whatever is
    /// free now will be written before it is read.
    #[must_use]
    pub fn used_units(&self, tier: Tier) -> Vec<Range<u32>> {
        let units = &self.shared.units;
        let mut used: Vec<Range<u32>> = Vec::new();
        for id in units.ids(tier) {
            if units.unit(id).state() == UnitState::Free {
                continue;
            }
            match used.last_mut() {
                Some(last) if last.end == id.index => last.end += 1,
                _ => used.push(id.index..id.index + 1),
            }
        }
        used
    }

    /// Counters since the start.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        self.shared.counters()
    }

    fn enter(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
    ) -> Result<crate::volumes::Entered, EngineError> {
        if self.shared.is_stopped() || self.closing.get() {
            return Err(EngineError::Stopped);
        }
        self.shared.volumes.borrow().enter(volume, lba, blocks)
    }

    fn owner(&self, volume: VolumeId, lba: Lba) -> Rc<Shard> {
        self.shared
            .owner(self.shared.units.geometry().slice_of(volume, lba.leaf()))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.abandon();
    }
}

/// Part of a command that lies in one leaf.
pub(crate) struct Piece {
    pub(crate) lba: Lba,
    pub(crate) count: usize,
}

/// Cuts a range at leaf boundaries.
pub(crate) fn pieces(lba: Lba, count: u64) -> impl Iterator<Item = Piece> {
    let mut at = lba.0;
    let end = lba.0 + count;
    core::iter::from_fn(move || {
        (at < end).then(|| {
            let next = (at / LEAF_BLOCKS + 1) * LEAF_BLOCKS;
            let piece = Piece {
                lba: Lba(at),
                count: (end.min(next) - at) as usize,
            };
            at += piece.count as u64;
            piece
        })
    })
}
