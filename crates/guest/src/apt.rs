//! Packages by apt, without touching the system: state, lists and downloads in a folder of ours.
//!
//! The host's own configuration stays in force for the rest (proxies, keys), but for its hooks,
//! which are for the host's own packages.

use crate::distribution::Distribution;
use crate::error::Unprepared;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// apt in a folder of its own.
pub struct Apt {
    folder: PathBuf,
}

impl Apt {
    /// Sets it up below `folder`, which is created.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn new(folder: &Path, distribution: &Distribution) -> Result<Self, Unprepared> {
        for part in ["state/lists/partial", "cache/archives/partial", "sources"] {
            let path = folder.join(part);
            fs::create_dir_all(&path).map_err(Unprepared::file(path))?;
        }
        // An empty list of installed packages: everything that is needed counts as missing.
        write(&folder.join("state/status"), "")?;
        let sources = distribution.sources.as_deref();
        if let Some(lines) = sources {
            write(&folder.join("sources.list"), lines)?;
        }
        write(&folder.join("apt.conf"), &config(folder, sources.is_some()))?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Downloads packages and all that they depend on.
    ///
    /// Returns the package files, sorted by name.
    ///
    /// # Errors
    /// If apt fails: no network, no such package, a wrong signature.
    pub fn download(&self, packages: &[&str]) -> Result<Vec<PathBuf>, Unprepared> {
        self.call(&["update"], &[])?;
        self.call(&["install", "--download-only", "--yes"], packages)?;
        let folder = self.folder.join("cache/archives");
        let entries = fs::read_dir(&folder).map_err(Unprepared::file(&folder))?;
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(Unprepared::file(&folder))?.path();
            if path.extension().is_some_and(|end| end == "deb") {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    fn call(&self, action: &[&str], packages: &[&str]) -> Result<(), Unprepared> {
        let config = self.folder.join("apt.conf");
        let mut command = Command::new("apt-get");
        command.arg("--config-file").arg(config).arg("--quiet=2");
        command.args(action).args(packages);
        run(&mut command).map(drop)
    }
}

/// Runs a program to its end. Returns what it wrote to stdout.
///
/// # Errors
/// If it cannot be called or fails.
pub fn run(command: &mut Command) -> Result<String, Unprepared> {
    let line = || {
        let arguments = command.get_args().map(|word| word.to_string_lossy());
        let words = std::iter::once(command.get_program().to_string_lossy()).chain(arguments);
        words.collect::<Vec<_>>().join(" ")
    };
    let shown = line();
    let failed = |why: String| Unprepared::Program { line: shown, why };
    match command.stdin(std::process::Stdio::null()).output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let last: Vec<_> = said.trim().lines().rev().take(3).collect();
            let last: Vec<_> = last.into_iter().rev().collect();
            Err(failed(format!("{}: {}", output.status, last.join(" / "))))
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Unprepared> {
    fs::write(path, text).map_err(Unprepared::file(path))
}

/// The configuration file of apt, read after the host's own.
fn config(folder: &Path, own_sources: bool) -> String {
    let folder = folder.display();
    let mut text = String::from(
        "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n#clear DPkg::Pre-Invoke;\n\
         #clear DPkg::Post-Invoke;\n#clear DPkg::Pre-Install-Pkgs;\n#clear APT::Architectures;\n\
         APT::Architecture \"amd64\";\nAPT::Architectures { \"amd64\"; };\n\
         APT::Install-Recommends \"false\";\nAPT::Sandbox::User \"root\";\n\
         Acquire::Languages \"none\";\nAcquire::Retries \"3\";\n\
         Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
         Acquire::IndexTargets::deb::CNF::DefaultEnabled \"false\";\n\
         Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled \"false\";\n",
    );
    text += &format!(
        "Dir::State \"{folder}/state\";\nDir::State::status \"{folder}/state/status\";\n\
         Dir::Cache \"{folder}/cache\";\nDir::Etc::preferences \"/dev/null\";\n\
         Dir::Etc::preferencesparts \"{folder}/sources\";\n"
    );
    if own_sources {
        text += &format!(
            "Dir::Etc::sourcelist \"{folder}/sources.list\";\n\
             Dir::Etc::sourceparts \"{folder}/sources\";\n"
        );
    }
    text
}
