//! Why there is no guest on this machine.

use std::fmt;
use std::path::PathBuf;

/// Why the guest cannot be prepared, or is not.
#[derive(Debug)]
pub enum Unprepared {
    /// Nobody has prepared it.
    NotYet,
    /// An earlier attempt failed for this reason.
    Earlier(String),
    /// This machine is of another kind than those the guest is made for.
    Machine(String),
    /// The distribution's own configuration lacks something.
    Sources(String),
    /// A program failed.
    Program {
        /// What was called.
        line: String,
        /// How it ended, with the end of what it said.
        why: String,
    },
    /// A file could not be read or written.
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A package holds something else than expected.
    Content(String),
}

impl fmt::Display for Unprepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYet => write!(f, "the guest is not prepared: run `make setup`"),
            Self::Earlier(why) => write!(f, "the guest could not be prepared: {why}"),
            Self::Machine(why) | Self::Sources(why) | Self::Content(why) => f.write_str(why),
            Self::Program { line, why } => write!(f, "`{line}`: {why}"),
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for Unprepared {}

impl Unprepared {
    /// For `map_err` on what was done with the file at `path`.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }
}
