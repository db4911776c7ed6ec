//! The member table and its changes.
//!
//! **Invariants.** Rows are ordered by id, ids are unique and never reused (a new id is above every
//! id in the table, and the highest is never dropped); at most [`MEMBERS_MAX`] rows; in each slot of
//! a tier at most one member is active or rebuilding; a member makes at most one legal step per
//! generation, so the voters before the newest step can be told from the table alone.

use crate::label::change::{Change, ChangeError, TableError};
use crate::label::generation::TableGeneration;
use crate::label::member::{Member, MemberId, MemberState, Role};
use crate::label::quorum::Voters;
use alloc::vec::Vec;

/// Rows of a member table at most, tombstones included.
///
/// # Source
/// engine.md U10: 32 B each in a 4 KiB label.
pub const MEMBERS_MAX: usize = varve_format::MEMBERS_MAX;

/// All drives a pool has or had.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemberTable(Vec<Member>);

impl MemberTable {
    /// A table of these rows, in any order.
    ///
    /// # Errors
    /// Too many rows, one member twice, or two members in use in one slot.
    pub fn new(mut members: Vec<Member>) -> Result<Self, TableError> {
        if members.len() > MEMBERS_MAX {
            return Err(TableError::TooMany {
                found: members.len(),
            });
        }
        members.sort_unstable_by_key(|member| member.id);
        for pair in members.windows(2) {
            if let [first, second] = pair
                && first.id == second.id
            {
                return Err(TableError::Twice { id: first.id });
            }
        }
        let used = members.iter().filter(|member| member.state.is_voter());
        let mut slots: Vec<_> = used.map(|member| (member.role, member.slot)).collect();
        slots.sort_unstable();
        for pair in slots.windows(2) {
            if let [first, second] = pair
                && first == second
            {
                let (role, slot) = *first;
                return Err(TableError::SlotTwice { role, slot });
            }
        }
        Ok(Self(members))
    }

    /// The rows, ordered by id.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.0
    }

    /// The row of `id`.
    #[must_use]
    pub fn get(&self, id: MemberId) -> Option<&Member> {
        let index = self.0.binary_search_by_key(&id, |member| member.id).ok()?;
        self.0.get(index)
    }

    /// The active or rebuilding member of a slot.
    #[must_use]
    pub fn occupant(&self, role: Role, slot: u8) -> Option<&Member> {
        let mut members = self.0.iter();
        members.find(|member| member.is_at(role, slot) && member.state.is_voter())
    }

    /// Slots of a tier: one more than the highest that ever had a member.
    #[must_use]
    pub fn slots(&self, role: Role) -> usize {
        let members = self.0.iter().filter(|member| member.role == role);
        let highest = members.map(|member| usize::from(member.slot)).max();
        highest.map_or(0, |highest| highest + 1)
    }

    /// Members of `role` in `state`.
    pub fn in_state(&self, role: Role, state: MemberState) -> impl Iterator<Item = &Member> {
        self.0
            .iter()
            .filter(move |member| member.role == role && member.state == state)
    }

    /// Who decides on the successor of this table.
    #[must_use]
    pub fn voters(&self) -> Voters {
        Voters::new(self.ids(|member| member.state.is_voter()))
    }

    /// Who decided on this table, if it is that of `generation`: the voters of its predecessor.
    ///
    /// A member that became active or lost in `generation` was active or rebuilding before; one
    /// that became rebuilding or removed was new or lost.
    #[must_use]
    pub fn deciders(&self, generation: TableGeneration) -> Voters {
        Voters::new(self.ids(|member| {
            if member.since == generation {
                matches!(member.state, MemberState::Active | MemberState::Lost)
            } else {
                member.state.is_voter()
            }
        }))
    }

    /// True if no member changed in `generation`: whoever wrote this table knew that the one
    /// before it, with the same members, was committed.
    #[must_use]
    pub fn is_settled(&self, generation: TableGeneration) -> bool {
        self.0.iter().all(|member| member.since != generation)
    }

    /// The same steps, proposed again under another generation.
    #[must_use]
    pub fn moved(&self, from: TableGeneration, to: TableGeneration) -> Self {
        let mut table = self.clone();
        for member in &mut table.0 {
            if member.since == from {
                member.since = to;
            }
        }
        table
    }

    /// Takes one step in `generation`; returns the member concerned. Losing a lost member changes
    /// nothing.
    ///
    /// # Errors
    /// The step is not legal; the table is unchanged.
    pub fn apply(
        &mut self,
        change: Change,
        generation: TableGeneration,
    ) -> Result<MemberId, ChangeError> {
        match change {
            Change::Lose(id) => self.lose(id, generation),
            Change::Join {
                role,
                slot,
                size_bytes,
            } => self.join(role, slot, size_bytes, generation),
            Change::Return(id) => self.come_back(id, generation),
            Change::Rebuilt(id) => self.rebuilt(id, generation),
            Change::Remove(id) => {
                self.step(id, MemberState::Lost, MemberState::Removed, generation)
            }
        }
    }

    /// Rewrites the table for an import that accepts loss: absent voters become lost, and
    /// `promoted`, a stale fast drive, becomes active because nothing newer is left.
    pub(crate) fn force(
        &mut self,
        is_present: impl Fn(MemberId) -> bool,
        promoted: Option<MemberId>,
        generation: TableGeneration,
    ) {
        let place = promoted.and_then(|id| self.get(id).map(|member| (member.role, member.slot)));
        for member in &mut self.0 {
            // Whoever was being rebuilt in the slot of the promoted one gives way.
            let is_in_the_way = place.is_some_and(|(role, slot)| member.is_at(role, slot));
            let state = if promoted == Some(member.id) {
                MemberState::Active
            } else if member.state.is_voter() && (is_in_the_way || !is_present(member.id)) {
                MemberState::Lost
            } else {
                continue;
            };
            member.state = state;
            member.since = generation;
        }
    }

    /// The table of a pool whose fast tier is made anew, on drives of these sizes: all fast members so far become tombstones,
    /// dense ones that are not here are lost. Also the new fast members, by slot. `None` if there is no room for them.
    pub(crate) fn refounded(
        &self,
        is_here: impl Fn(MemberId) -> bool,
        fast: &[u64],
        generation: TableGeneration,
    ) -> Option<(Self, Vec<MemberId>)> {
        let mut table = self.clone();
        for member in &mut table.0 {
            let state = match (member.role, member.state) {
                (Role::Fast, MemberState::Removed) => continue,
                (Role::Fast, _) => MemberState::Removed,
                (Role::Dense, state) if state.is_voter() && !is_here(member.id) => {
                    MemberState::Lost
                }
                (Role::Dense, _) => continue,
            };
            (member.state, member.since) = (state, generation);
        }
        let highest = table.0.last().map_or(0, |member| member.id.0);
        let mut ids = Vec::with_capacity(fast.len());
        for (size_bytes, slot) in fast.iter().zip(0..) {
            if table.0.len() >= MEMBERS_MAX {
                let mut rows = table.0.iter();
                let tombstone = rows.position(|member| member.state == MemberState::Removed)?;
                table.0.remove(tombstone);
            }
            let id = MemberId(highest.checked_add(u32::from(slot) + 1)?);
            table.0.push(Member {
                id,
                role: Role::Fast,
                slot,
                state: MemberState::Active,
                held_all: true,
                size_bytes: *size_bytes,
                since: generation,
            });
            ids.push(id);
        }
        Some((table, ids))
    }

    fn ids(&self, wanted: impl Fn(&Member) -> bool) -> Vec<MemberId> {
        let wanted = self.0.iter().filter(|member| wanted(member));
        wanted.map(|member| member.id).collect()
    }

    fn row(&mut self, id: MemberId) -> Result<&mut Member, ChangeError> {
        let row = self.0.iter_mut().find(|member| member.id == id);
        row.ok_or(ChangeError::NoMember { id })
    }

    fn step(
        &mut self,
        id: MemberId,
        from: MemberState,
        to: MemberState,
        generation: TableGeneration,
    ) -> Result<MemberId, ChangeError> {
        let row = self.row(id)?;
        if row.state != from {
            return Err(ChangeError::IllegalStep {
                id,
                from: row.state,
                to,
            });
        }
        assert!(
            row.since < generation,
            "one step of a member per generation"
        );
        row.state = to;
        row.since = generation;
        Ok(id)
    }

    fn lose(&mut self, id: MemberId, generation: TableGeneration) -> Result<MemberId, ChangeError> {
        let member = *self.row(id)?;
        match member.state {
            MemberState::Lost => Ok(id),
            MemberState::Active if member.role == Role::Fast => {
                if self.in_state(Role::Fast, MemberState::Active).count() == 1 {
                    return Err(ChangeError::LastFast { id });
                }
                self.step(id, MemberState::Active, MemberState::Lost, generation)
            }
            from if from.is_voter() => self.step(id, from, MemberState::Lost, generation),
            from => Err(ChangeError::IllegalStep {
                id,
                from,
                to: MemberState::Lost,
            }),
        }
    }

    fn come_back(
        &mut self,
        id: MemberId,
        generation: TableGeneration,
    ) -> Result<MemberId, ChangeError> {
        let member = *self.row(id)?;
        if member.state == MemberState::Lost {
            self.check_vacant(member.role, member.slot)?;
        }
        self.step(id, MemberState::Lost, MemberState::Rebuilding, generation)?;
        self.row(id)?.held_all = false;
        Ok(id)
    }

    fn rebuilt(
        &mut self,
        id: MemberId,
        generation: TableGeneration,
    ) -> Result<MemberId, ChangeError> {
        self.step(id, MemberState::Rebuilding, MemberState::Active, generation)?;
        let row = self.row(id)?;
        row.held_all = true;
        let (role, slot) = (row.role, row.slot);
        self.bury(role, slot, generation, |_| true);
        Ok(id)
    }

    /// Makes tombstones of the lost members of a slot that `is_useless` chooses.
    fn bury(
        &mut self,
        role: Role,
        slot: u8,
        generation: TableGeneration,
        is_useless: impl Fn(&Member) -> bool,
    ) {
        for member in &mut self.0 {
            // One that was lost in this very generation has made its step.
            let is_lost = member.state == MemberState::Lost && member.since < generation;
            if is_lost && member.is_at(role, slot) && is_useless(member) {
                member.state = MemberState::Removed;
                member.since = generation;
            }
        }
    }

    fn check_vacant(&self, role: Role, slot: u8) -> Result<(), ChangeError> {
        match self.occupant(role, slot) {
            Some(member) => Err(ChangeError::SlotTaken {
                role,
                slot,
                id: member.id,
            }),
            None => Ok(()),
        }
    }

    fn join(
        &mut self,
        role: Role,
        slot: u8,
        size_bytes: u64,
        generation: TableGeneration,
    ) -> Result<MemberId, ChangeError> {
        assert!(usize::from(slot) < MEMBERS_MAX, "slot beyond its limit");
        self.check_vacant(role, slot)?;
        let highest = self.0.last().map(|member| member.id.0);
        let id = match highest {
            None => MemberId(0),
            Some(u32::MAX) => return Err(ChangeError::TableFull),
            Some(highest) => MemberId(highest + 1),
        };
        // Nobody will ever want a copy that was never complete; so a slot keeps few rows.
        self.bury(role, slot, generation, |member| !member.held_all);
        if self.0.len() >= MEMBERS_MAX {
            let mut rows = self.0.iter();
            let tombstone = rows.position(|member| member.state == MemberState::Removed);
            self.0.remove(tombstone.ok_or(ChangeError::TableFull)?);
        }
        self.0.push(Member {
            id,
            role,
            slot,
            state: MemberState::Rebuilding,
            held_all: false,
            size_bytes,
            since: generation,
        });
        Ok(id)
    }
}
