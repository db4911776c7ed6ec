//! What a load goes to: a volume of an engine or of a pool, or a remote namespace.

use super::tally::Failed;
use crate::remote::HostTransport;
use std::rc::Rc;
use varve_control::Volume;
use varve_ftl::{Engine, EngineError};
use varve_initiator::RemoteDrive;
use varve_io::{Blocks, Drive, Gather, IoError};
use varve_units::{BLOCK_BYTES, Lba, VolumeId};

/// What a load goes to.
pub(crate) enum Store {
    /// A volume of an engine in this process.
    Engine(Engine, VolumeId),
    /// A volume of a pool that is open in this process.
    Volume(Volume),
    /// A namespace somewhere else.
    Remote(Rc<RemoteDrive<HostTransport>>),
}

impl Store {
    /// The engine, if it is one.
    pub(crate) const fn engine(&self) -> Option<&Engine> {
        match self {
            Self::Engine(engine, _) => Some(engine),
            Self::Volume(_) | Self::Remote(_) => None,
        }
    }

    /// True if this process compares what it reads with the engine's checksums, to the last byte, at the end of its
    /// way. What a namespace somewhere else returns has come through more than that.
    pub(crate) const fn has_checksums(&self) -> bool {
        !matches!(self, Self::Remote(_))
    }

    /// True if nothing will succeed any more. A remote drive and a pool end their commands by themselves.
    pub(crate) fn has_stopped(&self) -> bool {
        let engine = self.engine();
        engine.is_some_and(|engine| engine.stop_reason().is_some())
    }

    /// A failure that only a look at what is loaded can explain.
    pub(crate) fn failed(&self, what: String) -> Failed {
        let next = match self {
            Self::Engine(..) => "report this as a bug, with the command line",
            Self::Volume(_) => "varve pool status tells what is wrong with the pool",
            Self::Remote(_) => "look at what the target says, and at the way to it",
        };
        Failed { what, next }
    }

    fn refused(&self, error: EngineError) -> Failed {
        let failed = self.failed(error.to_string());
        match (self, error) {
            (Self::Volume(_), EngineError::CapacityExceeded) => Failed {
                next: "varve pool status tells how full it is; make room, or give a smaller --size",
                ..failed
            },
            _ => failed,
        }
    }

    fn unanswered(&self, error: IoError) -> Failed {
        match error {
            IoError::NoSpace => Failed {
                what: "the namespace is out of space: its target has no room for new blocks"
                    .to_owned(),
                next: "varve pool status tells how full the pool is, where the target is varve's; make room \
                       there, or give a smaller --size",
            },
            other => self.failed(other.to_string()),
        }
    }

    /// Writes blocks; why not, in words.
    pub(crate) async fn write(&self, lba: Lba, data: Blocks) -> Result<(), Failed> {
        match self {
            Self::Engine(engine, volume) => {
                let written = engine.write(*volume, lba, data, false).await;
                written.map_err(|error| self.refused(error))
            }
            Self::Volume(volume) => {
                let written = volume.write(lba, data, false).await;
                written.map_err(|error| self.refused(error))
            }
            Self::Remote(drive) => {
                let drive: &dyn Drive = &**drive;
                let mut gather = Gather::new();
                gather.push_data(data);
                let written = drive.write(lba.0 * BLOCK_BYTES, gather).await;
                written.map_err(|error| self.unanswered(error))
            }
        }
    }

    /// Reads blocks; why not, in words.
    pub(crate) async fn read(&self, lba: Lba, into: Blocks) -> Result<Blocks, Failed> {
        match self {
            Self::Engine(engine, volume) => {
                let read = engine.read(*volume, lba, into).await;
                read.map_err(|error| self.refused(error))
            }
            Self::Volume(volume) => {
                let read = volume.read(lba, into).await;
                read.map_err(|error| self.refused(error))
            }
            Self::Remote(drive) => {
                let drive: &dyn Drive = &**drive;
                let read = drive.read_data(lba.0 * BLOCK_BYTES, into, 0).await;
                read.map_err(|error| self.unanswered(error))
            }
        }
    }
}
