//! Makes the guest's memory disk, and the folder from which QEMU runs, of unpacked packages.

use crate::bundle::Bundle;
use crate::cpio::Archive;
use crate::error::Unprepared;
use crate::modules::Kernel;
use crate::recipe::{APPLETS, INIT, PROGRAMS};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Folders of the guest besides those of its files.
const FOLDERS: [&str; 11] = [
    "bin", "dev", "etc", "lib", "lib64", "mnt", "proc", "run", "share", "sys", "tmp",
];

/// Second names of the folders: everything is in one.
const LINKS: [(&str, &str); 7] = [
    ("sbin", "bin"),
    ("usr", "."),
    ("bin/sh", "dash"),
    ("etc/mtab", "/proc/mounts"),
    ("var", "tmp"),
    (
        "lib64/ld-linux-x86-64.so.2",
        "../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    ),
    ("init", "bin/init"),
];

/// What QEMU reads besides its libraries; folders of the packages.
const QEMU_FOLDERS: [&str; 2] = ["usr/share/qemu", "usr/share/seabios"];

/// Where parts of QEMU are that it loads when it needs them; Ubuntu's has its translator there.
const QEMU_MODULES: &str = "usr/lib/x86_64-linux-gnu/qemu";

/// Where the libraries of the guest are, whatever the packages call it.
const LIBRARIES: &str = "lib/x86_64-linux-gnu";

/// Writes the memory disk to the file `path`, with what `stage` holds below `lib/modules`.
///
/// # Errors
/// If a file is missing or cannot be written.
pub fn memory_disk(bundle: &Bundle, stage: &Path, path: &Path) -> Result<(), Unprepared> {
    let file = fs::File::create(path).map_err(Unprepared::file(path))?;
    let mut archive = Archive::new(BufWriter::new(file));
    skeleton(&mut archive).map_err(Unprepared::file(path))?;
    for program in PROGRAMS {
        let from = bundle.program(program)?;
        let content = fs::read(&from).map_err(Unprepared::file(&from))?;
        archive
            .file(&format!("bin/{program}"), &content)
            .map_err(Unprepared::file(path))?;
    }
    libraries(bundle, &mut archive, path)?;
    tree(&mut archive, stage, Path::new("lib/modules"), path)?;
    archive.finish().map(drop).map_err(Unprepared::file(path))
}

fn skeleton<W: Write>(archive: &mut Archive<W>) -> io::Result<()> {
    for folder in FOLDERS {
        archive.folder(folder)?;
    }
    archive.folder(LIBRARIES)?;
    archive.folder(&format!("{LIBRARIES}/ceph"))?;
    for (name, target) in LINKS {
        archive.link(name, target)?;
    }
    for applet in APPLETS {
        archive.link(&format!("bin/{applet}"), "busybox")?;
    }
    archive.file("bin/init", INIT.as_bytes())
}

fn libraries<W: Write>(
    bundle: &Bundle,
    archive: &mut Archive<W>,
    path: &Path,
) -> Result<(), Unprepared> {
    let mut files = BTreeSet::new();
    for program in PROGRAMS {
        files.extend(bundle.libraries(program)?);
    }
    let mut names = BTreeSet::new();
    for file in &files {
        let name = file
            .file_name()
            .expect("a library has a name")
            .to_string_lossy();
        let private = file.parent().is_some_and(|folder| folder.ends_with("ceph"));
        let place = if private { "ceph/" } else { "" };
        let name = format!("{LIBRARIES}/{place}{name}");
        if names.insert(name.clone()) {
            let content = fs::read(file).map_err(Unprepared::file(file))?;
            archive
                .file(&name, &content)
                .map_err(Unprepared::file(path))?;
        }
    }
    Ok(())
}

/// Adds the folder `inside` of `stage` with all below it.
fn tree<W: Write>(
    archive: &mut Archive<W>,
    stage: &Path,
    inside: &Path,
    path: &Path,
) -> Result<(), Unprepared> {
    let folder = stage.join(inside);
    archive
        .folder(&inside.to_string_lossy())
        .map_err(Unprepared::file(path))?;
    let mut entries = Vec::new();
    for entry in fs::read_dir(&folder).map_err(Unprepared::file(&folder))? {
        entries.push(entry.map_err(Unprepared::file(&folder))?.file_name());
    }
    entries.sort();
    for name in entries {
        let inside = inside.join(name);
        let from = stage.join(&inside);
        if from.is_dir() {
            tree(archive, stage, &inside, path)?;
        } else {
            let content = fs::read(&from).map_err(Unprepared::file(&from))?;
            archive
                .file(&inside.to_string_lossy(), &content)
                .map_err(Unprepared::file(path))?;
        }
    }
    Ok(())
}

/// Copies QEMU with its libraries and data into the folder `target`, which is created.
///
/// # Errors
/// If a file is missing or cannot be written.
pub fn qemu(bundle: &Bundle, target: &Path) -> Result<(), Unprepared> {
    for part in ["lib", "data", "modules"] {
        let folder = target.join(part);
        fs::create_dir_all(&folder).map_err(Unprepared::file(folder))?;
    }
    let program = "qemu-system-x86_64";
    copy(&bundle.program(program)?, &target.join(program))?;
    copy(&bundle.loader()?, &target.join("loader"))?;
    for file in bundle.libraries(program)? {
        let name = file.file_name().expect("a library has a name");
        copy(&file, &target.join("lib").join(name))?;
    }
    for folder in QEMU_FOLDERS {
        files(&bundle.root.join(folder), &target.join("data"))?;
    }
    let modules = bundle.root.join(QEMU_MODULES);
    if modules.is_dir() {
        files(&modules, &target.join("modules"))?;
    }
    Ok(())
}

/// Copies the files of a folder into another.
fn files(folder: &Path, target: &Path) -> Result<(), Unprepared> {
    for entry in fs::read_dir(folder).map_err(Unprepared::file(folder))? {
        let from = entry.map_err(Unprepared::file(folder))?.path();
        // Links of a package may lead to packages that were not asked for.
        if from.is_file() {
            let name = from.file_name().expect("an entry has a name");
            copy(&from, &target.join(name))?;
        }
    }
    Ok(())
}

/// Copies a kernel to the file `target`.
///
/// # Errors
/// If that fails.
pub fn kernel(kernel: &Kernel, target: &Path) -> Result<(), Unprepared> {
    copy(&kernel.image, target)
}

fn copy(from: &Path, to: &Path) -> Result<(), Unprepared> {
    fs::copy(from, to).map(drop).map_err(Unprepared::file(from))
}
