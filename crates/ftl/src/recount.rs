//! Recounting: the live bits of groups, from the map itself.
//!
//! A crash brings back the bits of blocks whose death no checkpoint had seen. Mostly garbage
//! collection finds that out group by group; where no group is free it cannot empty one that seems
//! full, so the map is asked for every leaf, once.
//!
//! Right because no entry of the map can come to name a place in a closed group: a leaf may be
//! looked at any time between the start and the end of the count.

use crate::geometry::{Tier, UnitId};
use crate::map::LeafKey;
use crate::shard::Shard;
use crate::shared::Shared;
use crate::units::UnitState;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;

/// Groups counted at once: their bits are held twice meanwhile. Arbitrary.
const GROUPS_MAX: usize = 64;

/// Live bits by group.
type Found = BTreeMap<u32, Vec<u64>>;

impl Shared {
    /// Clears the bits of groups in doubt that the map does not name; tries again later if a leaf
    /// cannot be read now.
    pub(crate) async fn recount(self: &Rc<Self>) {
        let groups = self.doubtful_groups(GROUPS_MAX);
        // A leaf that is lost meanwhile brings the doubt back.
        self.set_doubtful(&groups, false);
        let words = self.units.geometry().group_blocks.div_ceil(64) as usize;
        let mut found: Found = groups
            .iter()
            .map(|group| (*group, alloc::vec![0; words]))
            .collect();
        for to in self.reactors() {
            let blank = found.clone();
            let count = move |there: Rc<Self>| async move { there.shard().named(blank).await };
            match self.call(to, count).await {
                Ok(Some(named)) => merge(&mut found, named),
                Ok(None) => {
                    self.set_doubtful(&groups, true);
                    self.world.sleep(crate::limits::RETRY_PAUSE).await;
                    return;
                }
                Err(_) => return,
            }
        }
        self.count("recounts", 1);
        for (group, words) in found {
            let id = UnitId::group(group);
            // Only garbage collection takes closed groups away, and it waits for this.
            assert_eq!(self.units.unit(id).state(), UnitState::Closed);
            self.units.keep(id, &words);
        }
    }

    fn set_doubtful(&self, groups: &[u32], is_doubtful: bool) {
        for group in groups {
            self.units.set_doubtful(UnitId::group(*group), is_doubtful);
        }
    }
}

fn merge(into: &mut Found, named: Found) {
    for (group, words) in named {
        let all = into.get_mut(&group).expect("what was asked for");
        for (all, named) in all.iter_mut().zip(words) {
            *all |= named;
        }
    }
}

impl Shard {
    /// Sets the bits of places that this reactor's leaves name. `None` if one cannot be read now, or
    /// the engine stopped.
    async fn named(&self, mut found: Found) -> Option<Found> {
        let keys = self.map.borrow().keys();
        for key in keys {
            self.ensure_image(key).await.ok()?;
            self.note_named(key, &mut found);
        }
        Some(found)
    }

    fn note_named(&self, key: LeafKey, found: &mut Found) {
        let geometry = self.shared.units.geometry();
        self.map.borrow().each_cached_place(key, |ppa| {
            let place = geometry.locate(ppa);
            let place = place.filter(|place| place.unit.tier == Tier::Dense);
            if let Some(place) = place
                && let Some(words) = found.get_mut(&place.unit.index)
            {
                words[(place.bit / 64) as usize] |= 1 << (place.bit % 64);
            }
        });
    }
}
