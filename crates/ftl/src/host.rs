//! What a shard does for commands of hosts, wherever they came in: each is of one leaf or of
//! slices that this shard owns.

use crate::admission::Aside;
use crate::config::Canary;
use crate::crossing::{Caller, Request};
use crate::engine::checksums;
use crate::error::EngineError;
use crate::gate::Pass;
use crate::lifetime::UNTOLD;
use crate::load::{Appended, Stopped, Ticket};
use crate::map::LeafKey;
use crate::recall::Recall;
use crate::shard::Shard;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;
use varve_format::{Crcs, Record};
use varve_io::{Blocks, Receiver, slot};
use varve_units::{LEAF_BLOCKS, Lba, SliceId, VolumeId};

/// Delta nodes a discard of one slice can need: its first and its last leaf are partly covered.
const DISCARD_NODES: usize = 2;

/// A range of blocks to be deallocated or zeroed.
#[derive(Clone, Copy)]
pub(crate) struct Hole {
    pub(crate) volume: VolumeId,
    pub(crate) lba: Lba,
    pub(crate) blocks: u64,
    pub(crate) zero: bool,
    /// Of a volume that is being resized: it was asked before anything changed whether there is room.
    pub(crate) is_resize: bool,
}

/// Acknowledgements to come.
type Waiting = Receiver<Result<Appended, Stopped>>;

impl Shard {
    /// Writes blocks of one leaf; ends when the write is acknowledged.
    pub(crate) async fn write(
        &self,
        volume: VolumeId,
        lba: Lba,
        data: Rc<Blocks>,
        recall: Option<&Recall>,
    ) -> Result<(), EngineError> {
        let crcs = checksums(&data, 0..data.len());
        if !self.is_short(data.len()) {
            // Apart: what is rare must not make the flow of every write larger.
            return Box::pin(self.write_long(volume, lba, data, crcs, recall)).await;
        }
        let (makes_leaf, passed) = self
            .admit_put((volume, lba), data.len(), None, recall)
            .await?;
        // Most writes wait at the gate, and then once more: in the same place.
        let (sender, acknowledged) = match passed {
            Some(passed) => (passed.renew(), passed),
            None => slot(),
        };
        let ticket = Ticket::Host(sender);
        self.queue_put((volume, lba), data, crcs, makes_leaf, ticket);
        acknowledged.await.map_err(EngineError::from)
    }

    /// True if a write of so many blocks is one record that goes to the log.
    fn is_short(&self, length: usize) -> bool {
        length as u64 <= self.shared.config.lane.batch_blocks_max && !self.shared.may_bypass(length)
    }

    /// Writes blocks of one leaf that may take several records, or pass the log.
    async fn write_long(
        &self,
        volume: VolumeId,
        lba: Lba,
        data: Rc<Blocks>,
        crcs: Crcs,
        recall: Option<&Recall>,
    ) -> Result<(), EngineError> {
        let count = data.len();
        let before = Aside::default();
        let aside = self.set_room_aside(volume, lba, count as u64, before, false);
        let makes_leaf = aside.await?.makes_leaf;
        let payload = (data, 0..count);
        self.put(volume, lba, payload, crcs, makes_leaf, recall)
            .await
    }

    /// Waits until a write that is one record finds room wherever it needs some, and tells whether it makes its leaf:
    /// `aside` is that of one for which blocks were set aside already. What is written stays with the caller, so that it
    /// is not moved from flow to flow. Where it waited at the gate is given back with that, to be used again.
    async fn admit_put(
        &self,
        (volume, lba): (VolumeId, Lba),
        length: usize,
        aside: Option<bool>,
        recall: Option<&Recall>,
    ) -> Result<(bool, Option<Receiver<Pass>>), EngineError> {
        assert_one_leaf(lba, length);
        let leaf = lba.leaf();
        let (blocks, key) = (length as u64, LeafKey { volume, leaf });
        let makes_leaf = match aside {
            Some(makes_leaf) => makes_leaf,
            None if self.reserves_at_once(key, lba, blocks) => false,
            None => {
                let before = Aside::default();
                let aside = self.set_room_aside(volume, lba, blocks, before, false);
                Box::pin(aside).await?.makes_leaf
            }
        };
        let mut passed = self.shared.enter_gate(volume, blocks, recall);
        if let Some(passed) = &mut passed
            && let Err(denied) = passed.await
        {
            self.give_room_back(key, blocks, makes_leaf);
            return Err(denied.into());
        }
        let nodes = nodes_of(length);
        if !self.has_room_now(nodes) {
            Box::pin(self.room_for_puts(nodes)).await;
        }
        Ok((makes_leaf, passed))
    }

    /// Queues a write that is one record and was admitted. Whoever holds the ticket is told when it is acknowledged.
    #[inline(always)]
    fn queue_put(
        &self,
        (volume, lba): (VolumeId, Lba),
        data: Rc<Blocks>,
        crcs: Crcs,
        makes_leaf: bool,
        ticket: Ticket,
    ) {
        let length = data.len();
        let record = Record::Put {
            volume,
            lba,
            class: UNTOLD,
            crcs,
        };
        let (payload, pending) = (Some((data, 0..length)), (length as u64, makes_leaf));
        self.queue_up(record, payload, nodes_of(length), pending, ticket);
    }

    /// Sets room aside for blocks of a leaf that is kept, if there is some now.
    fn reserves_at_once(&self, key: LeafKey, lba: Lba, blocks: u64) -> bool {
        if self.shared.reserve_blocks(blocks, blocks, 0) {
            let is_kept = self.map.borrow().is_kept(key);
            if !is_kept {
                self.shared.unpend_blocks(blocks);
            }
            return is_kept;
        }
        // Overwrites of a pool that is nearly full, mostly: a full leaf is kept, and needs no room.
        if self.map.borrow().is_full(key) {
            self.shared.pend_blocks(blocks);
            return true;
        }
        let is_kept = self.map.borrow().is_kept(key);
        let reserve = || self.try_reserve_blocks(key.volume, lba, blocks, 0, true);
        is_kept && reserve().is_some()
    }

    /// Queues a write of blocks of one leaf that finds room everywhere; its caller, on another
    /// reactor, is told when it is acknowledged. Given back if it would have to wait, or makes its
    /// leaf.
    pub(crate) fn try_write(
        &self,
        volume: VolumeId,
        lba: Lba,
        data: Blocks,
        crcs: Crcs,
        caller: Caller,
    ) -> Result<(), Request> {
        let shared = &self.shared;
        let (length, leaf) = (data.len(), lba.leaf());
        let (blocks, nodes) = (length as u64, nodes_of(length));
        let is_easy = self.is_short(length) && !shared.is_stopped() && self.has_room_now(nodes);
        let reserved = || self.reserves_at_once(LeafKey { volume, leaf }, lba, blocks);
        let passes = is_easy && reserved() && {
            let passes = shared.try_gate(blocks);
            if !passes {
                shared.unpend_blocks(blocks);
            }
            passes
        };
        if !passes {
            return Err(Request::Write {
                volume,
                lba,
                data,
                crcs,
            });
        }
        let ticket = Ticket::There(caller);
        self.queue_put((volume, lba), Rc::new(data), crcs, false, ticket);
        Ok(())
    }

    /// Waits until a write of blocks of one leaf can be queued; its caller, on another reactor, is told
    /// when it is acknowledged. What it came to, if that is known already.
    pub(crate) async fn write_for(
        &self,
        caller: Caller,
        volume: VolumeId,
        lba: Lba,
        data: Blocks,
        crcs: Crcs,
    ) -> Option<Result<(), EngineError>> {
        let (length, data) = (data.len(), Rc::new(data));
        if length as u64 > self.shared.config.lane.batch_blocks_max {
            return Some(self.write_long(volume, lba, data, crcs, None).await);
        }
        let mut aside = None;
        if self.shared.may_bypass(length) {
            // Apart: what is rare must not make the flow of every write larger.
            match Box::pin(self.pass((volume, lba), &data, &crcs)).await {
                Ok(None) => return Some(Ok(())),
                Ok(makes_leaf) => aside = makes_leaf,
                Err(error) => return Some(Err(error)),
            }
        }
        match self.admit_put((volume, lba), length, aside, None).await {
            Ok((makes_leaf, _)) => {
                let ticket = Ticket::There(caller);
                self.queue_put((volume, lba), data, crcs, makes_leaf, ticket);
                None
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Lets a write of blocks of one leaf pass the log if it may; if not, room is set aside for it, and it is
    /// told whether it makes its leaf.
    async fn pass(
        &self,
        (volume, lba): (VolumeId, Lba),
        data: &Rc<Blocks>,
        crcs: &Crcs,
    ) -> Result<Option<bool>, EngineError> {
        let (blocks, before) = (data.len() as u64, Aside::default());
        let aside = self.set_room_aside(volume, lba, blocks, before, false);
        let makes_leaf = aside.await?.makes_leaf;
        let payload = (Rc::clone(data), 0..data.len());
        let passed = self.bypass((volume, lba), &payload, crcs, makes_leaf);
        Ok((!passed.await?).then_some(makes_leaf))
    }

    /// Writes blocks of one leaf for which room was set aside. On errors that is given back.
    pub(crate) async fn put(
        &self,
        volume: VolumeId,
        lba: Lba,
        (data, range): (Rc<Blocks>, Range<usize>),
        crcs: Crcs,
        makes_leaf: bool,
        recall: Option<&Recall>,
    ) -> Result<(), EngineError> {
        assert_one_leaf(lba, range.len());
        if self.shared.may_bypass(range.len()) {
            let payload = (Rc::clone(&data), range.clone());
            let passed = self.bypass((volume, lba), &payload, &crcs, makes_leaf);
            if Box::pin(passed).await? {
                return Ok(());
            }
        }
        let most = self.shared.config.lane.batch_blocks_max as usize;
        if range.len() <= most {
            let payload = (data, range);
            let appended = self.put_record(volume, lba, payload, crcs, makes_leaf, recall);
            return acknowledged(appended.await?).await;
        }
        // Apart: what is rare must not make the flow of every write larger.
        Box::pin(self.put_parts(volume, lba, (data, range), crcs, makes_leaf, recall)).await
    }

    /// Writes blocks of one leaf that take several records.
    async fn put_parts(
        &self,
        volume: VolumeId,
        lba: Lba,
        (data, range): (Rc<Blocks>, Range<usize>),
        crcs: Crcs,
        makes_leaf: bool,
        recall: Option<&Recall>,
    ) -> Result<(), EngineError> {
        let most = self.shared.config.lane.batch_blocks_max as usize;
        let mut waiting = Vec::new();
        let mut outcome = Ok(());
        for from in (0..range.len()).step_by(most) {
            let length = most.min(range.len() - from);
            let part = range.start + from..range.start + from + length;
            let crcs = Crcs::from(&crcs.as_slice()[from..from + length]);
            let lba = Lba(lba.0 + from as u64);
            let payload = (Rc::clone(&data), part);
            let makes_leaf = makes_leaf && from == 0;
            // What is in the log in part is finished.
            let recall = recall.filter(|_| from == 0);
            let queued = self.put_record(volume, lba, payload, crcs, makes_leaf, recall);
            match queued.await {
                Ok(appended) => waiting.push(appended),
                Err(error) => {
                    // The record has given back its own; the ones behind it are never made.
                    let left = (range.len() - from - length) as u64;
                    self.shared.unpend_blocks(left);
                    outcome = Err(error);
                    break;
                }
            }
        }
        for appended in waiting {
            outcome = outcome.and(acknowledged(appended).await);
        }
        outcome
    }

    /// Queues one record of a write. On errors what was set aside for it is given back.
    async fn put_record(
        &self,
        volume: VolumeId,
        lba: Lba,
        payload: (Rc<Blocks>, Range<usize>),
        crcs: Crcs,
        makes_leaf: bool,
        recall: Option<&Recall>,
    ) -> Result<Waiting, EngineError> {
        let length = payload.1.len();
        let passed = self.shared.pass_gate(volume, length as u64, recall);
        if let Err(error) = passed.await {
            let leaf = lba.leaf();
            self.give_room_back(LeafKey { volume, leaf }, length as u64, makes_leaf);
            return Err(error);
        }
        let record = Record::Put {
            volume,
            lba,
            class: UNTOLD,
            crcs,
        };
        let nodes = nodes_of(length);
        let pending = (length as u64, makes_leaf);
        Ok(self.append(record, Some(payload), nodes, pending).await)
    }

    /// Deallocates or zeroes what the given slices, all owned by this shard, have in a range; ends
    /// when that is acknowledged.
    pub(crate) async fn punch(&self, slices: Vec<SliceId>, hole: Hole) -> Result<(), EngineError> {
        let Hole {
            volume,
            lba,
            blocks,
            zero,
            is_resize,
        } = hole;
        let (mut waiting, mut outcome) = (Vec::new(), Ok(()));
        for slice in slices {
            let record = Record::Discard {
                slice,
                volume,
                lba,
                blocks,
                zero,
            };
            if !is_resize {
                self.shared.leave_log_to_moves().await;
                if let Err(error) = self.shared.refuse_hole() {
                    outcome = Err(error);
                    break;
                }
            }
            let appended = self.append(record, None, DISCARD_NODES, (0, false));
            waiting.push(appended.await);
        }
        for appended in waiting {
            outcome = outcome.and(acknowledged(appended).await);
        }
        outcome
    }

    /// The planted bug: the map changes, the log does not.
    pub(crate) fn punch_unlogged(&self, slices: &[SliceId], hole: Hole) {
        assert!(self.planted(Canary::DiscardNotLogged), "only as a canary");
        let Hole {
            volume,
            lba,
            blocks,
            ..
        } = hole;
        let mut dead = Vec::new();
        for slice in slices.iter().copied() {
            let lsn = self.map.borrow().applied(slice);
            self.apply_discard(slice, volume, lba, blocks, false, lsn, &mut dead);
            self.bury(&mut dead);
        }
    }
}

/// Delta nodes that a put of so many blocks can need: three deltas to a node, and one node for the
/// chain's last.
pub(crate) const fn nodes_of(blocks: usize) -> usize {
    blocks.div_ceil(3) + 1
}

async fn acknowledged(appended: Waiting) -> Result<(), EngineError> {
    let done = appended.await;
    done.map(|_| ()).map_err(|Stopped| EngineError::Stopped)
}

fn assert_one_leaf(lba: Lba, length: usize) {
    assert!(
        lba.index() + length <= LEAF_BLOCKS as usize,
        "a piece of a write stays in one leaf"
    );
}
