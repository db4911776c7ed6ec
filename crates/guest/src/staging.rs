//! Programs of this machine for the guest: each with the libraries it loads, from this machine.
//!
//! A program that was built here asks for the C library that is here, which may be newer than the
//! guest's.

use crate::bundle::parse_libraries;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// Copies programs with loader and libraries into the folder `share/host`; the prelude's
/// `host PROGRAM` calls them there.
///
/// # Errors
/// If a program or library cannot be read.
pub fn stage(programs: &[&Path], share: &Path) -> io::Result<()> {
    let target = share.join("host");
    fs::create_dir_all(target.join("lib"))?;
    for program in programs {
        let name = program.file_name().expect("a program has a name");
        fs::copy(program, target.join(name))?;
        let listed = Command::new("ldd").arg(program).output()?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        for file in parse_libraries(&listed).map_err(io::Error::other)? {
            let name = file.file_name().expect("a library has a name");
            let loader = name.to_string_lossy().starts_with("ld-linux");
            let place = if loader {
                target.join("loader")
            } else {
                target.join("lib").join(name)
            };
            fs::copy(&file, place)?;
        }
    }
    Ok(())
}
