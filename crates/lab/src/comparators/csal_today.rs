//! CSAL as open-sourced: SPDK's FTL.

use super::csal::{CSAL, Charge};
use super::csal_paper::CSAL_PAPER;
use super::stated::{Stated, Value, bytes, per_cent};
use crate::rig::RigRequest;
use varve_units::{BLOCK_BYTES, Nanos};

/// Parameters of CSAL as open-sourced.
pub(crate) struct CsalToday {
    /// Free bands at which garbage collection begins.
    pub(crate) free_bands: usize,
    /// Groups whose invalid shares differ by no more than this count as equal.
    pub(crate) similar: f64,
    /// P2L of a band by its data.
    pub(crate) metadata_per_block: f64,
    /// True if it tells the drive which bands it has emptied.
    pub(crate) discards: bool,
    /// Blocks of a merged write.
    pub(crate) batch_blocks: usize,
    /// Processors that do all its work.
    pub(crate) cores: usize,
    /// What its work costs one.
    pub(crate) charge: Charge,
}

/// The charge was measured on a core of Zen 5, alone, in the half hour in which the engine's was (docs/figures.md): the FTL's
/// own thread, SPDK's drive in memory as cache, which copies, a file by io_uring as base. Random 4 KiB writes took it 0.62 us
/// with 0.13 dense blocks to each, 2.92 with 1.62 and 5.92 with 4.25: by a line 0.60 a write and 1.27 a block that is moved,
/// where each lies in another page of the map than the one before. Writes of 128 KiB in order took 0.50 to 0.57 a block, so
/// one that is moved in order costs 0.48.
pub(crate) const CSAL_TODAY: CsalToday = CsalToday {
    free_bands: 5,
    similar: 0.1,
    metadata_per_block: 4.0 / 1024.0,
    discards: false,
    batch_blocks: 256,
    cores: 1,
    charge: Charge {
        write: Nanos(600),
        moved: Nanos(480),
        page: Nanos(790),
    },
};

impl CsalToday {
    /// Of its placement.
    pub(super) fn stated(&self) -> Vec<Stated> {
        let Self {
            free_bands,
            similar,
            metadata_per_block,
            discards,
            batch_blocks: _,
            cores: _,
            charge: _,
        } = *self;
        vec![
            CSAL.stated_group(),
            Stated::of(
                "free bands at which garbage collection begins",
                free_bands,
                "SPDK 26.09-pre, lib/ftl/utils/ftl_conf.c, SPDK_FTL_LIMIT_START",
            ),
            Stated::of(
                "invalid shares of groups that count as equal",
                format!("{:.0} points apart at most", similar * 100.0),
                "SPDK 26.09-pre, lib/ftl/ftl_band.c, band_cmp",
            ),
            Stated::of(
                "P2L of a band",
                format!("{} MiB for each GiB", metadata_per_block * 1024.0),
                "SPDK 26.09-pre, lib/ftl/ftl_internal.h: 16 bytes a block",
            ),
            Stated::of(
                "tells the drive what it has emptied",
                yes_or_no(discards),
                "SPDK 26.09-pre: no spdk_bdev_unmap in lib/ftl",
            ),
        ]
    }

    /// Of the system.
    pub(super) fn stated_in_time(&self, request: &RigRequest) -> Vec<Stated> {
        let of_batch = self.batch_blocks as u64 * BLOCK_BYTES;
        let mut stated = vec![
            Stated::of(
                "merged write",
                bytes(of_batch),
                "SPDK 26.09-pre, lib/ftl/ftl_core.h, ftl_get_write_unit_size",
            ),
            Stated::of(
                "processors",
                self.cores,
                "SPDK 26.09-pre, lib/ftl/ftl_core.c, ftl_core_poller: one thread",
            ),
            self.charge.stated(
                "measured: SPDK 26.09-pre on a core of Zen 5, cache in memory, 29 November",
            ),
        ];
        stated.extend(CSAL_PAPER.stated_asked(request));
        let own = "SPDK 26.09-pre, lib/ftl/utils/ftl_conf.c";
        stated.push(Stated::of(
            "over-provisioning of SPDK itself",
            per_cent(20.0),
            own,
        ));
        stated
    }
}

pub(super) fn yes_or_no(is: bool) -> Value {
    if is { "yes" } else { "no" }.into()
}
