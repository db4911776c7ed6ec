//! Keeps the server's namespaces equal to the volumes of the pools that are open.
//!
//! Whatever happened, the two are compared as wholes: an event says when to look, not what to do. Only
//! a deletion says more: the volume's number is free then.

use crate::numbers::{Numbers, NumbersError};
use crate::server::Server;
use crate::volume::{VolumeStore, namespace};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use varve_control::{Event, Pools, Volume, VolumeInfo, Watch};
use varve_io::World;
use varve_target::NamespaceError;

/// The namespaces of all volumes.
pub struct Namespaces {
    world: Rc<dyn World>,
    server: Server,
    pools: Rc<Pools>,
    state: RefCell<State>,
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
        world: Rc<dyn World>,
        server: Server,
        pools: Rc<Pools>,
        numbers: Numbers,
    ) -> Rc<Self> {
        Rc::new(Self {
            world,
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
    pub async fn follow(self: Rc<Self>, watch: Watch, warn: impl Fn(&Unserved)) {
        loop {
            match watch.next().await {
                Event::PoolOpened { pool } => {
                    self.state.borrow_mut().closing.remove(&pool);
                }
                Event::PoolClosing { pool } => {
                    self.state.borrow_mut().closing.insert(pool);
                }
                Event::VolumeDeleted(info) => {
                    let forgotten = self.state.borrow_mut().numbers.forget(&info.uuid);
                    if let Err(error) = forgotten {
                        warn(&Unserved::new(&info, error));
                    }
                }
                Event::VolumeCreated(_) | Event::VolumeResized(_) | Event::Missed => {}
            }
            self.show().iter().for_each(&warn);
        }
    }

    /// What hosts see, by namespace number.
    #[must_use]
    pub fn shown(&self) -> BTreeMap<u32, VolumeInfo> {
        self.state.borrow().shown.clone()
    }

    /// Makes the namespaces what the volumes are; tells of those that cannot be.
    #[must_use]
    pub fn show(&self) -> Vec<Unserved> {
        let mut state = self.state.borrow_mut();
        let (mut wanted, mut unserved) = (BTreeMap::new(), Vec::new());
        for volume in self.pools.volumes() {
            let info = volume.info();
            if state.closing.contains(&info.pool) {
                continue;
            }
            match state.numbers.of(&info.uuid) {
                Ok(nsid) => drop(wanted.insert(nsid, volume)),
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

/// A volume that hosts do not see as it is, and why.
#[derive(Debug)]
pub struct Unserved {
    /// The volume.
    pub volume: String,
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
            volume: format!("{}/{}", info.pool, info.name),
            why: why.into(),
        }
    }
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "volume {} is not served as it is: ", self.volume)?;
        match &self.why {
            Why::Number(error) => error.fmt(f),
            Why::Namespace(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unserved {}
