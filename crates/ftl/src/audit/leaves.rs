//! Reading the stored images of all leaves.

use super::report::{Found, tell};
use super::{AuditError, AuditNews, BadCopy, shards};
use crate::geometry::Tier;
use crate::map::{Base, LeafKey};
use crate::merge::leaf_crc;
use crate::shard::Shard;
use crate::shared::Shared;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_format::{LEAF_BYTES, LeafImage};
use varve_units::SECTOR_BYTES;

/// Times all leaves are looked through for one whose image changed. Arbitrary: each flow that
/// may run beside an audit ends by itself, so the leaves come to rest.
const ROUNDS_MAX: usize = 1000;

/// A leaf to be read, and where its stored image is.
type Missing = (Rc<Shard>, LeafKey, Base);

/// Stored images, by leaf, with what they are the image of.
#[derive(Default)]
pub(super) struct Images(BTreeMap<LeafKey, (Base, Box<LeafImage>)>);

impl Images {
    /// Reads until, in one turn, every leaf of a present volume has the image that was read.
    pub(super) async fn read_all(
        &mut self,
        shared: &Shared,
        mut found: Option<&mut Found<'_>>,
    ) -> Result<(), AuditError> {
        for _ in 0..ROUNDS_MAX {
            let missing = self.missing(shared)?;
            if missing.is_empty() {
                return Ok(());
            }
            let all = missing.len();
            for (done, (shard, key, base)) in missing.into_iter().enumerate() {
                tell(&mut found, "leaves of the map", done, all);
                match read(&shard, key, base).await {
                    Ok(image) => {
                        self.0.insert(key, (base, image));
                    }
                    Err(found) => {
                        let stands = shard.map.borrow().stored(key) == Some(base);
                        if stands && shard.map.borrow().is_lost(key) {
                            self.0.insert(key, (base, Box::new(LeafImage::LOST)));
                        } else if stands && shared.volumes.borrow().is_present(key.volume) {
                            return Err(AuditError::LeafUnreadable {
                                volume: key.volume,
                                leaf: key.leaf,
                                sector: base.sector,
                                expected: base.crc,
                                found,
                            });
                        }
                    }
                }
            }
        }
        Err(AuditError::Unsettled)
    }

    /// The image of a leaf, if it was read from `base`.
    pub(super) fn image(&self, key: LeafKey, base: Base) -> Option<&LeafImage> {
        let (of, image) = self.0.get(&key)?;
        (*of == base).then_some(image)
    }

    /// Tells of copies of the images that do not pass their check.
    pub(super) async fn check_copies(
        &self,
        shared: &Shared,
        found: &mut Found<'_>,
    ) -> Result<(), AuditError> {
        let sectors = LEAF_BYTES as u64 / SECTOR_BYTES;
        for (done, (key, (base, _))) in self.0.iter().enumerate() {
            tell(
                &mut Some(&mut *found),
                "copies of leaves",
                done,
                self.0.len(),
            );
            let owner = shared.owner_of_leaf(*key);
            let shard = &shards(shared)?[usize::from(owner.0)];
            for copy in 0..shared.fast.info().copies {
                let read = shard.try_read_sectors(base.sector, sectors, copy).await;
                if read.as_ref().is_err_and(|error| error.is_absence()) {
                    continue;
                }
                let crc = read.ok();
                let crc = crc.map(|read| leaf_crc(*key, base.through, read.bytes()));
                // The cleaner may have moved it, and somebody else written there, meanwhile.
                let stands = shard.map.borrow().stored(*key) == Some(*base);
                if crc != Some(base.crc) && stands && !shard.map.borrow().is_lost(*key) {
                    found(AuditNews::Bad(BadCopy {
                        tier: Tier::Fast,
                        offset: base.sector * SECTOR_BYTES,
                        bytes: sectors * SECTOR_BYTES,
                        copy,
                    }));
                }
            }
        }
        Ok(())
    }

    fn missing(&self, shared: &Shared) -> Result<Vec<Missing>, AuditError> {
        let mut missing = Vec::new();
        for shard in shards(shared)? {
            let map = shard.map.borrow();
            for key in map.keys() {
                if shared.volumes.borrow().is_present(key.volume)
                    && let Some(base) = map.stored(key)
                    && self.image(key, base).is_none()
                {
                    missing.push((Rc::clone(&shard), key, base));
                }
            }
        }
        Ok(missing)
    }
}

/// Reads a leaf by whichever copy passes its check; else the checksum found, if any was.
pub(super) async fn read(
    shard: &Shard,
    key: LeafKey,
    base: Base,
) -> Result<Box<LeafImage>, Option<u32>> {
    let sectors = LEAF_BYTES as u64 / SECTOR_BYTES;
    let mut found = None;
    for copy in 0..shard.shared.fast.info().copies {
        let Some(read) = shard.read_sectors(base.sector, sectors, copy).await else {
            continue;
        };
        let crc = leaf_crc(key, base.through, read.bytes());
        found = Some(crc);
        if crc == base.crc
            && let Ok(image) = LeafImage::decode(read.bytes())
        {
            return Ok(image);
        }
    }
    Err(found)
}
