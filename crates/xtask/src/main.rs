//! The project's own chores; the Makefile is their menu.
//!
//! Progress goes to stderr. Exit codes: 0 done, 1 failed, 2 no such chore.

mod bounded;
mod golden;
mod guest;
mod jobs;
mod lex;
mod outline;
mod programs;
mod scratch;
mod setup;
mod steps;
mod tally;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What can be asked for.
struct Chore {
    name: &'static str,
    about: &'static str,
    run: fn(&Path, &[String]) -> Result<(), String>,
    /// Words it takes, as shown; none if it takes none.
    words: &'static str,
}

const CHORES: [Chore; 6] = [
    Chore {
        name: "setup",
        about: "install the tools that are missing",
        run: |root, _| setup::run(root),
        words: "",
    },
    Chore {
        name: "tidy",
        about: "the house rules the compiler does not know",
        run: |root, _| tidy::run(root),
        words: "",
    },
    Chore {
        name: "check",
        about: "format, clippy, tidy, licences, unit tests",
        run: |root, _| steps::check(root),
        words: "",
    },
    Chore {
        name: "test",
        about: "check, with every test there is",
        run: |root, _| steps::test(root),
        words: "",
    },
    Chore {
        name: "golden",
        about: "write the golden files anew from the tests",
        run: |root, _| golden::run(root),
        words: "",
    },
    Chore {
        name: "guest",
        about: "tests with a Linux guest, or those named",
        run: guest::run,
        words: "[TEST...]",
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let chosen = match arguments.as_slice() {
        [name, words @ ..] => CHORES
            .iter()
            .find(|chore| chore.name == name && (words.is_empty() || !chore.words.is_empty())),
        [] => None,
    };
    let Some(chore) = chosen else {
        eprintln!("usage: cargo xtask CHORE\n");
        for chore in &CHORES {
            let call = format!("{} {}", chore.name, chore.words);
            eprintln!("  {call:<16} {}", chore.about);
        }
        return ExitCode::from(2);
    };
    match (chore.run)(&root(), &arguments[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {}: {error}", chore.name);
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository: two above this crate. Cargo names the crate at run time; what was
/// true at build time may be another work tree that shares the build folder.
fn root() -> PathBuf {
    let built = || env!("CARGO_MANIFEST_DIR").into();
    let own = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(built, PathBuf::from);
    own.ancestors()
        .nth(2)
        .expect("crates/xtask lies two below the root")
        .to_owned()
}
