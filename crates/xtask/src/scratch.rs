//! Where tests make their drives: in memory, if there is enough to spare.
//!
//! **Not here**: what needs a disk. Tests of `hostio`, of servers under load and of the demonstration make theirs under
//! `target` or in the temporary directory; without this all others do too.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that tells them.
pub(crate) const VARIABLE: &str = "VARVE_TEST_DIR";
/// Memory as a file system, on every Linux; containers often have little of it.
const MEMORY: &str = "/dev/shm";
/// What has to be free there, in KiB: four times what tests were seen to take at once.
const FREE_KIB_MIN: u64 = 4 << 20;

/// A directory in memory that goes with all it holds.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// One for this process; none if there is too little memory, or it is not to be had.
    pub(crate) fn new() -> Option<Self> {
        let free = free_kib(MEMORY)?;
        (free >= FREE_KIB_MIN).then(|| Self::below(Path::new(MEMORY)))?
    }

    fn below(root: &Path) -> Option<Self> {
        let path = root.join(format!("varve-test-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn free_kib(path: &str) -> Option<u64> {
    let output = Command::new("df")
        .args(["-k", "--output=avail", path])
        .output()
        .ok()?;
    parse_free(&String::from_utf8(output.stdout).ok()?)
}

/// The number below the heading.
fn parse_free(table: &str) -> Option<u64> {
    table.lines().nth(1)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Scratch, parse_free};

    #[test]
    fn what_is_free_stands_below_the_heading() {
        assert_eq!(parse_free("   Avail\n24680216\n"), Some(24_680_216));
        assert_eq!(parse_free("   Avail\n-\n"), None);
        assert_eq!(parse_free(""), None);
    }

    #[test]
    fn it_goes_with_what_it_holds() {
        let scratch = Scratch::below(&std::env::temp_dir()).expect("it is made");
        let path = scratch.path().to_owned();
        std::fs::write(path.join("drive"), "x").expect("it can be written");
        drop(scratch);
        assert!(!path.exists());
    }
}
