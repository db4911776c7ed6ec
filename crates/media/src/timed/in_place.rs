//! A drive that writes in place, in time: Optane.
//!
//! A read passes controller, firmware, banks, channels, link; a write passes controller, firmware,
//! link, channels, banks, and ends when it is in its place. Banks take 4 KiB, one after another.

use super::agenda::Agenda;
use super::rate::{NANO, Picos, Server};
use super::slab::Slab;
use super::{Ask, READ, Request, Underway, WRITE};
use crate::any_sheet::InPlaceSheet;
use crate::counters::Counters;
use alloc::vec::Vec;
use varve_units::{BLOCK_BYTES, Nanos};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A command has passed the controller and its firmware.
    Understood(u32),
    /// A part of a command's data has crossed the link.
    Linked(u32),
    /// A piece has crossed the channel of its bank.
    Crossed(u32),
    /// A piece was read or written.
    Accessed(u32),
    /// A command is done.
    Done(u32),
}

struct Piece {
    command: u32,
    bank: u32,
    bytes: u64,
}

/// A drive that writes in place.
pub struct InPlaceDrive {
    bytes: u64,
    commands: [Server; 2],
    firmware: [Picos; 2],
    links: [Server; 2],
    channels: Vec<Server>,
    access: Picos,
    banks_free_at: Vec<Picos>,
    underway: Slab<Underway>,
    pieces: Slab<Piece>,
    agenda: Agenda<Event>,
    counters: Counters,
}

impl InPlaceDrive {
    /// The drive of a sheet.
    #[must_use]
    pub fn new(sheet: &InPlaceSheet) -> Self {
        let (controller, media) = (&sheet.controller, &sheet.in_place);
        let channel = |_| Server::new(media.channel_bytes.value);
        Self {
            bytes: sheet.capacity.user_bytes.value,
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
            channels: (0..media.channels.value).map(channel).collect(),
            access: media.access_ns.value * NANO,
            banks_free_at: (0..media.banks.value).map(|_| 0).collect(),
            underway: Slab::new(),
            pieces: Slab::new(),
            agenda: Agenda::new(),
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
        self.agenda.next().map(|at| Nanos(at.div_ceil(NANO)))
    }

    /// Submits a command.
    ///
    /// # Panics
    /// If its range is not the drive's.
    pub fn submit(&mut self, now: Nanos, request: Request) {
        let end = request.offset.checked_add(request.length);
        assert!(end.is_some_and(|end| end <= self.bytes), "{request:?}");
        let way = if request.ask == Ask::Read {
            READ
        } else {
            WRITE
        };
        let at = self.commands[way].serve(now.0 * NANO, 1) + self.firmware[way];
        let command = self.underway.add(Underway { request, parts: 0 });
        self.agenda.add(at, Event::Understood(command));
    }

    /// Lets everything happen that does until `now`; `done` gets the numbers of commands that ended,
    /// with the time they did.
    pub fn advance(&mut self, now: Nanos, done: &mut impl FnMut(u64, Nanos)) {
        while let Some((at, event)) = self.agenda.pop(now.0 * NANO) {
            match event {
                Event::Understood(command) => self.understood(at, command),
                Event::Linked(command) => self.linked(at, command),
                Event::Crossed(piece) => self.crossed(at, piece),
                Event::Accessed(piece) => self.accessed(at, piece),
                Event::Done(command) => {
                    let request = self.underway.take(command).request;
                    done(request.id, Nanos(at.div_ceil(NANO)));
                }
            }
        }
    }

    fn understood(&mut self, now: Picos, command: u32) {
        let request = self.underway.get(command).request;
        match request.ask {
            Ask::Read => self.cut(command, |drive, piece| drive.access(now, piece)),
            Ask::Write => {
                self.counters.host_bytes += request.length;
                self.counters.media_bytes += request.length;
                let at = self.links[WRITE].serve(now, request.length);
                self.agenda.add(at, Event::Linked(command));
            }
            Ask::Deallocate | Ask::Flush => self.agenda.add(now, Event::Done(command)),
        }
    }

    /// Cuts a command into the pieces of its banks.
    fn cut(&mut self, command: u32, mut begin: impl FnMut(&mut Self, u32)) {
        let Request { offset, length, .. } = self.underway.get(command).request;
        assert!(length > 0, "a command for nothing");
        let blocks = offset / BLOCK_BYTES..(offset + length).div_ceil(BLOCK_BYTES);
        self.underway.get(command).parts = (blocks.end - blocks.start) as u32;
        for block in blocks {
            let from = offset.max(block * BLOCK_BYTES);
            let to = (offset + length).min((block + 1) * BLOCK_BYTES);
            let piece = self.pieces.add(Piece {
                command,
                bank: (block % self.banks_free_at.len() as u64) as u32,
                bytes: to - from,
            });
            begin(self, piece);
        }
    }

    fn access(&mut self, now: Picos, piece: u32) {
        let free_at = &mut self.banks_free_at[self.pieces.get(piece).bank as usize];
        *free_at = now.max(*free_at) + self.access;
        self.agenda.add(*free_at, Event::Accessed(piece));
    }

    fn cross(&mut self, now: Picos, piece: u32) {
        let Piece { bank, bytes, .. } = *self.pieces.get(piece);
        let channel = bank as usize % self.channels.len();
        let at = self.channels[channel].serve(now, bytes);
        self.agenda.add(at, Event::Crossed(piece));
    }

    fn is_read(&mut self, piece: u32) -> bool {
        let command = self.pieces.get(piece).command;
        self.underway.get(command).request.ask == Ask::Read
    }

    fn accessed(&mut self, now: Picos, piece: u32) {
        if self.is_read(piece) {
            return self.cross(now, piece);
        }
        let command = self.pieces.take(piece).command;
        self.part_ended(now, command);
    }

    fn crossed(&mut self, now: Picos, piece: u32) {
        if !self.is_read(piece) {
            return self.access(now, piece);
        }
        let Piece { command, bytes, .. } = self.pieces.take(piece);
        let at = self.links[READ].serve(now, bytes);
        self.agenda.add(at, Event::Linked(command));
    }

    fn linked(&mut self, now: Picos, command: u32) {
        if self.underway.get(command).request.ask == Ask::Read {
            self.part_ended(now, command);
        } else {
            self.cut(command, |drive, piece| drive.cross(now, piece));
        }
    }

    fn part_ended(&mut self, now: Picos, command: u32) {
        let underway = self.underway.get(command);
        underway.parts -= 1;
        if underway.parts == 0 {
            self.agenda.add(now, Event::Done(command));
        }
    }
}
