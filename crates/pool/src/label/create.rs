//! A new pool.

use crate::label::change::TableError;
use crate::label::finding::Finding;
use crate::label::generation::TableGeneration;
use crate::label::member::{Member, MemberId, MemberState, Role};
use crate::label::state::{Label, LabelState, Owner, PoolId};
use crate::label::store::LabelStore;
use crate::label::table::MemberTable;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::fmt;
use varve_format::{Geometry, Name};
use varve_io::IoError;

/// Why a pool was not created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CreateError {
    /// A drive has a label already, and not of a creation of the same pool that was cut short;
    /// erase it if nothing on it is needed.
    NotBlank {
        /// Number of the drive in the caller's order.
        drive: usize,
    },
    /// A drive failed; those before it may carry labels of the pool already.
    Io {
        /// Number of the drive in the caller's order.
        drive: usize,
        /// Why.
        error: IoError,
    },
    /// There is no fast drive.
    NoFast,
    /// The drives do not make a member table.
    Table(TableError),
    /// Creations were cut short so often that there is no epoch left; erase the drives.
    EpochsUsedUp,
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBlank { drive } => write!(f, "drive {drive} of those given has a label"),
            Self::Io { drive, .. } => {
                write!(
                    f,
                    "drive {drive} of those given failed to take its first label"
                )
            }
            Self::NoFast => f.write_str("a pool needs a fast drive"),
            Self::Table(_) => f.write_str("the drives given do not make a pool"),
            Self::EpochsUsedUp => f.write_str("the drives given have no epoch left"),
        }
    }
}

impl core::error::Error for CreateError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::Table(error) => Some(error),
            Self::NotBlank { .. } | Self::NoFast | Self::EpochsUsedUp => None,
        }
    }
}

/// Labels blank drives as the members 0, 1, … of a new pool, clean and owned by nobody; their slots
/// are counted by tier, in the same order. The pool is imported like any other then, and exists when
/// [`Membership::finish_creation`](crate::label::Membership::finish_creation) has said so on a quorum.
///
/// Drives of a creation that was cut short before that serve as blank ones, if they are given in the
/// same order: the new labels are of a younger generation and epoch than all that was written
/// then, so nothing of it counts, be the pool's identity the same or another. A drive that the old
/// creation took for another member may have missed that it ended: it is refused.
///
/// # Errors
/// [`CreateError`]; after `Io` the same creation may be tried again.
pub async fn create(
    pool: PoolId,
    name: Name,
    geometry: Geometry,
    drives: &[(Role, Rc<LabelStore>)],
) -> Result<(), CreateError> {
    let epoch = epoch_above(drives)?;
    let (state, generation) = (MemberState::Active, TableGeneration::new(epoch, 1));
    let mut slots = [0_u8; 2];
    let rows = drives.iter().zip(0..).map(|((role, store), id)| Member {
        id: MemberId(id),
        role: *role,
        slot: next_slot(&mut slots, *role),
        state,
        held_all: true,
        size_bytes: store.drive().info().bytes,
        since: TableGeneration::ZERO,
    });
    let members = MemberTable::new(rows.collect::<Vec<_>>()).map_err(CreateError::Table)?;
    if members.in_state(Role::Fast, state).count() == 0 {
        return Err(CreateError::NoFast);
    }
    let state = LabelState {
        pool,
        name,
        generation,
        epoch,
        owner: Owner::NOBODY,
        heartbeat: 0,
        clean: true,
        unfinished: true,
        geometry,
        members,
    };
    for (drive, (id, (_, store))) in (0..).map(MemberId).zip(drives).enumerate() {
        let label = Label {
            own: id,
            state: state.clone(),
        };
        let outcome = store.write(&label).await;
        outcome.map_err(|error| CreateError::Io { drive, error })?;
    }
    Ok(())
}

/// An epoch above all that creations which were cut short have claimed on these drives; 0 if all
/// are blank.
fn epoch_above(drives: &[(Role, Rc<LabelStore>)]) -> Result<u32, CreateError> {
    let mut epoch = 0;
    for (drive, (role, store)) in drives.iter().enumerate() {
        let label = match store.finding() {
            Finding::Blank => continue,
            Finding::Unreadable(error) => return Err(CreateError::Io { drive, error }),
            Finding::OtherUse { .. } => return Err(CreateError::NotBlank { drive }),
            Finding::Label(label) => label,
        };
        let members = &label.state.members;
        let row = members.get(label.own);
        let is_same = label.state.unfinished
            && label.own.0 as usize == drive
            && members.members().len() == drives.len()
            && row.is_some_and(|row| row.role == *role);
        if !is_same {
            return Err(CreateError::NotBlank { drive });
        }
        let above = label.state.epoch.checked_add(1);
        epoch = epoch.max(above.ok_or(CreateError::EpochsUsedUp)?);
    }
    Ok(epoch)
}

/// The next slot of a tier, in the order of the drives given.
const fn next_slot(slots: &mut [u8; 2], role: Role) -> u8 {
    let [fast, dense] = slots;
    let next = match role {
        Role::Fast => fast,
        Role::Dense => dense,
    };
    let slot = *next;
    // More drives than a table can have are refused with the table.
    *next = next.saturating_add(1);
    slot
}
