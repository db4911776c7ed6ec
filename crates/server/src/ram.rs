//! A store in memory, gone with the process. For measurements and tests of everything but storage.

use crate::store::{Content, Step, Store};
use std::cell::RefCell;
use std::rc::Rc;
use varve_ftl::Recall;
use varve_hostio::Piece;
use varve_io::{World, ZEROES};
use varve_target::{Failure, Operation};
use varve_units::BLOCK;

/// Blocks of one piece of memory, taken when it is first written: 64 MiB. Arbitrary: many huge pages,
/// few mappings.
const PIECE_BLOCKS: u64 = 16 << 10;

/// Blocks in memory, in huge pages where the system has them: blocks at random in small pages cost a
/// miss of the TLB each.
pub struct RamStore {
    world: Rc<dyn World>,
    blocks: u64,
    piece_blocks: u64,
    /// Absent pieces are zeroes.
    pieces: RefCell<Vec<Option<Piece>>>,
}

/// A run of blocks inside one piece: which, where in it and how many bytes.
struct Run {
    piece: usize,
    start: usize,
    bytes: usize,
}

impl RamStore {
    /// `blocks` blocks of zeroes.
    #[must_use]
    pub fn new(world: Rc<dyn World>, blocks: u64) -> Self {
        Self::with_pieces(world, blocks, PIECE_BLOCKS)
    }

    fn with_pieces(world: Rc<dyn World>, blocks: u64, piece_blocks: u64) -> Self {
        let count = blocks.div_ceil(piece_blocks) as usize;
        Self {
            world,
            blocks,
            piece_blocks,
            pieces: RefCell::new((0..count).map(|_| None).collect()),
        }
    }

    fn piece_bytes(&self) -> usize {
        self.piece_blocks as usize * BLOCK
    }

    /// The runs of a range that lies inside.
    fn runs(&self, lba: u64, blocks: u64) -> Result<impl Iterator<Item = Run> + use<>, Failure> {
        let end = lba.checked_add(blocks).filter(|end| *end <= self.blocks);
        let end = end.ok_or(Failure::OutOfRange)?;
        let (mut at, piece_blocks) = (lba, self.piece_blocks);
        Ok(std::iter::from_fn(move || {
            let stop = end.min((at / piece_blocks + 1) * piece_blocks);
            let run = (at < stop).then(|| Run {
                piece: (at / piece_blocks) as usize,
                start: (at % piece_blocks) as usize * BLOCK,
                bytes: (stop - at) as usize * BLOCK,
            });
            at = stop;
            run
        }))
    }

    fn read(&self, lba: u64, blocks: u32) -> Result<Content, Failure> {
        let runs = self.runs(lba, u64::from(blocks))?;
        let mut into = self.world.blocks(blocks as usize, false);
        let mut rest = into.bytes_mut();
        let pieces = self.pieces.borrow();
        for run in runs {
            let part = rest.split_off_mut(..run.bytes).expect("a run of the range");
            match &pieces[run.piece] {
                Some(piece) => piece.read(run.start, part, false),
                None => part.fill(0),
            }
        }
        Ok(Content::of(Rc::new(into), blocks as usize))
    }

    fn write(&self, lba: u64, data: &[u8]) -> Result<(), Failure> {
        assert!(data.len().is_multiple_of(BLOCK), "whole blocks");
        let mut rest = data;
        let mut pieces = self.pieces.borrow_mut();
        for run in self.runs(lba, (data.len() / BLOCK) as u64)? {
            let piece = pieces[run.piece].get_or_insert_with(|| Piece::zeroed(self.piece_bytes()));
            let (part, behind) = rest.split_at(run.bytes);
            piece.write(run.start, part);
            rest = behind;
        }
        Ok(())
    }

    /// Sets blocks to zeroes; whole pieces give their memory back.
    fn zero(&self, lba: u64, blocks: u64) -> Result<(), Failure> {
        let mut pieces = self.pieces.borrow_mut();
        for run in self.runs(lba, blocks)? {
            if run.bytes == self.piece_bytes() {
                pieces[run.piece] = None;
            } else if let Some(piece) = &pieces[run.piece] {
                let end = run.start + run.bytes;
                (run.start..end)
                    .step_by(BLOCK)
                    .for_each(|at| piece.write(at, &ZEROES.0));
            }
        }
        Ok(())
    }

    fn execute(&self, operation: Operation) -> Result<Option<Content>, Failure> {
        match operation {
            Operation::Read { lba, blocks } => return self.read(lba, blocks).map(Some),
            Operation::Write { lba, data, .. } => self.write(lba, &data)?,
            Operation::Flush => {}
            Operation::WriteZeroes { lba, blocks, .. } => self.zero(lba, u64::from(blocks))?,
            Operation::Deallocate { ranges } => {
                for (lba, blocks) in ranges {
                    self.zero(lba, u64::from(blocks))?;
                }
            }
        }
        Ok(None)
    }
}

impl Store for RamStore {
    fn begin(&self, operation: Operation, _: &Recall) -> Step {
        Step::Done(self.execute(operation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_hostio::Executor;
    use varve_units::LEAF_BLOCKS;

    fn read(store: &RamStore, lba: u64, blocks: u32) -> Result<Vec<u8>, Failure> {
        let content = store.execute(Operation::Read { lba, blocks })?;
        Ok(content.expect("content of a read").as_ref().to_vec())
    }

    /// Operations drawn at random over piece borders against one flat piece of memory.
    #[test]
    fn holds_what_a_flat_memory_holds() {
        let executor = Executor::new();
        let piece = LEAF_BLOCKS;
        let size = 2 * piece + 7;
        let store = RamStore::with_pieces(executor.world(), size, piece);
        let mut model = vec![0_u8; size as usize * BLOCK];
        let mut state = 42_u64;
        let mut draw = move |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for round in 0..400_u64 {
            // Near the borders, and now and then whole pieces.
            let lba = draw(size);
            let most = if round % 10 == 0 { size } else { 9 };
            let blocks = 1 + draw(most.min(size - lba));
            let bytes = lba as usize * BLOCK..(lba + blocks) as usize * BLOCK;
            let operation = match draw(4) {
                0 => Operation::WriteZeroes {
                    lba,
                    blocks: blocks as u32,
                    fua: false,
                },
                1 => Operation::Deallocate {
                    ranges: vec![(lba, blocks as u32)],
                },
                _ => {
                    let data = vec![round as u8 | 1; bytes.len()];
                    Operation::Write {
                        lba,
                        data,
                        fua: true,
                    }
                }
            };
            match &operation {
                Operation::Write { data, .. } => model[bytes].copy_from_slice(data),
                _ => model[bytes].fill(0),
            }
            assert!(matches!(store.execute(operation), Ok(None)));
            let lba = draw(size);
            let blocks = 1 + draw(700.min(size - lba));
            let bytes = lba as usize * BLOCK..(lba + blocks) as usize * BLOCK;
            assert!(read(&store, lba, blocks as u32).unwrap() == model[bytes]);
        }
        assert_eq!(read(&store, size - 1, 2), Err(Failure::OutOfRange));
        assert_eq!(read(&store, u64::MAX, 2), Err(Failure::OutOfRange));
        assert!(matches!(store.execute(Operation::Flush), Ok(None)));
    }
}
