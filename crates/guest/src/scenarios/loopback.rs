//! The harness itself: the kernel's own NVMe/TCP target and host, both in the guest.

use super::{Scenario, no_marks};

/// What our target is measured by: the same steps against the kernel's.
pub const SCENARIO: Scenario = Scenario {
    name: "loopback",
    about: "the kernel's NVMe/TCP host against the kernel's target, with XFS and fio",
    programs: &[],
    run: |stand| stand.guest(include_str!("../../guest/loopback.sh"), &mut no_marks),
};
