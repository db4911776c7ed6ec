//! How much room a pool has left. Volumes are thin: they may be larger together than what they can hold.

use crate::finding::{Finding, Severity};
use crate::running::Running;
use varve_units::{BLOCK_BYTES, LEAF_BLOCKS};

/// Bytes that are left of a pool that is full: it refuses the next long writes, if not this one. A host's longest
/// write is a quarter of it.
const FULL_BYTES: u64 = LEAF_BLOCKS * BLOCK_BYTES;
/// Per cent of its capacity from which on a pool is nearly full. Arbitrary: time enough to bring more drives.
const NEARLY_FULL: u64 = 90;
/// Share of its capacity that a pool which was full has to have again to be called so no longer: what is used is an
/// upper bound that rises with every write and falls when the map is looked at. Arbitrary.
const AGAIN_SHARE: u64 = 100;

/// What is taken of a pool and what there is: blocks, told in bytes, and leaves of the map. Each leaf is of 2 MiB of a volume
/// in which something is written, however little.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) used_bytes: u64,
    pub(crate) capacity_bytes: u64,
    pub(crate) leaves: u64,
    pub(crate) leaves_max: u64,
}

impl Room {
    /// What is to be said of a pool by what is taken of it. Of a map that is nearly full nothing as long as the same is said
    /// of the bytes: it fills with them.
    pub(crate) fn findings(&self, pool: &str) -> Vec<Finding> {
        let bytes = self.of_bytes(pool);
        let is_map_full = self.leaves >= self.leaves_max;
        let map = match bytes {
            Some(_) if !is_map_full => None,
            _ => self.of_map(pool),
        };
        bytes.into_iter().chain(map).collect()
    }

    fn of_bytes(&self, pool: &str) -> Option<Finding> {
        let (used, capacity) = (self.used_bytes, self.capacity_bytes);
        let is_full = capacity.saturating_sub(used) < FULL_BYTES;
        let (code, what) = match used.saturating_mul(100) / capacity.max(1) {
            _ if is_full => (
                "full",
                "it is full: what was never written before is refused".to_owned(),
            ),
            share if share >= NEARLY_FULL => ("nearly-full", format!("it is full to {share} %")),
            _ => return None,
        };
        let text = format!(
            "{what}; next: delete volumes or discard what hosts no longer need (`varve volume list {pool}` tells who \
             takes how much), or move some to another pool"
        );
        Some(Finding::new(Severity::Warning, code, text))
    }

    fn of_map(&self, pool: &str) -> Option<Finding> {
        let (leaves, most) = (self.leaves, self.leaves_max);
        let leaf = mib(LEAF_BLOCKS * BLOCK_BYTES);
        let share = leaves.saturating_mul(100) / most.max(1);
        let (code, what) = match leaves >= most {
            true => (
                "full-map",
                format!("what is written in parts of {leaf} MiB where nothing is yet is refused"),
            ),
            false if share >= NEARLY_FULL => ("nearly-full-map", format!("that is {share} %")),
            false => return None,
        };
        let text = format!(
            "its volumes have something in {leaves} parts of {leaf} MiB, of {most} that the map has room for: {what}; next: \
             delete volumes (`varve volume list {pool}` tells which there are), or discard whole parts of {leaf} MiB (on a host: \
             `fstrim` of a file system, `blkdiscard` of a device)"
        );
        Some(Finding::new(Severity::Warning, code, text))
    }
}

/// What is to be said where the volumes of a pool are larger together than it.
pub(crate) fn overcommit(pool: &str, promised: u64, capacity: u64) -> Option<Finding> {
    if promised <= capacity {
        return None;
    }
    let (promised, room) = (mib(promised), mib(capacity));
    let text = format!(
        "the volumes of pool {pool} are {promised} MiB together, and it can hold {room} MiB: writes fail when that is \
         used; `varve pool status {pool} --check` tells when it is nearly so"
    );
    Some(Finding::new(Severity::Warning, "overcommit", text))
}

const fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// What of a pool is full.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Full {
    /// There is no room for blocks that were never written.
    pub(crate) has_blocks: bool,
    /// There is none for leaves of the map.
    pub(crate) has_leaves: bool,
}

impl Running {
    /// What of it is full, from when it is until there is room again that is worth speaking of.
    pub(crate) fn full(&self) -> Full {
        let engine = self.pool.engine();
        let (capacity, most) = (engine.reserve().capacity_blocks, engine.capacity_leaves());
        let blocks = capacity.saturating_sub(engine.used_upper());
        let leaves = most.saturating_sub(engine.leaves());
        let was = self.was_full.get();
        let is_full = Full {
            has_blocks: blocks * BLOCK_BYTES < FULL_BYTES
                || was.has_blocks && blocks < capacity / AGAIN_SHARE,
            has_leaves: leaves == 0 || was.has_leaves && leaves < most / AGAIN_SHARE,
        };
        self.was_full.set(is_full);
        is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each bound, on both sides.
    #[test]
    fn a_pool_is_full_nearly_full_or_neither() {
        const GIB: u64 = 1 << 30;
        const NONE: [&str; 0] = [];
        let codes = |used_bytes, leaves| {
            let room = Room {
                used_bytes,
                capacity_bytes: GIB,
                leaves,
                leaves_max: 600,
            };
            let found = room.findings("p").into_iter();
            found.map(|finding| finding.code).collect::<Vec<_>>()
        };
        assert_eq!(codes(GIB * 90 / 100 - (1 << 20), 539), NONE);
        assert_eq!(codes(GIB * 90 / 100 + 1, 539), ["nearly-full"]);
        assert_eq!(codes(GIB - FULL_BYTES, 599), ["nearly-full"]);
        assert_eq!(codes(GIB - FULL_BYTES + 1, 599), ["full"]);
        assert_eq!(codes(GIB + 1, 600), ["full", "full-map"]);
        assert_eq!(codes(0, 540), ["nearly-full-map"]);
        assert_eq!(codes(0, 600), ["full-map"]);
        assert_eq!(overcommit("p", GIB, GIB), None);
        assert!(overcommit("p", GIB + 1, GIB).is_some());
    }
}
