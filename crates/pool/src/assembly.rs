//! From the member table and the drives present to the arrays.
//!
//! **Invariants**: a member sits in its slot, whatever its id; a slot without a member that may be
//! used is lost; one whose drive is away is leaving until something is written without it; arrays
//! have the sizes that were committed, whoever is present.

use crate::error::PoolError;
use crate::label::{
    self, Import, LabelStore, MemberId, MemberState, MemberTable, Membership, Role,
};
use crate::losses::Losses;
use crate::tier::{Array, Tier};
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_array::{
    Geometry as ArrayGeometry, GeometryError, Member, Mirror, Protection as Code, StripeSet,
};
use varve_format::{Geometry, Protection};
use varve_ftl::{Canary, Seats};
use varve_io::{Drive, World};
use varve_units::PLANTS_BUGS;

/// Checks that the dense drives present hold everything: drives that are away are declared lost
/// only if the pool can do without them. The fast tier was checked by the choice of a label.
///
/// # Errors
/// [`PoolError::DenseMissing`].
pub fn check_dense(import: &Import) -> Result<(), PoolError> {
    let geometry = &import.state.geometry;
    if geometry.groups == 0 {
        return Ok(());
    }
    let mut live = alloc::vec![false; label::dense_drives(geometry)];
    for present in &import.present {
        let row = import.state.members.get(present.id);
        let is_live = present.role == Role::Dense && present.state == MemberState::Active;
        let Some(row) = row.filter(|_| is_live) else {
            continue;
        };
        if let Some(slot) = live.get_mut(usize::from(row.slot)) {
            *slot = true;
        }
    }
    match label::uncovered(geometry, &live) {
        None => Ok(()),
        Some(away) => Err(PoolError::DenseMissing { away }),
    }
}

/// Bytes that a drive has at least to serve in a tier, labels included.
#[must_use]
pub fn least_bytes(geometry: &Geometry, role: Role) -> u64 {
    let used = match role {
        Role::Fast => fast_bytes(geometry),
        // Impossible sizes are refused where the pool is opened.
        Role::Dense => dense_array(geometry).map_or(0, |array| array.member_bytes()),
    };
    label::RESERVED_BYTES + used
}

/// Bytes of each fast drive behind its labels.
fn fast_bytes(geometry: &Geometry) -> u64 {
    u64::from(geometry.chunks) * geometry.chunk_bytes
}

fn dense_array(geometry: &Geometry) -> Result<ArrayGeometry, GeometryError> {
    let code = match geometry.protection {
        Protection::None => Code::None,
        Protection::Mirror => Code::Mirror,
        Protection::Parity => Code::Parity {
            data: usize::from(geometry.data_strips),
        },
    };
    let zone_strips = geometry
        .group_blocks
        .checked_div(geometry.stripe_data_blocks);
    ArrayGeometry::new(
        label::dense_drives(geometry),
        geometry.strip_blocks.into(),
        zone_strips.unwrap_or(0).into(),
        geometry.groups.into(),
        code,
    )
}

/// The fast tier, the dense one if there is one, and what they are made of.
type Tiers = (Rc<dyn Drive>, Option<Rc<dyn Drive>>, Vec<Rc<Tier>>);

/// What the arrays are assembled from.
pub(crate) struct Assembly<'a> {
    pub(crate) world: &'a Rc<dyn World>,
    /// Who is what.
    pub(crate) table: &'a MemberTable,
    pub(crate) stores: &'a [Rc<LabelStore>],
    pub(crate) import: &'a Import,
    pub(crate) canary: Option<Canary>,
}

impl Assembly<'_> {
    /// The members of a tier by slot.
    fn members(&self, role: Role) -> (Vec<Option<MemberId>>, Vec<Member>) {
        let slots = match role {
            Role::Fast => self.table.slots(Role::Fast),
            Role::Dense => label::dense_drives(&self.import.state.geometry),
        };
        (0..slots)
            .map(|slot| match self.table.occupant(role, slot as u8) {
                Some(row) => (Some(row.id), self.member(row.id, row.state)),
                None => {
                    let rows = self.table.in_state(role, MemberState::Lost);
                    let lost = rows.filter(|row| usize::from(row.slot) == slot);
                    let id = lost.last().map(|row| row.id);
                    (id, id.map_or_else(Member::lost, |id| self.lost(id)))
                }
            })
            .unzip()
    }

    fn member(&self, id: MemberId, state: MemberState) -> Member {
        let present = self.import.present.iter().find(|present| present.id == id);
        let drive = present.map(|present| Rc::clone(self.stores[present.drive].drive()));
        match (drive, state) {
            (Some(drive), MemberState::Active) => Member::live(drive, label::RESERVED_BYTES),
            (Some(drive), MemberState::Rebuilding) => {
                Member::rebuilding(drive, label::RESERVED_BYTES)
            }
            (None, state) if state.is_voter() => Member::away(),
            _ => Member::lost(),
        }
    }

    /// A lost member is not used, be its drive here or not.
    fn lost(&self, id: MemberId) -> Member {
        let stale = self.import.stale.iter().find(|stale| stale.id == id);
        match stale {
            Some(stale) if self.is_planted(Canary::StaleMemberAccepted) => {
                let drive = Rc::clone(self.stores[stale.drive].drive());
                Member::live(drive, label::RESERVED_BYTES)
            }
            _ => Member::lost(),
        }
    }

    fn is_planted(&self, canary: Canary) -> bool {
        PLANTS_BUGS && self.canary == Some(canary)
    }

    fn mirror(
        &self,
        geometry: &Geometry,
        members: Vec<Member>,
        losses: Rc<dyn varve_array::Membership>,
    ) -> Result<Rc<Mirror>, PoolError> {
        let (bytes, world) = (fast_bytes(geometry), Rc::clone(self.world));
        let mirror = Mirror::sized(members, bytes, geometry.lba_bytes, losses, world)?;
        let is_hasty = self.is_planted(Canary::AckBeforeSecondMirror);
        Ok(Rc::new(mirror.with_haste(is_hasty)))
    }

    fn stripe_set(
        &self,
        geometry: &Geometry,
        members: Vec<Member>,
        losses: Rc<dyn varve_array::Membership>,
    ) -> Result<Rc<StripeSet>, PoolError> {
        let (array, world) = (dense_array(geometry)?, Rc::clone(self.world));
        Ok(Rc::new(StripeSet::new(array, members, losses, world)?))
    }

    /// Both tiers without what a pool in use has of them; the dense one if there is one.
    pub(crate) fn bare(
        &self,
        geometry: &Geometry,
        losses: &Rc<dyn varve_array::Membership>,
    ) -> Result<Seats, PoolError> {
        let (_, members) = self.members(Role::Fast);
        let fast = self.mirror(geometry, members, Rc::clone(losses))?;
        let mut seats = Seats {
            world: Rc::clone(self.world),
            fast,
            dense: None,
        };
        if geometry.groups > 0 {
            let (_, members) = self.members(Role::Dense);
            seats.dense = Some(self.stripe_set(geometry, members, Rc::clone(losses))?);
        }
        Ok(seats)
    }

    /// Both tiers of a pool in use, as drives and as what they are made of.
    pub(crate) fn tiers(
        &self,
        geometry: &Geometry,
        membership: &Rc<Membership>,
    ) -> Result<Tiers, PoolError> {
        let (fast, tier) = self.fast(geometry, membership)?;
        let mut tiers = alloc::vec![Rc::new(tier)];
        let mut dense = None;
        if geometry.groups > 0 {
            let (drive, tier) = self.dense(geometry, membership)?;
            dense = Some(drive);
            tiers.push(Rc::new(tier));
        }
        Ok((fast, dense, tiers))
    }

    /// The mirror of the fast tier.
    fn fast(
        &self,
        geometry: &Geometry,
        membership: &Rc<Membership>,
    ) -> Result<(Rc<dyn Drive>, Tier), PoolError> {
        let (ids, members) = self.members(Role::Fast);
        let losses = Rc::new(Losses::new(Rc::clone(membership), ids));
        let mirror = self.mirror(geometry, members, Rc::clone(&losses) as _)?;
        let array = Array::Fast(Rc::clone(&mirror), geometry.chunk_bytes);
        Ok((mirror, Tier::new(array, losses, Rc::clone(membership))))
    }

    /// The stripe set of the dense tier.
    fn dense(
        &self,
        geometry: &Geometry,
        membership: &Rc<Membership>,
    ) -> Result<(Rc<dyn Drive>, Tier), PoolError> {
        let (ids, members) = self.members(Role::Dense);
        let losses = Rc::new(Losses::new(Rc::clone(membership), ids));
        let set = self.stripe_set(geometry, members, Rc::clone(&losses) as _)?;
        let array = Array::Dense(Rc::clone(&set));
        Ok((set, Tier::new(array, losses, Rc::clone(membership))))
    }
}
