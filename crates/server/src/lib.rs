//! Joins the NVMe/TCP target (`target`, without I/O) to byte streams (sockets of `hostio`, or any other)
//! and to what holds the blocks of its namespaces.
//!
//! 1. A listener's flow accepts streams; each gets a connection of the target and a flow of its own.
//! 2. That flow receives all there is, gives it to the target, has the actions that follow carried
//!    out, and sends all answers there are with one gathering send: one call of the kernel for each
//!    time it wakes up.
//! 3. What a [`Store`] cannot answer at once runs as a flow beside; its end wakes the connection.
//! 4. One flow looks at the clock for all associations.
//!
//! Reading order: [`store`], [`stream`], [`server`], `connection`, `counters`, `drain`; stores: [`null`], [`ram`],
//! [`volume`]; pools: [`numbers`], [`namespaces`].
//!
//! **Invariants**: every action of the target is answered once, whatever became of its connection;
//! no borrow of the target lives across an await; a connection sends one batch at a time.
//!
//! **Not here**: NVMe (`target`), how volumes are made (`pool`), configuration, the command line.

pub mod namespaces;
pub mod null;
pub mod numbers;
pub mod ram;
pub mod server;
pub mod store;
pub mod stream;
pub mod volume;

mod connection;
mod counters;
mod drain;

pub use counters::Counters;
pub use drain::Left;
pub use namespaces::{Namespaces, Unserved};
pub use null::NullStore;
pub use numbers::{Numbers, NumbersError};
pub use ram::RamStore;
pub use server::Server;
pub use store::{Content, Step, Store};
pub use stream::{Acceptor, ByteStream};
pub use volume::{Backing, VolumeStore};
