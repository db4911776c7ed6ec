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
mod in_place;
mod layout;
mod rate;
mod slab;

use crate::op::{Op, Place, Why};
use crate::sheet::Sheet;
use crate::ssd::Ssd;
use agenda::{Agenda, Event};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use die::{Begin, Die, Ended, Long, Times};
use layout::Layout;
use rate::{NANO, Picos, Server};
use slab::Slab;
use varve_units::Nanos;

pub use disk::DiskDrive;
pub use in_place::InPlaceDrive;

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
}

struct Underway {
    request: Request,
    /// Parts of its data that have not crossed the link.
    parts: u32,
}

/// Data on their way.
struct Piece {
    die: u32,
    bytes: u64,
    toward: Toward,
}

enum Toward {
    /// To the host, for this command.
    Host(u32),
    /// From a die to the controller, to be programmed into these rows.
    Rows(Vec<u32>),
    /// To the die that programs this row.
    Row(u32),
}

/// A row that is being filled or programmed.
struct Row {
    number: u32,
    /// IUs that have arrived at its die.
    arrived: u32,
    /// IUs of it that take room in the buffer.
    buffered: u32,
}

/// A modelled drive in time.
pub struct Timed {
    ssd: Ssd,
    layout: Layout,
    times: Times,
    commands: [Server; 2],
    firmware: [Picos; 2],
    links: [Server; 2],
    channels: Vec<Server>,
    dies: Vec<Die>,
    /// Dies that program, and how many may.
    programming: u32,
    programs_max: u32,
    /// Dies that would program if they might.
    eager: VecDeque<u32>,
    underway: Slab<Underway>,
    pieces: Slab<Piece>,
    rows: Slab<Row>,
    /// The row in the buffer of each row of the flash, plus one.
    buffered_rows: Vec<u32>,
    buffered: u64,
    buffer_bytes: u64,
    /// Writes that wait for the buffer.
    held: VecDeque<u32>,
    /// What garbage collection read last, and the piece while it is under way.
    moved: Option<((u32, u32), Option<u32>)>,
    agenda: Agenda,
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
        let layout = Layout::new(&shape, nand);
        let unit_bytes = u64::from(shape.unit_ius) * u64::from(shape.iu_bytes);
        let real_bytes = sheet.flash.erase_unit_bytes.value.max(unit_bytes);
        let erase = u128::from(nand.erase_ns.value * NANO) * u128::from(unit_bytes);
        let times = Times {
            read: nand.read_ns.value * NANO,
            program: nand.program_ns.value * NANO,
            erase: (erase / u128::from(real_bytes)) as Picos,
            suspend: nand.suspend_ns.value * NANO,
            suspends_max: nand.suspends_max.value,
        };
        let server = |per_second: u64| Server::new(per_second);
        let channel = || server(nand.channel_bytes.value);
        Self {
            times,
            commands: [
                server(controller.read_commands.value),
                server(controller.write_commands.value),
            ],
            firmware: [
                controller.read_ns.value * NANO,
                controller.write_ns.value * NANO,
            ],
            links: [
                server(controller.link_read_bytes.value),
                server(controller.link_write_bytes.value),
            ],
            channels: (0..nand.channels.value).map(|_| channel()).collect(),
            dies: (0..nand.dies.value).map(|_| Die::new()).collect(),
            programming: 0,
            programs_max: nand.programs_max.value,
            eager: VecDeque::new(),
            underway: Slab::new(),
            pieces: Slab::new(),
            rows: Slab::new(),
            buffered_rows: vec![0; layout.rows(shape.units)],
            buffered: 0,
            buffer_bytes: controller.buffer_bytes.value,
            held: VecDeque::new(),
            moved: None,
            agenda: Agenda::default(),
            ops: Vec::new(),
            layout,
            ssd,
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
        self.agenda.next().map(|at| Nanos(at.div_ceil(NANO)))
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
        while let Some((at, event)) = self.agenda.pop(now.0 * NANO) {
            match event {
                Event::Understood(command) => self.begin(at, command),
                Event::Die(die, begun) => self.die_ended(at, die, begun),
                Event::Crossed(piece) => self.crossed(at, piece),
                Event::Linked(command) => self.linked(at, command),
                Event::Done(command) => {
                    let request = self.underway.take(command).request;
                    done(request.id, Nanos(at.div_ceil(NANO)));
                }
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

    /// Sends the parts of a read to their dies: one for each flash page over all planes.
    fn begin_read(&mut self, now: Picos, command: u32, offset: u64, length: u64) {
        assert!(length > 0, "a read of nothing");
        let iu = u64::from(self.layout.iu_bytes);
        let mut parts: Vec<(Option<(u32, u32)>, u64)> = Vec::new();
        let mut at = offset;
        while at < offset + length {
            let end = (at / iu * iu + iu).min(offset + length);
            let place = self.ssd.place(at);
            let on_die = place.filter(|place| !self.is_buffered(*place));
            let sense = on_die.map(|place| self.layout.sense(place));
            match parts.last_mut() {
                Some((last, bytes)) if *last == sense => *bytes += end - at,
                _ => parts.push((sense, end - at)),
            }
            at = end;
        }
        self.underway.get(command).parts = parts.len() as u32;
        for (sense, bytes) in parts {
            let Some((row, _)) = sense else {
                let at = self.links[READ].serve(now, bytes);
                self.agenda.add(at, Event::Linked(command));
                continue;
            };
            let die = self.layout.die(row);
            let toward = Toward::Host(command);
            let piece = self.pieces.add(Piece { die, bytes, toward });
            self.dies[die as usize].add_read(piece);
            self.kick(now, die);
        }
    }

    fn is_buffered(&self, place: Place) -> bool {
        self.buffered_rows[self.layout.row(place) as usize] > 0
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
            let Request { offset, length, .. } = self.underway.get(command).request;
            let mut ops = core::mem::take(&mut self.ops);
            self.ssd.write(offset, length, &mut |op| ops.push(op));
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
                Op::Program(place, _) => self.fill(now, place, read.take()),
                Op::Erase(_) => {
                    for die in 0..self.dies.len() as u32 {
                        self.dies[die as usize].add_long(Long::Erase);
                        self.kick(now, die);
                    }
                }
            }
        }
    }

    /// An IU goes to the row of `place`, after it was read at another place if so.
    fn fill(&mut self, now: Picos, place: Place, read: Option<(Place, Why)>) {
        self.buffered += u64::from(self.layout.iu_bytes);
        let number = self.layout.row(place);
        let within = self.layout.within(place);
        if within == 0 || !self.is_buffered(place) {
            // A drive that was aged before it had times begins in the midst of rows.
            let (arrived, buffered) = (within, 0);
            let row = self.rows.add(Row {
                number,
                arrived,
                buffered,
            });
            self.buffered_rows[number as usize] = row + 1;
        }
        let row = self.buffered_rows[number as usize] - 1;
        self.rows.get(row).buffered += 1;
        match read {
            Some((from, why)) if !self.is_buffered(from) => self.fetch(now, from, why, row),
            _ => self.send(now, row),
        }
    }

    /// Reads an IU for a row. Garbage collection reads a flash page once for all IUs it moves from
    /// there one after another.
    fn fetch(&mut self, now: Picos, from: Place, why: Why, row: u32) {
        let sense = self.layout.sense(from);
        let bytes = u64::from(self.layout.iu_bytes);
        if why != Why::Host
            && let Some((last, piece)) = self.moved
            && last == sense
        {
            let Some(piece) = piece else {
                return self.send(now, row);
            };
            let piece = self.pieces.get(piece);
            piece.bytes += bytes;
            if let Toward::Rows(rows) = &mut piece.toward {
                rows.push(row);
            }
            return;
        }
        let die = self.layout.die(sense.0);
        let toward = Toward::Rows(vec![row]);
        let piece = self.pieces.add(Piece { die, bytes, toward });
        if why != Why::Host {
            self.moved = Some((sense, Some(piece)));
        }
        self.dies[die as usize].add_move(piece);
        self.kick(now, die);
    }

    /// Sends an IU to the die of a row.
    fn send(&mut self, now: Picos, row: u32) {
        let die = self.layout.die(self.rows.get(row).number);
        let bytes = u64::from(self.layout.iu_bytes);
        let toward = Toward::Row(row);
        let piece = self.pieces.add(Piece { die, bytes, toward });
        self.cross(now, piece);
    }

    fn cross(&mut self, now: Picos, piece: u32) {
        let Piece { die, bytes, .. } = *self.pieces.get(piece);
        let channel = die as usize % self.channels.len();
        let at = self.channels[channel].serve(now, bytes);
        self.agenda.add(at, Event::Crossed(piece));
    }

    fn crossed(&mut self, now: Picos, number: u32) {
        let piece = self.pieces.take(number);
        match piece.toward {
            Toward::Host(command) => {
                let at = self.links[READ].serve(now, piece.bytes);
                self.agenda.add(at, Event::Linked(command));
            }
            Toward::Rows(rows) => {
                if let Some((_, moved)) = &mut self.moved
                    && *moved == Some(number)
                {
                    *moved = None;
                }
                rows.into_iter().for_each(|row| self.send(now, row));
            }
            Toward::Row(row) => self.arrived(now, row),
        }
    }

    /// An IU is at the die of its row; the row is programmed when all are.
    fn arrived(&mut self, now: Picos, row: u32) {
        let filling = self.rows.get(row);
        filling.arrived += 1;
        let number = filling.number;
        if filling.arrived < self.layout.size(number) {
            return;
        }
        let parity = self
            .layout
            .parity_die(number)
            .map(|die| (die, Long::Parity));
        let data = (self.layout.die(number), Long::Program(row));
        for (die, long) in core::iter::once(data).chain(parity) {
            self.dies[die as usize].add_long(long);
            self.kick(now, die);
        }
    }

    fn die_ended(&mut self, now: Picos, die: u32, begun: u64) {
        match self.dies[die as usize].end(begun) {
            Ended::Stale => return,
            Ended::Read(piece) => self.cross(now, piece),
            Ended::Long(long) => self.long_ended(now, long),
        }
        self.kick(now, die);
    }

    fn long_ended(&mut self, now: Picos, long: Long) {
        if !long.is_program() {
            return;
        }
        self.programming -= 1;
        if let Long::Program(row) = long {
            let Row {
                number, buffered, ..
            } = self.rows.take(row);
            if self.buffered_rows[number as usize] == row + 1 {
                self.buffered_rows[number as usize] = 0;
            }
            self.buffered -= u64::from(buffered) * u64::from(self.layout.iu_bytes);
            self.admit(now);
        }
        while self.programming < self.programs_max {
            let Some(die) = self.eager.pop_front() else {
                return;
            };
            self.dies[die as usize].is_eager = false;
            self.kick(now, die);
        }
    }

    /// Lets a die begin what it can.
    fn kick(&mut self, now: Picos, number: u32) {
        let may_program = self.programming < self.programs_max;
        let die = &mut self.dies[number as usize];
        match die.begin(now, &self.times, may_program) {
            Begin::Nothing => {}
            Begin::WantsToProgram => {
                if !core::mem::replace(&mut die.is_eager, true) {
                    self.eager.push_back(number);
                }
            }
            Begin::Ends {
                at,
                begun,
                is_program,
            } => {
                self.programming += u32::from(is_program);
                self.agenda.add(at, Event::Die(number, begun));
            }
        }
    }
}
