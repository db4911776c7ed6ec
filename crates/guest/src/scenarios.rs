//! Tests that need a guest: what the guest does is a script in `guest/`, what the host does is here.

mod log_writes;
mod loopback;
mod pool;
mod power;
mod serve;

use crate::machine::{Failure, Said};
use crate::suite::{Program, Stand};

/// A test.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// Programs of the project it needs.
    pub programs: &'static [Program],
    /// Carries it out.
    pub run: fn(&Stand<'_>) -> Result<Said, Failure>,
}

/// All of them, in the order in which they are run.
pub const ALL: &[Scenario] = &[
    loopback::SCENARIO,
    log_writes::SCENARIO,
    serve::SCENARIO,
    pool::SCENARIO,
    power::YOUNG,
    power::OLD,
];

/// For guests that leave no marks.
fn no_marks(mark: &str) -> Result<(), String> {
    Err(format!("mark {mark} was not expected"))
}
