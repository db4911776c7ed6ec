//! What is to be measured.

use super::hosts::Hosts;
use crate::comparators::{DISKS, MD};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use varve_units::BLOCK_BYTES;

/// Requests of a mix's window if fewer are asked for. Arbitrary.
pub const REQUESTS_MIN: u64 = 1 << 12;
/// Most dense drives: arbitrary.
pub(super) const DRIVES_MAX: u32 = 64;

/// A storage system that can be measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SystemName {
    /// A disk for each of eight tenants.
    HddArray,
    /// The dense drive as it is.
    DropIn,
    /// CSAL as its paper describes it.
    CsalPaper,
    /// CSAL as open-sourced.
    CsalToday,
    /// Chunks on all drives in turn, as Linux md does it.
    Raid0,
    /// Two copies, as Linux md does it.
    Raid10,
    /// One parity in place, as Linux md does it.
    Raid5,
    /// Two parities in place, as Linux md does it.
    Raid6,
    /// A write-back cache before the dense drive, as Open-CAS Linux is.
    OpenCas,
    /// The Linux target dm-zoned, with the fast drive as its cache.
    DmZoned,
    /// The engine.
    Varve,
}

impl SystemName {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::HddArray,
        Self::DropIn,
        Self::CsalPaper,
        Self::CsalToday,
        Self::Raid0,
        Self::Raid10,
        Self::Raid5,
        Self::Raid6,
        Self::OpenCas,
        Self::DmZoned,
        Self::Varve,
    ];

    /// What users call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HddArray => "hdd-array",
            Self::DropIn => "drop-in",
            Self::CsalPaper => "csal-paper",
            Self::CsalToday => "csal-today",
            Self::Raid0 => "raid-0",
            Self::Raid10 => "raid-10",
            Self::Raid5 => "raid-5",
            Self::Raid6 => "raid-6",
            Self::OpenCas => "open-cas",
            Self::DmZoned => "dm-zoned",
            Self::Varve => "varve",
        }
    }

    /// Dense drives it has if nobody says how many: eight of an array, as the documents 002 and 004
    /// have them.
    #[must_use]
    pub const fn drives(self) -> u32 {
        match self {
            Self::HddArray => DISKS.count,
            Self::Raid0 | Self::Raid10 | Self::Raid5 | Self::Raid6 => MD.drives,
            Self::DropIn
            | Self::CsalPaper
            | Self::CsalToday
            | Self::OpenCas
            | Self::DmZoned
            | Self::Varve => 1,
        }
    }

    /// True if what it keeps in memory grows with every block of its dense drives.
    pub(super) const fn keeps_blocks(self) -> bool {
        match self {
            Self::HddArray
            | Self::DropIn
            | Self::Raid0
            | Self::Raid10
            | Self::Raid5
            | Self::Raid6 => false,
            Self::CsalPaper | Self::CsalToday | Self::OpenCas | Self::DmZoned | Self::Varve => true,
        }
    }

    /// True if writes go to a log first, from which they are compacted.
    pub(super) const fn has_log(self) -> bool {
        matches!(self, Self::CsalPaper | Self::CsalToday | Self::Varve)
    }

    /// Bytes of a request at most: arrays take whole stripes.
    pub(super) const fn bytes_max(self) -> u64 {
        match self {
            Self::Raid0 | Self::Raid10 | Self::Raid5 | Self::Raid6 => 4 << 20,
            Self::HddArray
            | Self::DropIn
            | Self::CsalPaper
            | Self::CsalToday
            | Self::OpenCas
            | Self::DmZoned
            | Self::Varve => 1 << 20,
        }
    }

    /// True if it can write a dense drive zone by zone, each from its start to its end.
    pub(super) const fn writes_zones(self) -> bool {
        matches!(self, Self::CsalPaper | Self::DmZoned | Self::Varve)
    }

    /// Fewest and most dense drives it can have.
    pub(super) const fn drives_possible(self, protect: Protect) -> (u32, u32) {
        let least = match self {
            Self::Raid0 | Self::Raid10 => 2,
            Self::Raid5 => 3,
            Self::Raid6 => 4,
            Self::Varve => match protect {
                Protect::None => 1,
                // As `varve-array` has it: fewer would be a mirror.
                Protect::Parity1 => 3,
                Protect::Parity2 => 4,
            },
            Self::HddArray => 1,
            Self::DropIn | Self::CsalPaper | Self::CsalToday | Self::OpenCas | Self::DmZoned => {
                return (1, 1);
            }
        };
        (least, DRIVES_MAX)
    }

    /// What a request of a rig costs, roughly, in microseconds of one core: measured in `time-writes` at an eighth,
    /// 4 KiB, beside other work. In-place systems are cheap because their windows end by time before they are full.
    const fn request_us(self) -> u64 {
        match self {
            Self::Varve => 9,
            Self::CsalPaper | Self::CsalToday => 5,
            Self::DmZoned | Self::Raid0 | Self::Raid10 | Self::Raid5 | Self::Raid6 => 2,
            Self::HddArray | Self::DropIn | Self::OpenCas => 1,
        }
    }
}

impl fmt::Display for SystemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for SystemName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl FromStr for SystemName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|system| system.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("one of {names}")
        })
    }
}

/// What the engine's dense tier adds to its data.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Protect {
    /// Nothing.
    None,
    /// One strip of parity in each stripe.
    Parity1,
    /// Two.
    Parity2,
}

impl Protect {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Parity1, Self::Parity2];

    /// What users call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Parity1 => "parity1",
            Self::Parity2 => "parity2",
        }
    }

    /// Strips of a stripe that are parity.
    #[must_use]
    pub const fn strips(self) -> usize {
        match self {
            Self::None => 0,
            Self::Parity1 => 1,
            Self::Parity2 => 2,
        }
    }
}

impl FromStr for Protect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|protect| protect.name() == text);
        found.ok_or_else(|| format!("one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// What is to be measured. [`Setting`](super::Setting) tells what of it changes nothing of which system.
#[derive(Clone, PartialEq, Debug)]
pub struct RigRequest {
    /// The system.
    pub system: SystemName,
    /// What hosts do.
    pub hosts: Hosts,
    /// Drive of the fast tier, where there is one.
    pub fast: &'static str,
    /// Drive of the dense tier.
    pub dense: &'static str,
    /// Dense drives; [`SystemName::drives`] if nobody cares.
    pub drives: u32,
    /// What the engine's dense tier adds to its data.
    pub protect: Protect,
    /// Groups that the engine makes of each erase unit of a conventional drive.
    pub groups_per_unit: u32,
    /// md's parity in place: 0 always reconstructs, 1 reads less, 2 modifies if both read as much.
    pub rmw_level: u8,
    /// Blocks of the dense tier that are not exported, per cent, where the system decides that.
    pub over_provision: f64,
    /// Fast tier, per cent of what is exported.
    pub fast_tier: f64,
    /// Memory for the map, per cent of a table of four bytes a block; with 100 all of the map is there.
    pub map_cache: f64,
    /// How often all addresses are overwritten by the mix before time counts.
    pub passes: f64,
    /// Ranks of Zipf's law for each place: how many times smaller the system is than what it stands
    /// for.
    pub zipf_ranks: u32,
    /// Processors for the system's software: its work goes to whichever is free.
    pub cores: usize,
    /// Dense drives are smaller by this.
    pub scale: u32,
    /// Requests of the window at most, and half as many before it, [`REQUESTS_MIN`] of a mix at least; of a job file,
    /// requests of each group's window at most.
    pub requests: u64,
    /// Seed of all places.
    pub seed: u64,
}

impl RigRequest {
    /// How long it takes, roughly, in microseconds of one core: for progress, and for what is begun first.
    #[must_use]
    pub fn weight(&self) -> u64 {
        let blocks = (16_u64 << 30) / u64::from(self.scale) / self.hosts.bytes();
        let aged = (blocks as f64 * self.passes) as u64;
        // One of sixteen blocks takes the engine six times as long.
        let longer = self.hosts.bytes().div_ceil(BLOCK_BYTES) + 2;
        (aged + 2 * self.requests) * self.system.request_us() * longer / 3
    }
}
