//! The seam between the pure engine and the world: drives, clock, tasks, buffers.
//!
//! Everything from the target down to the array reaches the world only through the traits here,
//! so production and simulator run the same code. There is no implementation of a drive or a
//! clock in this crate; there are the buffers they exchange and the waiting primitives that
//! single-threaded flows need.
//!
//! **Not here**: threads, sockets, files, real time, randomness.

#![no_std]

extern crate alloc;

mod buffer;
mod command;
mod completion;
mod drive;
mod error;
mod event;
mod reactor;
mod recycler;
mod slot;
mod supply;
mod world;

pub use buffer::{Block, BlockRef, Blocks, Sector, Sectors, ZEROES};
pub use command::{Command, Done, Gather, Handle, Segment, Target};
pub use completion::{Completion, Outcome};
pub use drive::{Drive, DriveInfo, GAP_BLOCKS, LeftOut, NARROW_WAYS, blocks_of};
pub use error::IoError;
pub use event::{Event, Listen};
pub use reactor::{Absent, Desk, Job, Key, ReactorId, Reply};
pub use recycler::{Home, Recycler};
pub use slot::{Receiver, Sender, slot};
pub use supply::Supply;
pub use world::{Flow, Task, World};
