//! Counters that `status` shows: each reactor has its own, anyone adds them up.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::sync::atomic::{AtomicU64, Ordering};
use varve_io::ReactorId;

/// Names of all counters, in order.
const NAMES: [&str; 62] = [
    "admission_waits",
    "aged_merges",
    "away_refusals",
    "background_yields",
    "batches_read_again",
    "blocks_lost",
    "bypassed_blocks",
    "checkpoints",
    "chunks_ahead",
    "chunks_cleaned",
    "chunks_cleaned_idle",
    "chunks_deferred",
    "chunks_stuck",
    "clean_failures",
    "clean_read_errors",
    "clean_repairs",
    "commands_crossed",
    "compacted_blocks",
    "compaction_pauses",
    "dense_full",
    "dense_outages",
    "discards_redone",
    "discards_waited",
    "full_rejections",
    "gc_blocks",
    "gc_failures",
    "groups_collected",
    "groups_discarded",
    "idle_times",
    "kept_blocks",
    "leaf_merges",
    "leaf_reads",
    "leaf_repairs",
    "leaves_lost",
    "log_write_errors",
    "move_records_crossed",
    "moves_redone",
    "narrow_reads",
    "narrow_stripes",
    "no_space_refusals",
    "paced_writes",
    "questions_crossed",
    "read_retries",
    "reads_away",
    "records_passed_over",
    "recounts",
    "repair_failures",
    "repairs",
    "retained_blocks",
    "scrub_blocks",
    "scrub_failures",
    "scrub_losses",
    "scrub_parity_repairs",
    "scrub_repairs",
    "scrubs",
    "stripe_write_errors",
    "stripes_joined",
    "turns_waited",
    "units_retired",
    "victims_crossed",
    "volumes_purged",
    "writes_recalled",
];

/// One of them, found by its name when the program is built: for what is counted often.
#[derive(Clone, Copy)]
pub(crate) struct Counter(usize);

impl Counter {
    /// # Panics
    /// If there is no counter of this name.
    pub(crate) const fn named(name: &str) -> Self {
        let mut index = 0;
        while !is_same(NAMES[index], name) {
            index += 1;
        }
        Self(index)
    }
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

/// One reactor's counters, apart from the others'.
#[repr(align(128))]
struct Row([AtomicU64; NAMES.len()]);

/// All counters.
pub(crate) struct Tally(Box<[Row]>);

impl Tally {
    pub(crate) fn new(reactors: u16) -> Self {
        let row = |_| Row([const { AtomicU64::new(0) }; NAMES.len()]);
        Self((0..reactors).map(row).collect())
    }

    /// Adds to a counter of one reactor, on that reactor.
    ///
    /// # Panics
    /// If there is no counter of this name.
    pub(crate) fn add(&self, at: ReactorId, name: &str, by: u64) {
        let index = NAMES.binary_search(&name).expect("counters have names");
        self.add_to(at, Counter(index), by);
    }

    /// [`Tally::add`] to a counter that was found before.
    pub(crate) fn add_to(&self, at: ReactorId, counter: Counter, by: u64) {
        // Its only writer is this reactor, and no other memory depends on it.
        let counter = &self.0[usize::from(at.0)].0[counter.0];
        counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    /// Sum of one counter over all reactors.
    ///
    /// # Panics
    /// If there is no counter of this name.
    pub(crate) fn sum(&self, name: &str) -> u64 {
        let index = NAMES.binary_search(&name).expect("counters have names");
        let counters = self.0.iter().map(|row| &row.0[index]);
        counters
            .map(|counter| counter.load(Ordering::Relaxed))
            .sum()
    }

    /// Sums over all reactors of what was counted at all.
    pub(crate) fn sums(&self) -> BTreeMap<&'static str, u64> {
        let sums = NAMES.iter().map(|name| (*name, self.sum(name)));
        sums.filter(|(_, sum)| *sum > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_sums_are_over_reactors() {
        assert!(NAMES.is_sorted());
        let tally = Tally::new(2);
        tally.add(ReactorId(0), "repairs", 2);
        tally.add_to(ReactorId(1), Counter::named("repairs"), 3);
        assert_eq!(tally.sums(), BTreeMap::from([("repairs", 5)]));
        assert_eq!((tally.sum("repairs"), tally.sum("scrubs")), (5, 0));
    }
}
