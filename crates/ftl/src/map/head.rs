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
    /// Mapped entries of the effective base (0 if discarded), or a bound: those that the chain does
    /// not discard are not more.
    pub(super) mapped: u16,
    /// In the slice's list of leaves changed since the last cut.
    pub(super) changed: bool,
    base: BaseMarks,
}

/// What is known of a leaf's base.
#[derive(Clone, Copy, Debug)]
struct BaseMarks(u8);

const SWITCHED: u8 = 1;
const FULL: u8 = 2;
const BOUND: u8 = 4;

const _: () = assert!(size_of::<LeafHead>() == 32);

impl LeafHead {
    /// A leaf of which nothing was ever written.
    pub(super) const EMPTY: Self = Self {
        parent: Parent::NEVER,
        chain: Chain::EMPTY,
        image: NIL,
        mapped: 0,
        changed: false,
        base: BaseMarks(0),
    };

    /// True if the parent was switched since the last cut.
    pub(super) const fn is_switched(&self) -> bool {
        self.base.0 & SWITCHED != 0
    }

    pub(super) const fn set_switched(&mut self, switched: bool) {
        self.base.0 = self.base.0 & !SWITCHED | if switched { SWITCHED } else { 0 };
    }

    /// True if all entries of the effective base are known to be mapped. After a start nothing is
    /// known before the base is read or written again.
    pub(super) const fn is_full(&self) -> bool {
        self.base.0 & FULL != 0
    }

    pub(super) const fn set_full(&mut self, full: bool) {
        self.base.0 = self.base.0 & !FULL | if full { FULL } else { 0 };
    }

    /// True if `mapped` is an upper bound: a start switched the base, and nobody has seen it since.
    pub(super) const fn is_bound(&self) -> bool {
        self.base.0 & BOUND != 0
    }

    pub(super) const fn set_bound(&mut self, bound: bool) {
        self.base.0 = self.base.0 & !BOUND | if bound { BOUND } else { 0 };
    }

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
