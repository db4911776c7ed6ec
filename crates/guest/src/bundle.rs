//! Unpacked packages, and how to call programs of theirs without installing them.
//!
//! A program is called through the packages' own loader and libraries, so that it does not matter
//! which distribution or version the host is.

use crate::apt;
use crate::error::Unprepared;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where packages keep programs.
const PROGRAM_FOLDERS: [&str; 4] = ["usr/bin", "usr/sbin", "bin", "sbin"];

/// Where packages keep libraries; the last by what is written in those that need them.
const LIBRARY_FOLDERS: [&str; 3] = [
    "usr/lib/x86_64-linux-gnu",
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/ceph",
];

/// Places of the loader.
const LOADERS: [&str; 3] = [
    "usr/lib64/ld-linux-x86-64.so.2",
    "lib64/ld-linux-x86-64.so.2",
    "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
];

/// A folder of unpacked packages.
pub struct Bundle {
    /// Where.
    pub root: PathBuf,
}

impl Bundle {
    /// Unpacks packages into the folder `root`, which is created.
    ///
    /// # Errors
    /// If a package cannot be unpacked.
    pub fn unpack(root: &Path, packages: &[PathBuf]) -> Result<Self, Unprepared> {
        fs::create_dir_all(root).map_err(Unprepared::file(root))?;
        for package in packages {
            let mut command = Command::new("dpkg-deb");
            apt::run(command.arg("--extract").arg(package).arg(root))?;
        }
        Ok(Self {
            root: root.to_owned(),
        })
    }

    /// The file of a program.
    ///
    /// # Errors
    /// If no package has it.
    pub fn program(&self, name: &str) -> Result<PathBuf, Unprepared> {
        let places = PROGRAM_FOLDERS.iter();
        let found = places
            .map(|folder| self.root.join(folder).join(name))
            .find(|path| path.is_file());
        found.ok_or_else(|| Unprepared::Content(format!("no package has the program {name}")))
    }

    /// A command that runs a program of the packages on this machine.
    ///
    /// # Errors
    /// If no package has it, or the loader.
    pub fn command(&self, name: &str) -> Result<Command, Unprepared> {
        let program = self.program(name)?;
        let mut command = Command::new(self.loader()?);
        command.arg("--library-path").arg(self.library_path());
        command.arg(program);
        Ok(command)
    }

    /// The files a program loads when it starts, the loader among them; none if it is static.
    ///
    /// # Errors
    /// If no package has the program, or the loader finds no file for a library.
    pub fn libraries(&self, name: &str) -> Result<BTreeSet<PathBuf>, Unprepared> {
        let program = self.program(name)?;
        let loader = self.loader()?;
        let mut verify = Command::new(&loader);
        if apt::run(verify.arg("--verify").arg(&program)).is_err() {
            return Ok(BTreeSet::new());
        }
        let mut list = Command::new(&loader);
        list.arg("--library-path").arg(self.library_path());
        let listed = apt::run(list.arg("--list").arg(&program))?;
        let mut files = parse_libraries(&listed).map_err(Unprepared::Content)?;
        files.insert(loader);
        Ok(files)
    }

    /// The loader of the packages.
    ///
    /// # Errors
    /// If there is none.
    pub fn loader(&self) -> Result<PathBuf, Unprepared> {
        let mut places = LOADERS.iter().map(|place| self.root.join(place));
        let found = places.find(|path| path.is_file());
        found.ok_or_else(|| Unprepared::Content("the packages have no loader".to_owned()))
    }

    fn library_path(&self) -> String {
        let folders = LIBRARY_FOLDERS.iter();
        let folders = folders.map(|folder| self.root.join(folder).display().to_string());
        folders.collect::<Vec<_>>().join(":")
    }
}

/// The files in what the loader, or `ldd`, lists for a program.
///
/// # Errors
/// With the line of a library that was not found.
pub fn parse_libraries(listed: &str) -> Result<BTreeSet<PathBuf>, String> {
    let mut files = BTreeSet::new();
    for line in listed.lines().map(str::trim) {
        if line.ends_with("not found") {
            return Err(format!("a library is missing: {line}"));
        }
        let found = line.split_once(" => ").map_or(line, |(_, found)| found);
        let Some((path, _)) = found.split_once(" (0x") else {
            continue;
        };
        if path.starts_with('/') {
            files.insert(PathBuf::from(path));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_listed() {
        let listed = "\tlinux-vdso.so.1 (0x00007f)\n\tlibm.so.6 => /x/libm.so.6 (0x00007f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let files: Vec<_> = parse_libraries(listed).unwrap().into_iter().collect();
        let expected = ["/lib64/ld-linux-x86-64.so.2", "/x/libm.so.6"];
        assert_eq!(files, expected.map(PathBuf::from));
        assert!(parse_libraries("libz.so.1 => not found").is_err());
    }
}
