//! How processors are charged, of every system whose software is.

use super::stated::{Stated, micros};
use varve_units::Nanos;

/// Parameters of processors.
pub(crate) struct Processor {
    /// What goes on behind gives way to what waits after so long: software that moves blocks takes some at a time. A third
    /// to an eighth of what a batch of either CSAL or a stripe of the engine takes.
    pub(crate) slice: Nanos,
}

pub(crate) const PROCESSOR: Processor = Processor {
    slice: Nanos(50_000),
};

impl Processor {
    pub(super) fn stated(&self) -> Stated {
        let Self { slice } = *self;
        Stated::of(
            "slice of work behind",
            micros(slice),
            "chosen, for every system alike; SPDK looks up places of up to 256 blocks in one go \
             (ftl_nv_cache.c, compaction_process_pin_lba)",
        )
    }
}
