//! A store of zeroes: it forgets what is written. For measurements of everything but storage.

use crate::store::{Content, Step, Store};
use std::rc::Rc;
use varve_ftl::Recall;
use varve_io::Blocks;
use varve_target::{Operation, TRANSFER_BYTES_MAX};
use varve_units::BLOCK;

/// Reads as zeroes, whatever was written.
pub struct NullStore {
    /// As many blocks as one command can ask for.
    zeroes: Rc<Blocks>,
}

impl NullStore {
    /// Makes one.
    #[must_use]
    pub fn new() -> Self {
        let zeroes = Rc::new(Blocks::zeroed(TRANSFER_BYTES_MAX as usize / BLOCK));
        Self { zeroes }
    }
}

impl Default for NullStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for NullStore {
    fn begin(&self, operation: Operation, _: &Recall) -> Step {
        Step::Done(Ok(match operation {
            Operation::Read { blocks, .. } => {
                Some(Content::of(Rc::clone(&self.zeroes), blocks as usize))
            }
            Operation::Write { .. }
            | Operation::Flush
            | Operation::WriteZeroes { .. }
            | Operation::Deallocate { .. } => None,
        }))
    }
}
