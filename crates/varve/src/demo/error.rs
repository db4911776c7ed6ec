//! Why there is no demonstration.

use crate::cli::{ALLOW_IO, Exit, NO_IO};
use crate::remote::Unreachable;
use crate::serve::bind_code;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use varve_control::Failure;
use varve_hostio::{NoIo, Stalled};

/// What to do about a directory.
const ELSEWHERE: &str = "give another directory with --dir DIR";

/// Why there is no demonstration, or no end of it.
#[derive(Debug)]
pub(crate) enum DemoError {
    /// A directory or file of it cannot be made.
    Directory(PathBuf, io::Error),
    /// A port is taken.
    Port(SocketAddr, io::Error),
    /// Not only this machine could connect.
    Anybody(SocketAddr),
    /// The pool cannot be made.
    Control(Box<Failure>),
    /// The server cannot be started, or ended by itself; what it said last.
    Server(String),
    /// The pool failed; what became of it, and where the server says more.
    Pool(String, PathBuf),
    /// There is not room enough: where, bytes that are needed, and that are free.
    Room(PathBuf, u64, u64),
    /// The server's volumes cannot be reached.
    Unreachable(Unreachable),
    /// This process can do no i/o.
    NoIo(NoIo),
    /// Signals cannot be had.
    Signals(io::Error),
    /// Every flow waits for another one: a programmer's error.
    Stalled(Stalled),
    /// A signal came before the self-test had ended.
    Interrupted,
}

impl DemoError {
    /// How the process ends.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Port(_, error) if error.kind() == std::io::ErrorKind::AddrInUse => Exit::Conflict,
            Self::Anybody(_) => Exit::Usage,
            Self::Directory(..)
            | Self::Room(..)
            | Self::Port(..)
            | Self::NoIo(_)
            | Self::Signals(_) => Exit::Refused,
            Self::Control(failure) => failure.exit,
            Self::Unreachable(error) => error.exit(),
            _ => Exit::Failed,
        }
    }

    /// A stable word for programs.
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::Directory(..) => "directory",
            Self::Port(_, error) => bind_code(error),
            Self::Anybody(_) => "not-loopback",
            Self::Control(failure) => &failure.code,
            Self::Server(_) => "server-failed",
            Self::Pool(..) => "pool-failed",
            Self::Room(..) => "no-room",
            Self::Unreachable(error) => error.code(),
            Self::NoIo(_) => NO_IO,
            Self::Signals(_) => "no-signals",
            Self::Stalled(_) => "stalled",
            Self::Interrupted => Exit::Interrupted.word(),
        }
    }

    /// What to do about it.
    pub(crate) fn next(&self) -> String {
        match self {
            Self::Directory(..) => ELSEWHERE.to_owned(),
            Self::Room(..) => "make room, or give another directory with --dir DIR".to_owned(),
            Self::Pool(_, log) => format!("see {}", log.display()),
            Self::Anybody(_) => {
                "listen on 127.0.0.1 or [::1]; for other hosts: varve serve --allow-host NQN"
                    .to_owned()
            }
            Self::Port(..) => {
                "give other ports with --listen and --discovery (0 is any that is free)".to_owned()
            }
            // Its state directory lies in the one that can be named.
            Self::Control(failure) if failure.code == "state-directory" => ELSEWHERE.to_owned(),
            Self::Control(failure) => failure.next.clone().unwrap_or_default(),
            Self::Unreachable(error) => error.next().to_owned(),
            Self::NoIo(_) => ALLOW_IO.to_owned(),
            Self::Interrupted => "start it again".to_owned(),
            Self::Server(_) | Self::Signals(_) | Self::Stalled(_) => {
                "report this as a bug, with what was printed".to_owned()
            }
        }
    }
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Port(address, error) => write!(f, "cannot listen on {address}: {error}"),
            Self::Anybody(address) => write!(
                f,
                "{address} can be reached from elsewhere: the demonstration is for this machine"
            ),
            Self::Control(failure) => {
                f.write_str(&failure.error)?;
                failure
                    .causes
                    .iter()
                    .try_for_each(|cause| write!(f, ": {cause}"))?;
                let refusals = failure.findings.iter();
                refusals
                    .into_iter()
                    .try_for_each(|finding| write!(f, "; {finding}"))
            }
            Self::Server(what) => write!(f, "the server: {what}"),
            Self::Pool(what, _) => f.write_str(what),
            Self::Room(path, needed, free) => write!(
                f,
                "the drives of the demonstration will take {} MB in {}, where {} MB are free",
                needed.div_ceil(1 << 20),
                path.display(),
                free >> 20
            ),
            Self::Unreachable(error) => error.fmt(f),
            Self::NoIo(error) => error.fmt(f),
            Self::Signals(error) => write!(f, "signals cannot be taken over: {error}"),
            Self::Stalled(error) => write!(f, "the self-test hangs: {error}"),
            Self::Interrupted => f.write_str("interrupted before the self-test had ended"),
        }
    }
}

impl std::error::Error for DemoError {}
