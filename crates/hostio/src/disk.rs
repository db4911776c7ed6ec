//! Files and block devices as drives.
//!
//! A [`Disk`] is opened once and held exclusively (an advisory lock on files, `O_EXCL` on devices)
//! until the last drive over it goes; every reactor has a [`FileDrive`] of its own on it.
//!
//! **Invariants**: nothing is transferred through the page cache where the file system can do
//! without; a completed write is volatile until a flush, unless whoever opened the disk knows better.

use crate::lock;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use varve_io::{DriveInfo, GAP_BLOCKS};

mod drive;
mod errno;
mod facts;
mod gate;
mod hint;
mod memory;
mod sync;
mod transfer;

pub use drive::FileDrive;
use facts::Facts;
pub(crate) use facts::{SectorSizes, device_bytes, device_is_read_only, device_sectors};
use gate::Gate;

/// LBA size of files whose opener names none: no file system that can transfer past its cache
/// demands more, so a pool moves between them.
const FILE_LBA_BYTES: u32 = 4096;

/// What a disk is underneath.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DiskKind {
    /// A regular file, sparse or not.
    File,
    /// A block device.
    Device,
}

/// What the opener of a disk decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskOptions {
    /// LBA size in bytes, 512 or 4096. If `None`, 4096 for files; for devices what a write may be without the drive
    /// rewriting what lies beside it: the larger one of its logical and its physical sectors, 4096 at most.
    pub lba_bytes: Option<u32>,
    /// LBA size at most if `lba_bytes` is `None`, as far as the disk has such: of a pool that was made with smaller ones.
    pub lba_bytes_max: Option<u32>,
    /// A completed write can be lost with the power before a flush. True unless the opener knows
    /// that all beneath is protected.
    pub volatile_cache: bool,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self {
            lba_bytes: None,
            lba_bytes_max: None,
            volatile_cache: true,
        }
    }
}

/// Why a disk cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Neither a regular file nor a block device.
    Kind(PathBuf),
    /// Another process, or another part of this one, holds it.
    InUse(PathBuf),
    /// It takes no writes.
    ReadOnly(PathBuf),
    /// The LBA size asked for is neither 512 nor 4096, or smaller than the disk's own.
    LbaBytes {
        /// The disk.
        path: PathBuf,
        /// Asked for.
        asked: u32,
        /// Smallest possible.
        least: u32,
    },
    /// There is not one whole LBA.
    Empty(PathBuf),
    /// A system call failed.
    System {
        /// The disk.
        path: PathBuf,
        /// Which call.
        call: &'static str,
        /// Why.
        error: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(path) => write!(
                f,
                "{} is neither a regular file nor a block device",
                path.display()
            ),
            Self::InUse(path) => write!(f, "{} is in use", path.display()),
            Self::ReadOnly(path) => write!(f, "{} is read-only", path.display()),
            Self::LbaBytes { path, asked, least } => write!(
                f,
                "{} has no sectors of {asked} bytes: 512 or 4096, at least {least}",
                path.display()
            ),
            Self::Empty(path) => write!(f, "{} is empty", path.display()),
            Self::System { path, call, error } => {
                write!(f, "{}: {call}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for OpenError {}

impl OpenError {
    fn system(path: &Path, call: &'static str, error: io::Error) -> Self {
        let path = path.to_owned();
        Self::System { path, call, error }
    }
}

/// An open file or block device: any number of reactors have a [`FileDrive`] on it.
#[derive(Clone)]
pub struct Disk(Arc<Inner>);

struct Inner {
    file: File,
    path: PathBuf,
    kind: DiskKind,
    info: DriveInfo,
    /// Alignment of memory for direct transfers; 1 if they go through the page cache.
    memory_align: usize,
    is_direct: bool,
    /// Discards are passed on. Advice: whoever reads it late asks once in vain.
    takes_discards: AtomicBool,
    /// A flush failed: whatever was not durable then may be lost, and the kernel tells of it once.
    is_condemned: AtomicBool,
    /// Flushes of all reactors, one after another.
    gate: Gate,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.kind == DiskKind::File {
            lock::release(&self.file);
        }
    }
}

impl Disk {
    /// Opens a file or device that exists, and holds it exclusively.
    ///
    /// # Errors
    /// [`OpenError`]; nothing on it was changed.
    pub fn open(path: &Path, options: &DiskOptions) -> Result<Self, OpenError> {
        let meta = std::fs::metadata(path).map_err(|e| OpenError::system(path, "stat", e))?;
        let kind = if meta.file_type().is_block_device() {
            DiskKind::Device
        } else if meta.file_type().is_file() {
            DiskKind::File
        } else {
            return Err(OpenError::Kind(path.to_owned()));
        };
        let (file, is_direct) = open_direct(path, kind)?;
        // What was looked at may have been replaced before it was opened.
        let opened = file
            .metadata()
            .map_err(|e| OpenError::system(path, "fstat", e))?;
        let same = |of: fn(&std::fs::Metadata) -> u64| of(&meta) == of(&opened);
        if !same(MetadataExt::ino) || !same(MetadataExt::dev) {
            return Err(OpenError::InUse(path.to_owned()));
        }
        if kind == DiskKind::Device
            && device_is_read_only(&file)
                .map_err(|error| OpenError::system(path, "BLKROGET", error))?
        {
            return Err(OpenError::ReadOnly(path.to_owned()));
        }
        if kind == DiskKind::File && !hold(&file, path)? {
            return Err(OpenError::InUse(path.to_owned()));
        }
        Self::of(file, path, kind, is_direct, options)
    }

    /// Makes a sparse file of `bytes` zeroes, durably, and opens it. The space is taken when it is
    /// written.
    ///
    /// # Errors
    /// [`OpenError`], also if the path exists.
    pub fn create(path: &Path, bytes: u64, options: &DiskOptions) -> Result<Self, OpenError> {
        let failed = |error| OpenError::system(path, "create", error);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        let keep = |file: File| {
            file.set_len(bytes)?;
            file.sync_all()?;
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
        };
        let opened = keep(file)
            .map_err(failed)
            .and_then(|()| Self::open(path, options));
        if opened.is_err() {
            // Best effort: the error that is told is the one that came first.
            let _ = std::fs::remove_file(path);
        }
        opened
    }

    fn of(
        file: File,
        path: &Path,
        kind: DiskKind,
        is_direct: bool,
        options: &DiskOptions,
    ) -> Result<Self, OpenError> {
        let facts = Facts::of(&file, kind, is_direct)
            .map_err(|(call, error)| OpenError::system(path, call, error))?;
        let most = options.lba_bytes_max.unwrap_or(facts.unit_bytes);
        let usual = facts.unit_bytes.min(most.max(facts.lba_bytes));
        let asked = options.lba_bytes.unwrap_or(usual);
        if !matches!(asked, 512 | 4096) || asked < facts.lba_bytes {
            let (path, least) = (path.to_owned(), facts.lba_bytes);
            return Err(OpenError::LbaBytes { path, asked, least });
        }
        let bytes = facts.bytes / u64::from(asked) * u64::from(asked);
        if bytes == 0 {
            return Err(OpenError::Empty(path.to_owned()));
        }
        Ok(Self(Arc::new(Inner {
            file,
            path: path.to_owned(),
            kind,
            info: DriveInfo {
                bytes,
                lba_bytes: asked,
                volatile_cache: options.volatile_cache,
                copies: 1,
                handles: 1,
                gap_blocks: GAP_BLOCKS,
            },
            memory_align: facts.memory_align,
            is_direct,
            takes_discards: AtomicBool::new(true),
            is_condemned: AtomicBool::new(false),
            gate: Gate::default(),
        })))
    }

    /// What it is as a drive.
    #[must_use]
    pub fn info(&self) -> DriveInfo {
        self.0.info
    }

    /// What it is underneath.
    #[must_use]
    pub fn kind(&self) -> DiskKind {
        self.0.kind
    }

    /// Where it was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// True if transfers go past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.0.is_direct
    }

    fn descriptor(&self) -> RawFd {
        self.0.file.as_raw_fd()
    }

    /// A flush has failed. From now on, until it is opened anew, it takes neither writes nor flushes, of any reactor:
    /// a flush that succeeds later says nothing of what was written before.
    fn condemn(&self) {
        self.0.is_condemned.store(true, Ordering::SeqCst);
    }

    fn is_condemned(&self) -> bool {
        self.0.is_condemned.load(Ordering::SeqCst)
    }

    fn takes_discards(&self) -> bool {
        self.0.takes_discards.load(Ordering::Relaxed)
    }

    fn refuse_discards(&self) {
        self.0.takes_discards.store(false, Ordering::Relaxed);
    }
}

/// Opens for direct transfers; through the page cache where the file system has none.
fn open_direct(path: &Path, kind: DiskKind) -> Result<(File, bool), OpenError> {
    let exclusive = match kind {
        DiskKind::Device => libc::O_EXCL,
        DiskKind::File => 0,
    };
    for direct in [libc::O_DIRECT, 0] {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.custom_flags(direct | exclusive);
        match options.open(path) {
            Ok(file) => return Ok((file, direct != 0)),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINVAL) if direct != 0 => {}
                Some(libc::EBUSY) => return Err(OpenError::InUse(path.to_owned())),
                Some(libc::EROFS) => return Err(OpenError::ReadOnly(path.to_owned())),
                _ => return Err(OpenError::system(path, "open", error)),
            },
        }
    }
    let error = io::Error::from_raw_os_error(libc::EINVAL);
    Err(OpenError::system(path, "open", error))
}

fn hold(file: &File, path: &Path) -> Result<bool, OpenError> {
    lock::hold(file).map_err(|error| OpenError::system(path, "lock", error))
}
