//! What is to be measured.

use super::mix::Mix;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

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
    /// A write-back cache before the dense drive, as Open-CAS Linux is.
    OpenCas,
    /// The Linux target dm-zoned, with the fast drive as its cache.
    DmZoned,
    /// The engine.
    Varve,
}

impl SystemName {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::HddArray,
        Self::DropIn,
        Self::CsalPaper,
        Self::CsalToday,
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
            Self::OpenCas => "open-cas",
            Self::DmZoned => "dm-zoned",
            Self::Varve => "varve",
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

/// What is to be measured.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct RigRequest {
    /// The system.
    pub system: SystemName,
    /// What hosts do.
    pub mix: Mix,
    /// Drive of the fast tier, where there is one.
    pub fast: &'static str,
    /// Drive of the dense tier.
    pub dense: &'static str,
    /// Blocks of the dense tier that are not exported, per cent, where the system decides that.
    pub over_provision: f64,
    /// Fast tier, per cent of what is exported.
    pub fast_tier: f64,
    /// Pages of the map that a model keeps in memory, per cent.
    pub map_cache: f64,
    /// How often all addresses are overwritten by the mix before time counts.
    pub passes: f64,
    /// Processors for the system's software.
    pub cores: usize,
    /// Dense drives are smaller by this.
    pub scale: u32,
    /// Seed of all places.
    pub seed: u64,
}
