//! Commands of one state directory that open pools themselves wait for one another: a pool is one
//! process's at a time, and most commands need one for less than a second.
//!
//! **Not here**: what keeps processes apart. That are the locks of drives; who is waited for in vain, and
//! whoever knows of no queue (`varve bench`, a daemon that starts), is told by them.

use crate::home::{Home, try_lock};
use std::fs::File;
use varve_io::World;
use varve_units::Nanos;

/// How long the commands before are waited for. Arbitrary: longer than those take that do not copy or check.
const PATIENCE: Nanos = Nanos::from_secs(10);
/// Between two looks. Arbitrary: nobody notices.
const PAUSE: Nanos = Nanos::from_millis(20);
/// Looks after which the wait is told.
const TOLD_AFTER: u64 = 25;

/// As long as this lives, other commands wait for this one.
#[derive(Debug)]
pub(crate) struct Place {
    _lock: File,
}

impl Home {
    /// Waits until the commands before have ended, for as long as is reasonable: nothing then, and the drives'
    /// locks tell who has them. Where nothing can be locked (a read-only file system, say) nobody is waited for.
    /// `waits` is called if it takes long enough for somebody to wonder.
    pub(crate) async fn queue(&self, world: &dyn World, waits: impl Fn()) -> Option<Place> {
        let path = self.directory().join("command.lock");
        for look in 0..PATIENCE.0 / PAUSE.0 {
            if let Some(lock) = try_lock(&path).ok()? {
                return Some(Place { _lock: lock });
            }
            if look == TOLD_AFTER {
                waits();
            }
            world.sleep(PAUSE).await;
        }
        None
    }
}
