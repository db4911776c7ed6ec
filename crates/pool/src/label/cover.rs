//! Which dense members a pool can do without.

use crate::label::member::{MemberId, MemberState, Role};
use crate::label::state::LabelState;
use alloc::vec::Vec;
use varve_format::{Geometry, Protection};

/// Drives of the dense tier: slots of its array.
pub(crate) fn dense_drives(geometry: &Geometry) -> usize {
    let data = usize::from(geometry.data_strips);
    match geometry.protection {
        Protection::None => data,
        Protection::Mirror => data * 2,
        Protection::Parity => data + usize::from(geometry.parity_strips),
    }
}

/// Why slots without a whole drive are too many: how many there are.
pub(crate) fn uncovered(geometry: &Geometry, live: &[bool]) -> Option<usize> {
    let away = live.iter().filter(|&&is_live| !is_live).count();
    let is_enough = match geometry.protection {
        Protection::None => away == 0,
        Protection::Mirror => live.chunks(2).all(|pair| pair.contains(&true)),
        Protection::Parity => away <= usize::from(geometry.parity_strips),
    };
    (!is_enough).then_some(away)
}

/// True if a dense tier holds everything on those of its slots that hold a whole drive.
pub fn is_covered(geometry: &Geometry, is_live: impl Fn(usize) -> bool) -> bool {
    let live: Vec<bool> = (0..dense_drives(geometry)).map(is_live).collect();
    geometry.groups == 0 || uncovered(geometry, &live).is_none()
}

impl LabelState {
    /// True if the dense members that are whole hold everything, but not without `id`.
    pub(crate) fn needs(&self, id: MemberId) -> bool {
        self.is_covered_without(None) && !self.is_covered_without(Some(id))
    }

    fn is_covered_without(&self, id: Option<MemberId>) -> bool {
        if self.geometry.groups == 0 {
            return true;
        }
        let active = |slot: usize| {
            let mut rows = self.members.in_state(Role::Dense, MemberState::Active);
            rows.any(|row| usize::from(row.slot) == slot && Some(row.id) != id)
        };
        let live: Vec<bool> = (0..dense_drives(&self.geometry)).map(active).collect();
        uncovered(&self.geometry, &live).is_none()
    }
}
