//! A volume of a pool as a store.

use crate::store::{Content, Step, Store};
use std::future::Future;
use std::rc::Rc;
use varve_control::Volume;
use varve_ftl::{EngineError, Recall};
use varve_io::{Blocks, World};
use varve_target::{Completion, Failure, Namespace, Operation};
use varve_units::{BLOCK, LEAF_BLOCKS, Lba};

/// Blocks that are written atomically if they do not cross a multiple of as many: a leaf's
/// (design.md 4.10).
const ATOMIC_BLOCKS: u16 = LEAF_BLOCKS as u16;

/// A volume as its store uses it. Errors are the engine's, of each kind that operations on blocks can
/// have.
pub trait Backing: 'static {
    /// Reads blocks from `lba` on into memory given along, and gives it back.
    fn read(&self, lba: Lba, into: Blocks) -> impl Future<Output = Result<Blocks, EngineError>>;

    /// Writes blocks from `lba` on; durable when this ends if `fua`. Need not be done once it is recalled.
    fn write(
        &self,
        recall: &Recall,
        lba: Lba,
        data: Blocks,
        fua: bool,
    ) -> impl Future<Output = Result<(), EngineError>>;

    /// Makes durable what was answered.
    fn flush(&self) -> impl Future<Output = Result<(), EngineError>>;

    /// Deallocates blocks: they read as zeroes.
    fn discard(&self, lba: Lba, blocks: u64) -> impl Future<Output = Result<(), EngineError>>;

    /// Writes zeroes; durable when this ends if `fua`.
    fn write_zeroes(
        &self,
        lba: Lba,
        blocks: u64,
        fua: bool,
    ) -> impl Future<Output = Result<(), EngineError>>;
}

impl Backing for Volume {
    async fn read(&self, lba: Lba, into: Blocks) -> Result<Blocks, EngineError> {
        self.read(lba, into).await
    }

    async fn write(
        &self,
        recall: &Recall,
        lba: Lba,
        data: Blocks,
        fua: bool,
    ) -> Result<(), EngineError> {
        self.write_for(recall, lba, data, fua).await
    }

    async fn flush(&self) -> Result<(), EngineError> {
        self.flush().await
    }

    async fn discard(&self, lba: Lba, blocks: u64) -> Result<(), EngineError> {
        self.discard(lba, blocks).await
    }

    async fn write_zeroes(&self, lba: Lba, blocks: u64, fua: bool) -> Result<(), EngineError> {
        self.write_zeroes(lba, blocks, fua).await
    }
}

/// A volume of a pool as hosts see it.
#[must_use]
pub fn namespace(blocks: u64, nguid: [u8; 16], uuid: [u8; 16], is_volatile: bool) -> Namespace {
    Namespace {
        blocks,
        nguid,
        uuid,
        is_volatile,
        is_thin: true,
        atomic_blocks: ATOMIC_BLOCKS,
    }
}

/// A volume of a pool on the server's reactor.
pub struct VolumeStore<V> {
    world: Rc<dyn World>,
    volume: Rc<V>,
}

impl<V: Backing> VolumeStore<V> {
    /// The store of a volume whose pool runs in `world`.
    #[must_use]
    pub fn new(world: Rc<dyn World>, volume: V) -> Self {
        let volume = Rc::new(volume);
        Self { world, volume }
    }
}

impl<V: Backing> Store for VolumeStore<V> {
    fn begin(&self, operation: Operation, recall: &Recall) -> Step {
        let (world, volume) = (Rc::clone(&self.world), Rc::clone(&self.volume));
        let recall = recall.clone();
        Step::Later(Box::pin(async move {
            execute(&*world, &*volume, operation, &recall).await
        }))
    }
}

async fn execute(
    world: &dyn World,
    volume: &impl Backing,
    operation: Operation,
    recall: &Recall,
) -> Completion<Content> {
    let is_read = matches!(operation, Operation::Read { .. });
    let done = match operation {
        Operation::Read { lba, blocks } => {
            let into = world.blocks(blocks as usize, false);
            return match volume.read(Lba(lba), into).await {
                Ok(content) => Ok(Some(Content::of(Rc::new(content), blocks as usize))),
                Err(error) => Err(failure(&error, is_read)),
            };
        }
        Operation::Write { lba, data, fua } => {
            let mut blocks = world.blocks(data.len() / BLOCK, false);
            blocks.bytes_mut().copy_from_slice(&data);
            drop(data);
            volume.write(recall, Lba(lba), blocks, fua).await
        }
        Operation::Flush => volume.flush().await,
        Operation::WriteZeroes { lba, blocks, fua } => {
            let blocks = u64::from(blocks);
            volume.write_zeroes(Lba(lba), blocks, fua).await
        }
        Operation::Deallocate { ranges } => {
            let mut done = Ok(());
            for (lba, blocks) in ranges {
                done = volume.discard(Lba(lba), u64::from(blocks)).await;
                if done.is_err() {
                    break;
                }
            }
            done
        }
    };
    done.map(|()| None)
        .map_err(|error| failure(&error, is_read))
}

/// What the host is told.
fn failure(error: &EngineError, is_read: bool) -> Failure {
    match error {
        EngineError::NoSuchVolume(_) => Failure::NoNamespace,
        EngineError::OutOfRange { .. } => Failure::OutOfRange,
        EngineError::CapacityExceeded => Failure::NoSpace,
        EngineError::Lost(..) => Failure::Unreadable,
        EngineError::DenseAway => Failure::Interrupted,
        EngineError::Io(error) => Failure::of_drive(*error, is_read),
        EngineError::Recalled => Failure::Recalled,
        // Others concern volumes as a whole and are not an answer to blocks.
        _ => Failure::Stopped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_io::IoError;
    use varve_units::VolumeId;

    #[test]
    fn every_error_has_its_status() {
        let volume = VolumeId(3);
        let range = EngineError::OutOfRange {
            lba: Lba(1),
            blocks: 2,
            size: 2,
        };
        let table = [
            (EngineError::NoSuchVolume(volume), Failure::NoNamespace),
            (range, Failure::OutOfRange),
            (EngineError::CapacityExceeded, Failure::NoSpace),
            (EngineError::Lost(volume, Lba(0)), Failure::Unreadable),
            (EngineError::DenseAway, Failure::Interrupted),
            (EngineError::Io(IoError::Gone), Failure::NotReady),
            (EngineError::Io(IoError::Timeout), Failure::NotReady),
            (EngineError::Io(IoError::NoSpace), Failure::NoSpace),
            (EngineError::Stopped, Failure::Stopped),
            (EngineError::Recalled, Failure::Recalled),
        ];
        for (error, expected) in table {
            assert_eq!(failure(&error, true), expected, "{error}");
        }
        let media = EngineError::Io(IoError::Media);
        assert_eq!(failure(&media, true), Failure::Unreadable);
        assert_eq!(failure(&media, false), Failure::WriteFault);
    }
}
