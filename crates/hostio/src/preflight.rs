//! What stands in the way of using files and devices as drives, found before anything is changed.
//!
//! **Invariants**: nothing is written, no lock is kept; what cannot be found out is a finding too.
//!
//! **Not here**: what a pool demands of its drives together (`pool`), how findings are shown.

use crate::disk::{SectorSizes, device_bytes, device_is_read_only, device_sectors};
use crate::lock;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

mod finding;
mod signature;
mod space;
mod users;

pub use finding::{Finding, Severity, What};
pub use signature::{Content, Magic, content};
pub use space::free_bytes;
pub use users::User;

/// A file or device that is to be a drive.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Where it is, or is to be.
    pub path: PathBuf,
    /// A sparse file of so many bytes is to be made there.
    pub create: Option<u64>,
    /// Smallest size in bytes that will do.
    pub least_bytes: u64,
}

/// What a disk that exists is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskFacts {
    /// Where it was found.
    pub path: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    /// Smallest unit of writes in bytes, of its logical and its physical sectors; `None` for files, which have none of
    /// their own.
    pub lba_bytes: Option<u32>,
}

/// All that was found.
#[derive(Debug, Default)]
pub struct Preflight {
    /// What stands in the way, and what else is worth knowing, in the order asked.
    pub findings: Vec<Finding>,
    /// Disks that exist.
    pub disks: Vec<DiskFacts>,
}

impl Preflight {
    /// The gravest severity found; `None` if there is no finding.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(Finding::severity).max()
    }

    fn note(&mut self, path: &Path, what: What) {
        let path = path.to_owned();
        self.findings.push(Finding { path, what });
    }
}

impl fmt::Display for Preflight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings
            .iter()
            .try_for_each(|finding| writeln!(f, "{finding}"))
    }
}

/// Looks at everything wanted. `own` are the marks of the caller's own kind of content (a label of a
/// pool), looked for beside the known ones.
#[must_use]
pub fn preflight(wanted: &[Wanted], own: &[Magic]) -> Preflight {
    let mut found = Preflight::default();
    let mut seen: Vec<(Identity, &Path)> = Vec::new();
    let mut made: Vec<(PathBuf, &Path)> = Vec::new();
    for one in wanted {
        let path = &*one.path;
        match std::fs::metadata(path) {
            Ok(_) if one.create.is_some() => found.note(path, What::Exists),
            Ok(meta) => {
                let identity = Identity::of(&meta);
                if let Some((_, other)) = seen.iter().find(|(known, _)| *known == identity) {
                    found.note(path, What::Twice((*other).to_owned()));
                }
                seen.push((identity, path));
                look(one, &meta, own, &mut found);
            }
            Err(error) if one.create.is_some() && error.kind() == io::ErrorKind::NotFound => {
                look_for_room(one, &mut found);
                let place = place_of(path);
                if let Some((_, other)) = made.iter().find(|(known, _)| *known == place) {
                    found.note(path, What::Twice((*other).to_owned()));
                }
                made.push((place, path));
            }
            Err(error) => found.note(path, What::of_error("stat", &error)),
        }
    }
    space::look(wanted, &mut found);
    found
}

/// Where a file will be that is not there yet, whatever path leads to its directory.
fn place_of(path: &Path) -> PathBuf {
    let directory = std::fs::canonicalize(space::directory_of(path)).unwrap_or_default();
    directory.join(path.file_name().unwrap_or_default())
}

/// What tells a file or device from all others, by whatever path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Identity {
    Device(u64),
    File(u64, u64),
}

impl Identity {
    fn of(meta: &Metadata) -> Self {
        if meta.file_type().is_block_device() {
            Self::Device(meta.rdev())
        } else {
            Self::File(meta.dev(), meta.ino())
        }
    }
}

fn look_for_room(wanted: &Wanted, found: &mut Preflight) {
    let path = &*wanted.path;
    let bytes = wanted.create.unwrap_or(0);
    if bytes < wanted.least_bytes {
        let least = wanted.least_bytes;
        found.note(path, What::TooSmall { bytes, least });
    }
    let directory = space::directory_of(path);
    match std::fs::metadata(directory) {
        Ok(meta) if meta.is_dir() => {
            if let Err(error) = space::may_make_in(directory) {
                let what = match What::of_error("faccessat", &error) {
                    What::Denied => What::DirectoryDenied(directory.to_owned()),
                    What::ReadOnly => What::DirectoryReadOnly(directory.to_owned()),
                    other => other,
                };
                found.note(path, what);
            }
        }
        Ok(_) => found.note(path, What::NoDirectory(directory.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            found.note(path, What::NoDirectory(directory.to_owned()));
        }
        Err(error) => found.note(path, What::of_error("stat", &error)),
    }
}

/// Looks at a disk that exists.
fn look(wanted: &Wanted, meta: &Metadata, own: &[Magic], found: &mut Preflight) {
    let path = &*wanted.path;
    let is_device = meta.file_type().is_block_device();
    if !is_device && !meta.file_type().is_file() {
        return found.note(path, What::Kind);
    }
    if is_device {
        look_at_device_users(path, meta, found);
    }
    // Files for writing, as they will be opened; devices not, because closing one that was open for
    // writing makes the system probe it anew.
    let opened = OpenOptions::new()
        .read(true)
        .write(!is_device)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) => return found.note(path, What::of_error("open", &error)),
    };
    let facts = match facts(&file, path, is_device) {
        Ok(facts) => facts,
        Err((call, error)) => return found.note(path, What::of_error(call, &error)),
    };
    if is_device && device_is_read_only(&file).unwrap_or(false) {
        found.note(path, What::ReadOnly);
    }
    if facts.bytes < wanted.least_bytes {
        let (bytes, least) = (facts.bytes, wanted.least_bytes);
        found.note(path, What::TooSmall { bytes, least });
    }
    if facts
        .lba_bytes
        .is_some_and(|lba| !matches!(lba, 512 | 4096))
    {
        let lba_bytes = facts.lba_bytes.unwrap_or(0);
        found.note(path, What::LbaBytes(lba_bytes));
    }
    if !is_device {
        look_at_file_users(&file, path, meta, found);
    }
    match signature::content(&file, facts.bytes, own) {
        Ok(contents) => contents
            .into_iter()
            .for_each(|content| found.note(path, What::Holds(content))),
        Err(error) => found.note(path, What::of_error("read", &error)),
    }
    found.disks.push(facts);
}

fn facts(
    file: &File,
    path: &Path,
    is_device: bool,
) -> Result<DiskFacts, (&'static str, io::Error)> {
    let path = path.to_owned();
    if is_device {
        let bytes = device_bytes(file).map_err(|error| ("BLKGETSIZE64", error))?;
        let SectorSizes { unit, .. } = device_sectors(file)?;
        let lba_bytes = Some(unit);
        return Ok(DiskFacts {
            path,
            bytes,
            lba_bytes,
        });
    }
    let meta = file.metadata().map_err(|error| ("fstat", error))?;
    Ok(DiskFacts {
        path,
        bytes: meta.len(),
        lba_bytes: None,
    })
}

fn look_at_file_users(file: &File, path: &Path, meta: &Metadata, found: &mut Preflight) {
    let by = users::of_file(meta);
    match lock::is_held(file) {
        Ok(true) if by.is_empty() => found.note(path, What::InUse(User::Unknown)),
        Ok(true) => by
            .into_iter()
            .for_each(|user| found.note(path, What::InUse(user))),
        // Open elsewhere, but not held: only the kernel's own uses keep others out.
        Ok(false) => by
            .into_iter()
            .filter(|user| !matches!(user, User::Process { .. }))
            .for_each(|user| found.note(path, What::InUse(user))),
        Err(error) => found.note(path, What::of_error("lock", &error)),
    }
}

fn look_at_device_users(path: &Path, meta: &Metadata, found: &mut Preflight) {
    let by = users::of_device(meta.rdev());
    let is_known = !by.is_empty();
    by.into_iter()
        .for_each(|user| found.note(path, What::InUse(user)));
    // Asks the kernel, which knows users that are listed nowhere; closed again at once.
    let exclusive = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_EXCL | libc::O_NONBLOCK)
        .open(path);
    let is_busy = exclusive.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY));
    if is_busy && !is_known {
        found.note(path, What::InUse(User::Unknown));
    }
}
