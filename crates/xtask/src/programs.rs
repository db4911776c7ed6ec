//! Test programs: what Cargo builds of a command line, and running one of them.

use crate::bounded::{self, LONGEST};
use crate::jobs::{Done, Job};
use crate::tally::Tally;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A built program of tests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The folder of its crate and the name of its target, as `lab all`.
    pub name: String,
    /// Where its crate lies; tests find their files from there.
    directory: PathBuf,
    executable: PathBuf,
}

/// Builds what `cargo test` with these arguments would run. Documentation tests are no programs.
///
/// # Errors
/// If something does not compile, or there is no test among what does.
pub fn build(root: &Path, arguments: &[&str]) -> Result<Vec<Program>, String> {
    let mut child = Command::new("cargo")
        .args(arguments)
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cargo: {error}"))?;
    let output = child.stdout.take().expect("stdout was asked to be piped");
    let mut programs = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| format!("what cargo built: {error}"))?;
        programs.extend(parse(&line));
    }
    let shown = arguments.join(" ");
    match child.wait() {
        Ok(status) if !status.success() => Err(format!("`cargo {shown}`: {status}")),
        Ok(_) if programs.is_empty() => Err(format!("`cargo {shown}` has no tests")),
        Ok(_) => Ok(programs),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

/// The program that a message of Cargo tells of, if it does
/// (The Cargo Book, External tools, Artifact messages).
fn parse(line: &str) -> Option<Program> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?;
    let (package, target) = (
        directory.file_name()?.to_str()?,
        message["target"]["name"].as_str()?,
    );
    Some(Program {
        name: format!("{package} {target}"),
        directory: directory.to_owned(),
        executable: message["executable"].as_str()?.into(),
    })
}

impl Program {
    /// Running it, with more in its environment than there is.
    pub fn job(self, environment: Arc<[(String, PathBuf)]>) -> Job {
        Job {
            name: self.name.clone(),
            run: Box::new(move || self.run(&environment)),
        }
    }

    fn run(&self, environment: &[(String, PathBuf)]) -> Done {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.directory)
            .env("CARGO_MANIFEST_DIR", &self.directory)
            .envs(environment.iter().map(|(name, value)| (name, value)));
        let ended = match bounded::run(&mut command, LONGEST) {
            Ok(ended) => ended,
            Err(error) => return Done::failed(format!("{}: {error}", self.executable.display())),
        };
        let mut tally = Tally::default();
        ended.stdout.lines().for_each(|line| tally.add_line(line));
        let failure = match ended.status {
            Some(status) if status.success() => {
                return Done {
                    tally,
                    failure: None,
                    notes: String::new(),
                };
            }
            Some(status) => status.to_string(),
            None => bounded::not_ended(LONGEST),
        };
        Done {
            tally,
            failure: Some(failure),
            notes: ended.stdout + &ended.stderr,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Program, parse};

    const MESSAGE: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/lab#varve-lab@0.1.0",
        "manifest_path":"/w/crates/lab/Cargo.toml","target":{"kind":["test"],"name":"all"},
        "profile":{"opt_level":"2","test":true},"executable":"/w/target/debug/deps/all-1","fresh":false}"#;

    #[test]
    fn programs_of_tests_are_told_from_the_rest() {
        let program = parse(MESSAGE).expect("it is one");
        assert_eq!(
            program,
            Program {
                name: "lab all".to_owned(),
                directory: "/w/crates/lab".into(),
                executable: "/w/target/debug/deps/all-1".into(),
            }
        );
        for (from, to) in [
            (r#""test":true"#, r#""test":false"#),
            ("compiler-artifact", "build-script-executed"),
            (r#""/w/target/debug/deps/all-1""#, "null"),
        ] {
            assert_eq!(parse(&MESSAGE.replace(from, to)), None, "{to}");
        }
        assert_eq!(parse("running 3 tests"), None);
    }
}
