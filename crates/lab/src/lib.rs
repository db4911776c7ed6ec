//! The laboratory: the real engine on modelled tiers and drives, beside models of other systems and what is
//! published of them.
//!
//! Blocks are symbols, so that a drive of many terabytes takes only what its metadata take, and
//! those are kept packed. Reading order: [`plan`] (what pool), `media` (what it stands on), `load`
//! (what is done to it), [`recovery`] (the experiment), [`report`] (what is told of it). Apart from
//! that stand [`fio`], job files as loads; [`drive`], a modelled drive alone; [`waf`], placement policies and the engine under one
//! load, without time; [`rig`], the engine and other systems on modelled drives in virtual time; [`comparators`], by which parameters those are compared; and [`experiments`], which set published figures beside what these find.
//!
//! Checksums of structures may be symbols, too: the command line has them so ([`varve_format::make_checksums_symbolic`]), and no
//! figure changes by it.
//!
//! The same seed gives the same figures, except those that are measured times.
//!
//! **Not here**: the command line and the frame of JSON documents (`varve`).

mod aged;
mod clock;
mod load;
mod media;
mod model;
mod need;
mod small_pool;
mod zoned;

pub mod comparators;
pub mod draw;
pub mod drive;
pub mod experiments;
pub mod fio;
pub mod memory;
pub mod plan;
pub mod published;
pub mod recovery;
pub mod report;
pub mod rig;
pub mod waf;
