//! What the argument parser says of a command line that makes no sense.

use super::failure::{keep, plain};
use clap::{Command, Error};
use std::ffi::{OsStr, OsString};
use varve_control::Exit;

/// Tells what the parser says: help and the version on standard output, all else is an error.
pub(super) fn explain(error: &Error, command: &Command) -> Exit {
    // Nobody is left to be told that nobody reads it.
    let _ = error.print();
    if !error.use_stderr() {
        return Exit::Ok;
    }
    let next = format!("{} --help", named(command, std::env::args_os()));
    keep(plain(
        Exit::Usage.word(),
        &gist(&error.render().to_string()),
        &next,
    ));
    Exit::Usage
}

/// The subcommand that a command line is about, as far as it can be told.
fn named(command: &Command, arguments: impl Iterator<Item = OsString>) -> String {
    let mut names = vec![command.get_name()];
    let mut at = command;
    let is_option = |argument: &OsString| argument.as_encoded_bytes().starts_with(b"-");
    for argument in arguments.skip(1).filter(|argument| !is_option(argument)) {
        let argument: &OsStr = &argument;
        match at.find_subcommand(argument) {
            Some(found) => at = found,
            None => break,
        }
        names.push(at.get_name());
    }
    names.join(" ")
}

/// The parser's text on one line, without its usage and the word before it.
fn gist(text: &str) -> String {
    let is_frame = |part: &str| part.starts_with("Usage:") || part.starts_with("For more");
    let parts = text.split("\n\n").map(str::trim);
    let parts: Vec<String> = parts
        .filter(|part| !part.is_empty() && !is_frame(part))
        .map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let text = parts.join("; ");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use clap::{CommandFactory, Parser};

    fn split(line: &str) -> impl Iterator<Item = OsString> {
        line.split(' ').map(OsString::from)
    }

    #[test]
    fn the_parsers_text_is_one_line() {
        let gist_of = |line| {
            let error = Cli::try_parse_from(split(line)).err();
            gist(&error.expect("nonsense").render().to_string())
        };
        assert_eq!(
            gist_of("varve pool list --nonsense"),
            "unexpected argument '--nonsense' found"
        );
        assert_eq!(
            gist_of("varve pool crate"),
            "unrecognized subcommand 'crate'; tip: a similar subcommand exists: 'create'"
        );
        assert_eq!(
            gist_of("varve pool create x"),
            "the following required arguments were not provided: --fast <PATH>..."
        );
    }

    /// A usage line can be typed as it stands, and what is to be written is called what it is.
    #[test]
    fn what_is_to_be_typed_is_told() {
        let said = |line| {
            let error = Cli::try_parse_from(split(line)).err();
            error.expect("nonsense").render().to_string()
        };
        let text = said("varve pool create tank");
        assert!(
            text.contains("Usage: varve pool create <NAME> --fast <PATH>..."),
            "{text}"
        );
        let typed = "varve pool create tank --fast /f0:64M /f1:64M --dense /d0:64M --json";
        assert!(Cli::try_parse_from(split(typed)).is_ok());
        assert!(said("varve drive replace tank y").contains("write POOL/DRIVE"));
        assert!(said("varve volume delete tank").contains("write POOL/NAME"));
    }

    /// What the service manager is told to run can be run.
    #[test]
    fn units_run_what_there_is() {
        let units = [
            include_str!("../../../../deploy/varve.service"),
            include_str!("../../../../deploy/varve-scrub@.service"),
        ];
        let mut lines = Vec::new();
        for line in units.into_iter().flat_map(str::lines) {
            if let Some((key, line)) = line.split_once('=')
                && key.starts_with("Exec")
            {
                let line = line.trim_start_matches('-').replace("%i", "tank");
                let error = Cli::try_parse_from(split(&line)).err();
                assert!(error.is_none(), "{line}: {error:?}");
                lines.push(key.to_owned());
            }
        }
        assert_eq!(lines, ["ExecStart", "ExecStart", "ExecStopPost"]);
    }

    #[test]
    fn the_subcommand_is_named() {
        let named_by = |line| named(&Cli::command(), split(line));
        assert_eq!(named_by("varve --json"), "varve");
        assert_eq!(named_by("varve pool crate"), "varve pool");
        assert_eq!(
            named_by("/bin/varve --json pool create pool"),
            "varve pool create"
        );
        assert_eq!(named_by("varve nonsense pool"), "varve");
    }
}
