//! The outcome of looking at a pool's drives: what to use, what is missing, why not.

use crate::label::generation::TableGeneration;
use crate::label::member::{MemberId, MemberState, Role};
use crate::label::quorum::Voters;
use crate::label::state::{LabelState, Owner, PoolId};
use alloc::vec::Vec;
use core::fmt;
use varve_io::IoError;
use varve_units::Nanos;

/// A member to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Present {
    /// Number of the drive in the caller's order.
    pub drive: usize,
    /// The member.
    pub id: MemberId,
    /// Its tier.
    pub role: Role,
    /// Active or rebuilding.
    pub state: MemberState,
}

/// A drive of the pool that must not be used: lost, removed or unknown to the adopted table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stale {
    /// Number of the drive in the caller's order.
    pub drive: usize,
    /// Who it says it is.
    pub id: MemberId,
    /// What the adopted table says of it, and since when; `None` if it has no such member.
    pub state: Option<(MemberState, TableGeneration)>,
    /// The generation of its own label.
    pub generation: TableGeneration,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, generation, .. } = self;
        match self.state {
            Some((state, since)) => {
                write!(
                    f,
                    "{id} is stale: {state} since {since}, its label is of {generation}"
                )
            }
            None => write!(
                f,
                "{id} is not in the member table, its label is of {generation}"
            ),
        }
    }
}

/// What an import on the terms «accept loss» gives up.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Loss {
    /// The drives found do not prove that no newer table was committed: everything since the
    /// adopted one may be lost.
    NoQuorum {
        /// The newest generation found.
        generation: TableGeneration,
        /// Who must be here by majority, or by half with the lowest.
        voters: Voters,
        /// Who of them is not.
        missing: Vec<MemberId>,
    },
    /// No fast drive with the newest data is here: every write since the stale one was declared
    /// lost is gone.
    NewestData {
        /// The fast drives that hold it.
        missing: Vec<MemberId>,
        /// The stale drive that would take their place.
        stale: MemberId,
        /// The generation that declared it lost.
        since: TableGeneration,
    },
}

impl Loss {
    /// The stale fast drive that becomes active if the loss is accepted.
    #[must_use]
    pub const fn promoted(&self) -> Option<MemberId> {
        match self {
            Self::NewestData { stale, .. } => Some(*stale),
            Self::NoQuorum { .. } => None,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoQuorum {
                generation,
                voters,
                missing,
            } => {
                let (here, all) = (voters.ids().len() - missing.len(), voters.ids().len());
                write!(f, "what was acknowledged after {generation}, if anything: ")?;
                write!(f, "only {here} of its {all} drives are here, missing ")?;
                list(f, missing)
            }
            Self::NewestData {
                missing,
                stale,
                since,
            } => {
                write!(
                    f,
                    "every write since {stale} was declared lost by {since}: "
                )?;
                f.write_str("the newest data is on missing ")?;
                list(f, missing)
            }
        }
    }
}

/// Prints members as «drive 1, drive 2».
fn list(f: &mut fmt::Formatter<'_>, ids: &[MemberId]) -> fmt::Result {
    for (index, id) in ids.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{id}")?;
    }
    Ok(())
}

/// Why a pool cannot be imported from these drives on these terms.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// No drive has a label of the pool.
    NoLabel {
        /// The pool asked for.
        pool: PoolId,
    },
    /// Two drives say they are the same member; one is a copy.
    Duplicate {
        /// The member.
        id: MemberId,
        /// One drive, in the caller's order.
        first: usize,
        /// The other.
        second: usize,
    },
    /// Two labels of one generation have different tables: never written by this code.
    Conflict {
        /// The generation.
        generation: TableGeneration,
        /// A drive whose table differs from another's.
        id: MemberId,
    },
    /// Another owner used the pool last and did not release it.
    OwnedElsewhere {
        /// That owner.
        owner: Owner,
        /// True if it shut the pool down in order.
        clean: bool,
        /// Its last heartbeat; if it grows, the owner is alive.
        heartbeat: u64,
    },
    /// Another owner still uses the pool: its labels changed while they were watched. Nothing was written.
    OwnerAlive {
        /// That owner.
        owner: Owner,
        /// The heartbeat that was found first.
        before: u64,
        /// The one that it wrote since; the same if something else in its labels has changed.
        heartbeat: u64,
        /// How long it was watched until then.
        watched: Nanos,
    },
    /// Acknowledged data would be lost, and the terms do not accept it.
    WouldLose(Loss),
    /// No fast drive that could be used is here, not even a stale one.
    NoFast {
        /// The fast drives with the newest data.
        missing: Vec<MemberId>,
    },
    /// The pool was imported 2^32 - 1 times.
    EpochsUsedUp,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLabel { pool } => write!(f, "no drive has a label of {pool}"),
            Self::Duplicate { id, first, second } => {
                write!(
                    f,
                    "drives {first} and {second} of those given both say they are {id}"
                )
            }
            Self::Conflict { generation, id } => {
                write!(f, "the label of {id} contradicts another of {generation}")
            }
            Self::OwnedElsewhere {
                owner,
                clean,
                heartbeat,
            } => {
                let how = if *clean {
                    "and shut it down"
                } else {
                    "and did not shut it down"
                };
                write!(
                    f,
                    "{owner} used the pool last {how} (heartbeat {heartbeat})"
                )
            }
            Self::OwnerAlive {
                owner,
                before,
                heartbeat,
                watched,
            } => {
                let seconds = watched.0.div_ceil(1_000_000_000);
                write!(
                    f,
                    "{owner} still uses the pool: within {seconds} s its heartbeat went from {before} to {heartbeat}"
                )
            }
            Self::WouldLose(loss) => write!(f, "the import would lose {loss}"),
            Self::NoFast { missing } => {
                f.write_str("no usable fast drive is here, the newest data is on missing ")?;
                list(f, missing)
            }
            Self::EpochsUsedUp => f.write_str("the pool has used up its import epochs"),
        }
    }
}

impl core::error::Error for ImportError {}

/// A pool ready to be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// The adopted label.
    pub state: LabelState,
    /// The epoch to claim: above every epoch seen.
    pub epoch: u32,
    /// The members to use.
    pub present: Vec<Present>,
    /// Active and rebuilding members that are not here.
    pub missing: Vec<MemberId>,
    /// Drives of the pool that must not be used.
    pub stale: Vec<Stale>,
    /// Drives of other pools.
    pub foreign: Vec<(usize, PoolId)>,
    /// Drives without a label.
    pub blank: Vec<usize>,
    /// Drives that were put to another use.
    pub other_use: Vec<usize>,
    /// Drives that cannot be read.
    pub unreadable: Vec<(usize, IoError)>,
    /// What is given up, if the terms accept it and there is something.
    pub loss: Option<Loss>,
}

impl Import {
    /// True if another owner may still use the pool: it did last, and has not shut it down.
    #[must_use]
    pub fn may_be_in_use(&self, by_other_than: Owner) -> bool {
        self.state.may_be_in_use(by_other_than)
    }
}
