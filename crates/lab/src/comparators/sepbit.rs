//! SepBIT.

use super::stated::Stated;
use super::text_book::TEXT_BOOK;

/// Parameters of SepBIT.
pub(crate) struct SepBit {
    /// Classes of blocks.
    pub(crate) classes: usize,
    /// Units of class 0 over whose lifespans an average is taken.
    pub(crate) window: u32,
    /// Ages that separate the classes of moved blocks, in average lifespans.
    pub(crate) ages: [f64; 2],
}

pub(crate) const SEPBIT: SepBit = SepBit {
    classes: 6,
    window: 16,
    ages: [4.0, 16.0],
};

const PAPER: &str =
    "Wang et al., Separating Data via Block Invalidation Time Inference, FAST 2022, algorithm 1";

impl SepBit {
    pub(super) fn stated(&self) -> Vec<Stated> {
        let Self {
            classes,
            window,
            ages: [young, old],
        } = *self;
        let own = [
            Stated::of("classes", classes, PAPER),
            Stated::of("units over which a lifespan is averaged", window, PAPER),
            Stated::of(
                "ages between classes",
                format!("{young} and {old} average lifespans"),
                PAPER,
            ),
            Stated::of("victim", "the most of (1-u)/u by age", PAPER),
        ];
        own.into_iter().chain(TEXT_BOOK.stated()).collect()
    }
}
