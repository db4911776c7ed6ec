//! Commands that are told as next steps, as they can be typed: with the state directory that was given.
//!
//! Whoever tells a next step knows pools and drives, not which directory the command was given. So what is
//! printed goes through [`typed`], and the option stands behind each command of the control plane in it.

use std::ffi::OsString;
use std::path::Path;
use std::sync::OnceLock;
use varve_control::{Failure, Finding, JobView, Reply};

/// What to do where io_uring cannot be had.
pub(crate) const ALLOW_IO: &str =
    "allow io_uring to this process (a container's seccomp profile, say)";

/// The word for that, for programs: the one that the control plane has.
pub(crate) const NO_IO: &str = "no-io";

/// The option as it is typed, if the directory is not the usual one.
static STATE: OnceLock<String> = OnceLock::new();

/// Commands that take the option.
const COMMANDS: [&str; 14] = [
    "pool create",
    "pool list",
    "pool status",
    "pool import",
    "pool export",
    "pool scrub",
    "pool destroy",
    "volume create",
    "volume list",
    "volume resize",
    "volume delete",
    "drive list",
    "drive replace",
    "check",
];

/// The command line, or a configuration, names this state directory.
pub(crate) fn set_state(state: Option<&Path>) {
    if let Some(state) = state {
        // A process is given one.
        let _ = STATE.set(format!(" --state {}", quoted(&state.display().to_string())));
    }
}

/// A text with commands as they can be typed.
pub(crate) fn typed(text: &str) -> String {
    match STATE.get() {
        Some(option) => with_option(text, option),
        None => text.to_owned(),
    }
}

/// A failure whose commands can be typed.
pub(crate) fn typed_failure(failure: &mut Failure) {
    failure.next = failure.next.as_deref().map(typed);
    typed_findings(&mut failure.findings);
}

/// A reply whose commands can be typed: programs show its findings to people.
pub(crate) fn typed_reply(reply: &mut Reply) {
    let of_job = |job: &mut JobView| job.failure.iter_mut().for_each(typed_failure);
    match reply {
        Reply::PoolList { pools } => {
            let findings = pools.iter_mut().map(|pool| &mut pool.findings);
            findings.for_each(|findings| typed_findings(findings));
        }
        Reply::PoolStatus(pool) => typed_findings(&mut pool.findings),
        Reply::PoolPlan(plan) => typed_findings(&mut plan.findings),
        Reply::VolumeList { volumes, findings } => {
            let of_volumes = volumes.iter_mut().map(|volume| &mut volume.findings);
            of_volumes.for_each(|findings| typed_findings(findings));
            typed_findings(findings);
        }
        Reply::Volume(volume) => typed_findings(&mut volume.findings),
        Reply::PoolDone { findings, .. } => typed_findings(findings),
        Reply::Job(job) => of_job(job),
        Reply::PoolRebuild(rebuilt) => typed_findings(&mut rebuilt.findings),
        Reply::JobList { jobs } => jobs.iter_mut().for_each(of_job),
        // They tell no commands.
        Reply::PoolCheck(_) | Reply::VolumeDone { .. } | Reply::DriveList { .. } => {}
    }
}

/// This process's command once more, with an option added.
pub(super) fn again(option: &str) -> String {
    repeated(std::env::args_os().skip(1), option)
}

fn repeated(arguments: impl Iterator<Item = OsString>, option: &str) -> String {
    let words = arguments.map(|word| quoted(&word.to_string_lossy()));
    let words: Vec<_> = words.chain([option.to_owned()]).collect();
    format!("varve {}", words.join(" "))
}

fn typed_findings(findings: &mut [Finding]) {
    for finding in findings {
        finding.text = typed(&finding.text);
    }
}

fn with_option(text: &str, option: &str) -> String {
    const NAME: &str = "varve ";
    let (mut typed, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(NAME) {
        let (before, from) = rest.split_at(at + NAME.len());
        typed += before;
        rest = from;
        let clause = from.split([';', '`']).next().unwrap_or(from);
        // Another machine has a state directory of its own.
        let is_elsewhere =
            clause.trim_end().ends_with(" there") || from[clause.len()..].starts_with("` there");
        if clause.contains("--state") || is_elsewhere {
            continue;
        }
        let is_it = |command: &&&str| {
            let behind = from.strip_prefix(**command);
            behind.is_some_and(|behind| !behind.starts_with(|c: char| c.is_alphanumeric()))
        };
        if let Some(command) = COMMANDS.iter().find(is_it) {
            typed += command;
            typed += option;
            rest = &from[command.len()..];
        }
    }
    typed + rest
}

/// As a shell takes it.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that take it, but those that go on after they are named: what they print is of their own directory.
    #[test]
    fn commands_with_the_option_are_known() {
        use clap::CommandFactory;
        let top = super::super::Cli::command();
        let takes = |command: &clap::Command| {
            let mut arguments = command.get_arguments();
            arguments.any(|argument| argument.get_long() == Some("state"))
        };
        let mut found = Vec::new();
        for command in top.get_subcommands() {
            let name = command.get_name().to_owned();
            if takes(command) {
                found.push(name.clone());
            }
            let inner = command.get_subcommands().filter(|inner| takes(inner));
            found.extend(inner.map(|inner| format!("{name} {}", inner.get_name())));
        }
        for command in COMMANDS {
            assert!(
                found.iter().any(|name| name == command),
                "{command} of {found:?}"
            );
        }
        found.retain(|name| !COMMANDS.contains(&&**name));
        found.sort();
        assert_eq!(found, ["bench", "serve"]);
    }

    #[test]
    fn commands_of_pools_get_the_option() {
        for (text, expected) in [
            (
                "varve volume create tank/NAME SIZE",
                "varve volume create --state D tank/NAME SIZE",
            ),
            (
                "add it; varve check tank, or varve pool list",
                "add it; varve check --state D tank, or varve pool list --state D",
            ),
            (
                "`varve drive replace tank/dense1 NEW` goes on",
                "`varve drive replace --state D tank/dense1 NEW` goes on",
            ),
            // Not of the control plane, not of this machine, or said already.
            ("varve inspect PATH", "varve inspect PATH"),
            ("varve serve runs", "varve serve runs"),
            ("varve pool --help", "varve pool --help"),
            ("varve checks", "varve checks"),
            (
                "varve pool export tank there; if it is gone: varve pool import PATH",
                "varve pool export tank there; if it is gone: varve pool import --state D PATH",
            ),
            (
                "`varve pool export tank` there, or `varve pool import PATH`",
                "`varve pool export tank` there, or `varve pool import --state D PATH`",
            ),
            ("varve pool list --state E", "varve pool list --state E"),
        ] {
            let typed = with_option(text, " --state D");
            assert_eq!(typed, expected);
            assert_eq!(
                with_option(&typed, " --state D"),
                expected,
                "once is enough"
            );
        }
    }

    #[test]
    fn a_command_is_told_as_it_was_typed() {
        let words = ["bench", "nvme+tcp://h/nqn.a:b?nsid=2", "--json"].map(OsString::from);
        assert_eq!(
            repeated(words.into_iter(), "--overwrite"),
            "varve bench 'nvme+tcp://h/nqn.a:b?nsid=2' --json --overwrite"
        );
    }

    #[test]
    fn directories_are_quoted_where_a_shell_wants_it() {
        assert_eq!(quoted("/var/lib/varve-1"), "/var/lib/varve-1");
        assert_eq!(quoted("my pools"), "'my pools'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
