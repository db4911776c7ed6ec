//! A modelled tier: one drive whose content is kept, packed if it is large, and whose traffic is counted by kind.
//!
//! Every command completes at once; the pool's clock passes by what it moved. An armed drive loses
//! power at the next commit of a checkpoint: the worst instant of the checkpoint cycle, because
//! everything logged since the last one is to be redone and the parts were written for nothing.

use super::store::Store;
use crate::aged::Aged;
use crate::clock::Clock;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_ftl::Geometry;
use varve_hostio::thread_cpu_time;
use varve_io::{Command, Completion, Done, Drive, DriveInfo, GAP_BLOCKS, Gather, IoError, Target};
use varve_units::{BLOCK_BYTES, Nanos, SECTOR_BYTES};

/// Blocks of a dense tier whose metadata are kept as they are. Chosen: 32 GiB, and 320 MB of memory.
const PLAIN_BLOCKS_MAX: u64 = 8 << 20;
/// How a drive keeps metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keeping {
    /// In few bytes, for pools of a real one's size; leaf images that were superseded long ago are
    /// forgotten.
    Packed,
    /// As they are, which is faster.
    Plain,
}

impl Keeping {
    /// Plain as long as that is no matter: some 40 bytes for each block of the dense tier.
    pub(crate) const fn of(geometry: &Geometry) -> Self {
        if geometry.dense_blocks() <= PLAIN_BLOCKS_MAX {
            Self::Plain
        } else {
            Self::Packed
        }
    }
}

/// What kind of bytes a write carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Headers of chunks and batches, records included; P2L on the dense tier.
    Headers,
    /// Blocks.
    Data,
    /// Leaf images.
    Leaves,
    /// Checkpoint parts and commits.
    Checkpoints,
}

/// Bytes and commands a drive has moved since it was made.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Traffic {
    /// Written, by [`Kind`].
    pub(crate) written: [u64; 4],
    /// Commits written.
    pub(crate) commits: u64,
    /// Read.
    pub(crate) read: u64,
    /// Reads.
    pub(crate) reads: u64,
    /// CPU time that the model itself took for commands while it was timed.
    pub(crate) model_cpu: Nanos,
}

impl Traffic {
    /// Bytes written of one kind.
    pub(crate) const fn of(&self, kind: Kind) -> u64 {
        self.written[kind as usize]
    }

    /// Bytes written.
    pub(crate) fn all_written(&self) -> u64 {
        self.written.iter().sum()
    }

    /// What was moved since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            written: std::array::from_fn(|kind| self.written[kind] - before.written[kind]),
            commits: self.commits - before.commits,
            read: self.read - before.read,
            reads: self.reads - before.reads,
            model_cpu: self.model_cpu.since(before.model_cpu),
        }
    }
}

/// Power of a modelled machine, shared by its drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Power {
    On,
    /// Goes with the next commit.
    Armed,
    Off,
}

/// What the drive below is told: it keeps an account of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moved {
    /// Bytes were written.
    Written {
        /// From here on.
        offset: u64,
        /// So many.
        bytes: u64,
    },
    /// Bytes are no longer needed.
    Discarded {
        /// From here on.
        offset: u64,
        /// So many.
        bytes: u64,
    },
}

/// A modelled tier.
pub(crate) struct ModelDrive {
    info: DriveInfo,
    clock: Rc<Clock>,
    /// Bytes a second, for the clock alone.
    bandwidth: u64,
    store: RefCell<Store>,
    traffic: RefCell<Traffic>,
    power: Cell<Power>,
    /// Commands are timed: a start has few, and what unpacking takes is no cost of the engine.
    is_timed: Cell<bool>,
    /// Told what moves.
    below: RefCell<Option<Below>>,
}

type Below = Box<dyn FnMut(Moved)>;

impl ModelDrive {
    /// A blank fast tier of chunks.
    pub(crate) fn fast(
        geometry: &Geometry,
        keeping: Keeping,
        bandwidth: u64,
        clock: Rc<Clock>,
    ) -> Self {
        let units = (geometry.chunk_bytes, geometry.chunks);
        Self::new(units, SECTOR_BYTES, keeping, (bandwidth, clock))
    }

    /// A blank dense tier of groups.
    pub(crate) fn dense(
        geometry: &Geometry,
        keeping: Keeping,
        bandwidth: u64,
        clock: Rc<Clock>,
    ) -> Self {
        let units = (geometry.group_bytes(), geometry.groups);
        Self::new(units, BLOCK_BYTES, keeping, (bandwidth, clock))
    }

    fn new(
        (unit_bytes, units): (u64, u32),
        lba_bytes: u64,
        keeping: Keeping,
        (bandwidth, clock): (u64, Rc<Clock>),
    ) -> Self {
        Self {
            info: DriveInfo {
                bytes: unit_bytes * u64::from(units),
                lba_bytes: lba_bytes as u32,
                volatile_cache: false,
                copies: 1,
                handles: 1,
                gap_blocks: GAP_BLOCKS,
            },
            clock,
            bandwidth,
            store: RefCell::new(Store::new(
                (unit_bytes, units),
                lba_bytes == SECTOR_BYTES,
                keeping,
            )),
            traffic: RefCell::default(),
            power: Cell::new(Power::On),
            is_timed: Cell::new(false),
            below: RefCell::default(),
        }
    }

    /// From here on the drive answers as if the pool had this past. Before any leaf is written.
    pub(crate) fn set_past(&self, aged: &Rc<Aged>) {
        self.store.borrow_mut().set_past(aged);
    }

    /// From here on `below` is told what is written and discarded.
    pub(crate) fn watch(&self, below: Below) {
        self.below.replace(Some(below));
    }

    fn tell(&self, moved: Moved) {
        if let Some(below) = &mut *self.below.borrow_mut() {
            below(moved);
        }
    }

    /// What was moved so far.
    pub(crate) fn traffic(&self) -> Traffic {
        *self.traffic.borrow()
    }

    /// Takes the power away with the next commit.
    pub(crate) fn arm(&self) {
        if self.power.get() == Power::On {
            self.power.set(Power::Armed);
        }
    }

    /// True if the power went.
    pub(crate) fn is_off(&self) -> bool {
        self.power.get() == Power::Off
    }

    /// Gives the power back; from here on commands are timed. A start begins.
    pub(crate) fn power_on(&self) {
        self.power.set(Power::On);
        self.is_timed.set(true);
        self.store.borrow_mut().leaves.set_starting(true);
    }

    /// The start has ended.
    pub(crate) fn has_started(&self) {
        self.store.borrow_mut().leaves.set_starting(false);
    }

    /// CPU time so far, if commands are timed.
    fn begin(&self) -> Option<Nanos> {
        self.is_timed.get().then(thread_cpu_time)
    }

    /// Counts what a command took since then.
    fn end(&self, begun: Option<Nanos>) {
        if let Some(begun) = begun {
            let mut traffic = self.traffic.borrow_mut();
            traffic.model_cpu = Nanos(traffic.model_cpu.0 + thread_cpu_time().since(begun).0);
        }
    }

    /// Memory the model takes, roughly, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.store.borrow().memory()
    }

    fn check(&self, offset: u64, length: u64) {
        let within_lba = u64::from(self.info.lba_bytes) - 1;
        assert!(
            (offset | length) & within_lba == 0,
            "misaligned range {offset}+{length}"
        );
        assert!(
            offset
                .checked_add(length)
                .is_some_and(|end| end <= self.info.bytes),
            "range {offset}+{length} beyond the end"
        );
    }

    fn pass(&self, bytes: u64) {
        let nanos = match bytes.checked_mul(1_000_000_000) {
            Some(scaled) => scaled / self.bandwidth,
            None => (u128::from(bytes) * 1_000_000_000 / u128::from(self.bandwidth)) as u64,
        };
        self.clock.pass(Nanos(nanos));
    }

    fn write(&self, offset: u64, gather: &Gather) -> Result<(), IoError> {
        let mut store = self.store.borrow_mut();
        let commits = store.commits(gather);
        match self.power.get() {
            Power::Armed if commits => self.power.set(Power::Off),
            Power::Off => {}
            Power::On | Power::Armed => {
                let mut traffic = self.traffic.borrow_mut();
                store.write(offset, gather, &mut traffic.written);
                let bytes = gather.bytes();
                self.pass(bytes);
                self.tell(Moved::Written { offset, bytes });
                if commits {
                    traffic.commits += 1;
                    store.leaves.committed();
                }
            }
        }
        if self.is_off() {
            Err(IoError::Gone)
        } else {
            Ok(())
        }
    }

    fn read(&self, offset: u64, into: &mut Target) -> Result<(), IoError> {
        if self.is_off() {
            return Err(IoError::Gone);
        }
        self.store.borrow().read(offset, into);
        let bytes = into.bytes();
        let mut traffic = self.traffic.borrow_mut();
        traffic.read += bytes;
        traffic.reads += 1;
        self.pass(bytes);
        Ok(())
    }
}

impl Drive for ModelDrive {
    fn info(&self) -> DriveInfo {
        self.info
    }

    fn submit(&self, command: Command) -> Completion {
        match command {
            Command::Read {
                offset,
                mut into,
                copy,
            } => {
                assert_eq!(copy, 0, "a plain drive has one copy");
                self.check(offset, into.bytes());
                let begun = self.begin();
                let read = self.read(offset, &mut into);
                self.end(begun);
                match read {
                    Ok(()) => Completion::ready(Ok(Done::Read(into))),
                    Err(error) => Completion::ready(Err(error)),
                }
            }
            Command::Write { offset, gather, .. } | Command::Repair { offset, gather, .. } => {
                self.check(offset, gather.bytes());
                let begun = self.begin();
                let written = self.write(offset, &gather);
                self.end(begun);
                Completion::ready(written.map(|()| Done::Nothing))
            }
            Command::Flush | Command::Discard { .. } if self.is_off() => {
                Completion::ready(Err(IoError::Gone))
            }
            Command::Flush => Completion::ready(Ok(Done::Nothing)),
            Command::Discard { offset, length } => {
                self.check(offset, length);
                let bytes = length;
                self.tell(Moved::Discarded { offset, bytes });
                Completion::ready(Ok(Done::Nothing))
            }
        }
    }
}

#[cfg(test)]
mod tests;
