//! Open-CAS Linux: a write-back cache of OCF.

use super::csal_paper::CSAL_PAPER;
use super::stated::{Stated, bytes, per_cent};
use crate::rig::RigRequest;
use varve_units::BLOCK_BYTES;

/// Parameters of Open-CAS.
pub(crate) struct OpenCas {
    /// Lines that are cleaned together.
    pub(crate) cleaned: usize,
    /// Free lines with which the cache still counts as full for streams, beside those of the request.
    pub(crate) full_margin: u64,
    /// Bytes that the metadata have on the fast drive for a line: eight of mapping and two of state.
    pub(crate) line_bytes: u64,
    /// Bytes of a page of the metadata.
    pub(crate) page_bytes: u64,
    /// Streams a queue follows, and those a core device does.
    pub(crate) streams_of_queue: usize,
    /// See `streams_of_queue`.
    pub(crate) streams_of_core: usize,
    /// Requests after which a queue's stream becomes one of the core device.
    pub(crate) promoted_after: u32,
    /// Bytes from which a stream is cut off.
    pub(crate) cutoff_bytes: u64,
}

pub(crate) const OPEN_CAS: OpenCas = OpenCas {
    cleaned: 32,
    full_margin: 512,
    line_bytes: 10,
    page_bytes: 4096,
    streams_of_queue: 64,
    streams_of_core: 128,
    promoted_after: 8,
    cutoff_bytes: 1 << 20,
};

const LINES: &str = "Open-CAS Linux: what a cache has if none are asked for (from memory)";

impl OpenCas {
    /// Lines of a page of the metadata.
    pub(crate) const fn page_lines(&self) -> u64 {
        self.page_bytes / self.line_bytes
    }

    /// Bytes that lines of a cache of `capacity` bytes have in memory by their metadata on the fast drive, lists and hash table
    /// not counted.
    pub(crate) fn memory(&self, capacity: f64) -> f64 {
        capacity / BLOCK_BYTES as f64 * self.line_bytes as f64
    }

    /// Of its memory.
    pub(crate) fn stated_memory(&self) -> Vec<Stated> {
        let metadata = "Open-CAS/ocf b8b4b70, src/metadata/metadata_collision.h";
        vec![
            Stated::of("lines", bytes(BLOCK_BYTES), LINES),
            Stated::of("metadata of a line", bytes(self.line_bytes), metadata),
        ]
    }

    pub(super) fn stated(&self, request: &RigRequest) -> Vec<Stated> {
        let Self {
            cleaned,
            full_margin,
            line_bytes,
            page_bytes,
            streams_of_queue,
            streams_of_core,
            promoted_after,
            cutoff_bytes,
        } = *self;
        let detector = "Open-CAS/ocf b8b4b70, src/ocf_seq_detect.h";
        let metadata = "Open-CAS/ocf b8b4b70, src/metadata/metadata_collision.h";
        vec![
            Stated::of("mode", "write-back", "document 002, Open-CAS"),
            Stated::of("lines", bytes(BLOCK_BYTES), LINES),
            Stated::asked(
                "cache, of the dense drive",
                per_cent(request.fast_tier),
                &per_cent(CSAL_PAPER.fast_tier),
                "document 002, test bed: 0.8 TB beside 15.36",
            ),
            Stated::of(
                "lines cleaned together",
                cleaned,
                "Open-CAS/ocf b8b4b70, src/ocf_part.h, OCF_EVICTION_CLEAN_SIZE",
            ),
            Stated::of(
                "free lines of a cache that counts as full",
                full_margin,
                "Open-CAS/ocf b8b4b70, src/ocf_seq_cutoff.c, SEQ_CUTOFF_FULL_MARGIN",
            ),
            Stated::of("metadata of a line", bytes(line_bytes), metadata),
            Stated::of("page of the metadata", bytes(page_bytes), metadata),
            Stated::of("streams of a queue", streams_of_queue, detector),
            Stated::of("streams of a core device", streams_of_core, detector),
            Stated::of(
                "requests after which a stream is the core device's",
                promoted_after,
                "Open-CAS/ocf b8b4b70, inc/ocf_mngt.h, seq_detect_promotion_count",
            ),
            Stated::of(
                "streams cut off, of a full cache, from",
                bytes(cutoff_bytes),
                "Open-CAS/ocf b8b4b70, inc/ocf_mngt.h, seq_cutoff_threshold; inc/ocf_def.h, policy \"full\"",
            ),
            Stated::of(
                "cleaning of an idle cache",
                "alru, which a load keeps asleep",
                "Open-CAS/ocf b8b4b70: its own policy; it acts after ten idle seconds",
            ),
            Stated::of(
                "charge to a processor",
                "nothing",
                "chosen: none was measured, and this is kind",
            ),
        ]
    }
}
