//! What is found before anything is changed.

use crate::common::Scratch;
use crate::common::system::{LoopDevice, Mount, no_tools};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use varve_hostio::{
    Content, Disk, DiskOptions, Finding, Magic, OpenError, Preflight, Severity, User, Wanted, What,
    preflight,
};

const MIB: u64 = 1 << 20;

fn wanted(path: &Path) -> Wanted {
    Wanted {
        path: path.to_owned(),
        create: None,
        least_bytes: MIB,
    }
}

fn look(path: &Path) -> Preflight {
    preflight(&[wanted(path)], &[])
}

fn sparse(scratch: &Scratch, name: &str, bytes: u64) -> PathBuf {
    let path = scratch.path(name);
    File::create(&path).unwrap().set_len(bytes).unwrap();
    path
}

#[track_caller]
fn only(found: &Preflight) -> &Finding {
    assert_eq!(found.findings.len(), 1, "{found}");
    &found.findings[0]
}

#[test]
fn a_blank_file_is_clear() {
    let scratch = Scratch::new();
    let found = look(&sparse(&scratch, "blank", 4 * MIB));
    assert!(found.worst().is_none(), "{found}");
    assert_eq!(
        (found.disks[0].bytes, found.disks[0].lba_bytes),
        (4 * MIB, None)
    );
}

#[test]
fn what_is_no_disk_is_refused() {
    let scratch = Scratch::new();
    let found = look(&scratch.path("nothing"));
    assert!(matches!(only(&found).what, What::Missing));
    let found = look(&scratch.path(""));
    assert!(matches!(only(&found).what, What::Kind));
    let found = look(Path::new("/dev/null"));
    assert!(matches!(only(&found).what, What::Kind));
    let found = look(&sparse(&scratch, "short", MIB / 2));
    let what = &only(&found).what;
    assert!(matches!(what, What::TooSmall { bytes, least } if *bytes * 2 == *least));
    assert_eq!(found.worst(), Some(Severity::Refusal));
}

#[test]
fn one_disk_by_two_names_is_found() {
    let scratch = Scratch::new();
    let path = sparse(&scratch, "one", 2 * MIB);
    let other = scratch.path("other");
    std::os::unix::fs::symlink(&path, &other).unwrap();
    let found = preflight(&[wanted(&path), wanted(&other)], &[]);
    assert!(matches!(&only(&found).what, What::Twice(first) if *first == path));
}

/// Also two that are still to be made, whatever path leads to their directory.
#[test]
fn one_new_file_by_two_names_is_found() {
    let scratch = Scratch::new();
    let path = scratch.path("new");
    let beside = path.parent().unwrap().join(".").join("new");
    let new = |path: &Path| Wanted {
        create: Some(2 * MIB),
        ..wanted(path)
    };
    let found = preflight(&[new(&path), new(&beside)], &[]);
    assert!(matches!(&only(&found).what, What::Twice(first) if *first == path));
}

#[test]
fn known_content_is_named() {
    let scratch = Scratch::new();
    let md = 0xa92b_4efc_u32.to_le_bytes();
    for (name, offset, mark) in [
        ("an XFS file system", 0, &b"XFSB"[..]),
        ("an ext2, ext3 or ext4 file system", 0x438, &[0x53, 0xef]),
        ("a Btrfs file system", 0x1_0040, b"_BHRfS_M"),
        ("an LVM physical volume", 512, b"LABELONE"),
        ("swap space", 4086, b"SWAPSPACE2"),
        ("a member of a Linux RAID", 4096, &md),
        ("a member of a Linux RAID", 4 * MIB - (64 << 10), &md),
        ("a member of a Linux RAID", 4 * MIB - (8 << 10), &md),
        ("a partition table (GPT)", 512, b"EFI PART"),
        ("a partition table (GPT)", 4 * MIB - 512, b"EFI PART"),
        ("a boot sector or partition table (MBR)", 510, &[0x55, 0xaa]),
        (
            "a member of a ZFS pool",
            133 << 10,
            &0x00ba_b10c_u64.to_be_bytes(),
        ),
        ("a drive of ours", 8192, b"OURS"),
    ] {
        let path = sparse(&scratch, "marked", 4 * MIB);
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(mark, offset).unwrap();
        let own = Magic {
            name: "a drive of ours",
            offset: 8192,
            bytes: b"OURS",
        };
        let found = preflight(&[wanted(&path)], &[own]);
        let what = &only(&found).what;
        assert!(
            matches!(what, What::Holds(Content::Known(known)) if *known == name),
            "{found}"
        );
        assert_eq!(found.worst(), Some(Severity::Confirm));
    }
}

#[test]
fn other_content_is_found_too() {
    let scratch = Scratch::new();
    let path = sparse(&scratch, "other", 2 * MIB);
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[1], MIB - 1).unwrap();
    assert!(matches!(
        only(&look(&path)).what,
        What::Holds(Content::Unknown)
    ));
}

#[test]
fn files_to_be_made_are_looked_at_together() {
    let scratch = Scratch::new();
    let make = |name: &str, bytes| Wanted {
        path: scratch.path(name),
        create: Some(bytes),
        least_bytes: MIB,
    };
    let found = preflight(&[make("a", 2 * MIB), make("b", 2 * MIB)], &[]);
    assert!(found.worst().is_none(), "{found}");
    let found = preflight(&[make("a", 1 << 50), make("b", 1 << 50)], &[]);
    let what = &only(&found).what;
    assert!(matches!(what, What::Space { needed, free } if *needed == 1 << 51 && free < needed));
    assert_eq!(found.worst(), Some(Severity::Warning));
    assert!(matches!(
        only(&preflight(&[make("a", 5)], &[])).what,
        What::TooSmall { .. }
    ));
    let found = preflight(&[make("no/such", 2 * MIB)], &[]);
    assert!(matches!(&only(&found).what, What::NoDirectory(at) if *at == scratch.path("no")));
    sparse(&scratch, "there", MIB);
    assert!(matches!(
        only(&preflight(&[make("there", MIB)], &[])).what,
        What::Exists
    ));
    assert!(!scratch.path("a").exists(), "nothing was made");
}

/// A device that is mounted, and the file beneath it, are in use.
#[test]
fn a_mounted_device_is_in_use() {
    let scratch = Scratch::new();
    let path = sparse(&scratch, "image", 16 * MIB);
    let Some(device) = LoopDevice::over(&path, 4096) else {
        return;
    };
    let found = look(device.path());
    assert!(found.worst().is_none(), "{found}");
    assert_eq!(found.disks[0].lba_bytes, Some(4096));
    let is_loop = |finding: &Finding| matches!(finding.what, What::InUse(User::Device(_)));
    assert!(look(&path).findings.iter().any(is_loop), "{}", look(&path));

    let at = scratch.path("mounted");
    let Some(mount) = Mount::ext4(device.path(), &at) else {
        return;
    };
    let found = look(device.path());
    let is_mount =
        |finding: &Finding| matches!(&finding.what, What::InUse(User::Mount(to)) if *to == at);
    assert!(found.findings.iter().any(is_mount), "{found}");
    let opened = Disk::open(device.path(), &DiskOptions::default());
    assert!(matches!(opened, Err(OpenError::InUse(_))));
    drop(mount);
    assert_eq!(look(device.path()).worst(), Some(Severity::Confirm));
}

/// A device that is held by an open disk is in use.
#[test]
fn a_held_device_is_in_use() {
    let scratch = Scratch::new();
    let path = sparse(&scratch, "image", 4 * MIB);
    let Some(device) = LoopDevice::over(&path, 512) else {
        return;
    };
    let _quiet = no_tools();
    let disk = Disk::open(device.path(), &DiskOptions::default()).unwrap();
    assert!(matches!(
        only(&look(device.path())).what,
        What::InUse(User::Unknown)
    ));
    let twice = Disk::open(device.path(), &DiskOptions::default());
    assert!(matches!(twice, Err(OpenError::InUse(_))));
    drop(disk);
    assert!(look(device.path()).worst().is_none());
    let wrong = DiskOptions {
        lba_bytes: Some(1024),
        ..DiskOptions::default()
    };
    let refused = Disk::open(device.path(), &wrong);
    assert!(matches!(
        refused,
        Err(OpenError::LbaBytes { asked: 1024, .. })
    ));
}

#[test]
fn a_read_only_device_is_refused() {
    let scratch = Scratch::new();
    let path = sparse(&scratch, "image", 4 * MIB);
    let Some(device) = LoopDevice::read_only(&path, 4096) else {
        return;
    };
    let found = look(device.path());
    assert!(matches!(only(&found).what, What::ReadOnly), "{found}");
    let opened = Disk::open(device.path(), &DiskOptions::default());
    assert!(matches!(opened, Err(OpenError::ReadOnly(_))));
}
