//! All planted bugs under one name: those of the engine, and those between hosts and the pool.

use crate::stress::Stress;
use crate::wire::WireCanary;

/// A planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// In the engine, the mirror or the pool.
    Pool(varve_ftl::Canary),
    /// In the target, the server or the initiator.
    Wire(WireCanary),
}

impl Canary {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let pool = varve_ftl::Canary::ALL.into_iter().map(Self::Pool);
        pool.chain(WireCanary::ALL.into_iter().map(Self::Wire))
    }

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pool(canary) => canary.name(),
            Self::Wire(canary) => canary.name(),
        }
    }

    /// What has to be pressed on for it to show, if that is nothing that seeds draw.
    #[must_use]
    pub const fn stress(self) -> Option<Stress> {
        match self {
            Self::Pool(varve_ftl::Canary::RepairUnpinned) => Some(Stress::LateRepairs),
            Self::Pool(_) | Self::Wire(_) => None,
        }
    }

    /// What is wrong with it, in words.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Pool(canary) => canary.about(),
            Self::Wire(canary) => canary.about(),
        }
    }
}
