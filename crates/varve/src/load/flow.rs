//! The load: flows that each keep one operation in flight.

use super::draw::{Draw, Share};
use super::oracle::Oracle;
use super::payload::{Ring, Stamp, is_whole, stamp, stamp_of};
use super::store::Store;
use super::tally::{Failed, Tally};
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_io::{BlockRef, Blocks, World};
use varve_units::{Lba, Nanos};

/// Which way the data go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// Time between two looks at whether a phase should end.
const LOOK: Nanos = Nanos::from_millis(20);
/// Digits of a latency that are told apart: below 1 %. With one more its counts would push the
/// engine's own data out of the processor's nearest cache.
const LATENCY_DIGITS: u8 = 2;
/// Longest latency told apart.
const LATENCY_MAX: Nanos = Nanos::from_secs(60);
/// One read of so many is looked at for zeroes. Arbitrary: a block's look costs some 50 ns.
const SAMPLE: u64 = 64;
/// Failed operations after which a phase ends.
const FAILURES_MAX: u64 = 1000;

/// What all flows of all phases share.
pub(crate) struct Subject {
    pub(crate) store: Store,
    pub(crate) world: Rc<dyn World>,
    /// Present if reads are checked.
    pub(crate) oracle: Option<RefCell<Oracle>>,
    /// Operations that have ended, of all phases.
    ended: Cell<u64>,
    tally: RefCell<Tally>,
}

/// What one phase does.
pub(crate) struct Phase {
    pub(crate) direction: Direction,
    /// Blocks of one operation.
    pub(crate) blocks: u64,
    /// Operations in flight.
    pub(crate) depth: u32,
    pub(crate) draw: RefCell<Draw>,
    /// Which part of the volume is visited.
    pub(crate) share: Share,
    pub(crate) ring: RefCell<Ring>,
    pub(crate) latency: RefCell<Histogram<u64>>,
    /// Operations that may still begin.
    left: Cell<u64>,
    /// Operations that have ended.
    done: Cell<u64>,
    next_look: Cell<Nanos>,
}

impl Phase {
    /// A phase of at most `operations` operations; `ring` has their payloads.
    pub(crate) fn new(
        direction: Direction,
        blocks: u64,
        depth: u32,
        (draw, share): (Draw, Share),
        ring: Ring,
        operations: u64,
    ) -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX.0, LATENCY_DIGITS);
        let histogram = histogram.expect("so few digits up to a minute are possible");
        Self {
            direction,
            blocks,
            depth,
            draw: RefCell::new(draw),
            share,
            ring: RefCell::new(ring),
            latency: RefCell::new(histogram),
            left: Cell::new(operations),
            done: Cell::new(0),
            next_look: Cell::new(Nanos(0)),
        }
    }

    /// Operations that have ended.
    pub(crate) const fn done(&self) -> u64 {
        self.done.get()
    }

    fn begin(&self) -> bool {
        let left = self.left.get();
        if left > 0 {
            self.left.set(left - 1);
        }
        left > 0
    }

    pub(crate) fn end(&self) {
        self.left.set(0);
    }

    /// Adds what another generator did in the same phase.
    pub(crate) fn add(&self, done: u64, latency: &Histogram<u64>) {
        self.done.set(self.done.get() + done);
        let added = self.latency.borrow_mut().add(latency);
        added.expect("histograms of one kind");
    }
}

impl Subject {
    /// What is to be loaded.
    pub(crate) fn new(store: Store, world: Rc<dyn World>, oracle: Option<RefCell<Oracle>>) -> Self {
        Self {
            store,
            world,
            oracle,
            ended: Cell::new(0),
            tally: RefCell::default(),
        }
    }

    /// Operations that have ended.
    pub(crate) const fn ended(&self) -> u64 {
        self.ended.get()
    }

    /// What came of it so far.
    pub(crate) fn tally(&self) -> Tally {
        self.tally.borrow().clone()
    }

    /// Runs a phase to its end. `look` is asked now and then whether that has come.
    pub(crate) async fn run(
        self: &Rc<Self>,
        phase: &Rc<Phase>,
        look: impl FnMut(&Phase, Nanos) -> bool + 'static,
    ) {
        let look = Rc::new(RefCell::new(look));
        let flows: Vec<_> = (0..phase.depth)
            .map(|_| {
                let (subject, phase) = (Rc::clone(self), Rc::clone(phase));
                let look = Rc::clone(&look);
                let flow = async move {
                    subject.repeat(&phase, &*look).await;
                };
                self.world.run(flow)
            })
            .collect();
        for flow in flows {
            flow.await;
        }
    }

    async fn repeat(&self, phase: &Phase, look: &RefCell<impl FnMut(&Phase, Nanos) -> bool>) {
        let mut before = self.world.now();
        let mut spare = None;
        while phase.begin() {
            let slot = phase.draw.borrow_mut().next();
            let lba = Lba(phase.share.block(slot, phase.blocks));
            let outcome = match phase.direction {
                Direction::Write => self.write(phase, lba).await,
                Direction::Read => self.read(phase, lba, &mut spare).await,
            };
            if let Err(error) = outcome {
                self.fail(phase, error);
            }
            let now = self.world.now();
            phase
                .latency
                .borrow_mut()
                .saturating_record(now.since(before).0);
            before = now;
            if phase.direction == Direction::Read {
                // A drive in memory answers at once: without this one flow would never let the
                // others, and the engine's own, begin.
                self.world.yield_now().await;
            }
            phase.done.set(phase.done.get() + 1);
            self.ended.set(self.ended.get() + 1);
            if now >= phase.next_look.get() {
                phase.next_look.set(now + LOOK);
                if (look.borrow_mut())(phase, now) {
                    phase.end();
                }
            }
        }
    }

    fn fail(&self, phase: &Phase, failed: Failed) {
        let mut tally = self.tally.borrow_mut();
        tally.failures += 1;
        tally.first.get_or_insert(failed);
        if tally.failures >= FAILURES_MAX || self.store.has_stopped() {
            phase.end();
        }
    }

    async fn write(&self, phase: &Phase, lba: Lba) -> Result<(), Failed> {
        let mut payload = phase.ring.borrow_mut().take(&*self.world);
        for index in 0..phase.blocks {
            let lba = Lba(lba.0 + index);
            let version = match &self.oracle {
                Some(oracle) => oracle.borrow_mut().begin(lba),
                None => phase.done.get() as u32,
            };
            stamp(&mut payload, index as usize, Stamp { lba, version });
        }
        let outcome = self.store.write(lba, payload).await;
        if let Some(oracle) = &self.oracle {
            let mut oracle = oracle.borrow_mut();
            let lbas = lba.0..lba.0 + phase.blocks;
            lbas.for_each(|lba| oracle.end(Lba(lba), outcome.is_ok()));
        }
        outcome
    }

    async fn read(
        &self,
        phase: &Phase,
        lba: Lba,
        spare: &mut Option<Blocks>,
    ) -> Result<(), Failed> {
        let into = spare.take();
        let into = into.unwrap_or_else(|| phase.ring.borrow().memory());
        let blocks = self.store.read(lba, into).await?;
        if let Some(oracle) = &self.oracle {
            let oracle = oracle.borrow();
            for index in 0..phase.blocks {
                let found = stamp_of(&blocks, index as usize);
                let lba = Lba(lba.0 + index);
                if found.lba != lba || !oracle.allows(lba, found.version) {
                    let newest = oracle.newest(lba);
                    let what = format!("{lba}, version {newest}, reads as {found:?}");
                    self.fail(phase, self.store.failed(what));
                } else if !self.store.has_checksums() && !is_whole(&blocks, index as usize) {
                    let what =
                        format!("{lba} begins as it was written last, and goes on otherwise");
                    self.fail(phase, self.store.failed(what));
                }
            }
            self.tally.borrow_mut().checked += phase.blocks;
        } else if phase.done().is_multiple_of(SAMPLE) {
            self.sample(&blocks);
        }
        *spare = Some(blocks);
        Ok(())
    }

    fn sample(&self, blocks: &Blocks) {
        let is_zero = |index: &usize| match blocks.block(*index) {
            BlockRef::Bytes(bytes) => bytes.iter().all(|byte| *byte == 0),
            BlockRef::Symbol(symbol) => symbol == 0,
        };
        let zeroes = (0..blocks.len()).filter(is_zero).count();
        let mut tally = self.tally.borrow_mut();
        tally.sampled += blocks.len() as u64;
        tally.zeroes += zeroes as u64;
    }
}
