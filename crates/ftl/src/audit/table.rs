//! The unit table against itself, its lists and the map, within one turn.

use super::snapshot::Snapshot;
use super::{AuditError, AuditReport, everyone, shards};
use crate::geometry::{Tier, UnitId};
use crate::shard::Shard;
use crate::shared::Shared;
use crate::units::UnitState;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use alloc::vec::Vec;

/// True for the states in which a unit may hold what the map or a start needs.
pub(super) const fn is_in_use(state: UnitState) -> bool {
    matches!(
        state,
        UnitState::Open | UnitState::Closed | UnitState::Cleaning
    )
}

/// Checks counts, lists, the commit's chunks and the bound of mapped blocks.
pub(super) fn check(
    shared: &Shared,
    snapshot: &Snapshot,
    report: &mut AuditReport,
) -> Result<(), AuditError> {
    let mut mapped = BTreeMap::new();
    for reference in &snapshot.references {
        *mapped.entry(reference.place.unit).or_insert(0) += 1;
    }
    for id in all(shared) {
        report.phantoms += check_bits(shared, id, mapped.get(&id).copied().unwrap_or(0))?;
    }
    check_leaf_counts(shared)?;
    check_lists(shared)?;
    check_commit(shared)?;
    let used = |shard: Rc<Shard>| shard.map.borrow().used_upper();
    report.used_upper = shards(shared)?.into_iter().map(used).sum();
    if report.used_upper != shared.used_upper() {
        return Err(AuditError::UsedShownWrong {
            expected: report.used_upper,
            found: shared.used_upper(),
        });
    }
    if report.used_upper < report.mapped {
        return Err(AuditError::UsedBelowMapped {
            expected: report.mapped,
            found: report.used_upper,
        });
    }
    Ok(())
}

fn all(shared: &Shared) -> impl Iterator<Item = UnitId> {
    let fast = shared.units.ids(Tier::Fast);
    fast.chain(shared.units.ids(Tier::Dense))
}

/// Returns the bits of a unit that are set for no mapped block.
fn check_bits(shared: &Shared, id: UnitId, mapped: u32) -> Result<u64, AuditError> {
    let unit = shared.units.unit(id);
    let bits: u32 = unit.words().iter().map(|word| word.count_ones()).sum();
    let (live, leaves, write_pointer) = (unit.live(), unit.leaves(), unit.write_pointer());
    if bits != live {
        return Err(AuditError::LiveCountWrong {
            unit: id,
            expected: bits,
            found: live,
        });
    }
    if bits < mapped {
        return Err(AuditError::FewerBitsThanBlocks {
            unit: id,
            expected: mapped,
            found: bits,
        });
    }
    if unit.state() == UnitState::Free && (live, leaves, write_pointer) != (0, 0, 0) {
        return Err(AuditError::FreeUnitNotEmpty {
            unit: id,
            live,
            leaves,
            write_pointer,
        });
    }
    Ok(u64::from(bits - mapped))
}

fn check_leaf_counts(shared: &Shared) -> Result<(), AuditError> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for shard in shards(shared)? {
        let map = shard.map.borrow();
        for sector in map.stored_sectors() {
            let chunk = shared.units.geometry().chunk_of(sector);
            *counts.entry(chunk).or_default() += 1;
        }
    }
    for unit in shared.units.ids(Tier::Fast) {
        let expected = counts.get(&unit.index).copied().unwrap_or(0);
        let found = shared.units.unit(unit).leaves();
        if expected != found {
            return Err(AuditError::LeafCountWrong {
                unit,
                expected,
                found,
            });
        }
    }
    Ok(())
}

/// Free units stand in the free lists, open ones in a lane's or a stream's hand, each once;
/// what waits for a checkpoint is emptied.
fn check_lists(shared: &Shared) -> Result<(), AuditError> {
    let control = shared.control();
    let mut listed = BTreeSet::new();
    let free = [Tier::Fast, Tier::Dense].map(|tier| control.free_list(tier));
    for unit in free.concat() {
        list(shared, unit, UnitState::Free, &mut listed)?;
    }
    for unit in control.emptied_list() {
        list(shared, unit, UnitState::Emptied, &mut listed)?;
    }
    for unit in in_hand(shared)? {
        list(shared, unit, UnitState::Open, &mut listed)?;
    }
    for unit in all(shared) {
        let state = shared.units.unit(unit).state();
        if matches!(state, UnitState::Free | UnitState::Open) && !listed.contains(&unit) {
            return Err(AuditError::ListedNowhere { unit, state });
        }
    }
    Ok(())
}

/// Chunks of the lanes, open groups of the streams and those in nobody's hand.
fn in_hand(shared: &Shared) -> Result<Vec<UnitId>, AuditError> {
    let mut units: Vec<UnitId> = Vec::new();
    for view in everyone(shared)? {
        let chunks = view.shard().lane.borrow().chunks();
        units.extend(chunks.into_iter().map(UnitId::chunk));
        let groups = view.streams.open_groups();
        units.extend(groups.into_iter().map(UnitId::group));
    }
    let idle = shared.control().open_groups.idle();
    units.extend(idle.into_iter().map(UnitId::group));
    Ok(units)
}

fn list(
    shared: &Shared,
    unit: UnitId,
    expected: UnitState,
    listed: &mut BTreeSet<UnitId>,
) -> Result<(), AuditError> {
    let found = shared.units.unit(unit).state();
    if found != expected {
        return Err(AuditError::ListedInState {
            unit,
            expected,
            found,
        });
    }
    if !listed.insert(unit) {
        return Err(AuditError::ListedTwice { unit, state: found });
    }
    Ok(())
}

/// The newest commit and its parts lie in chunks in use. Emptied they must not be either: they
/// count as room to come and are none before the parts leave the window.
fn check_commit(shared: &Shared) -> Result<(), AuditError> {
    let control = shared.control();
    let parts = control.parts.borrow();
    let places = parts.iter().map(|part| (part.checkpoint, part.sector));
    let commit = control.commit.get();
    let commit = commit.map(|commit| (commit.checkpoint, commit.sector));
    for (checkpoint, sector) in places.chain(commit) {
        let unit = UnitId::chunk(shared.units.geometry().chunk_of(sector));
        let state = shared.units.unit(unit).state();
        if !is_in_use(state) {
            return Err(AuditError::PartNotInUse {
                checkpoint,
                sector,
                unit,
                state,
            });
        }
    }
    Ok(())
}
