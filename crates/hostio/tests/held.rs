//! A held file is told to be. On its own: a process that another test starts holds, for the moment
//! before it runs its program, all that this one has open.

mod common;

use common::Scratch;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
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

/// A closed disk is free at once, though the open file lives on: the kernel's threads and processes
/// just forked keep it for a moment.
#[test]
fn a_closed_disk_is_free_though_its_open_file_lives_on() {
    let scratch = Scratch::new();
    let path = scratch.path("shared");
    let disk = Disk::create(&path, 2 * MIB, &DiskOptions::default()).unwrap();
    let lives_on = File::from(descriptor_of(&path));
    assert!(look(&path).worst().is_some());
    drop(disk);
    assert!(look(&path).worst().is_none(), "{}", look(&path));
    drop(Disk::open(&path, &DiskOptions::default()).unwrap());
    assert_eq!(lives_on.metadata().unwrap().len(), 2 * MIB);
}

/// Another descriptor of the open file this process has of `path`.
#[expect(unsafe_code, reason = "a descriptor that is known by its number")]
fn descriptor_of(path: &Path) -> OwnedFd {
    let path = path.canonicalize().unwrap();
    let is_of_path = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|target| target == path)
    };
    let entry = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(Result::ok)
        .find(is_of_path)
        .expect("the file is open");
    let number = entry.file_name().to_string_lossy().parse().unwrap();
    // SAFETY: the disk that has it open outlives the borrow.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    borrowed.try_clone_to_owned().unwrap()
}
