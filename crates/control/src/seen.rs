//! What lies where the drives of a pool were seen last: whether a pool that lacks some is worth another try.
//!
//! **Not here**: whether the pool can be opened with that, which only opening it tells.

use crate::error::ControlError;
use crate::open::{OTHER_USE, PUT_BACK, UNUSABLE};
use crate::pools::Pools;
use crate::scan::Scan;
use std::path::PathBuf;
use varve_io::Flow;
use varve_pool::PoolError;
use varve_pool::label::ImportError;

/// What lies at the paths of a pool. Two looks that are equal found the same drives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen(Vec<At>);

/// What lies at one of them.
#[derive(Clone, PartialEq, Eq, Debug)]
struct At {
    path: PathBuf,
    /// Its size in bytes, if it could be looked at.
    bytes: Option<u64>,
    /// The pool and the member that its label names.
    member: Option<([u8; 16], u32)>,
}

impl From<Scan> for At {
    fn from(scan: Scan) -> Self {
        let member = scan.label().map(|label| (label.pool, label.drive));
        Self {
            bytes: scan.bytes(),
            member,
            path: scan.path,
        }
    }
}

impl Pools {
    /// Looks where the drives of a pool of the registry were seen last. Nothing is opened, nothing changed.
    ///
    /// # Errors
    /// The registry cannot be read, [`ControlError::NoPool`].
    pub fn look<'a>(&'a self, pool: &'a str) -> Flow<'a, Result<Seen, ControlError>> {
        Box::pin(async move {
            let registry = self.home.registry()?;
            let entry = registry.get(pool);
            let entry = entry.ok_or_else(|| ControlError::NoPool(pool.to_owned()))?;
            let scans = self.glance_each(&entry.paths).await;
            Ok(Seen(scans.into_iter().map(At::from).collect()))
        })
    }
}

impl ControlError {
    /// True if a pool is not opened for want of drives alone: it is when they are back. A drive that is here and of
    /// no use is another matter, which somebody has to decide.
    #[must_use]
    pub fn is_for_want_of_drives(&self) -> bool {
        match self {
            Self::Missing { findings, .. } => !(findings.iter())
                .any(|finding| [PUT_BACK, OTHER_USE, UNUSABLE].contains(&&*finding.code)),
            Self::Pool { error, .. } => matches!(
                error,
                PoolError::DenseMissing { .. }
                    | PoolError::Import(ImportError::NoFast { .. } | ImportError::WouldLose(_))
            ),
            _ => false,
        }
    }
}
