//! Volumes: create, resize, delete, list.

use crate::create::is_new_name;
use crate::error::ControlError;
use crate::events::Event;
use crate::finding::{Finding, Severity};
use crate::pools::Pools;
use crate::random;
use crate::running::Running;
use crate::view::VolumeView;
use crate::volume::{Volume, VolumeInfo};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use varve_ftl::{EngineError, NewVolume};
use varve_io::Flow;
use varve_units::{BLOCK_BYTES, Blocks, TenantId};

/// A volume to be made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateVolume {
    /// Its pool.
    pub pool: String,
    /// Its name.
    pub volume: String,
    /// Size in bytes, a multiple of 4096.
    pub bytes: u64,
    /// Its tenant.
    #[serde(default)]
    pub tenant: u32,
}

impl Pools {
    /// Creates a volume, thin and empty.
    ///
    /// # Errors
    /// [`ControlError`]: no such pool, a bad or taken name, a bad size, too many volumes.
    pub fn create_volume<'a>(
        &'a self,
        new: &'a CreateVolume,
    ) -> Flow<'a, Result<Volume, ControlError>> {
        Box::pin(async move {
            let running = self.running(&new.pool)?;
            if !is_new_name(&new.volume) {
                return Err(ControlError::BadName(new.volume.clone()));
            }
            let size = blocks(new.bytes)?;
            // One identity under both names: hosts prefer the UUID, and it is as unique.
            let uuid = random::uuid().map_err(ControlError::Random)?;
            let engine = running.pool.engine();
            let id = engine.create_volume(NewVolume {
                name: &new.volume,
                size,
                tenant: TenantId(new.tenant),
                uuid,
                nguid: uuid,
            });
            id.await
                .map_err(failed("creating the volume", &new.pool, &new.volume))?;
            let volume = self.volume(&new.pool, &new.volume)?;
            self.watchers.tell(&Event::VolumeCreated(volume.clone()));
            self.watchers.heard(&*self.world).await;
            Ok(volume)
        })
    }

    /// Changes a volume's size. It becomes smaller only with `shrink`: what is behind the new end is
    /// gone then.
    ///
    /// # Errors
    /// [`ControlError`]: no such volume, a bad size, [`ControlError::WouldShrink`].
    pub fn resize_volume<'a>(
        &'a self,
        pool: &'a str,
        volume: &'a str,
        bytes: u64,
        shrink: bool,
    ) -> Flow<'a, Result<Volume, ControlError>> {
        Box::pin(async move {
            let running = self.running(pool)?;
            // What it has is asked when nobody else changes it: a size that was given before is not taken back.
            let _turn = running.sizes.take().await;
            let before = self.volume(pool, volume)?;
            let size = blocks(bytes)?;
            if size < before.info().size && !shrink {
                return Err(ControlError::WouldShrink {
                    volume: format!("{pool}/{volume}"),
                    bytes: before.info().size.0 * BLOCK_BYTES,
                    wanted: bytes,
                });
            }
            let engine = running.pool.engine();
            let resized = engine.resize_volume(before.info().id, size).await;
            resized.map_err(failed("resizing the volume", pool, volume))?;
            let volume = self.volume(pool, volume)?;
            self.watchers.tell(&Event::VolumeResized(volume.clone()));
            self.watchers.heard(&*self.world).await;
            Ok(volume)
        })
    }

    /// Deletes a volume; one that holds something only `with_data`, which is gone then.
    ///
    /// # Errors
    /// [`ControlError`]: no such volume, [`ControlError::HoldsData`], a stopped engine.
    pub fn delete_volume<'a>(
        &'a self,
        pool: &'a str,
        volume: &'a str,
        with_data: bool,
    ) -> Flow<'a, Result<VolumeInfo, ControlError>> {
        Box::pin(async move {
            let running = self.running(pool)?;
            let info = self.volume(pool, volume)?.info().clone();
            if !with_data {
                self.holds_nothing(pool, volume).await?;
            }
            let deleted = running.pool.engine().delete_volume(info.id).await;
            deleted.map_err(failed("deleting the volume", pool, volume))?;
            self.watchers.tell(&Event::VolumeDeleted(info.clone()));
            self.watchers.heard(&*self.world).await;
            Ok(info)
        })
    }

    /// Looks whether what a volume holds would be lost with it.
    ///
    /// # Errors
    /// [`ControlError::HoldsData`]; no such volume, a stopped engine.
    pub fn holds_nothing<'a>(
        &'a self,
        pool: &'a str,
        volume: &'a str,
    ) -> Flow<'a, Result<(), ControlError>> {
        Box::pin(async move {
            let views = volume_views(&self.running(pool)?).await?;
            let mut named = views.into_iter().filter(|view| view.volume == volume);
            let view = named.next().ok_or_else(|| ControlError::NoVolume {
                pool: pool.to_owned(),
                volume: volume.to_owned(),
            })?;
            match view.used_bytes {
                0 => Ok(()),
                bytes => Err(ControlError::HoldsData {
                    volume: format!("{pool}/{volume}"),
                    bytes,
                }),
            }
        })
    }

    /// Volumes of one open pool, or of all, with what they take.
    ///
    /// # Errors
    /// [`ControlError`]: no such pool, a stopped engine.
    pub fn list_volumes<'a>(
        &'a self,
        pool: Option<&'a str>,
    ) -> Flow<'a, Result<Vec<VolumeView>, ControlError>> {
        Box::pin(async move {
            let names = pool.map_or_else(|| self.open_names(), |pool| vec![pool.to_owned()]);
            let mut views = Vec::new();
            for name in names {
                let running = self.running(&name)?;
                let mut of_pool = volume_views(&running).await?;
                for (view, volume) in of_pool.iter_mut().zip(running.volumes()) {
                    view.nsid = self.number(volume.info());
                }
                views.append(&mut of_pool);
            }
            Ok(views)
        })
    }

    /// Pools that are known here and not open: a list of all volumes is one without theirs.
    ///
    /// # Errors
    /// The registry cannot be read.
    pub(crate) fn left_out(&self) -> Result<Vec<Finding>, ControlError> {
        let registry = self.home.registry()?;
        let (open, unopened) = (self.open_names(), self.unopened.borrow());
        let closed = registry.pools.into_iter();
        let closed = closed.filter(|entry| !open.contains(&entry.name));
        let told = closed.map(|entry| {
            let pool = &entry.name;
            let text = match unopened.get(pool) {
                _ if entry.destroying => format!(
                    "volumes of pool {pool} are left out: it was being destroyed; next: `varve pool destroy {pool}` ends that"
                ),
                Some(why) => format!(
                    "volumes of pool {pool} are left out, it could not be opened: {why}; next: `varve pool status {pool}` tells more"
                ),
                None => format!(
                    "volumes of pool {pool} are left out, it is closed; next: `varve pool import --pool {pool}` opens it"
                ),
            };
            Finding::new(Severity::Warning, "left-out", text)
        });
        Ok(told.collect())
    }
}

/// Volumes of a pool with what they take.
pub(crate) async fn volume_views(running: &Rc<Running>) -> Result<Vec<VolumeView>, ControlError> {
    let usage = running.pool.engine().usage().await;
    let usage = usage.map_err(failed("listing the volumes", &running.name, ""))?;
    let exposed = exposed_bytes(running);
    let views = running.volumes().into_iter().map(|volume| {
        let info = volume.info();
        let used_bytes = usage.get(&info.id).copied().unwrap_or(0) * BLOCK_BYTES;
        VolumeView {
            pool: info.pool.clone(),
            volume: info.name.clone(),
            id: info.id.0,
            nsid: None,
            uuid: random::uuid_text(&info.uuid),
            nguid: random::hex(&info.nguid),
            bytes: info.size.0 * BLOCK_BYTES,
            tenant: info.tenant.0,
            used_bytes,
            // Where its blocks are is not counted by volume: at most all that are unprotected.
            unprotected_bytes: used_bytes.min(exposed),
            findings: Vec::new(),
        }
    });
    Ok(views.collect())
}

/// Bytes that the loss of one more drive could take, at most: of a fast tier that is not whole all there are.
pub(crate) fn exposed_bytes(running: &Running) -> u64 {
    match running.is_whole() {
        (true, true) => 0,
        (true, false) => running.pool.engine().exposed_blocks() * BLOCK_BYTES,
        (false, _) => u64::MAX,
    }
}

fn blocks(bytes: u64) -> Result<Blocks, ControlError> {
    use crate::size::SizeError;
    match bytes {
        0 => Err(SizeError::Zero.into()),
        bytes if !bytes.is_multiple_of(BLOCK_BYTES) => Err(SizeError::Uneven(bytes).into()),
        bytes => Ok(Blocks(bytes / BLOCK_BYTES)),
    }
}

fn failed(
    what: &'static str,
    pool: &str,
    volume: &str,
) -> impl FnOnce(EngineError) -> ControlError + use<> {
    let name = if volume.is_empty() {
        format!("{what} of {pool}")
    } else {
        format!("{what} {pool}/{volume}")
    };
    move |error| ControlError::Engine { what: name, error }
}
