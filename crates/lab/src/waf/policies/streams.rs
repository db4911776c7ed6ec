//! One stream for everything, or one for hosts and one for garbage collection, and the three victim
//! rules of the text books.

use super::super::policy::{Moving, Policy, View};
use crate::comparators::TEXT_BOOK;
use std::collections::VecDeque;

/// Which unit is emptied next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// The one with the fewest live blocks.
    Greedy,
    /// The one that was closed first.
    Fifo,
    /// The one whose emptying gains most for its cost.
    CostBenefit,
}

/// Simple streams with a simple rule.
pub(super) struct Streams {
    rule: Rule,
    has_own_for_moved: bool,
    /// In the order of closing.
    closed: VecDeque<u32>,
}

impl Streams {
    /// One stream.
    pub(super) const fn one(rule: Rule) -> Self {
        Self::new(rule, false)
    }

    /// What hosts wrote and what is moved apart.
    pub(super) const fn two(rule: Rule) -> Self {
        Self::new(rule, true)
    }

    const fn new(rule: Rule, has_own_for_moved: bool) -> Self {
        Self {
            rule,
            has_own_for_moved,
            closed: VecDeque::new(),
        }
    }
}

impl Policy for Streams {
    fn streams(&self) -> usize {
        1 + usize::from(self.has_own_for_moved)
    }

    fn reserve(&self) -> usize {
        TEXT_BOOK.free_units
    }

    fn discards(&self) -> bool {
        TEXT_BOOK.discards
    }

    fn stream_of_new(&mut self, _moving: &Moving) -> usize {
        0
    }

    fn stream_of_moved(&mut self, _moving: &Moving, _from: usize) -> usize {
        usize::from(self.has_own_for_moved)
    }

    fn closed(&mut self, unit: u32) {
        if self.rule == Rule::Fifo {
            self.closed.push_back(unit);
        }
    }

    fn victim(&mut self, view: &View<'_>) -> Option<u32> {
        match self.rule {
            Rule::Greedy => view.units.emptiest(),
            Rule::Fifo => self.closed.pop_front(),
            Rule::CostBenefit => view.units.best_by_cost_and_benefit(view.now),
        }
    }
}
