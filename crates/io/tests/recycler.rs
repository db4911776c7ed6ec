//! Memory that is used again.

use varve_io::{Blocks, Recycler};

const BLOCK: usize = 4096;

fn filled(count: usize, from: &Recycler, byte: u8) -> Blocks {
    let mut blocks = Blocks::recycled(count, from);
    blocks.bytes_mut().fill(byte);
    blocks
}

#[test]
fn dropped_memory_is_used_again_at_any_length_of_its_shelf() {
    let recycler = Recycler::new(64);
    let first = filled(8, &recycler, 7);
    let place = first.bytes().as_ptr();
    assert_eq!(recycler.kept(), 0);
    drop(first);
    assert_eq!(recycler.kept(), 8);
    let second = Blocks::recycled(5, &recycler);
    assert_eq!(second.bytes().as_ptr(), place);
    assert_eq!((second.len(), second.bytes().len()), (5, 5 * BLOCK));
    assert_eq!(recycler.kept(), 0);
    let other = Blocks::recycled(5, &recycler);
    assert_ne!(other.bytes().as_ptr(), place);
}

#[test]
fn copies_are_of_their_own_memory() {
    let recycler = Recycler::new(64);
    let mut first = filled(3, &recycler, 1);
    let copy = first.clone();
    first.bytes_mut().fill(2);
    assert_eq!(copy.bytes(), [1; 3 * BLOCK]);
    drop((first, copy));
    assert_eq!(recycler.kept(), 8);
}

#[test]
fn no_more_is_kept_than_allowed() {
    let recycler = Recycler::new(6);
    let lengths = [4, 2, 1, 300];
    drop(lengths.map(|count| filled(count, &recycler, 1)));
    assert_eq!(recycler.kept(), 6);
}

#[test]
fn empty_and_long_runs_work() {
    let recycler = Recycler::new(1 << 20);
    assert!(Blocks::recycled(0, &recycler).is_empty());
    drop(filled(257, &recycler, 3));
    assert_eq!(Blocks::recycled(257, &recycler).len(), 257);
}
