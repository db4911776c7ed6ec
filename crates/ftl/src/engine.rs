//! The engine as its owner sees it: volumes, reads, writes, flushes, status.
//!
//! A command across leaves becomes one record per leaf, perhaps in several lanes; it is
//! acknowledged when all of them are. What is atomic is the record (design.md 4.10).

use crate::admission::Aside;
use crate::config::{Canary, Config};
use crate::control::Control;
use crate::discards::DISCARDS_AT_ONCE;
use crate::error::{EngineError, StopReason};
use crate::gate::HostRead;
use crate::geometry::{Geometry, Tier};
use crate::host::Hole;
use crate::lane::Lane;
use crate::load::Stopped;
use crate::map::{LeafKey, Map};
use crate::posts::Common;
use crate::recall::Recall;
use crate::shard::Shard;
use crate::shared::{FIRST, Identity, Seated, Shared};
use crate::units::{UnitState, UnitTable};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering;
use varve_format::{Crcs, block_crc};
use varve_io::{Blocks, Drive, Flow, Key, ReactorId, World};
use varve_units::{LEAF_BLOCKS, LaneId, Lba, Lsn, PLANTS_BUGS, SliceId, VolumeId};

/// What one reactor's part of an engine runs on.
pub struct Seats {
    /// Clock and tasks.
    pub world: Rc<dyn World>,
    /// The fast tier.
    pub fast: Rc<dyn Drive>,
    /// The dense tier, if the pool has one.
    pub dense: Option<Rc<dyn Drive>>,
}

impl Seats {
    /// Offers these seats, of a reactor other than the first, to the engine of pool `pool`, which
    /// takes them when it is started on the first reactor. All reactors' drives lead to the same
    /// content.
    ///
    /// # Panics
    /// If the reactor has no peers.
    pub fn offer(self, pool: Key) {
        let world = Rc::clone(&self.world);
        let desk = world.desk().expect("a reactor with peers has a desk");
        desk.keep(pool, Rc::new(self));
    }
}

/// A running engine, as one reactor has it.
pub struct Engine {
    pub(crate) shared: Rc<Shared>,
    /// The one that was started: with it the engine goes.
    is_origin: bool,
}

impl Engine {
    /// The parts of an engine, not yet running: shards with lanes that begin at `first_lsn`, one on
    /// each reactor.
    pub(crate) async fn assemble(
        seats: Seats,
        geometry: Geometry,
        config: Config,
        identity: Identity,
        first_lsn: Lsn,
    ) -> Result<Self, EngineError> {
        assert_eq!(
            seats.world.reactor(),
            FIRST,
            "an engine starts on the first reactor"
        );
        assert!(
            config.lanes <= seats.world.reactors(),
            "each lane has a reactor"
        );
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
        let changes = geometry.record_changes_max(config.lane.batch_blocks_max);
        assert!(
            map.delta_nodes as u64 >= changes,
            "redo has a delta node for each change of a record"
        );
        assert!(
            config.lane.batch_blocks_max * 2 <= u64::from(geometry.chunk_blocks()),
            "every batch fits a chunk, with its header"
        );
        let units = UnitTable::new(geometry).shared_by(config.lanes);
        let common = Arc::new(Common::new(units, config, identity, first_lsn));
        let world = Rc::clone(&seats.world);
        let shared = sit_down(&seats, Arc::clone(&common), first_lsn);
        let engine = Self {
            shared,
            is_origin: true,
        };
        for to in common.reactors().filter(|to| *to != FIRST) {
            let common = Arc::clone(&common);
            let sit = move |seats: Rc<Seats>| async move {
                if let Some(desk) = seats.world.desk() {
                    desk.forget(identity.pool);
                }
                sit_down(&seats, common, first_lsn);
            };
            let seated = world.call(to, identity.pool, sit).await;
            seated.map_err(|_| EngineError::NotSeated(to))?;
        }
        Ok(engine)
    }

    /// This run of the engine as the reactor of `world` has it. `None` if it does not run there.
    #[must_use]
    pub fn at(world: &dyn World, identity: Identity) -> Option<Self> {
        let seated = world.desk()?.kept::<Seated>(identity.key())?;
        Some(Self {
            shared: Rc::clone(&seated.0),
            is_origin: false,
        })
    }

    /// Starts the flows that run for the engine's whole life.
    pub(crate) async fn run(&self) -> Result<(), EngineError> {
        for to in self.shared.reactors() {
            let run = |there: Rc<Shared>| async move {
                let shard = there.shard();
                there.spawn(Rc::clone(&shard).run_pump());
                there.spawn(Rc::clone(&shard).run_merger());
                there.spawn(shard.run_clearer());
                there.spawn(Rc::clone(&there).run_flusher());
                for peer in there.reactors().filter(|peer| *peer != there.reactor) {
                    there.spawn(Rc::clone(&there).run_courier(peer));
                }
            };
            let started = self.shared.call(to, run).await;
            started.map_err(|Stopped| EngineError::Stopped)?;
        }
        Ok(())
    }

    /// Starts what changes units: checkpoints, cleaning, compaction, garbage collection. After
    /// recovery only.
    pub(crate) fn serve(&self) {
        let shared = &self.shared;
        shared.is_serving.store(true, Ordering::SeqCst);
        for to in shared.reactors() {
            shared.tell(to, |there| there.shard().map.borrow_mut().keep_limit());
        }
        shared.spawn(Rc::clone(shared).run_checkpointer());
        shared.spawn(Rc::clone(shared).run_cleaner());
        shared.end_idle();
        for to in shared.reactors() {
            shared.tell(to, |there| there.spawn(Rc::clone(there).run_gate()));
        }
        if shared.dense.is_some() {
            shared.spawn(Rc::clone(shared).run_gc());
            for _ in 0..DISCARDS_AT_ONCE {
                shared.spawn(Rc::clone(shared).run_discards());
            }
        }
    }

    /// A new, empty pool. Returns once its first checkpoint has committed. O(1): what the drives
    /// held before is of another epoch or pool.
    ///
    /// # Errors
    /// [`EngineError::Stopped`] if the log could not be written.
    pub fn create(
        seats: Seats,
        geometry: Geometry,
        config: Config,
        identity: Identity,
    ) -> Flow<'static, Result<Self, EngineError>> {
        Box::pin(async move {
            let engine = Self::assemble(seats, geometry, config, identity, Lsn(1)).await?;
            let shared = &engine.shared;
            for tier in [Tier::Fast, Tier::Dense] {
                shared
                    .units
                    .ids(tier)
                    .for_each(|unit| shared.control().add_free(unit));
            }
            stopped(engine.count_leaves().await)?;
            engine.run().await?;
            shared
                .take_checkpoint()
                .await
                .map_err(|Stopped| EngineError::Stopped)?;
            engine.serve();
            Ok(engine)
        })
    }

    /// Reads blocks.
    ///
    /// # Errors
    /// Unknown volume, range beyond its end, a lost block, a stopped engine; [`EngineError::Io`] with
    /// `Gone` or `Timeout` if a copy does not answer now: nothing is lost, the read may be tried again.
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
            if owner == self.shared.reactor {
                let shard = self.shared.shard();
                shard
                    .read(volume, piece.lba, piece.count, &mut into, at)
                    .await?;
            } else if piece.count == into.len() {
                let shared = &self.shared;
                into = shared.read_there(owner, volume, piece.lba, into).await?;
            } else {
                let part = self.shared.world.blocks(piece.count, into.is_elided());
                let shared = &self.shared;
                let part = shared.read_there(owner, volume, piece.lba, part).await?;
                into.copy_from(at, &part, 0, piece.count);
            }
            at += piece.count;
        }
        Ok(into)
    }

    /// Writes blocks. Durable when this returns if `fua` is set or the fast tier has no volatile
    /// cache; else at the next [`Engine::flush`].
    ///
    /// # Errors
    /// Unknown volume, range beyond its end, no room for new blocks, none beneath the dense tier, a
    /// stopped engine.
    pub fn write(
        &self,
        volume: VolumeId,
        lba: Lba,
        data: Blocks,
        fua: bool,
    ) -> impl Future<Output = Result<(), EngineError>> {
        self.write_unless(None, volume, lba, Rc::new(data), fua)
    }

    /// [`Engine::write`] of somebody who may be gone before it is in the log, and then does not want it any more. What
    /// another reactor owns is written all the same.
    ///
    /// # Errors
    /// As [`Engine::write`]; [`EngineError::Recalled`] if it was recalled in time: nothing was written then, or of a
    /// write of several leaves only whole leaves.
    pub fn write_for(
        &self,
        recall: &Recall,
        volume: VolumeId,
        lba: Lba,
        data: Blocks,
        fua: bool,
    ) -> impl Future<Output = Result<(), EngineError>> {
        self.write_unless(Some(recall), volume, lba, Rc::new(data), fua)
    }

    /// Blocks are shared from the start: a pointer to them is all that goes from flow to flow.
    async fn write_unless(
        &self,
        recall: Option<&Recall>,
        volume: VolumeId,
        lba: Lba,
        data: Rc<Blocks>,
        fua: bool,
    ) -> Result<(), EngineError> {
        if recall.is_some_and(Recall::is_recalled) {
            self.shared.count("writes_recalled", 1);
            return Err(EngineError::Recalled);
        }
        let count = data.len() as u64;
        let _entered = self.enter(volume, lba, count)?;
        if lba.index() as u64 + count <= LEAF_BLOCKS {
            let owner = self.owner(volume, lba);
            let shared = &self.shared;
            if owner == shared.reactor {
                let shard = shared.shard();
                shard.write(volume, lba, data, recall).await?;
            } else {
                let crcs = checksums(&data, 0..data.len());
                let data = Rc::unwrap_or_clone(data);
                shared.write_there(owner, volume, lba, data, crcs).await?;
            }
        } else {
            // Apart: what is rare must not make the flow of every write larger.
            Box::pin(self.write_leaves(volume, lba, data, recall)).await?;
        }
        if fua {
            Box::pin(self.flush()).await
        } else {
            Ok(())
        }
    }

    /// Writes blocks of several leaves: all of them, or none if there is no room.
    async fn write_leaves(
        &self,
        volume: VolumeId,
        lba: Lba,
        data: Rc<Blocks>,
        recall: Option<&Recall>,
    ) -> Result<(), EngineError> {
        let count = data.len() as u64;
        let makes_leaf = self.set_room_aside(volume, lba, count).await?;
        let mut waiting = Vec::new();
        let mut at = 0;
        for (piece, makes_leaf) in pieces(lba, count).zip(makes_leaf) {
            let range = at..at + piece.count;
            at = range.end;
            let crcs = checksums(&data, range.clone());
            let (shared, data) = (Rc::clone(&self.shared), Rc::clone(&data));
            let owner = self.owner(volume, piece.lba);
            let (lba, recall) = (piece.lba, recall.cloned());
            // Side by side, so that pieces share batches.
            waiting.push(self.shared.world.run(async move {
                if owner == shared.reactor {
                    let payload = (data, range);
                    let (shard, recall) = (shared.shard(), recall.as_ref());
                    let put = shard.put(volume, lba, payload, crcs, makes_leaf, recall);
                    return put.await;
                }
                let part = data.extract(range.start, range.len());
                let put = move |there: Rc<Shared>| async move {
                    let payload = (Rc::new(part), 0..range.len());
                    let shard = there.shard();
                    let put = shard.put(volume, lba, payload, crcs, makes_leaf, None);
                    put.await
                };
                stopped(shared.call(owner, put).await)?
            }));
        }
        let mut outcome = Ok(());
        for piece in waiting {
            outcome = outcome.and(piece.await);
        }
        outcome
    }

    /// Sets room aside for every leaf of a range; tells which of them the write makes. Near the
    /// limit all its blocks are looked up: those that have a place take no room.
    async fn set_room_aside(
        &self,
        volume: VolumeId,
        lba: Lba,
        count: u64,
    ) -> Result<Vec<bool>, EngineError> {
        match self.try_aside(volume, lba, count, false).await {
            Err(EngineError::CapacityExceeded) => self.try_aside(volume, lba, count, true).await,
            outcome => outcome,
        }
    }

    async fn try_aside(
        &self,
        volume: VolumeId,
        first: Lba,
        count: u64,
        exact: bool,
    ) -> Result<Vec<bool>, EngineError> {
        let (mut made, mut sum) = (Vec::new(), Aside::default());
        for piece in pieces(first, count) {
            let (lba, blocks, before) = (piece.lba, piece.count as u64, sum);
            let owner = self.owner(volume, lba);
            let aside = move |there: Rc<Shared>| async move {
                let shard = there.shard();
                shard
                    .set_room_aside(volume, lba, blocks, before, exact)
                    .await
            };
            match stopped(self.shared.call(owner, aside).await)? {
                Ok(aside) => {
                    sum.blocks += aside.blocks;
                    sum.fresh += aside.fresh;
                    made.push(aside.makes_leaf);
                }
                Err(error) => {
                    for (piece, makes_leaf) in pieces(first, count).zip(made) {
                        self.give_room_back(volume, piece, makes_leaf).await;
                    }
                    return Err(error);
                }
            }
        }
        Ok(made)
    }

    async fn give_room_back(&self, volume: VolumeId, piece: Piece, makes_leaf: bool) {
        let (leaf, blocks) = (piece.lba.leaf(), piece.count as u64);
        let key = LeafKey { volume, leaf };
        let owner = self.owner(volume, piece.lba);
        let give = move |there: Rc<Shared>| async move {
            there.shard().give_room_back(key, blocks, makes_leaf);
        };
        // An engine that is gone keeps nothing for anyone.
        let _ = self.shared.call(owner, give).await;
    }

    /// Deallocates blocks: they read as zeroes from completion on, durably so from the next
    /// flush on. Works on a full pool.
    ///
    /// # Errors
    /// Unknown volume, range beyond its end, a stopped engine; no room beneath the dense tier, and as
    /// little in the log.
    pub async fn discard(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
    ) -> Result<(), EngineError> {
        let _entered = self.enter(volume, lba, blocks)?;
        let zero = false;
        self.shared
            .punch(Hole {
                volume,
                lba,
                blocks,
                zero,
                is_resize: false,
            })
            .await
    }

    /// Writes zeroes without taking space.
    ///
    /// # Errors
    /// As [`Engine::discard`].
    pub async fn write_zeroes(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
        fua: bool,
    ) -> Result<(), EngineError> {
        let _entered = self.enter(volume, lba, blocks)?;
        let zero = true;
        let hole = Hole {
            volume,
            lba,
            blocks,
            zero,
            is_resize: false,
        };
        self.shared.punch(hole).await?;
        if fua { self.flush().await } else { Ok(()) }
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
    pub fn close(&self) -> Flow<'_, Result<(), EngineError>> {
        Box::pin(async move {
            self.shared.is_closing.store(true, Ordering::Release);
            for to in self.shared.reactors() {
                let drain = |there: Rc<Shared>| async move {
                    let inflight = there.volumes.borrow().inflight();
                    for operations in inflight {
                        operations.drained().await;
                    }
                };
                stopped(self.shared.call(to, drain).await)?;
            }
            let turn = |first: Rc<Shared>| async move {
                drop(first.catalogue_turn.take().await);
            };
            stopped(self.shared.call(FIRST, turn).await)?;
            // The one that is running may have begun before the last records.
            let twice = |first: Rc<Shared>| async move { first.checkpoints_more(2).await };
            if !stopped(self.shared.call(FIRST, twice).await)? {
                return Err(EngineError::Stopped);
            }
            self.shared.stop(StopReason::Closed);
            Ok(())
        })
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

    /// Stops the engine for a reason that its owner found out, at once; nothing if it is gone by then.
    pub fn stopper(&self) -> impl Fn(StopReason) + use<> {
        let shared = Rc::downgrade(&self.shared);
        move |why| {
            if let Some(shared) = shared.upgrade() {
                shared.stop(why);
            }
        }
    }

    /// Draws stamps as long as anybody wants them: no record that was appended before has one's LSN or a
    /// later one, no chunk that is opened after has an earlier one.
    pub fn stamps(&self) -> impl Fn() -> Lsn + use<> {
        let common = Arc::clone(self.shared.common());
        move || common.draw_stamp()
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

    /// One of them.
    ///
    /// # Panics
    /// If there is none of that name.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.shared.tally.sum(name)
    }

    fn enter(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
    ) -> Result<crate::volumes::Entered, EngineError> {
        if self.shared.is_stopped() || self.shared.is_closing.load(Ordering::Acquire) {
            return Err(EngineError::Stopped);
        }
        self.shared.note_host();
        self.shared.volumes.borrow().enter(volume, lba, blocks)
    }

    fn owner(&self, volume: VolumeId, lba: Lba) -> ReactorId {
        let leaf = lba.leaf();
        self.shared.owner_of_leaf(LeafKey { volume, leaf })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.is_origin {
            self.shared.abandon();
        }
    }
}

/// Makes a reactor's part of an engine, where that reactor is.
fn sit_down(seats: &Seats, common: Arc<Common>, first_lsn: Lsn) -> Rc<Shared> {
    let Seats { world, fast, dense } = seats;
    let (config, identity) = (common.config, common.identity);
    let geometry = *common.units.geometry();
    let shared = Shared::new(common, Rc::clone(world), Rc::clone(fast), dense.clone());
    let index = shared.reactor.0;
    let lane = Lane::new(
        LaneId(index),
        identity,
        geometry,
        config.lane,
        first_lsn,
        world.supply(),
    );
    let mut map = Map::new(config.map, geometry.slices);
    map.set_supply(world.supply());
    if PLANTS_BUGS && config.canary.is_some() {
        map.keep_still();
    }
    map.learn_lifetimes(Arc::clone(&shared.common().lifetimes));
    let slices = (0..geometry.slices).map(SliceId);
    let own = slices.filter(|slice| config.owner_of(*slice) == shared.reactor);
    own.for_each(|slice| map.add_slice(slice));
    let shard = Shard::new(Rc::clone(&shared), lane, map);
    let is_first = shared.reactor == FIRST;
    let control = is_first.then(|| Rc::new(Control::new(Arc::clone(shared.common()))));
    shared.attach(shard, control);
    shared
}

impl Shared {
    /// Deallocates or zeroes a range: one record per slice that owns a leaf of it, each in its
    /// owner's lane.
    pub(crate) async fn punch(self: &Rc<Self>, hole: Hole) -> Result<(), EngineError> {
        let mut by_owner: BTreeMap<ReactorId, Vec<SliceId>> = BTreeMap::new();
        for slice in self.slices_of(hole) {
            let owner = self.owner_of(slice);
            by_owner.entry(owner).or_default().push(slice);
        }
        let is_planted = self.config.is_planted(Canary::DiscardNotLogged) && !hole.zero;
        let punched = by_owner.into_iter().map(|(owner, slices)| {
            let shared = Rc::clone(self);
            self.world.run(async move {
                let punch = move |there: Rc<Self>| async move {
                    let shard = there.shard();
                    if is_planted {
                        shard.punch_unlogged(&slices, hole);
                        return Ok(());
                    }
                    shard.punch(slices, hole).await
                };
                stopped(shared.call(owner, punch).await)?
            })
        });
        let mut outcome = Ok(());
        for done in punched.collect::<Vec<_>>() {
            outcome = outcome.and(done.await);
        }
        outcome
    }

    fn slices_of(&self, hole: Hole) -> Vec<SliceId> {
        if hole.blocks == 0 {
            return Vec::new();
        }
        let geometry = self.units.geometry();
        let first = hole.lba.leaf().0;
        let last = Lba(hole.lba.0 + hole.blocks - 1).leaf().0;
        let end = last.min(first + u64::from(geometry.slices) - 1);
        (first..=end)
            .map(|leaf| geometry.slice_of(hole.volume, varve_units::LeafIndex(leaf)))
            .collect()
    }
}

#[inline]
pub(crate) fn checksums(data: &Blocks, range: Range<usize>) -> Crcs {
    if range.len() == 1 {
        return Crcs::one(block_crc(data.block(range.start)));
    }
    range.map(|index| block_crc(data.block(index))).collect()
}

/// An engine that is gone has stopped.
fn stopped<T>(outcome: Result<T, Stopped>) -> Result<T, EngineError> {
    outcome.map_err(|Stopped| EngineError::Stopped)
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
