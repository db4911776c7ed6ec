//! What goes with a record from where it is queued to where it is acknowledged, and who waits for it.
//!
//! **Not here**: when it is written (`lane`), and where in its batch (`batch`).

use crate::crossing::Caller;
use crate::gate::{Denied, log_cost};
use crate::geometry::BLOCK_SECTORS;
use crate::progress::{Moves, Progress};
use alloc::rc::Rc;
use core::ops::Range;
use varve_io::{Blocks, Sectors, Sender};
use varve_units::Lsn;

/// What the appender of a record learns when it is acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Appended {
    /// LSN of the record.
    pub lsn: Lsn,
    /// Fast-tier sector of its first data block, if it has any.
    pub data_sector: u64,
    /// Fast-tier sector of its metadata payload, if it has one.
    pub meta_sector: u64,
    /// Fast-tier sector of the batch that holds it.
    pub batch_sector: u64,
}

impl Appended {
    /// Where the record lies that follows this one, with which goes `load`, in its batch (layout: ADR 4).
    #[inline]
    pub(crate) fn behind(&self, load: &Load) -> Self {
        Self {
            lsn: self.lsn.plus(1),
            data_sector: self.data_sector + load.data_blocks() * BLOCK_SECTORS,
            meta_sector: self.meta_sector + load.meta_sectors(),
            batch_sector: self.batch_sector,
        }
    }
}

/// The engine stopped before the record was acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped;

/// What goes with a record. One cache line: it is kept for each record that waits or is on its way.
pub struct Load {
    /// Its data blocks: where they are, the first of them, and how many.
    pub data: Option<(Rc<Blocks>, u32, u32)>,
    /// Its metadata payload; none if it has none.
    pub meta: Sectors,
    /// Who waits for it.
    pub ticket: Option<Ticket>,
    /// Delta nodes set aside for it in the owner's map.
    pub reserved_nodes: u32,
    /// Blocks it may newly map, counted in the pool's pending ones.
    pub pending_blocks: u32,
    /// True if it makes a leaf, counted in the pool's pending ones.
    pub pending_leaf: bool,
    /// True if its record goes into one batch with the next one.
    pub joins_next: bool,
}

const _: () = assert!(size_of::<Load>() <= 64, "what goes with a record is small");

/// Who waits for a record.
pub enum Ticket {
    /// A flow of the same reactor.
    Here(Sender<Result<Appended, Stopped>>),
    /// A flow that appended moves of a stripe; of these records this one.
    Moves(Rc<Moves>, u32),
    /// A block that stays in the log: of the unit that it was in.
    Kept(Rc<Progress>),
    /// A host's write that came in on the same reactor: where it lies is of no interest.
    Host(Sender<Result<(), Denied>>),
    /// A host's write that came in on another one.
    There(Caller),
}

impl Load {
    /// That of a record for which nothing was set aside.
    #[inline(always)]
    #[must_use]
    pub fn new(
        data: Option<(Rc<Blocks>, Range<usize>)>,
        meta: Sectors,
        ticket: Option<Ticket>,
    ) -> Self {
        let data = data.map(|(blocks, range)| (blocks, range.start as u32, range.len() as u32));
        Self {
            data,
            meta,
            ticket,
            reserved_nodes: 0,
            pending_blocks: 0,
            pending_leaf: false,
            joins_next: false,
        }
    }

    /// Data blocks it brings.
    #[inline]
    pub(crate) fn data_blocks(&self) -> u64 {
        self.data
            .as_ref()
            .map_or(0, |(_, _, count)| u64::from(*count))
    }

    /// Blocks of log it was admitted with, counted in the pool's pending ones: as a write of a host that brings its
    /// blocks.
    #[inline]
    pub(crate) fn pending_log(&self) -> u64 {
        match self.pending_blocks {
            0 => 0,
            blocks => self.data.as_ref().map_or(0, |_| log_cost(blocks.into())),
        }
    }

    /// Sectors of metadata it brings.
    #[inline]
    pub(crate) const fn meta_sectors(&self) -> u64 {
        self.meta.len() as u64
    }
}
