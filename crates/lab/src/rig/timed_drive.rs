//! A tier as the engine sees it: its content, and the time that takes.

use super::cpu::Cpu;
use super::stripe_array::StripeArray;
use crate::clock::Clock;
use crate::media::{Keeping, ModelDrive};
use std::rc::Rc;
use varve_ftl::Geometry;
use varve_io::{Command, Completion, Drive, DriveInfo, GAP_BLOCKS, Handle};
use varve_media::timed::Ask;
use varve_units::{BLOCK_BYTES, Nanos};

/// What paces the clock of a content that nobody asks for the time: the station has it.
const NO_PACE: u64 = u64::MAX;

/// What software has to do for a block that is written.
pub(crate) struct Charge {
    pub(crate) cpu: Rc<Cpu>,
    /// For each block: reading it, its checksum, a copy, its place in the map.
    pub(crate) block: Nanos,
}

/// Content on drives.
pub(crate) struct TimedDrive {
    content: ModelDrive,
    below: Rc<StripeArray>,
    charge: Option<Charge>,
}

impl TimedDrive {
    /// The log of a pool.
    pub(crate) fn fast(geometry: &Geometry, below: &Rc<StripeArray>) -> Rc<Self> {
        let content = ModelDrive::fast(
            geometry,
            Keeping::of(geometry),
            NO_PACE,
            Rc::new(Clock::default()),
        );
        Self::of(content, below, None)
    }

    /// Its dense tier: what is written there was moved.
    pub(crate) fn dense(geometry: &Geometry, below: &Rc<StripeArray>, charge: Charge) -> Rc<Self> {
        let content = ModelDrive::dense(
            geometry,
            Keeping::of(geometry),
            NO_PACE,
            Rc::new(Clock::default()),
        );
        Self::of(content, below, Some(charge))
    }

    fn of(content: ModelDrive, below: &Rc<StripeArray>, charge: Option<Charge>) -> Rc<Self> {
        assert!(content.info().bytes <= below.bytes(), "a tier has room");
        Rc::new(Self {
            content,
            below: Rc::clone(below),
            charge,
        })
    }
}

impl Drive for TimedDrive {
    fn info(&self) -> DriveInfo {
        DriveInfo {
            handles: self.below.handles(),
            gap_blocks: GAP_BLOCKS,
            ..self.content.info()
        }
    }

    /// What the command does to the content it does at once; the answer comes when the drive has
    /// done it.
    fn submit(&self, command: Command) -> Completion {
        let (ask, offset, bytes) = match &command {
            Command::Read { offset, into, .. } => (Ask::Read, *offset, into.bytes()),
            Command::Write { offset, gather, .. } | Command::Repair { offset, gather, .. } => {
                (Ask::Write, *offset, gather.bytes())
            }
            Command::Flush => (Ask::Flush, 0, 0),
            Command::Discard { offset, length } => (Ask::Deallocate, *offset, *length),
        };
        let handle = match &command {
            Command::Write { handle, .. } => *handle,
            _ => Handle::default(),
        };
        let done = self.content.submit(command);
        let timed = self.below.ask(handle, ask, offset, bytes);
        if let Some(charge) = self.charge.as_ref().filter(|_| ask == Ask::Write) {
            let span = charge.block.0 * bytes / BLOCK_BYTES;
            charge.cpu.work_behind(Nanos(span));
        }
        Completion::flow(async move {
            for part in timed {
                part.await;
            }
            done.await
        })
    }
}
