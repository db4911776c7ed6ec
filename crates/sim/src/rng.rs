//! A small seeded generator: integers only, splittable by name.
//!
//! **Invariants**: [`Rng::split`] depends on the origin and the name alone, never on how many
//! numbers were drawn before, so that a new draw in one place does not shift any other.
//!
//! # Source
//! SplitMix64 (Steele, Lea, Flood 2014).

use crate::fingerprint::mix;

/// Step of SplitMix64: the odd number nearest to 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    origin: u64,
    state: u64,
}

impl Rng {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let origin = mix(seed ^ STEP);
        Self {
            origin,
            state: origin,
        }
    }

    /// An independent stream named `name` below this one.
    #[must_use]
    pub fn split(&self, name: &str) -> Self {
        let seed = name
            .bytes()
            .fold(self.origin, |hash, byte| mix(hash ^ u64::from(byte)));
        Self::new(seed)
    }

    /// An independent stream named `name` and numbered `index` below this one.
    #[must_use]
    pub fn split_at(&self, name: &str, index: u64) -> Self {
        Self::new(mix(self.split(name).origin.wrapping_add(mix(index))))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number in `0..bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a draw from nothing");
        let wide = u128::from(self.bits()) * u128::from(bound);
        (wide >> 64) as u64
    }

    /// An index in `0..length`.
    ///
    /// # Panics
    /// If `length` is 0.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number in `low..=high`.
    ///
    /// # Panics
    /// If `low > high`.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range");
        low + self.below(high - low + 1)
    }

    /// A number in `low..=high` whose order of magnitude is uniform.
    ///
    /// # Panics
    /// If `low > high` or `low` is 0.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        assert!(low > 0 && low <= high, "magnitudes start at 1");
        let (first, last) = (low.ilog2(), high.ilog2());
        let scale = self.within(u64::from(first), u64::from(last)) as u32;
        let top = (1_u64 << scale).saturating_mul(2) - 1;
        self.within((1 << scale).max(low), top.min(high))
    }

    /// True `count` times out of `of`.
    ///
    /// # Panics
    /// If `of` is 0.
    pub fn chance(&mut self, count: u64, of: u64) -> bool {
        self.below(of) < count
    }

    /// One of `items`.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }

    /// An index drawn in proportion to `weights`.
    ///
    /// # Panics
    /// If all are 0.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        let mut left = self.below(total);
        for (index, &weight) in weights.iter().enumerate() {
            if left < u64::from(weight) {
                return index;
            }
            left -= u64::from(weight);
        }
        unreachable!("the draw is below the sum of the weights")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A draw more from the parent leaves every child as it was.
    #[test]
    fn split_ignores_draws() {
        let mut parent = Rng::new(7);
        let before = parent.split("drives").bits();
        parent.bits();
        assert_eq!(before, parent.split("drives").bits());
        assert_ne!(before, parent.split("hosts").bits());
        assert_ne!(
            parent.split_at("drive", 0).bits(),
            parent.split_at("drive", 1).bits()
        );
    }

    /// Draws stay in their ranges and reach both ends.
    #[test]
    fn draws_stay_in_range() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 4];
        for _ in 0..4_000 {
            let drawn = rng.within(3, 6);
            seen[(drawn - 3) as usize] += 1;
            let magnitude = rng.magnitude(1, 512);
            assert!((1..=512).contains(&magnitude));
            assert!(rng.weighted(&[0, 3, 0, 1]) % 2 == 1);
        }
        assert!(seen.iter().all(|&count| count > 850), "{seen:?}");
    }
}
