//! Whoever asks a system: a job, or a clone of one.

use super::bursts::BurstStarts;
use super::mix::Places;
use super::system::Io;
use crate::draw::Poisson;
use crate::fio::{Arrivals, Stream};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_io::Event;
use varve_units::Nanos;

/// Which requests come.
pub(crate) enum Source {
    /// Of a mix.
    Places(Places),
    /// Of a job file: places count from the start of the tenant's part.
    Stream(Box<Stream>),
}

/// When requests of an open loop are meant to begin.
pub(crate) enum Starts {
    /// Of a mix, which draws itself what comes.
    Poisson(Poisson),
    /// The same, in bursts.
    Bursts(BurstStarts),
    /// Of a job file.
    Arrivals(Arrivals),
}

/// The intended start of a request.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    /// From the start of the round.
    pub(crate) at: Nanos,
    /// What, if that is not left to the source.
    pub(crate) is_read: Option<bool>,
}

impl Iterator for Starts {
    type Item = Start;

    fn next(&mut self) -> Option<Start> {
        let drawn = |at| Start {
            at: Nanos(at),
            is_read: None,
        };
        match self {
            Self::Poisson(process) => process.next().map(drawn),
            Self::Bursts(starts) => starts.next().map(drawn),
            Self::Arrivals(arrivals) => arrivals.next().map(|arrival| Start {
                at: Nanos(arrival.at_ns),
                is_read: Some(arrival.is_read),
            }),
        }
    }
}

/// Whoever asks a system.
pub(crate) struct Worker {
    /// Among whose figures its own count.
    pub(crate) job: usize,
    /// Where its tenant's part begins.
    pub(crate) first: u64,
    /// Requests it has in flight, at most if it is an open loop.
    pub(crate) depth: u32,
    /// Shared with whoever goes on where it ends.
    pub(crate) source: Rc<RefCell<Source>>,
    /// Of an open loop, until it runs.
    pub(crate) starts: RefCell<Option<Starts>>,
    pub(crate) is_open: bool,
    /// Bytes of the window after which it ends, and those of them that have not begun.
    pub(crate) left: Cell<u64>,
    /// Time after which it ends, behind the ramp.
    pub(crate) runtime: Option<Nanos>,
    /// Its end is the end of all.
    pub(crate) ends_all: bool,
    /// It writes, if only now and then.
    pub(crate) writes: bool,
    /// Flows of it that have not ended.
    pub(crate) flows: Cell<u32>,
    /// Requests in flight of an open loop, and where one ended.
    pub(crate) in_flight: Cell<u32>,
    pub(crate) freed: Event,
}

impl Worker {
    /// A closed loop, or an open one; it ends after so many bytes, if ever.
    pub(crate) fn new(
        (job, first, depth): (usize, u64, u32),
        source: Source,
        starts: Option<Starts>,
        bytes: Option<u64>,
    ) -> Self {
        Self {
            job,
            first,
            depth,
            source: Rc::new(RefCell::new(source)),
            is_open: starts.is_some(),
            starts: RefCell::new(starts),
            left: Cell::new(bytes.unwrap_or(u64::MAX)),
            runtime: None,
            ends_all: false,
            writes: true,
            flows: Cell::new(0),
            in_flight: Cell::new(0),
            freed: Event::new(),
        }
    }

    /// One that goes on where this one is, as an open loop, for so long.
    pub(crate) fn opened(&self, starts: Starts, runtime: Nanos) -> Self {
        Self {
            source: Rc::clone(&self.source),
            is_open: true,
            starts: RefCell::new(Some(starts)),
            runtime: Some(runtime),
            flows: Cell::new(0),
            in_flight: Cell::new(0),
            freed: Event::new(),
            left: self.left.clone(),
            ..*self
        }
    }

    /// True if all its bytes have begun.
    pub(crate) const fn is_done(&self) -> bool {
        self.left.get() == 0
    }

    /// The next request, of a direction if one is told; none when all bytes have begun. One that does not count, since
    /// the window is not open, takes nothing of them.
    pub(crate) fn next(&self, is_read: Option<bool>, counts: bool) -> Option<Io> {
        if self.is_done() {
            return None;
        }
        let io = self.draw(is_read);
        if counts {
            self.left.set(self.left.get().saturating_sub(io.bytes));
        }
        Some(io)
    }

    /// The place of a request, as a write: for the time before time counts.
    pub(crate) fn next_write(&self) -> Io {
        Io {
            is_read: false,
            ..self.draw(Some(false))
        }
    }

    fn draw(&self, is_read: Option<bool>) -> Io {
        match &mut *self.source.borrow_mut() {
            Source::Places(places) => places.next(),
            Source::Stream(stream) => {
                let io = match is_read {
                    Some(is_read) => stream.next_of(is_read),
                    None => stream.next().expect("a stream has no end"),
                };
                Io {
                    is_read: io.is_read,
                    offset: self.first + io.offset,
                    bytes: io.bytes,
                }
            }
        }
    }
}
