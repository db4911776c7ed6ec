//! The loss of a drive, from the array that notices it to the labels that commit it.

use crate::label::{Change, ChangeError, CommitError, MemberId, MemberState, Membership};
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_io::{Completion, Done, IoError};

/// Commits losses of one tier's members. A degraded write is acknowledged only after this
/// (design.md 4.2).
pub(crate) struct Losses {
    membership: Rc<Membership>,
    /// Member ids in the array's order.
    ids: Vec<MemberId>,
}

impl Losses {
    pub(crate) fn new(membership: Rc<Membership>, ids: Vec<MemberId>) -> Self {
        Self { membership, ids }
    }
}

impl varve_array::Membership for Losses {
    fn lost(&self, member: usize, _why: IoError) -> Completion {
        let membership = Rc::clone(&self.membership);
        let id = self.ids[member];
        Completion::flow(async move {
            match membership.change(Change::Lose(id)).await {
                Ok(_) => Ok(Done::Nothing),
                Err(CommitError::Refused(ChangeError::IllegalStep {
                    from: MemberState::Lost,
                    ..
                })) => Ok(Done::Nothing),
                Err(_) => Err(IoError::Gone),
            }
        })
    }
}
