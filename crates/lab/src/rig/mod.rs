//! A rig: a storage system on modelled drives in virtual time, and a load on it.
//!
//! One timeline of the simulator, in order of time, is all there is: drives are machines on it
//! (`station`, before zoned ones a `zone_port`), systems are flows over them (`system`, one file each in `systems`), and the load asks
//! them (`hosts`: a `mix` or a `file`; `load` before time counts, `round` then). What comes out depends on the request alone.

mod account;
mod bands;
mod build;
mod bursts;
mod check;
mod cpu;
mod error;
mod file;
mod hosts;
mod load;
mod map_cache;
mod mix;
mod open_loop;
mod pace;
mod report;
mod request;
mod round;
#[cfg(test)]
mod round_tests;
mod run;
mod setting;
mod station;
mod stripe_array;
mod system;
mod systems;
mod timed_drive;
mod worker;
mod zone_port;
#[cfg(test)]
mod zone_port_tests;

pub use check::check;
pub use error::{RigError, ZonedError};
pub use file::{JobFile, JobFileError};
pub use hosts::Hosts;
pub use mix::{Law, Mix};
pub use pace::{Bursts, Pace, Rate};
pub use report::{JobReport, RigParameters, RigReport, TierReport, Way, Window};
pub use request::{Protect, REQUESTS_MIN, RigRequest, SystemName};
pub use run::run;
pub use setting::Setting;
pub(crate) use zone_port::ZonePort;
