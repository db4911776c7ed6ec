//! A drive with a volatile cache. A crash drops or tears, by 512 B sectors, what was not flushed.

use super::{Rng, TestWorld};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_io::{Command, Completion, Done, Drive, DriveInfo, Gather, IoError, Segment, Target};
use varve_units::SECTOR;

/// Bytes that are kept: the label area.
const KEPT_BYTES: usize = 80 << 10;

struct CachedWrite {
    number: u64,
    offset: usize,
    bytes: Vec<u8>,
}

/// What survives the process: bytes on media and in the drive's cache.
pub struct Medium {
    durable: RefCell<Vec<u8>>,
    cache: RefCell<Vec<CachedWrite>>,
    next: Cell<u64>,
    error: Cell<Option<IoError>>,
    is_stuck: Cell<bool>,
    flushes: Cell<u64>,
}

impl Medium {
    pub fn new() -> Self {
        Self {
            durable: RefCell::new(vec![0; KEPT_BYTES]),
            cache: RefCell::default(),
            next: Cell::new(0),
            error: Cell::new(None),
            is_stuck: Cell::new(false),
            flushes: Cell::new(0),
        }
    }

    /// Lets every command fail from now on, or work again.
    pub fn fail(&self, error: Option<IoError>) {
        self.error.set(error);
    }

    pub fn is_failing(&self) -> bool {
        self.error.get().is_some()
    }

    /// Lets no command end any more.
    pub fn stick(&self) {
        self.is_stuck.set(true);
    }

    pub fn flushes(&self) -> u64 {
        self.flushes.get()
    }

    /// The power fails: each unflushed write survives in full, in part, or not at all.
    pub fn crash(&self, rng: &mut Rng) {
        self.is_stuck.set(false);
        for write in self.cache.take() {
            let fate = rng.below(3);
            for (index, sector) in write.bytes.chunks(SECTOR).enumerate() {
                if fate == 0 || (fate == 1 && rng.one_in(2)) {
                    self.put(write.offset + index * SECTOR, sector);
                }
            }
        }
    }

    /// Bytes of the durable content, to be damaged.
    pub fn damage(&self, offset: usize) {
        self.durable.borrow_mut()[offset] ^= 0x40;
    }

    /// Replaces a part of the durable content.
    pub fn overwrite(&self, offset: usize, bytes: &[u8]) {
        self.put(offset, bytes);
    }

    /// Replaces the content by a copy of another medium's.
    pub fn clone_from(&self, other: &Self) {
        *self.durable.borrow_mut() = other.durable.borrow().clone();
    }

    fn put(&self, offset: usize, bytes: &[u8]) {
        self.durable.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        let mut view = self.durable.borrow().clone();
        for write in self.cache.borrow().iter() {
            view[write.offset..write.offset + write.bytes.len()].copy_from_slice(&write.bytes);
        }
        into.copy_from_slice(&view[offset..offset + into.len()]);
    }

    fn flush(&self, before: u64) {
        let cached = self.cache.take();
        let (old, new): (Vec<_>, Vec<_>) =
            cached.into_iter().partition(|write| write.number < before);
        for write in old {
            self.put(write.offset, &write.bytes);
        }
        *self.cache.borrow_mut() = new;
        self.flushes.set(self.flushes.get() + 1);
    }
}

pub struct TestDrive {
    world: Rc<TestWorld>,
    medium: Rc<Medium>,
}

impl TestDrive {
    pub const fn new(world: Rc<TestWorld>, medium: Rc<Medium>) -> Self {
        Self { world, medium }
    }
}

fn bytes_of(gather: &Gather) -> Vec<u8> {
    let mut bytes = Vec::new();
    for segment in gather.segments() {
        match segment {
            Segment::Meta(sectors) => bytes.extend_from_slice(sectors.bytes()),
            Segment::Data(..) => panic!("labels are metadata"),
        }
    }
    bytes
}

impl Drive for TestDrive {
    fn info(&self) -> DriveInfo {
        DriveInfo {
            bytes: 1 << 30,
            lba_bytes: 512,
            volatile_cache: true,
            copies: 1,
            handles: 1,
            gap_blocks: 0,
        }
    }

    fn submit(&self, command: Command) -> Completion {
        let (sender, completion) = Completion::waiting();
        let (medium, world) = (Rc::clone(&self.medium), Rc::clone(&self.world));
        let before = medium.next.get();
        self.world.complete_later(move || {
            if medium.is_stuck.get() {
                std::mem::forget(sender);
                return;
            }
            let error = medium.error.get();
            // A failing drive may still do what it reports as failed.
            if let Some(error) = error
                && (error == IoError::Gone || world.one_in(2))
            {
                return sender.send(Err(error));
            }
            let outcome = match command {
                Command::Read {
                    offset,
                    into: Target::Meta(mut sectors),
                    ..
                } => {
                    medium.read(offset as usize, sectors.bytes_mut());
                    Done::Read(Target::Meta(sectors))
                }
                Command::Write { offset, gather, .. } => {
                    let number = medium.next.replace(medium.next.get() + 1);
                    let (offset, bytes) = (offset as usize, bytes_of(&gather));
                    medium.cache.borrow_mut().push(CachedWrite {
                        number,
                        offset,
                        bytes,
                    });
                    Done::Nothing
                }
                Command::Flush => {
                    medium.flush(before);
                    Done::Nothing
                }
                _ => panic!("labels need no such command"),
            };
            sender.send(error.map_or(Ok(outcome), Err));
        });
        completion
    }
}
