//! Blocks of zeroes that take no memory yet behave like blocks that do.

use varve_io::{Block, BlockRef, Blocks};
use varve_units::BLOCK;

const COUNT: usize = 6;

fn block(value: u8) -> Block {
    Block([value; BLOCK])
}

fn check(blocks: &Blocks, model: &[u8; COUNT]) {
    for (index, &value) in model.iter().enumerate() {
        assert_eq!(blocks.block(index), BlockRef::Bytes(&block(value).0));
        assert!(blocks.get(index).0 == block(value).0);
    }
    let bytes = blocks.bytes().chunks_exact(BLOCK);
    assert!(
        bytes
            .zip(model)
            .all(|(bytes, &value)| bytes == block(value).0)
    );
    assert_eq!(blocks.bytes().len(), COUNT * BLOCK);
}

/// Every pair of changes, from every state a third one leaves, with and without a look between.
#[test]
fn puts_copies_and_zeroes_are_what_they_say() {
    let ranges = || (0..COUNT).flat_map(|at| (1..=COUNT - at).map(move |count| (at, count)));
    for (first, second) in ranges().flat_map(|one| ranges().map(move |two| (one, two))) {
        for kinds in 0..32_u8 {
            let mut blocks = Blocks::zeroed(COUNT);
            let mut model = [0; COUNT];
            for (step, (at, count)) in [(0, first), (2, second)] {
                match kinds >> step & 3 {
                    0 => {
                        blocks.put(at, &vec![block(step + 1); count]);
                        model[at..at + count].fill(step + 1);
                    }
                    1 => {
                        let mut from = Blocks::zeroed(count + 1);
                        from.put(0, &[block(9), block(step + 5)]);
                        blocks.copy_from(at, &from, 1, count);
                        model[at..at + count].fill(0);
                        model[at] = step + 5;
                    }
                    2 => {
                        blocks.zero(at, count);
                        model[at..at + count].fill(0);
                    }
                    _ => {
                        blocks.bytes_mut()[at * BLOCK..(at + count) * BLOCK].fill(7);
                        model[at..at + count].fill(7);
                    }
                }
                if kinds & 16 != 0 {
                    check(&blocks, &model);
                }
            }
            check(&blocks.clone(), &model);
            check(&blocks.extract(0, COUNT), &model);
            check(&blocks, &model);
        }
    }
}

/// Nothing reaches beyond the end, whatever is held.
#[test]
#[should_panic(expected = "blocks of the run")]
fn a_put_beyond_the_end_panics() {
    Blocks::zeroed(2).put(1, &[block(1), block(2)]);
}
