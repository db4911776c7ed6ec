//! What a command that fails leaves: text on standard error and, if the command line asks for JSON, one
//! document on standard output.
//!
//! Why it fails is said where that is known, with [`complain`]; how the process ends, and whether the
//! command has left a document of its result, is known at its end only. So what was said last is kept until
//! then, and [`end`] writes the document for every command alike.
//!
//! **Invariant**: with `--json` a process that fails has left exactly one document.
//!
//! **Not here**: the form of the document ([`Failure`], which the daemon answers with too).

use super::hint::typed;
use crate::{envelope, out};
use std::ffi::OsString;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use varve_control::{Exit, Failure};
use varve_hostio::on_signal;

/// What was complained of last.
static LAST: Mutex<Option<Failure>> = Mutex::new(None);

fn last() -> MutexGuard<'static, Option<Failure>> {
    // Whoever panicked with it in hand cannot have left half of it.
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells on standard error what went wrong and what to do next.
pub(crate) fn complain(what: &str, next: &str) {
    let (what, next) = (&*typed(what), &*typed(next));
    eprintln!("error: {what}");
    if !next.is_empty() {
        eprintln!("next:  {next}");
    }
    keep(plain(what, next));
}

/// Tells on standard error what a result that counts does not say, and what to do about it.
pub(crate) fn note(what: &str, next: &str) {
    eprintln!("note:  {what}");
    eprintln!("next:  {}", typed(next));
}

/// Keeps what failed, which was told already, for the document.
pub(super) fn keep(failure: Failure) {
    *last() = Some(failure);
}

/// A failure of which no more is known than its text; its class is that of the process's end.
pub(super) fn plain(what: &str, next: &str) -> Failure {
    Failure {
        exit: Exit::Failed,
        code: String::new(),
        error: what.to_owned(),
        causes: Vec::new(),
        findings: Vec::new(),
        next: (!next.is_empty()).then(|| next.to_owned()),
    }
}

/// Writes the document of a failure, if one is wanted and no other document was made.
pub(super) fn end(exit: Exit) {
    if exit == Exit::Ok || envelope::is_made() || !asks_for_json(std::env::args_os()) {
        return;
    }
    let failure = classed(last().take(), exit);
    print!("{}", envelope::json("Failure", &failure));
    out::flush();
}

/// Ends the process at once, as failed, because of `what`.
pub(crate) fn abandon(what: &str) -> ! {
    complain(what, "");
    end(Exit::Failed);
    std::process::exit(Exit::Failed as i32)
}

/// From now on a signal that ends the process leaves a document, if one is wanted: the command does nothing that has to
/// be ended in good order. Without `--json` it ends the process as any other.
pub(super) fn outlive_signals() {
    if asks_for_json(std::env::args_os()) {
        // What cannot be had ends the process without a document, as before.
        let _ = on_signal(|signal| interrupted(signal.into()));
    }
}

/// Ends the process because of a signal, at once.
pub(super) fn interrupted(exit: Exit) -> ! {
    let what = match exit {
        Exit::Interrupted => "Ctrl-C ended it before it was done",
        Exit::HungUp => "it ended with its terminal, before it was done",
        _ => "SIGTERM ended it before it was done",
    };
    let failure = classed(Some(plain(what, "run it again")), exit);
    let document = asks_for_json(std::env::args_os())
        .then(|| envelope::last_json("Failure", &failure))
        .flatten();
    if let Some(document) = document {
        eprintln!();
        complain(what, "run it again");
        print!("{document}");
        out::flush();
    } else if envelope::is_made() {
        // The command is about to end by itself: what it prints is to be whole.
        #[expect(
            clippy::disallowed_methods,
            reason = "the process is about to end, and has no world here"
        )]
        std::thread::sleep(PRINTING);
    }
    std::process::exit(exit as i32)
}

/// How long a document may take to be printed. Arbitrary: a reader that does not read is not waited for.
const PRINTING: Duration = Duration::from_millis(500);

/// What was complained of, with the class that the process ends with.
fn classed(failure: Option<Failure>, exit: Exit) -> Failure {
    let mut failure = failure.unwrap_or_else(|| plain("the command failed", ""));
    if failure.code.is_empty() {
        exit.word().clone_into(&mut failure.code);
    }
    Failure { exit, ..failure }
}

/// True if `--json` is among the options of a command line, also of one that makes no sense.
fn asks_for_json(arguments: impl Iterator<Item = OsString>) -> bool {
    let mut options = arguments.skip(1).take_while(|argument| argument != "--");
    options
        .any(|argument| argument == "--json" || argument.as_encoded_bytes().starts_with(b"--json="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_by_an_option() {
        let asks = |line: &str| asks_for_json(line.split(' ').map(OsString::from));
        for line in ["varve --json", "varve a --b --json c", "varve a --json=b"] {
            assert!(asks(line), "{line}");
        }
        for line in [
            "varve a",
            "--json a",
            "varve a -- --json",
            "varve a --jsons",
            "varve json",
        ] {
            assert!(!asks(line), "{line}");
        }
    }

    /// The document never contradicts the exit code, and always has a word for programs.
    #[test]
    fn the_class_is_that_of_the_end() {
        let failure = classed(Some(plain("a", "b")), Exit::Refused);
        assert_eq!(
            (failure.exit, &failure.code[..]),
            (Exit::Refused, "refused")
        );
        assert_eq!(failure.next.as_deref(), Some("b"));
        let known = Failure {
            code: "no-pool".to_owned(),
            ..plain("a", "")
        };
        let failure = classed(Some(known), Exit::NotFound);
        assert_eq!(
            (failure.exit, &failure.code[..]),
            (Exit::NotFound, "no-pool")
        );
        assert_eq!(failure.next, None);
        assert_eq!(classed(None, Exit::Failed).code, "failed");
    }
}
