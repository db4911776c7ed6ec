//! A volume in use.

use crate::running::Running;
use std::fmt;
use std::rc::{Rc, Weak};
use varve_format::CatalogueEntry;
use varve_ftl::{EngineError, Recall};
use varve_io::Blocks;
use varve_units::{Lba, TenantId, VolumeId};

/// What a volume is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeInfo {
    /// Its pool.
    pub pool: String,
    /// Its name.
    pub name: String,
    /// Its number in the pool; never used again.
    pub id: VolumeId,
    /// UUID that hosts see; never changes.
    pub uuid: [u8; 16],
    /// NGUID that hosts see; never changes.
    pub nguid: [u8; 16],
    /// Its size.
    pub size: varve_units::Blocks,
    /// Its owner.
    pub tenant: TenantId,
}

impl VolumeInfo {
    pub(crate) fn of(pool: &str, entry: &CatalogueEntry) -> Self {
        Self {
            pool: pool.to_owned(),
            name: entry.name.as_str().to_owned(),
            id: entry.id,
            uuid: entry.uuid,
            nguid: entry.nguid,
            size: entry.size,
            tenant: entry.tenant,
        }
    }
}

/// A handle of a volume. It keeps neither the volume nor its pool: operations on what is gone fail.
#[derive(Clone)]
pub struct Volume {
    info: VolumeInfo,
    pool: Weak<Running>,
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.fmt(f)
    }
}

impl Volume {
    pub(crate) fn new(pool: &Rc<Running>, entry: &CatalogueEntry) -> Self {
        Self {
            info: VolumeInfo::of(&pool.name, entry),
            pool: Rc::downgrade(pool),
        }
    }

    /// What it was when this handle was made.
    #[must_use]
    pub fn info(&self) -> &VolumeInfo {
        &self.info
    }

    fn pool(&self) -> Result<Rc<Running>, EngineError> {
        self.pool.upgrade().ok_or(EngineError::Stopped)
    }

    /// True if completed writes can be lost with the power before a flush; true also if the pool is
    /// gone.
    #[must_use]
    pub fn is_volatile(&self) -> bool {
        self.pool()
            .map_or(true, |pool| pool.pool.engine().is_volatile())
    }

    /// Reads blocks from `lba` on into memory given along, and gives it back.
    ///
    /// # Errors
    /// [`EngineError`]: range, a lost block, a closed pool.
    pub async fn read(&self, lba: Lba, into: Blocks) -> Result<Blocks, EngineError> {
        let pool = self.pool()?;
        pool.pool.engine().read(self.info.id, lba, into).await
    }

    /// Writes blocks from `lba` on; durable when this returns if `fua`, else after [`Volume::flush`].
    ///
    /// # Errors
    /// [`EngineError`]: range, no room, a closed pool.
    pub async fn write(&self, lba: Lba, data: Blocks, fua: bool) -> Result<(), EngineError> {
        let pool = self.pool()?;
        pool.pool.engine().write(self.info.id, lba, data, fua).await
    }

    /// [`Volume::write`] of somebody who may be gone before it is in the log.
    ///
    /// # Errors
    /// As [`Volume::write`]; [`EngineError::Recalled`] if it was recalled in time.
    pub async fn write_for(
        &self,
        recall: &Recall,
        lba: Lba,
        data: Blocks,
        fua: bool,
    ) -> Result<(), EngineError> {
        let (pool, id) = (self.pool()?, self.info.id);
        let engine = pool.pool.engine();
        engine.write_for(recall, id, lba, data, fua).await
    }

    /// Everything acknowledged before is durable when this returns.
    ///
    /// # Errors
    /// [`EngineError`]: the fast tier's, a closed pool.
    pub async fn flush(&self) -> Result<(), EngineError> {
        self.pool()?.pool.engine().flush().await
    }

    /// Deallocates blocks: they read as zeroes.
    ///
    /// # Errors
    /// [`EngineError`]: range, a closed pool.
    pub async fn discard(&self, lba: Lba, blocks: u64) -> Result<(), EngineError> {
        let pool = self.pool()?;
        pool.pool.engine().discard(self.info.id, lba, blocks).await
    }

    /// Writes zeroes without taking room.
    ///
    /// # Errors
    /// [`EngineError`]: range, a closed pool.
    pub async fn write_zeroes(&self, lba: Lba, blocks: u64, fua: bool) -> Result<(), EngineError> {
        let pool = self.pool()?;
        let engine = pool.pool.engine();
        engine.write_zeroes(self.info.id, lba, blocks, fua).await
    }
}
