//! A pool that is open here.

use crate::away::Refusals;
use crate::events::{Event, Watchers};
use crate::random;
use crate::registry::Entry;
use crate::room::Full;
use crate::scrub::Scrubs;
use crate::status::drive_name;
use crate::turn::Turn;
use crate::volume::Volume;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use varve_format::Protection;
use varve_io::{Drive, World};
use varve_pool::label::{MemberId, MemberState, PoolId, Role};
use varve_pool::{Pool, Slot, SlotState};
use varve_units::Nanos;

/// A pool that is open here.
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) id: PoolId,
    pub(crate) pool: Pool,
    /// Where each member was found.
    pub(crate) paths: RefCell<BTreeMap<MemberId, PathBuf>>,
    /// Changes of sizes of its volumes.
    pub(crate) sizes: Turn,
    /// The job that changes its drives.
    pub(crate) job: Cell<Option<u64>>,
    pub(crate) scrubs: Scrubs,
    /// Its blocks were full, and its map, when that was asked last.
    pub(crate) was_full: Cell<Full>,
    /// Reads refused because a tier did not answer.
    pub(crate) refused_reads: Cell<Refusals>,
    /// Drives that take the place of others, by the name of the place.
    pub(crate) replacing: RefCell<BTreeMap<String, PathBuf>>,
    /// Its drives, not kept open by this.
    pub(crate) drives: RefCell<Vec<Weak<dyn Drive>>>,
}

impl Running {
    pub(crate) fn new(
        name: String,
        pool: Pool,
        paths: BTreeMap<MemberId, PathBuf>,
        drives: &[Rc<dyn Drive>],
    ) -> Rc<Self> {
        Rc::new(Self {
            id: pool.membership().state().pool,
            name,
            pool,
            paths: RefCell::new(paths),
            sizes: Turn::default(),
            job: Cell::new(None),
            scrubs: Scrubs::default(),
            was_full: Cell::default(),
            refused_reads: Cell::default(),
            replacing: RefCell::default(),
            drives: RefCell::new(drives.iter().map(Rc::downgrade).collect()),
        })
    }

    /// Shows in the labels that the owner lives, as long as the pool is open; tells if it is another's by then.
    pub(crate) fn start_beating(
        self: &Rc<Self>,
        world: &Rc<dyn World>,
        beat: Nanos,
        watchers: &Rc<Watchers>,
    ) {
        let (pool, clock, watchers) = (
            Rc::downgrade(self),
            Rc::clone(world),
            Rc::downgrade(watchers),
        );
        world.spawn(Box::pin(async move {
            loop {
                clock.sleep(beat).await;
                let Some(running) = pool.upgrade() else {
                    return;
                };
                if running.pool.beat().await.is_err() {
                    if let (Some(_), Some(all)) = (running.pool.taken(), watchers.upgrade()) {
                        let pool = running.name.clone();
                        all.tell(&Event::PoolTaken { pool });
                    }
                    return;
                }
            }
        }));
    }

    /// What the registry is to know of it: where its drives are, of members that were not removed, and which
    /// are to take the place of others.
    pub(crate) fn entry(&self) -> Entry {
        let members = self.pool.membership().state().members;
        let is_member = |id: &MemberId| {
            let row = members.get(*id);
            row.is_some_and(|row| row.state != MemberState::Removed)
        };
        let known = self.paths.borrow();
        let known = known.iter().filter(|(id, _)| is_member(id));
        let mut paths: Vec<_> = known.map(|(_, path)| path.clone()).collect();
        let replacing = self.replacing();
        for path in replacing.values() {
            if !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        Entry {
            name: self.name.clone(),
            id: random::hex(&self.id.0),
            paths,
            destroying: false,
            replacing,
        }
    }

    /// Drives that take the place of others and are not whole yet, by the name of the place. Of those that are
    /// whole nothing is noted any more: should they be lost later, that is another matter.
    pub(crate) fn replacing(&self) -> BTreeMap<String, PathBuf> {
        let paths = self.paths.borrow();
        let mut noted = self.replacing.borrow_mut();
        let mut filled = BTreeMap::new();
        for status in self.pool.slots() {
            let Some(path) = status.member.and_then(|id| paths.get(&id)) else {
                continue;
            };
            let place = drive_name(status.slot.role, status.slot.number);
            match status.state {
                SlotState::Live if noted.get(&place) == Some(path) => {
                    noted.remove(&place);
                }
                SlotState::Rebuilding => {
                    filled.insert(place, path.clone());
                }
                _ => {}
            }
        }
        let mut replacing = noted.clone();
        replacing.extend(filled);
        replacing
    }

    /// The member that sits in a slot, or did last.
    pub(crate) fn seated(&self, slot: Slot) -> Option<MemberId> {
        let slots = self.pool.slots();
        let status = slots.iter().find(|status| status.slot == slot);
        status.and_then(|status| status.member)
    }

    /// Notes where the drive is that sits in a slot now.
    pub(crate) fn set_path(&self, slot: Slot, path: &Path) {
        if let Some(id) = self.seated(slot) {
            self.paths.borrow_mut().insert(id, path.to_owned());
        }
    }

    /// Where the drive is, or was, that sits in a slot or did last.
    pub(crate) fn path_of(&self, slot: Slot) -> Option<PathBuf> {
        let id = self.seated(slot)?;
        self.paths.borrow().get(&id).cloned()
    }

    /// Its volumes, by number.
    pub(crate) fn volumes(self: &Rc<Self>) -> Vec<Volume> {
        let entries = self.pool.engine().volumes();
        entries
            .iter()
            .map(|entry| Volume::new(self, entry))
            .collect()
    }

    /// True if every block of the fast tier, and of the dense tier, lies on as many drives as it
    /// should.
    pub(crate) fn is_whole(&self) -> (bool, bool) {
        let slots = self.pool.slots();
        let whole = |role| {
            let mut of_role = slots.iter().filter(|slot| slot.slot.role == role);
            of_role.all(|slot| slot.state == SlotState::Live)
        };
        let copies = slots.iter().filter(|slot| slot.slot.role == Role::Fast);
        let is_mirrored = copies.count() > 1;
        let geometry = self.pool.geometry();
        let is_coded = geometry.protection != Protection::None;
        (
            is_mirrored && whole(Role::Fast),
            geometry.groups == 0 || is_coded && whole(Role::Dense),
        )
    }
}
