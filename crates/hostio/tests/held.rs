//! A held file is told to be. On its own: a process that another test starts holds, for the moment
//! before it runs its program, all that this one has open.

mod common;

use common::Scratch;
use std::path::Path;
use varve_hostio::{Disk, DiskOptions, OpenError, Preflight, User, Wanted, What, preflight};

const MIB: u64 = 1 << 20;

fn look(path: &Path) -> Preflight {
    let wanted = Wanted {
        path: path.to_owned(),
        create: None,
        least_bytes: MIB,
    };
    preflight(&[wanted], &[])
}

/// A disk that is open is in use, by this process; once it is closed it is not.
#[test]
fn a_held_file_is_in_use_and_by_whom_is_told() {
    let scratch = Scratch::new();
    let path = scratch.path("held");
    let disk = Disk::create(&path, 2 * MIB, &DiskOptions::default()).unwrap();
    let found = look(&path);
    let me = std::process::id();
    assert_eq!(found.findings.len(), 1, "{found}");
    assert!(
        matches!(&found.findings[0].what, What::InUse(User::Process { id, .. }) if *id == me),
        "{found}"
    );
    // Looking has not let go of anything.
    let twice = Disk::open(&path, &DiskOptions::default());
    assert!(matches!(twice, Err(OpenError::InUse(_))));
    let other = disk.clone();
    drop(disk);
    assert!(look(&path).worst().is_some());
    drop(other);
    assert!(look(&path).worst().is_none());
}
