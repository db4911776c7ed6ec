//! One step of one member, and why it or a whole table is refused.

use crate::label::member::{MemberId, MemberState, Role};
use crate::label::table::MEMBERS_MAX;
use core::fmt;

/// A step of one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Writes will be acknowledged without it from the commit on.
    Lose(MemberId),
    /// A new drive joins and is rebuilt; it gets the lowest id never used.
    Join {
        /// The tier it serves.
        role: Role,
        /// The slot it takes.
        slot: u8,
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
    /// The other dense members do not hold everything.
    DenseNeeded {
        /// The member.
        id: MemberId,
    },
    /// The slot has a member that is active or rebuilding.
    SlotTaken {
        /// The tier.
        role: Role,
        /// The slot.
        slot: u8,
        /// Its member.
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
                write!(f, "{id} is the last live fast drive and cannot be given up")
            }
            Self::DenseNeeded { id } => {
                write!(
                    f,
                    "the dense tier does not hold everything without {id}: it cannot be given up"
                )
            }
            Self::SlotTaken { role, slot, id } => {
                write!(f, "slot {slot} of the {role} tier is taken by {id}")
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
    /// Two members in one slot are active or rebuilding.
    SlotTwice {
        /// The tier.
        role: Role,
        /// The slot.
        slot: u8,
    },
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { found } => {
                write!(f, "a member table of {found} rows, {MEMBERS_MAX} at most")
            }
            Self::Twice { id } => write!(f, "the member table names {id} twice"),
            Self::SlotTwice { role, slot } => {
                write!(f, "slot {slot} of the {role} tier has two members")
            }
        }
    }
}

impl core::error::Error for TableError {}
