//! Namespaces of other machines, or of this one, over real sockets: addresses, who this host is, and
//! byte streams for the initiator.
//!
//! **Not here**: the protocol (`initiator`), sockets (`hostio`).

mod address;
mod connect;
mod discovery;
mod identity;
mod transport;

pub(crate) use address::Address;
pub(crate) use connect::{Remote, Terms, Unreachable, connect};
pub(crate) use identity::HostIdentity;
pub(crate) use transport::HostTransport;
