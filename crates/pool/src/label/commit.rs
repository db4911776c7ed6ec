//! Writing one label to several members at once, until a quorum has it.

use crate::label::fence::Taken;
use crate::label::member::MemberId;
use crate::label::quorum::Voters;
use crate::label::state::Label;
use crate::label::store::LabelStore;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use varve_io::{Event, IoError, World};

use crate::label::change::ChangeError;
use crate::label::generation::TableGeneration;

/// A member that failed to take a label.
pub type Failed = (MemberId, IoError);

/// What a commit achieved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    /// The generation that holds the change.
    pub generation: TableGeneration,
    /// The member that changed; `None` for a shutdown.
    pub member: Option<MemberId>,
    /// Members known by then to have failed to take the label; more may follow as
    /// [`crate::label::Membership::take_suspects`].
    pub failed: Vec<Failed>,
}

/// Why a change was not committed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CommitError {
    /// Too few members took the label. Nothing more may be acknowledged that needs the change: whether it
    /// counts is decided by the next import, or, of losses alone, when they are asked for again.
    NoQuorum {
        /// The generation, or the one that stands while an epoch is claimed.
        generation: TableGeneration,
        /// Who decides.
        deciders: Voters,
        /// Who of them took the label.
        durable: Vec<MemberId>,
        /// Who failed, and why.
        failed: Vec<Failed>,
    },
    /// The change does not fit the member table; nothing happened.
    Refused(ChangeError),
    /// An earlier commit found no quorum.
    Stopped,
    /// The drives are another owner's by now; nothing was written.
    Fenced(Taken),
    /// The pool was shut down.
    Closed,
    /// The drive that should join has a label.
    NotBlank,
    /// The drive that should come back has another member's label, another pool's, or one that
    /// this session does not know.
    NotMember {
        /// The member it should be.
        id: MemberId,
    },
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoQuorum {
                generation,
                deciders,
                durable,
                failed,
            } => {
                let all = deciders.ids().len();
                let took = durable.len();
                write!(
                    f,
                    "labels of {generation} reached {took} of {all} drives, no quorum"
                )?;
                failed
                    .iter()
                    .try_for_each(|(id, error)| write!(f, ", {id}: {error}"))
            }
            Self::Refused(_) => f.write_str("the membership change does not fit the pool"),
            Self::Stopped => f.write_str("the pool has stopped: its labels lost their quorum"),
            Self::Fenced(taken) => write!(f, "the pool has stopped: {taken}"),
            Self::Closed => f.write_str("the pool is shut down, its members change no more"),
            Self::NotBlank => {
                f.write_str("the drive has a label and cannot join before it is erased")
            }
            Self::NotMember { id } => write!(f, "the drive's label is not an earlier one of {id}"),
        }
    }
}

impl core::error::Error for CommitError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Refused(error) => Some(error),
            _ => None,
        }
    }
}

/// The label stores a session may write to.
pub(crate) type Stores = BTreeMap<MemberId, Rc<LabelStore>>;

/// How the writes of one round stand.
#[derive(Default)]
pub(crate) struct Round {
    durable: RefCell<Vec<MemberId>>,
    failed: RefCell<Vec<Failed>>,
    event: Event,
}

impl Round {
    /// Starts all writes at once. Each failure is also added to `suspects`, early or late.
    pub(crate) fn start(
        world: &dyn World,
        writes: Vec<(Rc<LabelStore>, Label)>,
        suspects: &Rc<RefCell<Vec<Failed>>>,
    ) -> (Rc<Self>, usize) {
        let round = Rc::new(Self::default());
        let count = writes.len();
        for (store, label) in writes {
            let (round, suspects) = (Rc::clone(&round), Rc::clone(suspects));
            world.spawn(alloc::boxed::Box::pin(async move {
                match store.write(&label).await {
                    Ok(()) => round.durable.borrow_mut().push(label.own),
                    Err(error) => {
                        suspects.borrow_mut().push((label.own, error));
                        round.failed.borrow_mut().push((label.own, error));
                    }
                }
                round.event.notify();
            }));
        }
        (round, count)
    }

    /// Waits until every one of `deciders` has a quorum of durable labels (true), or all `count`
    /// writes have ended without (false). A drive that never answers delays only the latter.
    pub(crate) async fn decided(&self, count: usize, deciders: &[&Voters]) -> bool {
        loop {
            let has = |id| self.durable.borrow().contains(&id);
            if deciders.iter().all(|voters| voters.is_quorum(has)) {
                return true;
            }
            if self.durable.borrow().len() + self.failed.borrow().len() == count {
                return false;
            }
            self.event.listen().await;
        }
    }

    /// Who has the label, and who failed, so far.
    pub(crate) fn tally(&self) -> (Vec<MemberId>, Vec<Failed>) {
        let mut durable = self.durable.borrow().clone();
        durable.sort_unstable();
        (durable, self.failed.borrow().clone())
    }
}
