//! Varve inside the guest, and the power lost at every point at which it counted on its drives.

use super::{Scenario, no_marks};
use crate::machine::{Failure, Said};
use crate::suite::{Program, Stand};

/// Real drives below a real kernel, in place of the simulator's.
pub const SCENARIO: Scenario = Scenario {
    name: "power",
    about: "a pool on dm-log-writes, replayed to every flush and FUA, opened and read in full",
    programs: &[
        Program::binary("varve-guest", "varve-guest-replay"),
        Program::example("varve-control", "promises"),
    ],
    run,
};

/// Rounds of writes, each flushed; the pool is opened anew behind the middle one.
const ROUNDS: u32 = 4;

fn run(stand: &Stand<'_>) -> Result<Said, Failure> {
    let middle = ROUNDS / 2;
    let script = format!(
        "rounds={ROUNDS}\nmiddle={middle}\nseed=1\n{}",
        include_str!("../../guest/power.sh")
    );
    stand.guest(&script, &mut no_marks)
}
