//! A modelled drive in time.
//!
//! A sans-I/O machine: commands go in with the time they are submitted, [`Timed::next`] says when
//! something happens, [`Timed::advance`] lets it happen and tells which commands have ended.
//!
//! 1. A read passes the controller (a server of commands), the firmware (a delay), the dies that
//!    hold its data, their channels, and the link. What is still in the buffer needs no die.
//! 2. A write passes controller, firmware and link, and ends when the buffer takes it. The buffer is
//!    freed as its rows are programmed; everything about sustained writes follows from that.
//! 3. What is programmed, read to be merged, moved and erased is what [`Ssd`] says.
//! 4. Reads of hosts interrupt programs and erases, so often; the drive's own reads do not.
//! 5. Rows are programmed by at most so many dies at once; every so many is one of parity.
//!
//! **Scale**: in a drive smaller than its sheet says, erase units are smaller, and erasing takes as
//! much less.
//!
//! **Not here**: drives that lose their buffer with the power; flushing costs nothing.
//!
//! # Source
//! The model of `drives.md` 4: resources as queues advanced by events, after NVMeVirt, MQSim, FEMU.

mod agenda;
mod die;
mod disk;
mod flash;
mod in_place;
mod layout;
mod rate;
mod slab;
mod zoned;

use crate::op::Op;
use crate::sheet::Sheet;
use crate::ssd::Ssd;
use agenda::Agenda;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use die::Times;
use flash::{Came, Flash, Parts};
use layout::{Division, Layout};
use rate::{NANO, Picos, Server};
use slab::Slab;
use varve_units::Nanos;

pub use disk::DiskDrive;
pub use in_place::InPlaceDrive;
pub use zoned::{ZoneAsk, ZoneCompletion, ZoneRequest, ZonedDrive};

/// What a drive is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Reads the range.
    Read,
    /// Writes the range.
    Write,
    /// The range is no longer needed.
    Deallocate,
    /// What was written shall be durable.
    Flush,
}

/// A command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The submitter's number for it.
    pub id: u64,
    /// What is asked.
    pub ask: Ask,
    /// Byte offset, a multiple of 512.
    pub offset: u64,
    /// Length in bytes, a multiple of 512.
    pub length: u64,
    /// Placement handle of a write. Drives without placement take no notice of it.
    pub handle: u8,
}

struct Underway {
    request: Request,
    /// Parts of its data that have not crossed the link.
    parts: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A command has passed the controller and its firmware.
    Understood(u32),
    /// A part of a command's data has crossed the link.
    Linked(u32),
    /// A command is done.
    Done(u32),
}

/// A modelled drive in time.
pub struct Timed {
    ssd: Ssd,
    flash: Flash,
    commands: [Server; 2],
    firmware: [Picos; 2],
    links: [Server; 2],
    underway: Slab<Underway>,
    /// Bytes in the buffer.
    buffered: u64,
    buffer_bytes: u64,
    /// Writes that wait for the buffer.
    held: VecDeque<u32>,
    agenda: Agenda<Event>,
    ops: Vec<Op>,
}

const READ: usize = 0;
const WRITE: usize = 1;

impl Timed {
    /// A drive in the state of `ssd` with the times of a sheet.
    ///
    /// # Panics
    /// If the drive would lose its buffer with the power, or a row is smaller than an IU.
    #[must_use]
    pub fn new(ssd: Ssd, sheet: &Sheet) -> Self {
        let (shape, nand, controller) = (*ssd.shape(), &sheet.nand, &sheet.controller);
        assert!(shape.is_protected, "no times for unprotected buffers");
        let division = Division {
            dies: nand.dies.value,
            page_bytes: nand.planes.value * nand.page_bytes.value,
            pages_at_once: nand.pages_at_once.value,
            rows_per_parity: Some(nand.programs_per_parity.value).filter(|rows| *rows > 0),
        };
        let layout = Layout::new(shape.iu_bytes, shape.unit_ius, &division);
        let unit_bytes = u64::from(shape.unit_ius) * u64::from(shape.iu_bytes);
        let real_bytes = sheet.flash.erase_unit_bytes.value.max(unit_bytes);
        let erase = u128::from(nand.erase_ns.value * NANO) * u128::from(unit_bytes);
        let parts = Parts {
            times: Times {
                read: nand.read_ns.value * NANO,
                program: nand.program_ns.value * NANO,
                erase: (erase / u128::from(real_bytes)) as Picos,
                suspend: nand.suspend_ns.value * NANO,
                suspends_max: nand.suspends_max.value,
            },
            dies: nand.dies.value,
            programs_max: nand.programs_max.value,
            channels: nand.channels.value,
            channel_bytes: nand.channel_bytes.value,
        };
        Self {
            ssd,
            flash: Flash::new(layout, parts),
            commands: [
                Server::new(controller.read_commands.value),
                Server::new(controller.write_commands.value),
            ],
            firmware: [
                controller.read_ns.value * NANO,
                controller.write_ns.value * NANO,
            ],
            links: [
                Server::new(controller.link_read_bytes.value),
                Server::new(controller.link_write_bytes.value),
            ],
            underway: Slab::new(),
            buffered: 0,
            buffer_bytes: controller.buffer_bytes.value,
            held: VecDeque::new(),
            agenda: Agenda::new(),
            ops: Vec::new(),
        }
    }

    /// What its flash has done.
    #[must_use]
    pub const fn ssd(&self) -> &Ssd {
        &self.ssd
    }

    /// When something happens next.
    #[must_use]
    pub fn next(&self) -> Option<Nanos> {
        let at = self.agenda.next().into_iter().chain(self.flash.next());
        at.min().map(|at| Nanos(at.div_ceil(NANO)))
    }

    /// Submits a command.
    pub fn submit(&mut self, now: Nanos, request: Request) {
        let now = now.0 * NANO;
        let way = if request.ask == Ask::Read {
            READ
        } else {
            WRITE
        };
        let at = self.commands[way].serve(now, 1) + self.firmware[way];
        let command = self.underway.add(Underway { request, parts: 0 });
        self.agenda.add(at, Event::Understood(command));
    }

    /// Lets everything happen that does until `now`; `done` gets the numbers of commands that ended,
    /// with the time they did.
    pub fn advance(&mut self, now: Nanos, done: &mut impl FnMut(u64, Nanos)) {
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
                Event::Understood(command) => self.begin(at, command),
                Event::Linked(command) => self.linked(at, command),
                Event::Done(command) => {
                    let request = self.underway.take(command).request;
                    done(request.id, Nanos(at.div_ceil(NANO)));
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

    fn begin(&mut self, now: Picos, command: u32) {
        let Request {
            ask,
            offset,
            length,
            ..
        } = self.underway.get(command).request;
        match ask {
            Ask::Read => self.begin_read(now, command, offset, length),
            Ask::Write => {
                self.underway.get(command).parts = 1;
                let at = self.links[WRITE].serve(now, length);
                self.agenda.add(at, Event::Linked(command));
            }
            Ask::Deallocate => {
                self.ssd.deallocate(offset, length);
                self.agenda.add(now, Event::Done(command));
            }
            Ask::Flush => self.agenda.add(now, Event::Done(command)),
        }
    }

    /// Sends the parts of a read to their dies.
    fn begin_read(&mut self, now: Picos, command: u32, offset: u64, length: u64) {
        let parts = self.flash.parts(offset, length, |at| self.ssd.place(at));
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

    fn linked(&mut self, now: Picos, command: u32) {
        let underway = self.underway.get(command);
        underway.parts -= 1;
        if underway.parts > 0 {
            return;
        }
        if underway.request.ask == Ask::Read {
            self.agenda.add(now, Event::Done(command));
        } else {
            self.held.push_back(command);
            self.admit(now);
        }
    }

    /// Takes writes into the buffer while there is room.
    fn admit(&mut self, now: Picos) {
        while self.buffered < self.buffer_bytes {
            let Some(command) = self.held.pop_front() else {
                return;
            };
            let Request {
                offset,
                length,
                handle,
                ..
            } = self.underway.get(command).request;
            // A handle that a drive does not have is the first, as in NVMe.
            let is_known = handle < self.ssd.shape().placement.handles;
            let handle = if is_known { handle } else { 0 };
            let mut ops = core::mem::take(&mut self.ops);
            self.ssd
                .write_to(handle, offset, length, &mut |op| ops.push(op));
            self.run(now, &ops);
            ops.clear();
            self.ops = ops;
            self.agenda.add(now, Event::Done(command));
        }
    }

    /// Starts what the flash has to do. A read is for the program that follows it.
    fn run(&mut self, now: Picos, ops: &[Op]) {
        let mut read = None;
        for op in ops {
            match *op {
                Op::Read(place, why) => read = Some((place, why)),
                Op::Program(place, _) => {
                    self.buffered += u64::from(self.flash.layout().iu_bytes);
                    self.flash.fill(now, place, read.take());
                }
                Op::Erase(_) => self.flash.erase(now),
            }
        }
    }
}
