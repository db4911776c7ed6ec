//! The choice among labels that nobody may have written so: drawn tables, generations, epochs, owners.
//!
//! Labels that sessions leave behind are enumerated in `label_quorum`. Here whatever passes a checksum may be found, as
//! after damage that is older than the checksum, or from a hostile drive: the choice ends, puts each drive in one place, and
//! takes for the pool only what the labels themselves bear out.

use crate::common::{ME, OTHER, POOL, Rng, geometry, name};
use std::collections::BTreeSet;
use varve_io::IoError;
use varve_pool::label::{
    Finding, Import, ImportError, Label, LabelState, Loss, Member, MemberId, MemberState,
    MemberTable, Owner, PoolId, Role, TableGeneration, Terms, choose,
};

const RUNS: u64 = 60_000;
/// Few, so that drives claim the same one and tables name those that are there.
const IDS: u64 = 6;

fn generation(rng: &mut Rng) -> TableGeneration {
    let edge = rng.one_in(64);
    let epoch = if edge { u32::MAX } else { rng.below(3) as u32 };
    let count = if rng.one_in(64) {
        u32::MAX
    } else {
        rng.below(3) as u32
    };
    TableGeneration::new(epoch, count)
}

fn member(rng: &mut Rng, id: u32, newest: TableGeneration) -> Member {
    let states = [
        MemberState::Active,
        MemberState::Active,
        MemberState::Lost,
        MemberState::Rebuilding,
        MemberState::Removed,
    ];
    let since = generation(rng).min(newest);
    Member {
        id: MemberId(id),
        role: if rng.one_in(2) {
            Role::Fast
        } else {
            Role::Dense
        },
        slot: rng.below(IDS) as u8,
        state: states[rng.index(states.len())],
        held_all: rng.one_in(2),
        size_bytes: 1 << 30,
        since: if rng.one_in(3) { newest } else { since },
    }
}

/// A table, empty now and then; members that would share a slot are left out.
fn table(rng: &mut Rng, newest: TableGeneration) -> MemberTable {
    let mut rows = Vec::new();
    for id in 0..IDS as u32 {
        if rng.one_in(5) {
            continue;
        }
        rows.push(member(rng, id, newest));
        if MemberTable::new(rows.clone()).is_err() {
            rows.pop();
        }
    }
    MemberTable::new(rows).expect("rows that fit one another")
}

/// What lies on some drives: most labels repeat one of two states, as labels of a pool do.
fn findings(rng: &mut Rng) -> Vec<Finding> {
    let state = |rng: &mut Rng| {
        let generation = generation(rng);
        LabelState {
            pool: if rng.one_in(24) {
                PoolId([9; 16])
            } else {
                POOL
            },
            name: name(),
            generation,
            epoch: generation.epoch().saturating_add(rng.below(2) as u32),
            owner: [ME, ME, OTHER, Owner::NOBODY][rng.index(4)],
            heartbeat: rng.below(3),
            clean: rng.one_in(2),
            unfinished: rng.one_in(16),
            geometry: geometry(),
            members: table(rng, generation),
        }
    };
    let common = [state(rng), state(rng)];
    let count = rng.below(IDS + 1);
    let mut ids: Vec<u32> = (0..IDS as u32).collect();
    let finding = |_| match rng.below(12) {
        0 => Finding::Blank,
        1 => Finding::Unreadable(IoError::Media),
        2 => Finding::OtherUse {
            pool: POOL,
            id: MemberId(0),
        },
        kind => {
            let state = match kind {
                3 => state(rng),
                kind => common[usize::from(kind % 4 == 0)].clone(),
            };
            let own = ids.swap_remove(rng.index(ids.len()));
            if rng.one_in(24) {
                ids.push(own);
            }
            Finding::Label(Label {
                own: MemberId(own),
                state,
            })
        }
    };
    (0..count).map(finding).collect()
}

/// The labels of the pool, by drive.
fn labels(found: &[Finding]) -> Vec<(usize, &Label)> {
    let drives = found.iter().enumerate();
    let labels = drives.filter_map(|(drive, finding)| match finding {
        Finding::Label(label) if label.state.pool == POOL => Some((drive, label)),
        _ => None,
    });
    labels.collect()
}

/// True if more than half of these are here, or half with the lowest: counted anew.
fn decide(voters: &BTreeSet<u32>, here: &BTreeSet<u32>) -> bool {
    let (all, some) = (voters.len(), voters.intersection(here).count());
    let lowest = voters.first().is_some_and(|lowest| here.contains(lowest));
    some * 2 > all || (some * 2 == all && lowest)
}

/// Each drive is in one place of what was chosen.
fn check_places(found: &[Finding], import: &Import) {
    let mut places: Vec<usize> = import.present.iter().map(|present| present.drive).collect();
    places.extend(import.stale.iter().map(|stale| stale.drive));
    places.extend(import.foreign.iter().map(|(drive, _)| *drive));
    places.extend(&import.blank);
    places.extend(&import.other_use);
    places.extend(import.unreadable.iter().map(|(drive, _)| *drive));
    places.sort_unstable();
    assert_eq!(places, (0..found.len()).collect::<Vec<_>>());
}

/// What was chosen follows from the labels.
fn check(found: &[Finding], terms: Terms, import: &Import) {
    check_places(found, import);
    let labels = labels(found);
    let here: BTreeSet<u32> = labels.iter().map(|(_, label)| label.own.0).collect();
    assert_eq!(here.len(), labels.len(), "no two drives are one member");
    let adopted = &import.state;
    for (_, label) in &labels {
        assert!(label.state.generation <= adopted.generation);
        assert!(label.state.epoch < import.epoch && adopted.generation.epoch() < import.epoch);
    }
    let is_ours = [terms.owner, Owner::NOBODY].contains(&adopted.owner);
    assert!(is_ours || terms.take_over);
    let rows = adopted.members.members();
    let ids = |wanted: fn(&Member, TableGeneration) -> bool| -> BTreeSet<u32> {
        let rows = rows.iter().filter(|row| wanted(row, adopted.generation));
        rows.map(|row| row.id.0).collect()
    };
    let used = |row: &Member| matches!(row.state, MemberState::Active | MemberState::Rebuilding);
    for present in &import.present {
        let row = adopted.members.get(present.id).expect("a row of the table");
        let is_promoted = import.loss.as_ref().and_then(Loss::promoted) == Some(row.id);
        assert!(used(row) || is_promoted, "{row:?}");
    }
    let voters = ids(|row, _| matches!(row.state, MemberState::Active | MemberState::Rebuilding));
    let deciders = ids(|row, now| match row.state {
        MemberState::Active => true,
        MemberState::Lost => row.since == now,
        MemberState::Rebuilding => row.since != now,
        MemberState::Removed => false,
    });
    let has_data = rows.iter().any(|row| {
        (row.role, row.state) == (Role::Fast, MemberState::Active) && here.contains(&row.id.0)
    });
    let is_whole = has_data && decide(&voters, &here) && decide(&deciders, &here);
    assert_eq!(is_whole, import.loss.is_none());
    assert!(is_whole || terms.accept_loss);
}

#[test]
fn whatever_is_found_the_choice_follows_from_it() {
    let mut rng = Rng::new(1);
    let (mut whole, mut losing) = (0, 0);
    let mut refusals = BTreeSet::new();
    for _ in 0..RUNS {
        let found = findings(&mut rng);
        let terms = Terms {
            owner: ME,
            take_over: rng.one_in(2),
            accept_loss: rng.one_in(2),
        };
        match choose(POOL, &found, terms) {
            Ok(import) => {
                check(&found, terms, &import);
                whole += u32::from(import.loss.is_none());
                losing += u32::from(import.loss.is_some());
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refusals.insert(match error {
                    ImportError::NoLabel { .. } => 0,
                    ImportError::Duplicate { .. } => 1,
                    ImportError::Conflict { .. } => 2,
                    ImportError::OwnedElsewhere { .. } => 3,
                    ImportError::WouldLose(_) => 4,
                    ImportError::NoFast { .. } => 5,
                    ImportError::EpochsUsedUp => 6,
                    other => panic!("{other}"),
                });
            }
        }
    }
    assert!(whole > 1_000 && losing > 1_000, "{whole} and {losing}");
    assert_eq!(refusals.len(), 7, "{refusals:?}");
}
