//! NVMe/TCP target: bytes of hosts in, commands for volumes out; completions in, bytes out.
//!
//! [`Target`] is one machine without I/O, time or threads of its own. Its caller
//!
//! 1. tells it of connections, bytes, completions and the time;
//! 2. executes the [`Action`]s it gives on whatever holds the blocks;
//! 3. sends what [`Target::transmit`] gives, each batch with one gathering send, and closes the
//!    connections that [`Target::is_closing`] names.
//!
//! Reading order: `subsystem` (what is served), `warnings` (how that fares), [`action`], `target`, `clock`, `connection` (transport and
//! queue pair), `budget`, `room`, `answer`, `slots`, `outgoing`, `fabrics`, `controller`, `admin`, `identify`, `features`, `logs`,
//! `io`.
//!
//! **Invariants**: a peer's bytes never panic; memory of a connection is bounded by
//! [`DATA_BYTES_MAX`], its queue's slots and one batch of output; a command is answered once or its
//! connection is gone; what is at the backend when a connection dies is waited for before the same
//! host gets another I/O queue.
//!
//! **Not here**: sockets, the pool, how blocks are stored.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod action;

mod admin;
mod answer;
mod budget;
mod clock;
mod connection;
mod controller;
mod fabrics;
mod features;
mod identify;
mod io;
mod logs;
mod outgoing;
mod room;
mod shared;
mod slots;
mod subsystem;
mod target;
mod warnings;

#[cfg(test)]
mod tests;

pub use action::{Action, Completion, Failure, Operation, Tag};
pub use connection::{ConnectionId, DATA_BYTES_MAX};
pub use outgoing::Segment;
pub use subsystem::{Hosts, Listener, NSID_MAX, Namespace, NamespaceError, Subsystem};
pub use target::Target;
pub use warnings::Warnings;

use varve_units::Nanos;

/// Entries of a queue (MQES + 1). Arbitrary; Linux asks for 128.
pub const QUEUE_ENTRIES_MAX: u16 = 128;
/// I/O queues of a controller. Arbitrary; bounds connections of one host.
pub const IO_QUEUES_MAX: u16 = 64;
/// Data in a capsule, in bytes: what admin queues need anyway, for all queues.
pub const CAPSULE_DATA: u32 = varve_nvme::tcp::ADMIN_CAPSULE_DATA;
/// MDTS: data of a command is at most `2^MDTS` pages of 4 KiB, 512 KiB.
pub const MDTS: u8 = 7;
/// Bytes of data of one command, and of one H2CData.
pub const TRANSFER_BYTES_MAX: u32 = 4096 << MDTS;
/// Bytes of a block; the pool does not read-modify-write smaller ones.
pub const BLOCK_BYTES: u32 = 4096;
/// AERs outstanding.
pub const ASYNC_EVENTS_MAX: usize = 4;
/// Controllers at a time.
pub const CONTROLLERS_MAX: usize = 1024;
/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 4096;
/// Data of all connections together, in bytes, unless [`Target::limit_data`] says otherwise; up to twice
/// as much with connections that hold a single command. Arbitrary: 64 connections at their own bound.
pub const ALL_DATA_BYTES_MAX: u64 = 64 * DATA_BYTES_MAX;
/// A connection that lets data it was asked for, or that it is sent, stand still for so long while
/// others wait for room is ended.
/// Arbitrary: a third of the time after which Linux gives a command up that waits for that room.
pub const STALL_TIME_MAX: Nanos = Nanos::from_secs(10);
/// [`Target::tick`] follows the last one within this time while there are connections: what the caller
/// is silent for beyond it is taken for a stop, which is no fault of hosts.
pub const TICK_MAX: Nanos = Nanos::from_millis(500);
/// How long a connection may take until its Connect command is there.
pub const CONNECT_TIME_MAX: Nanos = Nanos::from_secs(10);
/// How long a Connect of an I/O queue waits for what an earlier association left at the backend; its host
/// may try again then. Arbitrary: half of the time after which Linux gives it up.
pub const CONNECT_WAIT_MAX: Nanos = Nanos::from_secs(30);
/// Connects that wait for one host: as many as a controller has I/O queues. Linux has one for each path.
pub const CONNECTS_WAITING_MAX: usize = IO_QUEUES_MAX as usize;
