//! A rig: a storage system on modelled drives in virtual time, and a load on it.
//!
//! One timeline of the simulator, in order of time, is all there is: drives are machines on it
//! (`station`), systems are flows over them (`system`, one file each in `systems`), and the load asks
//! them (`load`). What comes out depends on the request alone.

mod cpu;
mod load;
mod map_cache;
mod mix;
mod report;
mod request;
mod run;
mod station;
mod stripe_array;
mod system;
mod systems;
mod timed_drive;

pub use mix::{Law, Mix};
pub use report::{RigParameters, RigReport, TierReport, Way};
pub use request::{Protect, RigRequest, SystemName};
pub use run::{RigError, check, run};
