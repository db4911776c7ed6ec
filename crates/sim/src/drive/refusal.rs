//! Writes that a tier stores and refuses: its drives have all or part of one, and say that it came to
//! nothing.
//!
//! 1. An error is armed for the tier.
//! 2. The next write that all drives of the tier are sent at once, each to the same place, is struck: of the
//!    drives as many as redundancy cannot make up for refuse it, each with what it stored of it.
//! 3. Now and then the next write to the place is lost on one drive, silently: what was stored before shows
//!    through there.
//!
//! A flush that all drives of the tier are sent at once is struck likewise, on all of them.
//!
//! **Invariants**: what one drive alone is sent (a repair, a copy for a rebuild, a label and its flush) is never struck,
//! nor is anything while a drive of the tier is lost: those that refuse would be too few for the tier to refuse it, and
//! be lost for it, which the atlas would not know.
//!
//! **Not here**: one drive that refuses what its peers take ([`WriteFault`](super::WriteFault)).

use crate::atlas::Tier;
use crate::rng::Rng;
use crate::shortage::Shortage;
use std::collections::BTreeMap;
use std::rc::Rc;
use varve_io::IoError;
use varve_units::Nanos;

/// A write, or a flush (without a place), as one drive of the tier was sent it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    pub(super) drive: usize,
    /// Its number there.
    pub(super) id: u64,
    pub(super) at: Nanos,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl Sent {
    /// True if both are parts of one write of the tier.
    fn is_beside(&self, other: &Self) -> bool {
        let place = |sent: &Self| (sent.at, sent.offset, sent.length);
        place(self) == place(other) && self.drive != other.drive
    }
}

/// The writes that a tier refuses.
pub struct Refusals {
    drives: usize,
    /// Drives that must refuse a write for the tier to refuse it.
    refusers_min: usize,
    rng: Rng,
    /// Room beneath the tier: a refusal keeps the pool from noticing that there is some again.
    shortage: Rc<Shortage>,
    armed: Option<IoError>,
    /// Parts of the newest write of the tier.
    parts: Vec<Sent>,
    /// What becomes of writes and flushes in flight, by drive and number.
    struck: BTreeMap<(usize, u64), IoError>,
    /// The drive that loses the next write to an offset.
    loses: Option<(usize, u64)>,
    /// The next flush of the tier ends so.
    armed_flush: Option<IoError>,
    /// Parts of the newest flush of the tier.
    flush_parts: Vec<Sent>,
}

impl Refusals {
    /// A tier that refuses nothing yet.
    #[must_use]
    pub fn new(tier: &Tier, rng: Rng, shortage: Rc<Shortage>) -> Self {
        Self {
            drives: tier.extents.len(),
            refusers_min: tier.scheme.refusers_min(tier.extents.len()),
            rng,
            shortage,
            armed: None,
            parts: Vec::new(),
            struck: BTreeMap::new(),
            loses: None,
            armed_flush: None,
            flush_parts: Vec::new(),
        }
    }

    /// The next write of the tier that may be struck ends with this error.
    pub(super) fn arm(&mut self, error: IoError) {
        self.armed = Some(error);
    }

    /// The next flush of the tier ends with this error on all of its drives.
    pub(super) fn arm_flush(&mut self, error: IoError) {
        self.armed_flush = Some(error);
    }

    /// A drive was sent a flush that may be one of the tier. Those of all drives at one moment are, and only
    /// once it has reached the last of them is it known to be one: any fewer would be lost for failing it.
    pub(super) fn note_flush(&mut self, sent: Sent) {
        let Some(error) = self.armed_flush else {
            return;
        };
        if !self.flush_parts.iter().all(|part| part.is_beside(&sent)) {
            self.flush_parts.clear();
        }
        self.flush_parts.push(sent);
        if self.flush_parts.len() < self.drives {
            return;
        }
        let parts = self.flush_parts.drain(..);
        let struck = parts.map(|part| ((part.drive, part.id), error));
        self.struck.extend(struck);
        self.armed_flush = None;
        self.shortage.prolong(sent.at);
    }

    pub(super) const fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    pub(super) fn disarm(&mut self) {
        self.armed = None;
        self.armed_flush = None;
        self.forget_loss();
    }

    /// The power failed: nothing is in flight.
    pub(super) fn forget(&mut self) {
        self.parts.clear();
        self.struck.clear();
        self.armed_flush = None;
        self.flush_parts.clear();
    }

    /// A drive was sent a write. True if that was the last part of a write that the tier will refuse.
    pub(super) fn note(&mut self, sent: Sent) -> bool {
        let Some(error) = self.armed else {
            return false;
        };
        if !self.parts.iter().all(|part| part.is_beside(&sent)) {
            self.parts.clear();
        }
        self.parts.push(sent);
        if self.parts.len() < self.drives {
            return false;
        }
        let mut parts = std::mem::take(&mut self.parts);
        let spared = self.rng.index(self.drives - self.refusers_min + 1);
        for _ in 0..spared {
            let index = self.rng.index(parts.len());
            parts.swap_remove(index);
        }
        for part in &parts {
            self.struck.insert((part.drive, part.id), error);
        }
        if self.rng.chance(1, 2) {
            let loser = self.rng.index(parts.len());
            self.loses = Some((parts[loser].drive, sent.offset));
        }
        self.armed = None;
        self.shortage.prolong(sent.at);
        true
    }

    /// How a write or a flush of a drive ends, if it is refused.
    pub(super) fn take(&mut self, drive: usize, id: u64) -> Option<IoError> {
        self.struck.remove(&(drive, id))
    }

    /// True if the next write of a drive to this offset is one to be lost.
    pub(super) fn is_to_be_lost(&self, drive: usize, offset: u64) -> bool {
        self.loses == Some((drive, offset))
    }

    /// The write that was to be lost was, or must not be any more.
    pub(super) const fn forget_loss(&mut self) {
        self.loses = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atlas::{Extent, Scheme};

    fn refusals(seed: u64, scheme: Scheme, drives: usize) -> Refusals {
        let extent = |drive| Extent {
            drive,
            base: 0,
            bytes: 1 << 20,
        };
        let extents = (0..drives).map(extent).collect();
        Refusals::new(&Tier { scheme, extents }, Rng::new(seed), Rc::default())
    }

    fn sent(drive: usize, at: u64, offset: u64) -> Sent {
        Sent {
            drive,
            id: 7,
            at: Nanos(at),
            offset,
            length: 4096,
        }
    }

    /// Drives that refuse a write of the whole tier.
    fn refusers(seed: u64, scheme: Scheme, drives: usize) -> usize {
        let mut refusals = refusals(seed, scheme, drives);
        refusals.arm(IoError::Timeout);
        let last = drives - 1;
        assert!((0..last).all(|drive| !refusals.note(sent(drive, 5, 0))));
        assert!(refusals.note(sent(last, 5, 0)));
        let refuses = |drive: &usize| refusals.take(*drive, 7) == Some(IoError::Timeout);
        (0..drives).filter(refuses).count()
    }

    /// As many refuse a write as the tier cannot make up for, and in a tier with parity up to all of them.
    #[test]
    fn a_tier_refuses_together() {
        let parity = Scheme::Parity { strip_bytes: 4096 };
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..50 {
            assert_eq!(refusers(seed, Scheme::Single, 1), 1);
            assert_eq!(refusers(seed, Scheme::Mirror, 2), 2);
            seen.insert(refusers(seed, parity, 4));
        }
        assert_eq!(Vec::from_iter(seen), [2, 3, 4]);
    }

    /// A flush fails on all drives of the tier or on none: not where one of them was not sent it, or at another moment.
    #[test]
    fn a_tier_fails_to_flush_together() {
        let mut refusals = refusals(1, Scheme::Mirror, 2);
        let flush = |drive, at| Sent {
            length: 0,
            ..sent(drive, at, 0)
        };
        refusals.arm_flush(IoError::Media);
        refusals.note_flush(flush(0, 5));
        refusals.note_flush(flush(0, 6));
        refusals.note_flush(flush(1, 7));
        assert!((0..2).all(|drive| refusals.take(drive, 7).is_none()));
        refusals.note_flush(flush(0, 7));
        let fails = |drive| refusals.take(drive, 7) == Some(IoError::Media);
        assert!((0..2).all(fails));
        refusals.note_flush(flush(0, 8));
        refusals.note_flush(flush(1, 8));
        assert_eq!(refusals.take(0, 7), None, "the next one ends well");
    }

    /// What one drive is sent alone is taken, and so is everything once one write was refused.
    #[test]
    fn one_drive_alone_refuses_nothing() {
        let mut refusals = refusals(1, Scheme::Mirror, 2);
        refusals.arm(IoError::Media);
        assert!(!refusals.note(sent(0, 5, 0)));
        assert!(!refusals.note(sent(0, 5, 0)), "the same drive");
        assert!(!refusals.note(sent(1, 6, 0)), "later");
        assert!(!refusals.note(sent(0, 6, 4096)), "elsewhere");
        assert!(refusals.note(sent(1, 6, 4096)));
        refusals.forget();
        assert_eq!(refusals.take(0, 7), None);
        assert!(!refusals.note(sent(0, 7, 0)) && !refusals.note(sent(1, 7, 0)));
    }
}
