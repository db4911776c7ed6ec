//! Memory that is used again.

use std::cell::RefCell;
use varve_io::{Block, Blocks, Home, Recycler, Sector, Supply};

const BLOCK: usize = 4096;

thread_local! {
    static STORE: RefCell<Recycler> = const { RefCell::new(Recycler::new(64, 8)) };
}

/// Each thread's store; a test has a thread of its own.
struct Threads;

impl Home for Threads {
    fn take(&self, count: usize) -> Vec<Block> {
        STORE.with_borrow(|store| store.take(count))
    }

    fn give(&self, blocks: Vec<Block>) {
        STORE.with_borrow(|store| store.give(blocks));
    }

    fn take_sectors(&self, count: usize) -> Vec<Sector> {
        STORE.with_borrow(|store| store.take_sectors(count))
    }

    fn give_sectors(&self, sectors: Vec<Sector>) {
        STORE.with_borrow(|store| store.give_sectors(sectors));
    }
}

static THREADS: Threads = Threads;

fn limit(blocks_max: usize) {
    STORE.set(Recycler::new(blocks_max, 8));
}

fn kept() -> usize {
    STORE.with_borrow(Recycler::kept)
}

fn filled(count: usize, byte: u8) -> Blocks {
    let mut blocks = Blocks::recycled(count, &THREADS);
    blocks.bytes_mut().fill(byte);
    blocks
}

#[test]
fn dropped_memory_is_used_again_at_any_length_of_its_shelf() {
    limit(64);
    let first = filled(8, 7);
    let place = first.bytes().as_ptr();
    assert_eq!(kept(), 0);
    drop(first);
    assert_eq!(kept(), 8);
    let second = Blocks::recycled(5, &THREADS);
    assert_eq!(second.bytes().as_ptr(), place);
    assert_eq!((second.len(), second.bytes().len()), (5, 5 * BLOCK));
    assert_eq!(kept(), 0);
    let other = Blocks::recycled(5, &THREADS);
    assert_ne!(other.bytes().as_ptr(), place);
}

#[test]
fn copies_are_of_their_own_memory() {
    limit(64);
    let mut first = filled(3, 1);
    let copy = first.clone();
    first.bytes_mut().fill(2);
    assert_eq!(copy.bytes(), [1; 3 * BLOCK]);
    drop((first, copy));
    assert_eq!(kept(), 8);
}

/// Blocks that another thread drops are kept there.
#[test]
#[expect(clippy::disallowed_methods, reason = "a second reactor")]
fn memory_stays_where_it_was_dropped() {
    limit(64);
    let blocks = filled(4, 9);
    let there = std::thread::spawn(move || {
        assert_eq!(blocks.bytes(), [9; 4 * BLOCK]);
        drop(blocks);
        kept()
    });
    assert_eq!((there.join().unwrap(), kept()), (4, 0));
}

#[test]
fn no_more_is_kept_than_allowed() {
    limit(6);
    let lengths = [4, 2, 1, 300];
    drop(lengths.map(|count| filled(count, 1)));
    assert_eq!(kept(), 6);
}

#[test]
fn empty_and_long_runs_work() {
    limit(1 << 20);
    assert!(Blocks::recycled(0, &THREADS).is_empty());
    drop(filled(257, 3));
    assert_eq!(Blocks::recycled(257, &THREADS).len(), 257);
}

/// Sectors come back when nobody shares them any more, to the shelf of their length, and are what they were filled with.
#[test]
fn sectors_are_used_again_when_the_last_share_is_gone() {
    limit(64);
    let kept = || STORE.with_borrow(Recycler::kept_sectors);
    let supply = Supply::of(&THREADS);
    let first = supply.copy(&[7; 3 * 512]);
    let place = first.bytes().as_ptr();
    let slice = first.slice(1, 1);
    drop(first);
    assert_eq!(kept(), 0);
    assert_eq!(slice.bytes(), [7; 512]);
    drop(slice);
    assert_eq!(kept(), 3);
    let other = supply.copy(&[8; 2 * 512]);
    assert_ne!(other.bytes().as_ptr(), place);
    let padded = supply.copy(&[9; 2 * 512 + 1]);
    assert_eq!(padded.bytes().as_ptr(), place);
    assert_eq!(padded.bytes()[1023..1026], [9, 9, 0]);
    assert_eq!(padded.bytes()[1026..], [0; 510]);
    drop((padded, other));
    assert_eq!(kept(), 5);
    // More than are to be kept, and longer ones than there is a shelf for.
    drop(supply.copy(&[1; 4 * 512]));
    drop(supply.filled(64, |bytes| bytes.fill(1)));
    assert_eq!(kept(), 5);
    let fresh = Supply::default().filled(1, |bytes| bytes.fill(3));
    assert_eq!(fresh.bytes(), [3; 512]);
    assert_eq!(
        Supply::default().copy(&[4; 5]).bytes()[..6],
        [4, 4, 4, 4, 4, 0]
    );
}
