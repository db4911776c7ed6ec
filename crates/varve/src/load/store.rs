//! What a load goes to: a volume of an engine or of a pool, or a remote namespace.

use crate::remote::HostTransport;
use std::rc::Rc;
use varve_control::Volume;
use varve_ftl::Engine;
use varve_initiator::RemoteDrive;
use varve_io::{Blocks, Drive, Gather};
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

    /// True if nothing will succeed any more. A remote drive and a pool end their commands by themselves.
    pub(crate) fn has_stopped(&self) -> bool {
        let engine = self.engine();
        engine.is_some_and(|engine| engine.stop_reason().is_some())
    }

    /// Writes blocks; why not, in words.
    pub(crate) async fn write(&self, lba: Lba, data: Blocks) -> Result<(), String> {
        match self {
            Self::Engine(engine, volume) => {
                let written = engine.write(*volume, lba, data, false).await;
                written.map_err(|error| error.to_string())
            }
            Self::Volume(volume) => {
                let written = volume.write(lba, data, false).await;
                written.map_err(|error| error.to_string())
            }
            Self::Remote(drive) => {
                let drive: &dyn Drive = &**drive;
                let mut gather = Gather::new();
                gather.push_data(data);
                let written = drive.write(lba.0 * BLOCK_BYTES, gather).await;
                written.map_err(|error| error.to_string())
            }
        }
    }

    /// Reads blocks; why not, in words.
    pub(crate) async fn read(&self, lba: Lba, into: Blocks) -> Result<Blocks, String> {
        match self {
            Self::Engine(engine, volume) => {
                let read = engine.read(*volume, lba, into).await;
                read.map_err(|error| error.to_string())
            }
            Self::Volume(volume) => {
                let read = volume.read(lba, into).await;
                read.map_err(|error| error.to_string())
            }
            Self::Remote(drive) => {
                let drive: &dyn Drive = &**drive;
                let read = drive.read_data(lba.0 * BLOCK_BYTES, into, 0).await;
                read.map_err(|error| error.to_string())
            }
        }
    }
}
