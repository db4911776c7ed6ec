//! Prepares the guest once; it is kept until what it is made of changes.

use crate::apt::Apt;
use crate::bundle::Bundle;
use crate::distribution::Distribution;
use crate::error::Unprepared;
use crate::image;
use crate::modules::Kernel;
use crate::recipe::{self, MODULES, PACKAGES};
use std::fs;
use std::path::{Path, PathBuf};

/// A guest that is there.
#[derive(Clone, Debug)]
pub struct Prepared {
    folder: PathBuf,
}

impl Prepared {
    /// The guest that was prepared for the repository at `root`.
    ///
    /// # Errors
    /// If there is none, with the reason if an attempt was made.
    pub fn find(root: &Path) -> Result<Self, Unprepared> {
        let distribution = Distribution::of_this_machine()?;
        let folder = folder(root);
        let made_of = fs::read_to_string(folder.join("recipe")).unwrap_or_default();
        if made_of == text(&distribution) {
            return Ok(Self { folder });
        }
        match fs::read_to_string(failure(root)) {
            Ok(why) => Err(Unprepared::Earlier(why)),
            Err(_) => Err(Unprepared::NotYet),
        }
    }

    /// QEMU and its files: `loader`, `qemu-system-x86_64`, `lib`, `data`, `modules`.
    pub fn qemu(&self) -> PathBuf {
        self.folder.join("qemu")
    }

    /// The kernel.
    pub fn kernel(&self) -> PathBuf {
        self.folder.join("kernel")
    }

    /// The memory disk.
    pub fn memory_disk(&self) -> PathBuf {
        self.folder.join("memory-disk")
    }
}

/// Prepares the guest for the repository at `root`, if it is not there. Says what it does.
///
/// Needs the network and about 1.5 GB below `target/guest` while it works, 150 MB afterwards.
///
/// # Errors
/// If it cannot be prepared on this machine; the reason is kept for those who run the tests.
pub fn prepare(root: &Path) -> Result<Prepared, Unprepared> {
    if let Ok(prepared) = Prepared::find(root) {
        return Ok(prepared);
    }
    match attempt(root) {
        Ok(prepared) => {
            // Absent unless an earlier attempt failed.
            drop(fs::remove_file(failure(root)));
            Ok(prepared)
        }
        Err(error) => {
            // What matters is the error; that it cannot be kept is no news then.
            drop(fs::write(failure(root), error.to_string()));
            Err(error)
        }
    }
}

fn attempt(root: &Path) -> Result<Prepared, Unprepared> {
    let distribution = Distribution::of_this_machine()?;
    let target = folder(root);
    let work = root.join("target/guest/work");
    empty(&work)?;
    let packages: Vec<_> = PACKAGES.into_iter().chain([distribution.kernel]).collect();
    eprintln!(
        "setup: downloading packages for the guest of the tests into {} (some 200 MB, once; \
         nothing is installed): {}",
        work.display(),
        packages.join(" ")
    );
    let files = Apt::new(&work.join("apt"), &distribution)?.download(&packages)?;
    eprintln!("setup: making the guest of {} packages", files.len());
    let bundle = Bundle::unpack(&work.join("root"), &files)?;
    let kernel = Kernel::find(&bundle)?;
    let stage = work.join("stage");
    kernel.stage(&bundle, &MODULES, &stage)?;
    let ready = work.join("ready");
    image::qemu(&bundle, &ready.join("qemu"))?;
    image::kernel(&kernel, &ready.join("kernel"))?;
    image::memory_disk(&bundle, &stage, &ready.join("memory-disk"))?;
    let names: Vec<_> = files
        .iter()
        .filter_map(|file| file.file_name()?.to_str())
        .collect();
    write(&ready.join("packages"), &(names.join("\n") + "\n"))?;
    write(&ready.join("recipe"), &text(&distribution))?;
    remove(&target)?;
    fs::rename(&ready, &target).map_err(Unprepared::file(&target))?;
    remove(&work)?;
    Ok(Prepared { folder: target })
}

fn text(distribution: &Distribution) -> String {
    recipe::text(distribution.kernel, distribution.sources.as_deref())
}

fn folder(root: &Path) -> PathBuf {
    root.join("target/guest/ready")
}

/// Why the last attempt failed.
fn failure(root: &Path) -> PathBuf {
    root.join("target/guest/failure")
}

fn empty(folder: &Path) -> Result<(), Unprepared> {
    remove(folder)?;
    fs::create_dir_all(folder).map_err(Unprepared::file(folder))
}

fn remove(folder: &Path) -> Result<(), Unprepared> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Unprepared::file(folder)(error))
        }
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Unprepared> {
    fs::write(path, text).map_err(Unprepared::file(path))
}
