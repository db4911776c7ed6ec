//! A load whose content is known: flows that each keep one operation in flight, on an engine in this
//! process or on a remote namespace, and an oracle that says what each block may read as.
//!
//! **Not here**: what is measured (`bench`), what it proves (`demo`).

mod draw;
mod flow;
mod oracle;
mod payload;
mod store;
mod tally;

pub(crate) use draw::{Draw, Order, Share};
pub(crate) use flow::{Direction, Phase, Subject};
pub(crate) use oracle::Oracle;
pub(crate) use payload::Ring;
pub(crate) use store::Store;
pub(crate) use tally::{Failed, Tally};
