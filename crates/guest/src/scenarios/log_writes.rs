//! The harness itself: ext4 on dm-log-writes, replayed to every point at which it was promised
//! that data is safe.

use super::{Scenario, no_marks};
use crate::suite::Program;

/// ext4 keeps what it promised in each of those states, by what is known of it.
pub const SCENARIO: Scenario = Scenario {
    name: "log-writes",
    about: "ext4 on dm-log-writes, replayed to every flush and FUA, mounted and checked",
    programs: &[Program::binary("varve-guest", "varve-guest-replay")],
    run: |stand| stand.guest(include_str!("../../guest/log-writes.sh"), &mut no_marks),
};
