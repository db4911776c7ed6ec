//! Labels on drives that lose power: random histories of loss, replacement, import and crash.
//!
//! The model is a mirror's: a write is acknowledged when every active fast drive has it, or after
//! the loss of those that do not was committed. At each import the drives used must have the
//! last acknowledged write, every acknowledged change must be in the table, and a lost drive must
//! not be active before it was rebuilt.

use crate::common::{ME, Medium, POOL, Rng, TestWorld, as_world, new_pool, open};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use varve_io::IoError;
use varve_pool::label::{
    Change, CommitError, Committed, Import, LabelStore, MemberId, MemberState, Membership, Role,
    TableGeneration, Terms, choose,
};

/// What the outside remembers across crashes.
#[derive(Default)]
struct Ghost {
    /// Last acknowledged write.
    written: u64,
    /// Last write sent to a drive.
    issued: u64,
    /// Last write each fast drive has.
    versions: BTreeMap<MemberId, u64>,
    /// Acknowledged state of each member that changed, and the generation of the answer.
    acknowledged: BTreeMap<MemberId, (MemberState, TableGeneration)>,
    /// States asked for since, in vain as far as anyone knows.
    attempted: BTreeMap<MemberId, BTreeSet<MemberState>>,
    /// Highest generation any answer named.
    generation: TableGeneration,
    /// Which medium is which member.
    media: BTreeMap<MemberId, usize>,
    imports: u64,
    refusals: u64,
    changes: u64,
    stops: u64,
    crashes: u64,
    degraded: u64,
    /// Generation upon which losses found no quorum.
    undecided: Option<TableGeneration>,
    /// Such that were committed later in the same session.
    repeated: u64,
}

type Shared = Rc<RefCell<Ghost>>;

impl Ghost {
    fn attempt(&mut self, id: MemberId, state: MemberState) {
        self.attempted.entry(id).or_default().insert(state);
    }

    fn acknowledge(
        &mut self,
        id: MemberId,
        state: MemberState,
        (generation, since): (TableGeneration, TableGeneration),
    ) {
        assert!(
            generation >= self.generation,
            "answers follow the generations"
        );
        self.generation = generation;
        self.acknowledged.insert(id, (state, since));
        self.attempted.remove(&id);
        self.changes += 1;
    }

    /// Losses that found no quorum are committed by now, if there were some.
    fn note_repeated(&mut self, generation: TableGeneration) {
        let is_behind = |before: &mut TableGeneration| *before < generation;
        self.repeated += u64::from(self.undecided.take_if(is_behind).is_some());
    }

    /// What an import may look like.
    fn check(&self, import: &Import) {
        assert!(
            import.state.generation >= self.generation,
            "acknowledged generation is gone"
        );
        for (id, (state, since)) in &self.acknowledged {
            let row = import
                .state
                .members
                .get(*id)
                .expect("acknowledged member is in the table");
            assert!(row.since >= *since, "{id}: change of {since} is gone");
            let attempted = self.attempted.get(id);
            let is_in =
                |wanted| *state == wanted || attempted.is_some_and(|set| set.contains(&wanted));
            // Another drive took the slot of a lost one.
            let mut rows = import.state.members.members().iter();
            let is_succeeded = row.state == MemberState::Removed
                && is_in(MemberState::Lost)
                && rows.any(|other| other.id != *id && other.is_at(row.role, row.slot));
            let is_known = is_in(row.state) || is_succeeded;
            assert!(is_known, "{id} is {}, acknowledged was {state}", row.state);
        }
        for present in &import.present {
            let version = self.versions.get(&present.id).copied().unwrap_or(0);
            if present.role == Role::Fast && present.state == MemberState::Active {
                assert!(version >= self.written, "{} is stale and used", present.id);
            }
        }
    }
}

const fn state_after(change: Change) -> MemberState {
    match change {
        Change::Lose(_) => MemberState::Lost,
        Change::Join { .. } | Change::Return(_) => MemberState::Rebuilding,
        Change::Rebuilt(_) => MemberState::Active,
        Change::Remove(_) => MemberState::Removed,
    }
}

/// Commits a change of a known member and keeps the books.
async fn change(
    pool: &Rc<Membership>,
    ghost: &Shared,
    id: MemberId,
    change: Change,
    store: Option<Rc<LabelStore>>,
) -> Result<Committed, CommitError> {
    ghost.borrow_mut().attempt(id, state_after(change));
    let outcome = match store {
        Some(store) => pool.bring_back(id, store).await,
        None => pool.change(change).await,
    };
    ghost.borrow_mut().note_repeated(pool.state().generation);
    match &outcome {
        Ok(committed) => {
            // One that was lost by then stays so since when it was.
            let row = pool.state().members.get(id).map(|row| row.since);
            let since = row.map_or(committed.generation, |since| {
                since.min(committed.generation)
            });
            ghost
                .borrow_mut()
                .acknowledge(id, state_after(change), (committed.generation, since));
        }
        Err(CommitError::Refused(_)) => {}
        // Losses are proposed again, and nothing else before.
        Err(CommitError::NoQuorum { .. }) if !pool.is_stopped() => {
            let mut ghost = ghost.borrow_mut();
            let is_loss = matches!(change, Change::Lose(_));
            assert!(is_loss || ghost.undecided.is_some(), "{change:?}");
            ghost.undecided.get_or_insert(pool.state().generation);
        }
        Err(CommitError::NoQuorum { .. } | CommitError::Stopped) => {
            assert!(pool.is_stopped());
        }
        Err(other) => panic!("{other}"),
    }
    outcome
}

/// One session: import, then random things, until a crash or the end.
struct Run {
    world: Rc<TestWorld>,
    media: Vec<Rc<Medium>>,
    offered: Vec<usize>,
    ghost: Shared,
    rng: Rng,
}

impl Run {
    async fn go(mut self) {
        let offered = self
            .offered
            .iter()
            .map(|index| Rc::clone(&self.media[*index]))
            .collect();
        let (stores, found) = open(Rc::clone(&self.world), offered).await;
        let terms = Terms {
            owner: ME,
            ..Terms::default()
        };
        let Ok(import) = choose(POOL, &found, terms) else {
            self.ghost.borrow_mut().refusals += 1;
            return;
        };
        self.ghost.borrow().check(&import);
        let pool = Membership::start(as_world(&self.world), &import, ME, &stores).await;
        let Ok(pool) = pool else {
            self.ghost.borrow_mut().stops += 1;
            return;
        };
        self.begin(&pool);
        for _ in 0..self.rng.below(12) {
            match self.rng.below(10) {
                0 => self.pull(),
                1 | 2 => self.mend(&pool).await,
                3 => self.replace(&pool).await,
                4 => self.lose_two(&pool).await,
                5 => drop(pool.beat(self.rng.below(1000)).await),
                6 => self.be_without_shelf(&pool).await,
                _ => self.write(&pool).await,
            }
            if pool.is_stopped() {
                self.ghost.borrow_mut().stops += 1;
                return;
            }
        }
        if self.rng.one_in(2) {
            let _ = pool.shutdown(false).await;
        }
    }

    /// The started session's table is committed: it is the new base of the books.
    fn begin(&self, pool: &Membership) {
        let state = pool.state();
        let mut ghost = self.ghost.borrow_mut();
        ghost.imports += 1;
        ghost.generation = state.generation;
        ghost.attempted.clear();
        ghost.undecided = None;
        for member in state.members.members() {
            ghost
                .acknowledged
                .insert(member.id, (member.state, member.since));
        }
    }

    fn medium(&self, id: MemberId) -> Option<Rc<Medium>> {
        let index = self.ghost.borrow().media.get(&id).copied()?;
        Some(Rc::clone(&self.media[index]))
    }

    fn pull(&mut self) {
        let index = self.rng.index(self.media.len());
        let error = if self.rng.one_in(2) {
            IoError::Gone
        } else {
            IoError::Media
        };
        self.media[index].fail(Some(error));
    }

    /// Most drives are away for a moment.
    async fn be_without_shelf(&mut self, pool: &Rc<Membership>) {
        for medium in &self.media {
            if !self.rng.one_in(4) {
                medium.fail(Some(IoError::Gone));
            }
        }
        for _ in 0..self.rng.below(4) {
            self.mend(pool).await;
        }
        for medium in &self.media {
            if !self.rng.one_in(8) {
                medium.fail(None);
            }
        }
    }

    /// A write to the mirror, degraded if it must be.
    async fn write(&mut self, pool: &Rc<Membership>) {
        let version = self.ghost.borrow().issued + 1;
        self.ghost.borrow_mut().issued = version;
        let state = pool.state();
        let mut failed = Vec::new();
        for member in state
            .members
            .members()
            .iter()
            .filter(|member| member.role == Role::Fast)
        {
            if member.state != MemberState::Active {
                continue;
            }
            let is_well = self.offered_member(member.id)
                && self
                    .medium(member.id)
                    .is_some_and(|medium| !medium.is_failing());
            if is_well {
                self.ghost.borrow_mut().versions.insert(member.id, version);
            } else {
                failed.push(member.id);
            }
        }
        for id in failed {
            if change(pool, &self.ghost, id, Change::Lose(id), None)
                .await
                .is_err()
            {
                return;
            }
            self.ghost.borrow_mut().degraded += 1;
        }
        // No drive can have become active in between, so those that have it are all there are.
        self.ghost.borrow_mut().written = version;
    }

    fn offered_member(&self, id: MemberId) -> bool {
        let index = self.ghost.borrow().media.get(&id).copied();
        index.is_some_and(|index| self.offered.contains(&index))
    }

    /// Brings a lost drive back, finishes a rebuild, or loses a drive that fails.
    async fn mend(&mut self, pool: &Rc<Membership>) {
        let state = pool.state();
        let members = state.members.members();
        let member = members[self.rng.index(members.len())];
        let Some(medium) = self.medium(member.id) else {
            return;
        };
        let id = member.id;
        match member.state {
            MemberState::Active | MemberState::Rebuilding if medium.is_failing() => {
                let _ = change(pool, &self.ghost, id, Change::Lose(id), None).await;
            }
            MemberState::Rebuilding => {
                // Everything is copied, and writes reach it, before it is called rebuilt.
                let written = self.ghost.borrow().written;
                self.ghost.borrow_mut().versions.insert(id, written);
                let _ = change(pool, &self.ghost, id, Change::Rebuilt(id), None).await;
            }
            MemberState::Lost if self.rng.one_in(4) => {
                let _ = change(pool, &self.ghost, id, Change::Remove(id), None).await;
            }
            MemberState::Lost => {
                medium.fail(None);
                let (stores, _) = open(Rc::clone(&self.world), vec![medium]).await;
                let store = stores.into_iter().next();
                let _ = change(pool, &self.ghost, id, Change::Return(id), store).await;
            }
            _ => {}
        }
    }

    /// Puts a new drive beside the others.
    async fn replace(&mut self, pool: &Rc<Membership>) {
        let used: BTreeSet<usize> = self.ghost.borrow().media.values().copied().collect();
        let Some(index) = (0..self.media.len()).find(|index| !used.contains(index)) else {
            return;
        };
        let medium = Rc::clone(&self.media[index]);
        medium.fail(None);
        let (stores, _) = open(Rc::clone(&self.world), vec![medium]).await;
        let role = if self.rng.one_in(2) {
            Role::Fast
        } else {
            Role::Dense
        };
        let slot = self.rng.below(3) as u8;
        let next = pool
            .state()
            .members
            .members()
            .last()
            .map_or(0, |member| member.id.0 + 1);
        self.ghost
            .borrow_mut()
            .attempt(MemberId(next), MemberState::Rebuilding);
        if let Ok(committed) = pool.join(role, slot, Rc::clone(&stores[0])).await {
            let id = committed.member.unwrap();
            let mut ghost = self.ghost.borrow_mut();
            assert!(!ghost.media.contains_key(&id), "{id} is used twice");
            ghost.media.insert(id, index);
            let since = committed.generation;
            ghost.acknowledge(id, MemberState::Rebuilding, (since, since));
        }
    }

    /// Two losses at once: merged, or one after the other.
    async fn lose_two(&mut self, pool: &Rc<Membership>) {
        let failing: Vec<MemberId> = pool
            .state()
            .members
            .members()
            .iter()
            .filter(|member| member.state.is_voter())
            .filter(|member| {
                self.medium(member.id)
                    .is_some_and(|medium| medium.is_failing())
            })
            .map(|member| member.id)
            .collect();
        let flows: Vec<_> = failing
            .into_iter()
            .take(2)
            .map(|id| {
                let (pool, ghost) = (Rc::clone(pool), Rc::clone(&self.ghost));
                as_world(&self.world)
                    .run(async move { change(&pool, &ghost, id, Change::Lose(id), None).await })
            })
            .collect();
        for flow in flows {
            let _ = flow.await;
        }
    }
}

/// One history: sessions with crashes between, drives pulled and put back.
fn history(fast: usize, dense: usize, seed: u64, ghost: &Shared) {
    let mut rng = Rng::new(seed);
    let mut media = new_pool(fast, dense, seed);
    for index in 0..media.len() {
        ghost
            .borrow_mut()
            .media
            .insert(MemberId(index as u32), index);
    }
    media.extend((0..2).map(|_| Rc::new(Medium::new())));
    for _ in 0..1 + rng.below(8) {
        for medium in &media {
            let is_back = medium.is_failing() && rng.one_in(2);
            if is_back {
                medium.fail(None);
            }
        }
        let mut offered: Vec<usize> = (0..media.len()).collect();
        offered.retain(|_| !rng.one_in(8));
        let world = TestWorld::new(rng.next());
        let run = Run {
            world: Rc::clone(&world),
            media: media.clone(),
            offered,
            ghost: Rc::clone(ghost),
            rng: Rng::new(rng.next()),
        };
        let limit = if rng.one_in(4) {
            u64::MAX
        } else {
            rng.below(250)
        };
        if world.run(limit, run.go()).is_none() {
            ghost.borrow_mut().crashes += 1;
        }
        world.clear();
        // Often the process dies but the drives keep their power.
        if !rng.one_in(3) {
            media.iter().for_each(|medium| medium.crash(&mut rng));
        }
    }
}

fn histories(fast: usize, dense: usize, seeds: u64) {
    let (mut imports, mut crashes, mut degraded, mut stops, mut refusals, mut changes) =
        (0, 0, 0, 0, 0, 0);
    let mut repeated = 0;
    for seed in 0..seeds {
        let ghost = Shared::default();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            history(fast, dense, seed, &ghost);
        }));
        assert!(outcome.is_ok(), "history({fast}, {dense}, {seed}) failed");
        let ghost = ghost.borrow();
        imports += ghost.imports;
        crashes += ghost.crashes;
        degraded += ghost.degraded;
        stops += ghost.stops;
        refusals += ghost.refusals;
        changes += ghost.changes;
        repeated += ghost.repeated;
    }
    println!(
        "{fast}+{dense}: {imports} imports, {changes} changes, {degraded} degraded, {stops} stops, \
         {refusals} refusals, {crashes} crashes, {repeated} repeated"
    );
    assert!(repeated > 0);
    assert!(imports > seeds && crashes > seeds / 2 && refusals > 0 && stops > 0);
    assert!(fast == 1 || degraded > 0);
}

#[test]
fn histories_of_one_and_one() {
    histories(1, 1, 1500);
}

#[test]
fn histories_of_two_and_one() {
    histories(2, 1, 1500);
}

#[test]
fn histories_of_two_and_two() {
    histories(2, 2, 1500);
}

#[test]
fn histories_of_two_and_four() {
    histories(2, 4, 1500);
}
