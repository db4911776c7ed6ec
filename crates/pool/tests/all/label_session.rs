//! Scenarios of one pool: what an import refuses and reports, what a session commits.

use crate::common::{
    ME, Medium, OTHER, POOL, Rng, TestWorld, as_world, geometry, new_pool, new_pool_of, open,
};
use std::collections::BTreeSet;
use std::rc::Rc;
use varve_format::{Geometry, Protection};
use varve_io::IoError;
use varve_pool::label::{
    Change, ChangeError, CommitError, CreateError, Finding, Import, ImportError, LabelStore, Loss,
    MemberId, MemberState, Membership, PoolId, Role, TableGeneration, Terms, Voters, choose, pools,
};

const TERMS: Terms = Terms {
    owner: ME,
    take_over: false,
    accept_loss: false,
};

type Stores = Vec<Rc<LabelStore>>;

/// A pool in use.
struct Pool {
    world: Rc<TestWorld>,
    media: Vec<Rc<Medium>>,
    members: Rc<Membership>,
}

fn offer(media: &[&Rc<Medium>]) -> (Rc<TestWorld>, Stores, Vec<Finding>) {
    let world = TestWorld::new(media.len() as u64);
    let (inner, media) = (
        Rc::clone(&world),
        media.iter().map(|medium| Rc::clone(medium)),
    );
    let media = media.collect();
    let (stores, found) = world.run(u64::MAX, open(inner, media)).unwrap();
    (world, stores, found)
}

fn import(media: &[&Rc<Medium>], terms: Terms) -> Result<Import, ImportError> {
    choose(POOL, &offer(media).2, terms)
}

fn start(media: &[Rc<Medium>], terms: Terms) -> Pool {
    let (world, stores, found) = offer(&media.iter().collect::<Vec<_>>());
    let import = choose(POOL, &found, terms).unwrap();
    let inner = as_world(&world);
    let flow = async move { Membership::start(inner, &import, terms.owner, &stores).await };
    let members = world.run(u64::MAX, flow).unwrap().unwrap();
    Pool {
        world,
        media: media.to_vec(),
        members,
    }
}

impl Pool {
    fn new(fast: usize, dense: usize) -> Self {
        start(&new_pool(fast, dense, 3), TERMS)
    }

    fn change(&self, change: Change) -> Result<TableGeneration, CommitError> {
        let members = Rc::clone(&self.members);
        let outcome = self
            .world
            .run(u64::MAX, async move { members.change(change).await });
        outcome.unwrap().map(|committed| committed.generation)
    }

    fn lose(&self, id: u32) -> Result<TableGeneration, CommitError> {
        self.media[id as usize].fail(Some(IoError::Gone));
        self.change(Change::Lose(MemberId(id)))
    }

    fn join(&mut self, role: Role, slot: u8) -> MemberId {
        let medium = Rc::new(Medium::new());
        self.media.push(Rc::clone(&medium));
        let (members, world) = (Rc::clone(&self.members), Rc::clone(&self.world));
        let flow = async move {
            let store = open(world, vec![medium]).await.0.remove(0);
            members.join(role, slot, store).await
        };
        self.world
            .run(u64::MAX, flow)
            .unwrap()
            .unwrap()
            .member
            .unwrap()
    }

    fn state_of(&self, id: u32) -> MemberState {
        self.members
            .state()
            .members
            .get(MemberId(id))
            .unwrap()
            .state
    }

    /// The power fails; all drives are well again.
    fn crash(self) -> Vec<Rc<Medium>> {
        self.world.clear();
        for medium in &self.media {
            medium.crash(&mut Rng::new(9));
            medium.fail(None);
        }
        self.media
    }

    fn shutdown(self, release: bool) -> Vec<Rc<Medium>> {
        let members = Rc::clone(&self.members);
        self.world
            .run(u64::MAX, async move { members.shutdown(release).await })
            .unwrap()
            .unwrap();
        assert_eq!(
            self.change(Change::Lose(MemberId(0))),
            Err(CommitError::Closed)
        );
        self.world.drain();
        self.crash()
    }
}

#[test]
fn a_stale_half_is_refused_until_loss_is_accepted() {
    let pool = Pool::new(2, 2);
    let since = pool.lose(1).unwrap();
    let media = pool.crash();
    let [newest, stale, first, second] = [&media[0], &media[1], &media[2], &media[3]];
    // All there: the lost drive's own label says active, the table says lost.
    let all = import(&[newest, stale, first, second], TERMS).unwrap();
    assert_eq!(all.stale[0].id, MemberId(1));
    assert_eq!(
        all.stale[0].state,
        Some((MemberState::Lost, all.stale[0].state.unwrap().1))
    );
    assert!(all.stale[0].generation < since);
    assert!(all.present.iter().all(|present| present.id != MemberId(1)));
    // The newest is missing: refused, and it says what is lost.
    let refused = import(&[stale, first, second], TERMS).unwrap_err();
    let ImportError::WouldLose(Loss::NewestData {
        missing,
        stale: half,
        ..
    }) = &refused
    else {
        panic!("{refused}");
    };
    assert_eq!(
        (missing.as_slice(), *half),
        ([MemberId(0)].as_slice(), MemberId(1))
    );
    // Accepted: the stale half is active, the missing drive is lost for good.
    let here = [Rc::clone(stale), Rc::clone(first), Rc::clone(second)];
    let forced = start(
        &here,
        Terms {
            accept_loss: true,
            ..TERMS
        },
    );
    assert_eq!(forced.state_of(1), MemberState::Active);
    assert_eq!(forced.state_of(0), MemberState::Lost);
    forced.world.drain();
    forced.crash();
    let again = import(&[newest, stale, first, second], TERMS).unwrap();
    assert_eq!(
        again.stale.iter().map(|stale| stale.id).collect::<Vec<_>>(),
        [MemberId(0)]
    );
    assert!(again.loss.is_none() && import(&[stale, first, second], TERMS).is_ok());
}

#[test]
fn without_quorum_nothing_is_imported_unless_forced() {
    let media = Pool::new(2, 2).crash();
    let refused = import(&[&media[1], &media[3]], TERMS).unwrap_err();
    let ImportError::WouldLose(Loss::NoQuorum { missing, .. }) = &refused else {
        panic!("{refused}")
    };
    assert_eq!(missing.as_slice(), [MemberId(0), MemberId(2)]);
    assert!(
        import(&[&media[0], &media[2]], TERMS).is_ok(),
        "half with the lowest id"
    );
    let here = [Rc::clone(&media[1]), Rc::clone(&media[3])];
    let forced = start(
        &here,
        Terms {
            accept_loss: true,
            ..TERMS
        },
    );
    forced.world.drain();
    forced.crash();
    assert!(import(&[&media[1], &media[3]], TERMS).is_ok());
}

/// One drive is away while the pool is started a few times more, then only that one is there and the loss is accepted. When
/// the other comes back, what was accepted stays: it was acknowledged since.
#[test]
fn what_was_accepted_is_not_given_up_again() {
    let media = Pool::new(2, 0).crash();
    for _ in 0..9 {
        let alone = start(&[Rc::clone(&media[0])], TERMS);
        alone.world.drain();
        alone.crash();
    }
    let refused = import(&[&media[1]], TERMS).unwrap_err();
    assert!(matches!(refused, ImportError::WouldLose(_)), "{refused}");
    let accept = Terms {
        accept_loss: true,
        ..TERMS
    };
    let accepted = start(&[Rc::clone(&media[1])], accept);
    accepted.world.drain();
    accepted.crash();
    let both = import(&[&media[0], &media[1]], TERMS).unwrap();
    let stale: Vec<_> = both.stale.iter().map(|drive| drive.id).collect();
    assert_eq!(stale, [MemberId(0)]);
}

fn lacks_quorum(error: &CommitError) {
    let CommitError::NoQuorum {
        durable,
        failed,
        deciders,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(durable.as_slice(), [MemberId(1), MemberId(3)]);
    assert_eq!((failed.len(), deciders.ids().len()), (2, 4));
}

/// What an owner asks for himself is not done behind his back later.
#[test]
fn a_commit_without_quorum_stops_the_pool() {
    let pool = Pool::new(2, 2);
    pool.lose(2).unwrap();
    pool.world.drain();
    let fails = |error| [0, 1].map(|index: usize| pool.media[index].fail(error));
    fails(Some(IoError::Timeout));
    let refused = pool.change(Change::Remove(MemberId(2))).unwrap_err();
    assert!(matches!(refused, CommitError::NoQuorum { .. }), "{refused}");
    assert!(pool.members.is_stopped());
    fails(None);
    assert_eq!(
        pool.change(Change::Lose(MemberId(3))),
        Err(CommitError::Stopped)
    );
}

/// Drives that are away for a while end no session: a loss that found no quorum is proposed again, as it was, before
/// anything else, also where only something else is asked for.
#[test]
fn losses_without_quorum_are_proposed_again() {
    let pool = Pool::new(2, 2);
    pool.media[2].fail(Some(IoError::Timeout));
    lacks_quorum(&pool.lose(0).unwrap_err());
    assert!(!pool.members.is_stopped());
    let before = pool.members.state();
    let members = Rc::clone(&pool.members);
    let beat = pool
        .world
        .run(u64::MAX, async move { members.beat(9).await });
    assert_eq!(beat.unwrap().unwrap().generation, before.generation);
    lacks_quorum(&pool.change(Change::Lose(MemberId(3))).unwrap_err());
    assert_eq!(pool.state_of(0), MemberState::Active);
    pool.media[2].fail(None);
    let second = pool.change(Change::Lose(MemberId(3))).unwrap();
    assert_eq!(pool.state_of(0), MemberState::Lost);
    assert_eq!(pool.state_of(3), MemberState::Lost);
    let repeated = before.generation.next();
    assert_eq!(
        pool.members.state().members.get(MemberId(0)).unwrap().since,
        repeated
    );
    assert!(second > repeated && pool.members.state().heartbeat == 9);
    let media = pool.crash();
    let found = import(&media.iter().collect::<Vec<_>>(), TERMS).unwrap();
    assert_eq!(
        found.state.members.get(MemberId(0)).unwrap().since,
        repeated
    );
}

/// Two imports that do not see each other must not write two tables of one generation.
#[test]
fn an_epoch_is_claimed_before_a_table_is_written() {
    let media = Pool::new(2, 1).crash();
    let (world, stores, found) = offer(&media.iter().collect::<Vec<_>>());
    let import = choose(POOL, &found, TERMS).unwrap();
    media[1].fail(Some(IoError::Gone));
    media[2].fail(Some(IoError::Gone));
    let (before, epoch) = (import.state.generation, import.epoch);
    let inner = as_world(&world);
    let flow = async move { Membership::start(inner, &import, ME, &stores).await.err() };
    let refused = world.run(u64::MAX, flow).unwrap();
    assert!(matches!(refused, Some(CommitError::NoQuorum { .. })));
    world.drain();
    let Finding::Label(label) = offer(&[&media[0]]).2.remove(0) else {
        panic!("no label")
    };
    assert_eq!((label.state.generation, label.state.epoch), (before, epoch));
    media.iter().for_each(|medium| medium.fail(None));
    let unaware = import_epoch(&[&media[1], &media[2]]);
    assert_eq!(
        (unaware, import_epoch(&[&media[0], &media[2]])),
        (epoch, epoch + 1)
    );
}

fn import_epoch(media: &[&Rc<Medium>]) -> u32 {
    import(media, TERMS).unwrap().epoch
}

#[test]
fn losses_at_once_are_merged() {
    let pool = Pool::new(2, 4);
    let flow = |id| {
        let members = Rc::clone(&pool.members);
        as_world(&pool.world).run(async move { members.change(Change::Lose(MemberId(id))).await })
    };
    let flows = [flow(1), flow(2), flow(3)];
    let generations: Vec<_> = flows
        .into_iter()
        .map(|flow| pool.world.run(u64::MAX, flow).unwrap().unwrap().generation)
        .collect();
    // The first may be on its way when the others come; those share a generation.
    assert!(
        generations.iter().collect::<BTreeSet<_>>().len() <= 2,
        "{generations:?}"
    );
    assert!(
        [1, 2, 3]
            .iter()
            .all(|id| pool.state_of(*id) == MemberState::Lost)
    );
}

#[test]
fn a_stuck_drive_does_not_hold_a_commit() {
    let pool = Pool::new(2, 2);
    pool.world.drain();
    pool.media[3].stick();
    pool.change(Change::Lose(MemberId(3))).unwrap();
    pool.change(Change::Lose(MemberId(1))).unwrap();
    let members = Rc::clone(&pool.members);
    pool.world
        .run(u64::MAX, async move { members.beat(7).await })
        .unwrap()
        .unwrap();
    assert_eq!(pool.members.state().heartbeat, 7);
}

#[test]
fn replacing_a_drive_uses_no_id_twice() {
    let mut pool = Pool::new(2, 2);
    pool.lose(1).unwrap();
    let id = pool.join(Role::Fast, 1);
    assert_eq!(
        (id, pool.state_of(4)),
        (MemberId(4), MemberState::Rebuilding)
    );
    let illegal = pool.change(Change::Rebuilt(MemberId(1)));
    assert!(matches!(
        illegal,
        Err(CommitError::Refused(ChangeError::IllegalStep { .. }))
    ));
    let last = pool.change(Change::Lose(MemberId(0)));
    let refused = ChangeError::LastFast { id: MemberId(0) };
    assert_eq!(last, Err(CommitError::Refused(refused)));
    pool.change(Change::Rebuilt(id)).unwrap();
    assert_eq!(pool.state_of(1), MemberState::Removed);
    assert_eq!(pool.join(Role::Dense, 2), MemberId(5));
    pool.world.drain();
    let media = pool.crash();
    let media: Vec<_> = media.iter().collect();
    let import = import(&media, TERMS).unwrap();
    assert_eq!(import.stale.len(), 1, "the tombstone");
    assert_eq!(import.present.len(), 5);
    assert!(!import.state.clean && import.missing.is_empty());
}

/// What the dense tier can do without is lost, not more: of two losses on their way at once one is
/// refused, whichever noticed first.
#[test]
fn no_more_is_lost_than_the_dense_tier_bears() {
    let of = |protection, data_strips, parity_strips| Geometry {
        groups: 8,
        group_blocks: 32,
        stripe_data_blocks: 8,
        strip_blocks: 4,
        protection,
        data_strips,
        parity_strips,
        ..geometry()
    };
    let cases = [
        (of(Protection::Parity, 2, 1), 3, [2, 3], false),
        (of(Protection::Parity, 2, 1), 3, [3, 4], false),
        (of(Protection::Mirror, 2, 1), 4, [2, 3], false),
        (of(Protection::Mirror, 2, 1), 4, [3, 4], true),
    ];
    for (geometry, dense, [first, second], bears_both) in cases {
        let pool = start(&new_pool_of(geometry, 2, dense, 3), TERMS);
        let losses = [first, second].map(|id| {
            let members = Rc::clone(&pool.members);
            async move { members.change(Change::Lose(MemberId(id))).await }
        });
        let [one, other] = losses.map(|loss| as_world(&pool.world).run(loss));
        let outcomes = pool
            .world
            .run(u64::MAX, async move { [one.await, other.await] });
        let lost = outcomes
            .unwrap()
            .iter()
            .filter(|outcome| outcome.is_ok())
            .count();
        assert_eq!(lost, if bears_both { 2 } else { 1 }, "{geometry:?}");
        let state = pool.members.state();
        let rows = state.members.in_state(Role::Dense, MemberState::Lost);
        assert_eq!(rows.count(), lost, "{geometry:?}");
    }
}

/// A scenario cut off after every step: what was answered is there after the restart.
#[test]
fn crash_after_every_step() {
    let (mut limit, mut ended) = (0, false);
    while !ended {
        let media = new_pool(2, 2, 1);
        let spare = Rc::new(Medium::new());
        let world = TestWorld::new(limit);
        let answers = Rc::new(std::cell::RefCell::new(Vec::new()));
        let (inner, offered, log) = (Rc::clone(&world), media.clone(), Rc::clone(&answers));
        let fresh = Rc::clone(&spare);
        let flow = async move {
            let (stores, found) = open(Rc::clone(&inner), offered).await;
            let import = choose(POOL, &found, TERMS).unwrap();
            let world = as_world(&inner);
            let pool = Membership::start(world, &import, ME, &stores)
                .await
                .unwrap();
            let store = open(inner, vec![fresh]).await.0.remove(0);
            pool.change(Change::Lose(MemberId(0))).await.unwrap();
            log.borrow_mut().push((MemberId(0), MemberState::Lost));
            pool.join(Role::Fast, 0, store).await.unwrap();
            log.borrow_mut()
                .push((MemberId(4), MemberState::Rebuilding));
            pool.change(Change::Lose(MemberId(2))).await.unwrap();
            log.borrow_mut().push((MemberId(2), MemberState::Lost));
            pool.change(Change::Rebuilt(MemberId(4))).await.unwrap();
            log.borrow_mut().push((MemberId(4), MemberState::Active));
            pool.shutdown(false).await.unwrap();
        };
        ended = world.run(limit, flow).is_some();
        world.clear();
        for medium in media.iter().chain([&spare]) {
            medium.crash(&mut Rng::new(limit));
        }
        let media: Vec<_> = media.iter().chain([&spare]).collect();
        let import = import(&media, TERMS).unwrap();
        let answers = answers.borrow();
        let table = &import.state.members;
        for (id, state) in answers.iter() {
            let row = table.get(*id).expect("acknowledged");
            let went_on = *state == MemberState::Rebuilding && row.state == MemberState::Active;
            let succeeded = *state == MemberState::Lost && row.state == MemberState::Removed;
            let successor = table.get(MemberId(4)).map(|row| row.state);
            let was_succeeded = succeeded && successor == Some(MemberState::Active);
            assert!(
                row.state == *state || went_on || was_succeeded,
                "step {limit}: {id} {}",
                row.state
            );
        }
        assert!(!ended || import.state.clean);
        limit += 1;
    }
    assert!(limit > 60, "{limit} steps");
}

#[test]
fn owners_and_the_clean_flag() {
    let media = Pool::new(2, 1).crash();
    let offered: Vec<_> = media.iter().collect();
    let other = Terms {
        owner: OTHER,
        ..TERMS
    };
    let refused = import(&offered, other).unwrap_err();
    assert!(matches!(
        refused,
        ImportError::OwnedElsewhere {
            owner: ME,
            clean: false,
            ..
        }
    ));
    let pool = start(
        &media,
        Terms {
            take_over: true,
            ..other
        },
    );
    assert_eq!(pool.members.state().owner, OTHER);
    let media = pool.shutdown(false);
    let offered: Vec<_> = media.iter().collect();
    assert!(import(&offered, other).unwrap().state.clean);
    let refused = import(&offered, TERMS).unwrap_err();
    assert!(matches!(
        refused,
        ImportError::OwnedElsewhere {
            owner: OTHER,
            clean: true,
            ..
        }
    ));
    let media = start(&media, other).shutdown(true);
    let offered: Vec<_> = media.iter().collect();
    let import = import(&offered, TERMS).unwrap();
    assert!(import.state.clean, "released: anyone may");
    assert_eq!(import.epoch, 4);
}

#[test]
fn foreign_blank_and_copied_drives() {
    let media = new_pool(2, 1, 1);
    let (blank, broken, copy) = (Medium::new(), Medium::new(), Medium::new());
    broken.fail(Some(IoError::Media));
    copy.clone_from(&media[1]);
    let (blank, broken, copy) = (Rc::new(blank), Rc::new(broken), Rc::new(copy));
    let all = [&media[0], &blank, &broken, &media[1], &media[2]];
    let found = offer(&all).2;
    let here = choose(POOL, &found, TERMS).unwrap();
    assert_eq!(
        (here.blank.as_slice(), here.unreadable.len()),
        ([1].as_slice(), 1)
    );
    assert_eq!(
        here.present
            .iter()
            .map(|member| member.drive)
            .collect::<Vec<_>>(),
        [0, 3, 4]
    );
    assert_eq!(pools(&found), [POOL]);
    let other = PoolId([9; 16]);
    assert_eq!(
        choose(other, &found, TERMS),
        Err(ImportError::NoLabel { pool: other })
    );
    let twins = import(&[&media[0], &media[1], &copy, &media[2]], TERMS).unwrap_err();
    assert_eq!(
        twins,
        ImportError::Duplicate {
            id: MemberId(1),
            first: 1,
            second: 2
        }
    );
}

#[test]
fn messages_are_unique() {
    let (id, generation) = (MemberId(1), TableGeneration::new(2, 3));
    let lacking = Loss::NoQuorum {
        generation,
        voters: Voters::new(vec![id]),
        missing: vec![id],
    };
    let newest = Loss::NewestData {
        missing: vec![id],
        stale: MemberId(0),
        since: generation,
    };
    let (from, to) = (MemberState::Lost, MemberState::Active);
    let error = IoError::Gone;
    let (durable, failed) = (vec![], vec![(id, error)]);
    let deciders = Voters::new(vec![id]);
    let messages = [
        ImportError::NoLabel { pool: POOL }.to_string(),
        ImportError::Duplicate {
            id,
            first: 1,
            second: 2,
        }
        .to_string(),
        ImportError::Conflict { generation, id }.to_string(),
        ImportError::OwnedElsewhere {
            owner: OTHER,
            clean: false,
            heartbeat: 5,
        }
        .to_string(),
        ImportError::WouldLose(lacking).to_string(),
        ImportError::WouldLose(newest).to_string(),
        ImportError::NoFast { missing: vec![id] }.to_string(),
        ImportError::EpochsUsedUp.to_string(),
        CommitError::NoQuorum {
            generation,
            deciders,
            durable,
            failed,
        }
        .to_string(),
        CommitError::Refused(ChangeError::TableFull).to_string(),
        CommitError::Stopped.to_string(),
        CommitError::Closed.to_string(),
        CommitError::NotBlank.to_string(),
        CommitError::NotMember { id }.to_string(),
        ChangeError::NoMember { id }.to_string(),
        ChangeError::SlotTaken {
            role: Role::Fast,
            slot: 0,
            id,
        }
        .to_string(),
        ChangeError::IllegalStep { id, from, to }.to_string(),
        ChangeError::LastFast { id }.to_string(),
        ChangeError::TableFull.to_string(),
        CreateError::NoFast.to_string(),
        CreateError::NotBlank { drive: 1 }.to_string(),
        CreateError::Io { drive: 1, error }.to_string(),
    ];
    check_messages(&messages);
}

/// All differ, begin in lower case and end without a full stop.
fn check_messages(messages: &[String]) {
    assert_eq!(
        messages.iter().collect::<BTreeSet<_>>().len(),
        messages.len()
    );
    for message in messages {
        assert!(
            message.starts_with(|first: char| first.is_lowercase()),
            "{message}"
        );
        assert!(!message.ends_with('.') && message.len() > 10, "{message}");
    }
}
