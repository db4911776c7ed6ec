//! One tier of a pool in use: its array, and who sits in which slot of it.
//!
//! A rebuild is a flow: old content is copied while hosts write, then the member's own label is made
//! durable, then the labels say that the member holds all it should, then the array reads from it.
//!
//! **Invariants**: the array never thinks better of a member than the labels do; one rebuild of a
//! slot at a time (a second occupant joins only after the first was given up).
//!
//! **Not here**: what an array copies and how (`array`), which units are in use (`ftl`).

use crate::error::PoolError;
use crate::label::{Change, CommitError, MemberId, Membership, RESERVED_BYTES, Role};
use crate::losses::Losses;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Range;
use varve_array::{
    AssembleError, Faults, MemberState, Mirror, Progress, RestoreError, Restored, StripeSet,
};
use varve_format::CHUNK_HEAD_BYTES;
use varve_io::{Drive, Event, Sectors};

/// The array of a tier.
pub(crate) enum Array {
    /// The fast tier, with the bytes of a chunk.
    Fast(Rc<Mirror>, u64),
    /// The dense tier.
    Dense(Rc<StripeSet>),
}

/// One tier of a pool in use.
pub(crate) struct Tier {
    pub(crate) array: Array,
    pub(crate) losses: Rc<Losses>,
    membership: Rc<Membership>,
    /// How far the rebuild of each slot has come.
    progress: RefCell<Vec<Option<Progress>>>,
    rebuilds: Cell<u32>,
    rebuilt: Cell<u64>,
    /// A rebuild has ended.
    ended: Event,
    is_stopping: Cell<bool>,
}

impl Tier {
    pub(crate) fn new(array: Array, losses: Rc<Losses>, membership: Rc<Membership>) -> Self {
        let progress = RefCell::new(alloc::vec![None; losses.slots()]);
        Self {
            array,
            losses,
            membership,
            progress,
            rebuilds: Cell::new(0),
            rebuilt: Cell::new(0),
            ended: Event::default(),
            is_stopping: Cell::new(false),
        }
    }

    pub(crate) const fn role(&self) -> Role {
        match self.array {
            Array::Fast(..) => Role::Fast,
            Array::Dense(_) => Role::Dense,
        }
    }

    pub(crate) fn state(&self, slot: usize) -> MemberState {
        match &self.array {
            Array::Fast(mirror, _) => mirror.state(slot),
            Array::Dense(set) => set.state(slot),
        }
    }

    pub(crate) fn faults(&self, slot: usize) -> Faults {
        match &self.array {
            Array::Fast(mirror, _) => mirror.faults(slot),
            Array::Dense(set) => set.faults(slot),
        }
    }

    pub(crate) fn can_spare(&self, slot: usize) -> bool {
        match &self.array {
            Array::Fast(mirror, _) => mirror.can_spare(slot),
            Array::Dense(set) => set.can_spare(slot),
        }
    }

    /// Ways to read, but for the one by a drive that is kept, which is the last.
    pub(crate) fn usual_ways(&self) -> usize {
        match &self.array {
            Array::Fast(..) => self.losses.slots(),
            Array::Dense(set) => set.geometry().copies().into(),
        }
    }

    /// True if nothing that the drives of a slot were sent is still under way there.
    pub(crate) fn is_drained(&self, slot: usize) -> bool {
        match &self.array {
            Array::Fast(mirror, _) => mirror.is_drained(slot),
            Array::Dense(set) => set.is_drained(slot),
        }
    }

    pub(crate) fn progress(&self, slot: usize) -> Option<Progress> {
        self.progress.borrow()[slot]
    }

    /// Rebuilds completed since the start.
    pub(crate) fn rebuilt(&self) -> u64 {
        self.rebuilt.get()
    }

    /// Rebuilds that run.
    pub(crate) fn rebuilding(&self) -> u32 {
        self.rebuilds.get()
    }

    pub(crate) fn check_fit(
        &self,
        slot: usize,
        drive: &Rc<dyn Drive>,
    ) -> Result<(), AssembleError> {
        match &self.array {
            Array::Fast(mirror, _) => mirror.check_fit(slot, drive, RESERVED_BYTES),
            Array::Dense(set) => set.check_fit(slot, drive, RESERVED_BYTES),
        }
    }

    /// Bytes of each drive at least, labels included.
    pub(crate) fn least_bytes(&self) -> u64 {
        let bytes = match &self.array {
            Array::Fast(mirror, _) => mirror.member_bytes(),
            Array::Dense(set) => set.member_bytes(),
        };
        RESERVED_BYTES + bytes
    }

    /// As [`Tier::lose`]; a drive that was live till then is kept to copy from until another one is filled.
    pub(crate) async fn hand_over(&self, slot: usize, id: MemberId) -> Result<(), CommitError> {
        let is_seated = self.losses.seated(slot) == Some(id);
        let is_kept = is_seated && self.state(slot) == MemberState::Live;
        if is_kept {
            // Before it is leaving: what is written from then on it does not get.
            match &self.array {
                Array::Fast(mirror, _) => mirror.keep(slot),
                Array::Dense(set) => set.keep(slot),
            }
        }
        let outcome = self.lose(slot, id).await;
        if is_kept && outcome.is_err() {
            self.release_kept(slot);
        }
        outcome
    }

    /// Lets go of a drive that was kept to copy from.
    pub(crate) fn release_kept(&self, slot: usize) {
        match &self.array {
            Array::Fast(mirror, _) => mirror.release_kept(slot),
            Array::Dense(set) => set.release_kept(slot),
        }
    }

    /// Commits that the member of a slot is lost. The array does without it from now on: while the
    /// labels are written no other member may be found to be one that it can spare.
    pub(crate) async fn lose(&self, slot: usize, id: MemberId) -> Result<(), CommitError> {
        let commit = self.losses.commit(id);
        if self.losses.seated(slot) != Some(id) {
            return commit.await;
        }
        match &self.array {
            Array::Fast(mirror, _) => mirror.give_up(slot, commit).await,
            Array::Dense(set) => set.give_up(slot, commit).await,
        }
    }

    /// Seats the drive of member `id`, rebuilding by the labels, in a lost slot.
    pub(crate) fn seat(
        &self,
        slot: usize,
        id: MemberId,
        drive: Rc<dyn Drive>,
    ) -> Result<(), AssembleError> {
        match &self.array {
            Array::Fast(mirror, _) => mirror.replace(slot, drive, RESERVED_BYTES)?,
            Array::Dense(set) => set.replace(slot, drive, RESERVED_BYTES)?,
        }
        self.losses.seat(slot, id);
        Ok(())
    }

    /// Copies the content of `units` (chunks or groups in use when the member was seated, or
    /// later) to the rebuilding member `id`, commits that it holds all it should, lets it serve. `gap` as of
    /// [`Mirror::rebuild`].
    pub(crate) async fn rebuild(
        &self,
        slot: usize,
        id: MemberId,
        units: &[Range<u32>],
        gap: &dyn Fn(u64) -> Sectors,
        mut report: impl FnMut(Progress),
    ) -> Result<Restored, PoolError> {
        self.rebuilds.set(self.rebuilds.get() + 1);
        let note = |progress| {
            self.progress.borrow_mut()[slot] = Some(progress);
            report(progress);
        };
        let outcome = self.restore(slot, id, units, gap, note).await;
        self.progress.borrow_mut()[slot] = None;
        self.rebuilds.set(self.rebuilds.get() - 1);
        self.ended.notify();
        outcome
    }

    async fn restore(
        &self,
        slot: usize,
        id: MemberId,
        units: &[Range<u32>],
        gap: &dyn Fn(u64) -> Sectors,
        note: impl FnMut(Progress),
    ) -> Result<Restored, PoolError> {
        self.check(slot, id)?;
        let restored = match &self.array {
            Array::Fast(mirror, chunk) => {
                let ranges = chunk_ranges(units, *chunk, mirror.info().bytes);
                mirror.rebuild(slot, &ranges, gap, note).await
            }
            Array::Dense(set) => {
                let stripes = |range: &Range<u32>| {
                    let first = set.geometry().group_stripes(range.start.into());
                    let last = set.geometry().group_stripes((range.end - 1).into());
                    first.start..last.end
                };
                let ranges: Vec<_> = units.iter().map(stripes).collect();
                set.rebuild(slot, &ranges, note).await
            }
        }?;
        self.check(slot, id)?;
        if let Err(why) = self.membership.label_one(id).await {
            self.lose(slot, id).await?;
            return Err(RestoreError::Target(why).into());
        }
        self.check(slot, id)?;
        self.membership.change(Change::Rebuilt(id)).await?;
        // It may have failed while the labels were written; its loss is on its way then.
        self.check(slot, id)?;
        match &self.array {
            Array::Fast(mirror, _) => mirror.set_live(slot),
            Array::Dense(set) => set.set_live(slot),
        }
        self.rebuilt.set(self.rebuilt.get() + 1);
        Ok(restored)
    }

    /// The member still sits in the slot and is being rebuilt.
    fn check(&self, slot: usize, id: MemberId) -> Result<(), RestoreError> {
        let is_seated = self.losses.seated(slot) == Some(id);
        if is_seated && self.state(slot) == MemberState::Rebuilding {
            Ok(())
        } else {
            Err(RestoreError::Interrupted)
        }
    }

    /// True once rebuilds were told to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.get()
    }

    /// Ends all rebuilds; they begin again at the next start.
    pub(crate) async fn stop_rebuilds(&self) {
        self.is_stopping.set(true);
        match &self.array {
            Array::Fast(mirror, _) => mirror.stop_rebuilds(),
            Array::Dense(set) => set.stop_rebuilds(),
        }
        while self.rebuilds.get() > 0 {
            self.ended.listen().await;
        }
    }
}

/// Bytes of the fast tier that a rebuilt member must have as the others: the used chunks, and the
/// headers of the free ones. A drive that served this pool before may have headers of its own there,
/// of an epoch that the pool went without; a start would believe them.
fn chunk_ranges(used: &[Range<u32>], chunk_bytes: u64, tier_bytes: u64) -> Vec<Range<u64>> {
    let start = |chunk: u32| u64::from(chunk) * chunk_bytes;
    let mut ranges = Vec::new();
    let mut next = 0;
    let header = |chunk| start(chunk)..start(chunk) + CHUNK_HEAD_BYTES as u64;
    for range in used {
        ranges.extend((next..range.start).map(header));
        ranges.push(start(range.start)..start(range.end));
        next = range.end;
    }
    let chunks = (tier_bytes / chunk_bytes) as u32;
    ranges.extend((next..chunks).map(header));
    ranges
}
