//! What others have published, and what was reckoned before there was code, to stand beside what is
//! measured.

use serde::Serialize;

/// Figures of one capacity.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Published {
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Fast-tier bytes for each byte of the host, hand arithmetic of the design.
    pub fast_per_host: f64,
    /// Bytes of a checkpoint, likewise; so are all up to `start_ns`.
    pub checkpoint_bytes: u64,
    /// Bytes of log between two checkpoints.
    pub interval_bytes: u64,
    /// Bytes that a start reads.
    pub start_read_bytes: u64,
    /// A start on one core, device time and computing.
    pub start_ns: u64,
    /// The limit that a start is held to.
    pub target_ns: u64,
    /// A start of CSAL as open-sourced, after a loss of power: by the design's arithmetic, not measured.
    pub csal_start_ns: u64,
}

const SECOND: u64 = 1_000_000_000;

/// Uniform 4 KiB writes, D 2.28, 13 GB/s from two fast drives.
///
/// # Source
/// The design's table of figures to verify, and its targets: CSAL as open-sourced takes 2.6 min,
/// 55 min and 3.7 h (its paper says 5.14 s at 15 TB).
const ALL: [Published; 3] = [
    Published {
        capacity_bytes: 15_360_000_000_000,
        fast_per_host: 1.32,
        checkpoint_bytes: 63_000_000,
        interval_bytes: 2_900_000_000,
        start_read_bytes: 2_000_000_000,
        start_ns: 17 * SECOND / 10,
        target_ns: 2 * SECOND,
        csal_start_ns: 156 * SECOND,
    },
    Published {
        capacity_bytes: 61_440_000_000_000,
        fast_per_host: 1.32,
        checkpoint_bytes: 252_000_000,
        interval_bytes: 11_700_000_000,
        start_read_bytes: 8_100_000_000,
        start_ns: 68 * SECOND / 10,
        target_ns: 5 * SECOND,
        csal_start_ns: 3300 * SECOND,
    },
    Published {
        capacity_bytes: 122_880_000_000_000,
        fast_per_host: 1.33,
        checkpoint_bytes: 387_000_000,
        interval_bytes: 12_800_000_000,
        start_read_bytes: 12_400_000_000,
        start_ns: 95 * SECOND / 10,
        target_ns: 8 * SECOND,
        csal_start_ns: 13_320 * SECOND,
    },
];

/// The figures of a capacity, if there are any.
#[must_use]
pub fn published(capacity_bytes: u64) -> Option<Published> {
    ALL.into_iter()
        .find(|figures| figures.capacity_bytes == capacity_bytes)
}
