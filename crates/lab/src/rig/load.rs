//! The load: it brings a system into the state in which measuring begins, and measures.

use super::mix::{Mix, Places};
use super::system::{Io, System, SystemError};
use crate::recovery::Watch;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_io::World;
use varve_sim::executor::Reactor;
use varve_units::Nanos;

/// Bytes of a request of the fill.
const FILL_BYTES: u64 = 512 << 10;
/// Requests in flight before time counts, in all.
const FILL_DEPTH: usize = 64;
/// Requests from one look of the watch to the next.
const WATCHED: u64 = 1 << 14;

/// How long it is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    /// Time, and requests, before: what buffers take at once must not count. Whichever ends first.
    pub(crate) ramp: (Nanos, u64),
    /// Time, and requests, of the window. Whichever ends first.
    pub(crate) window: (Nanos, u64),
}

/// What the window has seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// Latencies of reads and of writes.
    pub(crate) latencies_ns: [Vec<u64>; 2],
    /// How long it was.
    pub(crate) span: Nanos,
}

/// A load on a system.
pub(crate) struct Load {
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) system: Rc<dyn System>,
    pub(crate) watch: Watch,
}

/// Requests of one phase before time counts.
struct Phase {
    name: &'static str,
    requests: u64,
    bytes: u64,
    begun: Cell<u64>,
    failure: Cell<Option<SystemError>>,
}

impl Load {
    /// Writes all addresses in order, every job its own, then writes `passes` times as much by the
    /// mix's law.
    pub(crate) async fn age(
        self: &Rc<Self>,
        mix: &Mix,
        places: &Rc<RefCell<Vec<Places>>>,
        passes: f64,
    ) -> Result<(), SystemError> {
        let size = self.system.bytes();
        let fills = size / FILL_BYTES;
        self.phase(("fill", FILL_BYTES, fills), |number| number * FILL_BYTES)
            .await?;
        let places = Rc::clone(places);
        let writes = (size as f64 * passes) as u64 / mix.bytes;
        self.phase(("age", mix.bytes, writes), move |number| {
            let mut places = places.borrow_mut();
            let job = number as usize % places.len();
            places[job].next().1
        })
        .await
    }

    async fn phase(
        self: &Rc<Self>,
        (name, bytes, requests): (&'static str, u64, u64),
        place: impl Fn(u64) -> u64 + 'static,
    ) -> Result<(), SystemError> {
        let phase = Rc::new(Phase {
            name,
            requests,
            bytes,
            begun: Cell::new(0),
            failure: Cell::new(None),
        });
        let place = Rc::new(place);
        let world: &dyn World = &*self.reactor;
        let flows: Vec<_> = (0..FILL_DEPTH)
            .map(|_| {
                let (load, phase, place) = (Rc::clone(self), Rc::clone(&phase), Rc::clone(&place));
                world.run(async move { load.flow(&phase, &*place).await })
            })
            .collect();
        for flow in flows {
            flow.await;
        }
        phase.failure.get().map_or(Ok(()), Err)
    }

    async fn flow(&self, phase: &Phase, place: &dyn Fn(u64) -> u64) {
        loop {
            let number = phase.begun.get();
            if number >= phase.requests {
                return;
            }
            phase.begun.set(number + 1);
            if number.is_multiple_of(WATCHED) {
                (self.watch)(phase.name, number as f64 / phase.requests as f64, "");
            }
            let io = Io {
                is_read: false,
                offset: place(number),
                bytes: phase.bytes,
            };
            self.reactor.progress();
            if let Err(error) = Rc::clone(&self.system).serve(io).await {
                phase.failure.set(phase.failure.get().or(Some(error)));
                phase.begun.set(phase.requests);
            }
        }
    }

    /// Keeps the mix's requests in flight and measures; `mark` is called when the window opens.
    pub(crate) async fn measure(
        self: &Rc<Self>,
        mix: &Mix,
        places: &Rc<RefCell<Vec<Places>>>,
        span: Span,
        mark: impl FnOnce(),
    ) -> Result<Seen, SystemError> {
        let closed = Rc::new(ClosedLoop {
            load: Rc::clone(self),
            places: Rc::clone(places),
            bytes: mix.bytes,
            span,
            begun_at: self.reactor.now(),
            open_at: Cell::new(None),
            ended: Cell::new(0),
            is_over: Cell::new(false),
            seen: RefCell::default(),
            failure: Cell::new(None),
            changed: varve_io::Event::new(),
        });
        for job in 0..mix.jobs {
            for _ in 0..mix.depth {
                let flow = Rc::clone(&closed);
                self.reactor
                    .spawn(Box::pin(async move { flow.run(job).await }));
            }
        }
        let mut mark = Some(mark);
        while !closed.is_over.get() {
            closed.changed.listen().await;
            if closed.open_at.get().is_some()
                && let Some(mark) = mark.take()
            {
                mark();
            }
        }
        closed
            .failure
            .get()
            .map_or_else(|| Ok(closed.seen.take()), Err)
    }
}

/// So many requests in flight, each that ends is followed by another at once.
struct ClosedLoop {
    load: Rc<Load>,
    places: Rc<RefCell<Vec<Places>>>,
    bytes: u64,
    span: Span,
    begun_at: Nanos,
    /// When the window opened.
    open_at: Cell<Option<Nanos>>,
    /// Requests that ended, from the start, or from the opening of the window.
    ended: Cell<u64>,
    is_over: Cell<bool>,
    seen: RefCell<Seen>,
    failure: Cell<Option<SystemError>>,
    changed: varve_io::Event,
}

impl ClosedLoop {
    async fn run(&self, job: u32) {
        while !self.is_over.get() {
            let (is_read, offset) = self.places.borrow_mut()[job as usize].next();
            let io = Io {
                is_read,
                offset,
                bytes: self.bytes,
            };
            let begun = self.load.reactor.now();
            let served = Rc::clone(&self.load.system).serve(io).await;
            self.load.reactor.progress();
            match served {
                Ok(()) => self.end(is_read, begun),
                Err(error) => {
                    self.failure.set(Some(error));
                    self.is_over.set(true);
                    self.changed.notify();
                }
            }
        }
    }

    fn end(&self, is_read: bool, begun: Nanos) {
        let now = self.load.reactor.now();
        let ended = self.ended.get() + 1;
        self.ended.set(ended);
        let Some(open_at) = self.open_at.get() else {
            let (time, requests) = self.span.ramp;
            if now.since(self.begun_at) >= time || ended >= requests {
                self.open_at.set(Some(now));
                self.ended.set(0);
                self.changed.notify();
            }
            return;
        };
        let mut seen = self.seen.borrow_mut();
        seen.latencies_ns[usize::from(!is_read)].push(now.since(begun).0);
        seen.span = now.since(open_at);
        let (time, requests) = self.span.window;
        if ended.is_multiple_of(WATCHED) {
            let share = (ended as f64 / requests as f64).max(seen.span.0 as f64 / time.0 as f64);
            (self.load.watch)("measure", share.min(1.0), "");
        }
        if seen.span >= time || ended >= requests {
            self.is_over.set(true);
            self.changed.notify();
        }
    }
}
