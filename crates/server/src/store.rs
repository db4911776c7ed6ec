//! What holds the blocks of a namespace.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use varve_ftl::Recall;
use varve_io::Blocks;
use varve_target::{Completion, Operation};
use varve_units::BLOCK;

/// Content of blocks on its way to a host: shared, not copied.
#[derive(Clone)]
pub struct Content {
    blocks: Rc<Blocks>,
    bytes: Range<usize>,
}

impl Content {
    /// The first `count` blocks of these.
    ///
    /// # Panics
    /// If there are fewer, or they are symbols.
    #[must_use]
    pub fn of(blocks: Rc<Blocks>, count: usize) -> Self {
        let bytes = 0..count * BLOCK;
        assert!(bytes.end <= blocks.bytes().len(), "blocks of the content");
        Self { blocks, bytes }
    }

    /// The blocks, and which of their bytes count.
    #[must_use]
    pub fn into_parts(self) -> (Rc<Blocks>, Range<usize>) {
        (self.blocks, self.bytes)
    }
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        &self.blocks.bytes()[self.bytes.clone()]
    }
}

/// How far an operation came.
pub enum Step {
    /// It is done.
    Done(Completion<Content>),
    /// It is done when this flow ends. Flows run to their end, whatever becomes of the host: they are not dropped.
    Later(Pin<Box<dyn Future<Output = Completion<Content>>>>),
}

/// What holds the blocks of a namespace.
pub trait Store {
    /// Begins an operation. Blocks it names lie inside the namespace as the target knew it. A write that is recalled
    /// need not be done, or not all of it: no host is told of it.
    fn begin(&self, operation: Operation, recall: &Recall) -> Step;
}
