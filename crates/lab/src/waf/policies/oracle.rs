//! An oracle: it knows how often each block is written, and gives each octave of that a stream.
//! Nobody has that knowledge; what is between it and the others is what guessing costs.
//!
//! # Source
//! The row "rate oracle, 12 streams, cost-benefit" of the figures in `docs/lab.md`.

use super::super::policy::{Moving, Policy, View};
use crate::comparators::{ORACLE, TEXT_BOOK};

/// A policy that knows the rates.
pub(super) struct Oracle {
    blocks: f64,
}

impl Oracle {
    /// For a volume of `blocks` blocks.
    pub(super) const fn new(blocks: u64) -> Self {
        Self {
            blocks: blocks as f64,
        }
    }

    fn class(&self, moving: &Moving) -> usize {
        let octave = (moving.interval / self.blocks).log2().round() as i32;
        (octave + ORACLE.middle).clamp(0, ORACLE.classes - 1) as usize
    }
}

impl Policy for Oracle {
    fn streams(&self) -> usize {
        ORACLE.classes as usize
    }

    fn reserve(&self) -> usize {
        TEXT_BOOK.free_units
    }

    fn discards(&self) -> bool {
        TEXT_BOOK.discards
    }

    fn stream_of_new(&mut self, moving: &Moving) -> usize {
        self.class(moving)
    }

    fn stream_of_moved(&mut self, moving: &Moving, _from: usize) -> usize {
        self.class(moving)
    }

    fn victim(&mut self, view: &View<'_>) -> Option<u32> {
        view.units.best_by_cost_and_benefit(view.now)
    }
}
