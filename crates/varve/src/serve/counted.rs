//! What the engine counts, and what each of it means to whoever reads it from outside.
//!
//! **Not here**: the other metrics (`exposition`).

/// A counter of an open pool: its name behind `varve_pool_` (a counter's has `_total` behind it there), its type, what it counts since the pool was
/// opened.
pub(super) type Counted = (&'static str, &'static str, &'static str);

/// All of them, by name.
pub(super) const COUNTED: [Counted; 65] = [
    (
        "admission_waits",
        "counter",
        "Waits of writes for room in the log",
    ),
    (
        "aged_merges",
        "counter",
        "Leaves written anew because a change in their chain was old",
    ),
    (
        "away_refusals",
        "counter",
        "Operations refused because the dense tier did not answer",
    ),
    (
        "background_yields",
        "counter",
        "Times that background work let reads of hosts go first",
    ),
    (
        "batches_read_again",
        "counter",
        "Batches of the log that the start read a second time",
    ),
    (
        "blocks_lost",
        "counter",
        "Reads of blocks that no drive can give back",
    ),
    (
        "bypassed_blocks",
        "counter",
        "Blocks that went to the dense tier without having been in the log",
    ),
    ("checkpoints", "counter", "Checkpoints committed"),
    (
        "chunks_ahead",
        "counter",
        "Chunks of the fast tier given to a reactor before it needed them",
    ),
    (
        "chunks_cleaned",
        "counter",
        "Chunks of the fast tier emptied",
    ),
    (
        "chunks_cleaned_idle",
        "counter",
        "Of these, chunks begun while hosts sent nothing",
    ),
    (
        "chunks_deferred",
        "counter",
        "Chunks left for later because a tier did not answer",
    ),
    (
        "chunks_stuck",
        "counter",
        "Chunks that stay because records in them cannot be read",
    ),
    (
        "clean_failures",
        "counter",
        "Cleanings of chunks given up, to be tried again",
    ),
    (
        "clean_read_errors",
        "counter",
        "Blocks that a cleaning could not read, to be tried again",
    ),
    (
        "clean_repairs",
        "counter",
        "Blocks that a cleaning found bad and read from another copy",
    ),
    (
        "commands_crossed",
        "counter",
        "Commands that another reactor owned",
    ),
    (
        "compacted_blocks",
        "counter",
        "Blocks moved from the log to the dense tier",
    ),
    (
        "compaction_pauses",
        "counter",
        "Times that compaction made way for garbage collection",
    ),
    (
        "dense_full",
        "counter",
        "Times that the space beneath the dense tier ran out",
    ),
    (
        "dense_outages",
        "counter",
        "Times that the dense tier did not answer for so long that hosts may be refused",
    ),
    (
        "discards_redone",
        "counter",
        "Deallocations that the start took from the log",
    ),
    (
        "discards_waited",
        "counter",
        "Waits of deallocations for those who free the log",
    ),
    (
        "full_rejections",
        "counter",
        "Writes refused because the pool was full",
    ),
    ("gc_blocks", "counter", "Blocks moved by garbage collection"),
    (
        "gc_failures",
        "counter",
        "Collections of groups given up, to be tried again",
    ),
    (
        "groups_collected",
        "counter",
        "Zone groups emptied by garbage collection",
    ),
    (
        "groups_discarded",
        "counter",
        "Zone groups given back to the dense drives",
    ),
    (
        "idle_times",
        "counter",
        "Times that hosts sent nothing for long enough to make room for bursts",
    ),
    (
        "kept_blocks",
        "counter",
        "Blocks put back at the head of the log: remains of stripes, and all that lives in a pool without a dense tier",
    ),
    ("leaf_merges", "counter", "Leaves of the map written anew"),
    (
        "leaf_reads",
        "counter",
        "Leaves of the map read from the log",
    ),
    (
        "leaf_repairs",
        "counter",
        "Leaves of the map read from another copy and written back",
    ),
    (
        "leaves_lost",
        "counter",
        "Leaves of the map that no copy can give back",
    ),
    (
        "log_write_errors",
        "counter",
        "Writes to the log that failed",
    ),
    (
        "members_lost",
        "counter",
        "Drives lost since the start, those that were away at it included",
    ),
    (
        "move_records_crossed",
        "counter",
        "Records of moves appended by another reactor",
    ),
    (
        "moves_redone",
        "counter",
        "Moved blocks that the start took from the log",
    ),
    (
        "narrow_reads",
        "counter",
        "Blocks that no usual way gave and that were summed up without two drives",
    ),
    (
        "narrow_stripes",
        "counter",
        "Stripes written without a drive that is missing, so that they bear the loss of one more",
    ),
    (
        "no_space_refusals",
        "counter",
        "Operations refused for want of space beneath the drives",
    ),
    (
        "paced_writes",
        "counter",
        "Writes slowed down to the pace of cleaning",
    ),
    (
        "questions_crossed",
        "counter",
        "Questions to other reactors about what lives in a chunk",
    ),
    (
        "read_retries",
        "counter",
        "Reads begun again because their block moved meanwhile",
    ),
    (
        "reads_away",
        "counter",
        "Reads refused because a tier did not answer",
    ),
    ("rebuilds_running", "gauge", "Drives being rebuilt now"),
    (
        "records_passed_over",
        "counter",
        "Records of the pool's own work that the start did not need",
    ),
    (
        "recounts",
        "counter",
        "Counts made anew of what lives in each group",
    ),
    ("remirrors", "counter", "Drives rebuilt since the start"),
    (
        "repair_failures",
        "counter",
        "Bad copies that could not be written back",
    ),
    (
        "repairs",
        "counter",
        "Bad copies that were read another way and written back",
    ),
    (
        "retained_blocks",
        "counter",
        "Blocks that stayed in the log when their chunk was emptied, for hosts overwrite them soon",
    ),
    (
        "scrub_blocks",
        "counter",
        "Blocks that scrubs compared with their checksums",
    ),
    (
        "scrub_failures",
        "counter",
        "Wrong copies and parity that scrubs could not write again",
    ),
    (
        "scrub_losses",
        "counter",
        "Blocks that scrubs found that no drive can give back",
    ),
    (
        "scrub_parity_repairs",
        "counter",
        "Blocks of parity that scrubs found wrong and wrote again",
    ),
    (
        "scrub_repairs",
        "counter",
        "Wrong copies that scrubs found and wrote again",
    ),
    ("scrubs", "counter", "Scrubs that looked at everything"),
    (
        "stripe_write_errors",
        "counter",
        "Stripes whose write to the dense tier failed",
    ),
    (
        "stripes_joined",
        "counter",
        "Stripes behind one of the other writer, of compaction and garbage collection, in a group they share",
    ),
    (
        "turns_waited",
        "counter",
        "Times that compaction or garbage collection left a group they share to the other",
    ),
    (
        "units_retired",
        "counter",
        "Chunks and zone groups taken out of use after errors",
    ),
    (
        "victims_crossed",
        "counter",
        "Chunks and groups emptied on another reactor than the first",
    ),
    (
        "volumes_purged",
        "counter",
        "Deleted volumes whose blocks are all freed",
    ),
    (
        "writes_recalled",
        "counter",
        "Writes, by leaves, of hosts that were lost before they were in the log; they were not done",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Each counter of the engine has a row, and the other way round but for those of `pool`.
    #[test]
    fn what_is_counted_is_described() {
        let source = include_str!("../../../ftl/src/tally.rs");
        let (_, names) = source
            .split_once("const NAMES")
            .expect("the engine's names");
        let (names, _) = names.split_once("];").expect("their end");
        let quoted = names.split('"').skip(1).step_by(2);
        let mut expected: Vec<&str> = quoted.collect();
        assert!(expected.len() > 40, "{expected:?}");
        expected.extend(["members_lost", "rebuilds_running", "remirrors"]);
        expected.sort_unstable();
        assert_eq!(COUNTED.map(|(name, ..)| name).to_vec(), expected);
    }
}
