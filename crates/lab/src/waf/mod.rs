//! Write amplification of placement policies, without time: which blocks a host FTL has to write
//! again because of where it put them.
//!
//! ```text
//! workload ──► fast tier (FIFO log, may be absent) ──► dense tier (units, streams, victims) ──► drive
//! ```
//!
//! One model of tiers ([`tiers`]) runs under every comparator; a comparator is a [`policy`]: which stream
//! a block joins, which unit is emptied next. The project's own policy is not modelled: the real
//! engine runs ([`engine`]). Blocks are numbers here, so a run of millions of writes takes seconds.
//!
//! # Source
//! What each comparator is and the figures it is held to are named in its file.

pub(crate) mod dense;
pub(crate) mod device;
mod engine;
pub(crate) mod fifo_tier;
mod fio_load;
mod fio_source;
mod policies;
mod policy;
mod report;
mod request;
mod run;
mod theory;
pub(crate) mod tiers;
mod units;
mod workload;

pub use fio_load::{FioLoad, FioLoadError};
pub use policies::{POLICIES, Policy as PolicyName};
pub use report::{Parameters, WafReport};
pub use request::{WafError, WafRequest};
pub use run::{check, run};
pub use theory::uniform_waf;
pub use workload::Workload;
