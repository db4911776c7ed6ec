//! Which blocks of a group are user data: bits of words.
//!
//! **Not here**: live bits (`units`).

use super::low_bits;
use crate::geometry::Geometry;
use alloc::vec::Vec;

/// [`user_mask`] of the words of a group until they repeat themselves: some first words make a whole
/// number of stripes.
pub(super) fn user_masks(geometry: &Geometry) -> Vec<u64> {
    if geometry.groups == 0 {
        return alloc::vec![u64::MAX];
    }
    let area = geometry.stripe_p2l_blocks() / geometry.p2l_copies;
    let lead = area * (geometry.p2l_copies - 1);
    let stripe = geometry.stripe_blocks;
    // 64 is a power of two: what it shares with the stripe are the stripe's factors of two.
    let words = stripe >> stripe.trailing_zeros().min(6);
    let mask = |word: u32| user_mask(word * 64, stripe, lead, area);
    (0..words).map(mask).collect()
}

/// Bits of the 64 blocks of a group from `first` on that are user data: of each stripe those behind
/// the first `lead` and before the last `area` blocks.
pub(super) fn user_mask(first: u32, stripe_blocks: u32, lead: u32, area: u32) -> u64 {
    let (mut mask, mut at) = (0, first);
    while at < first + 64 {
        let stripe = at - at % stripe_blocks;
        let from = at.max(stripe + lead);
        let to = (first + 64).min(stripe + stripe_blocks - area);
        if from < to {
            mask |= low_bits(to - first) & !low_bits(from - first);
        }
        at = stripe + stripe_blocks;
    }
    mask
}
