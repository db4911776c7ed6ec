//! The two copies of one drive: torn, damaged, erased.

use crate::common::{ME, Medium, POOL, Rng, TestWorld, geometry, name, open};
use std::cell::Cell;
use std::rc::Rc;
use varve_io::IoError;
use varve_pool::label::{
    Finding, Label, LabelState, Member, MemberId, MemberState, MemberTable, Role, TableGeneration,
};

/// A label of `generation` whose table fills several sectors, all different in each generation.
fn label(generation: u32) -> Label {
    let generation = TableGeneration::new(1, generation);
    let member = |id| Member {
        id: MemberId(id),
        role: Role::Dense,
        slot: id as u8,
        state: MemberState::Active,
        held_all: true,
        size_bytes: generation.bits(),
        since: generation,
    };
    Label {
        own: MemberId(3),
        state: LabelState {
            pool: POOL,
            name: name(),
            generation,
            epoch: 1,
            owner: ME,
            heartbeat: 0,
            clean: false,
            unfinished: false,
            geometry: geometry(),
            members: MemberTable::new((0..60).map(member).collect()).unwrap(),
        },
    }
}

fn find(medium: &Rc<Medium>) -> Finding {
    let world = TestWorld::new(1);
    let inner = Rc::clone(&world);
    let media = vec![Rc::clone(medium)];
    world
        .run(
            u64::MAX,
            async move { open(inner, media).await.1.remove(0) },
        )
        .unwrap()
}

/// Writes labels of generation `from` on until a crash after `limit` steps; returns the last one
/// that was reported durable, or 0.
fn write_until(medium: &Rc<Medium>, from: u32, limit: u64, seed: u64) -> u32 {
    let world = TestWorld::new(seed);
    let (inner, medium) = (Rc::clone(&world), vec![Rc::clone(medium)]);
    let durable = Rc::new(Cell::new(0));
    let last = Rc::clone(&durable);
    world.run(limit, async move {
        let store = open(inner, medium).await.0.remove(0);
        for generation in from..from + 5 {
            store.write(&label(generation)).await.unwrap();
            last.set(generation);
        }
    });
    world.clear();
    durable.get()
}

#[test]
fn a_torn_write_leaves_the_label_before_it() {
    let mut undecided = 0;
    for seed in 0..4000 {
        let mut rng = Rng::new(seed);
        let medium = Rc::new(Medium::new());
        let mut durable = write_until(&medium, 1, u64::MAX, seed);
        let mut next = durable + 1;
        for _ in 0..4 {
            durable = durable.max(write_until(&medium, next, rng.below(30), seed));
            // Now and then only the process dies: what is read back may still be in the cache.
            if !rng.one_in(3) {
                medium.crash(&mut rng);
            }
            let Finding::Label(found) = find(&medium) else {
                panic!("no label, seed {seed}")
            };
            let generation = found.state.generation.bits() as u32;
            assert!(
                generation >= durable,
                "seed {seed}: {generation} after {durable}"
            );
            assert_eq!(found, label(generation));
            undecided += u32::from(generation > durable);
            next = generation + 1;
        }
    }
    assert!(undecided > 1000);
}

#[test]
fn one_damaged_copy_leaves_the_other() {
    let medium = Rc::new(Medium::new());
    assert_eq!(find(&medium), Finding::Blank);
    write_until(&medium, 1, u64::MAX, 0);
    assert_eq!(find(&medium), Finding::Label(label(5)));
    for byte in [0, 100, 2000, 4095] {
        // Five writes from A on: the newest is in A.
        medium.damage(byte);
        assert_eq!(find(&medium), Finding::Label(label(4)), "byte {byte}");
        medium.damage((64 << 10) + byte);
        assert_eq!(find(&medium), Finding::Blank, "byte {byte}");
        medium.damage(byte);
        assert_eq!(find(&medium), Finding::Label(label(5)), "byte {byte}");
        medium.damage((64 << 10) + byte);
    }
    medium.fail(Some(IoError::Gone));
    assert_eq!(find(&medium), Finding::Unreadable(IoError::Gone));
}

#[test]
fn older_labels_are_not_written_and_erasing_erases() {
    let medium = Rc::new(Medium::new());
    write_until(&medium, 1, u64::MAX, 0);
    let flushes = medium.flushes();
    let world = TestWorld::new(2);
    let (inner, media) = (Rc::clone(&world), vec![Rc::clone(&medium)]);
    let store = world.run(u64::MAX, async move {
        let store = open(inner, media).await.0.remove(0);
        store.write(&label(3)).await.unwrap();
        store
    });
    let store = store.unwrap();
    assert_eq!(medium.flushes(), flushes);
    assert_eq!(find(&medium), Finding::Label(label(5)));
    let blank = Rc::clone(&store);
    world
        .run(u64::MAX, async move { blank.erase().await.unwrap() })
        .unwrap();
    assert_eq!(store.finding(), Finding::Blank);
    medium.crash(&mut Rng::new(1));
    assert_eq!(find(&medium), Finding::Blank);
}
