//! Loop devices and small file systems, where this process may make them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held while a tool runs.
static TOOLS: Mutex<()> = Mutex::new(());

/// No tool is started as long as this lives: a process that is being started holds, for the moment
/// before it runs its program, all that this one has open.
pub fn no_tools() -> MutexGuard<'static, ()> {
    TOOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a system tool; its output, or why the test is skipped.
fn tool(name: &str, arguments: &[&str]) -> Result<String, String> {
    let _alone = no_tools();
    let output = Command::new(name)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(format!("{name}: {reason}"))
    }
}

/// What cannot be had here is told and left out.
fn or_skip<T>(outcome: Result<T, String>) -> Option<T> {
    outcome
        .inspect_err(|reason| println!("skipped: {reason}"))
        .ok()
}

/// A block device over a file.
pub struct LoopDevice(PathBuf);

impl LoopDevice {
    /// `None`, with the reason printed, where that is not permitted.
    pub fn over(file: &Path, sector: u32) -> Option<Self> {
        Self::with(file, sector, &[])
    }

    /// One that takes no writes.
    pub fn read_only(file: &Path, sector: u32) -> Option<Self> {
        Self::with(file, sector, &["--read-only"])
    }

    fn with(file: &Path, sector: u32, more: &[&str]) -> Option<Self> {
        let (file, sector) = (file.to_str()?, sector.to_string());
        let usual = ["--find", "--show", "--sector-size", &sector, file];
        let arguments = [more, &usual].concat();
        or_skip(tool("losetup", &arguments)).map(|path| Self(path.into()))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let path = self.0.to_string_lossy().into_owned();
        let _ = tool("losetup", &["--detach", &path]);
    }
}

/// Something mounted, a file system in memory of a few bytes say.
pub struct Mount(PathBuf);

impl Mount {
    /// `None`, with the reason printed, where that is not permitted.
    pub fn tmpfs(at: &Path, bytes: u64) -> Option<Self> {
        std::fs::create_dir_all(at).ok()?;
        let size = format!("size={bytes}");
        let mounted = tool(
            "mount",
            &["-t", "tmpfs", "-o", &size, "tmpfs", at.to_str()?],
        );
        or_skip(mounted).map(|_| Self(at.to_owned()))
    }

    /// A new ext4 on a device.
    pub fn ext4(device: &Path, at: &Path) -> Option<Self> {
        std::fs::create_dir_all(at).ok()?;
        let device = device.to_str()?;
        or_skip(tool("mkfs.ext4", &["-q", "-F", device]))?;
        or_skip(tool("mount", &[device, at.to_str()?])).map(|_| Self(at.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let path = self.0.to_string_lossy().into_owned();
        // Lazily: a loop device lets go of its file a moment after it was detached.
        let _ = tool("umount", &["--lazy", &path]);
    }
}
