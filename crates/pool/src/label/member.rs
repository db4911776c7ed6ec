//! One drive of a pool, as the member table knows it.

use crate::label::generation::TableGeneration;
use core::fmt;

/// Identity of a drive within its pool; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MemberId(pub u32);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "drive {}", self.0)
    }
}

/// The tier a drive serves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// A side of the fast tier's mirror.
    Fast,
    /// A drive of the dense tier's array.
    Dense,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fast => "fast",
            Self::Dense => "dense",
        })
    }
}

/// What a member is good for.
///
/// Legal steps: nothing → `Rebuilding` (join), `Rebuilding` → `Active` (rebuilt), `Active` or
/// `Rebuilding` → `Lost`, `Lost` → `Rebuilding` (return), `Lost` → `Removed`. At most one step of a
/// member per generation. There is no step from `Lost` to `Active`, except for the one fast drive
/// that an import on the terms «accept loss» promotes. A member that is rebuilt takes the place of
/// the lost ones of its slot, which become `Removed` with the same step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MemberState {
    /// Holds all it should; every write goes to it.
    Active,
    /// Declared lost: writes were acknowledged without it. Its content is stale.
    Lost,
    /// Receives writes, but not yet everything that was there before.
    Rebuilding,
    /// Tombstone: never a member again.
    Removed,
}

impl MemberState {
    /// True if the member counts in quorums: it is expected to receive every label.
    #[must_use]
    pub const fn is_voter(self) -> bool {
        matches!(self, Self::Active | Self::Rebuilding)
    }
}

impl fmt::Display for MemberState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "live",
            Self::Lost => "lost",
            Self::Rebuilding => "rebuilding",
            Self::Removed => "removed",
        })
    }
}

/// One row of the member table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its identity.
    pub id: MemberId,
    /// Its tier.
    pub role: Role,
    /// Position in its tier's array, from 0; strips lie by it.
    pub slot: u8,
    /// What it is good for.
    pub state: MemberState,
    /// True if it held all it should when it got this state: a lost drive that did not is of no
    /// use to anyone.
    pub held_all: bool,
    /// Size of the drive, in bytes.
    pub size_bytes: u64,
    /// Generation that brought it into this state.
    pub since: TableGeneration,
}

impl Member {
    /// True if this is its slot.
    #[must_use]
    pub fn is_at(&self, role: Role, slot: u8) -> bool {
        (self.role, self.slot) == (role, slot)
    }
}
