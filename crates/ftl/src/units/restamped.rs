//! Which units got another stamp since somebody looked: a bit each, so that who keeps what follows from stamps need not
//! look at every unit.

use crate::geometry::{Geometry, Tier, UnitId};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};

/// A set of units, emptied by being looked at.
#[derive(Debug)]
pub(crate) struct Restamped {
    chunks: Box<[AtomicU64]>,
    groups: Box<[AtomicU64]>,
}

impl Restamped {
    /// None of the units of a pool.
    pub(super) fn new(geometry: &Geometry) -> Self {
        let none = |units: u32| (0..units.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self {
            chunks: none(geometry.chunks),
            groups: none(geometry.groups),
        }
    }

    fn words(&self, tier: Tier) -> &[AtomicU64] {
        match tier {
            Tier::Fast => &self.chunks,
            Tier::Dense => &self.groups,
        }
    }

    /// A unit has another stamp, which is seen by who takes it from here.
    pub(super) fn note(&self, id: UnitId) {
        let word = &self.words(id.tier)[(id.index / 64) as usize];
        word.fetch_or(1 << (id.index % 64), Ordering::Release);
    }

    /// Hands each out once.
    pub(crate) fn take(&self, mut told: impl FnMut(UnitId)) {
        for tier in [Tier::Fast, Tier::Dense] {
            for (at, word) in (0..).zip(self.words(tier)) {
                if word.load(Ordering::Relaxed) == 0 {
                    continue;
                }
                let mut bits = word.swap(0, Ordering::Acquire);
                while bits != 0 {
                    let index = at * 64 + bits.trailing_zeros();
                    told(UnitId { tier, index });
                    bits &= bits - 1;
                }
            }
        }
    }
}
