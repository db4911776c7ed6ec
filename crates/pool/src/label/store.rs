//! The label area of one drive: two copies, written in turn.
//!
//! Copy A lies at byte 0, copy B at 64 KiB, within the first MiB of each drive, which holds nothing
//! else.
//!
//! **Invariants.** A write goes to the copy that does *not* hold the newest valid label and is
//! flushed before it counts, so a torn write never destroys that label; the first write after
//! opening is preceded by a flush, because what was read may still be in a volatile cache. The
//! sequence number of a drive's labels only rises, and so does its generation. A drive of which one
//! copy was overwritten by somebody else has no label, whatever the other copy says, and is not
//! written to before it is erased.
//!
//! **Not here**: what a label means, who else has one.

use crate::label::codec;
use crate::label::fence::Copied;
use crate::label::finding::Finding;
use crate::label::generation::TableGeneration;
use crate::label::other_use::is_other_use;
use crate::label::state::Label;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use varve_format::LABEL_BYTES;
use varve_io::{Drive, Event, Gather, IoError, Sectors};
use varve_units::SECTOR;

/// Bytes at the start of each drive that are reserved for labels.
pub const RESERVED_BYTES: u64 = 1 << 20;

/// One of the two copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LabelCopy {
    A,
    B,
}

impl LabelCopy {
    const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// Byte offset: 64 KiB apart (arbitrary), beyond any drive's indirection unit, so that the
    /// write of one copy does not move the other.
    const fn offset(self) -> u64 {
        match self {
            Self::A => 0,
            Self::B => 64 << 10,
        }
    }
}

/// Where the two copies lie, in bytes from the start of a drive.
pub const LABEL_OFFSETS: [u64; 2] = [LabelCopy::A.offset(), LabelCopy::B.offset()];

const _: () = assert!(LabelCopy::B.offset() + LABEL_BYTES as u64 <= RESERVED_BYTES);

/// The newest valid label of a drive.
#[derive(Clone)]
struct Newest {
    copy: LabelCopy,
    sequence: u64,
    label: Label,
}

/// The label copies of one drive.
pub struct LabelStore {
    drive: Rc<dyn Drive>,
    /// `None` if somebody else put something where a copy was.
    newest: RefCell<Option<Newest>>,
    /// The newest label of a drive that was put to another use.
    former: RefCell<Option<Label>>,
    is_flushed: Cell<bool>,
    is_busy: Cell<bool>,
    idle: Event,
    error: Cell<Option<IoError>>,
}

impl LabelStore {
    /// Reads both copies of a drive and keeps the newer valid one.
    pub async fn open(drive: Rc<dyn Drive>) -> Self {
        let mut newest: Option<Newest> = None;
        let (mut error, mut others) = (None, Vec::new());
        for copy in [LabelCopy::A, LabelCopy::B] {
            match read_copy(&*drive, copy).await {
                Ok(Held::Label(label, sequence)) => {
                    let order = (label.state.generation, sequence);
                    let is_newer = newest
                        .as_ref()
                        .is_none_or(|best| order > (best.label.state.generation, best.sequence));
                    if is_newer {
                        newest = Some(Newest {
                            copy,
                            sequence,
                            label,
                        });
                    }
                }
                Ok(Held::Other(reads)) => others.push(reads),
                Err(found) => error = Some(found),
            }
        }
        let is_foreign = |newest: &Newest| {
            let pool = newest.label.state.pool;
            let is_foreign = |read: &Sectors| is_other_use(read.bytes(), pool);
            others.iter().any(|reads| reads.iter().all(is_foreign))
        };
        let former = newest.take_if(|newest| is_foreign(newest));
        Self {
            drive,
            newest: RefCell::new(newest),
            former: RefCell::new(former.map(|newest| newest.label)),
            is_flushed: Cell::new(false),
            is_busy: Cell::new(false),
            idle: Event::new(),
            error: Cell::new(error),
        }
    }

    /// What the drive's label area holds.
    #[must_use]
    pub fn finding(&self) -> Finding {
        if let Some(former) = &*self.former.borrow() {
            return Finding::OtherUse {
                pool: former.state.pool,
                id: former.own,
            };
        }
        match (self.label(), self.error.get()) {
            (Some(label), _) => Finding::Label(label),
            (None, Some(error)) => Finding::Unreadable(error),
            (None, None) => Finding::Blank,
        }
    }

    /// The newest label that is known to be readable.
    #[must_use]
    pub fn label(&self) -> Option<Label> {
        self.newest
            .borrow()
            .as_ref()
            .map(|newest| newest.label.clone())
    }

    /// True if somebody else put something where a copy of the label was.
    #[must_use]
    pub fn is_other_use(&self) -> bool {
        self.former.borrow().is_some()
    }

    /// The drive.
    #[must_use]
    pub fn drive(&self) -> &Rc<dyn Drive> {
        &self.drive
    }

    /// True while a write, or a look, is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.is_busy.get()
    }

    /// Makes `label` durable, after writes that are under way. A label older than the one the
    /// drive has by then is not written: the newer one stands for it.
    ///
    /// # Errors
    /// The drive's; the label may or may not be found later, the one before it is intact.
    ///
    /// # Panics
    /// If the drive was put to another use: what lies there is somebody else's.
    pub async fn write(&self, label: &Label) -> Result<(), IoError> {
        assert!(!self.is_other_use(), "a label over what is not ours");
        while self.is_busy.get() {
            self.idle.listen().await;
        }
        if self
            .generation()
            .is_some_and(|newest| newest > label.state.generation)
        {
            return Ok(());
        }
        self.is_busy.set(true);
        let outcome = self.write_other(label).await;
        self.is_busy.set(false);
        self.idle.notify();
        outcome
    }

    /// Overwrites both copies with zeroes: the drive has no label any more. To be done before a
    /// drive that belonged elsewhere joins a pool.
    ///
    /// # Errors
    /// The drive's; what the drive holds must be read again then.
    pub async fn erase(&self) -> Result<(), IoError> {
        while self.is_busy.get() {
            self.idle.listen().await;
        }
        self.is_busy.set(true);
        let outcome = self.erase_both().await;
        self.is_busy.set(false);
        self.idle.notify();
        outcome
    }

    /// Reads both copies again from the drive, after a write that is under way; the next one waits until `judge` has seen
    /// what was read.
    pub(crate) async fn look<T>(&self, judge: impl FnOnce(&[Copied]) -> T) -> T {
        while self.is_busy.get() {
            self.idle.listen().await;
        }
        self.is_busy.set(true);
        let mut copies = Vec::new();
        for copy in [LabelCopy::A, LabelCopy::B] {
            copies.push(match read_copy(&*self.drive, copy).await {
                Ok(Held::Label(label, _)) => Ok(Some(label)),
                Ok(Held::Other(_)) => Ok(None),
                Err(error) => Err(error),
            });
        }
        let judged = judge(&copies);
        self.is_busy.set(false);
        self.idle.notify();
        judged
    }

    async fn erase_both(&self) -> Result<(), IoError> {
        for copy in [LabelCopy::A, LabelCopy::B] {
            let mut gather = Gather::new();
            gather.push_meta(Sectors::zeroed(LABEL_BYTES / SECTOR));
            self.drive.write(copy.offset(), gather).await?;
        }
        self.drive.flush().await?;
        *self.newest.borrow_mut() = None;
        *self.former.borrow_mut() = None;
        self.error.set(None);
        Ok(())
    }

    fn generation(&self) -> Option<TableGeneration> {
        self.newest
            .borrow()
            .as_ref()
            .map(|newest| newest.label.state.generation)
    }

    async fn write_other(&self, label: &Label) -> Result<(), IoError> {
        if !self.is_flushed.get() {
            self.drive.flush().await?;
            self.is_flushed.set(true);
        }
        let before = self
            .newest
            .borrow()
            .as_ref()
            .map(|newest| (newest.copy, newest.sequence));
        let (copy, sequence) = match before {
            Some((copy, sequence)) => (copy.other(), sequence + 1),
            None => (LabelCopy::A, 1),
        };
        let mut gather = Gather::new();
        gather.push_meta(codec::encode(label, sequence));
        self.drive.write(copy.offset(), gather).await?;
        self.drive.flush().await?;
        let label = label.clone();
        *self.newest.borrow_mut() = Some(Newest {
            copy,
            sequence,
            label,
        });
        Ok(())
    }
}

/// What lies where a copy should be.
enum Held {
    /// A valid label and its sequence.
    Label(Label, u64),
    /// None, by each way that could be read.
    Other(Vec<Sectors>),
}

/// Reads one copy by every way the drive has.
async fn read_copy(drive: &dyn Drive, copy: LabelCopy) -> Result<Held, IoError> {
    let (mut error, mut reads) = (None, Vec::new());
    for way in 0..drive.info().copies {
        let into = Sectors::zeroed(LABEL_BYTES / SECTOR);
        match drive.read_meta(copy.offset(), into, way).await {
            Ok(sectors) => match codec::decode(sectors.bytes()) {
                Some((label, sequence)) => return Ok(Held::Label(label, sequence)),
                None => reads.push(sectors),
            },
            Err(found) => error = Some(found),
        }
    }
    error.map_or(Ok(Held::Other(reads)), Err)
}
