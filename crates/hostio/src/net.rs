//! Byte streams on a reactor's ring: TCP and unix sockets.
//!
//! What is sent is a list of pieces, headers and blocks side by side, in one call of the kernel. What
//! is received goes to memory that belongs to the ring until it is there.
//!
//! **Invariants**: a call's memory and socket live until the kernel has ended it. A call whose future
//! is dropped is cancelled; how much it had moved is not known, so that direction is of no use any
//! more.
//!
//! **Not here**: any protocol.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

mod address;
mod keep_alive;
mod listener;
mod outgoing;
mod stream;

pub use listener::Listener;
pub use outgoing::Outgoing;
pub use stream::Stream;

/// Where one listens or connects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// TCP.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
