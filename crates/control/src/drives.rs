//! Drives from paths: opened under their locks, or told who has them.

use crate::error::ControlError;
use crate::finding::Finding;
use std::path::Path;
use std::rc::Rc;
use varve_hostio::{Disk, DiskOptions, FileDrive, Io, OpenError, Wanted, preflight};
use varve_io::{Drive, Gather, IoError, Sectors};
use varve_pool::label::RESERVED_BYTES;
use varve_units::SECTOR_BYTES;

/// Opens what exists, under its lock.
///
/// # Errors
/// [`ControlError::InUse`] with who has it, [`ControlError::Open`].
pub(crate) fn open(io: &Io, path: &Path) -> Result<Rc<dyn Drive>, ControlError> {
    let opened = Disk::open(path, &DiskOptions::default());
    opened
        .map(|disk| drive(io, disk))
        .map_err(|error| of_open(path, error))
}

/// Makes a sparse file and opens it.
///
/// # Errors
/// As [`open`].
pub(crate) fn create(io: &Io, path: &Path, bytes: u64) -> Result<Rc<dyn Drive>, ControlError> {
    let made = Disk::create(path, bytes, &DiskOptions::default());
    made.map(|disk| drive(io, disk))
        .map_err(|error| of_open(path, error))
}

fn drive(io: &Io, disk: Disk) -> Rc<dyn Drive> {
    Rc::new(FileDrive::new(io.clone(), disk))
}

fn of_open(path: &Path, error: OpenError) -> ControlError {
    if matches!(error, OpenError::InUse(_)) {
        ControlError::InUse(users(path))
    } else {
        ControlError::Open(error)
    }
}

/// Who uses a disk, as far as that is known.
fn users(path: &Path) -> Vec<Finding> {
    let wanted = Wanted {
        path: path.to_owned(),
        create: None,
        least_bytes: 0,
    };
    let found = preflight(&[wanted], &[]).findings;
    let found = found.iter().map(Finding::from);
    let mut found: Vec<_> = found.filter(|one| one.code == "in-use").collect();
    if found.is_empty() {
        let severity = crate::finding::Severity::Refusal;
        found.push(Finding::new(severity, "in-use", "is in use").at(path));
    }
    found
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
