//! Standard output and standard error of commands, where both may be unwritable.
//!
//! A reader that is gone changes nothing about what a command does or how it ends. Output that cannot be
//! written for another reason (a full disk) is told at the end, and the process has failed then even if what it did
//! has been done. The macros take the place of the standard ones, which panic.

use crate::cli::{Exit, complain};
use std::fmt::Arguments;
use std::io::{Error, ErrorKind, Write, stderr, stdout};
use std::sync::{Mutex, PoisonError};

/// Why standard output could not be written first.
static FAILURE: Mutex<Option<Error>> = Mutex::new(None);

macro_rules! print {
    ($($part:tt)*) => {
        $crate::out::write(format_args!($($part)*))
    };
}

macro_rules! println {
    ($($part:tt)*) => {
        $crate::out::write(format_args!("{}\n", format_args!($($part)*)))
    };
}

macro_rules! eprint {
    ($($part:tt)*) => {
        $crate::out::tell(format_args!($($part)*))
    };
}

macro_rules! eprintln {
    () => {
        $crate::out::tell(format_args!("\n"))
    };
    ($($part:tt)*) => {
        $crate::out::tell(format_args!("{}\n", format_args!($($part)*)))
    };
}

/// Writes to standard output.
pub(crate) fn write(text: Arguments<'_>) {
    note(stdout().write_fmt(text));
}

/// Writes to standard error.
pub(crate) fn tell(text: Arguments<'_>) {
    // Nobody is left to be told.
    let _ = stderr().write_fmt(text);
}

fn note(written: Result<(), Error>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        let mut failure = FAILURE.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
    }
}

/// What was written so far is to be seen now.
pub(crate) fn flush() {
    note(stdout().flush());
}

/// How a process ends that would end like this if all it wrote had arrived.
pub(crate) fn end(exit: Exit) -> Exit {
    flush();
    let failure = FAILURE.lock().unwrap_or_else(PoisonError::into_inner);
    match (&*failure, exit) {
        (Some(error), Exit::Ok) => {
            let what = format!("the command is done, but its output cannot be written: {error}");
            complain(
                "no-output",
                &what,
                "make room where the output goes; what the command did stays done",
            );
            Exit::Failed
        }
        _ => exit,
    }
}
