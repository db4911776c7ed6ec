//! Drives from paths: opened under their locks, or told that somebody has them.

use crate::error::ControlError;
use crate::finding::{Finding, Severity};
use crate::model;
use crate::path::DrivePath;
use crate::pools::Pools;
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use varve_hostio::{Disk, DiskOptions, FileDrive, Io, OpenError, Wanted};
use varve_io::{Drive, Gather, IoError, Sectors};
use varve_pool::label::RESERVED_BYTES;
use varve_units::{BLOCK_BYTES, SECTOR_BYTES};

/// How a drive of a pool is opened whose LBAs have so many bytes at most.
fn options(lba_bytes_max: Option<u32>) -> DiskOptions {
    DiskOptions {
        lba_bytes_max,
        ..DiskOptions::default()
    }
}

/// Where every drive of a pool comes from, and no laboratory's.
fn with_checksums() {
    let symbolic = varve_format::are_checksums_symbolic();
    assert!(!symbolic, "what lies on real drives has real checksums");
}

fn open(io: &Io, path: &Path, options: &DiskOptions) -> Result<FileDrive, ControlError> {
    with_checksums();
    Disk::open(path, options)
        .map(|disk| FileDrive::new(io.clone(), disk))
        .map_err(|error| of_open(path, error))
}

fn create(
    io: &Io,
    path: &Path,
    bytes: u64,
    options: &DiskOptions,
) -> Result<FileDrive, ControlError> {
    with_checksums();
    Disk::create(path, bytes, options)
        .map(|disk| FileDrive::new(io.clone(), disk))
        .map_err(|error| of_open(path, error))
}

impl Pools {
    /// Opens what exists, under its lock, with its model if it has one. A pool that is there has LBAs of so many bytes at
    /// most, whatever the drive would rather have.
    ///
    /// # Errors
    /// [`ControlError::InUse`], [`ControlError::Open`], [`ControlError::Model`].
    pub(crate) fn open_drive(
        &self,
        path: &Path,
        lba_bytes_max: Option<u32>,
    ) -> Result<Rc<dyn Drive>, ControlError> {
        let drive = open(&self.io, path, &options(lba_bytes_max))?;
        self.models.attach(&self.world, path, drive)
    }

    /// A new member of a pool: what exists, or a sparse file that is made; of a kind of flash, if a
    /// data sheet is named, and without the account of what it was before.
    ///
    /// # Errors
    /// As [`Pools::open_drive`].
    pub(crate) fn new_drive(
        &self,
        drive: &DrivePath,
        sheet: Option<&str>,
        lba_bytes_max: Option<u32>,
    ) -> Result<Rc<dyn Drive>, ControlError> {
        let path = &drive.path;
        let disk = match drive.create_bytes {
            Some(bytes) => create(&self.io, path, bytes, &options(lba_bytes_max))?,
            None => open(&self.io, path, &options(lba_bytes_max))?,
        };
        let model = match sheet {
            Some(sheet) => model::create(path, sheet),
            None => model::forget(path),
        };
        let attached = model.and_then(|()| self.models.attach(&self.world, path, disk));
        if attached.is_err() && drive.create_bytes.is_some() {
            // Best effort: the error that is told is the one that came first.
            let _ = std::fs::remove_file(path);
        }
        attached
    }

    /// The error; where drives are in use with who has them, as far as that is known. That is looked for beside the
    /// reactor: it concerns the descriptors of all processes, and a file of one that hangs may lie where another's drive
    /// does not.
    pub async fn with_users(&self, error: ControlError) -> ControlError {
        let ControlError::InUse(mut findings) = error else {
            return error;
        };
        let paths = findings.iter().filter_map(|finding| finding.path.clone());
        // Of one there may be several findings.
        let paths: BTreeSet<_> = paths.collect();
        let wanted = paths.into_iter().map(|path| Wanted {
            path,
            create: None,
            least_bytes: 0,
        });
        if let Ok(found) = self.preflight(wanted.collect(), &[]).await {
            let users = found.findings.iter().map(Finding::from);
            let users: Vec<_> = users.filter(|one| one.code == "in-use").collect();
            findings.retain(|one| users.iter().all(|user| user.path != one.path));
            findings.extend(users);
        }
        ControlError::InUse(findings)
    }
}

fn of_open(path: &Path, error: OpenError) -> ControlError {
    if matches!(error, OpenError::InUse(_)) {
        let found = Finding::new(Severity::Refusal, "in-use", "is in use");
        ControlError::InUse(vec![found.at(path)])
    } else {
        ControlError::Open(error)
    }
}

/// Finds out whether a drive takes writes, and leaves what it holds as it is: its first bytes are written over themselves.
///
/// # Errors
/// The drive's.
pub(crate) async fn try_write(drive: &dyn Drive) -> Result<(), IoError> {
    let sectors = BLOCK_BYTES.min(drive.info().bytes) / SECTOR_BYTES;
    let mut gather = Gather::new();
    gather.push_meta(
        drive
            .read_meta(0, Sectors::zeroed(sectors as usize), 0)
            .await?,
    );
    drive.write(0, gather).await?;
    drive.flush().await
}

/// Overwrites what lies where labels go, so that nobody takes the drive for what it was.
///
/// # Errors
/// The drive's.
pub(crate) async fn wipe(drive: &dyn Drive) -> Result<(), IoError> {
    let mut gather = Gather::new();
    let bytes = RESERVED_BYTES.min(drive.info().bytes);
    gather.push_meta(Sectors::zeroed((bytes / SECTOR_BYTES) as usize));
    drive.write(0, gather).await?;
    drive.flush().await
}
