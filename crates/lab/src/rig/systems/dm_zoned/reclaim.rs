//! Reclaim: chunks leave the cache, one after another.
//!
//! # Source
//! `drivers/md/dm-zoned-reclaim.c`, `drivers/md/dm-kcopyd.c`.

use super::super::super::system::pieces;
use super::super::ledger::Place;
use super::DmZoned;
use crate::comparators::DM_ZONED;
use std::rc::Rc;
use varve_media::timed::Ask;
use varve_units::{BLOCK_BYTES, Nanos};

/// Free zones of the cache, per cent, up to which reclaim goes on though hosts are busy.
const LOW_PER_CENT: usize = DM_ZONED.low_per_cent;
/// Blocks that are copied with one command.
const COPY_BLOCKS: u64 = DM_ZONED.copy_blocks;

impl DmZoned {
    /// Free zones of the cache, per cent; the last one does not count (`dmz_reclaim_percentage`).
    fn free_per_cent(&self) -> usize {
        let zones = self.zones.borrow();
        match zones.free_cached() {
            0 | 1 => 0,
            free => free * 100 / zones.cached,
        }
    }

    /// Sees that reclaim runs if it is needed.
    pub(super) async fn schedule_reclaim(self: &Rc<Self>) {
        if self.free_per_cent() > LOW_PER_CENT || self.is_reclaiming.replace(true) {
            return;
        }
        let itself = Rc::clone(self);
        let reclaim = async move { itself.reclaim_all().await };
        if self.started.get() {
            self.world.spawn(Box::pin(reclaim));
        } else {
            // While drives take no time nothing would ever come between two requests.
            reclaim.await;
        }
    }

    async fn reclaim_all(&self) {
        loop {
            let free = self.free_per_cent();
            if free > LOW_PER_CENT {
                break;
            }
            let share = if free < LOW_PER_CENT / 2 {
                100
            } else {
                DM_ZONED.throttle.min(100 - free / 2)
            };
            let candidate = self.zones.borrow().candidate();
            match candidate {
                Some(chunk) => {
                    if self.reclaim(chunk, share).await {
                        self.flush_metadata().await;
                    } else {
                        // Who cut it short comes before it is tried again.
                        self.world.yield_now().await;
                    }
                }
                // Every chunk is in use.
                None => self.changed.listen().await,
            }
        }
        self.is_reclaiming.set(false);
    }

    /// Reclaims a chunk; false if a request came between.
    async fn reclaim(&self, chunk: usize, share: usize) -> bool {
        let (data, buffer) = {
            let mut zones = self.zones.borrow_mut();
            let chunk = &mut zones.chunks[chunk];
            (chunk.in_reclaim, chunk.is_wanted) = (true, false);
            (chunk.data.expect("it has a zone"), chunk.buffer)
        };
        let is_done = match buffer {
            None => self.move_to_sequential(chunk, data, share).await,
            Some(buffer) => {
                let is_behind = {
                    let zones = self.zones.borrow();
                    let first = zones.run(buffer, 0).map(|(first, _)| first);
                    first.is_none_or(|first| first >= zones.zones[data].wp)
                };
                self.merge((chunk, data, buffer), is_behind, share).await
            }
        };
        self.zones.borrow_mut().chunks[chunk].in_reclaim = false;
        self.add("reclaimed", u64::from(is_done));
        self.add("reclaims_cut_short", u64::from(!is_done));
        self.changed.notify();
        is_done
    }

    /// A chunk that lies in the cache moves to a sequential zone.
    async fn move_to_sequential(&self, chunk: usize, data: usize, share: usize) -> bool {
        let target = self.zones.borrow_mut().take_sequential();
        let target = target.expect("candidates have somewhere to go");
        let is_done = self.copy((chunk, data, target), share).await;
        if is_done {
            self.validate(data, target);
            self.zones.borrow_mut().chunks[chunk].data = Some(target);
            self.release(data);
            self.note_map(chunk);
        } else {
            self.release(target);
        }
        is_done
    }

    /// A buffer whose blocks all lie behind the write pointer goes to the sequential zone; else that
    /// goes to the buffer, where the chunk then lies.
    async fn merge(
        &self,
        (chunk, data, buffer): (usize, usize, usize),
        is_behind: bool,
        share: usize,
    ) -> bool {
        let (from, to) = if is_behind {
            (buffer, data)
        } else {
            (data, buffer)
        };
        if !self.copy((chunk, from, to), share).await {
            return false;
        }
        self.validate(from, to);
        {
            let mut zones = self.zones.borrow_mut();
            (zones.chunks[chunk].data, zones.chunks[chunk].buffer) = (Some(to), None);
        }
        self.release(from);
        self.zones.borrow_mut().touch(chunk);
        self.note_map(chunk);
        true
    }

    /// Copies the valid blocks of a zone to the same places of another, run after run; false if a
    /// request wants the chunk meanwhile. Holes of a sequential zone are filled with zeros.
    async fn copy(&self, (chunk, from, to): (usize, usize, usize), share: usize) -> bool {
        let mut next = 0;
        loop {
            let run = self.zones.borrow().run(from, next);
            let Some((first, count)) = run else {
                return true;
            };
            let is_data = self.zones.borrow().chunks[chunk].data == Some(from);
            if is_data && self.zones.borrow().chunks[chunk].is_wanted {
                return false;
            }
            let begun = self.world.now();
            self.fill_to(to, first).await;
            self.copy_run((from, to), first, count).await;
            next = first + count;
            if !self.zones.borrow().is_cached(to) {
                self.zones.borrow_mut().zones[to].wp = next;
            }
            let took = self.world.now().since(begun).0;
            if self.started.get() && share < 100 {
                let pause = took * (100 - share as u64) / share as u64;
                self.world.sleep(Nanos(pause)).await;
            }
        }
    }

    /// Fills a sequential zone up to a block.
    async fn fill_to(&self, zone: usize, block: u64) {
        let wp = self.zones.borrow().zones[zone].wp;
        if self.zones.borrow().is_cached(zone) || wp == block {
            return;
        }
        assert!(wp < block, "zones are written in order");
        self.ask(Ask::Write, zone, wp, block - wp).await;
    }

    async fn copy_run(&self, (from, to): (usize, usize), first: u64, count: u64) {
        let parts: Vec<_> = pieces(first, count, COPY_BLOCKS)
            .map(|(piece, within, count)| (piece * COPY_BLOCKS + within, count))
            .collect();
        for parts in parts.chunks(DM_ZONED.copies) {
            let ask_read = |&(block, count): &(u64, u64)| self.ask(Ask::Read, from, block, count);
            let reads: Vec<_> = parts.iter().map(ask_read).collect();
            let mut writes = Vec::new();
            for (read, &(block, count)) in reads.into_iter().zip(parts) {
                read.await;
                writes.push(self.ask(Ask::Write, to, block, count));
            }
            for write in writes {
                write.await;
            }
        }
        let zones = self.zones.borrow();
        let mut ledger = self.ledger.borrow_mut();
        for block in first..first + count {
            ledger.copy(zones.place(from, block), zones.place(to, block));
        }
        drop((zones, ledger));
        self.add("blocks_copied", count);
    }

    /// What was valid in one zone is valid in the other.
    fn validate(&self, from: usize, to: usize) {
        let mut zones = self.zones.borrow_mut();
        let mut next = 0;
        while let Some((first, count)) = zones.run(from, next) {
            zones.set(to, first, count, true);
            next = first + count;
        }
        drop(zones);
        self.note_zone(from);
        self.note_zone(to);
    }

    /// Frees a zone, which on the dense drive is a reset: its blocks are deallocated.
    pub(super) fn release(&self, zone: usize) {
        let place = self.zones.borrow().place(zone, 0);
        if let Place::Dense(block) = place {
            let bytes = self.zones.borrow().blocks * BLOCK_BYTES;
            drop(self.dense.ask(Ask::Deallocate, block * BLOCK_BYTES, bytes));
        }
        self.zones.borrow_mut().release(zone);
        self.note_zone(zone);
        self.changed.notify();
    }
}
