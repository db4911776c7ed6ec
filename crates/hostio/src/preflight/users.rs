//! Who uses a file or device, as far as the system lists it.

use std::fmt;
use std::fs::{DirEntry, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Who uses a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum User {
    /// It, or a partition of it, is mounted there.
    Mount(PathBuf),
    /// It, or a partition of it, is swap space.
    Swap,
    /// Another block device is made of it (RAID, LVM, encryption), or a loop device of the file.
    Device(String),
    /// It is a disk with partitions.
    Partitions(Vec<String>),
    /// A process.
    Process {
        /// Which.
        id: u32,
        /// What it calls itself.
        name: String,
    },
    /// The kernel says so, but not who.
    Unknown,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount(at) => write!(f, "mounted at {}", at.display()),
            Self::Swap => f.write_str("swap space"),
            Self::Device(name) => write!(f, "by the device {name}"),
            Self::Partitions(names) => write!(f, "it has partitions: {}", names.join(", ")),
            Self::Process { id, name } => write!(f, "by process {id} ({name})"),
            Self::Unknown => f.write_str("held by someone who is not listed"),
        }
    }
}

/// Names in a directory; none if it cannot be read.
fn entries(path: &Path) -> Vec<DirEntry> {
    let entries = std::fs::read_dir(path).map(|entries| entries.filter_map(io::Result::ok));
    entries.map_or_else(|_| Vec::new(), Iterator::collect)
}

fn name_of(entry: &DirEntry) -> String {
    entry.file_name().to_string_lossy().into_owned()
}

/// Major and minor number as sysfs writes them.
fn numbers(device: u64) -> String {
    format!("{}:{}", libc::major(device), libc::minor(device))
}

/// Users of a block device and of its partitions.
pub(super) fn of_device(device: u64) -> Vec<User> {
    let whole = numbers(device);
    let home = Path::new("/sys/dev/block").join(&whole);
    let is_partition = |entry: &DirEntry| entry.path().join("partition").exists();
    let partitions: Vec<_> = entries(&home).into_iter().filter(is_partition).collect();
    let mut parts = vec![(whole, home)];
    for partition in &partitions {
        let numbers = std::fs::read_to_string(partition.path().join("dev")).unwrap_or_default();
        parts.push((numbers.trim().to_owned(), partition.path()));
    }
    let mut users = Vec::new();
    for (numbers, home) in &parts {
        users.extend(mounts(numbers).into_iter().map(User::Mount));
        let holders = entries(&home.join("holders"));
        users.extend(holders.iter().map(name_of).map(User::Device));
        if is_swap(|meta| {
            meta.file_type().is_block_device() && self::numbers(meta.rdev()) == *numbers
        }) {
            users.push(User::Swap);
        }
    }
    if !partitions.is_empty() {
        users.push(User::Partitions(partitions.iter().map(name_of).collect()));
    }
    users
}

/// Users of a regular file: processes that have it open (as far as this one may look), loop devices,
/// swap.
pub(super) fn of_file(meta: &Metadata) -> Vec<User> {
    let is_it = |other: &Metadata| (other.dev(), other.ino()) == (meta.dev(), meta.ino());
    let mut users = Vec::new();
    if is_swap(is_it) {
        users.push(User::Swap);
    }
    for device in entries(Path::new("/sys/block")) {
        let backing = std::fs::read_to_string(device.path().join("loop/backing_file"));
        let backing = backing.map(|path| std::fs::metadata(path.trim_end()));
        if matches!(backing, Ok(Ok(other)) if is_it(&other)) {
            users.push(User::Device(name_of(&device)));
        }
    }
    for process in entries(Path::new("/proc")) {
        let Ok(id) = name_of(&process).parse::<u32>() else {
            continue;
        };
        let files = entries(&process.path().join("fd"));
        let is_open = |entry: &DirEntry| std::fs::metadata(entry.path()).is_ok_and(|it| is_it(&it));
        // The file opened for this look is one of this process's own: another must be open, too.
        let own = usize::from(id == std::process::id());
        if files.into_iter().filter(is_open).count() > own {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let name = name.trim_end().to_owned();
            users.push(User::Process { id, name });
        }
    }
    users
}

/// Where the device of these numbers is mounted.
fn mounts(numbers: &str) -> Vec<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(2);
        let (device, at) = (fields.next()?, fields.nth(1)?);
        (device == numbers).then(|| PathBuf::from(at))
    };
    text.lines().filter_map(mount).collect()
}

fn is_swap(is_it: impl Fn(&Metadata) -> bool) -> bool {
    let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next());
    let mut metas = paths.filter_map(|path| std::fs::metadata(path).ok());
    metas.any(|meta| is_it(&meta))
}
