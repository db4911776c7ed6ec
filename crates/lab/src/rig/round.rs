//! A round: workers side by side, a window in which they are measured.
//!
//! 1. Each worker is a closed loop, which keeps its depth in flight, or an open one, whose requests are
//!    meant to begin at times that do not depend on what happens.
//! 2. The window opens; what the system had done until then is noted.
//! 3. It closes, by a count, by time, or when all workers have ended; then no request begins any more.
//!
//! **Invariants**: a request counts if it ends in the window. One of an open loop took as long as from its
//! intended start, whatever it waited for; its latency counts if that lies in the window too, else those of
//! a ramp that was too much would. What begins before the window takes nothing of a job's bytes.

use super::account::Sums;
use super::load::{Load, WATCHED};
use super::system::{Io, SystemError};
use super::worker::Worker;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_io::{Event, World};
use varve_units::Nanos;

/// Sleep at most: a flow that waits for its time is no halt of the run.
const NAP: Nanos = Nanos::from_secs(10);

/// When the window opens and closes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Span {
    /// After so much time or so many requests, whichever comes first.
    Counted {
        /// Until it opens: what buffers take at once must not count.
        ramp: (Nanos, u64),
        /// From then on.
        window: (Nanos, u64),
    },
    /// It opens at a time, and closes when all workers have ended, or after so many requests.
    Timed {
        /// Until it opens.
        ramp: Nanos,
        /// Requests in it at most.
        requests: u64,
    },
}

/// What the window has seen of one job.
#[derive(Default)]
pub(crate) struct Seen {
    /// Reads and writes that ended in it, and bytes of them.
    pub(crate) requests: [u64; 2],
    pub(crate) bytes: [u64; 2],
    /// How long they took; of an open loop, those that were meant to begin in it.
    pub(crate) latencies_ns: [Vec<u64>; 2],
    /// How long after the opening the last one ended.
    pub(crate) span: Nanos,
}

/// What was measured.
pub(crate) struct Measured {
    /// By job.
    pub(crate) seen: Vec<Seen>,
    /// What had been done when the window opened, and when it closed.
    pub(crate) sums: (Sums, Sums),
    /// It was closed before the workers had ended.
    pub(crate) is_cut: bool,
}

/// A round under way.
struct Round {
    load: Rc<Load>,
    span: Span,
    begun_at: Nanos,
    /// When all workers will have ended, if time ends them.
    until: Cell<Nanos>,
    open_at: Cell<Option<Nanos>>,
    /// Requests that ended, from the start, or from the opening of the window.
    ended: Cell<u64>,
    /// Workers that have not.
    live: Cell<usize>,
    is_over: Cell<bool>,
    is_cut: Cell<bool>,
    seen: RefCell<Vec<Seen>>,
    failure: Cell<Option<SystemError>>,
    changed: Event,
}

impl Load {
    /// Has workers, whose jobs are numbered below `jobs`, at work and measures them. With `drains` it
    /// ends when nothing is in flight any more.
    pub(crate) async fn measure(
        self: &Rc<Self>,
        workers: &[Rc<Worker>],
        jobs: usize,
        span: Span,
        drains: bool,
    ) -> Result<Measured, SystemError> {
        let begun_at = self.reactor.now();
        let open_at = match span {
            Span::Counted { .. } => None,
            Span::Timed { ramp, .. } => Some(begun_at + ramp),
        };
        let round = Rc::new(Round {
            load: Rc::clone(self),
            span,
            begun_at,
            until: Cell::new(begun_at),
            open_at: Cell::new(open_at),
            ended: Cell::new(0),
            live: Cell::new(workers.len()),
            is_over: Cell::new(false),
            is_cut: Cell::new(false),
            seen: RefCell::new((0..jobs).map(|_| Seen::default()).collect()),
            failure: Cell::new(None),
            changed: Event::new(),
        });
        let first = Sums::of(&*self.system);
        for worker in workers {
            round.begin(worker);
        }
        let before = round.opening(first).await;
        while !round.is_over.get() {
            round.changed.listen().await;
        }
        let after = Sums::of(&*self.system);
        if let Some(error) = round.failure.get() {
            return Err(error);
        }
        while drains && round.live.get() > 0 {
            round.changed.listen().await;
        }
        Ok(Measured {
            seen: round.seen.take(),
            sums: (before, after),
            is_cut: round.is_cut.get(),
        })
    }
}

impl Round {
    fn now(&self) -> Nanos {
        self.load.reactor.now()
    }

    /// The window is open: what begins now is of a job's bytes.
    fn counts(&self) -> bool {
        self.open_at.get().is_some_and(|at| self.now() >= at)
    }

    fn begin(self: &Rc<Self>, worker: &Rc<Worker>) {
        let ramp = match self.span {
            Span::Counted { .. } => Nanos(0),
            Span::Timed { ramp, .. } => ramp,
        };
        let until = worker.runtime.map_or(Nanos(u64::MAX), |runtime| {
            Nanos((self.begun_at + ramp).0.saturating_add(runtime.0))
        });
        self.until.set(self.until.get().max(until));
        let flows = if worker.is_open { 1 } else { worker.depth };
        worker.flows.set(flows);
        for _ in 0..flows {
            let (round, worker) = (Rc::clone(self), Rc::clone(worker));
            let reactor = &self.load.reactor;
            if worker.is_open {
                reactor.spawn(Box::pin(async move { round.open(&worker, until).await }));
            } else {
                reactor.spawn(Box::pin(async move { round.closed(&worker, until).await }));
            }
        }
    }

    /// Waits until the window opens; `first` is what had been done when the round began.
    async fn opening(&self, first: Sums) -> Sums {
        match self.span {
            Span::Counted { .. } => {
                while self.open_at.get().is_none() && !self.is_over.get() {
                    self.changed.listen().await;
                }
            }
            Span::Timed { ramp: Nanos(0), .. } => return first,
            Span::Timed { ramp, .. } => self.sleep_until(self.begun_at + ramp).await,
        }
        Sums::of(&*self.load.system)
    }

    async fn sleep_until(&self, at: Nanos) {
        while self.now() < at && !self.is_over.get() {
            let span = at.since(self.now()).min(NAP);
            self.load.reactor.sleep(span).await;
            self.load.reactor.progress();
        }
    }

    /// One of the flows of a closed loop.
    async fn closed(&self, worker: &Worker, until: Nanos) {
        while !self.is_over.get() && self.now() < until {
            let Some(io) = worker.next(None, self.counts()) else {
                break;
            };
            let begun = self.now();
            self.serve(worker, io, begun).await;
        }
        self.leave(worker);
    }

    async fn open(self: &Rc<Self>, worker: &Rc<Worker>, until: Nanos) {
        let starts = worker.starts.take();
        for start in starts.expect("a worker runs once") {
            let meant = Nanos(self.begun_at.0.saturating_add(start.at.0));
            if meant >= until {
                break;
            }
            self.sleep_until(meant).await;
            while worker.in_flight.get() >= worker.depth && !self.is_over.get() {
                worker.freed.listen().await;
            }
            if self.is_over.get() {
                break;
            }
            let Some(io) = worker.next(start.is_read, self.counts()) else {
                break;
            };
            worker.in_flight.set(worker.in_flight.get() + 1);
            let (round, whose) = (Rc::clone(self), Rc::clone(worker));
            self.load.reactor.spawn(Box::pin(async move {
                round.serve(&whose, io, meant).await;
                whose.in_flight.set(whose.in_flight.get() - 1);
                whose.freed.notify();
            }));
            if worker.is_done() {
                break;
            }
        }
        while worker.in_flight.get() > 0 {
            worker.freed.listen().await;
        }
        self.leave(worker);
    }

    async fn serve(&self, worker: &Worker, io: Io, begun: Nanos) {
        let served = Rc::clone(&self.load.system).serve(io).await;
        self.load.reactor.progress();
        match served {
            Ok(()) => self.end(worker, io, begun),
            Err(error) => {
                self.failure.set(Some(error));
                self.close();
            }
        }
    }

    fn end(&self, worker: &Worker, io: Io, begun: Nanos) {
        // What was under way when the window closed belongs to none: what drives did is summed up already.
        if self.is_over.get() {
            return;
        }
        let (now, ended) = (self.now(), self.ended.get() + 1);
        self.ended.set(ended);
        let Some(open_at) = self.open_at.get() else {
            if let Span::Counted { ramp, .. } = self.span
                && (now.since(self.begun_at) >= ramp.0 || ended >= ramp.1)
            {
                self.open_at.set(Some(now));
                self.ended.set(0);
                self.changed.notify();
            }
            return;
        };
        if now < open_at {
            self.ended.set(ended - 1);
            return;
        }
        let mut seen = self.seen.borrow_mut();
        let seen = &mut seen[worker.job];
        let way = usize::from(!io.is_read);
        seen.requests[way] += 1;
        seen.bytes[way] += io.bytes;
        seen.span = now.since(open_at);
        if !worker.is_open || begun >= open_at {
            seen.latencies_ns[way].push(now.since(begun).0);
        }
        let (share, is_full) = match self.span {
            Span::Counted {
                window: (time, requests),
                ..
            } => {
                let share = ended as f64 / requests as f64;
                let time_share = seen.span.0 as f64 / time.0 as f64;
                (
                    share.max(time_share),
                    seen.span >= time || ended >= requests,
                )
            }
            Span::Timed { requests, .. } => {
                let is_full = ended >= requests;
                self.is_cut.set(self.is_cut.get() | is_full);
                let time = self.until.get().since(open_at).0.max(1);
                let share = ended as f64 / requests as f64;
                (share.max(seen.span.0 as f64 / time as f64), is_full)
            }
        };
        if ended.is_multiple_of(WATCHED) {
            (self.load.watch)("measure", share.min(1.0), "");
        }
        if is_full {
            self.close();
        }
    }

    /// A flow of the worker has ended.
    fn leave(&self, worker: &Worker) {
        worker.flows.set(worker.flows.get() - 1);
        if worker.flows.get() > 0 {
            return;
        }
        self.live.set(self.live.get() - 1);
        if worker.ends_all || self.live.get() == 0 {
            self.close();
        }
        self.changed.notify();
    }

    fn close(&self) {
        self.is_over.set(true);
        self.changed.notify();
    }
}
