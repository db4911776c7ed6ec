//! Redundancy over drives, itself drives: a mirror and full stripes.
//!
//! [`Mirror`] (fast tier) keeps the same bytes on every member. [`StripeSet`] (dense tier) spreads
//! whole stripes over its members, alone, in pairs, or with one parity strip; its address space is
//! data blocks only. Both are [`varve_io::Drive`]s over drives, so nobody above knows of members;
//! redundancy shows as the *copies* of a read, which the caller tries in turn because only it can
//! verify content.
//!
//! **Invariants**
//! - A command that missed a member completes successfully only after the member's loss was
//!   committed through [`Membership`].
//! - A member is given up only while the others still hold everything; else the command fails
//!   and the members stay as they are.
//! - Nobody waits for a drive whose loss is committed; what it has begun may still take effect there, and
//!   is awaited by tasks of its own.
//! - A rebuilding member receives every write, serves no read, and never has newer content
//!   overwritten by what is copied to it.
//! - Write paths copy no user data; parity is the only new content.
//!
//! **Not here**: content checks and which blocks are live (`ftl`), labels and the quorum behind
//! [`Membership`] (`pool`), partial-stripe writes, more than one parity.

#![no_std]

extern crate alloc;

mod assemble;
mod faults;
mod flights;
mod former;
mod geometry;
mod join;
mod kept_read;
mod loss;
mod member;
mod members;
mod membership;
mod mirror;
mod narrow;
mod parity;
mod restore;
mod ribbon;
mod scatter;
mod scrub;
mod set;
mod silence;
mod stripe;
mod stripe_read;
mod stripe_write;
mod waiters;

pub use assemble::AssembleError;
pub use faults::Faults;
pub use geometry::{Content, Geometry, GeometryError, Place, Protection};
pub use member::{Member, MemberState};
pub use membership::Membership;
pub use mirror::{MIRROR_MAX, Mirror};
pub use restore::{Progress, RestoreError, Restored};
pub use stripe::StripeSet;
