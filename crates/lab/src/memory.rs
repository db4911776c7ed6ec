//! Memory of the engine.

use crate::plan::Plan;
use crate::report::ratio;
use serde::Serialize;
use varve_ftl::Engine;

/// Memory of the engine by structure, in bytes, at the end of the window.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Memory {
    pub(crate) limit_bytes: u64,
    pub(crate) total_bytes: u64,
    pub(crate) deltas_bytes: u64,
    pub(crate) images_bytes: u64,
    pub(crate) leaf_heads_bytes: u64,
    pub(crate) lists_bytes: u64,
    pub(crate) bitmaps_bytes: u64,
    pub(crate) lifetimes_bytes: u64,
    pub(crate) unit_tables_bytes: u64,
    pub(crate) part_tables_bytes: u64,
    pub(crate) buffers_bytes: u64,
    pub(crate) delta_count: u64,
    pub(crate) deltas_per_leaf: f64,
}

impl Memory {
    pub(crate) fn of(engine: &Engine, plan: &Plan) -> Self {
        let memory = engine.memory();
        Self {
            limit_bytes: plan.dram,
            total_bytes: memory.total(),
            deltas_bytes: memory.deltas,
            images_bytes: memory.images,
            leaf_heads_bytes: memory.heads,
            lists_bytes: memory.lists,
            bitmaps_bytes: memory.bitmaps,
            lifetimes_bytes: memory.lifetimes,
            unit_tables_bytes: memory.units,
            part_tables_bytes: memory.parts,
            buffers_bytes: memory.buffers,
            delta_count: memory.delta_count,
            deltas_per_leaf: ratio(memory.delta_count, plan.leaves()),
        }
    }

    /// That of a pool so many times larger: units, parts and buffers are as many at every scale.
    pub(crate) fn grown(&self, scale: u64) -> Self {
        let fixed = self.buffers_bytes + self.unit_tables_bytes + self.part_tables_bytes;
        Self {
            limit_bytes: self.limit_bytes * scale,
            total_bytes: (self.total_bytes - fixed) * scale + fixed,
            deltas_bytes: self.deltas_bytes * scale,
            images_bytes: self.images_bytes * scale,
            leaf_heads_bytes: self.leaf_heads_bytes * scale,
            lists_bytes: self.lists_bytes * scale,
            bitmaps_bytes: self.bitmaps_bytes * scale,
            lifetimes_bytes: self.lifetimes_bytes * scale,
            delta_count: self.delta_count * scale,
            ..self.clone()
        }
    }

    /// Bytes in all.
    pub(crate) const fn total(&self) -> u64 {
        self.total_bytes
    }

    /// The most that they may be.
    pub(crate) const fn limit(&self) -> u64 {
        self.limit_bytes
    }

    /// Its structures, by name.
    pub(crate) const fn structures(&self) -> [(&'static str, u64); 6] {
        let tables = self.lists_bytes + self.unit_tables_bytes + self.part_tables_bytes;
        [
            ("deltas", self.deltas_bytes),
            ("images of leaves", self.images_bytes),
            ("heads of leaves", self.leaf_heads_bytes),
            ("bitmaps of live blocks", self.bitmaps_bytes),
            ("lifetimes of blocks in the log", self.lifetimes_bytes),
            ("tables, lists, buffers", tables + self.buffers_bytes),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Structures are all there is, and what grows with a pool grows.
    #[test]
    fn structures_add_up_at_every_scale() {
        let memory = Memory {
            limit_bytes: 1 << 20,
            total_bytes: 1 + 2 + 4 + 8 + 16 + 32 + 64 + 128 + 256,
            deltas_bytes: 1,
            images_bytes: 2,
            leaf_heads_bytes: 4,
            lists_bytes: 8,
            bitmaps_bytes: 16,
            lifetimes_bytes: 256,
            unit_tables_bytes: 32,
            part_tables_bytes: 64,
            buffers_bytes: 128,
            delta_count: 3,
            deltas_per_leaf: 1.5,
        };
        for scale in [1, 256] {
            let grown = memory.grown(scale);
            let sum: u64 = grown.structures().iter().map(|(_, bytes)| bytes).sum();
            assert_eq!(sum, grown.total());
            assert_eq!(sum, 287 * scale + 224);
            assert_eq!(grown.limit(), scale << 20);
        }
    }
}
