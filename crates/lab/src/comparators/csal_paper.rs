//! CSAL as its paper describes it.

use super::csal::{CSAL, Charge};
use super::csal_today::yes_or_no;
use super::stated::{Stated, bytes, per_cent};
use crate::rig::RigRequest;
use varve_units::{BLOCK_BYTES, Nanos};

/// Parameters of CSAL as published.
pub(crate) struct CsalPaper {
    /// Free bands at which a band is emptied before another is opened for what hosts wrote.
    pub(crate) free_bands: usize,
    /// True if it tells the drive which bands it has emptied.
    pub(crate) discards: bool,
    /// Blocks of a merged write.
    pub(crate) batch_blocks: usize,
    /// Processors that do all its work.
    pub(crate) cores: usize,
    /// What its work costs one.
    pub(crate) charge: Charge,
    /// Blocks of the dense tier that it does not export, per cent of all.
    pub(crate) over_provision: f64,
    /// Its fast tier, per cent of what it exports.
    pub(crate) fast_tier: f64,
    /// Pages of its map in memory, per cent.
    pub(crate) map_cache: f64,
    /// Its memory.
    pub(crate) memory: Memory,
    /// What a start reads.
    pub(crate) start: Start,
}

/// What is in memory.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    /// Bytes of pages of the map.
    pub(crate) pages_bytes: f64,
    /// Bytes of the top of the map for each byte of the dense drive.
    pub(crate) top_per_byte: f64,
    /// Bytes of the fast drive for each of the dense one.
    pub(crate) fast_per_dense: f64,
}

/// Volumes that the three ways of a start read, in bytes, and what is listed beside, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    /// The drive: 15.36 TB by way of 1024.
    pub(crate) drive: f64,
    /// The P2L of all zones.
    pub(crate) p2l: f64,
    /// What a checkpoint leaves of that.
    pub(crate) recent_p2l: f64,
    /// The map.
    pub(crate) map: f64,
    /// What the document lists beside, in seconds: all else.
    pub(crate) others_s: f64,
    /// What is left of the drive's, in seconds.
    pub(crate) rest_of_drive_s: f64,
}

/// The charge is the artifact's sample run: 544 thousand writes of 4 KiB in order a second on two cores, 3.68 us each with
/// the block that is moved for it. How that is divided is not told: as SPDK's. Such writes come to that rate here again.
pub(crate) const CSAL_PAPER: CsalPaper = CsalPaper {
    free_bands: 1,
    discards: true,
    batch_blocks: 128,
    cores: 2,
    charge: Charge {
        write: Nanos(2660),
        moved: Nanos(1020),
        page: Nanos(650),
    },
    over_provision: 18.0,
    fast_tier: 5.0,
    map_cache: 12.5,
    memory: Memory {
        pages_bytes: 2.0 * 1024.0 * 1024.0 * 1024.0,
        top_per_byte: 4e6 / 15.36e12,
        fast_per_dense: 0.8 / 15.36,
    },
    start: Start {
        drive: 15_360.0 * 1024e6,
        p2l: 32e9,
        recent_p2l: 2e9,
        map: 16e9,
        others_s: 1.64,
        rest_of_drive_s: 0.5,
    },
};

/// The document's list of a start, of which the volumes are its times by the drive's 6.0 GB/s.
const OF_START: &str = "document 002, crash recovery: its times by the 6.0 GB/s of its drive";
const ARTIFACT: &str = "document 002's artifact";

impl CsalPaper {
    /// Of its placement.
    pub(super) fn stated(&self) -> Vec<Stated> {
        let Self {
            free_bands,
            discards,
            batch_blocks: _,
            cores: _,
            charge: _,
            over_provision: _,
            fast_tier: _,
            map_cache: _,
            memory: _,
            start: _,
        } = *self;
        vec![
            CSAL.stated_group(),
            Stated::of(
                "streams",
                "one for each tenant, one for garbage collection",
                "document 002, compaction and garbage collection",
            ),
            Stated::of(
                "victim",
                "the band with the fewest live blocks",
                "chosen: document 002 does not say",
            ),
            Stated::of(
                "free bands at which garbage collection begins",
                free_bands,
                "chosen: the fewest that it can do with; document 002 does not say",
            ),
            Stated::of(
                "tells the drive what it has emptied",
                yes_or_no(discards),
                "document 002 resets zones; chosen for other drives",
            ),
        ]
    }

    /// Of the system.
    pub(super) fn stated_in_time(&self, request: &RigRequest) -> Vec<Stated> {
        let of_batch = self.batch_blocks as u64 * BLOCK_BYTES;
        let processors = "document 002's artifact, --core-mask 0x3";
        let mut stated = vec![
            Stated::of("merged write", bytes(of_batch), "document 002, compaction"),
            Stated::asked("processors", request.cores.into(), &self.cores.into(), processors),
            self.charge.stated(
                "document 002's artifact: 544 thousand writes of 4 KiB in order a second on two cores, divided as SPDK's are",
            ),
        ];
        stated.extend(self.stated_asked(request));
        stated
    }

    /// What whoever asks may choose, of both CSALs.
    pub(super) fn stated_asked(&self, request: &RigRequest) -> [Stated; 3] {
        let of = |name, asked, own, source: &str| {
            let source = format!("{ARTIFACT}, {source}");
            Stated::asked(name, per_cent(asked), &per_cent(own), &source)
        };
        [
            of(
                "over-provisioning",
                request.over_provision,
                self.over_provision,
                "--overprovisioning 18",
            ),
            of(
                "fast tier, of what is exported",
                request.fast_tier,
                self.fast_tier,
                "0.8 TB beside 15.36",
            ),
            of(
                "map in memory",
                request.map_cache,
                self.map_cache,
                "--l2p-dram-limit 2048 (MiB) of 16 GB",
            ),
        ]
    }

    /// Of its memory.
    pub(crate) fn stated_memory(&self) -> Vec<Stated> {
        let Memory {
            pages_bytes,
            top_per_byte,
            fast_per_dense,
        } = self.memory;
        vec![
            Stated::of(
                "pages of the map in memory",
                bytes(pages_bytes as u64),
                "document 002's artifact, --l2p-dram-limit 2048",
            ),
            Stated::of(
                "top of the map, for 15.36 TB",
                format!("{:.0} MB", top_per_byte * 15.36e12 / 1e6),
                "document 002, two-level map",
            ),
            Stated::of(
                "fast drive by dense drive",
                format!("{fast_per_dense:.3}"),
                "document 002, test bed: 0.8 TB beside 15.36",
            ),
        ]
    }

    /// Of a start.
    pub(crate) fn stated_start(&self) -> Vec<Stated> {
        let Start {
            drive,
            p2l,
            recent_p2l,
            map,
            others_s,
            rest_of_drive_s,
        } = self.start;
        let gb = |bytes: f64| format!("{:.0} GB", bytes / 1e9);
        vec![
            Stated::of("start, naive: read of the drive", gb(drive), OF_START),
            Stated::of("start by P2L: read of it", gb(p2l), OF_START),
            Stated::of("start by checkpoint: read of P2L", gb(recent_p2l), OF_START),
            Stated::of("start by checkpoint: read of the map", gb(map), OF_START),
            Stated::of("start: all else", format!("{others_s} s"), OF_START),
            Stated::of(
                "start: rest of the drive",
                format!("{rest_of_drive_s} s"),
                OF_START,
            ),
        ]
    }
}
