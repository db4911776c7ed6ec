//! A modelled drive at work on a timeline.
//!
//! Before a rig is started its drives take no time: fills and overwrites bring them, and what stands
//! on them, into the state in which measuring begins. From the start on every command takes what the
//! model says.

use super::error::RigError;
use super::zone_port::{self, ZonePort};
use crate::model::Model;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use varve_io::{Receiver, Sender, World, slot};
use varve_media::timed::{Ask, Request};
use varve_media::{AnySheet, Counters, Shape, Ssd, ZoneShape, Zones};
use varve_sim::executor::Reactor;
use varve_units::{BLOCK_BYTES, Nanos};

/// A modelled drive.
pub(crate) struct Station {
    sheet: AnySheet,
    bytes: u64,
    /// How it is divided, if it is zoned.
    zones: Option<ZoneShape>,
    /// Bytes of what it erases at once, if it has placement handles.
    reclaim_unit: Option<u64>,
    reactor: Rc<Reactor>,
    state: RefCell<State>,
    /// When it is to be looked at next.
    armed: Cell<Nanos>,
    itself: Weak<Self>,
    traffic: Cell<Traffic>,
}

/// Commands and bytes that reached a drive.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Traffic {
    /// Reads.
    pub(crate) reads: u64,
    /// Bytes read.
    pub(crate) read_bytes: u64,
    /// Writes.
    pub(crate) writes: u64,
    /// Bytes written.
    pub(crate) written_bytes: u64,
}

impl Traffic {
    /// What came since `before`.
    pub(crate) const fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            read_bytes: self.read_bytes - before.read_bytes,
            writes: self.writes - before.writes,
            written_bytes: self.written_bytes - before.written_bytes,
        }
    }
}

enum State {
    /// Not started.
    Ageing(Account),
    Running(Running),
}

/// What a drive that has not started keeps of what was done to it.
enum Account {
    /// Other media than flash have no state.
    None,
    Flash(Box<Ssd>),
    Zones(Box<Zones>),
}

struct Running {
    model: Model,
    /// Who waits, by the number of the command; and numbers that are free.
    waiting: Vec<Option<Sender<()>>>,
    free: Vec<usize>,
}

impl Station {
    /// A drive with the times of a sheet, and `bytes` of it in use: flash is made that small, in
    /// the ratios of its sheet. A zoned drive has all its zones, and a row of each in every die: it is
    /// not made smaller than that.
    ///
    /// # Errors
    /// If the sheet describes no such drive.
    pub(crate) fn new(
        sheet: &AnySheet,
        bytes: u64,
        reactor: &Rc<Reactor>,
    ) -> Result<Rc<Self>, RigError> {
        let (mut zones, mut reclaim_unit) = (None, None);
        let (account, bytes) = match sheet {
            AnySheet::Flash(sheet) => {
                let shape = Shape::scaled(sheet, bytes).map_err(RigError::Drive)?;
                let unit = u64::from(shape.unit_ius) * u64::from(shape.iu_bytes);
                reclaim_unit = (shape.placement.handles > 1).then_some(unit);
                (Account::Flash(Box::new(Ssd::new(shape))), shape.bytes)
            }
            AnySheet::InPlace(_) | AnySheet::Disk(_) => (Account::None, bytes),
            AnySheet::Zoned(sheet) => {
                let shape = ZoneShape::scaled(sheet, bytes).map_err(RigError::ZoneShape)?;
                zones = Some(shape);
                let account = Account::Zones(Box::new(Zones::new(shape)));
                (account, shape.capacity())
            }
        };
        Ok(Rc::new_cyclic(|itself| Self {
            sheet: sheet.clone(),
            bytes,
            zones,
            reclaim_unit,
            reactor: Rc::clone(reactor),
            state: RefCell::new(State::Ageing(account)),
            armed: Cell::new(Nanos(u64::MAX)),
            itself: Weak::clone(itself),
            traffic: Cell::default(),
        }))
    }

    /// Bytes of it in use.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        self.sheet.name()
    }

    /// True if what was done to it decides what it does: flash.
    pub(crate) const fn has_state(&self) -> bool {
        matches!(self.sheet, AnySheet::Flash(_) | AnySheet::Zoned(_))
    }

    /// Placement handles of it: 1 of a drive without placement.
    pub(crate) fn handles(&self) -> u8 {
        match &self.sheet {
            AnySheet::Flash(sheet) => sheet.placement().handles,
            _ => 1,
        }
    }

    /// Bytes of a reclaim unit, if it has placement handles.
    pub(crate) const fn reclaim_unit(&self) -> Option<u64> {
        self.reclaim_unit
    }

    /// Bytes that it writes at once, whatever is written: an IU of flash behind an internal FTL.
    pub(crate) fn iu_bytes(&self) -> u64 {
        match &self.sheet {
            AnySheet::Flash(sheet) => sheet.flash.iu_bytes.value.into(),
            AnySheet::InPlace(_) | AnySheet::Disk(_) | AnySheet::Zoned(_) => BLOCK_BYTES,
        }
    }

    /// How it is divided, if it is zoned. Its bytes are those of the zones that can be written, one zone
    /// behind the other.
    pub(crate) const fn zones(&self) -> Option<&ZoneShape> {
        self.zones.as_ref()
    }

    /// Its zones in words, with how many have been active at once since it started.
    pub(crate) fn zones_in_words(&self) -> Option<String> {
        let shape = self.zones?;
        let active = match &*self.state.borrow() {
            State::Running(Running {
                model: Model::Zones(port),
                ..
            }) => port.active_most(),
            _ => 0,
        };
        Some(format!(
            "{} of {} KiB, {active} of {} active at most",
            shape.zones,
            shape.capacity_bytes >> 10,
            shape.active_max
        ))
    }

    /// Bytes that were written of each zone since its reset.
    #[cfg(test)]
    pub(crate) fn zones_written(&self) -> Vec<u64> {
        let of = |zones: &Zones| zones.all().iter().map(|zone| zone.written).collect();
        match &*self.state.borrow() {
            State::Ageing(Account::Zones(zones)) => of(zones),
            State::Running(Running {
                model: Model::Zones(port),
                ..
            }) => of(port.zones()),
            _ => Vec::new(),
        }
    }

    /// What reached it so far.
    pub(crate) const fn traffic(&self) -> Traffic {
        self.traffic.get()
    }

    /// What its media did so far.
    pub(crate) fn counters(&self) -> Counters {
        match &*self.state.borrow() {
            State::Ageing(Account::None) => Counters::default(),
            State::Ageing(Account::Flash(ssd)) => *ssd.counters(),
            State::Ageing(Account::Zones(zones)) => *zones.counters(),
            State::Running(running) => *running.model.counters(),
        }
    }

    /// From here on commands take time.
    pub(crate) fn start(&self) {
        let mut state = self.state.borrow_mut();
        if let State::Ageing(account) = &mut *state {
            let model = match (std::mem::replace(account, Account::None), &self.sheet) {
                (Account::Zones(zones), AnySheet::Zoned(sheet)) => {
                    Model::Zones(Box::new(ZonePort::new(*zones, sheet)))
                }
                (Account::Flash(ssd), sheet) => Model::of(sheet, Some(ssd)),
                (_, sheet) => Model::of(sheet, None),
            };
            *state = State::Running(Running {
                model,
                waiting: Vec::new(),
                free: Vec::new(),
            });
        }
    }

    /// Starts a command.
    ///
    /// # Panics
    /// If the range is not made of 512 B sectors of the drive, or a zoned one cannot take it: see
    /// [`ZonePort`].
    pub(crate) fn ask(&self, ask: Ask, offset: u64, length: u64) -> Receiver<()> {
        self.ask_under(0, ask, offset, length)
    }

    /// Writes bytes under a placement handle, one of [`Station::handles`].
    pub(crate) fn write_under(&self, handle: u8, offset: u64, length: u64) -> Receiver<()> {
        self.ask_under(handle, Ask::Write, offset, length)
    }

    fn ask_under(&self, handle: u8, ask: Ask, offset: u64, length: u64) -> Receiver<()> {
        assert!(
            offset
                .checked_add(length)
                .is_some_and(|end| end <= self.bytes),
            "range {offset}+{length} beyond the end"
        );
        self.count(ask, length);
        let (sender, receiver) = slot();
        match &mut *self.state.borrow_mut() {
            State::Ageing(account) => {
                match account {
                    Account::None => {}
                    Account::Flash(ssd) => age(ssd, handle, ask, offset, length),
                    Account::Zones(zones) => zone_port::age(zones, ask, offset, length),
                }
                sender.send(());
                return receiver;
            }
            State::Running(running) => {
                let id = running.enlist(sender);
                let request = Request {
                    id,
                    ask,
                    offset,
                    length,
                    handle,
                };
                running.model.submit(self.reactor.now(), request);
            }
        }
        self.arm();
        receiver
    }

    /// Reads bytes.
    pub(crate) fn read(&self, offset: u64, length: u64) -> Receiver<()> {
        self.ask(Ask::Read, offset, length)
    }

    /// Writes bytes.
    pub(crate) fn write(&self, offset: u64, length: u64) -> Receiver<()> {
        self.ask(Ask::Write, offset, length)
    }

    fn count(&self, ask: Ask, length: u64) {
        let mut traffic = self.traffic.get();
        match ask {
            Ask::Read => {
                traffic.reads += 1;
                traffic.read_bytes += length;
            }
            Ask::Write => {
                traffic.writes += 1;
                traffic.written_bytes += length;
            }
            Ask::Deallocate | Ask::Flush => {}
        }
        self.traffic.set(traffic);
    }

    /// Has the drive looked at when it has something to do.
    fn arm(&self) {
        let next = match &*self.state.borrow() {
            State::Running(running) => running.model.next(),
            State::Ageing(_) => None,
        };
        let Some(next) = next.filter(|next| *next < self.armed.get()) else {
            return;
        };
        self.armed.set(next);
        let itself = Weak::clone(&self.itself);
        self.reactor.at(next, move || {
            // An alarm that an earlier one has overtaken is void.
            if let Some(station) = itself.upgrade()
                && station.armed.get() == next
            {
                station.armed.set(Nanos(u64::MAX));
                station.advance();
            }
        });
    }

    fn advance(&self) {
        let mut ended = Vec::new();
        if let State::Running(running) = &mut *self.state.borrow_mut() {
            let Running {
                model,
                waiting,
                free,
            } = running;
            model.advance(self.reactor.now(), &mut |id, _| {
                free.push(id as usize);
                ended.extend(waiting[id as usize].take());
            });
        }
        self.arm();
        ended.into_iter().for_each(|sender| sender.send(()));
    }
}

impl Running {
    fn enlist(&mut self, sender: Sender<()>) -> u64 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        self.waiting[id] = Some(sender);
        id as u64
    }
}

fn age(ssd: &mut Ssd, handle: u8, ask: Ask, offset: u64, length: u64) {
    match ask {
        Ask::Write => {
            ssd.write_to(handle, offset, length, &mut |_| {});
        }
        Ask::Deallocate => {
            ssd.deallocate(offset, length);
        }
        Ask::Read | Ask::Flush => {}
    }
}
