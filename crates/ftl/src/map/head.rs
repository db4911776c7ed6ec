//! What the map keeps in memory of every leaf: 32 bytes.

use super::pool::{Chain, NIL};
use varve_format::Parent;
use varve_units::Lsn;

/// A leaf: its parent, its chain, its cached image.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafHead {
    /// Place of the base image.
    pub(super) parent: Parent,
    /// Changes since.
    pub(super) chain: Chain,
    /// Slot of the cached image, or `NIL`.
    pub(super) image: u32,
    /// Mapped entries of the effective base (0 if discarded), or an upper bound of them.
    pub(super) mapped: u16,
    /// In the slice's list of leaves changed since the last cut.
    pub(super) changed: bool,
    /// The parent was switched since the last cut.
    pub(super) switched: bool,
}

const _: () = assert!(size_of::<LeafHead>() == 32);

impl LeafHead {
    /// A leaf of which nothing was ever written.
    pub(super) const EMPTY: Self = Self {
        parent: Parent::NEVER,
        chain: Chain::EMPTY,
        image: NIL,
        mapped: 0,
        changed: false,
        switched: false,
    };

    /// Slot of the cached image.
    pub(super) fn image(&self) -> Option<u32> {
        (self.image != NIL).then_some(self.image)
    }

    /// True if neither an image on media nor a chain remains.
    pub(super) fn is_vacant(&self) -> bool {
        self.parent.sector().is_none() && self.chain.len == 0
    }

    /// Changes up to this LSN are in the base image.
    pub(super) fn through(&self) -> Lsn {
        self.parent.through()
    }
}
