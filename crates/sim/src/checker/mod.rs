//! The checkers: what hosts were promised, held against what they got.
//!
//! The [`Oracle`] follows every host operation from its invocation to its response and knows
//! which answers are legal. It shares no code with the engine and never asks it anything.
//!
//! **Invariants**: moments grow by one with every invocation and response; write identities are
//! never reused.

pub mod prefix;
pub mod register;
pub mod space;
pub mod volumes;

use crate::content::{Content, Stamp, WriteId, identify};
pub use prefix::Records;
use prefix::check;
use register::{Moment, Register, Wrong};
use space::Space;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use varve_io::Blocks;
use varve_target::TRANSFER_BYTES_MAX;
use varve_units::{BLOCK_BYTES, LEAF_BLOCKS, Lba, VolumeId};
use volumes::{Fate, Naming, Volume};

/// Blocks of a write that reach a pool over the network as one command: what its target says it takes.
const COMMAND_BLOCKS: u64 = TRANSFER_BYTES_MAX as u64 / BLOCK_BYTES;

/// What kind of change a write is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Data.
    Write,
    /// Deallocate, or zeroes on purpose.
    Zero,
    /// The end of a volume moved.
    Resize,
}

/// An operation that began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Ticket {
    /// Identity of a write; 0 for reads and flushes.
    pub id: WriteId,
    /// When it was invoked.
    pub begun: Moment,
}

/// One write as invoked.
#[derive(Clone, Debug)]
struct Write {
    volume: VolumeId,
    range: Range<u64>,
    change: Change,
}

/// What hosts were promised.
pub struct Oracle {
    seed: u64,
    is_volatile: bool,
    records: Records,
    now: Moment,
    /// Acknowledgements before this are durable.
    flushed: Moment,
    /// Blocks being written by each operation in flight, by its invocation.
    outstanding: BTreeMap<Moment, u64>,
    /// Those of them whose hosts outlive a crash and ask again, by invocation.
    afloat: BTreeSet<Moment>,
    /// When the power failed last.
    crashed: Moment,
    /// Most data blocks that can be in use.
    most: u64,
    /// Falling maxima of the space in use and in flight, by moment.
    peaks: BTreeMap<Moment, u64>,
    /// Space that the pool has from each start on, as far back as operations in flight began.
    starts: Vec<(Moment, Space)>,
    /// Indexed by write identity.
    writes: Vec<Write>,
    volumes: BTreeMap<VolumeId, Volume>,
    /// Sizes and identities of volumes whose creation is in flight.
    creating: Vec<(u64, Naming)>,
    /// Creations begun.
    created: u64,
}

impl Oracle {
    /// An empty pool. `is_volatile` is false if every acknowledged write is durable.
    #[must_use]
    pub fn new(seed: u64, is_volatile: bool, records: Records) -> Self {
        let none = Write {
            volume: VolumeId(u64::MAX),
            range: 0..0,
            change: Change::Zero,
        };
        Self {
            seed,
            is_volatile,
            records,
            now: 1,
            flushed: 0,
            outstanding: BTreeMap::new(),
            afloat: BTreeSet::new(),
            crashed: 0,
            most: 0,
            peaks: BTreeMap::new(),
            starts: Vec::new(),
            writes: vec![none],
            volumes: BTreeMap::new(),
            creating: Vec::new(),
            created: 0,
        }
    }

    /// Says whether acknowledged writes wait for a flush to be durable.
    pub fn set_volatile(&mut self, is_volatile: bool) {
        self.is_volatile = is_volatile;
    }

    fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    fn begin(&mut self, id: WriteId, blocks: u64) -> Ticket {
        let begun = self.tick();
        self.outstanding.insert(begun, blocks);
        Ticket { id, begun }
    }

    /// Identity of the run for the content of block `lba`.
    #[must_use]
    pub const fn stamp(&self, volume: VolumeId, lba: Lba) -> Stamp {
        Stamp {
            volume,
            lba,
            seed: self.seed,
        }
    }

    /// A read or a flush begins.
    pub fn begin_other(&mut self) -> Ticket {
        self.begin(0, 0)
    }

    /// A write of `count` blocks begins.
    ///
    /// # Panics
    /// If the volume does not exist or is shorter.
    pub fn begin_write(
        &mut self,
        volume: VolumeId,
        lba: Lba,
        count: u64,
        change: Change,
    ) -> Ticket {
        let id = self.writes.len() as WriteId;
        let range = lba.0..lba.0 + count;
        let is_zero = change != Change::Write;
        let ticket = self.begin(id, if is_zero { 0 } else { count });
        let mut grown = 0;
        for block in self.live(volume, &range) {
            let before = block.mapped().1;
            block.invoke(id, is_zero, ticket.begun);
            grown += block.mapped().1 - before.min(block.mapped().1);
        }
        self.most += grown;
        self.writes.push(Write {
            volume,
            range,
            change,
        });
        self.note_peak();
        ticket
    }

    /// The host of an operation that was just begun asks again until it is answered, over crashes too.
    pub fn set_afloat(&mut self, ticket: Ticket) {
        self.afloat.insert(ticket.begun);
        let write = &self.writes[ticket.id as usize];
        // Zeroes and deallocations are one command, however long.
        let is_data = write.change == Change::Write;
        let in_parts = is_data && write.range.end - write.range.start > COMMAND_BLOCKS;
        for block in self.written(ticket) {
            block.repeat(ticket.id, in_parts);
        }
    }

    /// The blocks of a write; none of other operations.
    fn written(&mut self, ticket: Ticket) -> &mut [Register] {
        if ticket.id == 0 {
            return &mut [];
        }
        let Write { volume, range, .. } = self.writes[ticket.id as usize].clone();
        self.live(volume, &range)
    }

    /// True if the power has failed since an operation began.
    #[must_use]
    pub const fn has_crashed_since(&self, ticket: Ticket) -> bool {
        ticket.begun < self.crashed
    }

    /// True if an operation that ends now did so before the power failed: there was no start since, so its answer was on
    /// its way.
    fn is_late(&self, ticket: Ticket) -> bool {
        let started = self.starts.last().map_or(0, |(at, _)| *at);
        self.has_crashed_since(ticket) && started < self.crashed
    }

    fn end(&mut self, ticket: Ticket) -> Moment {
        let moment = self.tick();
        self.outstanding.remove(&ticket.begun);
        self.afloat.remove(&ticket.begun);
        moment
    }

    fn live(&mut self, volume: VolumeId, range: &Range<u64>) -> &mut [Register] {
        let volume = self
            .volumes
            .get_mut(&volume)
            .expect("hosts use live volumes");
        &mut volume.blocks[range.start as usize..range.end as usize]
    }

    /// A write was acknowledged. `forced` if it is durable with that (FUA).
    pub fn end_write(&mut self, ticket: Ticket, forced: bool) {
        let moment = self.end(ticket);
        let oldest = self
            .outstanding
            .first_key_value()
            .map_or(moment, |(&begun, _)| begun);
        let is_durable = forced || !self.is_volatile;
        let flushed = self.flushed;
        let is_late = self.is_late(ticket);
        let write = self.writes[ticket.id as usize].clone();
        let mut change = (0, 0);
        for block in self.live(write.volume, &write.range) {
            change.0 += block.mapped().1;
            if is_late {
                block.acknowledge_late(ticket.id, moment, is_durable);
            } else {
                block.acknowledge(ticket.id, moment, is_durable, oldest, flushed);
            }
            change.1 += block.mapped().1;
        }
        self.most = self.most + change.1 - change.0;
        self.note_peak();
    }

    /// An operation failed. A failed write may have happened in part.
    pub fn end_failed(&mut self, ticket: Ticket) {
        let moment = self.end(ticket);
        for block in self.written(ticket) {
            block.give_up(ticket.id, moment);
        }
    }

    /// A flush was acknowledged: whatever was acknowledged before it began is durable, unless a crash
    /// came between.
    pub fn end_flush(&mut self, ticket: Ticket) {
        self.end(ticket);
        if !self.has_crashed_since(ticket) {
            self.flushed = self.flushed.max(ticket.begun);
        }
    }

    /// A read ended.
    ///
    /// # Errors
    /// What is wrong with the content, in words.
    pub fn end_read(
        &mut self,
        ticket: Ticket,
        volume: VolumeId,
        lba: Lba,
        blocks: &Blocks,
    ) -> Result<(), String> {
        let ended = self.end(ticket);
        for index in 0..blocks.len() {
            let at = Lba(lba.0 + index as u64);
            let content = identify(blocks.block(index), self.stamp(volume, at));
            let content = self.place(content, volume, at);
            let register = &mut self.live(volume, &(at.0..at.0 + 1))[0];
            let verdict = match content {
                Content::Zero => register.returned_zero(ticket.begun, ended),
                Content::Write(id) => register.returned(id, ticket.begun, ended),
                Content::Foreign | Content::Garbage => {
                    return Err(format!(
                        "read of {volume} {at} returned {content:?} content"
                    ));
                }
            };
            verdict.map_err(|wrong| {
                let held = self.live(volume, &(at.0..at.0 + 1))[0].held();
                describe(wrong, volume, at, content, held)
            })?;
        }
        Ok(())
    }

    /// A write's identity counts only where that write went.
    fn place(&self, content: Content, volume: VolumeId, at: Lba) -> Content {
        let Content::Write(id) = content else {
            return content;
        };
        match self.writes.get(id as usize) {
            None => Content::Garbage,
            Some(write) if write.volume == volume && write.range.contains(&at.0) => content,
            Some(_) => Content::Foreign,
        }
    }

    /// The power failed.
    pub fn crash(&mut self) {
        let moment = self.tick();
        let again = match self.afloat.is_empty() {
            true => moment,
            false => self.tick(),
        };
        let afloat = &self.afloat;
        self.outstanding.retain(|begun, _| afloat.contains(begun));
        let oldest = afloat.first().copied().unwrap_or(moment);
        for volume in self.volumes.values_mut() {
            for block in &mut volume.blocks {
                block.crash(moment, self.flushed, again, oldest);
            }
        }
        self.flushed = 0;
        self.crashed = moment;
        self.recount();
    }

    /// Every block was read after a crash: what leaves promise is checked.
    ///
    /// # Errors
    /// The first gap, in words.
    pub fn close_verify(&mut self) -> Result<(), String> {
        let (writes, records) = (&self.writes, self.records);
        for (&name, volume) in &mut self.volumes {
            let leaves = volume.blocks.chunks_mut(LEAF_BLOCKS as usize);
            for (leaf, blocks) in leaves.enumerate() {
                let start = leaf as u64 * LEAF_BLOCKS;
                let record = |id: WriteId, index: usize| {
                    let write = &writes[id as usize];
                    let first = write.range.start.max(start);
                    match write.change {
                        _ if id == 0 => None,
                        Change::Resize => None,
                        Change::Zero => Some((id, 0)),
                        Change::Write => {
                            Some((id, (start + index as u64 - first) / records.blocks))
                        }
                    }
                };
                check(blocks, records.are_in_order, record).map_err(|gap| {
                    format!(
                        "{name} leaf {leaf}: after the crash write {} of block {} is missing, \
                         but write {} survived",
                        gap.missing, gap.index, gap.survivor
                    )
                })?;
                blocks.iter_mut().for_each(Register::close);
            }
        }
        Ok(())
    }

    /// Live volumes and their sizes in blocks.
    #[must_use]
    pub fn sizes(&self) -> Vec<(VolumeId, u64)> {
        let live = self
            .volumes
            .iter()
            .filter(|(_, volume)| volume.fate != Fate::Gone);
        live.map(|(&id, volume)| (id, volume.blocks.len() as u64))
            .collect()
    }

    /// Operations that have not ended.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }
}

fn describe(
    wrong: Wrong,
    volume: VolumeId,
    at: Lba,
    content: Content,
    held: &[register::Cluster],
) -> String {
    let what = match wrong {
        Wrong::Stale => "a value that was overwritten or lost",
        Wrong::Lost => "zeroes instead of data",
    };
    let possible: Vec<String> = held
        .iter()
        .map(|cluster| {
            let kind = if cluster.is_zero { "zeroes" } else { "write" };
            format!("{kind} {}", cluster.id)
        })
        .collect();
    format!(
        "read of {volume} {at} returned {what}: {content:?}, known: {}",
        possible.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_units::TenantId;

    const RECORDS: Records = Records {
        blocks: 8,
        are_in_order: true,
    };

    /// A write may have been refused by a start that had less space, if it began before the next one.
    #[test]
    fn refusals_may_be_of_an_earlier_start() {
        let space = |capacity_blocks| Space {
            used_blocks: 0,
            capacity_blocks,
            capacity_leaves: 9,
            is_exact: false,
        };
        let volume = VolumeId(1);
        let mut oracle = Oracle::new(1, true, RECORDS);
        let identity = oracle.begin_create(8, TenantId(0));
        let created = oracle.end_create(volume, &identity);
        created.expect("a new identity");
        oracle.note_space(space(4));
        let early = oracle.begin_write(volume, Lba(0), 8, Change::Write);
        oracle.note_space(space(100));
        let late = oracle.begin_write(volume, Lba(0), 8, Change::Write);
        let refused = |ticket| oracle.check_refusal(space(100), ticket, volume, Lba(0), 8);
        assert_eq!(refused(early), Ok(()));
        assert!(refused(late).is_err());
    }

    /// What was acknowledged before a flush began survives; what was acknowledged after may not.
    #[test]
    fn flushes_make_durable() {
        for (is_flushed_after, is_legal) in [(true, false), (false, true)] {
            let mut oracle = Oracle::new(1, true, RECORDS);
            let volume = VolumeId(1);
            let identity = oracle.begin_create(8, TenantId(0));
            oracle
                .end_create(volume, &identity)
                .expect("a new identity");
            let early = (!is_flushed_after).then(|| oracle.begin_other());
            let write = oracle.begin_write(volume, Lba(0), 1, Change::Write);
            oracle.end_write(write, false);
            let flush = early.unwrap_or_else(|| oracle.begin_other());
            oracle.end_flush(flush);
            oracle.crash();
            let read = oracle.begin_other();
            let verdict = oracle.end_read(read, volume, Lba(0), &Blocks::elided(1));
            assert_eq!(verdict.is_ok(), is_legal, "{verdict:?}");
        }
    }
}
