//! Keeps the server's namespaces equal to the volumes of the pools that are open.
//!
//! Whatever happened, the two are compared as wholes: an event says when to look, not what to do. Only
//! a deletion says more: the volume's number is free then.
//!
//! **Invariant**: while numbers are made durable, which may take long, volumes that have one come and go.

use crate::numbers::{Numbers, NumbersError};
use crate::server::Server;
use crate::volume::{VolumeStore, namespace};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use varve_control::{Event, Health, Pools, Volume, VolumeInfo, Watch};
use varve_hostio::{Io, aside};
use varve_io::World;
use varve_target::{NamespaceError, Warnings};

/// The namespaces of all volumes.
pub struct Namespaces {
    world: Rc<dyn World>,
    io: Io,
    server: Server,
    pools: Rc<Pools>,
    state: RefCell<State>,
    /// Numbers are being made durable.
    is_saving: Cell<bool>,
}

struct State {
    numbers: Numbers,
    /// What hosts see.
    shown: BTreeMap<u32, VolumeInfo>,
    /// Pools whose volumes are withdrawn.
    closing: BTreeSet<String>,
}

impl Namespaces {
    /// Nothing is shown yet.
    pub fn new(
        (world, io): (Rc<dyn World>, Io),
        server: Server,
        pools: Rc<Pools>,
        numbers: Numbers,
    ) -> Rc<Self> {
        Rc::new(Self {
            world,
            io,
            is_saving: Cell::new(false),
            server,
            pools,
            state: RefCell::new(State {
                numbers,
                shown: BTreeMap::new(),
                closing: BTreeSet::new(),
            }),
        })
    }

    /// Follows what happens, for ever. `warn` is told of volumes that hosts do not see as they are;
    /// the others are served.
    pub async fn follow(self: Rc<Self>, watch: Watch, warn: impl Fn(&Unserved) + Copy + 'static) {
        loop {
            match watch.next().await {
                Event::PoolOpened { pool } => {
                    self.state.borrow_mut().closing.remove(&pool);
                }
                Event::PoolClosing { pool } => {
                    self.state.borrow_mut().closing.insert(pool);
                }
                Event::VolumeDeleted(info) => {
                    self.state.borrow_mut().numbers.forget(&info.uuid);
                }
                // Namespaces of a pool that was taken over stay and answer with errors: its hosts are to notice.
                Event::PoolTaken { .. }
                | Event::VolumeCreated(_)
                | Event::VolumeResized(_)
                | Event::Missed => {}
            }
            self.show().iter().for_each(warn);
            if !self.is_saving.replace(true) {
                let (all, under_way) = (Rc::clone(&self), watch.under_way());
                self.world.spawn(Box::pin(async move {
                    all.save(warn).await;
                    all.is_saving.set(false);
                    drop(under_way);
                }));
            }
        }
    }

    /// Makes the namespaces what the volumes are now; ends once that was done for all of them. `warn` as with
    /// [`Self::follow`], which comes after it.
    pub async fn settle(&self, warn: impl Fn(&Unserved)) {
        self.show().iter().for_each(&warn);
        self.save(warn).await;
    }

    /// Makes numbers durable until all are, and shows what they are of. What fails is tried again after the next event.
    async fn save(&self, warn: impl Fn(&Unserved)) {
        loop {
            let draft = self.state.borrow().numbers.draft();
            let Some(draft) = draft else { return };
            let saved = aside(self.io.clone(), move || draft.save()).await;
            match saved.unwrap_or_else(|error| Err(NumbersError::NoThread(error))) {
                Ok(draft) => self.state.borrow_mut().numbers.saved(draft),
                Err(error) => return warn(&Unserved::numbers(error)),
            }
            self.show().iter().for_each(&warn);
        }
    }

    /// Tells hosts how the pools fare that they see volumes of, as `pool status` says it: one that is not well degrades
    /// all of the subsystem, which takes no writes only where none does.
    pub fn look(&self) {
        let pools: BTreeSet<String> = {
            let state = self.state.borrow();
            let shown = state.shown.values();
            shown.map(|volume| volume.pool.clone()).collect()
        };
        // One that was closed meanwhile is not seen either.
        let healths = pools.iter().filter_map(|pool| self.pools.health(pool).ok());
        self.server.warn(warnings(healths));
    }

    /// What hosts see, by namespace number.
    #[must_use]
    pub fn shown(&self) -> BTreeMap<u32, VolumeInfo> {
        self.state.borrow().shown.clone()
    }

    /// The number under which hosts see a volume, if they do.
    #[must_use]
    pub fn number(&self, volume: &VolumeInfo) -> Option<u32> {
        let state = self.state.borrow();
        let nsid = state.numbers.get(&volume.uuid)?;
        let shown = state.shown.get(&nsid)?;
        (shown.uuid == volume.uuid).then_some(nsid)
    }

    /// Makes the namespaces what the volumes with durable numbers are; tells of those that cannot be.
    fn show(&self) -> Vec<Unserved> {
        let mut state = self.state.borrow_mut();
        let (mut wanted, mut unserved) = (BTreeMap::new(), Vec::new());
        for volume in self.pools.volumes() {
            let info = volume.info();
            if state.closing.contains(&info.pool) {
                continue;
            }
            let mut nsid = state.numbers.of(&info.uuid);
            if matches!(nsid, Err(NumbersError::Full)) && self.pools.are_all_open() {
                // Others were deleted while nobody was here to forget them. Where a pool is closed its volumes may
                // come back, and are to be found where they were.
                let volumes = self.pools.volumes();
                let uuids = volumes.iter().map(|volume| &volume.info().uuid);
                state.numbers.keep(uuids);
                nsid = state.numbers.of(&info.uuid);
            }
            match nsid {
                Ok(Some(nsid)) => drop(wanted.insert(nsid, volume)),
                Ok(None) => {}
                Err(error) => unserved.push(Unserved::new(info, error)),
            }
        }
        let gone = state.shown.keys().copied();
        let gone: Vec<u32> = gone.filter(|nsid| !wanted.contains_key(nsid)).collect();
        for nsid in gone {
            state.shown.remove(&nsid);
            self.server.remove(nsid);
        }
        for (nsid, volume) in wanted {
            let info = volume.info().clone();
            if state.shown.get(&nsid) == Some(&info) {
                continue;
            }
            match self.put(nsid, volume) {
                Ok(()) => drop(state.shown.insert(nsid, info)),
                Err(error) => unserved.push(Unserved::new(&info, error)),
            }
        }
        unserved
    }

    fn put(&self, nsid: u32, volume: Volume) -> Result<(), NamespaceError> {
        let info = volume.info();
        let namespace = namespace(info.size.0, info.nguid, info.uuid, volume.is_volatile());
        let store = VolumeStore::new(Rc::clone(&self.world), volume);
        self.server.put(nsid, namespace, Rc::new(store))
    }
}

/// Critical warnings where pools fare so.
fn warnings(healths: impl Iterator<Item = Health>) -> Warnings {
    let healths: Vec<_> = healths.collect();
    let worst = healths.iter().max();
    let best = healths.iter().min();
    Warnings {
        is_degraded: worst.is_some_and(|health| *health >= Health::Degraded),
        is_read_only: best.is_some_and(|health| *health >= Health::Faulted),
    }
}

/// A volume that hosts do not see as it is, and why.
#[derive(Debug)]
pub struct Unserved {
    /// The volume; all that are new, and those that were deleted, if `None`.
    pub volume: Option<String>,
    /// Why.
    pub why: Why,
}

/// Why a volume is not served as it is.
#[derive(Debug)]
#[non_exhaustive]
pub enum Why {
    /// It has no number.
    Number(NumbersError),
    /// Hosts would not accept it.
    Namespace(NamespaceError),
}

impl From<NumbersError> for Why {
    fn from(error: NumbersError) -> Self {
        Self::Number(error)
    }
}

impl From<NamespaceError> for Why {
    fn from(error: NamespaceError) -> Self {
        Self::Namespace(error)
    }
}

impl Unserved {
    fn new(info: &VolumeInfo, why: impl Into<Why>) -> Self {
        Self {
            volume: Some(format!("{}/{}", info.pool, info.name)),
            why: why.into(),
        }
    }

    const fn numbers(error: NumbersError) -> Self {
        Self {
            volume: None,
            why: Why::Number(error),
        }
    }
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.volume {
            Some(volume) => write!(f, "volume {volume} is not served as it is: "),
            None => f.write_str("new volumes are not served, their numbers cannot be kept: "),
        }?;
        match &self.why {
            Why::Number(error) => error.fmt(f),
            Why::Namespace(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unserved {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit 2 for one pool that is not well, bit 3 for none that takes writes; nothing where nothing is served.
    #[test]
    fn pools_of_one_subsystem() {
        use Health::{Damaged, Degraded, Faulted, Ok};
        let cases: [(&[Health], u8); 7] = [
            (&[], 0),
            (&[Ok, Ok], 0),
            (&[Ok, Degraded], 0b0100),
            (&[Damaged], 0b0100),
            (&[Faulted, Ok], 0b0100),
            (&[Faulted, Damaged], 0b0100),
            (&[Faulted, Faulted], 0b1100),
        ];
        for (healths, bits) in cases {
            let told = warnings(healths.iter().copied());
            assert_eq!(told.bits(), bits, "{healths:?}");
        }
    }
}
