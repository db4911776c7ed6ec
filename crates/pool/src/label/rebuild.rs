//! The member table of a pool whose fast tier is made anew.
//!
//! The labels that are left need be no quorum: whoever has the map rebuilt from the dense tier gives up what nobody can
//! read any more. So this goes by the newest label among the drives that are here, and the new table is of an epoch far
//! above every one that was seen: should the drives that are away come back, it is the newer one.
//!
//! The new table is written once, as a settled one, when all that it promises is durable. Whoever finds it on one drive
//! finds a pool.

use crate::label::choose::{
    EPOCHS_ABANDONED, Terms, newest, refuse_conflicts, refuse_duplicates, refuse_foreign_owner,
};
use crate::label::finding::{Finding, Survey};
use crate::label::generation::TableGeneration;
use crate::label::import::{Import, ImportError, Present};
use crate::label::member::{MemberId, MemberState, Role};
use crate::label::state::{LabelState, PoolId};
use alloc::vec::Vec;

/// What is left of a pool, as the labels that are here have it.
pub(crate) struct Remains {
    /// The newest of them.
    pub(crate) state: LabelState,
    /// The epoch to claim.
    pub(crate) epoch: u32,
    /// Highest epoch that was found.
    pub(crate) epoch_seen: u32,
    /// Dense members that are here and may be used.
    pub(crate) dense: Vec<Present>,
}

/// What is left of `pool` on some drives, in the caller's order.
///
/// # Errors
/// No label of it, a doubt about what is newest, another owner.
pub(crate) fn remains(
    pool: PoolId,
    found: &[Finding],
    terms: Terms,
) -> Result<Remains, ImportError> {
    let survey = Survey::of(pool, found);
    let state = newest(pool, &survey.labels)?;
    refuse_duplicates(&survey.labels)?;
    refuse_conflicts(&state, &survey.labels)?;
    refuse_foreign_owner(&state, terms)?;
    let labels = survey.labels.iter();
    let claimed = labels.clone().map(|(_, label)| label.state.epoch).max();
    let epoch_seen = claimed.unwrap_or(0).max(state.generation.epoch());
    let epoch = epoch_seen
        .checked_add(EPOCHS_ABANDONED)
        .ok_or(ImportError::EpochsUsedUp)?;
    let dense = labels.filter_map(|(drive, label)| {
        let row = state.members.get(label.own)?;
        let is_used = row.role == Role::Dense && row.state.is_voter();
        is_used.then_some(Present {
            drive: *drive,
            id: row.id,
            role: row.role,
            state: row.state,
        })
    });
    let dense = dense.collect();
    Ok(Remains {
        state,
        epoch,
        epoch_seen,
        dense,
    })
}

impl Remains {
    /// The pool as it will be, on new fast drives of these sizes, which are numbered behind `drives` others; `None` if its
    /// member table has no room for them.
    pub(crate) fn with_fast(&self, drives: usize, sizes: &[u64]) -> Option<Import> {
        let changed = TableGeneration::new(self.epoch, 1);
        let is_here = |id: MemberId| self.dense.iter().any(|present| present.id == id);
        let (members, fast) = self.state.members.refounded(is_here, sizes, changed)?;
        let state = LabelState {
            members,
            // Settled: who decided on the table before it is of no interest.
            generation: changed.next(),
            epoch: self.epoch,
            // Not closed in order: what a start does then is needed.
            clean: false,
            unfinished: false,
            ..self.state.clone()
        };
        let new = fast.into_iter().enumerate().map(|(at, id)| Present {
            drive: drives + at,
            id,
            role: Role::Fast,
            state: MemberState::Active,
        });
        let present = self.dense.iter().copied().chain(new).collect();
        Some(Import {
            state,
            epoch: self.epoch,
            present,
            missing: Vec::new(),
            stale: Vec::new(),
            foreign: Vec::new(),
            blank: Vec::new(),
            other_use: Vec::new(),
            unreadable: Vec::new(),
            loss: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::label::TableGeneration;
    use crate::label::{MEMBERS_MAX, Member, MemberId, MemberState, MemberTable, Role};

    fn row(id: u32, role: Role, slot: u8) -> Member {
        Member {
            id: MemberId(id),
            role,
            slot,
            state: MemberState::Active,
            held_all: true,
            size_bytes: 1 << 30,
            since: TableGeneration::ZERO,
        }
    }

    /// However often a fast tier is made anew: ids rise, tombstones give way to new rows, and whoever wrote the table is
    /// known to have known that it counts.
    #[test]
    fn a_fast_tier_is_made_anew_again_and_again() {
        let fast = (0..2).map(|slot| row(slot, Role::Fast, slot as u8));
        let dense = (0..3).map(|slot| row(slot + 2, Role::Dense, slot as u8));
        let mut table = MemberTable::new(fast.chain(dense).collect()).expect("five members");
        for epoch in 1..3 * MEMBERS_MAX as u32 {
            let generation = TableGeneration::new(epoch, 1);
            let highest = table.members().last().expect("rows").id;
            let is_here = |id| id != MemberId(3);
            let (next, ids) = table
                .refounded(is_here, &[1 << 30, 1 << 31], generation)
                .expect("tombstones give way");
            assert!(ids[0] > highest && ids[1] > ids[0]);
            assert!(next.members().len() <= MEMBERS_MAX);
            MemberTable::new(next.members().to_vec()).expect("a table that may be written");
            for (slot, id) in (0..).zip(&ids) {
                let occupant = next.occupant(Role::Fast, slot).expect("a new drive");
                assert_eq!((occupant.id, occupant.held_all), (*id, true));
            }
            assert_eq!(next.slots(Role::Fast), 2);
            let away = next.get(MemberId(3)).expect("its row");
            assert_eq!(away.state, MemberState::Lost);
            assert!(next.is_settled(generation.next()));
            assert_eq!(next.deciders(generation.next()), next.voters());
            table = next;
        }
    }
}
