//! The tests that need a guest, and how they are run.

use crate::machine::{Boot, Failure, Machine, Said};
use crate::prepare::Prepared;
use crate::scenarios::{ALL, Scenario};
use crate::staging;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// When a guest is given up on: several times what the longest test was seen to take beside other work.
const LIMIT: Duration = Duration::from_secs(900);

/// How a test ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It held; what the guest noted.
    Passed(Vec<String>),
    /// It did not, or could not be carried out although there is a guest.
    Failed(String),
    /// It was not run, for this reason.
    Skipped(String),
}

/// Names of all tests, each with what it shows.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().map(|scenario| (scenario.name, scenario.about))
}

/// Runs a test.
///
/// # Errors
/// If the name is unknown.
pub fn run(root: &Path, name: &str) -> Result<Verdict, String> {
    let scenario = ALL
        .iter()
        .find(|scenario| scenario.name == name)
        .ok_or_else(|| format!("there is no guest test `{name}`"))?;
    Ok(match Prepared::find(root).map(Machine::new) {
        Ok(machine) => carry_out(root, &machine, scenario),
        Err(error) => Verdict::Skipped(error.to_string()),
    })
}

fn carry_out(root: &Path, machine: &Machine, scenario: &Scenario) -> Verdict {
    let stand = match Stand::new(root, machine, scenario) {
        Ok(stand) => stand,
        Err(error) => return Verdict::Failed(error),
    };
    match (scenario.run)(&stand) {
        Ok(said) => Verdict::Passed(said.notes),
        Err(failure) => {
            let folder = stand.folder.display();
            Verdict::Failed(format!("{failure}\n    more in {folder}"))
        }
    }
}

/// Where a test takes place.
pub struct Stand<'a> {
    machine: &'a Machine,
    /// A folder of its own, empty at first, kept afterwards.
    pub folder: PathBuf,
    /// Programs of the project that it asked for, in that order.
    pub programs: Vec<PathBuf>,
}

impl<'a> Stand<'a> {
    fn new(root: &Path, machine: &'a Machine, scenario: &Scenario) -> Result<Self, String> {
        let folder = root.join("target/guest/runs").join(scenario.name);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let share = folder.join("share");
        fs::create_dir_all(&share).map_err(|e| format!("{}: {e}", share.display()))?;
        let programs = scenario.programs.iter();
        let programs: Result<Vec<_>, _> = programs.map(|program| program.build(root)).collect();
        let programs = programs?;
        let refs: Vec<_> = programs.iter().map(PathBuf::as_path).collect();
        staging::stage(&refs, &share).map_err(|e| format!("programs for the guest: {e}"))?;
        Ok(Self {
            machine,
            folder,
            programs,
        })
    }

    /// Boots the guest with a script. See [`Machine::run`].
    ///
    /// # Errors
    /// As there.
    pub fn guest(
        &self,
        script: &str,
        on_mark: &mut dyn FnMut(&str) -> Result<(), String>,
    ) -> Result<Said, Failure> {
        let boot = Boot {
            script,
            folder: &self.folder,
            limit: LIMIT,
        };
        self.machine.run(&boot, on_mark)
    }
}

/// A program of the project that a test needs.
pub struct Program {
    /// Its package.
    pub package: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Whether it is an example of the package, rather than a binary.
    pub is_example: bool,
}

impl Program {
    /// A binary.
    pub const fn binary(package: &'static str, name: &'static str) -> Self {
        Self {
            package,
            name,
            is_example: false,
        }
    }

    /// An example.
    pub const fn example(package: &'static str, name: &'static str) -> Self {
        Self {
            package,
            name,
            is_example: true,
        }
    }

    /// Builds it below `root`. Returns its file.
    fn build(&self, root: &Path) -> Result<PathBuf, String> {
        let Self { package, name, .. } = self;
        let (kind, folder) = if self.is_example {
            ("--example", "debug/examples")
        } else {
            ("--bin", "debug")
        };
        let status = Command::new("cargo")
            .args(["build", "--quiet", "--package", package, kind, name])
            .current_dir(root)
            .status();
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or(root.join("target"), PathBuf::from);
        match status {
            Ok(status) if status.success() => Ok(target.join(folder).join(name)),
            Ok(status) => Err(format!("cargo build of {name}: {status}")),
            Err(error) => Err(format!("cargo: {error}")),
        }
    }
}
