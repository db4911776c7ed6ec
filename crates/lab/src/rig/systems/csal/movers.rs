//! What carries out behind hosts' writes what was decided at them.
//!
//! Steps are gathered to batches by the band they go to; so many movers take batches in the order in which
//! they became whole, read their blocks and write them. Before the start of time one carries out all.

use super::super::super::map_cache::page_of;
use super::Csal;
use super::batch::{Batch, Work};
use super::reuse::{Life, Reuse};
use crate::comparators::CSAL;
use crate::waf::tiers::Step;
use std::rc::Rc;
use varve_media::timed::Ask;
use varve_units::{BLOCK_BYTES, Nanos};

impl Csal {
    /// Makes batches of steps, and sees that somebody carries them out.
    pub(super) fn gather(self: &Rc<Self>, steps: Vec<Step>) {
        if steps.is_empty() {
            return;
        }
        for step in steps {
            let (is_fast, block, from, to) = match step {
                Step::Compacted { block, from, to } => (true, block, from, to),
                Step::Collected { block, from, to } => (false, block, from, to),
                Step::Discarded { first, count } => {
                    self.empty(first, count);
                    continue;
                }
            };
            self.add(is_fast, block, (from, to));
        }
        while self.movers.get() < CSAL.movers() && !self.work.borrow().is_empty() {
            self.movers.set(self.movers.get() + 1);
            let csal = Rc::clone(self);
            if self.started.get() {
                self.world
                    .spawn(Box::pin(async move { csal.move_all().await }));
            } else {
                // Drives take no time yet: nothing is to be awaited.
                self.age_all();
                self.movers.set(self.movers.get() - 1);
            }
        }
    }

    fn add(&self, is_fast: bool, block: u32, (from, to): (u32, u32)) {
        let band = to / self.plan.band_blocks;
        let mut gathered = self.gathered.borrow_mut();
        let batch = gathered
            .entry(band)
            .or_insert_with(|| Batch::at(to, self.handle(to)));
        batch.add(is_fast, from, page_of(u64::from(block)) as u32);
        let taken = self.to_compact.get() + u64::from(is_fast);
        self.to_compact.set(taken);
        if let Some(reuse) = &self.reuse {
            let mut reuse = reuse.borrow_mut();
            batch.uses(&mut reuse, band);
            if !is_fast {
                batch.uses(&mut reuse, from / self.plan.band_blocks);
            }
        }
        let is_last = (to + 1).is_multiple_of(self.plan.band_blocks);
        if is_last || batch.blocks() == self.plan.batch_blocks() {
            let batch = gathered.remove(&band).expect("it was just there");
            self.work.borrow_mut().push_back(Work::Move(batch));
        }
    }

    /// Placement handles it writes under.
    pub(super) fn handles(&self) -> usize {
        match usize::from(self.dense.handles()) {
            _ if self.plan.is_today() => 1,
            handles => handles.min(self.plan.tenants as usize + 1),
        }
    }

    /// The placement handle of a place: one for each stream; where there are too few, garbage collection
    /// has the last and tenants share the others.
    fn handle(&self, place: u32) -> u8 {
        let handles = self.handles();
        if handles == 1 {
            return 0;
        }
        let stream = self.tiers.borrow().stream_of(place);
        let handle = if stream == self.plan.tenants as usize {
            handles - 1
        } else {
            stream % (handles - 1)
        };
        handle as u8
    }

    /// What lies in a band is no longer needed.
    fn empty(&self, first: u32, count: u32) {
        let Some(reuse) = &self.reuse else {
            let discard = Work::Discard { first, count };
            return self.work.borrow_mut().push_back(discard);
        };
        let life = reuse.borrow_mut().empty(first / self.plan.band_blocks);
        // What was gathered from a zone has to be written before it is reset, whatever its size.
        let mut gathered = self.gathered.borrow_mut();
        let of_it = gathered.extract_if(.., |_, batch| batch.is_use_of(life));
        let mut work = self.work.borrow_mut();
        work.extend(of_it.map(|(_, batch)| Work::Move(batch)));
        work.push_back(Work::Reset(life));
    }

    fn age_all(&self) {
        while let Some(work) = self.take() {
            match work {
                Work::Move(batch) => {
                    let (offset, bytes) = batch.place();
                    drop(self.dense.write_under(batch.handle(), offset, bytes));
                    self.settle(&batch);
                }
                Work::Discard { first, count } => self.discard(first, count),
                Work::Reset(life) => {
                    assert!(self.is(|reuse| reuse.is_unused(life)), "all is in order");
                    let (first, count) = life.blocks(self.plan.band_blocks);
                    self.discard(first, count);
                    self.note(|reuse| reuse.was_reset(life));
                }
            }
        }
    }

    /// Asks what zones are; without zones all is as decided.
    fn is(&self, what: impl FnOnce(&Reuse) -> bool) -> bool {
        let reuse = self.reuse.as_ref();
        reuse.is_none_or(|reuse| what(&reuse.borrow()))
    }

    fn note(&self, what: impl FnOnce(&mut Reuse)) {
        if let Some(reuse) = &self.reuse {
            what(&mut reuse.borrow_mut());
            self.settled.notify();
        }
    }

    /// A batch has been carried out: what it held of the fast tier is free.
    fn settle(&self, batch: &Batch) {
        let taken = self.to_compact.get() - batch.fast_blocks();
        self.to_compact.set(taken);
        self.note(|reuse| batch.end(reuse));
    }

    /// Resets a zone once all was read and written that was decided before it was emptied.
    async fn reset(&self, life: Life) {
        while !self.is(|reuse| reuse.is_unused(life)) {
            self.settled.listen().await;
        }
        let (first, count) = life.blocks(self.plan.band_blocks);
        let (offset, bytes) = (
            u64::from(first) * BLOCK_BYTES,
            u64::from(count) * BLOCK_BYTES,
        );
        self.dense.ask(Ask::Deallocate, offset, bytes).await;
        self.note(|reuse| reuse.was_reset(life));
    }

    fn take(&self) -> Option<Work> {
        self.work.borrow_mut().pop_front()
    }

    fn discard(&self, first: u32, count: u32) {
        let (offset, bytes) = (
            u64::from(first) * BLOCK_BYTES,
            u64::from(count) * BLOCK_BYTES,
        );
        drop(self.dense.ask(Ask::Deallocate, offset, bytes));
    }

    async fn move_all(self: &Rc<Self>) {
        while let Some(work) = self.take() {
            match work {
                Work::Move(batch) => {
                    self.carry_out(&batch).await;
                    self.moved.notify();
                }
                Work::Discard { first, count } => self.discard(first, count),
                Work::Reset(life) => {
                    // Beside the movers: none of them waits for another.
                    let csal = Rc::clone(self);
                    self.world
                        .spawn(Box::pin(async move { csal.reset(life).await }));
                }
            }
        }
        self.movers.set(self.movers.get() - 1);
    }

    async fn carry_out(&self, batch: &Batch) {
        let reads: Vec<_> = batch
            .sources()
            .iter()
            .map(|(is_fast, first, blocks)| {
                let drive = if *is_fast { &self.fast } else { &self.dense };
                let offset = u64::from(*first) * BLOCK_BYTES;
                drive.ask(Ask::Read, offset, u64::from(*blocks) * BLOCK_BYTES)
            })
            .collect();
        for read in reads {
            read.await;
        }
        let charge = self.charge();
        let (blocks, pages) = (batch.blocks() as u64, batch.pages().len() as u64);
        let moved = charge.moved.0 * blocks + charge.page.0 * pages;
        self.cpu.work_behind(Nanos(moved));
        self.page_in(batch.pages().iter().map(|page| u64::from(*page)), true)
            .await;
        while !self.is(|reuse| batch.is_due(reuse)) {
            self.settled.listen().await;
        }
        let (offset, bytes) = batch.place();
        self.dense.write_under(batch.handle(), offset, bytes).await;
        self.settle(batch);
    }
}
