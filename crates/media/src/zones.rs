//! A zoned drive as an account of its zones.
//!
//! **Invariants**: a zone that is not full was written less than its capacity; what is open is
//! active; no more zones are open or active than may be; the write pointer of a zone lies where what
//! hosts wrote of it ends.
//!
//! **Not here**: zones that can no longer be written or read, zone random write areas, zone
//! descriptors' extensions.
//!
//! # Source
//! NVM Express, Zoned Namespace Command Set 1.1, 2.1.1 (states, limits) and 3.4 (commands). Which
//! zone is closed for another is the drive's choice there; here the one implicitly open the longest.

use crate::counters::Counters;
use crate::zone_shape::ZoneShape;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use varve_units::SECTOR_BYTES;

/// State of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneState {
    /// Nothing was written.
    Empty,
    /// A write or an append has opened it.
    ImplicitlyOpen,
    /// A command has opened it.
    ExplicitlyOpen,
    /// Written in part, and the drive keeps nothing ready for it.
    Closed,
    /// It takes no more.
    Full,
}

impl ZoneState {
    const fn is_open(self) -> bool {
        matches!(self, Self::ImplicitlyOpen | Self::ExplicitlyOpen)
    }

    /// True if it counts among the active zones.
    #[must_use]
    pub const fn is_active(self) -> bool {
        self.is_open() || matches!(self, Self::Closed)
    }
}

impl fmt::Display for ZoneState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "empty",
            Self::ImplicitlyOpen => "implicitly open",
            Self::ExplicitlyOpen => "explicitly open",
            Self::Closed => "closed",
            Self::Full => "full",
        })
    }
}

/// A zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone {
    /// Its state.
    pub state: ZoneState,
    /// Bytes that hosts wrote since it was reset: the write pointer, from its start. A zone that was
    /// finished has less than its capacity.
    pub written: u64,
}

/// Why a drive refuses a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ZoneError {
    /// Not made of sectors of 512 bytes, or empty.
    Misaligned,
    /// Beyond the end of the drive.
    Beyond {
        /// Bytes of the drive.
        bytes: u64,
    },
    /// Beyond the zone: a read beyond its size, a write beyond its capacity.
    Boundary {
        /// Where the zone ends for such a command.
        end: u64,
    },
    /// The command names a zone by its start, and this is none.
    NotAStart {
        /// Start of the zone.
        start: u64,
    },
    /// A write elsewhere than at the write pointer.
    NotAtPointer {
        /// The write pointer.
        pointer: u64,
    },
    /// The zone takes no more.
    Full,
    /// One more zone would be active than may be.
    TooManyActive {
        /// Zones that may be active.
        active_max: u32,
    },
    /// One more zone would be open than may be, and none of them may be closed.
    TooManyOpen {
        /// Zones that may be open.
        open_max: u32,
    },
    /// A zone in this state cannot be opened, or closed.
    Transition {
        /// Its state.
        state: ZoneState,
    },
}

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misaligned => f.write_str("the range is not made of sectors"),
            Self::Beyond { bytes } => write!(f, "the drive ends at byte {bytes}"),
            Self::Boundary { end } => write!(f, "the zone ends at byte {end}"),
            Self::NotAStart { start } => write!(f, "the zone starts at byte {start}"),
            Self::NotAtPointer { pointer } => write!(f, "the write pointer is at byte {pointer}"),
            Self::Full => f.write_str("the zone is full"),
            Self::TooManyActive { active_max } => {
                write!(f, "{active_max} zones are active, as many as may be")
            }
            Self::TooManyOpen { open_max } => write!(
                f,
                "{open_max} zones are explicitly open, as many as may be open"
            ),
            Self::Transition { state } => write!(f, "the zone is {state}"),
        }
    }
}

impl core::error::Error for ZoneError {}

/// What a write or an append came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Byte offset of its data.
    pub offset: u64,
    /// It has opened its zone.
    pub has_opened: bool,
}

/// The zones of a drive. Single-threaded, without time: what is asked of them is done at once.
pub struct Zones {
    shape: ZoneShape,
    zones: Vec<Zone>,
    /// Implicitly open zones, the one that is so the longest first.
    implicit: VecDeque<u32>,
    open: u32,
    active: u32,
    counters: Counters,
}

impl Zones {
    /// A drive fresh from the factory: all zones are empty.
    ///
    /// # Panics
    /// If no drive has that shape.
    #[must_use]
    pub fn new(shape: ZoneShape) -> Self {
        let shape = shape.check().expect("a possible shape");
        let empty = Zone {
            state: ZoneState::Empty,
            written: 0,
        };
        Self {
            shape,
            zones: vec![empty; shape.zones as usize],
            implicit: VecDeque::new(),
            open: 0,
            active: 0,
            counters: Counters::default(),
        }
    }

    /// A drive of which hosts have written every zone to its end.
    ///
    /// # Panics
    /// If no drive has that shape.
    #[must_use]
    pub fn written(shape: ZoneShape) -> Self {
        let mut zones = Self::new(shape);
        zones.zones.fill(Zone {
            state: ZoneState::Full,
            written: shape.capacity_bytes,
        });
        zones.counters.host_bytes = shape.capacity();
        zones.counters.media_bytes = shape.capacity();
        zones
    }

    /// What it is.
    #[must_use]
    pub const fn shape(&self) -> &ZoneShape {
        &self.shape
    }

    /// All zones, in order of their places.
    #[must_use]
    pub fn all(&self) -> &[Zone] {
        &self.zones
    }

    /// Zones that are open.
    #[must_use]
    pub const fn open_count(&self) -> u32 {
        self.open
    }

    /// Zones that are open or closed.
    #[must_use]
    pub const fn active_count(&self) -> u32 {
        self.active
    }

    /// What the drive has done. A zone that is reset counts as one erase if something of it was
    /// programmed, and what hosts had written of it as deallocated; padding is part of
    /// `media_bytes`; what waits for the rest of its row is not programmed.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The zone of a byte.
    ///
    /// # Errors
    /// If it lies beyond the drive.
    pub fn zone_of(&self, offset: u64) -> Result<u32, ZoneError> {
        let bytes = self.shape.bytes();
        if offset >= bytes {
            return Err(ZoneError::Beyond { bytes });
        }
        Ok(u32::try_from(offset / self.shape.zone_bytes).expect("a zone of the drive"))
    }

    /// Start of a zone, in bytes.
    #[must_use]
    pub fn start(&self, zone: u32) -> u64 {
        u64::from(zone) * self.shape.zone_bytes
    }

    /// The host reads bytes `offset..offset + length`; what was not written is read as well.
    ///
    /// # Errors
    /// If the range is not one of one zone.
    pub fn read(&self, offset: u64, length: u64) -> Result<(), ZoneError> {
        let start = self.start(self.range(offset, length)?);
        let end = start + self.shape.zone_bytes;
        if length > end - offset {
            return Err(ZoneError::Boundary { end });
        }
        Ok(())
    }

    /// The host writes bytes `offset..offset + length`.
    ///
    /// # Errors
    /// If that is not at the write pointer, not in the zone, or too many zones would be open or
    /// active. Nothing has then happened.
    pub fn write(&mut self, offset: u64, length: u64) -> Result<Written, ZoneError> {
        let zone = self.range(offset, length)?;
        let Zone { state, written } = self.zones[zone as usize];
        if state == ZoneState::Full {
            return Err(ZoneError::Full);
        }
        let pointer = self.start(zone) + written;
        if offset != pointer {
            return Err(ZoneError::NotAtPointer { pointer });
        }
        self.put(zone, length)
    }

    /// The host writes `length` bytes to the zone that starts at `start`, wherever its write pointer
    /// is.
    ///
    /// # Errors
    /// As [`Zones::write`]; and if no zone starts there.
    pub fn append(&mut self, start: u64, length: u64) -> Result<Written, ZoneError> {
        let zone = self.range(start, length)?;
        self.started(start)?;
        if self.zones[zone as usize].state == ZoneState::Full {
            return Err(ZoneError::Full);
        }
        self.put(zone, length)
    }

    /// The host opens the zone that starts at `start`, and the drive keeps it open. True if it was
    /// not explicitly open.
    ///
    /// # Errors
    /// If none starts there, it is full, or too many zones would be open or active.
    pub fn open(&mut self, start: u64) -> Result<bool, ZoneError> {
        let zone = self.started(start)?;
        match self.zones[zone as usize].state {
            ZoneState::ExplicitlyOpen => return Ok(false),
            state @ ZoneState::Full => return Err(ZoneError::Transition { state }),
            ZoneState::ImplicitlyOpen => {}
            ZoneState::Empty | ZoneState::Closed => self.make_room(zone)?,
        }
        self.set(zone, ZoneState::ExplicitlyOpen);
        Ok(true)
    }

    /// The host closes the zone that starts at `start`. True if it was open.
    ///
    /// # Errors
    /// If none starts there, or it is empty or full.
    pub fn close(&mut self, start: u64) -> Result<bool, ZoneError> {
        let zone = self.started(start)?;
        let state = self.zones[zone as usize].state;
        match state {
            ZoneState::Closed => Ok(false),
            ZoneState::Empty | ZoneState::Full => Err(ZoneError::Transition { state }),
            ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen => {
                self.set(zone, ZoneState::Closed);
                Ok(true)
            }
        }
    }

    /// The host writes no more to the zone that starts at `start`; returns how many bytes the drive
    /// pads. A zone that is full stays as it is.
    ///
    /// # Errors
    /// If none starts there.
    pub fn finish(&mut self, start: u64) -> Result<u64, ZoneError> {
        let zone = self.started(start)?;
        let before = self.zones[zone as usize];
        let padding = self.shape.capacity_bytes - before.written;
        if before.state == ZoneState::Full {
            return Ok(0);
        }
        self.set(zone, ZoneState::Full);
        // What waited for the rest of its row is programmed with the padding.
        self.counters.media_bytes += self.shape.capacity_bytes - self.rows(before.written);
        Ok(padding)
    }

    /// The host no longer needs the zone that starts at `start`: it is empty. Returns what it was.
    ///
    /// # Errors
    /// If none starts there.
    pub fn reset(&mut self, start: u64) -> Result<Zone, ZoneError> {
        let zone = self.started(start)?;
        let before = self.zones[zone as usize];
        let is_programmed = match before.state {
            ZoneState::Full => true,
            _ => self.rows(before.written) > 0,
        };
        self.counters.erases += u64::from(is_programmed);
        self.counters.deallocated_bytes += before.written;
        self.set(zone, ZoneState::Empty);
        self.zones[zone as usize].written = 0;
        Ok(before)
    }

    /// The zone in which a range begins.
    fn range(&self, offset: u64, length: u64) -> Result<u32, ZoneError> {
        let is_aligned = offset.is_multiple_of(SECTOR_BYTES) && length.is_multiple_of(SECTOR_BYTES);
        if !is_aligned || length == 0 {
            return Err(ZoneError::Misaligned);
        }
        let bytes = self.shape.bytes();
        if length > bytes.saturating_sub(offset) {
            return Err(ZoneError::Beyond { bytes });
        }
        self.zone_of(offset)
    }

    /// The zone that starts there.
    pub(crate) fn started(&self, start: u64) -> Result<u32, ZoneError> {
        let zone = self.zone_of(start)?;
        let expected = self.start(zone);
        if start != expected {
            return Err(ZoneError::NotAStart { start: expected });
        }
        Ok(zone)
    }

    /// Writes at the write pointer of a zone that is not full.
    fn put(&mut self, zone: u32, length: u64) -> Result<Written, ZoneError> {
        let Zone { state, written } = self.zones[zone as usize];
        let capacity = self.shape.capacity_bytes;
        if length > capacity - written {
            let end = self.start(zone) + capacity;
            return Err(ZoneError::Boundary { end });
        }
        if !state.is_open() {
            self.make_room(zone)?;
            self.set(zone, ZoneState::ImplicitlyOpen);
        }
        self.zones[zone as usize].written += length;
        self.counters.host_bytes += length;
        self.counters.media_bytes += self.rows(written + length) - self.rows(written);
        if written + length == capacity {
            self.set(zone, ZoneState::Full);
        }
        Ok(Written {
            offset: self.start(zone) + written,
            has_opened: !state.is_open(),
        })
    }

    /// Bytes of whole rows among those written.
    fn rows(&self, written: u64) -> u64 {
        written / self.shape.row_bytes * self.shape.row_bytes
    }

    /// Sees to it that one more zone may be open, and this one active.
    fn make_room(&mut self, zone: u32) -> Result<(), ZoneError> {
        let is_active = self.zones[zone as usize].state.is_active();
        let (open_max, active_max) = (self.shape.open_max, self.shape.active_max);
        if !is_active && self.active == active_max {
            return Err(ZoneError::TooManyActive { active_max });
        }
        if self.open == open_max {
            let longest = self.implicit.front().copied();
            let longest = longest.ok_or(ZoneError::TooManyOpen { open_max })?;
            self.set(longest, ZoneState::Closed);
        }
        Ok(())
    }

    /// The one place where a state changes, and what is counted with it.
    fn set(&mut self, zone: u32, state: ZoneState) {
        let before = core::mem::replace(&mut self.zones[zone as usize].state, state);
        if before == ZoneState::ImplicitlyOpen {
            self.implicit.retain(|other| *other != zone);
        }
        if state == ZoneState::ImplicitlyOpen {
            self.implicit.push_back(zone);
        }
        self.open = self.open - u32::from(before.is_open()) + u32::from(state.is_open());
        self.active = self.active - u32::from(before.is_active()) + u32::from(state.is_active());
        assert!(self.open <= self.shape.open_max, "{} open zones", self.open);
        assert!(
            self.active <= self.shape.active_max,
            "{} active zones",
            self.active
        );
    }
}
