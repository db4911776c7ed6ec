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

/// What is to be said of a pool by the bytes that are used in it.
pub(crate) fn finding(pool: &str, used: u64, capacity: u64) -> Option<Finding> {
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

impl Running {
    /// True from when it is full until there is room again that is worth speaking of.
    pub(crate) fn is_full(&self) -> bool {
        let engine = self.pool.engine();
        let capacity = engine.reserve().capacity_blocks;
        let left = capacity.saturating_sub(engine.used_upper());
        let is_full = match self.was_full.get() {
            true => left * BLOCK_BYTES < FULL_BYTES || left < capacity / AGAIN_SHARE,
            false => left * BLOCK_BYTES < FULL_BYTES,
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
        let code = |used| finding("p", used, GIB).map(|finding| finding.code);
        assert_eq!(code(GIB * 90 / 100 - (1 << 20)), None);
        assert_eq!(code(GIB * 90 / 100 + 1).as_deref(), Some("nearly-full"));
        assert_eq!(code(GIB - FULL_BYTES).as_deref(), Some("nearly-full"));
        assert_eq!(code(GIB - FULL_BYTES + 1).as_deref(), Some("full"));
        assert_eq!(code(GIB + 1).as_deref(), Some("full"));
        assert_eq!(overcommit("p", GIB, GIB), None);
        assert!(overcommit("p", GIB + 1, GIB).is_some());
    }
}
