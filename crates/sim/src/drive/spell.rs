//! Times in which a drive is slow.

use varve_units::Nanos;

/// A time in which commands take longer; it counts once a command met it.
#[derive(Clone, Copy, Default)]
pub(super) struct Spell {
    until: Nanos,
    has_struck: bool,
}

/// All kinds of them.
#[derive(Clone, Copy, Default)]
pub(super) struct Spells {
    /// Everything.
    pub(super) slow: Spell,
    /// Some reads.
    pub(super) slow_reads: Spell,
    /// A read now and then, which hangs.
    pub(super) hung_reads: Spell,
    /// Many reads of leaves, which hang.
    pub(super) hung_leaves: Spell,
}

impl Spell {
    pub(super) const fn begin(&mut self, until: Nanos) {
        *self = Self {
            until,
            has_struck: false,
        };
    }

    pub(super) fn is_on(&self, now: Nanos) -> bool {
        now < self.until
    }

    /// A command takes longer by it: its name if this is the first one.
    pub(super) const fn strikes(&mut self, name: &'static str) -> Option<&'static str> {
        if core::mem::replace(&mut self.has_struck, true) {
            return None;
        }
        Some(name)
    }
}
