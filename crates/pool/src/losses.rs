//! The loss of a drive, from the array that notices it to the labels that commit it.

use crate::label::{Change, ChangeError, CommitError, MemberId, MemberState, Membership};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use varve_io::{Completion, Done, IoError};

/// Commits losses of one tier's members. A degraded write is acknowledged only after this
/// (design.md 4.2).
pub(crate) struct Losses {
    membership: Rc<Membership>,
    /// Who sits in which slot; `None` if nobody does.
    ids: RefCell<Vec<Option<MemberId>>>,
    count: Rc<Cell<u64>>,
}

impl Losses {
    pub(crate) fn new(membership: Rc<Membership>, ids: Vec<Option<MemberId>>) -> Self {
        Self {
            membership,
            ids: RefCell::new(ids),
            count: Rc::default(),
        }
    }

    /// Slots of the tier.
    pub(crate) fn slots(&self) -> usize {
        self.ids.borrow().len()
    }

    /// Who sits in a slot.
    pub(crate) fn seated(&self, slot: usize) -> Option<MemberId> {
        self.ids.borrow()[slot]
    }

    /// Another member takes a slot.
    pub(crate) fn seat(&self, slot: usize, id: MemberId) {
        self.ids.borrow_mut()[slot] = Some(id);
    }

    /// Losses committed since the start.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    /// Commits the loss of a member; nothing happens if it is lost or removed already.
    pub(crate) async fn commit(&self, id: MemberId) -> Result<(), CommitError> {
        commit(&self.membership, id, &self.count).await
    }
}

async fn commit(
    membership: &Rc<Membership>,
    id: MemberId,
    count: &Cell<u64>,
) -> Result<(), CommitError> {
    let state = membership.state();
    let is_new = state
        .members
        .get(id)
        .is_some_and(|row| row.state.is_voter());
    match membership.change(Change::Lose(id)).await {
        Ok(_) => {
            count.set(count.get() + u64::from(is_new));
            Ok(())
        }
        Err(CommitError::Refused(ChangeError::IllegalStep {
            from: MemberState::Lost | MemberState::Removed,
            ..
        })) => Ok(()),
        Err(error) => Err(error),
    }
}

impl varve_array::Membership for Losses {
    fn lost(&self, member: usize, _why: IoError) -> Completion {
        let (membership, count) = (Rc::clone(&self.membership), Rc::clone(&self.count));
        let Some(id) = self.seated(member) else {
            return Completion::ready(Ok(Done::Nothing));
        };
        Completion::flow(async move {
            match commit(&membership, id, &count).await {
                Ok(()) => Ok(Done::Nothing),
                Err(_) => Err(IoError::Gone),
            }
        })
    }
}
