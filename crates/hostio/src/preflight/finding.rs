//! One thing found.

use super::signature::Content;
use super::users::User;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// How grave a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// May matter later.
    Warning,
    /// Going on destroys something: only after the user has said so.
    Confirm,
    /// Cannot be used like this.
    Refusal,
}

/// One thing found about one path.
#[derive(Debug)]
pub struct Finding {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub what: What,
}

/// What was found.
#[derive(Debug)]
#[non_exhaustive]
pub enum What {
    /// Nothing is there.
    Missing,
    /// There is something already where a file is to be made.
    Exists,
    /// The directory a file is to be made in does not exist.
    NoDirectory(PathBuf),
    /// This process may not make files in the directory that one is to be made in.
    DirectoryDenied(PathBuf),
    /// The directory a file is to be made in takes no writes.
    DirectoryReadOnly(PathBuf),
    /// Neither a regular file nor a block device.
    Kind,
    /// This process may not use it.
    Denied,
    /// It takes no writes.
    ReadOnly,
    /// The same drive as another one that is wanted.
    Twice(PathBuf),
    /// Someone uses it.
    InUse(User),
    /// Smaller than it must be.
    TooSmall {
        /// Its size.
        bytes: u64,
        /// What it must have.
        least: u64,
    },
    /// Its sectors are of a size that is not supported.
    LbaBytes(u32),
    /// It holds something.
    Holds(Content),
    /// The sparse files on one file system may outgrow it.
    Space {
        /// Bytes all wanted files there may still take.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// It could not be looked at.
    System {
        /// Which system call failed.
        call: &'static str,
        /// Why.
        error: io::Error,
    },
}

impl What {
    pub(super) fn of_error(call: &'static str, error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR | libc::ENXIO) => Self::Missing,
            Some(libc::EACCES | libc::EPERM) => Self::Denied,
            Some(libc::EROFS) => Self::ReadOnly,
            Some(libc::EBUSY | libc::ETXTBSY) => Self::InUse(User::Unknown),
            number => Self::System {
                call,
                error: number.map_or_else(|| error.kind().into(), io::Error::from_raw_os_error),
            },
        }
    }
}

impl Finding {
    /// How grave it is.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self.what {
            What::Space { .. } => Severity::Warning,
            What::Holds(_) => Severity::Confirm,
            _ => Severity::Refusal,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.what {
            What::Missing => f.write_str("does not exist"),
            What::Exists => f.write_str("exists already"),
            What::NoDirectory(path) => write!(f, "there is no directory {}", path.display()),
            What::DirectoryDenied(path) => {
                write!(
                    f,
                    "no file can be made in {}: permission denied",
                    path.display()
                )
            }
            What::DirectoryReadOnly(path) => {
                write!(
                    f,
                    "no file can be made in {}: it is read-only",
                    path.display()
                )
            }
            What::Kind => f.write_str("is neither a regular file nor a block device"),
            What::Denied => f.write_str("permission denied"),
            What::ReadOnly => f.write_str("is read-only"),
            What::Twice(other) => write!(f, "is the same drive as {}", other.display()),
            What::InUse(user) => write!(f, "is in use: {user}"),
            What::TooSmall { bytes, least } => {
                write!(f, "has {bytes} bytes, at least {least} are needed")
            }
            What::LbaBytes(bytes) => {
                write!(f, "has sectors of {bytes} bytes, only 512 and 4096 will do")
            }
            What::Holds(content) => write!(f, "holds {content}"),
            What::Space { needed, free } => write!(
                f,
                "the files wanted on its file system may take {needed} more bytes, {free} are free"
            ),
            What::System { call, error } => write!(f, "{call}: {error}"),
        }
    }
}
