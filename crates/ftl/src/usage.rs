//! What each volume takes, for whoever looks at the pool from outside.
//!
//! **Not here**: what admission goes by (`posts`): that is one bound for all volumes.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::load::Stopped;
use crate::shared::Shared;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use varve_io::Flow;
use varve_units::{SliceId, VolumeId};

impl Engine {
    /// Blocks that each volume maps, at most: a block that was overwritten since its leaf was written
    /// may count twice, never beyond its leaf's 512. Volumes without a block are left out. One slice
    /// after the other is looked at, with pauses, so the sum need not fit one moment.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn usage(&self) -> Flow<'_, Result<BTreeMap<VolumeId, u64>, EngineError>> {
        Box::pin(async move {
            let mut sum = BTreeMap::new();
            for to in self.shared.reactors() {
                let count = |there: Rc<Shared>| async move { there.own_usage().await };
                let own = self.shared.call(to, count).await;
                for (volume, blocks) in own.map_err(|Stopped| EngineError::Stopped)? {
                    *sum.entry(volume).or_insert(0) += blocks;
                }
            }
            Ok(sum)
        })
    }
}

impl Shared {
    async fn own_usage(&self) -> BTreeMap<VolumeId, u64> {
        let mut found = BTreeMap::new();
        for slice in (0..self.units.geometry().slices).map(SliceId) {
            let is_own = {
                let shard = self.shard();
                let map = shard.map.borrow();
                let is_own = map.owns(slice);
                if is_own {
                    map.add_usage(slice, &mut found);
                }
                is_own
            };
            if is_own {
                self.world.yield_now().await;
            }
        }
        found
    }
}
