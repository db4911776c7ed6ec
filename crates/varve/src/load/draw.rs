//! Where the next operation goes.

use varve_lab::draw::{Random, Scatter, Zipf, gcd};
use varve_units::LEAF_BLOCKS;

/// In which order blocks are visited.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Order {
    /// From the first to the last and again.
    Sequential,
    /// All equally likely.
    Uniform,
    /// With Zipf's law, scattered over the volume.
    Zipf(f64),
}

/// Blocks that one generator's places lie behind one another: larger operations have that many more.
const RUN_BLOCKS: u64 = 32;

/// The part of the volume that one of several load generators visits: every so many runs of blocks
/// one of its own, so that each generator reaches all slices and no block has two writers.
#[derive(Clone, Copy)]
pub(crate) struct Share {
    /// Which generator, from 0.
    pub(crate) index: u64,
    /// How many there are.
    pub(crate) of: u64,
    /// Blocks of a run.
    run: u64,
}

impl Share {
    /// Shares of operations of `blocks` blocks.
    ///
    /// Reactors own leaves in turn. So either one run of each generator fits a leaf, or a run is as many
    /// leaves in a row as there are generators: else each would miss the leaves of some reactors.
    pub(crate) const fn new(index: u64, of: u64, blocks: u64) -> Self {
        let run = RUN_BLOCKS / gcd(RUN_BLOCKS, blocks) * blocks;
        let run = if run * of <= LEAF_BLOCKS {
            run
        } else {
            run * of * LEAF_BLOCKS.div_ceil(run)
        };
        Self { index, of, run }
    }

    /// Blocks that lie behind one another.
    pub(crate) const fn run_blocks(&self) -> u64 {
        self.run
    }

    /// Operations of `blocks` blocks that the share has room for in a volume of `total` blocks.
    pub(crate) const fn slots(&self, blocks: u64, total: u64) -> u64 {
        if self.of == 1 {
            return total / blocks;
        }
        total / (self.run * self.of) * (self.run / blocks)
    }

    /// First block of operation `slot`.
    pub(crate) const fn block(&self, slot: u64, blocks: u64) -> u64 {
        if self.of == 1 {
            return slot * blocks;
        }
        let per_run = self.run / blocks;
        let run = slot / per_run * self.of + self.index;
        run * self.run + slot % per_run * blocks
    }
}

/// Draws the place of each operation, in units of its size.
pub(crate) struct Draw {
    slots: u64,
    random: Random,
    next: u64,
    kind: Kind,
}

enum Kind {
    Sequential,
    Uniform,
    Zipf { zipf: Zipf, scatter: Scatter },
}

impl Draw {
    /// Draws from `0..slots`.
    pub(crate) fn new(order: Order, slots: u64, seed: u64) -> Self {
        let kind = match order {
            Order::Sequential => Kind::Sequential,
            Order::Uniform => Kind::Uniform,
            Order::Zipf(theta) => Kind::Zipf {
                zipf: Zipf::new(slots, theta),
                scatter: Scatter::new(slots),
            },
        };
        Self {
            slots,
            random: Random::new(seed),
            next: 0,
            kind,
        }
    }

    pub(crate) fn next(&mut self) -> u64 {
        match &self.kind {
            Kind::Sequential => {
                let slot = self.next;
                self.next = if slot + 1 == self.slots { 0 } else { slot + 1 };
                slot
            }
            Kind::Uniform => self.random.below(self.slots),
            Kind::Zipf { zipf, scatter } => scatter.of(zipf.rank(&mut self.random)),
        }
    }
}

#[cfg(test)]
mod tests {
    /// Every block belongs to one generator, whatever the size of its operations.
    #[test]
    fn shares_are_disjoint_and_whole() {
        for blocks in [1, 2, 32, 48] {
            let mut owners = vec![None; 9600 * 2];
            for index in 0..3 {
                let share = super::Share::new(index, 3, blocks);
                for slot in 0..share.slots(blocks, owners.len() as u64) {
                    let first = share.block(slot, blocks) as usize;
                    for owner in &mut owners[first..first + blocks as usize] {
                        assert_eq!(owner.replace(index), None);
                    }
                }
            }
            let whole = owners.len() / (3 * 96) * 288;
            assert!(owners[..whole].iter().all(Option::is_some));
        }
    }

    /// Every generator writes leaves of every reactor, also if an operation is a leaf or several.
    #[test]
    fn shares_reach_all_leaves() {
        for of in 1..=4_u64 {
            for blocks in [1, 32, 48, 96, 256, 512, 768, 1024] {
                let share = Share::new(1 % of, of, blocks);
                let slots = share.slots(blocks, 1 << 16);
                let leaves = |slot| {
                    let first = share.block(slot, blocks);
                    first / LEAF_BLOCKS..=(first + blocks - 1) / LEAF_BLOCKS
                };
                let leaves = (0..slots).flat_map(leaves);
                let owners: BTreeSet<_> = leaves.map(|leaf| leaf % of).collect();
                assert_eq!(owners.len() as u64, of, "{of} generators, {blocks} blocks");
            }
        }
    }

    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_sequence_wraps() {
        let mut draw = Draw::new(Order::Sequential, 3, 0);
        let drawn: Vec<u64> = (0..7).map(|_| draw.next()).collect();
        assert_eq!(drawn, [0, 1, 2, 0, 1, 2, 0]);
    }
}
