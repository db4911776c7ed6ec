//! What whoever serves tells of hosts: which are connected, so that nothing is taken from them without a question, and
//! under which numbers they see volumes.

use crate::error::ControlError;
use crate::finding::{Finding, Severity};
use crate::pools::Pools;
use crate::view::VolumeView;
use crate::volume::VolumeInfo;
use std::cell::RefCell;

/// Tells the names of the hosts that see volumes now.
type Tell = Box<dyn Fn() -> Vec<String>>;

/// Tells the namespace number under which hosts see a volume, if they do.
type Number = Box<dyn Fn(&VolumeInfo) -> Option<u32>>;

/// Who tells which hosts see volumes, and how: nobody where nobody serves.
#[derive(Default)]
pub(crate) struct Hosts {
    connected: RefCell<Option<Tell>>,
    numbers: RefCell<Option<Number>>,
}

impl Pools {
    /// From now on `hosts` tells which hosts are connected: pools with volumes are not taken from them without a
    /// question.
    pub fn serves(&self, hosts: impl Fn() -> Vec<String> + 'static) {
        *self.hosts.connected.borrow_mut() = Some(Box::new(hosts));
    }

    /// From now on `number` tells the namespace number under which hosts see a volume.
    pub fn numbers(&self, number: impl Fn(&VolumeInfo) -> Option<u32> + 'static) {
        *self.hosts.numbers.borrow_mut() = Some(Box::new(number));
    }

    /// The namespace number under which hosts see a volume.
    pub(crate) fn number(&self, volume: &VolumeInfo) -> Option<u32> {
        let number = self.hosts.numbers.borrow();
        number.as_ref().and_then(|number| number(volume))
    }

    /// What is to be said of a volume that hosts do not see although somebody serves.
    pub(crate) fn unserved(&self, view: &VolumeView) -> Option<Finding> {
        if view.nsid.is_some() || self.hosts.numbers.borrow().is_none() {
            return None;
        }
        let text = format!(
            "no host sees volume {}/{}: the daemon has no namespace number for it, and tells why on its standard error; next: \
             `varve volume list` tells which volumes have one, and deleting one gives its number to another",
            view.pool, view.volume
        );
        Some(Finding::new(Severity::Warning, "unserved", text))
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
        let hosts = self.hosts.connected.borrow().as_ref().map(|hosts| hosts());
        match hosts {
            Some(hosts) if !hosts.is_empty() => Err(ControlError::Connected {
                pool: pool.to_owned(),
                hosts,
            }),
            _ => Ok(()),
        }
    }
}
