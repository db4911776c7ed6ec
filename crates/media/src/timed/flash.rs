//! The flash of a drive in time: dies behind channels, and the rows on their way to them.
//!
//! A machine of its own: the drive says what to read, fill and erase, [`Flash::next`] says when
//! something happens, [`Flash::step`] lets it happen and tells what the drive must know of it.
//!
//! 1. A read of a host interrupts what its die programs or erases, then crosses the die's channel.
//! 2. What fills a row crosses the channel; the row is programmed when all of it is there, by at most
//!    so many dies at once, and a row of parity after it where one is due.
//! 3. The drive's own reads interrupt nothing; what they read goes to the rows it was read for.
//!
//! **Not here**: what a place holds, how much may be on its way (the drive's buffer).

use super::agenda::Agenda;
use super::die::{Begin, Die, Ended, Long, Times};
use super::layout::Layout;
use super::rate::{Picos, Server};
use super::slab::Slab;
use crate::op::{Place, Why};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The die's operation of this number ends.
    Die(u32, u64),
    /// A piece has crossed the channel of its die.
    Crossed(u32),
}

/// What flash is made of.
pub(crate) struct Parts {
    pub(crate) times: Times,
    pub(crate) dies: u32,
    /// Dies that may program at once.
    pub(crate) programs_max: u32,
    pub(crate) channels: u32,
    /// Bytes a second of a channel.
    pub(crate) channel_bytes: u64,
}

/// What the drive must know.
#[derive(Clone, Copy)]
pub(crate) enum Came {
    /// Data of a command of the drive's came from a die.
    Read { command: u32, bytes: u64 },
    /// A row was programmed, which kept so many bytes of the buffer.
    Freed { bytes: u64 },
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
    /// Bytes of it that take room in the buffer.
    buffered: u64,
}

pub(crate) struct Flash {
    layout: Layout,
    times: Times,
    channels: Vec<Server>,
    dies: Vec<Die>,
    /// Dies that program, and how many may.
    programming: u32,
    programs_max: u32,
    /// Dies that would program if they might.
    eager: VecDeque<u32>,
    pieces: Slab<Piece>,
    rows: Slab<Row>,
    /// Where in the slab each row of the flash is that is on its way.
    underway: BTreeMap<u32, u32>,
    /// What garbage collection read last, and the piece while it is under way.
    moved: Option<((u32, u32), Option<u32>)>,
    agenda: Agenda<Event>,
}

impl Flash {
    pub(crate) fn new(layout: Layout, parts: Parts) -> Self {
        let channel = |_| Server::new(parts.channel_bytes);
        Self {
            layout,
            times: parts.times,
            channels: (0..parts.channels).map(channel).collect(),
            dies: (0..parts.dies).map(|_| Die::new()).collect(),
            programming: 0,
            programs_max: parts.programs_max,
            eager: VecDeque::new(),
            pieces: Slab::new(),
            rows: Slab::new(),
            underway: BTreeMap::new(),
            moved: None,
            agenda: Agenda::new(),
        }
    }

    pub(crate) const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Option<Picos> {
        self.agenda.next()
    }

    /// Lets the next thing happen, if it does until `now`.
    pub(crate) fn step(&mut self, now: Picos) -> Option<(Picos, Option<Came>)> {
        let (at, event) = self.agenda.pop(now)?;
        let came = match event {
            Event::Die(die, begun) => self.die_ended(at, die, begun),
            Event::Crossed(piece) => self.crossed(at, piece),
        };
        Some((at, came))
    }

    /// True if a place is read from the buffer: its row is not programmed yet.
    pub(crate) fn is_buffered(&self, place: Place) -> bool {
        self.underway.contains_key(&self.layout.row(place))
    }

    /// The parts of a read: one for each flash page over all planes, named by what is sensed
    /// together, and without a name what needs no die. `place` says where a byte lies.
    ///
    /// # Panics
    /// If there is nothing to read.
    pub(crate) fn parts(
        &self,
        offset: u64,
        length: u64,
        place: impl Fn(u64) -> Option<Place>,
    ) -> Vec<(Option<(u32, u32)>, u64)> {
        assert!(length > 0, "a read of nothing");
        let iu = u64::from(self.layout.iu_bytes);
        let mut parts: Vec<(Option<(u32, u32)>, u64)> = Vec::new();
        let mut at = offset;
        while at < offset + length {
            let end = (at / iu * iu + iu).min(offset + length);
            let on_die = place(at).filter(|place| !self.is_buffered(*place));
            let sense = on_die.map(|place| self.layout.sense(place));
            match parts.last_mut() {
                Some((last, bytes)) if *last == sense => *bytes += end - at,
                _ => parts.push((sense, end - at)),
            }
            at = end;
        }
        parts
    }

    /// Reads a part of a row for a command.
    pub(crate) fn read(&mut self, now: Picos, row: u32, bytes: u64, command: u32) {
        let die = self.layout.die(row);
        let toward = Toward::Host(command);
        let piece = self.pieces.add(Piece { die, bytes, toward });
        self.dies[die as usize].add_read(piece);
        self.kick(now, die);
    }

    /// An IU goes to the row of `place`, after it was read at another place if so.
    pub(crate) fn fill(&mut self, now: Picos, place: Place, read: Option<(Place, Why)>) {
        let number = self.layout.row(place);
        let within = self.layout.within(place);
        if within == 0 || !self.is_buffered(place) {
            // A drive that was aged before it had times begins in the midst of rows.
            self.begin_row(number, within, 0);
        }
        let row = self.underway[&number];
        self.rows.get(row).buffered += u64::from(self.layout.iu_bytes);
        match read {
            Some((from, why)) if !self.is_buffered(from) => self.fetch(now, from, why, row),
            _ => self.send(now, row, u64::from(self.layout.iu_bytes)),
        }
    }

    /// A row that is on its way goes to its die as a whole.
    pub(crate) fn send_row(&mut self, now: Picos, row: u32) {
        let ius = self.layout.size(self.rows.get(row).number);
        let bytes = u64::from(ius) * u64::from(self.layout.iu_bytes);
        self.send(now, row, bytes);
    }

    /// Each die erases its part of an erase unit.
    pub(crate) fn erase(&mut self, now: Picos) {
        for die in 0..self.dies.len() as u32 {
            self.dies[die as usize].add_long(Long::Erase);
            self.kick(now, die);
        }
    }

    /// A row is on its way from here on, so many IUs of it at its die and `buffered` bytes in the
    /// buffer; returns the name under which it is.
    pub(crate) fn begin_row(&mut self, number: u32, arrived: u32, buffered: u64) -> u32 {
        let row = self.rows.add(Row {
            number,
            arrived,
            buffered,
        });
        self.underway.insert(number, row);
        row
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
                return self.send(now, row, bytes);
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

    /// Sends IUs to the die of a row.
    fn send(&mut self, now: Picos, row: u32, bytes: u64) {
        let die = self.layout.die(self.rows.get(row).number);
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

    fn crossed(&mut self, now: Picos, number: u32) -> Option<Came> {
        let Piece { bytes, toward, .. } = self.pieces.take(number);
        match toward {
            Toward::Host(command) => return Some(Came::Read { command, bytes }),
            Toward::Rows(rows) => {
                if let Some((_, moved)) = &mut self.moved
                    && *moved == Some(number)
                {
                    *moved = None;
                }
                let iu = u64::from(self.layout.iu_bytes);
                rows.into_iter().for_each(|row| self.send(now, row, iu));
            }
            Toward::Row(row) => self.arrived(now, row, bytes),
        }
        None
    }

    /// IUs are at the die of their row; the row is programmed when all are.
    fn arrived(&mut self, now: Picos, row: u32, bytes: u64) {
        let filling = self.rows.get(row);
        filling.arrived += (bytes / u64::from(self.layout.iu_bytes)) as u32;
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

    fn die_ended(&mut self, now: Picos, die: u32, begun: u64) -> Option<Came> {
        let came = match self.dies[die as usize].end(begun) {
            Ended::Stale => return None,
            Ended::Read(piece) => {
                self.cross(now, piece);
                None
            }
            Ended::Long(long) => self.long_ended(now, long),
        };
        self.kick(now, die);
        came
    }

    fn long_ended(&mut self, now: Picos, long: Long) -> Option<Came> {
        if !long.is_program() {
            return None;
        }
        self.programming -= 1;
        while self.programming < self.programs_max {
            let Some(die) = self.eager.pop_front() else {
                break;
            };
            self.dies[die as usize].is_eager = false;
            self.kick(now, die);
        }
        let Long::Program(row) = long else {
            return None;
        };
        let Row {
            number, buffered, ..
        } = self.rows.take(row);
        // Since then the row may have been erased and filled again.
        if self.underway.get(&number) == Some(&row) {
            self.underway.remove(&number);
        }
        Some(Came::Freed { bytes: buffered })
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
