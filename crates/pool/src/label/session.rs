//! What a session was asked for, and what follows from it next.
//!
//! **Invariants.** A generation is used for one proposal only. A member makes one step per
//! generation; its second one waits. After a shutdown, or a commit without quorum, everything is
//! refused; losses that found none are proposed again first, under the same generation: they may count.

use crate::label::change::{Change, ChangeError};
use crate::label::commit::{CommitError, Committed};
use crate::label::generation::TableGeneration;
use crate::label::member::MemberId;
use crate::label::state::{LabelState, Owner};
use crate::label::store::LabelStore;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_io::Sender;

pub(crate) type Reply = Sender<Result<Committed, CommitError>>;

/// What a caller asked for.
pub(crate) enum Wish {
    Change(Change, Option<Rc<LabelStore>>),
    Shutdown { release: bool },
    Finish,
    Own(Owner),
    Beat(u64),
}

/// A change within a proposal: its reply, the member, its store if new.
pub(crate) struct Granted {
    pub(crate) reply: Reply,
    pub(crate) member: Option<MemberId>,
    pub(crate) store: Option<Rc<LabelStore>>,
    /// True if nobody minds that it is done later, though he was told that it was not.
    pub(crate) may_be_late: bool,
}

impl Granted {
    /// One that concerns no member.
    const fn of_pool(reply: Reply, may_be_late: bool) -> Self {
        Self {
            reply,
            member: None,
            store: None,
            may_be_late,
        }
    }
}

/// What the flow does next.
pub(crate) enum Work {
    Commit(LabelState, Vec<Granted>),
    /// What found no quorum before.
    Again(LabelState),
    Settle(LabelState),
    Beat(LabelState, Vec<Reply>),
    Rest,
}

/// The books of a session.
pub(crate) struct Session {
    /// The committed label.
    pub(crate) state: LabelState,
    /// The highest generation used, committed or not.
    pub(crate) last: TableGeneration,
    /// True if the committed table was not yet written a second time.
    pub(crate) is_fresh: bool,
    /// Losses that found no quorum.
    undecided: Option<LabelState>,
    pub(crate) queue: VecDeque<(Wish, Reply)>,
    pub(crate) is_running: bool,
    pub(crate) is_stopped: bool,
    pub(crate) is_closed: bool,
}

impl Session {
    /// The books of a session upon the adopted label `state`, whose first generation is `last`.
    pub(crate) const fn new(state: LabelState, last: TableGeneration) -> Self {
        Self {
            state,
            last,
            is_fresh: false,
            undecided: None,
            queue: VecDeque::new(),
            is_running: false,
            is_stopped: false,
            is_closed: false,
        }
    }

    /// What to do next; refuses what cannot be done.
    pub(crate) fn next_work(&mut self) -> Work {
        if let Some(state) = self.to_propose_again() {
            return Work::Again(state);
        }
        let mut state = self.state.clone();
        state.generation = self.last.next();
        let mut granted = Vec::new();
        let mut beats = Vec::new();
        let mut later = VecDeque::new();
        while let Some((wish, reply)) = self.queue.pop_front() {
            if self.is_stopped {
                reply.send(Err(CommitError::Stopped));
                continue;
            }
            if self.is_closed || state.clean {
                reply.send(Err(CommitError::Closed));
                continue;
            }
            match wish {
                Wish::Change(change, store) => {
                    if has_stepped(&state, change) {
                        later.push_back((Wish::Change(change, store), reply));
                        continue;
                    }
                    match apply(&mut state, change) {
                        Ok(id) => granted.push(Granted {
                            reply,
                            member: Some(id),
                            store,
                            may_be_late: matches!(change, Change::Lose(_)),
                        }),
                        Err(error) => reply.send(Err(CommitError::Refused(error))),
                    }
                }
                Wish::Shutdown { release } => {
                    state.clean = true;
                    if release {
                        state.owner = Owner::NOBODY;
                    }
                    granted.push(Granted::of_pool(reply, false));
                }
                Wish::Finish => {
                    state.unfinished = false;
                    granted.push(Granted::of_pool(reply, false));
                }
                Wish::Own(owner) => {
                    state.owner = owner;
                    granted.push(Granted::of_pool(reply, false));
                }
                Wish::Beat(heartbeat) => {
                    state.heartbeat = state.heartbeat.max(heartbeat);
                    beats.push(reply);
                }
            }
        }
        self.queue = later;
        self.schedule(state, granted, beats)
    }

    /// The work for what was gathered: a commit before a settling write before a heartbeat.
    fn schedule(
        &mut self,
        state: LabelState,
        mut granted: Vec<Granted>,
        beats: Vec<Reply>,
    ) -> Work {
        if !granted.is_empty() {
            // The commit carries the heartbeat.
            let beats = beats.into_iter();
            granted.extend(beats.map(|reply| Granted::of_pool(reply, true)));
            self.last = state.generation;
            return Work::Commit(state, granted);
        }
        if !beats.is_empty() {
            let generation = self.state.generation;
            return Work::Beat(
                LabelState {
                    generation,
                    ..state
                },
                beats,
            );
        }
        if self.is_fresh && !self.is_stopped && self.undecided.is_none() {
            self.last = state.generation;
            return Work::Settle(state);
        }
        self.is_running = false;
        Work::Rest
    }

    /// Losses that found no quorum, with the heartbeat of today, if something else is asked for.
    fn to_propose_again(&self) -> Option<LabelState> {
        let is_change = |(wish, _): &(Wish, Reply)| !matches!(wish, Wish::Beat(_));
        let undecided = self.undecided.as_ref()?;
        let heartbeat = undecided.heartbeat.max(self.state.heartbeat);
        let is_asked = !self.is_stopped && self.queue.iter().any(is_change);
        is_asked.then(|| LabelState {
            heartbeat,
            ..undecided.clone()
        })
    }

    /// A proposal found no quorum, or was not made: nobody minds if it counts later (`may_be_late`), or the session ends.
    pub(crate) fn note_undecided(&mut self, state: LabelState, may_be_late: bool) {
        if may_be_late {
            self.undecided = Some(state);
        } else {
            self.is_stopped = true;
        }
    }

    /// Changes that were asked for are refused: nothing is proposed beside what is undecided.
    pub(crate) fn refuse_changes(&mut self, error: &CommitError) {
        let queue = core::mem::take(&mut self.queue).into_iter();
        let (beats, changes): (VecDeque<_>, VecDeque<_>) =
            queue.partition(|(wish, _)| matches!(wish, Wish::Beat(_)));
        self.queue = beats;
        for (_, reply) in changes {
            reply.send(Err(error.clone()));
        }
    }

    /// A proposal was committed.
    pub(crate) fn install(&mut self, state: LabelState) {
        assert!(
            state.generation > self.state.generation,
            "generations only rise"
        );
        self.undecided = None;
        self.is_fresh = true;
        self.is_closed = state.clean;
        self.state = state;
    }

    /// Notes that the committed table was written a second time.
    pub(crate) fn settle(&mut self, state: LabelState) {
        self.state = state;
        self.is_fresh = false;
    }
}

/// Takes one step. Two losses may be on their way at once, each of which the dense tier can bear
/// alone: the second is refused.
fn apply(state: &mut LabelState, change: Change) -> Result<MemberId, ChangeError> {
    match change {
        Change::Lose(id) if state.needs(id) => Err(ChangeError::DenseNeeded { id }),
        _ => state.members.apply(change, state.generation),
    }
}

/// True if the member concerned makes a step in this generation already.
fn has_stepped(state: &LabelState, change: Change) -> bool {
    let id = match change {
        Change::Lose(id) | Change::Return(id) | Change::Rebuilt(id) | Change::Remove(id) => id,
        Change::Join { .. } => return false,
    };
    let member = state.members.get(id);
    member.is_some_and(|member| member.since == state.generation)
}
