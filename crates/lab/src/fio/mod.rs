//! Job files of fio as loads.
//!
//! ```text
//! text ──► sections ──► plan (jobs, after defaults and [global]) ──► area, stream, arrivals of a clone
//! ```
//!
//! Reading order: [`Plan`] (what a file asks for), [`Job`] (plain data), [`Area`] (where a clone of
//! a job works), [`Stream`] (which I/Os it does), [`Arrivals`] (when, if that is fixed beforehand).
//!
//! **Invariants**: every option of a file was honoured, or is known to be without effect here, with
//! the reason ([`IGNORED`]); all others are refused by name. The same seed gives the same I/Os.
//!
//! **Not here**: files and their names, time, drives, what an experiment does with a job.
//!
//! # Source
//! fio's HOWTO, version 3.42. What it leaves open was looked up in that version's behaviour, and says so
//! where it is used.

mod area;
mod arrivals;
mod draft;
mod error;
mod ignored;
mod job;
mod option;
mod plan;
mod section;
mod stream;
mod value;

pub use area::{Area, AreaError};
pub use arrivals::{Arrival, Arrivals};
pub use error::FioError;
pub use ignored::{IGNORED, Ignored};
pub use job::{Amount, Directions, Job, Order, Process, Rate};
pub use plan::Plan;
pub use stream::{Io, Stream};
