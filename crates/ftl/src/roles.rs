//! Which reactor does what.
//!
//! 1. One alone does everything.
//! 2. Of several the last ones, half of them, *own* the slices of the map. Commands of hosts are carried
//!    out by the owner of their leaf, so that is where connections belong: what comes in elsewhere crosses.
//! 3. The others *place*: they empty the owners' chunks into groups. The first of them also has control and
//!    garbage collection. What crosses for that goes by victims and stripes, hundreds of blocks at a time.
//!
//! Moving what was written costs about as much as taking it in. Were slices dealt to all reactors, half of all
//! commands would cross with their payload, and cleaning would still be on some of them
//! (ADR reactors, 15).

use crate::config::Config;
use crate::shared::Shared;
use varve_io::ReactorId;
use varve_units::SliceId;

/// Of `lanes` reactors those that own slices.
#[must_use]
pub const fn owners(lanes: u16) -> u16 {
    if lanes < 2 { lanes } else { lanes / 2 }
}

impl Config {
    /// Reactors that own slices.
    #[must_use]
    pub const fn owners(&self) -> u16 {
        owners(self.lanes)
    }

    /// The first reactor that owns slices; those after it do too.
    #[must_use]
    pub const fn first_owner(&self) -> ReactorId {
        ReactorId(self.lanes - self.owners())
    }

    /// The reactors that own slices.
    pub fn owning(&self) -> impl Iterator<Item = ReactorId> + use<> {
        (self.first_owner().0..self.lanes).map(ReactorId)
    }

    /// The reactor that owns a slice: slices are dealt to owners in turn.
    #[must_use]
    pub const fn owner_of(&self, slice: SliceId) -> ReactorId {
        ReactorId(self.first_owner().0 + slice.0 % self.owners())
    }
}

impl Shared {
    /// Reactors that may have streams, the first ones: as many as there are groups for beyond the reserve
    /// and what hosts may fill.
    pub(crate) fn streaming(&self) -> u16 {
        let lanes = u32::from(self.config.lanes);
        (1 + self.spare_groups() / self.config.reserve.tenant_streams).min(lanes) as u16
    }

    /// Reactors that empty chunks into groups, the first ones.
    pub(crate) fn placers(&self) -> u16 {
        self.streaming().min(self.config.first_owner().0.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reactor_has_something_to_do() {
        for lanes in 1..=64 {
            let owners = owners(lanes);
            assert!(owners >= 1 && owners <= lanes);
            assert!(lanes == 1 || owners < lanes);
        }
    }
}
