//! Host writes in order: which of them continue a run, and whether that goes past the log.
//!
//! A policy. It says what pays; nothing is wrong if it errs.

use alloc::vec::Vec;
use core::cell::RefCell;
use varve_units::{LEAF_BLOCKS, Lba, VolumeId};

/// Runs that are followed, of all volumes. Arbitrary: more than hosts write side by side as a rule, few
/// enough to be looked through for each long write.
const RUNS_MAX: usize = 16;
/// A run is under way if one of so many writes was of it. Arbitrary: each of 16 has had its turn twice.
const UNDER_WAY: u64 = 32;

/// Writes that follow one another.
struct Run {
    volume: VolumeId,
    /// Where the next one is expected.
    end: Lba,
    blocks: u64,
    /// Number of the last write of it.
    last: u64,
    /// Hosts were slowed down when it was long already: what it still brings is not put in their way.
    bypasses: bool,
}

impl Run {
    /// True if a write at `lba` goes on here. A reactor sees the leaves that it owns, of which there is
    /// one among so many that follow one another.
    fn leads_to(&self, volume: VolumeId, lba: Lba, owners: u64) -> bool {
        let starts_leaf = |lba: Lba| lba.0.is_multiple_of(LEAF_BLOCKS);
        let is_next_leaf = starts_leaf(self.end)
            && starts_leaf(lba)
            && lba > self.end
            && lba.0 - self.end.0 < owners * LEAF_BLOCKS;
        self.volume == volume && (self.end == lba || is_next_leaf)
    }
}

/// Runs of writes.
#[derive(Default)]
pub(crate) struct Runs(RefCell<Known>);

#[derive(Default)]
struct Known {
    /// The one that was continued last first.
    runs: Vec<Run>,
    /// Writes noted.
    writes: u64,
}

impl Runs {
    /// Notes a write of some blocks on one of so many owners. True if it is to go past the log: it makes,
    /// or continues, a run of more than `long` blocks, hosts were slowed down at such a write of it
    /// (`is_pressed`), and no other long run is under way. Of several the log makes long writes to groups
    /// that die as a whole; a part of each past it, and a part through it, would be scattered.
    pub(crate) fn note(
        &self,
        (volume, lba, blocks): (VolumeId, Lba, u64),
        owners: u16,
        long: u64,
        is_pressed: bool,
    ) -> bool {
        let mut known = self.0.borrow_mut();
        known.writes += 1;
        let Known { runs, writes } = &mut *known;
        let leads = |run: &Run| run.leads_to(volume, lba, owners.into());
        let mut run = match runs.iter().position(leads) {
            Some(at) => runs.remove(at),
            None => Run {
                volume,
                end: lba,
                blocks: 0,
                last: 0,
                bypasses: false,
            },
        };
        let is_other = |other: &Run| other.blocks > long && other.last + UNDER_WAY > *writes;
        let is_alone = !runs.iter().any(is_other);
        run.end = Lba(lba.0 + blocks);
        run.blocks += blocks;
        run.last = *writes;
        run.bypasses |= is_pressed && is_alone && run.blocks > long;
        let bypasses = run.bypasses && is_alone;
        runs.truncate(RUNS_MAX - 1);
        runs.insert(0, run);
        bypasses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: VolumeId = VolumeId(7);

    /// The first `count` writes of `blocks` blocks from `lba` on; tells of the last.
    fn write(runs: &Runs, lba: u64, blocks: u64, count: u64, is_pressed: bool) -> bool {
        let mut last = false;
        for index in 0..count {
            let at = (VOLUME, Lba(lba + index * blocks), blocks);
            last = runs.note(at, 1, 100, is_pressed);
        }
        last
    }

    #[test]
    fn only_long_runs_under_pressure_pass() {
        let runs = Runs::default();
        assert!(!write(&runs, 0, 20, 50, false), "nobody was slowed down");
        assert!(write(&runs, 1000, 20, 1, true));
        assert!(write(&runs, 1020, 20, 1, false), "it goes on");
        let runs = Runs::default();
        assert!(!write(&runs, 5000, 20, 5, true), "100 blocks are not long");
        assert!(write(&runs, 5100, 20, 1, true));
        let other = runs.note((VolumeId(8), Lba(5120), 20), 1, 100, true);
        assert!(!other, "of another volume");
        let elsewhere = write(&runs, 9000, 20, 1, true);
        assert!(!elsewhere, "it follows nothing");
    }

    /// Side by side neither of two long runs passes; when one ends the other does.
    #[test]
    fn a_run_passes_alone() {
        let runs = Runs::default();
        assert!(write(&runs, 0, 20, 10, true));
        assert!(!write(&runs, 5000, 20, 10, true), "the first is under way");
        assert!(!write(&runs, 200, 20, 1, true));
        assert!(write(&runs, 5200, 20, UNDER_WAY, true));
        assert!(!write(&runs, 220, 20, 1, true));
    }

    /// With several reactors each sees a part of the leaves; within a leaf nothing is left out.
    #[test]
    fn runs_go_on_in_the_next_leaf_of_a_reactor() {
        let runs = Runs::default();
        let half = LEAF_BLOCKS / 2;
        let note = |lba, owners| runs.note((VOLUME, Lba(lba), half), owners, 1000, true);
        assert!(!note(0, 2));
        assert!(!note(half, 2));
        assert!(!note(2 * LEAF_BLOCKS, 2), "768 blocks");
        assert!(note(2 * LEAF_BLOCKS + half, 2));
        assert!(!note(5 * LEAF_BLOCKS, 2), "too far behind");
        assert!(!note(5 * LEAF_BLOCKS + half + 1, 2), "a gap");
    }

    #[test]
    fn the_oldest_run_is_forgotten() {
        let runs = Runs::default();
        write(&runs, 0, 20, 10, true);
        for other in 1..RUNS_MAX as u64 {
            write(&runs, other << 20, 20, 1, true);
        }
        assert!(write(&runs, 200, 20, 1, true), "one of 16");
        for other in 1..=RUNS_MAX as u64 {
            write(&runs, other << 24, 20, 1, true);
        }
        assert!(!write(&runs, 220, 20, 1, true));
    }
}
