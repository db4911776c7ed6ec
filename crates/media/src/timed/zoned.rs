//! A zoned drive in time.
//!
//! A sans-I/O machine like [`super::Timed`]; each command ends with a result. The rules are those of
//! [`Zones`], and hold at the time a command is understood; a reset takes effect when it ends.
//!
//! 1. A read passes controller, firmware, dies, channels, link. What is in the buffer, or was never
//!    written, needs no die.
//! 2. A write or an append passes controller, firmware and link, and ends when the buffer takes it.
//!    When a row of its zone is whole it leaves for flash, at the rate at which the drive programs.
//! 3. Finishing pads the zone at the same rate, a row at a time, so that writes get their share.
//! 4. Resets are served one after another beside all else; what a reset takes grows with what hosts
//!    had written, and it ends the zone first if it is active.
//!
//! Writes to one zone are understood in the order they were submitted: several may be in flight, as
//! long as each begins where the one before ends. Appends mixed with them pass other firmware; who
//! mixes both in a zone must wait.
//!
//! **Scale**: in a drive smaller than its sheet says, zones are smaller, and resetting and finishing
//! take as much less.
//!
//! **Not here**: erases that disturb reads or writes (measured: they do not), read-ahead, losing the
//! buffer with the power; flushing costs nothing.

use super::agenda::Agenda;
use super::die::Times;
use super::flash::{Came, Flash, Parts};
use super::layout::{Division, Layout};
use super::rate::{NANO, Picos, Server, span};
use super::slab::Slab;
use super::{READ, WRITE};
use crate::counters::Counters;
use crate::op::Place;
use crate::zone_shape::ZoneShape;
use crate::zoned_sheet::{Management, ZonedSheet};
use crate::zones::{Written, ZoneError, ZoneState, Zones};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use varve_units::{BLOCK_BYTES, Nanos};

/// What a zoned drive is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneAsk {
    /// Reads the range.
    Read,
    /// Writes the range, which begins at the write pointer.
    Write,
    /// Writes so many bytes at the write pointer of the zone that starts at the offset.
    Append,
    /// Opens the zone that starts at the offset.
    Open,
    /// Closes the zone that starts at the offset.
    Close,
    /// Pads what was not written of the zone that starts at the offset.
    Finish,
    /// Empties the zone that starts at the offset.
    Reset,
    /// What was written shall be durable.
    Flush,
}

/// A command for a zoned drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneRequest {
    /// The submitter's number for it.
    pub id: u64,
    /// What is asked.
    pub ask: ZoneAsk,
    /// Byte offset, a multiple of 512.
    pub offset: u64,
    /// Length in bytes, a multiple of 512; of no meaning but for reads, writes and appends.
    pub length: u64,
}

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneCompletion {
    /// The submitter's number for the command.
    pub id: u64,
    /// When.
    pub at: Nanos,
    /// The byte offset it took effect at: that of an append's data, of any other command its own.
    /// After an error nothing has happened.
    pub result: Result<u64, ZoneError>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A command has passed the controller and its firmware.
    Understood(u32),
    /// A write's zone is open.
    Opened(u32),
    /// A part of a command's data has crossed the link.
    Linked(u32),
    /// A row may go to its die.
    Left(u32),
    /// A piece of padding may be programmed.
    Padded(u32),
    /// A zone is erased.
    Erased(u32),
    /// A command is done.
    Done(u32),
}

struct Underway {
    request: ZoneRequest,
    /// Parts of its data that have not crossed the link.
    parts: u32,
    zone: u32,
    /// Resets of the zone when the command was understood.
    resets: u64,
    /// Padding that is on its way, and that is still to come, in bytes.
    padding: u64,
    to_pad: u64,
    result: Result<u64, ZoneError>,
}

/// What of a zone is on its way to flash.
#[derive(Clone, Copy, Default)]
struct Filling {
    /// Bytes in the buffer or beyond, padding included.
    arrived: u64,
    /// Rows that have left for flash.
    rows: u32,
    /// Bytes of hosts that wait for the rest of their row.
    waiting: u64,
    resets: u64,
}

/// What managing zones takes.
struct Spans {
    open: Picos,
    open_by: [Picos; 2],
    close: Picos,
    finish: Picos,
    reset: Picos,
    reset_full: Picos,
}

/// A zoned drive in time.
pub struct ZonedDrive {
    zones: Zones,
    filling: Vec<Filling>,
    flash: Flash,
    /// Reads are served beside writes and appends, which have one server.
    commands: [Server; 2],
    /// What that one takes for a write, and for an append.
    put: [Picos; 2],
    read_delay: Picos,
    put_delay: [Picos; 2],
    links: [Server; 2],
    /// From the buffer to flash.
    program: Server,
    spans: Spans,
    resets: Server,
    underway: Slab<Underway>,
    buffered: u64,
    buffer_bytes: u64,
    /// Writes that wait for the buffer.
    held: VecDeque<u32>,
    agenda: Agenda<Event>,
}

/// Of [`ZonedDrive::put`] and the like.
const BY_WRITE: usize = 0;
const BY_APPEND: usize = 1;

impl ZonedDrive {
    /// A drive with these zones and the times of a sheet.
    ///
    /// # Panics
    /// If the zones are not made as [`ZoneShape::scaled`] makes those of the sheet.
    #[must_use]
    pub fn new(zones: Zones, sheet: &ZonedSheet) -> Self {
        let (shape, nand, controller) = (*zones.shape(), &sheet.nand, &sheet.controller);
        let made = ZoneShape::scaled(sheet, shape.capacity());
        assert_eq!(made, Ok(shape), "zones of another drive");
        let mut drive = Self {
            filling: Vec::new(),
            flash: flash(&shape, sheet),
            commands: [
                Server::new(controller.read_commands.value),
                Server::new(controller.write_commands.value),
            ],
            put: [
                span(1, controller.write_commands.value),
                span(1, controller.append_commands.value),
            ],
            read_delay: controller.read_ns.value * NANO,
            put_delay: [
                controller.write_ns.value * NANO,
                controller.append_ns.value * NANO,
            ],
            links: [
                Server::new(controller.link_read_bytes.value),
                Server::new(controller.link_write_bytes.value),
            ],
            program: Server::new(controller.program_bytes.value),
            spans: Spans::new(&sheet.management, |span: Picos| {
                let part = u128::from(span) * u128::from(shape.capacity_bytes);
                (part / u128::from(sheet.zones.capacity_bytes.value)) as Picos
            }),
            resets: Server::new(1),
            underway: Slab::new(),
            buffered: 0,
            buffer_bytes: controller.buffer_bytes.value,
            held: VecDeque::new(),
            agenda: Agenda::new(),
            zones,
        };
        assert!(nand.dies.value > 0, "a drive without dies");
        drive.fill_as_written();
        drive
    }

    /// The zones as they are now.
    #[must_use]
    pub const fn zones(&self) -> &Zones {
        &self.zones
    }

    /// What it has done.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        self.zones.counters()
    }

    /// When something happens next.
    #[must_use]
    pub fn next(&self) -> Option<Nanos> {
        let at = self.agenda.next().into_iter().chain(self.flash.next());
        at.min().map(|at| Nanos(at.div_ceil(NANO)))
    }

    /// Submits a command. What is wrong with it is told when it ends.
    pub fn submit(&mut self, now: Nanos, request: ZoneRequest) {
        let now = now.0 * NANO;
        let at = match request.ask {
            ZoneAsk::Read => self.commands[READ].serve(now, 1) + self.read_delay,
            ZoneAsk::Write | ZoneAsk::Append => {
                let by = by(request.ask);
                self.commands[WRITE].serve_for(now, self.put[by]) + self.put_delay[by]
            }
            ZoneAsk::Open => now + self.spans.open,
            ZoneAsk::Close => now + self.spans.close,
            ZoneAsk::Finish | ZoneAsk::Reset | ZoneAsk::Flush => now,
        };
        let command = self.underway.add(Underway {
            request,
            parts: 0,
            zone: 0,
            resets: 0,
            padding: 0,
            to_pad: 0,
            result: Ok(request.offset),
        });
        self.agenda.add(at, Event::Understood(command));
    }

    /// Lets everything happen that does until `now`; `done` gets the commands that ended.
    pub fn advance(&mut self, now: Nanos, done: &mut impl FnMut(ZoneCompletion)) {
        let until = now.0 * NANO;
        loop {
            let own = self.agenda.next().unwrap_or(Picos::MAX);
            // Of what happens at one time, the flash's comes first.
            if let Some((at, came)) = self.flash.step(until.min(own)) {
                self.came(at, came);
                continue;
            }
            let Some((at, event)) = self.agenda.pop(until) else {
                return;
            };
            match event {
                Event::Understood(command) => self.understood(at, command),
                Event::Opened(command) => self.link(at, command),
                Event::Linked(command) => self.linked(at, command),
                Event::Left(row) => self.flash.send_row(at, row),
                Event::Padded(command) => self.pad(at, command),
                Event::Erased(command) => self.erased(at, command),
                Event::Done(command) => {
                    let Underway {
                        request, result, ..
                    } = self.underway.take(command);
                    let (id, at) = (request.id, Nanos(at.div_ceil(NANO)));
                    done(ZoneCompletion { id, at, result });
                }
            }
        }
    }

    fn came(&mut self, now: Picos, came: Option<Came>) {
        match came {
            None => {}
            Some(Came::Read { command, bytes }) => {
                let at = self.links[READ].serve(now, bytes);
                self.agenda.add(at, Event::Linked(command));
            }
            Some(Came::Freed { bytes }) => {
                self.buffered -= bytes;
                self.admit(now);
            }
        }
    }

    /// The command has an effect on its zone, or an error.
    fn understood(&mut self, now: Picos, command: u32) {
        let ZoneRequest {
            ask,
            offset,
            length,
            ..
        } = self.underway.get(command).request;
        let zones = &mut self.zones;
        let result = match ask {
            ZoneAsk::Read => zones.read(offset, length),
            ZoneAsk::Write => {
                let written = zones.write(offset, length);
                written.map(|written| self.begin_write(now, command, written))
            }
            ZoneAsk::Append => {
                let written = zones.append(offset, length);
                written.map(|written| self.begin_write(now, command, written))
            }
            ZoneAsk::Open => zones.open(offset).map(drop),
            ZoneAsk::Close => zones.close(offset).map(drop),
            ZoneAsk::Finish => self.begin_finish(now, command, offset),
            ZoneAsk::Reset => self.begin_reset(now, command, offset),
            ZoneAsk::Flush => Ok(()),
        };
        if let Err(error) = result {
            self.underway.get(command).result = Err(error);
            return self.agenda.add(now, Event::Done(command));
        }
        match ask {
            ZoneAsk::Read => self.begin_read(now, command, offset, length),
            ZoneAsk::Open | ZoneAsk::Close | ZoneAsk::Flush => {
                self.agenda.add(now, Event::Done(command));
            }
            ZoneAsk::Write | ZoneAsk::Append | ZoneAsk::Finish | ZoneAsk::Reset => {}
        }
    }

    /// Sends the parts of a read to their dies.
    fn begin_read(&mut self, now: Picos, command: u32, offset: u64, length: u64) {
        let parts = self.flash.parts(offset, length, |at| self.place(at));
        self.underway.get(command).parts = parts.len() as u32;
        for (sense, bytes) in parts {
            if let Some((row, _)) = sense {
                self.flash.read(now, row, bytes, command);
            } else {
                let at = self.links[READ].serve(now, bytes);
                self.agenda.add(at, Event::Linked(command));
            }
        }
    }

    /// Where in flash a byte lies; `None` if it was not written, or waits for the rest of its row.
    fn place(&self, offset: u64) -> Option<Place> {
        let zone = self.zones.zone_of(offset).ok()?;
        let within = offset - self.zones.start(zone);
        let filling = &self.filling[zone as usize];
        let rows_end = u64::from(filling.rows) * self.zones.shape().row_bytes;
        let is_in_flash = within < self.zones.all()[zone as usize].written.min(rows_end);
        let ius = zone * self.flash.layout().unit_ius;
        is_in_flash.then(|| Place(ius + (within / BLOCK_BYTES) as u32))
    }

    fn begin_write(&mut self, now: Picos, command: u32, written: Written) {
        let zone = self.zone(written.offset);
        let underway = self.underway.get(command);
        underway.zone = zone;
        underway.resets = self.filling[zone as usize].resets;
        underway.result = Ok(written.offset);
        if written.has_opened {
            let at = now + self.spans.open_by[by(underway.request.ask)];
            self.agenda.add(at, Event::Opened(command));
        } else {
            self.link(now, command);
        }
    }

    fn link(&mut self, now: Picos, command: u32) {
        let underway = self.underway.get(command);
        underway.parts = 1;
        let at = self.links[WRITE].serve(now, underway.request.length);
        self.agenda.add(at, Event::Linked(command));
    }

    fn linked(&mut self, now: Picos, command: u32) {
        let underway = self.underway.get(command);
        underway.parts -= 1;
        if underway.parts > 0 {
            return;
        }
        if underway.request.ask == ZoneAsk::Read {
            self.agenda.add(now, Event::Done(command));
        } else {
            self.held.push_back(command);
            self.admit(now);
        }
    }

    /// Takes writes into the buffer while there is room. What waits for the rest of its row never
    /// takes all of it: there is room for a row of each active zone.
    fn admit(&mut self, now: Picos) {
        while self.buffered < self.buffer_bytes {
            let Some(command) = self.held.pop_front() else {
                return;
            };
            let underway = self.underway.get(command);
            let (zone, bytes, resets) = (underway.zone, underway.request.length, underway.resets);
            // What was reset while it came over the link is gone.
            if self.filling[zone as usize].resets == resets {
                self.buffered += bytes;
                self.filling[zone as usize].waiting += bytes;
                self.arrived(now, zone, bytes);
            }
            self.agenda.add(now, Event::Done(command));
        }
    }

    /// More of a zone is here; rows that are whole leave for flash.
    fn arrived(&mut self, now: Picos, zone: u32, bytes: u64) {
        let row_bytes = self.zones.shape().row_bytes;
        let rows_per_zone = self.rows_per_zone();
        let filling = &mut self.filling[zone as usize];
        filling.arrived += bytes;
        while filling.arrived / row_bytes > u64::from(filling.rows) {
            let buffered = filling.waiting.min(row_bytes);
            filling.waiting -= buffered;
            let row = self
                .flash
                .begin_row(zone * rows_per_zone + filling.rows, 0, buffered);
            filling.rows += 1;
            // Padding has passed already.
            let at = self.program.serve(now, buffered);
            self.agenda.add(at, Event::Left(row));
        }
    }

    fn begin_finish(&mut self, now: Picos, command: u32, start: u64) -> Result<(), ZoneError> {
        let zone = self.zones.started(start)?;
        let is_full = self.zones.all()[zone as usize].state == ZoneState::Full;
        let to_pad = self.zones.finish(start)?;
        let underway = self.underway.get(command);
        underway.zone = zone;
        underway.resets = self.filling[zone as usize].resets;
        underway.to_pad = to_pad;
        let span = if is_full { 0 } else { self.spans.finish };
        self.agenda.add(now + span, Event::Padded(command));
        Ok(())
    }

    /// A piece of padding may be programmed, if one was under way; the next one is.
    fn pad(&mut self, now: Picos, command: u32) {
        let underway = self.underway.get(command);
        let (zone, padding) = (underway.zone, core::mem::take(&mut underway.padding));
        if underway.resets != self.filling[zone as usize].resets {
            return self.agenda.add(now, Event::Done(command));
        }
        let shape = self.zones.shape();
        let (row_bytes, capacity) = (shape.row_bytes, shape.capacity_bytes);
        let piece = row_bytes - (capacity - underway.to_pad) % row_bytes;
        if underway.to_pad == 0 {
            self.agenda.add(now, Event::Done(command));
        } else {
            underway.padding = piece;
            underway.to_pad -= piece;
            let at = self.program.serve(now, piece);
            self.agenda.add(at, Event::Padded(command));
        }
        self.arrived(now, zone, padding);
    }

    fn begin_reset(&mut self, now: Picos, command: u32, start: u64) -> Result<(), ZoneError> {
        let zone = self.zones.started(start)?;
        let before = self.zones.all()[zone as usize];
        let full = u128::from(self.spans.reset_full) * u128::from(before.written);
        let full = (full / u128::from(self.zones.shape().capacity_bytes)) as Picos;
        let end = if before.state.is_active() {
            self.spans.finish
        } else {
            0
        };
        let at = self.resets.serve_for(now, self.spans.reset + full + end);
        self.agenda.add(at, Event::Erased(command));
        Ok(())
    }

    fn erased(&mut self, now: Picos, command: u32) {
        let underway = self.underway.get(command);
        let start = underway.request.offset;
        let reset = self.zones.reset(start).map(|_| start);
        underway.result = reset;
        let zone = self.zone(start);
        let filling = &mut self.filling[zone as usize];
        self.buffered -= filling.waiting;
        *filling = Filling {
            resets: filling.resets + 1,
            ..Filling::default()
        };
        self.agenda.add(now, Event::Done(command));
        self.admit(now);
    }

    /// The zone of a byte of the drive.
    fn zone(&self, offset: u64) -> u32 {
        self.zones.zone_of(offset).expect("a byte of the drive")
    }

    fn rows_per_zone(&self) -> u32 {
        let shape = self.zones.shape();
        (shape.capacity_bytes / shape.row_bytes) as u32
    }

    /// Flash and buffer hold what the zones say.
    fn fill_as_written(&mut self) {
        let shape = *self.zones.shape();
        for zone in self.zones.all() {
            let written = match zone.state {
                ZoneState::Full => shape.capacity_bytes,
                _ => zone.written,
            };
            let waiting = written % shape.row_bytes;
            self.buffered += waiting;
            self.filling.push(Filling {
                arrived: written,
                rows: (written / shape.row_bytes) as u32,
                waiting,
                resets: 0,
            });
        }
    }
}

impl Spans {
    fn new(sheet: &Management, scaled: impl Fn(Picos) -> Picos) -> Self {
        Self {
            open: sheet.open_ns.value * NANO,
            open_by: [
                sheet.open_by_write_ns.value * NANO,
                sheet.open_by_append_ns.value * NANO,
            ],
            close: sheet.close_ns.value * NANO,
            finish: scaled(sheet.finish_ns.value * NANO),
            reset: scaled(sheet.reset_ns.value * NANO),
            reset_full: scaled(sheet.reset_full_ns.value * NANO),
        }
    }
}

const fn by(ask: ZoneAsk) -> usize {
    match ask {
        ZoneAsk::Append => BY_APPEND,
        _ => BY_WRITE,
    }
}

fn flash(shape: &ZoneShape, sheet: &ZonedSheet) -> Flash {
    let nand = &sheet.nand;
    let division = Division {
        dies: nand.dies.value,
        page_bytes: nand.planes.value * nand.page_bytes.value,
        pages_at_once: nand.pages_at_once.value,
        rows_per_parity: None,
    };
    let unit_ius = shape.capacity_bytes / BLOCK_BYTES;
    let unit_ius = u32::try_from(unit_ius).expect("blocks of the drive fit 32 bits");
    let parts = Parts {
        times: Times {
            read: nand.read_ns.value * NANO,
            program: nand.program_ns.value * NANO,
            // Resets are served beside the dies.
            erase: 0,
            suspend: nand.suspend_ns.value * NANO,
            suspends_max: nand.suspends_max.value,
        },
        dies: nand.dies.value,
        programs_max: nand.dies.value,
        channels: nand.channels.value,
        channel_bytes: nand.channel_bytes.value,
    };
    Flash::new(Layout::new(BLOCK_BYTES as u32, unit_ius, &division), parts)
}
