//! Wire types of NVMe, NVMe over Fabrics and NVMe/TCP, for both sides.
//!
//! Every structure is declared once, little-endian, with its size checked when compiled. What
//! came from a peer is raw until a `TryFrom` or a decoder has checked it; what this crate
//! encodes it also decodes. Field names are the specification's.
//!
//! Reading order: [`tcp`] (PDUs and their decoder), [`sqe`], [`cqe`], [`status`], [`sgl`],
//! [`fabrics`], [`property`], [`identify`], [`feature`], [`log`], [`discovery`], [`event`].
//!
//! **Not here**: what a controller or a host does with them (`target`, `initiator`), sockets.
//!
//! Sources: NVMe Base 2.0, NVM Command Set 1.0, NVMe/TCP Transport 1.0; sections are cited at
//! each item.

#![no_std]

extern crate alloc;

pub mod cqe;
pub mod discovery;
pub mod dsm;
pub mod event;
pub mod fabrics;
pub mod feature;
pub mod identify;
pub mod log;
pub mod nqn;
pub mod opcode;
pub mod property;
pub mod sgl;
pub mod sqe;
pub mod status;
pub mod tcp;

pub use cqe::Cqe;
pub use nqn::Nqn;
pub use sgl::Sgl;
pub use sqe::Sqe;
pub use status::Status;

/// Bytes of Identify data and of the largest list (spec: base 2.0 §5.17).
pub const IDENTIFY_BYTES: usize = 4096;

/// Namespace id that stands for all namespaces (spec: base 2.0 §3.2.1).
pub const NSID_ALL: u32 = 0xffff_ffff;

#[cfg(test)]
extern crate std;
