//! NVMe/TCP host: requests for a namespace in, bytes of queue pairs out; and back.
//!
//! [`Host`] is one machine without I/O, time or threads of its own. Its caller
//!
//! 1. opens and closes byte streams as [`Action`]s say and tells what became of them;
//! 2. passes bytes: [`Host::receive`] what came, sends what [`Host::transmit`] gives for each
//!    connection that [`Host::next_woken`] names;
//! 3. calls [`Host::tick`] when [`Host::deadline`] has come;
//! 4. submits requests once [`Event::Ready`] was told, and takes [`Completion`]s and [`Event`]s.
//!
//! [`RemoteDrive`] is such a caller over a [`Transport`]: a remote namespace as a drive.
//!
//! An association is an admin queue and I/O queues, a connection each. When one of them is lost all
//! are closed, and after a while a new association is tried; what was not answered of requests is sent
//! again, up to [`Config::resends_max`] times without progress, and what a volatile cache may have lost
//! with it. Nothing is before the old association is known to be dead: a write of it that is still on its
//! way must not overtake a later one. It is dead when the peer has closed its connections, or when its
//! keep-alive timeout has passed twice (traffic-based keep alive may notice that late).
//!
//! Reading order: `config`, `error`, `payload`, `outgoing`, `flights`, `queue`, `facts`, `dialogue`,
//! `requests`, `kept`, `discard`, `association`, `host`, `drive`.
//!
//! **Invariants**: a peer's bytes never panic; memory is bounded by the queues' slots and one PDU per
//! connection; a request ends once.
//!
//! **Not here**: sockets; several paths to one namespace.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod association;
mod config;
mod dialogue;
mod discard;
mod drive;
mod error;
mod facts;
mod flights;
mod host;
mod kept;
mod outgoing;
mod payload;
mod queue;
mod requests;

#[cfg(test)]
mod tests;

pub use association::ConnectionId;
pub use config::{Config, Purpose, Times};
pub use drive::{ByteStream, ConnectError, RemoteDrive, StreamEnd, Transport, discover};
pub use error::{Failure, Loss};
pub use facts::{Identity, NamespaceInfo};
pub use host::{Action, Event, Host};
pub use payload::Segment;
pub use requests::{Completion, Operation};

use varve_units::Nanos;

/// Entries of a queue, at most. Arbitrary; CIDs keep six bits above the slot's number.
pub const QUEUE_ENTRIES_MAX: u16 = 1024;
/// I/O queues. Arbitrary; as the target.
pub const IO_QUEUES_MAX: u16 = 64;
/// Bytes of data of one command, however much the controller takes. Arbitrary.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// Entries of the admin queue: what is asked one after another, Keep Alive, events.
pub const ADMIN_ENTRIES: u16 = 32;
/// After the keep-alive timeout has passed twice, what a controller may need to end its commands.
/// Arbitrary: controllers of NVMe 2.0 do not say.
pub const QUIET_MARGIN: Nanos = Nanos::from_secs(1);
/// How long commands of a lost association may still be executed if there is no Keep Alive.
/// Arbitrary.
pub const QUIET_WITHOUT_KEEP_ALIVE: Nanos = Nanos::from_secs(30);
