//! A pool that is too simple to be wrong, and the same pool with one bug at a time.
//!
//! It keeps a map of blocks in memory that survives a crash, less a tail of each leaf's unflushed
//! records. Drives are used for their latency, order and crash triggers only. The checkers are
//! tested by finding every [`Bug`] and nothing in the correct pool.
//!
//! **Not here**: anything a real pool has to solve.

mod bug;
mod disk;
mod pool;

pub use bug::Bug;

use crate::atlas::{Extent, Layout, Scheme, Tier};
use crate::laps::LogArea;
use crate::rng::Rng;
use crate::subject::{Config, Dense, Factory, Flow, Outcome, Subject};
use disk::Disk;
use pool::Pool;
use std::cell::RefCell;
use std::rc::Rc;
use varve_io::{Drive, Sectors, World};

/// Bytes of a drive that belong to labels, as the layout says.
const BASE: u64 = 64 << 10;
/// Where a start looks at each drive: flaws are met there as a real pool meets them.
const PROBE: u64 = 512 << 10;
/// How far it looks.
const PROBE_SECTORS: usize = 2_048;

/// Makes reference pools.
pub struct Reference {
    bug: Option<Bug>,
    disk: Rc<RefCell<Disk>>,
}

impl Reference {
    /// A correct pool, or one with a bug.
    #[must_use]
    pub fn new(bug: Option<Bug>) -> Self {
        Self {
            bug,
            disk: Rc::default(),
        }
    }

    fn pool(
        &self,
        world: Rc<dyn World>,
        drives: Vec<Rc<dyn Drive>>,
        config: &Config,
    ) -> Rc<dyn Subject> {
        let rng = Rng::new(config.seed).split("reference");
        Rc::new(Pool::new(
            world,
            drives,
            Rc::clone(&self.disk),
            self.bug,
            rng,
            config,
        ))
    }
}

impl Factory for Reference {
    fn adapt(&self, _config: &mut Config) {}

    fn layout(&self, config: &Config) -> Layout {
        let tier = |first: usize, count: usize, bytes: u64, scheme: Scheme| Tier {
            scheme,
            extents: (first..first + count)
                .map(|drive| Extent {
                    drive,
                    base: BASE,
                    bytes: bytes - BASE,
                })
                .collect(),
        };
        let fast = if config.fast > 1 {
            Scheme::Mirror
        } else {
            Scheme::Single
        };
        let mut tiers = vec![tier(0, config.fast, config.fast_bytes, fast)];
        let dense = match config.dense {
            Dense::None => None,
            Dense::Single => Some(Scheme::Single),
            Dense::Mirror => Some(Scheme::Mirror),
            Dense::Parity(_) => Some(Scheme::Parity {
                strip_bytes: 64 << 10,
            }),
        };
        if let Some(scheme) = dense {
            let count = config.dense.drives();
            tiers.push(tier(config.fast, count, config.dense_bytes, scheme));
        }
        Layout {
            drives: config.drives(),
            tiers,
            guard_bytes: 256 << 10,
            losses_max: 1,
        }
    }

    fn create(
        &self,
        world: Rc<dyn World>,
        drives: Vec<Rc<dyn Drive>>,
        config: Config,
    ) -> Flow<'static, Outcome<Rc<dyn Subject>>> {
        self.disk.replace(Disk::default());
        let pool = self.pool(world, drives, &config);
        Box::pin(async move { Ok(pool) })
    }

    fn open(
        &self,
        world: Rc<dyn World>,
        drives: Vec<Rc<dyn Drive>>,
        config: Config,
    ) -> Flow<'static, Outcome<Rc<dyn Subject>>> {
        let pool = self.pool(Rc::clone(&world), drives.clone(), &config);
        let (disk, bug) = (Rc::clone(&self.disk), self.bug);
        Box::pin(async move {
            for drive in &drives {
                let _ = drive
                    .read_meta(PROBE, Sectors::zeroed(PROBE_SECTORS), 0)
                    .await;
                // A drive that is gone does not matter to a pool in memory.
                let _ = drive.flush().await;
            }
            world.yield_now().await;
            disk.borrow_mut().recover(bug);
            Ok(pool)
        })
    }

    fn features(&self) -> &'static [&'static str] {
        &["writes", "flushes", "full_rejections"]
    }

    fn essentials(&self, _config: &Config) -> &'static [&'static str] {
        &["writes", "flushes"]
    }

    fn log_area(&self, _config: &Config) -> Option<LogArea> {
        None
    }
}
