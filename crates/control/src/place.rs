//! A drive's place in a pool: as the open pool has it, or as the labels of one that is not open have it.

use crate::error::ControlError;
use crate::random;
use crate::registry::Entry;
use crate::replace::ReplaceDrive;
use crate::running::Running;
use crate::scan::{self, Scan};
use crate::status::{drive_name, place_name};
use varve_format::{Geometry, MemberState as LabelState};
use varve_pool::label::{MemberState, Role};
use varve_pool::{Slot, SlotState, least_bytes};
use varve_units::BLOCK_BYTES;

/// What is in a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Member `0`, which holds everything, or is on its way out.
    Used(u32),
    /// Member `0`, which is being filled.
    Filling(u32),
    /// Nothing that may be used.
    Lost,
}

/// A drive's place in a pool.
pub(crate) struct Place {
    /// The pool's identity.
    pub(crate) pool: [u8; 16],
    pub(crate) slot: Slot,
    pub(crate) state: State,
    /// Members that were in this place and may come back to it.
    members: Vec<u32>,
    /// All members that are in a place of the pool or may come back to one.
    all: Vec<u32>,
    /// Bytes of a drive that fits at least, labels included.
    pub(crate) least_bytes: u64,
    /// Bytes of its logical sectors at most.
    pub(crate) lba_bytes: u32,
}

impl Place {
    fn new(pool: [u8; 16], slot: Slot, geometry: &Geometry) -> Self {
        Self {
            pool,
            slot,
            state: State::Lost,
            members: Vec::new(),
            all: Vec::new(),
            least_bytes: least_bytes(geometry, slot.role),
            lba_bytes: match slot.role {
                Role::Fast => geometry.lba_bytes,
                Role::Dense => BLOCK_BYTES as u32,
            },
        }
    }

    /// As the open pool has it.
    ///
    /// # Errors
    /// [`ControlError::NoDrive`].
    pub(crate) fn open(running: &Running, drive: &str) -> Result<Self, ControlError> {
        let slots = running.pool.slots();
        let mut slots = slots.iter();
        let found = slots.find(|status| drive_name(status.slot.role, status.slot.number) == drive);
        let found = found.ok_or_else(|| no_drive(&running.name, drive))?;
        let table = running.pool.membership().state().members;
        let mut place = Self::new(running.id.0, found.slot, running.pool.geometry());
        place.state = match (found.state, found.member) {
            (SlotState::Lost, _) | (_, None) => State::Lost,
            (SlotState::Rebuilding, Some(id)) => State::Filling(id.0),
            (_, Some(id)) => State::Used(id.0),
        };
        let rows = table.members().iter();
        let rows = rows.filter(|row| row.state != MemberState::Removed);
        let own = (rows.clone()).filter(|row| row.is_at(found.slot.role, found.slot.number));
        place.members = own.map(|row| row.id.0).collect();
        place.all = rows.map(|row| row.id.0).collect();
        Ok(place)
    }

    /// As the labels have it that are found where the drives of a pool were last, and on the new drive.
    ///
    /// # Errors
    /// [`ControlError::NoDrive`]; nothing with a label of the pool is there.
    pub(crate) fn closed(
        entry: &Entry,
        wanted: &ReplaceDrive,
        scans: &[Scan],
    ) -> Result<Self, ControlError> {
        let id = random::parse(&entry.id);
        let labels = scans.iter().filter_map(Scan::label);
        let newest = scan::newest(labels.filter(|label| Some(label.pool) == id));
        let Some(newest) = newest else {
            let findings = scans.iter().map(crate::open::not_of_pool).collect();
            let pool = entry.name.clone();
            return Err(ControlError::Missing { pool, findings });
        };
        let all = newest.members.iter();
        let all = all.filter(|member| member.state != LabelState::Removed);
        let is_it =
            |member: &&varve_format::Member| place_name(member.role, member.slot) == wanted.drive;
        let rows: Vec<_> = all.clone().filter(is_it).collect();
        let slot = rows.first().and_then(|row| slot_of(row));
        let slot = slot.ok_or_else(|| no_drive(&entry.name, &wanted.drive))?;
        let is_here = |row: &varve_format::Member| {
            scans.iter().any(|scan| {
                let label = scan.label();
                label.is_some_and(|label| (label.pool, label.drive) == (newest.pool, row.id))
                    && scan.bytes() >= Some(row.size_bytes)
            })
        };
        let mut place = Self::new(newest.pool, slot, &newest.geometry);
        let used = rows.iter().find(|row| row.state != LabelState::Failed);
        place.state = match used.filter(|row| is_here(row)) {
            None => State::Lost,
            Some(row) if row.state == LabelState::Rebuilding => State::Filling(row.id),
            Some(row) => State::Used(row.id),
        };
        place.members = rows.iter().map(|row| row.id).collect();
        place.all = all.map(|row| row.id).collect();
        Ok(place)
    }

    /// True if this member is being filled here.
    pub(crate) fn is_filling(&self, member: u32) -> bool {
        self.state == State::Filling(member)
    }

    /// True if this member is whole here.
    pub(crate) fn is_whole(&self, member: u32) -> bool {
        self.state == State::Used(member)
    }

    /// True if another drive has taken this member's place for good: it is of no use to the pool.
    pub(crate) fn has_left(&self, member: u32) -> bool {
        !self.all.contains(&member)
    }

    /// True if this member is lost and may be filled again.
    pub(crate) fn returns(&self, member: u32) -> bool {
        self.state == State::Lost && self.members.contains(&member)
    }
}

fn slot_of(row: &varve_format::Member) -> Option<Slot> {
    let role = match row.role {
        varve_format::MemberRole::Fast => Role::Fast,
        varve_format::MemberRole::Dense => Role::Dense,
        varve_format::MemberRole::Spare => return None,
    };
    let number = row.slot;
    Some(Slot { role, number })
}

fn no_drive(pool: &str, drive: &str) -> ControlError {
    let (pool, drive) = (pool.to_owned(), drive.to_owned());
    ControlError::NoDrive { pool, drive }
}
