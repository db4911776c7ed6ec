//! Hosts that are connected, and what must not be taken from them without a question.

use crate::error::ControlError;
use crate::pools::Pools;
use std::cell::RefCell;

/// Tells the names of the hosts that see volumes now.
type Tell = Box<dyn Fn() -> Vec<String>>;

/// Who tells which hosts see volumes: nobody where nobody serves.
#[derive(Default)]
pub(crate) struct Hosts(RefCell<Option<Tell>>);

impl Pools {
    /// From now on `hosts` tells which hosts are connected: pools with volumes are not taken from them without a
    /// question.
    pub fn serves(&self, hosts: impl Fn() -> Vec<String> + 'static) {
        *self.hosts.0.borrow_mut() = Some(Box::new(hosts));
    }

    /// Refuses to take the volumes of a pool from hosts that are connected. Which of them a host uses only itself
    /// knows: it sees them all.
    ///
    /// # Errors
    /// [`ControlError::Connected`].
    pub(crate) fn spare_hosts(&self, pool: &str) -> Result<(), ControlError> {
        let Ok(running) = self.running(pool) else {
            return Ok(());
        };
        if running.pool.engine().volumes().is_empty() {
            return Ok(());
        }
        let hosts = self.hosts.0.borrow().as_ref().map(|hosts| hosts());
        match hosts {
            Some(hosts) if !hosts.is_empty() => Err(ControlError::Connected {
                pool: pool.to_owned(),
                hosts,
            }),
            _ => Ok(()),
        }
    }
}
