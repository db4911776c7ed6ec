//! Import: which label counts.
//!
//! The label with the highest generation among those found is adopted, if the drives found are a
//! quorum of its voters *and* a quorum of its deciders (the voters of its predecessor). It may
//! have been committed or not; the session that imports proposes its steps again under its own
//! epoch before it does anything else, so a half-committed change is rolled forward.
//!
//! **Why that is safe.** Sessions follow one another (exclusive use is enforced elsewhere), and
//! each claims its epoch on a quorum before it writes a table, so generations are unique and grow
//! with time along what a quorum can see. Let L be the adopted label, a change from the committed
//! table S.
//! 1. A committed successor of L is durable on a quorum of L's voters. The drives found are such
//!    a quorum too, so they would show it, and L would not be the highest.
//! 2. A committed change K ≠ L from S is durable on a quorum of S's voters, L's deciders; the
//!    drives found would show it. If K were older than L, the session that proposed L would have
//!    seen it: it adopted S from, and claimed its epoch on, a quorum of S's voters. So there is
//!    none.
//! 3. S itself was committed before L was proposed, so every acknowledged change is in S, or is L.
//!
//! A *settled* label repeats a committed table; its deciders are its voters. It spares an import
//! the deciders of long ago. Who is active is read from the adopted table alone, never from a
//! drive's own label: a drive declared lost there is stale, whatever its label says.

use crate::label::finding::{Finding, Survey};
use crate::label::import::{Import, ImportError, Loss, Present, Stale};
use crate::label::member::{MemberId, MemberState, Role};
use crate::label::quorum::Voters;
use crate::label::state::{Label, LabelState, Owner, PoolId};
use alloc::vec::Vec;

/// Epochs left out when a loss is accepted: drives that are away may have been used since, and have epochs that nobody
/// here has seen. What was accepted must be the newer one when they come back, or it would be given up without a word
/// for what was given up. Arbitrary: more starts than a pool without its newest drives is likely to have seen.
pub(super) const EPOCHS_ABANDONED: u32 = 1 << 16;

/// On what terms to import.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// Who imports.
    pub owner: Owner,
    /// Import even if another owner used the pool last.
    pub take_over: bool,
    /// Import even without a quorum or without the newest data.
    pub accept_loss: bool,
}

/// Chooses what to import of `pool` from what was found on the drives, in the caller's order.
///
/// # Errors
/// Nothing to import, a doubt about what is newest, or terms that are too narrow.
pub fn choose(pool: PoolId, found: &[Finding], terms: Terms) -> Result<Import, ImportError> {
    let survey = Survey::of(pool, found);
    let newest = newest(pool, &survey.labels)?;
    refuse_duplicates(&survey.labels)?;
    refuse_conflicts(&newest, &survey.labels)?;
    let epoch_claimed = survey
        .labels
        .iter()
        .map(|(_, label)| label.state.epoch)
        .max();
    let epoch_claimed = epoch_claimed.unwrap_or(0).max(newest.generation.epoch());
    refuse_foreign_owner(&newest, terms)?;
    let is_here = |id| survey.labels.iter().any(|(_, label)| label.own == id);
    let loss = loss(&newest, &survey.labels)?;
    if let Some(loss) = &loss
        && !terms.accept_loss
    {
        return Err(ImportError::WouldLose(loss.clone()));
    }
    let step = if loss.is_some() { EPOCHS_ABANDONED } else { 1 };
    let epoch = epoch_claimed
        .checked_add(step)
        .ok_or(ImportError::EpochsUsedUp)?;
    let voters = newest.members.voters();
    let missing = voters
        .ids()
        .iter()
        .copied()
        .filter(|id| !is_here(*id))
        .collect();
    let (present, stale) = sort(&newest, &survey.labels, loss.as_ref());
    Ok(Import {
        state: newest,
        epoch,
        present,
        missing,
        stale,
        foreign: survey.foreign,
        blank: survey.blank,
        other_use: survey.other_use,
        unreadable: survey.unreadable,
        loss,
    })
}

/// The highest generation's state, with the highest heartbeat seen of it.
pub(super) fn newest(pool: PoolId, labels: &[(usize, &Label)]) -> Result<LabelState, ImportError> {
    let states = labels.iter().map(|(_, label)| &label.state);
    let newest = states.max_by_key(|state| (state.generation, state.heartbeat));
    newest.cloned().ok_or(ImportError::NoLabel { pool })
}

pub(super) fn refuse_duplicates(labels: &[(usize, &Label)]) -> Result<(), ImportError> {
    for (index, (first, label)) in labels.iter().enumerate() {
        let twin = labels
            .iter()
            .skip(index + 1)
            .find(|(_, other)| other.own == label.own);
        if let Some((second, _)) = twin {
            let (first, second) = (*first, *second);
            return Err(ImportError::Duplicate {
                id: label.own,
                first,
                second,
            });
        }
    }
    Ok(())
}

pub(super) fn refuse_conflicts(
    newest: &LabelState,
    labels: &[(usize, &Label)],
) -> Result<(), ImportError> {
    let generation = newest.generation;
    let mut equals = labels
        .iter()
        .filter(|(_, label)| label.state.generation == generation);
    match equals.find(|(_, label)| label.state.members != newest.members) {
        Some((_, label)) => Err(ImportError::Conflict {
            generation,
            id: label.own,
        }),
        None => Ok(()),
    }
}

pub(super) fn refuse_foreign_owner(newest: &LabelState, terms: Terms) -> Result<(), ImportError> {
    let owner = newest.owner;
    if owner == terms.owner || owner == Owner::NOBODY || terms.take_over {
        return Ok(());
    }
    let (clean, heartbeat) = (newest.clean, newest.heartbeat);
    Err(ImportError::OwnedElsewhere {
        owner,
        clean,
        heartbeat,
    })
}

/// What an import from these drives would lose, if anything.
fn loss(newest: &LabelState, labels: &[(usize, &Label)]) -> Result<Option<Loss>, ImportError> {
    let is_here = |id: MemberId| labels.iter().any(|(_, label)| label.own == id);
    let members = &newest.members;
    let active: Vec<_> = members.in_state(Role::Fast, MemberState::Active).collect();
    let has_newest = active.iter().any(|member| is_here(member.id));
    let lost = members.in_state(Role::Fast, MemberState::Lost);
    let promoted = lost
        .filter(|member| member.held_all && is_here(member.id))
        .max_by_key(|member| member.since);
    let missing_of = |voters: &Voters| -> Vec<MemberId> {
        voters
            .ids()
            .iter()
            .copied()
            .filter(|id| !is_here(*id))
            .collect()
    };
    if !has_newest {
        let missing = active.iter().map(|member| member.id).collect();
        let Some(promoted) = promoted else {
            return Err(ImportError::NoFast { missing });
        };
        let (stale, since) = (promoted.id, promoted.since);
        return Ok(Some(Loss::NewestData {
            missing,
            stale,
            since,
        }));
    }
    let generation = newest.generation;
    for voters in [members.deciders(generation), members.voters()] {
        if !voters.is_quorum(is_here) {
            let missing = missing_of(&voters);
            return Ok(Some(Loss::NoQuorum {
                generation,
                voters,
                missing,
            }));
        }
    }
    Ok(None)
}

/// Tells the drives to use from those that are stale.
fn sort(
    newest: &LabelState,
    labels: &[(usize, &Label)],
    loss: Option<&Loss>,
) -> (Vec<Present>, Vec<Stale>) {
    let promoted = loss.and_then(Loss::promoted);
    let (mut present, mut stale) = (Vec::new(), Vec::new());
    for (drive, label) in labels {
        let (drive, id) = (*drive, label.own);
        let row = newest.members.get(id);
        match row {
            Some(row) if promoted == Some(id) => {
                let (role, state) = (row.role, MemberState::Active);
                present.push(Present {
                    drive,
                    id,
                    role,
                    state,
                });
            }
            Some(row) if row.state.is_voter() => {
                let (role, state) = (row.role, row.state);
                present.push(Present {
                    drive,
                    id,
                    role,
                    state,
                });
            }
            _ => {
                let state = row.map(|row| (row.state, row.since));
                let generation = label.state.generation;
                stale.push(Stale {
                    drive,
                    id,
                    state,
                    generation,
                });
            }
        }
    }
    (present, stale)
}
