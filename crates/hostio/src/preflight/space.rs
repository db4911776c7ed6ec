//! Whether file systems have room for the files on them.

use super::finding::What;
use super::{Preflight, Wanted};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The directory that a path is in.
pub(super) fn directory_of(path: &Path) -> &Path {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// What the wanted files of one file system may still take.
struct Demand<'a> {
    first: &'a Path,
    directory: &'a Path,
    bytes: u64,
}

/// Compares what sparse files may still take with what is free, for each file system.
pub(super) fn look(wanted: &[Wanted], found: &mut Preflight) {
    let mut demands: BTreeMap<u64, Demand<'_>> = BTreeMap::new();
    for one in wanted {
        let directory = directory_of(&one.path);
        let (system, bytes) = match (one.create, std::fs::metadata(&one.path)) {
            (None, Ok(meta)) if meta.is_file() => {
                (meta.dev(), meta.len().saturating_sub(meta.blocks() * 512))
            }
            (Some(bytes), Err(_)) => match std::fs::metadata(directory) {
                Ok(meta) => (meta.dev(), bytes),
                Err(_) => continue,
            },
            _ => continue,
        };
        let demand = demands.entry(system).or_insert(Demand {
            first: &one.path,
            directory,
            bytes: 0,
        });
        demand.bytes = demand.bytes.saturating_add(bytes);
    }
    for demand in demands.into_values() {
        match free_bytes(demand.directory) {
            Ok(free) if free < demand.bytes => {
                let needed = demand.bytes;
                found.note(demand.first, What::Space { needed, free });
            }
            Ok(_) => {}
            Err(error) => found.note(demand.first, What::of_error("statvfs", &error)),
        }
    }
}

/// Finds out whether this process may make files in a directory. Nothing is made for that.
///
/// # Errors
/// The system's: that it may not, or why that cannot be told.
#[expect(unsafe_code, reason = "a system call")]
pub(super) fn may_make_in(directory: &Path) -> io::Result<()> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    let wanted = libc::W_OK | libc::X_OK;
    // SAFETY: a string with its zero; the call writes nothing. As the user whose rights count when a file is made.
    let outcome =
        unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), wanted, libc::AT_EACCESS) };
    match outcome {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Bytes that this process could still write to the file system of a directory.
///
/// # Errors
/// The system's: no such directory, say.
#[expect(unsafe_code, reason = "a system call")]
pub fn free_bytes(directory: &Path) -> io::Result<u64> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: integers only, for which zeroes are values.
    let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a string with its zero, and a structure that is the call's alone for its length.
    let failed = unsafe { libc::statvfs(path.as_ptr(), &raw mut facts) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
}
