//! Recounting: the live bits of groups, from the map itself.
//!
//! A crash brings back the bits of blocks whose death no checkpoint had seen. Mostly garbage
//! collection finds that out group by group; where no group is free it cannot empty one that seems
//! full, so the map is asked for every leaf, once.
//!
//! Right because no entry of the map can come to name a place in a closed group: a leaf may be
//! looked at any time between the start and the end of the count.

use crate::geometry::{Geometry, Tier, UnitId};
use crate::map::LeafKey;
use crate::shard::Shard;
use crate::shared::Shared;
use crate::units::UnitState;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// Groups counted at once at least, and the share of all groups where that is more: each count takes
/// a pass over the map, and the bits of its groups are held twice meanwhile. Arbitrary.
const GROUPS_MIN: u32 = 64;
const GROUPS_SHARE: u32 = 16;
/// Leaves looked at beside one another: those that are not cached are read. As many as are merged.
const READERS: usize = crate::limits::MERGES_MAX;
/// Leaves that a flow looks at before others have their turn. Arbitrary: 0.1 ms of work, about.
const LEAVES_ALONE: usize = 64;

/// Live bits by group.
type Found = BTreeMap<u32, Vec<u64>>;

/// One reactor's part of a count.
struct Count {
    keys: RefCell<alloc::vec::IntoIter<LeafKey>>,
    found: RefCell<Found>,
    /// A leaf cannot be read now, or the engine stopped.
    has_failed: Cell<bool>,
}

/// Groups counted at once at most.
fn groups_at_once(geometry: &Geometry) -> u32 {
    GROUPS_MIN
        .max(geometry.groups / GROUPS_SHARE)
        .min(geometry.groups)
}

/// Bytes of the bits that a count holds, at most.
pub(crate) fn count_bytes(geometry: &Geometry) -> u64 {
    u64::from(groups_at_once(geometry)) * u64::from(geometry.group_blocks.div_ceil(64)) * 8
}

impl Shared {
    /// Clears the bits of groups in doubt that the map does not name; tries again later if a leaf
    /// cannot be read now.
    pub(crate) async fn recount(self: &Rc<Self>) {
        let geometry = self.units.geometry();
        let groups = self.doubtful_groups(groups_at_once(geometry) as usize);
        // A leaf that is lost meanwhile brings the doubt back.
        self.set_doubtful(&groups, false);
        let words = geometry.group_blocks.div_ceil(64) as usize;
        let blank = |group: &u32| (*group, alloc::vec![0; words]);
        let mut found: Found = groups.iter().map(blank).collect();
        for to in self.reactors() {
            // One reactor after the other adds what its leaves name: the bits are held once.
            let count = move |there: Rc<Self>| async move { there.shard().add_named(found).await };
            match self.call(to, count).await {
                Ok(Some(named)) => found = named,
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

impl Shard {
    /// Sets the bits of places that this reactor's leaves name. `None` if one cannot be read now, or
    /// the engine stopped.
    async fn add_named(self: &Rc<Self>, found: Found) -> Option<Found> {
        let count = Rc::new(Count {
            keys: RefCell::new(self.map.borrow().keys().into_iter()),
            found: RefCell::new(found),
            has_failed: Cell::new(false),
        });
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let (shard, count) = (Rc::clone(self), Rc::clone(&count));
                let world = &self.shared.world;
                world.run(async move { shard.count_leaves(&count).await })
            })
            .collect();
        for reader in readers {
            reader.await;
        }
        (!count.has_failed.get()).then(|| count.found.take())
    }

    /// Takes one leaf after the other, while others do the same.
    async fn count_leaves(&self, count: &Count) {
        for taken in 1.. {
            let Some(key) = count.keys.borrow_mut().next() else {
                return;
            };
            if self.ensure_image(key).await.is_err() {
                count.has_failed.set(true);
            }
            if count.has_failed.get() {
                return;
            }
            self.note_named(key, &mut count.found.borrow_mut());
            if taken % LEAVES_ALONE == 0 {
                self.shared.world.yield_now().await;
            }
        }
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
