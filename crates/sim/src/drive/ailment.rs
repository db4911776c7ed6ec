//! What a drive will not do any more, as long as it is in use: take writes, flush, read or write a range.
//!
//! **Not here**: drives that answer nothing ([`SimDrive::lose`](super::SimDrive::lose)).

use super::refusal::Sent;
use super::state::{Flaw, State, sectors};
use std::ops::Range;
use varve_io::IoError;
use varve_pool::label::RESERVED_BYTES;
use varve_units::{Nanos, SECTOR_BYTES};

/// A label that was written is flushed within this. Arbitrary: it is at once.
const LABEL_FLUSH_AFTER: Nanos = Nanos::from_millis(1);

/// What it will not do.
#[derive(Clone, Copy, Default)]
pub(super) struct Ailments {
    /// Take writes.
    pub(super) is_read_only: bool,
    /// Flush: the error it says, and whether it says so the next time only.
    pub(super) flush: Option<(IoError, bool)>,
    /// A flush has failed: what was written since the one before may all be lost with the power.
    pub(super) is_unflushed: bool,
    /// Until then a flush may be one of labels.
    pub(super) labels_until: Nanos,
}

impl State {
    /// A flush is sent now: its number, and the error it is bound to end with, if there is one.
    pub(super) fn begin_flush(&mut self, now: Nanos) -> (u64, Option<IoError>) {
        let id = self.next;
        self.next += 1;
        self.note_flush(now, id);
        let error = self.ailments.flush.map(|(error, is_single)| {
            if is_single {
                self.ailments.flush = None;
            }
            self.ailments.is_unflushed = true;
            self.count("flush_error");
            error
        });
        (id, error)
    }

    /// The error that a flush ends with because its tier refuses it.
    pub(super) fn refused_flush(&mut self, id: u64) -> Option<IoError> {
        let refusals = self.refusals.as_ref()?;
        let error = refusals.borrow_mut().take(self.index, id)?;
        self.ailments.is_unflushed = true;
        self.count("refused_flush");
        Some(error)
    }

    /// A flush was sent to it that may be one of all drives of its tier. Not of labels, which go to each drive by
    /// itself: what those promise follows from how many drives take them.
    fn note_flush(&self, at: Nanos, id: u64) {
        let Some(refusals) = &self.refusals else {
            return;
        };
        let behind = RESERVED_BYTES..RESERVED_BYTES + SECTOR_BYTES;
        let is_label = at < self.ailments.labels_until;
        if is_label || !self.atlas.borrow().may_refuse(self.index, &behind) {
            return;
        }
        refusals.borrow_mut().note_flush(Sent {
            drive: self.index,
            id,
            at,
            offset: 0,
            length: 0,
        });
    }

    /// Labels are written at this moment, or were, and may not have been flushed yet.
    pub(super) fn note_label(&mut self, offset: u64, now: Option<Nanos>) {
        if offset < RESERVED_BYTES {
            let until = now.map_or(Nanos(u64::MAX), |now| now + LABEL_FLUSH_AFTER);
            self.ailments.labels_until = until;
        }
    }

    /// A flush has ended well.
    pub(super) fn flushed(&mut self, mark: u64) {
        self.cache.destage(&mut self.platter, mark);
        self.ailments.is_unflushed = false;
    }

    /// True if a write to this range fails, however often it is tried.
    pub(super) fn is_refused(&self, range: &Range<u64>) -> bool {
        let mut flaws = self.flaws.range(sectors(range));
        flaws.any(|(_, flaw)| matches!(flaw, Flaw::Bad { refuses: true, .. }))
    }

    /// True if a read of this range fails.
    pub(super) fn is_unreadable(&mut self, range: &Range<u64>) -> bool {
        let (mut hits, mut again) = (false, false);
        for (_, flaw) in self.flaws.range(sectors(range)) {
            hits |= matches!(flaw, Flaw::Media | Flaw::Bad { .. });
            again |= matches!(
                flaw,
                Flaw::Bad {
                    is_rewritten: true,
                    ..
                }
            );
        }
        if hits {
            self.count("media_error_hit");
        }
        if again {
            self.count("bad_range_read");
        }
        hits
    }

    /// Notes a write to this range; true if there are flaws in it that outlive that.
    pub(super) fn mark_rewritten(&mut self, range: &Range<u64>) -> bool {
        let mut outlives = false;
        for (_, flaw) in self.flaws.range_mut(sectors(range)) {
            if let Flaw::Bad { is_rewritten, .. } = flaw {
                *is_rewritten = true;
                outlives = true;
            }
        }
        outlives
    }

    /// Ends the flaws of a range that do not outlive a write.
    pub(super) fn lift_around(&mut self, range: &Range<u64>) {
        let passing: Vec<u64> = self
            .flaws
            .range(sectors(range))
            .filter(|(_, flaw)| !matches!(flaw, Flaw::Bad { .. }))
            .map(|(&sector, _)| sector)
            .collect();
        for sector in passing {
            self.end_flaw(sector);
        }
    }

    /// Hides a sector, unless it is one that hides itself for good.
    pub(super) fn put_flaw(&mut self, sector: u64, flaw: Flaw) {
        let is_bad = matches!(self.flaws.get(&sector), Some(Flaw::Bad { .. }));
        if !is_bad {
            self.flaws.insert(sector, flaw);
        }
    }

    fn end_flaw(&mut self, sector: u64) {
        self.flaws.remove(&sector);
        let bytes = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
        self.atlas.borrow_mut().release(self.index, bytes);
    }
}
