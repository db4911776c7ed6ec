//! A new pool.

use crate::label::change::TableError;
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
    /// A drive has a label already; erase it if nothing on it is needed.
    NotBlank {
        /// Number of the drive in the caller's order.
        drive: usize,
    },
    /// A drive failed; those before it carry labels of the pool already.
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
        }
    }
}

impl core::error::Error for CreateError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::Table(error) => Some(error),
            Self::NotBlank { .. } | Self::NoFast => None,
        }
    }
}

/// Labels blank drives as the members 0, 1, … of a new pool, clean and owned by nobody; their slots
/// are counted by tier, in the same order. The pool
/// exists when all have their label; it is then imported like any other.
///
/// # Errors
/// [`CreateError`]; after `Io` the drives must be erased before another attempt.
pub async fn create(
    pool: PoolId,
    name: Name,
    geometry: Geometry,
    drives: &[(Role, Rc<LabelStore>)],
) -> Result<(), CreateError> {
    let (state, generation) = (MemberState::Active, TableGeneration::new(0, 1));
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
    let taken = drives.iter().position(|(_, store)| store.label().is_some());
    if let Some(drive) = taken {
        return Err(CreateError::NotBlank { drive });
    }
    let state = LabelState {
        pool,
        name,
        generation,
        epoch: 0,
        owner: Owner::NOBODY,
        heartbeat: 0,
        clean: true,
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
