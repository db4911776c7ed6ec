//! What stands between a storage system and a zoned drive: it keeps the rules of zones.
//!
//! Above it the zones are one run of addresses: what of a zone can never be written is left out.
//!
//! 1. Writes of a zone reach the drive in the order of their places: one that comes before those in
//!    front of it waits for them.
//! 2. The first write of a zone waits while as many zones are active as may be; zones are opened in
//!    the order in which their first writes came.
//! 3. To deallocate a zone is to reset it, unless it is empty. Writes wait until it is.
//! 4. What covers several zones is asked of each.
//!
//! **Not here**: whoever writes a place again, or resets a zone that is being written, without regard
//! for what it loses: that panics. Nothing is appended, nor finished: the systems above choose places
//! themselves, and write zones to their ends.

use super::system::pieces;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use varve_media::timed::{Ask, Request, ZoneAsk, ZoneCompletion, ZoneRequest, ZonedDrive};
use varve_media::zoned_sheet::ZonedSheet;
use varve_media::{Counters, ZoneState, Zones};
use varve_units::Nanos;

/// A zone as the host knows it. In bytes from its start.
#[derive(Default)]
struct Known {
    /// Where the next write goes that the drive is sent.
    sent: u64,
    /// How much of that has ended.
    ended: u64,
    /// Writes that wait: by place, whose and how long.
    held: BTreeMap<u64, (u64, u64)>,
    is_resetting: bool,
    /// It was written, and not to its end.
    is_active: bool,
    /// Its first write waits for its turn to be active.
    is_queued: bool,
}

/// A command that the drive is carrying out.
#[derive(Clone, Copy)]
struct Part {
    ask: ZoneAsk,
    zone: usize,
    length: u64,
    /// The request it is of.
    of: u64,
}

/// A zoned drive, and what waits before it.
pub(crate) struct ZonePort {
    drive: ZonedDrive,
    zones: Vec<Known>,
    /// Zones to be opened.
    queue: VecDeque<usize>,
    active: u32,
    active_most: u32,
    /// By number of the command; and numbers that are free.
    parts: Vec<Option<Part>>,
    free: Vec<usize>,
    /// Commands that a request waits for.
    left: BTreeMap<u64, u32>,
    ends: Vec<ZoneCompletion>,
}

impl ZonePort {
    /// A drive of a sheet whose zones are in this state.
    pub(crate) fn new(zones: Zones, sheet: &ZonedSheet) -> Self {
        let known = |zone: &varve_media::Zone| Known {
            sent: zone.written,
            ended: zone.written,
            is_active: zone.state.is_active(),
            ..Known::default()
        };
        Self {
            zones: zones.all().iter().map(known).collect(),
            queue: VecDeque::new(),
            active: zones.active_count(),
            active_most: zones.active_count(),
            parts: Vec::new(),
            free: Vec::new(),
            left: BTreeMap::new(),
            ends: Vec::new(),
            drive: ZonedDrive::new(zones, sheet),
        }
    }

    pub(crate) const fn counters(&self) -> &Counters {
        self.drive.counters()
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.drive.next()
    }

    /// The zones as the drive has them.
    #[cfg(test)]
    pub(crate) const fn zones(&self) -> &Zones {
        self.drive.zones()
    }

    /// Most zones that were active at once.
    pub(crate) const fn active_most(&self) -> u32 {
        self.active_most
    }

    /// Starts a command. Its number must not be that of one under way.
    ///
    /// # Panics
    /// If it writes a place again, or resets a part of a zone, or one that is being written.
    pub(crate) fn submit(&mut self, now: Nanos, request: Request) {
        let Request {
            id,
            ask,
            offset,
            length,
            ..
        } = request;
        let capacity = self.capacity();
        self.left.insert(id, 0);
        match ask {
            Ask::Flush => self.send(now, ZoneAsk::Flush, 0, 0..0, id),
            Ask::Read => {
                for (zone, from, length) in pieces(offset, length, capacity) {
                    self.send(now, ZoneAsk::Read, zone as usize, from..from + length, id);
                }
            }
            Ask::Write => {
                for (zone, from, length) in pieces(offset, length, capacity) {
                    self.hold(now, zone as usize, from..from + length, id);
                }
            }
            Ask::Deallocate => {
                for zone in whole(offset, length, capacity) {
                    self.reset(now, zone, id);
                }
                if self.left[&id] == 0 {
                    // Nothing is to be reset: what costs nothing ends it.
                    self.send(now, ZoneAsk::Flush, 0, 0..0, id);
                }
            }
        }
    }

    /// Lets everything happen that does until `now`; `done` gets the numbers of requests that ended.
    ///
    /// # Panics
    /// If the drive refuses a command: then a rule was not kept here.
    pub(crate) fn advance(&mut self, now: Nanos, done: &mut impl FnMut(u64, Nanos)) {
        let mut ends = std::mem::take(&mut self.ends);
        self.drive.advance(now, &mut |end| ends.push(end));
        for ZoneCompletion { id, at, result } in ends.drain(..) {
            let part = self.parts[id as usize].take();
            let part = part.expect("a command ends once");
            self.free.push(id as usize);
            if let Err(error) = result {
                panic!("{:?} of zone {}: {error}", part.ask, part.zone);
            }
            self.ended(now, part);
            let left = self.left.get_mut(&part.of);
            let left = left.expect("a request ends with its last command");
            *left -= 1;
            if *left == 0 {
                self.left.remove(&part.of);
                done(part.of, at);
            }
        }
        self.ends = ends;
    }

    fn capacity(&self) -> u64 {
        self.drive.zones().shape().capacity_bytes
    }

    fn send(&mut self, now: Nanos, ask: ZoneAsk, zone: usize, bytes: Range<u64>, of: u64) {
        let length = bytes.end - bytes.start;
        let part = Some(Part {
            ask,
            zone,
            length,
            of,
        });
        let id = self.free.pop().unwrap_or_else(|| {
            self.parts.push(None);
            self.parts.len() - 1
        });
        self.parts[id] = part;
        *self.left.entry(of).or_insert(0) += 1;
        let request = ZoneRequest {
            id: id as u64,
            ask,
            offset: self.drive.zones().start(zone as u32) + bytes.start,
            length,
        };
        self.drive.submit(now, request);
    }

    /// A write is to go to a zone.
    fn hold(&mut self, now: Nanos, zone: usize, bytes: Range<u64>, of: u64) {
        let known = &mut self.zones[zone];
        let length = bytes.end - bytes.start;
        assert!(
            bytes.start >= known.sent,
            "{bytes:?} of zone {zone} is written again; {} bytes were",
            known.sent
        );
        let before = known.held.insert(bytes.start, (of, length));
        assert!(
            before.is_none(),
            "{bytes:?} of zone {zone} is written twice"
        );
        // Counted as its command will be, so that a request does not end before.
        *self.left.entry(of).or_insert(0) += 1;
        self.pass(now, zone);
    }

    /// Sends what is next in a zone, and what follows that.
    fn pass(&mut self, now: Nanos, zone: usize) {
        loop {
            let active_max = self.drive.zones().shape().active_max;
            let known = &mut self.zones[zone];
            let from = known.sent;
            if known.is_resetting || !known.held.contains_key(&from) {
                return;
            }
            if !known.is_active {
                if self.active == active_max {
                    if !std::mem::replace(&mut known.is_queued, true) {
                        self.queue.push_back(zone);
                    }
                    return;
                }
                known.is_active = true;
                self.active += 1;
                self.active_most = self.active_most.max(self.active);
            }
            let (of, length) = known.held.remove(&from).expect("it is there");
            known.sent += length;
            self.send(now, ZoneAsk::Write, zone, from..from + length, of);
            *self.left.get_mut(&of).expect("it waits") -= 1;
        }
    }

    fn reset(&mut self, now: Nanos, zone: usize, of: u64) {
        let known = &mut self.zones[zone];
        assert!(
            known.sent == known.ended && known.held.is_empty() && !known.is_resetting,
            "zone {zone} is reset while it is written"
        );
        if known.sent == 0 {
            return;
        }
        (known.sent, known.ended, known.is_resetting) = (0, 0, true);
        self.send(now, ZoneAsk::Reset, zone, 0..0, of);
    }

    /// The drive has carried a command out.
    fn ended(&mut self, now: Nanos, part: Part) {
        let capacity = self.capacity();
        let known = &mut self.zones[part.zone];
        let is_free = match part.ask {
            ZoneAsk::Write => {
                known.ended += part.length;
                known.ended == capacity
            }
            ZoneAsk::Reset => {
                known.is_resetting = false;
                true
            }
            _ => return,
        };
        if is_free && std::mem::take(&mut known.is_active) {
            self.active -= 1;
        }
        self.pass(now, part.zone);
        let active_max = self.drive.zones().shape().active_max;
        while self.active < active_max
            && let Some(zone) = self.queue.pop_front()
        {
            self.zones[zone].is_queued = false;
            self.pass(now, zone);
        }
    }
}

/// The same without time: what is asked of zones while a system is brought into its state.
///
/// # Panics
/// If a rule is not kept: nothing can wait.
pub(crate) fn age(zones: &mut Zones, ask: Ask, offset: u64, length: u64) {
    let capacity = zones.shape().capacity_bytes;
    match ask {
        Ask::Read | Ask::Flush => {}
        Ask::Write => {
            for (zone, from, length) in pieces(offset, length, capacity) {
                let start = zones.start(zone as u32);
                if let Err(error) = zones.write(start + from, length) {
                    panic!("{from}+{length} of zone {zone}: {error}");
                }
            }
        }
        Ask::Deallocate => {
            for zone in whole(offset, length, capacity) {
                if zones.all()[zone].state != ZoneState::Empty {
                    let start = zones.start(zone as u32);
                    zones.reset(start).expect("zones start there");
                }
            }
        }
    }
}

/// The zones of a range.
///
/// # Panics
/// If it has a part of one.
fn whole(offset: u64, length: u64, capacity: u64) -> Range<usize> {
    assert!(
        offset.is_multiple_of(capacity) && length.is_multiple_of(capacity),
        "{offset}+{length} is no whole number of zones of {capacity} bytes"
    );
    (offset / capacity) as usize..((offset + length) / capacity) as usize
}
