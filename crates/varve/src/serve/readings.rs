//! What pools and volumes are at a moment, for whoever watches a daemon from outside.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use varve_control::{Home, PoolView, Pools, VolumeView};
use varve_io::World;
use varve_units::Nanos;

/// Labels of a closed pool's drives are read again after so long. Arbitrary: a collector comes several times
/// a minute, and drives that answer late keep the reactor waiting, hosts of other pools included.
const CLOSED_AGE_MAX: Nanos = Nanos::from_secs(30);

/// All pools that are known here, and the volumes of those that are open.
#[derive(Default)]
pub(super) struct Readings {
    pub(super) pools: Vec<PoolView>,
    pub(super) volumes: Vec<VolumeView>,
}

/// Takes readings.
pub(super) struct Reader {
    world: Rc<dyn World>,
    home: Home,
    pools: Rc<Pools>,
    /// Closed pools as they were at a time.
    closed: RefCell<BTreeMap<String, (Nanos, PoolView)>>,
}

impl Reader {
    pub(super) fn new(world: Rc<dyn World>, home: Home, pools: Rc<Pools>) -> Self {
        Self {
            world,
            home,
            pools,
            closed: RefCell::default(),
        }
    }

    /// What is there now. A pool that goes away or stops while it is asked is left out this time: there is nobody
    /// to tell, and the next reading has it as it is then.
    pub(super) async fn take(&self) -> Readings {
        let open = self.pools.open_names();
        // A registry that cannot be read is told by whatever changes it; open pools are known without.
        let known = self.home.registry().unwrap_or_default().pools;
        let known = known.into_iter().map(|entry| entry.name);
        let closed: Vec<_> = known.filter(|name| !open.contains(name)).collect();
        let mut readings = Readings::default();
        for name in &open {
            if let Ok(view) = self.pools.status(name).await {
                readings.pools.push(view);
            }
            if let Ok(volumes) = self.pools.list_volumes(Some(name)).await {
                readings.volumes.extend(volumes);
            }
        }
        self.closed
            .borrow_mut()
            .retain(|name, _| closed.contains(name));
        for name in closed {
            readings.pools.extend(self.closed(&name).await);
        }
        readings
    }

    async fn closed(&self, name: &str) -> Option<PoolView> {
        let now = self.world.now();
        let before = self.closed.borrow().get(name).cloned();
        if let Some((at, view)) = before
            && now.since(at) < CLOSED_AGE_MAX
        {
            return Some(view);
        }
        let view = self.pools.status(name).await.ok()?;
        let kept = (now, view.clone());
        self.closed.borrow_mut().insert(name.to_owned(), kept);
        Some(view)
    }
}
