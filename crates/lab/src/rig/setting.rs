//! Which settings of a request change anything of a system, and a request told without the others.

use super::request::{RigRequest, SystemName};
use crate::comparators::DISKS;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// Something that some systems have and others have not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    /// A choice of the dense drive.
    Dense,
    /// A fast drive, and a share of it.
    Fast,
    /// Blocks of the dense tier that it does not export.
    OverProvision,
    /// A map of which a part may be in memory.
    MapCache,
    /// Software whose processors are charged.
    Cores,
    /// Parity of its own above its drives.
    Protect,
    /// Groups that may share an erase unit.
    GroupsPerUnit,
    /// md's choice of how parity in place is made.
    RmwLevel,
}

impl SystemName {
    /// True if the setting changes something.
    #[must_use]
    pub const fn has(self, setting: Setting) -> bool {
        let is_csal = matches!(self, Self::CsalPaper | Self::CsalToday);
        let is_engine = matches!(self, Self::Varve);
        match setting {
            Setting::Dense => !matches!(self, Self::HddArray),
            Setting::Fast => is_csal || is_engine || matches!(self, Self::OpenCas | Self::DmZoned),
            Setting::OverProvision | Setting::MapCache => is_csal || is_engine,
            // Today's has one thread, whatever it is given.
            Setting::Cores => is_engine || matches!(self, Self::CsalPaper),
            Setting::Protect | Setting::GroupsPerUnit => is_engine,
            Setting::RmwLevel => matches!(self, Self::Raid5 | Self::Raid6),
        }
    }
}

/// What changes nothing is left out; a disk array is told with its own drive.
impl Serialize for RigRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has = |setting| self.system.has(setting);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("system", &self.system)?;
        map.serialize_entry("hosts", &self.hosts)?;
        if has(Setting::Fast) {
            map.serialize_entry("fast", self.fast)?;
            map.serialize_entry("fast_tier", &self.fast_tier)?;
        }
        let dense = if has(Setting::Dense) {
            self.dense
        } else {
            DISKS.drive
        };
        map.serialize_entry("dense", dense)?;
        map.serialize_entry("drives", &self.drives)?;
        if has(Setting::Protect) {
            map.serialize_entry("protect", &self.protect)?;
        }
        if has(Setting::GroupsPerUnit) {
            map.serialize_entry("groups_per_unit", &self.groups_per_unit)?;
        }
        if has(Setting::RmwLevel) {
            map.serialize_entry("rmw_level", &self.rmw_level)?;
        }
        if has(Setting::OverProvision) {
            map.serialize_entry("over_provision", &self.over_provision)?;
        }
        if has(Setting::MapCache) {
            map.serialize_entry("map_cache", &self.map_cache)?;
        }
        if has(Setting::Cores) {
            map.serialize_entry("cores", &self.cores)?;
        }
        map.serialize_entry("passes", &self.passes)?;
        map.serialize_entry("zipf_ranks", &self.zipf_ranks)?;
        map.serialize_entry("scale", &self.scale)?;
        map.serialize_entry("requests", &self.requests)?;
        map.serialize_entry("seed", &self.seed)?;
        map.end()
    }
}
