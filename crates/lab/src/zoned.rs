//! A zoned drive under the load of a measure.
//!
//! What is written goes to one zone after the other. A zone that is full is reset when its turn comes,
//! and the commands that follow wait until it is: what resets cost is part of what is measured.

use std::collections::VecDeque;
use varve_media::timed::{Ask, Request, ZoneAsk, ZoneCompletion, ZoneRequest, ZonedDrive};
use varve_media::zoned_sheet::ZonedSheet;
use varve_media::{ZoneShape, ZoneShapeError, ZoneState, Zones};
use varve_units::Nanos;

/// Number of a reset; the load numbers its commands from 0.
const RESET: u64 = u64::MAX;

/// A zoned drive, and what waits for a reset.
pub(crate) struct ZonedLoad {
    pub(crate) drive: ZonedDrive,
    /// Writes are appends.
    has_appends: bool,
    /// Commands behind the reset that is under way.
    waiting: VecDeque<ZoneRequest>,
    is_resetting: bool,
    ends: Vec<ZoneCompletion>,
}

impl ZonedLoad {
    /// The drive of a sheet at its real size, all zones full.
    ///
    /// # Errors
    /// If the sheet describes no possible drive.
    pub(crate) fn new(sheet: &ZonedSheet, has_appends: bool) -> Result<Self, ZoneShapeError> {
        let zones = Zones::written(Self::shape(sheet)?);
        Ok(Self {
            drive: ZonedDrive::new(zones, sheet),
            has_appends,
            waiting: VecDeque::new(),
            is_resetting: false,
            ends: Vec::new(),
        })
    }

    /// What the drive of a sheet is.
    ///
    /// # Errors
    /// If the sheet describes no possible drive.
    pub(crate) fn shape(sheet: &ZonedSheet) -> Result<ZoneShape, ZoneShapeError> {
        ZoneShape::scaled(sheet, sheet.capacity.user_bytes.value)
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.drive.next()
    }

    pub(crate) fn submit(&mut self, now: Nanos, request: Request) {
        let Request {
            id, offset, length, ..
        } = request;
        let ask = match request.ask {
            Ask::Read => ZoneAsk::Read,
            Ask::Write if self.has_appends => ZoneAsk::Append,
            Ask::Write => ZoneAsk::Write,
            Ask::Flush | Ask::Deallocate => ZoneAsk::Flush,
        };
        self.waiting.push_back(ZoneRequest {
            id,
            ask,
            offset,
            length,
        });
        self.pass(now);
    }

    /// Submits what waits, up to the next zone that has to be reset first.
    fn pass(&mut self, now: Nanos) {
        while !self.is_resetting
            && let Some(request) = self.waiting.front().copied()
        {
            let zones = self.drive.zones();
            let start = request.offset / zones.shape().zone_bytes * zones.shape().zone_bytes;
            let zone = zones.zone_of(start).expect("a place of the drive");
            let is_write = matches!(request.ask, ZoneAsk::Write | ZoneAsk::Append);
            let is_first = is_write && request.offset == start;
            if is_first && zones.all()[zone as usize].state == ZoneState::Full {
                self.is_resetting = true;
                let reset = ZoneRequest {
                    id: RESET,
                    ask: ZoneAsk::Reset,
                    offset: start,
                    length: 0,
                };
                return self.drive.submit(now, reset);
            }
            self.waiting.pop_front();
            let offset = if request.ask == ZoneAsk::Append {
                start
            } else {
                request.offset
            };
            self.drive.submit(now, ZoneRequest { offset, ..request });
        }
    }

    /// Lets everything happen that does until `now`.
    ///
    /// # Panics
    /// If the drive refuses a command: the load keeps its rules.
    pub(crate) fn advance(&mut self, now: Nanos, done: &mut impl FnMut(u64, Nanos)) {
        let mut ends = core::mem::take(&mut self.ends);
        self.drive.advance(now, &mut |end| ends.push(end));
        for ZoneCompletion { id, at, result } in ends.drain(..) {
            if let Err(error) = result {
                panic!("command {id} of a load in order of zones: {error}");
            }
            if id == RESET {
                self.is_resetting = false;
                self.pass(at);
            } else {
                done(id, at);
            }
        }
        self.ends = ends;
    }
}
