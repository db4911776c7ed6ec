//! The Linux target dm-zoned.

use super::csal_paper::CSAL_PAPER;
use super::stated::{Stated, bytes, per_cent};
use crate::rig::RigRequest;
use varve_units::BLOCK_BYTES;

/// Parameters of dm-zoned.
pub(crate) struct DmZoned {
    /// Bytes of the document's dense drive, and of its zones.
    pub(crate) drive_bytes: u64,
    /// See `drive_bytes`.
    pub(crate) zone_bytes: u64,
    /// Blocks of a zone are a multiple of this: requests fit, and zones begin with an IU of the drive.
    pub(crate) zone_blocks_step: u64,
    /// Sequential zones that no chunk is promised.
    pub(crate) reserved: u64,
    /// Chunks of a page of the map.
    pub(crate) map_page_chunks: u64,
    /// Bytes of a page of the metadata.
    pub(crate) page_bytes: u64,
    /// Free zones of the cache, per cent, up to which reclaim goes on though hosts are busy; below half of that it takes all
    /// of the time.
    pub(crate) low_per_cent: usize,
    /// Share of time, per cent, in which it copies unless free zones are very few.
    pub(crate) throttle: usize,
    /// Blocks that are copied with one command, and commands under way.
    pub(crate) copy_blocks: u64,
    /// See `copy_blocks`.
    pub(crate) copies: usize,
}

pub(crate) const DM_ZONED: DmZoned = DmZoned {
    drive_bytes: 23_000_000_000_000,
    zone_bytes: 1 << 30,
    zone_blocks_step: 64,
    reserved: 16,
    map_page_chunks: 512,
    page_bytes: 4096,
    low_per_cent: 30,
    throttle: 75,
    copy_blocks: 128,
    copies: 8,
};

const METADATA: &str =
    "Linux 5.8, drivers/md/dm-zoned-metadata.c, struct dmz_map: eight bytes a chunk";

impl DmZoned {
    /// Zones of the document's dense drive.
    pub(crate) const fn zones(&self) -> u64 {
        self.drive_bytes / self.zone_bytes
    }

    /// Bytes that this model has in memory for a dense drive of `capacity` bytes: eight for each chunk, and a bit for each block.
    pub(crate) fn memory(&self, capacity: f64) -> f64 {
        let map = self.page_bytes as f64 / self.map_page_chunks as f64;
        let bitmap = self.zone_bytes as f64 / BLOCK_BYTES as f64 / 8.0;
        capacity / self.zone_bytes as f64 * (map + bitmap)
    }

    /// Of its memory.
    pub(crate) fn stated_memory(&self) -> Vec<Stated> {
        vec![
            Stated::of(
                "zone",
                bytes(self.zone_bytes),
                "document 002, zones of 1 GiB",
            ),
            Stated::of(
                "map of a chunk",
                bytes(self.page_bytes / self.map_page_chunks),
                METADATA,
            ),
            Stated::of(
                "bitmaps in memory",
                "all",
                "chosen: the real one keeps some and reads the others; time costs this one nothing",
            ),
        ]
    }

    pub(super) fn stated(&self, request: &RigRequest) -> Vec<Stated> {
        let Self {
            drive_bytes: _,
            zone_bytes,
            zone_blocks_step,
            reserved,
            map_page_chunks,
            page_bytes,
            low_per_cent: _,
            throttle: _,
            copy_blocks: _,
            copies: _,
        } = *self;
        let zones = [
            Stated::of(
                "zones of a conventional drive",
                format!(
                    "{}, of {} each at its size",
                    self.zones(),
                    bytes(zone_bytes)
                ),
                "document 002: 23 TB, zones of 1 GiB; a smaller drive has as many",
            ),
            Stated::of(
                "zones are multiples of",
                bytes(zone_blocks_step * BLOCK_BYTES),
                "chosen: whole IUs of the drive",
            ),
            Stated::asked(
                "cache, of the dense drive",
                per_cent(request.fast_tier),
                &per_cent(CSAL_PAPER.fast_tier),
                "document 002, test bed: 0.8 TB beside 15.36",
            ),
            Stated::of(
                "zones reserved",
                reserved,
                "dmzadm, nr_reserved_seq (from memory)",
            ),
            Stated::of("chunks of a page of the map", map_page_chunks, METADATA),
            Stated::of("page of the metadata", bytes(page_bytes), METADATA),
            Stated::of(
                "charge to a processor",
                "nothing",
                "chosen: none was measured, and this is kind",
            ),
        ];
        zones.into_iter().chain(self.stated_reclaim()).collect()
    }

    fn stated_reclaim(&self) -> [Stated; 4] {
        let Self {
            low_per_cent,
            throttle,
            copy_blocks,
            copies,
            ..
        } = *self;
        [
            Stated::of(
                "free zones at which a busy target reclaims",
                format!("{low_per_cent} %"),
                "Linux 5.8, drivers/md/dm-zoned-reclaim.c, DMZ_RECLAIM_LOW_UNMAP_ZONES",
            ),
            Stated::of(
                "time it copies in",
                format!("{throttle} %, or all below {} % free", low_per_cent / 2),
                "Linux 5.8, drivers/md/dm-zoned-reclaim.c, dmz_reclaim_work",
            ),
            Stated::of(
                "copied with one command",
                bytes(copy_blocks * BLOCK_BYTES),
                "Linux 5.8, drivers/md/dm-kcopyd.c, DEFAULT_SUB_JOB_SIZE_KB",
            ),
            Stated::of(
                "copies at once",
                copies,
                "Linux 5.8, drivers/md/dm-kcopyd.c, SPLIT_COUNT",
            ),
        ]
    }
}
