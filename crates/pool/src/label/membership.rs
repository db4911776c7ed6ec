//! The members of a pool in use: one session, from epoch to shutdown.
//!
//! 1. [`Membership::start`] claims the epoch (each drive's own label again, epoch raised) on a
//!    quorum of the adopted label's voters and deciders; then it commits the adopted table under the
//!    new epoch, with owner and without the clean flag. Nothing else is written before.
//! 2. Changes are queued; one flow commits them, merging what is queued into one generation. A
//!    label goes to the voters of its predecessor and counts by their quorum.
//! 3. After each change the flow *settles* it: it writes the same table once more as the next
//!    generation, to the new table's voters. So a new drive gets its first label only when it is
//!    a member (an id never lies on two drives), both copies of each drive hold the change, and the
//!    deciders of the past are no longer asked at import.
//!
//! Where other machines reach the drives, labels are read again before any is written, and the session ends where they
//! say more than it wrote. Whoever takes a pool over that may be in use claims it under the old owner's name first, waits
//! until that one has looked, and puts its own there then: cut short in between, it is still somebody else's pool.
//!
//! **Invariants.** A table is proposed only upon a committed one. A commit without quorum ends the
//! session: whether its change counts is found out by the next import. Where it held nothing but losses it is proposed again,
//! as it was, before anything else is: drives that were away for a while (a shelf, a network) must not end a pool.
//!
//! **Not here**: who notices that a drive failed, what is rebuilt, how exclusive use is
//! enforced.

use crate::label::change::Change;
use crate::label::commit::{CommitError, Committed, Failed, Round, Stores};
use crate::label::fence::{Fence, Known, Taken};
use crate::label::generation::TableGeneration;
use crate::label::import::Import;
use crate::label::look::{Look, Looked};
use crate::label::member::{MemberId, Role};
use crate::label::quorum::Voters;
use crate::label::session::{Granted, Reply, Session, Wish, Work};
use crate::label::state::{Label, LabelState, Owner};
use crate::label::store::LabelStore;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::RefCell;
use varve_io::{IoError, World, slot};
use varve_units::Nanos;

/// The member table of a pool in use.
pub struct Membership {
    world: Rc<dyn World>,
    /// `None` where nobody else reaches the drives.
    fence: Option<Rc<Fence>>,
    /// Who may be named in labels of this session's epoch: its owner, and whom that took the pool over from.
    owners: [Owner; 2],
    session: RefCell<Session>,
    stores: RefCell<Stores>,
    /// Stores of drives that were let go, while somebody still writes there: a drive that hangs.
    let_go: RefCell<BTreeMap<MemberId, Weak<LabelStore>>>,
    suspects: Rc<RefCell<Vec<Failed>>>,
}

impl Membership {
    /// Starts a session on an import: claims its epoch, commits the adopted table under it.
    /// `stores` are those opened for the import, in the same order. Nobody else reaches their drives.
    ///
    /// # Errors
    /// [`CommitError::NoQuorum`]: the pool is not started; another import may be tried.
    ///
    /// # Panics
    /// If the stores are not those of the import.
    pub async fn start(
        world: Rc<dyn World>,
        import: &Import,
        owner: Owner,
        stores: &[Rc<LabelStore>],
    ) -> Result<Rc<Self>, CommitError> {
        Self::start_beside(world, import, owner, stores, None).await
    }

    /// As [`Self::start`], of drives that others may reach too: the fence falls when they take them over. If another owner
    /// may still use the pool, that takes as long as it needs to learn that it is no longer its.
    ///
    /// # Errors
    /// As [`Self::start`], and [`CommitError::Fenced`].
    ///
    /// # Panics
    /// As [`Self::start`].
    pub async fn start_beside(
        world: Rc<dyn World>,
        import: &Import,
        owner: Owner,
        stores: &[Rc<LabelStore>],
        fence: Option<Rc<Fence>>,
    ) -> Result<Rc<Self>, CommitError> {
        let before = import.state.owner;
        let is_taken = fence.is_some() && import.may_be_in_use(owner);
        let first = if is_taken { before } else { owner };
        let found = import
            .present
            .iter()
            .map(|present| (present.id, present.drive));
        let stale = import.stale.iter().map(|stale| (stale.id, stale.drive));
        let stores: Stores = found
            .chain(stale)
            .map(|(id, drive)| {
                let store = stores.get(drive).expect("a store for each finding");
                (id, Rc::clone(store))
            })
            .collect();
        let (state, deciders) = first_proposal(import, first);
        let membership = Rc::new(Self {
            world,
            fence,
            owners: [owner, first],
            session: RefCell::new(Session::new(import.state.clone(), state.generation)),
            stores: RefCell::new(stores),
            let_go: RefCell::default(),
            suspects: Rc::default(),
        });
        membership.claim(import, &deciders).await?;
        membership.write(&state, &deciders, &deciders).await?;
        membership.install(state);
        membership.settle_first(import).await?;
        if is_taken {
            membership.outwait(owner).await?;
        }
        Ok(membership)
    }

    /// Lets the time go by in which an old owner looks at its labels, and makes the pool the new one's.
    async fn outwait(self: &Rc<Self>, owner: Owner) -> Result<(), CommitError> {
        let quiet = self.fence.as_ref().map_or(Nanos(0), |fence| fence.quiet());
        self.world.sleep(quiet).await;
        self.wish(Wish::Own(owner)).await?;
        // Somebody may have taken it over at the same moment.
        self.look().await
    }

    /// Finds out whether the pool is still this session's, if others reach its drives.
    ///
    /// # Errors
    /// [`CommitError::Fenced`], `NoQuorum`: too few labels can be read.
    pub async fn look(&self) -> Result<(), CommitError> {
        let voters = self.state().members.voters();
        self.look_at(&voters, &[&voters]).await
    }

    /// What became of the pool, if others have taken it over.
    #[must_use]
    pub fn taken(&self) -> Option<Taken> {
        self.fence.as_ref()?.taken()
    }

    /// Commits one step of one member. Steps asked for at the same time are merged.
    ///
    /// # Errors
    /// [`CommitError`]; after `NoQuorum` and `Stopped` nothing may be acknowledged any more that needs the change. After
    /// `NoQuorum` of losses they may be asked for again.
    ///
    /// # Panics
    /// For [`Change::Join`] and [`Change::Return`], which need a drive: see [`Self::join`] and
    /// [`Self::bring_back`].
    pub async fn change(self: &Rc<Self>, change: Change) -> Result<Committed, CommitError> {
        let needs_drive = matches!(change, Change::Join { .. } | Change::Return(_));
        assert!(!needs_drive, "joining and returning members bring a drive");
        self.wish(Wish::Change(change, None)).await
    }

    /// Lets a new drive join a vacant slot as rebuilding; its id is in the answer. Its first label is written
    /// after the commit.
    ///
    /// # Errors
    /// As [`Self::change`], and `NotBlank`: a drive with a label, or of another use, must be erased first.
    pub async fn join(
        self: &Rc<Self>,
        role: Role,
        slot: u8,
        store: Rc<LabelStore>,
    ) -> Result<Committed, CommitError> {
        if store.label().is_some() || store.is_other_use() {
            return Err(CommitError::NotBlank);
        }
        let size_bytes = store.drive().info().bytes;
        let change = Change::Join {
            role,
            slot,
            size_bytes,
        };
        self.wish(Wish::Change(change, Some(store))).await
    }

    /// True if no label is being written to a drive of this member that was let go.
    #[must_use]
    pub fn is_drained(&self, id: MemberId) -> bool {
        let mut let_go = self.let_go.borrow_mut();
        let_go.retain(|_, store| store.strong_count() > 0);
        !let_go.contains_key(&id)
    }

    /// Lets a lost drive come back as rebuilding. Not before [`Self::is_drained`]: a label that comes
    /// late would take the place of a newer one.
    ///
    /// # Errors
    /// As [`Self::change`], and `NotMember`: the drive's label is not an older one of this member; `NotBlank`:
    /// it was put to another use.
    pub async fn bring_back(
        self: &Rc<Self>,
        id: MemberId,
        store: Rc<LabelStore>,
    ) -> Result<Committed, CommitError> {
        let state = self.state();
        if store.is_other_use() {
            return Err(CommitError::NotBlank);
        }
        let is_member = store.label().is_none_or(|label| {
            let generation = label.state.generation;
            label.own == id && label.state.pool == state.pool && generation <= state.generation
        });
        if !is_member {
            return Err(CommitError::NotMember { id });
        }
        self.wish(Wish::Change(Change::Return(id), Some(store)))
            .await
    }

    /// Marks the pool clean; with `release` any owner may import it next. Everything must have
    /// been written and flushed before. The session ends.
    ///
    /// # Errors
    /// As [`Self::change`]; the pool then starts as after a crash.
    pub async fn shutdown(self: &Rc<Self>, release: bool) -> Result<Committed, CommitError> {
        self.wish(Wish::Shutdown { release }).await
    }

    /// Notes that the pool's creation has ended: from here on the drives hold a pool. Everything
    /// that a start needs must have been written and flushed before.
    ///
    /// # Errors
    /// As [`Self::change`]; whether the pool exists is found out by the next import.
    pub async fn finish_creation(self: &Rc<Self>) -> Result<Committed, CommitError> {
        self.wish(Wish::Finish).await
    }

    /// Writes a heartbeat into the labels of the members that are idle; no new generation.
    ///
    /// # Errors
    /// `Stopped` or `Closed`. Members that fail are listed in the answer.
    pub async fn beat(self: &Rc<Self>, heartbeat: u64) -> Result<Committed, CommitError> {
        self.wish(Wish::Beat(heartbeat)).await
    }

    /// The committed label.
    #[must_use]
    pub fn state(&self) -> LabelState {
        self.session.borrow().state.clone()
    }

    /// True if a commit of more than losses found no quorum, or the pool is another owner's: nothing may be acknowledged any
    /// more.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.session.borrow().is_stopped || self.taken().is_some()
    }

    /// The heartbeat in the newest label that each drive is known to have taken. One that is behind the others failed
    /// those since, or has not answered yet.
    #[must_use]
    pub fn heartbeats(&self) -> BTreeMap<MemberId, u64> {
        let stores = self.stores.borrow();
        let beat =
            |(id, store): (&MemberId, &Rc<LabelStore>)| Some((*id, store.label()?.state.heartbeat));
        stores.iter().filter_map(beat).collect()
    }

    /// Members that failed a label write since the last call, each perhaps several times.
    #[must_use]
    pub fn take_suspects(&self) -> Vec<Failed> {
        self.suspects.take()
    }

    /// Makes the committed label durable on the drive of member `id` itself. Commits need a quorum
    /// only, and a new drive may be the one that is behind: without a label of its own no import
    /// knows it, whatever the table says of it.
    ///
    /// # Errors
    /// The drive's.
    pub async fn label_one(&self, id: MemberId) -> Result<(), IoError> {
        let state = self.state();
        let store = self.stores.borrow().get(&id).cloned();
        let store = store.ok_or(IoError::Gone)?;
        self.look().await.map_err(|_| IoError::Gone)?;
        store.write(&Label { own: id, state }).await
    }

    async fn wish(self: &Rc<Self>, wish: Wish) -> Result<Committed, CommitError> {
        if let Some(taken) = self.taken() {
            return Err(CommitError::Fenced(taken));
        }
        let (reply, answer) = slot();
        let must_start = {
            let mut session = self.session.borrow_mut();
            session.queue.push_back((wish, reply));
            !core::mem::replace(&mut session.is_running, true)
        };
        if must_start {
            self.world.spawn(Box::pin(Rc::clone(self).run()));
        }
        answer.await
    }

    /// Does what is asked until nothing is.
    async fn run(self: Rc<Self>) {
        loop {
            let work = self.session.borrow_mut().next_work();
            match work {
                Work::Commit(state, granted) => self.commit(state, granted).await,
                Work::Again(state) => self.commit_again(state).await,
                Work::Settle(state) => {
                    let voters = state.members.voters();
                    // Failures are among the suspects; the table is committed either way.
                    let _ = self.write(&state, &voters, &voters).await;
                    self.session.borrow_mut().settle(state);
                }
                Work::Beat(state, replies) => self.write_beat(state, replies).await,
                Work::Rest => return,
            }
        }
    }

    async fn write_beat(&self, state: LabelState, replies: Vec<Reply>) {
        let voters = state.members.voters();
        let generation = state.generation;
        let failed = match self.write_idle(&state, &voters).await {
            Ok(failed) => failed,
            Err(error) => {
                for reply in replies {
                    reply.send(Err(error.clone()));
                }
                return;
            }
        };
        self.session.borrow_mut().state = state;
        for reply in replies {
            let failed = failed.clone();
            reply.send(Ok(Committed {
                generation,
                member: None,
                failed,
            }));
        }
    }

    async fn commit(&self, state: LabelState, granted: Vec<Granted>) {
        let deciders = state.members.deciders(state.generation);
        let generation = state.generation;
        match self.write(&state, &deciders, &deciders).await {
            Ok(failed) => {
                for granted in &granted {
                    if let (Some(id), Some(store)) = (granted.member, &granted.store) {
                        // What it failed before it came back says nothing of it now.
                        self.suspects.borrow_mut().retain(|(other, _)| *other != id);
                        self.stores.borrow_mut().insert(id, Rc::clone(store));
                    }
                }
                self.install(state);
                for Granted { reply, member, .. } in granted {
                    let failed = failed.clone();
                    reply.send(Ok(Committed {
                        generation,
                        member,
                        failed,
                    }));
                }
            }
            Err(error) => {
                let is_open = matches!(error, CommitError::NoQuorum { .. });
                let may_be_late = is_open && granted.iter().all(|one| one.may_be_late);
                self.session.borrow_mut().note_undecided(state, may_be_late);
                for granted in granted {
                    granted.reply.send(Err(error.clone()));
                }
            }
        }
    }

    /// Proposes what found no quorum once more; what was asked for since is refused with it, or comes next.
    async fn commit_again(&self, state: LabelState) {
        let deciders = state.members.deciders(state.generation);
        match self.write(&state, &deciders, &deciders).await {
            Ok(_) => self.install(state),
            Err(error) => {
                let is_open = matches!(error, CommitError::NoQuorum { .. });
                let mut session = self.session.borrow_mut();
                session.note_undecided(state, is_open);
                session.refuse_changes(&error);
            }
        }
    }

    /// Makes `state` the committed one. Of members that it does not use any more nobody writes a label
    /// again: their drives are let go, so that they can be taken away, or come back.
    fn install(&self, state: LabelState) {
        let is_used = |id: &MemberId| {
            let row = state.members.get(*id);
            row.is_some_and(|row| row.state.is_voter())
        };
        let stores = self.stores.take().into_iter();
        let (used, let_go): (Stores, Stores) = stores.partition(|(id, _)| is_used(id));
        self.stores.replace(used);
        let still = let_go.iter().map(|(id, store)| (*id, Rc::downgrade(store)));
        self.let_go.borrow_mut().extend(still);
        drop(let_go);
        self.session.borrow_mut().install(state);
    }

    /// Claims the epoch: every drive that may decide gets its own label again, epoch raised.
    async fn claim(&self, import: &Import, deciders: &Voters) -> Result<(), CommitError> {
        let state = &import.state;
        let adopted = state.members.deciders(state.generation);
        let voters = state.members.voters();
        let asked: Vec<&Voters> = match import.loss {
            None => alloc::vec![&adopted, &voters],
            Some(_) => alloc::vec![deciders],
        };
        let targets = |id| asked.iter().any(|voters| voters.contains(id));
        let stores = self.stores.borrow().clone();
        let writes = stores
            .into_iter()
            .filter(|(id, _)| targets(*id))
            .filter_map(|(_, store)| {
                let mut label = store.label()?;
                label.state.epoch = import.epoch;
                Some((store, label))
            });
        let writes: Vec<(Rc<LabelStore>, Label)> = writes.collect();
        if let Some(fence) = &self.fence {
            let epochs = writes.iter().filter_map(|(store, _)| store.label());
            let epoch = epochs.map(|label| label.state.epoch).max();
            let known = Known::of_found(state, epoch.unwrap_or(state.epoch));
            let drives = writes.iter();
            let drives = drives.map(|(store, label)| (label.own, Rc::clone(store)));
            self.ask(drives.collect(), known, fence, &asked).await?;
        }
        self.round(writes, state.generation, &asked)
            .await
            .map(|_| ())
    }

    /// Writes the first generation a second time. After an accepted loss this must succeed, since
    /// only the settled label no longer asks for the drives that are gone.
    async fn settle_first(&self, import: &Import) -> Result<(), CommitError> {
        let Work::Settle(state) = self.session.borrow_mut().next_work() else {
            unreachable!("a first generation is fresh, and nobody asked for anything yet");
        };
        let voters = state.members.voters();
        let outcome = self.write(&state, &voters, &voters).await;
        if import.loss.is_some() {
            outcome?;
        }
        let mut session = self.session.borrow_mut();
        session.settle(state);
        session.is_running = false;
        Ok(())
    }

    /// Writes `state` to `targets`; waits for a quorum of `deciders`; returns who failed by then.
    async fn write(
        &self,
        state: &LabelState,
        targets: &Voters,
        deciders: &Voters,
    ) -> Result<Vec<Failed>, CommitError> {
        self.look_at(targets, &[deciders]).await?;
        let writes = self.labels(state, targets);
        self.round(writes, state.generation, &[deciders]).await
    }

    /// Writes `state` to those of `targets` that are idle; returns who failed. Where others reach the drives, too few of
    /// which say what their labels are, nothing is written.
    async fn write_idle(
        &self,
        state: &LabelState,
        targets: &Voters,
    ) -> Result<Vec<Failed>, CommitError> {
        let mut writes = self.labels(state, targets);
        writes.retain(|(store, _)| !store.is_busy());
        if let Some(fence) = &self.fence {
            let drives = writes.iter();
            let drives = drives.map(|(store, label)| (label.own, Rc::clone(store)));
            let (drives, asked) = (drives.collect(), [targets]);
            match self.ask(drives, self.known(), fence, &asked).await {
                Err(CommitError::NoQuorum { failed, .. }) => return Ok(failed),
                outcome => outcome?,
            }
        }
        let (round, count) = Round::start(&*self.world, writes, &self.suspects);
        // A heartbeat needs no quorum; one is as long as it is worth waiting.
        let _ = round.decided(count, &[targets]).await;
        Ok(round.tally().1)
    }

    /// Reads the labels of `targets` again, if others reach the drives, until a quorum of each of `asked` has answered.
    async fn look_at(&self, targets: &Voters, asked: &[&Voters]) -> Result<(), CommitError> {
        let Some(fence) = &self.fence else {
            return Ok(());
        };
        let stores = self.stores.borrow().clone().into_iter();
        let drives = stores.filter(|(id, _)| targets.contains(*id));
        self.ask(drives.collect(), self.known(), fence, asked).await
    }

    async fn ask(
        &self,
        drives: Looked,
        known: Known,
        fence: &Rc<Fence>,
        asked: &[&Voters],
    ) -> Result<(), CommitError> {
        let count = drives.len();
        fence.know(known);
        let look = Look::start(&*self.world, drives, fence);
        look.decided(count, fence, known.generation, asked).await
    }

    /// What this session has written, at most.
    fn known(&self) -> Known {
        let session = self.session.borrow();
        Known {
            pool: session.state.pool,
            epoch: session.last.epoch(),
            generation: session.last,
            owners: Some(self.owners),
            heartbeat: None,
        }
    }

    fn labels(&self, state: &LabelState, targets: &Voters) -> Vec<(Rc<LabelStore>, Label)> {
        let stores = self.stores.borrow();
        let ids = targets.ids().iter();
        let reachable = ids.filter_map(|id| Some((*id, Rc::clone(stores.get(id)?))));
        reachable
            .map(|(own, store)| {
                (
                    store,
                    Label {
                        own,
                        state: state.clone(),
                    },
                )
            })
            .collect()
    }

    async fn round(
        &self,
        writes: Vec<(Rc<LabelStore>, Label)>,
        generation: TableGeneration,
        asked: &[&Voters],
    ) -> Result<Vec<Failed>, CommitError> {
        let (round, count) = Round::start(&*self.world, writes, &self.suspects);
        let is_decided = round.decided(count, asked).await;
        let (durable, failed) = round.tally();
        if is_decided {
            return Ok(failed);
        }
        let has = |id| durable.contains(&id);
        let lacking = asked.iter().find(|voters| !voters.is_quorum(has));
        let deciders = lacking.map(|voters| (*voters).clone()).unwrap_or_default();
        Err(CommitError::NoQuorum {
            generation,
            deciders,
            durable,
            failed,
        })
    }
}

/// The adopted table under the new epoch, and who decides on it.
pub(crate) fn first_proposal(import: &Import, owner: Owner) -> (LabelState, Voters) {
    let mut state = import.state.clone();
    let generation = TableGeneration::new(import.epoch, 1);
    state.members = state.members.moved(state.generation, generation);
    state.generation = generation;
    state.epoch = import.epoch;
    state.owner = owner;
    state.clean = false;
    let Some(loss) = &import.loss else {
        let deciders = state.members.deciders(generation);
        return (state, deciders);
    };
    let is_present = |id| import.present.iter().any(|present| present.id == id);
    state.members.force(is_present, loss.promoted(), generation);
    let deciders = state.members.voters();
    (state, deciders)
}
