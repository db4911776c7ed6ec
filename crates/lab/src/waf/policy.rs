//! What a placement policy decides.

use super::units::Units;

/// What a policy may look at.
pub(crate) struct View<'a> {
    /// State of the units.
    pub(crate) units: &'a Units,
    /// Blocks that hosts have written so far.
    pub(crate) now: u64,
}

/// A block on its way to the dense tier.
#[derive(Clone, Copy)]
pub(crate) struct Moving {
    /// Which one.
    pub(crate) block: u32,
    /// Whose it is.
    pub(crate) tenant: usize,
    /// Host writes since it was written last.
    pub(crate) age: u64,
    /// Host writes that pass on average before it is written again: only an oracle may look.
    pub(crate) interval: f64,
}

/// A placement policy.
pub(crate) trait Policy {
    /// How many streams it has.
    fn streams(&self) -> usize;

    /// Free units below or at which it empties another before it opens one for what hosts wrote.
    fn reserve(&self) -> usize;

    /// True if it tells the drive which units it has emptied.
    fn discards(&self) -> bool;

    /// Blocks of metadata for each block it writes to the dense tier.
    fn metadata_per_block(&self) -> f64 {
        0.0
    }

    /// A host wrote a block, `lifespan` host writes after the last time; `None` the first time.
    fn written(&mut self, _block: u32, _lifespan: Option<u64>) {}

    /// The stream of a block that reaches the dense tier for the first time since a host wrote it.
    fn stream_of_new(&mut self, moving: &Moving) -> usize;

    /// The stream of a live block of a victim of `from`.
    fn stream_of_moved(&mut self, moving: &Moving, from: usize) -> usize;

    /// A unit was filled.
    fn closed(&mut self, _unit: u32) {}

    /// The unit to empty next; closed ones only.
    fn victim(&mut self, view: &View<'_>) -> Option<u32>;
}
