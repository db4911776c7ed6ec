//! Policies of the text books.

use super::csal_today::yes_or_no;
use super::stated::Stated;
use crate::waf::PolicyName;

/// What all policies that own parts of a group share.
pub(crate) struct TextBook {
    /// Units that a policy is given at least: one open unit more or less weighs nothing then, and units are still so large
    /// at two million blocks that chance evens out in them, as the formula for uniform writes wants it.
    pub(crate) units: u32,
    /// Free units at which one is emptied before another is opened for what hosts wrote.
    pub(crate) free_units: usize,
    /// True if it tells the drive which units it has emptied.
    pub(crate) discards: bool,
}

pub(crate) const TEXT_BOOK: TextBook = TextBook {
    units: 2000,
    free_units: 1,
    discards: true,
};

impl TextBook {
    /// Of any policy that has no bands.
    pub(super) fn stated(&self) -> Vec<Stated> {
        let Self {
            units,
            free_units,
            discards,
        } = *self;
        vec![
            Stated::of(
                "units at least",
                units,
                "chosen: open units weigh nothing, and chance evens out in the others",
            ),
            Stated::of(
                "free units at which one is emptied",
                free_units,
                "chosen: the fewest that work",
            ),
            Stated::of(
                "tells the drive what it has emptied",
                yes_or_no(discards),
                "chosen: it costs nothing and flatters",
            ),
        ]
    }

    pub(super) fn stated_of(&self, policy: PolicyName) -> Vec<Stated> {
        let (streams, victim, source) = match policy {
            PolicyName::Fifo1 => (1_u32, "the unit that was closed first", "text books"),
            PolicyName::Greedy2 => (2, "the unit with the fewest live blocks", "text books"),
            PolicyName::CostBenefit2 => (
                2,
                "the most of (1-u)/u by age",
                "Rosenblum and Ousterhout, The Design and Implementation of a Log-Structured File System, 1992",
            ),
            _ => (1, "the unit with the fewest live blocks", "text books"),
        };
        let own = [
            Stated::of("streams", streams, source),
            Stated::of("victim", victim, source),
        ];
        own.into_iter().chain(self.stated()).collect()
    }
}
