//! Pseudo-random numbers, and the laws by which loads choose places.

/// Pseudo-random numbers: `SplitMix64`.
///
/// # Source
/// Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014.
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..end`.
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.bits() as u128 * end as u128) >> 64) as u64
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Exponential.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        mean * -(1.0 - self.unit()).ln()
    }
}

/// Instants of a Poisson process, in nanoseconds from its start.
pub struct Poisson {
    random: Random,
    mean_ns: f64,
    last_ns: u64,
    /// How far behind the last one was in truth, below a nanosecond.
    carry: f64,
}

impl Poisson {
    /// One instant each `mean_ns` on average.
    #[must_use]
    pub const fn new(mean_ns: f64, random: Random) -> Self {
        Self {
            random,
            mean_ns,
            last_ns: 0,
            carry: 0.0,
        }
    }
}

impl Iterator for Poisson {
    type Item = u64;

    /// Ends when time no longer fits, after centuries.
    fn next(&mut self) -> Option<u64> {
        let gap = self.random.exponential(self.mean_ns) + self.carry;
        self.carry = gap.fract();
        let next = self.last_ns.checked_add(gap as u64);
        self.last_ns = next.unwrap_or(u64::MAX);
        next
    }
}

/// Ranks with Zipf's law: rank *r* (from 0) with a weight of `(r + 1)^-theta`, drawn by rejection, so
/// that each has its exact probability whatever their number.
///
/// # Source
/// Hörmann, Derflinger: Rejection-Inversion to Generate Variates from Monotone Discrete
/// Distributions, 1996.
pub struct Zipf {
    items: f64,
    theta: f64,
    /// Integral of the weight up to the middle of rank 0, less its weight; up to the end of the last.
    first: f64,
    last: f64,
    /// A point this close below a rank is taken without a look at the weight.
    sure: f64,
}

impl Zipf {
    /// Exponents from here on leave a handful of ranks: loads do not take them.
    pub const THETA_END: f64 = 5.0;

    /// `items` ranks, at least one; `theta` above 0.
    ///
    /// # Panics
    /// If there are no ranks or the exponent is no positive number.
    #[must_use]
    pub fn new(items: u64, theta: f64) -> Self {
        assert!(items > 0 && theta > 0.0, "{items} ranks, exponent {theta}");
        let items = items as f64;
        Self {
            items,
            theta,
            first: integral(1.5, theta) - 1.0,
            last: integral(items + 0.5, theta),
            sure: 2.0 - inverse(integral(2.5, theta) - 2.0_f64.powf(-theta), theta),
        }
    }

    /// The next rank, from 0.
    pub fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let at = self.last + random.unit() * (self.first - self.last);
            let x = inverse(at, self.theta);
            let rank = x.round().clamp(1.0, self.items);
            if rank - x <= self.sure
                || at >= integral(rank + 0.5, self.theta) - rank.powf(-self.theta)
            {
                return rank as u64 - 1;
            }
        }
    }

    /// Probability of a rank, were the sum of all weights `total`.
    #[must_use]
    pub fn weight(rank: u64, theta: f64) -> f64 {
        (rank as f64 + 1.0).powf(-theta)
    }
}

/// Integral of `x^-theta`, up to a constant.
fn integral(x: f64, theta: f64) -> f64 {
    let log = x.ln();
    let power = (1.0 - theta) * log;
    let ratio = if power.abs() > 1e-8 {
        power.exp_m1() / power
    } else {
        1.0 + power / 2.0
    };
    ratio * log
}

/// Where [`integral`] has a value.
fn inverse(value: f64, theta: f64) -> f64 {
    let power = (value * (1.0 - theta)).max(-1.0);
    let ratio = if power.abs() > 1e-8 {
        power.ln_1p() / power
    } else {
        1.0 - power / 2.0
    };
    (ratio * value).exp()
}

/// Which place the ranks of a law fall on where there are more ranks than places.
///
/// A system that is smaller than what it stands for has fewer places than there are ranks. Neighbours share one then, so
/// that every share of the places takes what it takes at the whole. Not the hottest: were they to share, one place would
/// be written as often as several are, and what does not shrink with the system (buffers of drives, requests in flight,
/// locks) would see more of it. Those have a place each, as at the whole.
#[derive(Clone, Copy)]
pub struct Population {
    places: u64,
    ranks: u64,
    /// Places with one rank.
    apart: u64,
}

impl Population {
    /// Places of which one has a rank of its own. Chosen: what they take of the places besides, less than 0.1 %, has to be
    /// little beside a fast tier of 5 %.
    const APART: u64 = 1024;

    /// So many places, at least one, and so many ranks for each.
    #[must_use]
    pub const fn new(places: u64, ranks_per_place: u32) -> Self {
        Self {
            places,
            ranks: places * ranks_per_place as u64,
            apart: places / Self::APART,
        }
    }

    /// How many ranks there are.
    #[must_use]
    pub const fn ranks(&self) -> u64 {
        self.ranks
    }

    /// Which place a rank falls on, counted from the hottest.
    #[must_use]
    pub const fn place(&self, rank: u64) -> u64 {
        if rank < self.apart || self.ranks == self.places {
            return rank;
        }
        let (places, ranks) = self.shared();
        self.apart + ((rank - self.apart) as u128 * places as u128 / ranks as u128) as u64
    }

    /// The ranks of a place, counted from the hottest.
    #[must_use]
    pub const fn ranks_of(&self, place: u64) -> std::ops::Range<u64> {
        self.first(place)..self.first(place + 1)
    }

    const fn first(&self, place: u64) -> u64 {
        if place < self.apart {
            return place;
        }
        let (places, ranks) = self.shared();
        let first = (place - self.apart) as u128 * ranks as u128;
        self.apart + first.div_ceil(places as u128) as u64
    }

    /// Places and ranks of those that share.
    const fn shared(&self) -> (u64, u64) {
        (self.places - self.apart, self.ranks - self.apart)
    }
}

/// A permutation of `0..items` that scatters neighbours, and can be undone.
#[derive(Clone, Copy)]
pub struct Scatter {
    items: u64,
    factor: u64,
    inverse: u64,
}

impl Scatter {
    /// How many there are.
    #[must_use]
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// A permutation of `0..items`, at least one.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(items: u64) -> Self {
        assert!(items > 0, "nothing to scatter");
        // Near the golden section, so that neighbours come far apart.
        let golden = (items as f64 * 0.618_033_988_749_895) as u64;
        let factor = (golden.max(1)..).find(|&factor| gcd(factor, items) == 1);
        let factor = factor.expect("items + 1 is coprime to items") % items;
        Self {
            items,
            factor,
            inverse: inverse_of(factor, items),
        }
    }

    /// Where an item goes.
    #[must_use]
    pub const fn of(&self, item: u64) -> u64 {
        times(item, self.factor, self.items)
    }

    /// Where the item behind the one that went to `place` goes: cheaper than [`Self::of`].
    #[must_use]
    pub const fn after(&self, place: u64) -> u64 {
        let next = place + self.factor;
        if next >= self.items {
            next - self.items
        } else {
            next
        }
    }

    /// Which item went there.
    #[must_use]
    pub const fn undo(&self, place: u64) -> u64 {
        times(place, self.inverse, self.items)
    }
}

/// A permutation of `0..items` that looks random: one for each key.
///
/// Four rounds of a Feistel network over the next power of four, walked until it is back within.
///
/// # Source
/// Luby, Rackoff: How to Construct Pseudorandom Permutations from Pseudorandom Functions, 1988;
/// Black, Rogaway: Ciphers with Arbitrary Finite Domains, 2002 (the walk).
#[derive(Clone, Copy)]
pub struct Shuffle {
    items: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Shuffle {
    /// The permutation of `0..items`, at least one, that belongs to a key.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(items: u64, key: u64) -> Self {
        assert!(items > 0, "nothing to shuffle");
        let bits = u64::BITS - (items - 1).leading_zeros();
        let mut random = Random::new(key);
        Self {
            items,
            half_bits: bits.div_ceil(2).max(1),
            keys: [(); 4].map(|()| random.bits()),
        }
    }

    /// Where an item goes.
    #[must_use]
    pub fn of(&self, item: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let mut at = item;
        loop {
            let (mut left, mut right) = (at >> self.half_bits, at & mask);
            for key in self.keys {
                let next = left ^ (Random::new(key ^ right).bits() & mask);
                (left, right) = (right, next);
            }
            at = left << self.half_bits | right;
            if at < self.items {
                return at;
            }
        }
    }
}

const fn times(a: u64, b: u64, modulus: u64) -> u64 {
    (a as u128 * b as u128 % modulus as u128) as u64
}

/// The number that `factor` times it is 1 modulo `items`, to which it is coprime.
fn inverse_of(factor: u64, items: u64) -> u64 {
    let (mut r, mut next_r) = (i128::from(items), i128::from(factor % items));
    let (mut t, mut next_t) = (0_i128, 1_i128);
    while next_r != 0 {
        let quotient = r / next_r;
        (t, next_t) = (next_t, t - quotient * next_t);
        (r, next_r) = (next_r, r - quotient * next_r);
    }
    u64::try_from(t.rem_euclid(i128::from(items))).expect("a remainder of a u64")
}

/// Greatest common divisor.
#[must_use]
pub const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares of the hottest ranks against the exact law, within what a million draws scatter.
    #[test]
    fn zipf_follows_its_law() {
        for theta in [0.2, 0.8, 0.99, 1.0, 1.2, 2.5] {
            let items = 10_000_u64;
            let zipf = Zipf::new(items, theta);
            let mut random = Random::new(7);
            let mut counts = vec![0_u64; items as usize];
            let draws = 1_000_000;
            for _ in 0..draws {
                counts[zipf.rank(&mut random) as usize] += 1;
            }
            let total: f64 = (0..items).map(|rank| Zipf::weight(rank, theta)).sum();
            for top in [1_u64, 2, 3, 10, 100, 1000, 5000] {
                let drawn: u64 = counts[..top as usize].iter().sum();
                let drawn = drawn as f64 / f64::from(draws);
                let exact: f64 = (0..top).map(|rank| Zipf::weight(rank, theta)).sum();
                let exact = exact / total;
                assert!(
                    (drawn - exact).abs() < 0.002,
                    "theta {theta} top {top}: {drawn} {exact}"
                );
            }
        }
    }

    #[test]
    fn one_rank_is_drawn_always() {
        let (zipf, mut random) = (Zipf::new(1, 0.99), Random::new(3));
        assert!((0..1000).all(|_| zipf.rank(&mut random) == 0));
    }

    /// Every rank has a place, the hottest one each, and all places about as many of the others.
    #[test]
    fn ranks_share_places_but_the_hottest() {
        for (places, per_place) in [(1, 1), (1, 7), (1000, 1), (1573, 4), (100_000, 8)] {
            let population = Population::new(places, per_place);
            let apart = places / Population::APART;
            let mut next = 0;
            for place in 0..places {
                let ranks = population.ranks_of(place);
                assert_eq!(ranks.start, next, "{place} of {places}");
                let most = if place < apart {
                    1
                } else {
                    u64::from(per_place) + 1
                };
                assert!((1..=most).contains(&(ranks.end - ranks.start)), "{ranks:?}");
                assert!(ranks.clone().all(|rank| population.place(rank) == place));
                next = ranks.end;
            }
            assert_eq!(next, population.ranks());
        }
    }

    #[test]
    fn scattering_is_a_permutation_and_can_be_undone() {
        for items in [1, 2, 7, 1000, 1 << 16] {
            let scatter = Scatter::new(items);
            let mut seen = vec![false; items as usize];
            for item in 0..items {
                let place = scatter.of(item);
                assert_eq!(scatter.undo(place), item, "of {items}");
                assert_eq!(scatter.after(place), scatter.of((item + 1) % items));
                seen[place as usize] = true;
            }
            assert!(seen.iter().all(|&seen| seen), "{items}");
        }
    }

    /// Each key has its own order, and in none of them an item has a preferred place.
    #[test]
    fn shuffling_is_a_permutation_without_preferences() {
        for items in [1, 2, 3, 7, 1000, 4097] {
            let shuffle = Shuffle::new(items, 5);
            let mut seen = vec![false; items as usize];
            (0..items).for_each(|item| seen[shuffle.of(item) as usize] = true);
            assert!(seen.iter().all(|&seen| seen), "{items}");
        }
        let (items, keys) = (50_u64, 20_000);
        let mut counts = vec![0_u32; items as usize];
        (0..keys).for_each(|key| counts[Shuffle::new(items, key).of(7) as usize] += 1);
        let expected = keys as f64 / items as f64;
        for count in counts {
            let off = (f64::from(count) - expected).abs();
            assert!(off < 5.0 * expected.sqrt(), "{count} for {expected}");
        }
    }
}
