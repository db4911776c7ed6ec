//! What the models of both CSALs have in common.

use super::processor::PROCESSOR;
use super::stated::{Stated, bytes};
use super::tiers::TIERS;
use std::fmt;
use varve_units::Nanos;

/// What CSAL's work costs a processor.
#[derive(Clone, Copy)]
pub(crate) struct Charge {
    /// A write of hosts, however long.
    pub(crate) write: Nanos,
    /// A block that is moved.
    pub(crate) moved: Nanos,
    /// Another page of the map than that of the block moved before.
    pub(crate) page: Nanos,
}

impl Charge {
    pub(super) fn stated(self, source: &str) -> Stated {
        Stated::of("charge to a processor", format!("{self} (us)"), source)
    }
}

impl fmt::Display for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |nanos: Nanos| nanos.0 as f64 / 1e3;
        let [write, moved, page] = [self.write, self.moved, self.page].map(us);
        write!(
            f,
            "{write} a write, {moved} a block moved, {page} a page of the map changed for that"
        )
    }
}

/// Parameters of both.
pub(crate) struct Csal {
    /// Bands of a reclaim group, of 1 GiB each.
    pub(crate) group_bands: u32,
    /// Bytes of a page of the map, and of the P2L log.
    pub(crate) page_bytes: u64,
    /// Bytes that the map has for a block.
    pub(crate) entry_bytes: u64,
    /// Compactions and relocations that are under way at once.
    pub(crate) compactions: usize,
    /// See `compactions`.
    pub(crate) relocations: usize,
    /// Batches that may wait to be moved before hosts wait, for each that is moved, whatever room there is.
    pub(crate) backlog_for_each: usize,
    /// Chunks that are full when compaction begins, per cent; hosts may write the rest before anything is moved. Beside the
    /// log of the model, which is kind: the log is as large as all chunks.
    pub(crate) compaction_starts_per_cent: u64,
    /// Reclaim groups of a drive that is made smaller.
    pub(crate) groups: u64,
    /// Writes of hosts that a band of such a drive has room for at least, while it has `bands_min` bands.
    pub(crate) band_writes_min: u64,
    /// Bands of such a drive at least.
    pub(crate) bands_min: u64,
}

pub(crate) const CSAL: Csal = Csal {
    group_bands: 72,
    page_bytes: 4096,
    entry_bytes: 4,
    compactions: 8,
    relocations: 16,
    backlog_for_each: 2,
    compaction_starts_per_cent: 80,
    groups: 200,
    band_writes_min: 1024,
    bands_min: 400,
};

/// What a smaller drive's bands are by; what was measured of it stands where they are made.
const SMALL: &str = "chosen, so that chance and open bands weigh nothing on a drive a thousand times smaller \
                     (measured: crates/lab/src/rig/bands.rs)";
const PLACES: &str = "SPDK 26.09-pre, lib/ftl/ftl_layout.c, up to 16 TiB";

impl Csal {
    /// Batches that are moved at once.
    pub(crate) const fn movers(&self) -> usize {
        self.compactions + self.relocations
    }

    /// Part of so many blocks of chunks that is free when nothing is to be moved.
    pub(crate) const fn room(&self, blocks: u64) -> u64 {
        blocks * (100 - self.compaction_starts_per_cent) / 100
    }

    /// Of both in time.
    pub(super) fn stated(&self) -> Vec<Stated> {
        let Self {
            group_bands: _,
            page_bytes,
            entry_bytes,
            compactions,
            relocations,
            backlog_for_each,
            compaction_starts_per_cent,
            groups,
            band_writes_min,
            bands_min,
        } = *self;
        let mut stated = vec![
            Stated::of("page of the map", bytes(page_bytes), PLACES),
            Stated::of("map for a block", bytes(entry_bytes), PLACES),
            Stated::of(
                "compactions at once",
                compactions,
                "SPDK 26.09-pre, lib/ftl/ftl_nv_cache.c",
            ),
            Stated::of(
                "relocations at once",
                relocations,
                "SPDK 26.09-pre, lib/ftl/ftl_reloc.c",
            ),
            Stated::of(
                "batches that hosts may be ahead, for each that is moved",
                backlog_for_each,
                "chosen: in place of SPDK's throttle, which costs hosts more",
            ),
            Stated::of(
                "full chunks at which compaction begins",
                format!("{compaction_starts_per_cent} %"),
                "SPDK 26.09-pre, lib/ftl/ftl_nv_cache.c",
            ),
            Stated::of("reclaim groups of a conventional drive", groups, SMALL),
            Stated::of(
                "host writes that a band has room for",
                band_writes_min,
                SMALL,
            ),
            Stated::of("bands of a conventional drive, at least", bands_min, SMALL),
        ];
        stated.push(TIERS.stated_log());
        stated.push(PROCESSOR.stated());
        stated
    }

    pub(super) fn stated_group(&self) -> Stated {
        Stated::of(
            "bands of a reclaim group, at most",
            self.group_bands,
            "SPDK 26.09-pre, lib/ftl/mngt/ftl_mngt_band.c, BASE_BDEV_RECLAIM_UNIT_SIZE: 72 of 1 GiB",
        )
    }
}
