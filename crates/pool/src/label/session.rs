//! What a session was asked for, and what follows from it next.
//!
//! **Invariants.** A generation is used for one proposal only. A member makes one step per
//! generation; its second one waits. After a shutdown, or a commit without quorum, everything is
//! refused.

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
}

impl Granted {
    /// One that concerns no member.
    const fn of_pool(reply: Reply) -> Self {
        Self {
            reply,
            member: None,
            store: None,
        }
    }
}

/// What the flow does next.
pub(crate) enum Work {
    Commit(LabelState, Vec<Granted>),
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
            queue: VecDeque::new(),
            is_running: false,
            is_stopped: false,
            is_closed: false,
        }
    }

    /// What to do next; refuses what cannot be done.
    pub(crate) fn next_work(&mut self) -> Work {
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
                        }),
                        Err(error) => reply.send(Err(CommitError::Refused(error))),
                    }
                }
                Wish::Shutdown { release } => {
                    state.clean = true;
                    if release {
                        state.owner = Owner::NOBODY;
                    }
                    granted.push(Granted::of_pool(reply));
                }
                Wish::Finish => {
                    state.unfinished = false;
                    granted.push(Granted::of_pool(reply));
                }
                Wish::Own(owner) => {
                    state.owner = owner;
                    granted.push(Granted::of_pool(reply));
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
            granted.extend(beats.into_iter().map(Granted::of_pool));
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
        if self.is_fresh && !self.is_stopped {
            self.last = state.generation;
            return Work::Settle(state);
        }
        self.is_running = false;
        Work::Rest
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
