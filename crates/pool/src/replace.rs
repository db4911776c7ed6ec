//! Giving a drive up, and putting another one in its place while the pool is in use.

use crate::error::PoolError;
use crate::gate::gated;
use crate::label::{Finding, LabelStore, MemberId, MemberState, Role};
use crate::pool::Pool;
use crate::tier::{Array, Tier};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use varve_array::{Faults, MemberState as Seating, Progress, RestoreError, Restored};
use varve_format::Gap;
use varve_io::{Drive, Flow, Sectors};
use varve_units::Nanos;

/// Time until a rebuild whose source failed is tried again. Arbitrary: long for a drive, short for
/// whoever waits for redundancy.
const RETRY_PAUSE: Nanos = Nanos::from_secs(1);

/// Whom a tier can spare: the tier, the slot's number, who sits there.
type Spare<'a> = (&'a Rc<Tier>, usize, MemberId);

/// A place for a drive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Slot {
    /// The tier.
    pub role: Role,
    /// Position in the tier's array, from 0.
    pub number: u8,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} of the {} tier", self.number, self.role)
    }
}

/// A slot and how it fares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotStatus {
    /// The slot.
    pub slot: Slot,
    /// The member that sits there or did last.
    pub member: Option<MemberId>,
    /// What the array makes of it.
    pub state: Seating,
    /// How far its rebuild has come, while one runs.
    pub rebuild: Option<Progress>,
    /// What its drive answered badly since it sits there.
    pub faults: Faults,
}

impl Pool {
    /// All slots, fast tier first.
    #[must_use]
    pub fn slots(&self) -> Vec<SlotStatus> {
        let mut slots = Vec::new();
        for tier in &self.tiers {
            for number in 0..tier.losses.slots() {
                slots.push(SlotStatus {
                    slot: Slot {
                        role: tier.role(),
                        number: number as u8,
                    },
                    member: tier.losses.seated(number),
                    state: tier.state(number),
                    rebuild: tier.progress(number),
                    faults: tier.faults(number),
                });
            }
        }
        slots
    }

    /// Declares the drive of a slot lost, in the labels first. A drive that is lost already stays
    /// lost; one that is being rebuilt is not any more. One that was handed over before is let go.
    ///
    /// # Errors
    /// No such slot, the others of its tier do not hold everything, no quorum.
    pub fn give_up(&self, slot: Slot) -> Flow<'_, Result<(), PoolError>> {
        Box::pin(async move {
            let Some((tier, number, id)) = self.spare(slot)? else {
                return Ok(());
            };
            tier.lose(number, id).await?;
            tier.release_kept(number);
            Ok(())
        })
    }

    /// As [`Pool::give_up`], of a drive that another one is to replace next: [`Pool::replace`] copies from
    /// it what it held when it was given up, and lets it go when that has ended well. It may hold what the others do
    /// not. Of a drive that was being filled with what is kept already it keeps nothing more.
    ///
    /// # Errors
    /// As [`Pool::give_up`].
    pub fn hand_over(&self, slot: Slot) -> Flow<'_, Result<(), PoolError>> {
        Box::pin(async move {
            let Some((tier, number, id)) = self.spare(slot)? else {
                return Ok(());
            };
            Ok(tier.hand_over(number, id).await?)
        })
    }

    /// Writes a heartbeat into the labels, after a look whether they are still the pool's own, and gives up the drives
    /// that failed to take it or another label since the last one: such a drive cannot be told what becomes of
    /// the pool, and is lost as one that fails a write. One that the others cannot do without stays; the next
    /// heartbeat tries it again.
    ///
    /// # Errors
    /// The session has ended: [`Pool::taken`] tells whether by another owner.
    pub fn beat(&self) -> Flow<'_, Result<(), PoolError>> {
        Box::pin(async move {
            let next = self.membership.state().heartbeat + 1;
            self.membership.beat(next).await?;
            for (id, _) in self.membership.take_suspects() {
                for tier in &self.tiers {
                    for number in 0..tier.losses.slots() {
                        let is_in_use = match tier.state(number) {
                            Seating::Live => tier.can_spare(number),
                            Seating::Rebuilding => true,
                            Seating::Leaving | Seating::Lost => false,
                        };
                        if is_in_use && tier.losses.seated(number) == Some(id) {
                            // One whose loss could not be committed stays leaving, and the next command tries again; what
                            // ended the session ends the next heartbeat.
                            let _ = tier.lose(number, id).await;
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Who is to be given up in a slot; nobody where nobody was.
    fn spare(&self, slot: Slot) -> Result<Option<Spare<'_>>, PoolError> {
        let (tier, number) = self.tier(slot)?;
        let state = tier.state(number);
        let is_needed = state == Seating::Live && !tier.can_spare(number);
        let Some(id) = tier.losses.seated(number) else {
            return Ok(None);
        };
        if is_needed {
            return Err(PoolError::Needed(slot));
        }
        Ok(Some((tier, number, id)))
    }

    /// Bytes that a drive has at least to take a slot's place, labels included.
    ///
    /// # Errors
    /// No such slot.
    pub fn least_bytes(&self, slot: Slot) -> Result<u64, PoolError> {
        let (tier, _) = self.tier(slot)?;
        Ok(tier.least_bytes())
    }

    /// Whether a drive could take a slot's place.
    ///
    /// # Errors
    /// No such slot, a drive that is too small or of the wrong sort.
    pub fn check_fit(&self, slot: Slot, drive: &Rc<dyn Drive>) -> Result<(), PoolError> {
        let (tier, number) = self.tier(slot)?;
        Ok(tier.check_fit(number, drive)?)
    }

    /// Puts another drive into a slot whose member is lost, and copies to it what it should hold
    /// while hosts go on; ends when redundancy is whole again. The drive is blank, or it is the
    /// lost one itself: that is filled again from the start too. `report` is called after each
    /// step of the copy.
    ///
    /// If the pool stops in between, the next start begins the copy anew.
    ///
    /// # Errors
    /// No such slot or one in use, a drive that does not fit or belongs elsewhere, the lost one while it
    /// has not ended what it was sent before, a tier without redundancy, no quorum, a copy that failed. After an error of the copy the drive is a member
    /// that is not whole: it is to be given up before another attempt. A drive that was handed over stays kept then, for
    /// that attempt and for who reads.
    pub fn replace<'a>(
        &'a self,
        slot: Slot,
        drive: Rc<dyn Drive>,
        report: &'a mut dyn FnMut(Progress),
    ) -> Flow<'a, Result<Restored, PoolError>> {
        Box::pin(async move {
            let (tier, number) = self.tier(slot)?;
            let restored = self.put_in_place(slot, drive, report).await?;
            // All that it held is in its place. After a failure it may be all that has it.
            tier.release_kept(number);
            Ok(restored)
        })
    }

    async fn put_in_place(
        &self,
        slot: Slot,
        drive: Rc<dyn Drive>,
        report: &mut dyn FnMut(Progress),
    ) -> Result<Restored, PoolError> {
        let (tier, number) = self.tier(slot)?;
        if tier.state(number) != Seating::Lost {
            return Err(PoolError::SlotInUse(slot));
        }
        tier.check_fit(number, &drive)?;
        let drive = gated(&drive, self.fence.as_ref());
        let store = Rc::new(LabelStore::open(Rc::clone(&drive)).await);
        if let Finding::Unreadable(error) = store.finding() {
            return Err(PoolError::Drive(error));
        }
        let id = self.join(slot, store).await?;
        // Between the commit and now somebody may have given it up again.
        let state = self.membership.state();
        let row = state.members.get(id);
        let is_rebuilding = row.is_some_and(|row| row.state == MemberState::Rebuilding);
        if !is_rebuilding || tier.state(number) != Seating::Lost {
            return Err(PoolError::SlotInUse(slot));
        }
        tier.seat(number, id, drive)?;
        // What is free now will be written to the new drive as well.
        let units = self.used_units(tier);
        let gap = self.gaps();
        tier.rebuild(number, id, &units, &gap, report).await
    }

    /// Lets a drive join the slot as rebuilding.
    async fn join(&self, slot: Slot, store: Rc<LabelStore>) -> Result<MemberId, PoolError> {
        let state = self.membership.state();
        let own = store.label().map(|label| label.own);
        let returns = own.filter(|&id| {
            let row = state.members.get(id);
            row.is_some_and(|row| row.is_at(slot.role, slot.number))
        });
        let committed = match returns {
            Some(id) if !self.is_drained(slot, id)? => return Err(PoolError::StillBusy(slot)),
            Some(id) => self.membership.bring_back(id, store).await?,
            None => self.membership.join(slot.role, slot.number, store).await?,
        };
        Ok(committed.member.expect("a member joined"))
    }

    /// True if the drive that was lost from a slot has ended all that it was sent, labels too.
    fn is_drained(&self, slot: Slot, id: MemberId) -> Result<bool, PoolError> {
        let (tier, number) = self.tier(slot)?;
        Ok(tier.is_drained(number) && self.membership.is_drained(id))
    }

    /// Begins to rebuild again whatever was being rebuilt when the pool stopped, and again when
    /// the drives to copy from did not answer: they may.
    pub(crate) fn resume_rebuilds(&self) {
        for tier in &self.tiers {
            let units = self.used_units(tier);
            for number in 0..tier.losses.slots() {
                let Some(id) = tier.losses.seated(number) else {
                    continue;
                };
                if tier.state(number) != Seating::Rebuilding {
                    continue;
                }
                let (tier, units, gap) = (Rc::clone(tier), units.clone(), self.gaps());
                let world = Rc::clone(&self.world);
                self.world.spawn(Box::pin(async move {
                    while let Err(error) = tier.rebuild(number, id, &units, &gap, |_| {}).await {
                        // Another failure leaves the slot as it is, for `slots` to show.
                        if !matches!(error, PoolError::Restore(RestoreError::Source(_))) {
                            return;
                        }
                        world.sleep(RETRY_PAUSE).await;
                        if tier.is_stopping() || tier.state(number) != Seating::Rebuilding {
                            return;
                        }
                    }
                }));
            }
        }
    }

    /// Makes the sectors that stand where a fast drive is filled with what nobody can read.
    fn gaps(&self) -> impl Fn(u64) -> Sectors + use<> {
        let (pool, stamp) = (self.membership.state().pool.0, self.engine().stamps());
        move |address| {
            let stamp = stamp();
            let gap = Gap {
                pool,
                address,
                stamp,
            };
            gap.encode()
        }
    }

    fn used_units(&self, tier: &Tier) -> Vec<Range<u32>> {
        self.engine().used_units(match tier.array {
            Array::Fast(..) => varve_ftl::Tier::Fast,
            Array::Dense(_) => varve_ftl::Tier::Dense,
        })
    }

    fn tier(&self, slot: Slot) -> Result<(&Rc<Tier>, usize), PoolError> {
        let number = usize::from(slot.number);
        let mut tiers = self.tiers.iter();
        let tier = tiers.find(|tier| tier.role() == slot.role && number < tier.losses.slots());
        Ok((tier.ok_or(PoolError::NoSlot(slot))?, number))
    }
}
