//! SepBIT: six classes by when blocks are expected to die. A block whose last version lived for a
//! short time is expected to live for a short time again; one that garbage collection finds alive is
//! expected to live on the longer, the older it is.
//!
//! Victims by cost and benefit, as in its own evaluation.
//!
//! # Source
//! Wang et al.: Separating Data via Block Invalidation Time Inference for Write Amplification
//! Reduction in Log-Structured Storage, FAST 2022, algorithm 1.

use super::super::policy::{Moving, Policy, View};
use crate::comparators::{SEPBIT, TEXT_BOOK};

/// Six classes by inferred time of death.
pub(super) struct SepBit {
    /// By block: its last version lived for less than the average.
    is_short: Vec<bool>,
    /// Average lifespan of units of class 0, in host writes.
    average: f64,
    collected: u32,
    sum: u64,
}

impl SepBit {
    /// For a volume of `blocks` blocks.
    pub(super) fn new(blocks: u64) -> Self {
        Self {
            is_short: vec![false; blocks as usize],
            average: f64::INFINITY,
            collected: 0,
            sum: 0,
        }
    }
}

impl Policy for SepBit {
    fn streams(&self) -> usize {
        SEPBIT.classes
    }

    fn reserve(&self) -> usize {
        TEXT_BOOK.free_units
    }

    fn discards(&self) -> bool {
        TEXT_BOOK.discards
    }

    fn written(&mut self, block: u32, lifespan: Option<u64>) {
        let is_short = lifespan.is_some_and(|lifespan| (lifespan as f64) < self.average);
        self.is_short[block as usize] = is_short;
    }

    fn stream_of_new(&mut self, moving: &Moving) -> usize {
        usize::from(!self.is_short[moving.block as usize])
    }

    fn stream_of_moved(&mut self, moving: &Moving, from: usize) -> usize {
        if from == 0 {
            return 2;
        }
        let older = SEPBIT
            .ages
            .iter()
            .filter(|age| moving.age as f64 >= *age * self.average);
        3 + older.count()
    }

    fn victim(&mut self, view: &View<'_>) -> Option<u32> {
        let unit = view.units.best_by_cost_and_benefit(view.now)?;
        if view.units.stream(unit) == 0 {
            self.sum += view.now - view.units.opened_at(unit);
            self.collected += 1;
            if self.collected == SEPBIT.window {
                self.average = self.sum as f64 / f64::from(SEPBIT.window);
                (self.collected, self.sum) = (0, 0);
            }
        }
        Some(unit)
    }
}
