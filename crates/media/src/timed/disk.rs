//! A disk in time.
//!
//! The head takes of all that waits what it reaches first: seek, then the wait until the place comes
//! by. Writes end when the cache takes them. What follows the last transfer costs nothing but its
//! own time. All tracks are alike.
//!
//! **Not here**: losing the cache with the power; flushing costs nothing.

use super::rate::{NANO, Picos};
use super::{Ask, Request};
use crate::any_sheet::DiskSheet;
use crate::counters::Counters;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use varve_units::Nanos;

/// Parts of the whole stroke in which distances are counted; the square root is exact to 2^-20.
const STROKE_BITS: u32 = 40;

/// A disk.
pub struct DiskDrive {
    bytes: u64,
    seek_least: Picos,
    seek_more: Picos,
    rotation: Picos,
    overhead: Picos,
    bytes_per_s: u64,
    cache_writes: usize,
    /// What the head may do next.
    waiting: Vec<Request>,
    cached: usize,
    /// Writes for which the cache has no room.
    held: VecDeque<Request>,
    /// What the head does, and when it has done it.
    busy: Option<(Picos, Request)>,
    /// Where the head is: behind the last transfer.
    head: u64,
    /// Commands that have ended and are not told yet.
    ended: VecDeque<(Picos, u64)>,
    counters: Counters,
}

impl DiskDrive {
    /// The disk of a sheet.
    #[must_use]
    pub fn new(sheet: &DiskSheet) -> Self {
        let disk = &sheet.disk;
        Self {
            bytes: sheet.capacity.user_bytes.value,
            seek_least: disk.seek_least_ns.value * NANO,
            seek_more: disk.seek_more_ns.value * NANO,
            rotation: disk.rotation_ns.value * NANO,
            overhead: disk.overhead_ns.value * NANO,
            bytes_per_s: disk.bytes_per_s.value,
            cache_writes: disk.cache_writes.value as usize,
            waiting: Vec::new(),
            cached: 0,
            held: VecDeque::new(),
            busy: None,
            head: 0,
            ended: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// What it has done.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// When something happens next.
    #[must_use]
    pub fn next(&self) -> Option<Nanos> {
        let ended = self.ended.front().map(|(at, _)| *at);
        let busy = self.busy.map(|(at, _)| at);
        let at = ended.into_iter().chain(busy).min()?;
        Some(Nanos(at.div_ceil(NANO)))
    }

    /// Submits a command.
    ///
    /// # Panics
    /// If its range is not the disk's.
    pub fn submit(&mut self, now: Nanos, request: Request) {
        let end = request.offset.checked_add(request.length);
        assert!(end.is_some_and(|end| end <= self.bytes), "{request:?}");
        let now = now.0 * NANO;
        match request.ask {
            Ask::Read => self.waiting.push(request),
            Ask::Write => {
                self.counters.host_bytes += request.length;
                self.held.push_back(request);
                self.admit(now);
            }
            Ask::Deallocate | Ask::Flush => self.ended.push_back((now, request.id)),
        }
        self.begin(now);
    }

    /// Lets everything happen that does until `now`; `done` gets the numbers of commands that ended,
    /// with the time they did.
    pub fn advance(&mut self, now: Nanos, done: &mut impl FnMut(u64, Nanos)) {
        let until = now.0 * NANO;
        loop {
            while let Some((at, id)) = self.ended.pop_front() {
                done(id, Nanos(at.div_ceil(NANO)));
            }
            let Some((at, request)) = self.busy.filter(|(at, _)| *at <= until) else {
                return;
            };
            self.busy = None;
            if request.ask == Ask::Read {
                self.ended.push_back((at, request.id));
            } else {
                self.counters.media_bytes += request.length;
                self.cached -= 1;
                self.admit(at);
            }
            self.begin(at);
        }
    }

    /// Takes writes into the cache while there is room; they have then ended.
    fn admit(&mut self, now: Picos) {
        while self.cached < self.cache_writes {
            let Some(request) = self.held.pop_front() else {
                return;
            };
            self.cached += 1;
            self.waiting.push(request);
            self.ended.push_back((now, request.id));
        }
    }

    /// The head begins what it reaches first.
    fn begin(&mut self, now: Picos) {
        if self.busy.is_some() {
            return;
        }
        let reach = |at: &usize| (self.reach(now, self.waiting[*at].offset), *at);
        let Some(first) = (0..self.waiting.len()).min_by_key(reach) else {
            return;
        };
        let request = self.waiting.swap_remove(first);
        let span = u128::from(request.length) * 1_000_000_000_000 / u128::from(self.bytes_per_s);
        let at = now + self.reach(now, request.offset) + span as Picos;
        self.head = request.offset + request.length;
        self.busy = Some((at, request));
    }

    /// How long it takes until the head is above a place.
    fn reach(&self, now: Picos, offset: u64) -> Picos {
        if offset == self.head {
            return 0;
        }
        let distance = u128::from(offset.abs_diff(self.head)) << STROKE_BITS;
        let distance = (distance / u128::from(self.bytes)) as u64;
        let root = u128::from(distance.isqrt());
        let more = (u128::from(self.seek_more) * root) >> (STROKE_BITS / 2);
        let seek = self.overhead + self.seek_least + more as Picos;
        // Where on its track a place lies, as the time in which it comes by.
        let track = u128::from(offset) * 1_000_000_000_000 / u128::from(self.bytes_per_s);
        let phase = (track % u128::from(self.rotation)) as Picos;
        let there = (now + seek) % self.rotation;
        seek + (phase + self.rotation - there) % self.rotation
    }
}
