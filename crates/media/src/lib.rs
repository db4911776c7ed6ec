//! Modelled drives: what a write costs the flash beneath it.
//!
//! A [`sheet`] holds a drive's numbers with the source of each. Scaled to any capacity it gives a
//! [`Shape`], and a shape an [`Ssd`]: indirection units (IU), the buffer that joins writes smaller
//! than one, a page-mapped internal FTL over erase units, its garbage collection, deallocate, wear.
//! The model holds no content and does no I/O: offsets go in, [`Op`]s on the flash and [`Counters`]
//! come out. [`Modelled`] feeds it what a real [`varve_io::Drive`] is asked.
//!
//! Zoned drives ([`Zones`]) have no map: hosts write zones in order and reset them, and the account is
//! of their states.
//!
//! [`timed`] gives the same drives times: commands in, with the time, completions out.
//!
//! Reading order: [`sheet`], [`any_sheet`], `placement`, `shape`, `op`, `counters`, `map`, `erase`, `buffer`,
//! `candidates`, `gc`, `ssd`, `snapshot`, `modelled`, [`zoned_sheet`], `zone_shape`, `zones`, [`timed`].
//!
//! **Invariants**: an IU of the drive is at no place or at exactly one; an erase unit is free, open
//! or closed, and a free one holds nothing; the last free erase unit is garbage collection's.
//!
//! **Not here**: content, faults (`sim`), the engine's own zones and groups (`ftl`).

#![no_std]

extern crate alloc;

pub mod any_sheet;
mod buffer;
mod candidates;
mod counters;
mod erase;
mod gc;
mod map;
mod modelled;
mod op;
mod placement;
mod shape;
pub mod sheet;
mod snapshot;
mod ssd;
pub mod timed;
mod zone_shape;
pub mod zoned_sheet;
mod zones;

pub use any_sheet::AnySheet;
pub use counters::{Counters, Meter};
pub use modelled::Modelled;
pub use op::{Op, Place, Why};
pub use placement::{HandleCounters, Isolation, Placement};
pub use shape::{Shape, ShapeError};
pub use sheet::{Sheet, names as sheets};
pub use snapshot::SnapshotError;
pub use ssd::{Ssd, Wear};
pub use zone_shape::{ZoneShape, ZoneShapeError};
pub use zones::{Written, Zone, ZoneError, ZoneState, Zones};
