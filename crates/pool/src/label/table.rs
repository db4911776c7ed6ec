//! The member table and its changes.
//!
//! **Invariants.** Rows are ordered by id, ids are unique and never reused (a new id is above every
//! id in the table, and the highest is never dropped); at most [`MEMBERS_MAX`] rows; a member makes
//! at most one legal step per generation, so the voters before the newest step can be told from
//! the table alone.

use crate::label::generation::TableGeneration;
use crate::label::member::{Member, MemberId, MemberState, Role};
use crate::label::quorum::Voters;
use alloc::vec::Vec;
use core::fmt;

/// Rows of a member table at most, tombstones included.
///
/// # Source
/// engine.md U10: 32 B each in a 4 KiB label.
pub const MEMBERS_MAX: usize = varve_format::MEMBERS_MAX;

/// A step of one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Writes will be acknowledged without it from the commit on.
    Lose(MemberId),
    /// A new drive joins and is rebuilt; it gets the lowest id never used.
    Join {
        /// The tier it serves.
        role: Role,
        /// Its size in bytes.
        size_bytes: u64,
    },
    /// A lost drive is back and is rebuilt from the start.
    Return(MemberId),
    /// A rebuilding member holds all it should.
    Rebuilt(MemberId),
    /// A lost member will never come back.
    Remove(MemberId),
}

/// Why a change does not fit the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChangeError {
    /// The table has no such member.
    NoMember {
        /// The member asked for.
        id: MemberId,
    },
    /// The member's state has no such step.
    IllegalStep {
        /// The member.
        id: MemberId,
        /// Its state.
        from: MemberState,
        /// The state asked for.
        to: MemberState,
    },
    /// No other fast member is active: without it the newest data would have no place.
    LastFast {
        /// The member.
        id: MemberId,
    },
    /// All rows are used by members that cannot be dropped.
    TableFull,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMember { id } => write!(f, "the pool has no {id}"),
            Self::IllegalStep { id, from, to } => {
                write!(f, "{id} is {from} and cannot become {to} from there")
            }
            Self::LastFast { id } => {
                write!(
                    f,
                    "{id} is the last active fast drive and cannot be given up"
                )
            }
            Self::TableFull => {
                write!(
                    f,
                    "the member table is full: {MEMBERS_MAX} drives, none removed"
                )
            }
        }
    }
}

impl core::error::Error for ChangeError {}

/// Why rows are not a member table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TableError {
    /// More than [`MEMBERS_MAX`] rows.
    TooMany {
        /// Rows found.
        found: usize,
    },
    /// Two rows name one member.
    Twice {
        /// The member.
        id: MemberId,
    },
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { found } => {
                write!(f, "a member table of {found} rows, {MEMBERS_MAX} at most")
            }
            Self::Twice { id } => write!(f, "the member table names {id} twice"),
        }
    }
}

impl core::error::Error for TableError {}

/// All drives a pool has or had.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemberTable(Vec<Member>);

impl MemberTable {
    /// A table of these rows, in any order.
    ///
    /// # Errors
    /// Too many rows, or one member twice.
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
            Change::Join { role, size_bytes } => self.join(role, size_bytes, generation),
            Change::Return(id) => {
                self.step(id, MemberState::Lost, MemberState::Rebuilding, generation)
            }
            Change::Rebuilt(id) => {
                self.step(id, MemberState::Rebuilding, MemberState::Active, generation)
            }
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
        for member in &mut self.0 {
            let state = if promoted == Some(member.id) {
                MemberState::Active
            } else if member.state.is_voter() && !is_present(member.id) {
                MemberState::Lost
            } else {
                continue;
            };
            member.state = state;
            member.since = generation;
        }
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

    fn join(
        &mut self,
        role: Role,
        size_bytes: u64,
        generation: TableGeneration,
    ) -> Result<MemberId, ChangeError> {
        let highest = self.0.last().map(|member| member.id.0);
        let id = match highest {
            None => MemberId(0),
            Some(u32::MAX) => return Err(ChangeError::TableFull),
            Some(highest) => MemberId(highest + 1),
        };
        if self.0.len() >= MEMBERS_MAX {
            let tombstone = self
                .0
                .iter()
                .position(|member| member.state == MemberState::Removed);
            self.0.remove(tombstone.ok_or(ChangeError::TableFull)?);
        }
        let state = MemberState::Rebuilding;
        self.0.push(Member {
            id,
            role,
            state,
            size_bytes,
            since: generation,
        });
        Ok(id)
    }
}
