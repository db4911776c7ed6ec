//! The load, before time counts: it brings a system into the state in which measuring begins.

use super::system::{Io, System, SystemError};
use super::worker::Worker;
use crate::draw::Random;
use crate::recovery::Watch;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_io::World;
use varve_sim::executor::Reactor;

/// Bytes of a request of the fill.
const FILL_BYTES: u64 = 512 << 10;
/// Requests in flight before time counts, in all.
const FILL_DEPTH: usize = 64;
/// Requests from one look of the watch to the next.
pub(super) const WATCHED: u64 = 1 << 14;

/// A load on a system.
pub(crate) struct Load {
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) system: Rc<dyn System>,
    pub(crate) watch: Watch,
}

/// Requests of one phase before time counts.
struct Phase {
    name: &'static str,
    bytes: u64,
    /// Bytes of the smallest request: with fewer left it is over.
    least: u64,
    next: RefCell<Box<dyn FnMut() -> Io>>,
    /// Requests, and bytes of them, that have begun.
    begun: Cell<u64>,
    begun_bytes: Cell<u64>,
    failure: Cell<Option<SystemError>>,
}

/// Whose write comes next before time counts.
#[derive(Clone, Copy)]
pub(crate) enum Turns {
    /// Each worker's in turn.
    Equal,
    /// A worker's as often as its depth is among those of all, drawn with this seed.
    ByDepth(u64),
}

impl Load {
    /// Writes all addresses in order.
    pub(crate) async fn fill(self: &Rc<Self>) -> Result<(), SystemError> {
        let bytes = self.system.bytes() / FILL_BYTES * FILL_BYTES;
        let mut offset = 0;
        let next = move || {
            let io = Io {
                is_read: false,
                offset,
                bytes: FILL_BYTES,
            };
            offset += FILL_BYTES;
            io
        };
        self.phase("fill", (bytes, FILL_BYTES), Box::new(next))
            .await
    }

    /// Writes `passes` times as much as there is, as those of the workers do that write; no request of
    /// theirs has fewer bytes than `least`.
    pub(crate) async fn age(
        self: &Rc<Self>,
        workers: &[Rc<Worker>],
        turns: Turns,
        (passes, least): (f64, u64),
    ) -> Result<(), SystemError> {
        let writing = workers.iter().filter(|worker| worker.writes);
        let workers: Vec<Rc<Worker>> = writing.map(Rc::clone).collect();
        if workers.is_empty() {
            return Ok(());
        }
        let bytes = (self.system.bytes() as f64 * passes) as u64;
        let mut whose = whose(&workers, turns);
        let next = move || workers[whose()].next_write();
        self.phase("age", (bytes, least), Box::new(next)).await
    }

    async fn phase(
        self: &Rc<Self>,
        name: &'static str,
        (bytes, least): (u64, u64),
        next: Box<dyn FnMut() -> Io>,
    ) -> Result<(), SystemError> {
        let phase = Rc::new(Phase {
            name,
            bytes,
            least,
            next: RefCell::new(next),
            begun: Cell::new(0),
            begun_bytes: Cell::new(0),
            failure: Cell::new(None),
        });
        let world: &dyn World = &*self.reactor;
        let flows: Vec<_> = (0..FILL_DEPTH)
            .map(|_| {
                let (load, phase) = (Rc::clone(self), Rc::clone(&phase));
                world.run(async move { load.flow(&phase).await })
            })
            .collect();
        for flow in flows {
            flow.await;
        }
        phase.failure.get().map_or(Ok(()), Err)
    }

    async fn flow(&self, phase: &Phase) {
        while phase.begun_bytes.get() + phase.least <= phase.bytes {
            let (number, before) = (phase.begun.get(), phase.begun_bytes.get());
            let io = (phase.next.borrow_mut())();
            phase.begun.set(number + 1);
            phase.begun_bytes.set(before + io.bytes);
            if number.is_multiple_of(WATCHED) {
                (self.watch)(phase.name, before as f64 / phase.bytes as f64, "");
            }
            self.reactor.progress();
            if let Err(error) = Rc::clone(&self.system).serve(io).await {
                phase.failure.set(phase.failure.get().or(Some(error)));
                phase.begun_bytes.set(phase.bytes);
            }
        }
    }
}

/// Draws whose write comes next.
fn whose(workers: &[Rc<Worker>], turns: Turns) -> Box<dyn FnMut() -> usize> {
    let count = workers.len();
    match turns {
        Turns::Equal => {
            let mut number = 0;
            Box::new(move || {
                number += 1;
                (number - 1) % count
            })
        }
        Turns::ByDepth(seed) => {
            let mut random = Random::new(seed);
            let mut ends: Vec<u64> = Vec::new();
            for worker in workers {
                let before = ends.last().copied().unwrap_or(0);
                ends.push(before + u64::from(worker.depth));
            }
            let all = ends.last().copied().unwrap_or(1);
            Box::new(move || {
                let at = random.below(all);
                ends.partition_point(|end| *end <= at)
            })
        }
    }
}
