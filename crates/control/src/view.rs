//! What front ends show: plain data, sizes in bytes.

use crate::finding::Finding;
use crate::model::ModelView;
use crate::scrub::ScrubView;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How something fares, in one word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// All is as it should be.
    Ok,
    /// Nobody uses it, and nothing wrong is known.
    Closed,
    /// It serves, with less redundancy than it should have, or a drive that the others cannot do without does not answer.
    Degraded,
    /// It serves, and since its start blocks were found that no drive can give back, or that start found a part of
    /// the log lost.
    Damaged,
    /// It cannot serve, hosts' writes wait for a dense tier that takes none, or it was to be opened and was not.
    Faulted,
}

impl Health {
    /// The word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Closed => "closed",
            Self::Degraded => "degraded",
            Self::Damaged => "damaged",
            Self::Faulted => "faulted",
        }
    }
}

/// Faults of a drive since its pool was opened, or since it took its place there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct FaultsView {
    /// Reads that it answered with an error.
    pub read_errors: u64,
    /// Writes and flushes that it answered with an error.
    pub write_errors: u64,
    /// Parts of it that could not be read or did not pass their check, and were written again.
    pub repairs: u64,
}

/// One drive of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DriveView {
    /// The pool.
    pub pool: String,
    /// Its place, `fast0` say.
    pub drive: String,
    /// Where it is, if it is here.
    pub path: Option<PathBuf>,
    /// The drive that takes its place, or is filled in it, as long as that has not ended.
    #[serde(default)]
    pub replaced_by: Option<PathBuf>,
    /// `live`, `rebuilding`, `leaving` (its loss is being committed), `lost`; of a pool that is not
    /// open also `missing` and `truncated`.
    pub state: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes copied to it, while it is rebuilt.
    pub rebuilt_bytes: Option<u64>,
    /// Bytes to be copied to it, while it is rebuilt.
    pub rebuild_bytes: Option<u64>,
    /// What it did badly, if its pool is open.
    #[serde(default)]
    pub faults: Option<FaultsView>,
    /// What the flash beneath it would have done, if it has a model and is open.
    pub model: Option<ModelView>,
}

/// One pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PoolView {
    /// Its name.
    pub pool: String,
    /// Its identity, 32 hexadecimal digits.
    pub id: String,
    /// How it fares.
    pub health: Health,
    /// True if whoever answers has it open.
    pub is_open: bool,
    /// `none`, `mirror` or `K+1`; of the dense tier.
    pub protect: String,
    /// Fast drives that hold the same.
    pub fast_copies: u64,
    /// Bytes of all drives.
    pub raw_bytes: u64,
    /// Bytes that all volumes together may hold, if its labels can be read.
    pub capacity_bytes: Option<u64>,
    /// Bytes that all volumes together take, at most, if it is open.
    pub used_bytes: Option<u64>,
    /// Bytes that the loss of one more drive could take, at most, if it is open.
    pub unprotected_bytes: Option<u64>,
    /// Leaves of the map: parts of 2 MiB of volumes in which something is written, if it is open.
    #[serde(default)]
    pub leaves: Option<u64>,
    /// Leaves that there may be, if its labels can be read.
    #[serde(default)]
    pub leaves_max: Option<u64>,
    /// True while the dense tier refuses what is to be written to it, if it is open.
    #[serde(default)]
    pub dense_away: Option<bool>,
    /// Volumes, if it is open.
    pub volumes: Option<u64>,
    /// Why the engine stopped by itself, if it did.
    pub stopped: Option<String>,
    /// What the engine counted since the pool was opened, by name; in blocks of 4096 B where the name
    /// says blocks.
    pub counters: BTreeMap<String, u64>,
    /// Jobs at work on it.
    pub jobs: Vec<u64>,
    /// What the last scrub since it was opened found and did.
    #[serde(default)]
    pub scrub: Option<ScrubView>,
    /// Its drives.
    pub drives: Vec<DriveView>,
    /// Whatever is worth knowing.
    pub findings: Vec<Finding>,
}

impl PoolView {
    /// True if nobody has to look after it: it serves or could, every drive is live, and nothing was found.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let is_live = |drive: &DriveView| drive.state == "live";
        matches!(self.health, Health::Ok | Health::Closed)
            && self.drives.iter().all(is_live)
            && self.findings.is_empty()
    }
}

/// One volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VolumeView {
    /// Its pool.
    pub pool: String,
    /// Its name.
    pub volume: String,
    /// Its number in the pool; never used again.
    pub id: u64,
    /// The namespace number under which hosts see it, if a daemon shows it to them.
    #[serde(default)]
    pub nsid: Option<u32>,
    /// As hosts see it.
    pub uuid: String,
    /// As hosts see it, 32 hexadecimal digits.
    pub nguid: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Its tenant.
    pub tenant: u32,
    /// Bytes it takes, at most: what was overwritten lately may count twice.
    pub used_bytes: u64,
    /// Of these, bytes that the loss of one more drive could take, at most.
    pub unprotected_bytes: u64,
    /// Whatever is worth knowing of it where it was just made or changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// A pool that was made or would be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlanView {
    /// Its name.
    pub pool: String,
    /// True if it was made; false if it would be.
    pub is_made: bool,
    /// `none`, `mirror` or `K+1`; of the dense tier.
    pub protect: String,
    /// Fast drives that hold the same.
    pub fast_copies: u64,
    /// Bytes of the fast tier.
    pub fast_bytes: u64,
    /// Bytes of the dense tier's data blocks.
    pub dense_bytes: u64,
    /// Bytes that all volumes together may hold.
    pub capacity_bytes: u64,
    /// Share of the dense tier that is kept back, per cent.
    pub over_provision: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Bytes of a zone group's data blocks.
    pub group_bytes: u64,
    /// Sparse files that were made or would be.
    pub files_made: u64,
    /// Whatever is worth knowing.
    pub findings: Vec<Finding>,
}
