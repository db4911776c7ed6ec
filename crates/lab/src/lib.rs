//! The laboratory: the real engine on modelled tiers, at sizes no test machine has.
//!
//! Blocks are symbols, so that a drive of many terabytes takes only what its metadata take, and
//! those are kept packed. Reading order: [`plan`] (what pool), `media` (what it stands on), `load`
//! (what is done to it), [`recovery`] (the experiment), [`report`] (what is told of it). Apart from
//! the engine stands [`drive`]: a modelled drive alone, against what is published of it.
//!
//! The same seed gives the same figures, except those that are measured times.
//!
//! **Not here**: the command line and the frame of JSON documents (`varve`).

mod aged;
mod clock;
mod load;
mod media;
mod model;

pub mod drive;
pub mod plan;
pub mod published;
pub mod recovery;
pub mod report;
