//! An oracle that knows how often each block is written.

use super::stated::Stated;
use super::text_book::TEXT_BOOK;

/// Parameters of the oracle.
pub(crate) struct Oracle {
    /// Streams: octaves of the interval between two writes, the outer ones open-ended.
    pub(crate) classes: i32,
    /// The class of blocks that are written once while the volume is.
    pub(crate) middle: i32,
}

pub(crate) const ORACLE: Oracle = Oracle {
    classes: 12,
    middle: 8,
};

/// No document has it: it is a bound.
const BOUND: &str =
    "the independent simulation beside which it stands: rate oracle, 12 streams, cost-benefit";

impl Oracle {
    pub(super) fn stated(&self) -> Vec<Stated> {
        let Self { classes, middle } = *self;
        let own = [
            Stated::of(
                "streams, by octaves of the true rate",
                classes as u64,
                BOUND,
            ),
            Stated::of(
                "stream of blocks of the average rate",
                middle as u64,
                "chosen: rates above it are told apart finer",
            ),
            Stated::of("victim", "the most of (1-u)/u by age", BOUND),
        ];
        own.into_iter().chain(TEXT_BOOK.stated()).collect()
    }
}
