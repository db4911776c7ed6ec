//! What hosts do: moods, address patterns, sizes, all drawn from the seed.
//!
//! **Not here**: carrying operations out and checking them (`host`).

use crate::rng::Rng;
use std::collections::BTreeMap;
use varve_units::{LEAF_BLOCKS, VolumeId};

/// Longest ordinary operation, in blocks.
const COUNT_MAX: u64 = 64;
/// Longest operation of those that are long, in blocks: one record of a pool with small chunks.
const COUNT_LONG: u64 = 128;
/// Longest operation, in blocks: a leaf, 2 MiB.
const COUNT_HUGE: u64 = LEAF_BLOCKS;
/// Of so many volumes that are filled, or worn out, one is written in such operations. Arbitrary: one is as much
/// work as eight ordinary ones.
const HUGE_ONE_IN: u64 = 10;

/// What hosts are after for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mood {
    /// Fill every volume from the start.
    Fill,
    /// A bit of everything.
    Mixed,
    /// Overwrite what is there.
    Overwrite,
    /// Fight over few blocks.
    PingPong,
    /// Mostly reads.
    Read,
    /// Discard much.
    Delete,
    /// Create, delete, resize.
    Churn,
    /// Overwrite a hot part in long writes and read it meanwhile; no part of [`Mood::ALL`].
    Turnover,
    /// Overwrite everything, here and there; no part of [`Mood::ALL`].
    Scatter,
    /// Write and discard here and there, create and delete volumes; no part of [`Mood::ALL`].
    ComeAndGo,
    /// Overwrite everything in long writes; no part of [`Mood::ALL`].
    Wear,
}

impl Mood {
    const ALL: [Self; 7] = [
        Self::Fill,
        Self::Mixed,
        Self::Overwrite,
        Self::PingPong,
        Self::Read,
        Self::Delete,
        Self::Churn,
    ];

    /// Weights of the kinds in the order of [`Kind::ALL`].
    const fn weights(self) -> [u32; 11] {
        match self {
            Self::Fill => [4, 90, 4, 0, 0, 0, 2, 0, 0, 0, 0],
            Self::Mixed => [35, 40, 5, 8, 1, 4, 6, 1, 1, 1, 1],
            Self::Overwrite => [10, 75, 6, 3, 0, 1, 5, 0, 0, 0, 0],
            Self::PingPong => [42, 45, 4, 4, 0, 2, 3, 0, 0, 0, 0],
            Self::Read => [85, 12, 1, 1, 0, 0, 1, 0, 0, 0, 0],
            Self::Delete => [15, 25, 2, 35, 6, 8, 6, 1, 0, 1, 1],
            Self::Churn => [25, 40, 4, 6, 2, 3, 5, 4, 4, 4, 3],
            Self::Turnover => [45, 48, 2, 0, 0, 0, 1, 0, 0, 0, 4],
            Self::Scatter => [12, 80, 4, 1, 0, 0, 3, 0, 0, 0, 0],
            Self::ComeAndGo => [12, 55, 2, 16, 0, 2, 3, 0, 5, 5, 0],
            Self::Wear => [4, 92, 2, 0, 0, 0, 2, 0, 0, 0, 0],
        }
    }
}

/// Kinds of host operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Write with forced unit access.
    Force,
    /// Deallocate.
    Discard,
    /// Deallocate a large part of a volume.
    DiscardHuge,
    /// Write zeroes.
    Zeroes,
    /// Flush.
    Flush,
    /// Move a volume's end.
    Resize,
    /// Create a volume.
    Create,
    /// Delete a volume.
    Delete,
    /// Read all of a leaf.
    Scan,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::Read,
        Self::Write,
        Self::Force,
        Self::Discard,
        Self::DiscardHuge,
        Self::Zeroes,
        Self::Flush,
        Self::Resize,
        Self::Create,
        Self::Delete,
        Self::Scan,
    ];

    /// Its name in the coverage.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "host_read",
            Self::Write => "host_write",
            Self::Force => "host_write_fua",
            Self::Discard => "host_discard",
            Self::DiscardHuge => "host_discard_huge",
            Self::Zeroes => "host_write_zeroes",
            Self::Flush => "host_flush",
            Self::Resize => "host_resize",
            Self::Create => "host_create",
            Self::Delete => "host_delete",
            Self::Scan => "host_scan",
        }
    }
}

/// Where in a volume operations go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pattern {
    Uniform,
    Zipf,
    Sequential,
    Hot,
    Few,
}

/// How one volume is used while a mood lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Use {
    pattern: Pattern,
    /// Where the pattern goes on.
    at: u64,
    /// How long writes in order are, if they are longer than one record.
    huge: Option<Huge>,
}

/// Writes longer than one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Huge {
    /// One leaf each.
    Leaves,
    /// Of all lengths, across leaves.
    Across,
}

/// One operation to carry out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    /// What.
    pub kind: Kind,
    /// First block.
    pub lba: u64,
    /// Number of blocks; for a resize the new size.
    pub count: u64,
}

/// The source of operations.
pub struct Workload {
    rng: Rng,
    /// Blocks of one command at most.
    count_max: u64,
    mood: Mood,
    /// What hosts are after more often than anything else.
    usual: Option<Mood>,
    uses: BTreeMap<VolumeId, Use>,
    drawn: u64,
}

impl Workload {
    /// The workload of a seed; it begins by filling.
    #[must_use]
    pub fn new(rng: Rng, count_max: u64, usual: Option<Mood>) -> Self {
        Self {
            rng,
            count_max,
            mood: Mood::Fill,
            usual,
            uses: BTreeMap::new(),
            drawn: 0,
        }
    }

    /// Draws what hosts are after next.
    pub fn change_mood(&mut self) {
        let other = self.rng.pick(&Mood::ALL);
        let usual = self.usual.filter(|_| self.rng.chance(2, 3));
        self.mood = usual.unwrap_or(other);
        self.uses.clear();
    }

    /// Hosts wear the pool out from now on: they overwrite all of it in long writes, so that
    /// everything is cleaned sooner or later.
    pub fn wear(&mut self) {
        self.mood = Mood::Wear;
        self.uses.clear();
    }

    /// One of the volumes.
    ///
    /// # Panics
    /// If there are none.
    pub fn volume(&mut self, volumes: &[(VolumeId, u64)]) -> (VolumeId, u64) {
        // The first volume gets more than its share: skew between volumes finds other bugs.
        if self.rng.chance(1, 3) {
            volumes[0]
        } else {
            self.rng.pick(volumes)
        }
    }

    /// The next operation on a volume of `size` blocks.
    pub fn next(&mut self, volume: VolumeId, size: u64) -> Op {
        self.drawn += 1;
        let kind = Kind::ALL[self.rng.weighted(&self.mood.weights())];
        let is_write = matches!(kind, Kind::Write | Kind::Force);
        let huge = is_write.then(|| self.used(volume, size).huge).flatten();
        let count = match kind {
            Kind::Flush | Kind::Create | Kind::Delete => 0,
            Kind::Resize => return self.resize(size),
            Kind::DiscardHuge => self.rng.within(size.div_ceil(4), size),
            Kind::Scan => COUNT_HUGE.min(size),
            _ if huge == Some(Huge::Leaves) => COUNT_HUGE.min(size),
            _ if huge == Some(Huge::Across) => {
                self.rng.within(COUNT_LONG + 1, COUNT_HUGE).min(size)
            }
            _ if self.mood == Mood::PingPong => self.rng.magnitude(1, 4.min(size)),
            _ if self.mood == Mood::Wear => COUNT_LONG.min(size),
            Kind::Write | Kind::Force if self.mood == Mood::Turnover => {
                let count = self.rng.within(COUNT_MAX, COUNT_HUGE);
                count.min(COUNT_LONG).min(size)
            }
            _ if self.mood == Mood::Turnover => self.rng.magnitude(1, 4.min(size)),
            _ if self.mood == Mood::Scatter => self.rng.within(4, 32).min(size),
            _ if self.mood == Mood::Fill => self.rng.within(16, COUNT_MAX).min(size),
            _ if self.rng.chance(1, 60) => self.rng.within(COUNT_MAX, COUNT_HUGE).min(size),
            _ => self.rng.magnitude(1, COUNT_MAX.min(size)),
        };
        let count = match kind {
            Kind::DiscardHuge | Kind::Scan => count,
            _ => count.min(self.count_max),
        };
        let lba = match huge {
            Some(Huge::Leaves) => self.leaf(volume, size, count),
            Some(Huge::Across) | None => self.address(volume, size, count),
        };
        Op { kind, lba, count }
    }

    /// As [`Workload::address`], at the start of a leaf where the operation fits behind it.
    fn leaf(&mut self, volume: VolumeId, size: u64, count: u64) -> u64 {
        let at = self.address(volume, size, count);
        let start = at - at % LEAF_BLOCKS;
        // What goes on in order may be behind it already.
        if count == LEAF_BLOCKS { start } else { at }
    }

    fn resize(&mut self, size: u64) -> Op {
        let count = self.rng.within((size / 2).max(64), size + size / 2 + 64);
        Op {
            kind: Kind::Resize,
            lba: 0,
            count,
        }
    }

    /// How a volume is used while the mood lasts.
    fn used(&mut self, volume: VolumeId, size: u64) -> &mut Use {
        let (rng, mood) = (&mut self.rng, self.mood);
        self.uses.entry(volume).or_insert_with(|| {
            let pattern = match mood {
                Mood::Fill => Pattern::Sequential,
                Mood::Wear => rng.pick(&[Pattern::Sequential, Pattern::Uniform, Pattern::Uniform]),
                Mood::PingPong => Pattern::Few,
                Mood::Turnover => rng.pick(&[Pattern::Hot, Pattern::Uniform]),
                Mood::Scatter => Pattern::Uniform,
                _ => rng.pick(&[
                    Pattern::Uniform,
                    Pattern::Zipf,
                    Pattern::Sequential,
                    Pattern::Hot,
                    Pattern::Few,
                ]),
            };
            let is_filling = mood == Mood::Fill;
            let at = if is_filling { 0 } else { rng.below(size) };
            let may_be_huge = is_filling || mood == Mood::Wear;
            let huge = (may_be_huge && rng.chance(1, HUGE_ONE_IN))
                .then(|| rng.pick(&[Huge::Leaves, Huge::Across]));
            Use { pattern, at, huge }
        })
    }

    fn address(&mut self, volume: VolumeId, size: u64, count: u64) -> u64 {
        let drawn = self.drawn;
        let Use {
            pattern, mut at, ..
        } = *self.used(volume, size);
        let rng = &mut self.rng;
        let last = size - count;
        let place = match pattern {
            Pattern::Uniform => rng.below(size),
            // The product of two uniform draws: the density falls with the logarithm.
            Pattern::Zipf => {
                let low = rng.below(size);
                at + rng.below(low + 1)
            }
            Pattern::Sequential => {
                let place = if at > last { 0 } else { at };
                at = place + count;
                place
            }
            Pattern::Hot => {
                if drawn.is_multiple_of(64) {
                    at += size / 64 + 1;
                }
                let is_hot = rng.chance(9, 10);
                if is_hot {
                    at + rng.below(size.div_ceil(16))
                } else {
                    rng.below(size)
                }
            }
            Pattern::Few => at / 2 + rng.below(6),
        };
        self.used(volume, size).at = at;
        (place % size).min(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation lies inside its volume, and every kind is drawn.
    #[test]
    fn operations_stay_inside() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..40 {
            let mut workload = Workload::new(Rng::new(seed), COUNT_HUGE, None);
            for step in 0..500 {
                if step % 100 == 99 {
                    workload.change_mood();
                }
                let size = 64 + seed * 97;
                let op = workload.next(VolumeId(seed % 3), size);
                assert!(
                    op.kind == Kind::Resize || op.lba + op.count <= size,
                    "{op:?}"
                );
                seen.insert(op.kind);
            }
        }
        assert_eq!(seen.len(), Kind::ALL.len());
    }

    /// Some volumes are filled in whole leaves, one after another, and some in writes across them; no command is
    /// longer than hosts may send.
    #[test]
    fn some_volumes_are_filled_in_leaves() {
        let (mut leaves, mut across, mut back, size) = (0, 0, 0, 8 * LEAF_BLOCKS);
        for seed in 0..600 {
            let mut workload = Workload::new(Rng::new(seed), COUNT_HUGE, None);
            let mut short = Workload::new(Rng::new(seed), COUNT_LONG, None);
            let mut ends = 0;
            for _ in 0..30 {
                let op = workload.next(VolumeId(1), size);
                assert!(short.next(VolumeId(1), size).count <= COUNT_LONG);
                if op.kind != Kind::Write || op.count <= COUNT_LONG {
                    continue;
                }
                if op.count == LEAF_BLOCKS && op.lba.is_multiple_of(LEAF_BLOCKS) {
                    back += u64::from(op.lba < ends);
                    ends = op.lba + op.count;
                    leaves += 1;
                }
                across += u64::from(op.lba / LEAF_BLOCKS != (op.lba + op.count - 1) / LEAF_BLOCKS);
            }
        }
        assert!(leaves > 50 && across > 50, "{leaves}, {across}");
        // Once a volume is full they begin again.
        assert!(back * 5 < leaves, "{back} of {leaves} not in order");
    }
}
