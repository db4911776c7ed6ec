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

use super::detached::left_by;
use super::hint::{typed, typed_failure};
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

/// Tells on standard error what went wrong and what to do next; `code` is a stable word for it, for programs.
pub(crate) fn complain(code: &str, what: &str, next: &str) {
    let (what, next) = (&*typed(what), &*typed(next));
    tell(what, next);
    keep(plain(code, what, next));
}

/// Tells on standard error alone.
pub(super) fn tell(what: &str, next: &str) {
    eprintln!("error: {}", typed(what));
    if !next.is_empty() {
        eprintln!("next:  {}", typed(next));
    }
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
pub(super) fn plain(code: &str, what: &str, next: &str) -> Failure {
    Failure {
        exit: Exit::Failed,
        code: code.to_owned(),
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
pub(crate) fn abandon(code: &str, what: &str) -> ! {
    complain(code, what, "");
    end(Exit::Failed);
    std::process::exit(Exit::Failed as i32)
}

/// From now on a signal that ends the process leaves a document, if one is wanted, and words, if a daemon may go on with
/// what it was asked: the command does nothing itself that has to be ended in good order. Any other ends as by any
/// signal.
pub(super) fn outlive_signals(may_ask_a_daemon: bool) {
    if may_ask_a_daemon || asks_for_json(std::env::args_os()) {
        // What cannot be had ends the process without a word, as before.
        let _ = on_signal(|signal| cut_short(signal.into()));
    }
}

/// Ends the process because of a signal, at once. It tells what goes on without it.
pub(super) fn cut_short(exit: Exit) -> ! {
    let mut left = left_by(exit);
    typed_failure(&mut left);
    let exit = left.exit;
    let is_json = asks_for_json(std::env::args_os());
    let document = is_json
        .then(|| envelope::last_json("Failure", &left))
        .flatten();
    if document.is_some() || !is_json {
        eprintln!();
        tell(&left.error, left.next.as_deref().unwrap_or(""));
    }
    if let Some(document) = document {
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
    let failure = failure.unwrap_or_else(|| plain(exit.word(), "the command failed", ""));
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
        let failure = classed(Some(plain("no-io", "a", "b")), Exit::Refused);
        assert_eq!((failure.exit, &failure.code[..]), (Exit::Refused, "no-io"));
        assert_eq!(failure.next.as_deref(), Some("b"));
        let failure = classed(Some(plain("no-pool", "a", "")), Exit::NotFound);
        assert_eq!(
            (failure.exit, &failure.code[..]),
            (Exit::NotFound, "no-pool")
        );
        assert_eq!(failure.next, None);
        assert_eq!(classed(None, Exit::Failed).code, "failed");
    }
}
