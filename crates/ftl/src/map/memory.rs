//! What the map takes, by structure.

use super::Map;

/// Bytes by structure, and what is in use of the bounded ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapMemory {
    /// Bytes of leaf heads and the table that finds them.
    pub heads: usize,
    /// Bytes of delta nodes.
    pub deltas: usize,
    /// Bytes of cached images.
    pub images: usize,
    /// Bytes of the lists of changed leaves and other small things.
    pub lists: usize,
    /// Delta nodes in use.
    pub delta_nodes_used: usize,
    /// Deltas in all chains.
    pub delta_count: u64,
    /// Images in use.
    pub images_used: usize,
}

impl Map {
    /// What the map takes now.
    #[must_use]
    pub fn memory(&self) -> MapMemory {
        let slices = self.slices.iter().flatten();
        let changed: usize = slices
            .map(|s| s.changed.capacity() * size_of::<u32>())
            .sum();
        MapMemory {
            heads: self.leaves.bytes(),
            deltas: self.pool.bytes(),
            images: self.cache.bytes(),
            lists: changed
                + self.scratch.capacity() * size_of::<varve_format::Delta>()
                + self.parts.capacity(),
            delta_nodes_used: self.pool.used(),
            delta_count: self.pool.deltas(),
            images_used: self.cache.len(),
        }
    }
}
