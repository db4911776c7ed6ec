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

/// Somebody made a partition table of the drive: the other copy lies in the gap before the first
/// partition, and says nothing any more. Some programs leave the first 440 bytes as they were.
#[test]
fn a_drive_put_to_another_use_is_no_member() {
    let mut table = vec![0; 34 * 512];
    table[510..512].copy_from_slice(&[0x55, 0xaa]);
    table[512..520].copy_from_slice(b"EFI PART");
    let mut volume = vec![0; 4096];
    volume[0x200..0x208].copy_from_slice(b"LABELONE");
    let uses: [(usize, &[u8]); 5] = [
        (0, &table),
        (440, &table[440..]),
        (0, &volume),
        (0, b"XFSB and what a file system has in its first sector"),
        (64 << 10, b"blocks of a file, with no mark of anything"),
    ];
    for (offset, bytes) in uses {
        // Five writes from A on leave the newest in A, six in B.
        for writes in [1, 2] {
            let medium = Rc::new(Medium::new());
            write_until(&medium, 1, u64::MAX, 5);
            write_until(&medium, 6, if writes == 1 { 0 } else { u64::MAX }, 5);
            assert!(matches!(find(&medium), Finding::Label(_)));
            medium.overwrite(offset, bytes);
            let (pool, id) = (POOL, MemberId(3));
            assert_eq!(
                find(&medium),
                Finding::OtherUse { pool, id },
                "{} at {offset}",
                bytes.escape_ascii()
            );
        }
    }
}

/// Erased, torn while it was erased or first written, or rotten where labels are told by: one copy
/// of a member.
#[test]
fn what_became_of_a_label_is_no_other_use() {
    let zeroes = [0; 4096];
    for at in [0, 64 << 10] {
        let is_member = |change: &dyn Fn(&Medium)| {
            let medium = Rc::new(Medium::new());
            write_until(&medium, 1, u64::MAX, 5);
            change(&medium);
            assert!(matches!(find(&medium), Finding::Label(_)), "at {at}");
        };
        for torn in 1..256_u32 {
            is_member(&|medium| {
                for sector in (0..8).filter(|sector| torn >> sector & 1 == 1) {
                    medium.overwrite(at + sector * 512, &zeroes[..512]);
                }
            });
        }
        is_member(&|medium| medium.overwrite(at, b"none"));
        is_member(&|medium| medium.overwrite(at + 16, &zeroes[..16]));
        is_member(&|medium| {
            medium.overwrite(at, &zeroes[..2]);
            medium.overwrite(at + 16, &zeroes[..8]);
        });
    }
}

/// What is somebody else's joins a pool, or is given a label, only after it was erased.
#[test]
fn another_use_ends_when_it_is_erased() {
    let medium = Rc::new(Medium::new());
    write_until(&medium, 1, u64::MAX, 5);
    medium.overwrite(0, b"what somebody else has at the start of a drive");
    let world = TestWorld::new(2);
    let (inner, media) = (Rc::clone(&world), vec![Rc::clone(&medium)]);
    let found = world.run(u64::MAX, async move {
        let store = open(inner, media).await.0.remove(0);
        assert!(store.is_other_use() && store.label().is_none());
        store.erase().await.unwrap();
        store.write(&label(1)).await.unwrap();
        store.finding()
    });
    assert_eq!(found, Some(Finding::Label(label(1))));
    assert_eq!(find(&medium), Finding::Label(label(1)));
}
