//! Where the next operation goes.

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

/// Pseudo-random numbers: `SplitMix64`.
///
/// # Source
/// Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..end`.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        ((self.next() as u128 * end as u128) >> 64) as u64
    }

    /// Uniform in `[0, 1)`.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Ranks with Zipf's distribution: rank *r* (from 0) with a weight of `(r + 1)^-theta`.
///
/// The two first ranks are exact, the others follow the continuous law.
///
/// # Source
/// Gray et al.: Quickly Generating Billion-Record Synthetic Databases, SIGMOD 1994.
pub(crate) struct Zipf {
    items: u64,
    alpha: f64,
    eta: f64,
    zeta: f64,
    /// Weights of the first two ranks together.
    zeta_two: f64,
}

impl Zipf {
    /// `items` ranks; `theta` above 0 and not 1.
    pub(crate) fn new(items: u64, theta: f64) -> Self {
        let zeta: f64 = (1..=items).map(|rank| (rank as f64).powf(-theta)).sum();
        let zeta_two = 1.0 + 0.5_f64.powf(theta);
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - theta)) / (1.0 - zeta_two / zeta);
        Self {
            items,
            alpha: 1.0 / (1.0 - theta),
            eta,
            zeta,
            zeta_two,
        }
    }

    pub(crate) fn rank(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let weight = unit * self.zeta;
        if weight < 1.0 {
            return 0;
        }
        if weight < self.zeta_two {
            return 1;
        }
        let rank = self.items as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items - 1)
    }
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
    Zipf { zipf: Zipf, factor: u64 },
}

impl Draw {
    /// Draws from `0..slots`.
    pub(crate) fn new(order: Order, slots: u64, seed: u64) -> Self {
        let kind = match order {
            Order::Sequential => Kind::Sequential,
            Order::Uniform => Kind::Uniform,
            Order::Zipf(theta) => Kind::Zipf {
                zipf: Zipf::new(slots, theta),
                factor: scramble_factor(slots),
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
            Kind::Zipf { zipf, factor } => {
                let rank = zipf.rank(&mut self.random);
                (u128::from(rank) * u128::from(*factor) % u128::from(self.slots)) as u64
            }
        }
    }
}

/// A multiplier that permutes `0..slots` and scatters neighbours: near the golden section of
/// `slots`, and coprime to it.
fn scramble_factor(slots: u64) -> u64 {
    let golden = (slots as f64 * 0.618_033_988_749_895) as u64;
    (golden.max(1)..)
        .find(|&factor| gcd(factor, slots) == 1)
        .expect("slots + 1 is coprime to slots")
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
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

    /// Shares of the hottest ranks against the exact law.
    #[test]
    fn zipf_follows_its_law() {
        for theta in [0.8, 0.99, 1.2] {
            let items = 10_000_u64;
            let zipf = Zipf::new(items, theta);
            let mut random = Random::new(7);
            let mut counts = vec![0_u64; items as usize];
            let draws = 1_000_000;
            for _ in 0..draws {
                counts[zipf.rank(&mut random) as usize] += 1;
            }
            let zeta: f64 = (1..=items).map(|rank| (rank as f64).powf(-theta)).sum();
            for top in [1, 2, 10, 100, 1000, 5000] {
                let drawn: u64 = counts[..top].iter().sum();
                let drawn = drawn as f64 / f64::from(draws);
                let exact: f64 = (1..=top)
                    .map(|rank| (rank as f64).powf(-theta))
                    .sum::<f64>();
                let exact = exact / zeta;
                assert!(
                    (drawn - exact).abs() < 0.04,
                    "theta {theta} top {top}: {drawn} {exact}"
                );
            }
        }
    }

    #[test]
    fn scrambling_is_a_permutation() {
        for slots in [1, 2, 7, 1000, 1 << 16] {
            let factor = scramble_factor(slots);
            let mut seen = vec![false; slots as usize];
            for rank in 0..slots {
                seen[(rank * factor % slots) as usize] = true;
            }
            assert!(seen.iter().all(|&seen| seen), "{slots}");
        }
    }

    #[test]
    fn a_sequence_wraps() {
        let mut draw = Draw::new(Order::Sequential, 3, 0);
        let drawn: Vec<u64> = (0..7).map(|_| draw.next()).collect();
        assert_eq!(drawn, [0, 1, 2, 0, 1, 2, 0]);
    }
}
