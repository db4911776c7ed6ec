//! Replays a log of dm-log-writes onto a drive and calls a command for each state it passes.
//!
//!     varve-guest-replay LOG DRIVE [--from MARK] [--parts SEED [--one-in N]] COMMAND...
//!
//! The word `MARK` in the command stands for the text of the last mark. Exit codes: 0 all states
//! were good, and there was one; 1 a state was not, or the log is none; 2 called wrongly.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::process::{Command, ExitCode};
use varve_guest::log_writes::{Log, LogError, Replay};

const USAGE: &str =
    "varve-guest-replay LOG DRIVE [--from MARK] [--parts SEED [--one-in N]] COMMAND...";

/// What was asked for.
struct Request {
    log: String,
    drive: String,
    from: Option<String>,
    seed: Option<u64>,
    one_in: u64,
    command: Vec<String>,
}

/// A drive whose flush reaches it.
struct Drive(File);

impl Write for Drive {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

impl Seek for Drive {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

fn main() -> ExitCode {
    let Some(request) = parse(std::env::args().skip(1).collect()) else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    match replay(request) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("varve-guest-replay: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: Vec<String>) -> Option<Request> {
    let mut words = arguments.into_iter().peekable();
    let (log, drive) = (words.next()?, words.next()?);
    let (mut from, mut seed, mut one_in) = (None, None, 1);
    while let Some(option) = words.next_if(|word| word.starts_with("--")) {
        let value = words.next()?;
        match option.as_str() {
            "--from" => from = Some(value),
            "--parts" => seed = Some(value.parse().ok()?),
            "--one-in" => one_in = value.parse().ok().filter(|count| *count > 0)?,
            _ => return None,
        }
    }
    let command: Vec<_> = words.collect();
    (!command.is_empty()).then_some(Request {
        log,
        drive,
        from,
        seed,
        one_in,
        command,
    })
}

fn replay(request: Request) -> Result<(), Box<dyn std::error::Error>> {
    let replay = Replay {
        log: Log::open(File::open(&request.log)?)?,
        drive: Drive(OpenOptions::new().write(true).open(&request.drive)?),
        from: request.from,
        seed: request.seed,
        one_in: request.one_in,
    };
    let mut states = 0_u64;
    let tally = replay.run::<Box<dyn std::error::Error>>(&mut |mark| {
        states += 1;
        let stand_in = |word: &String| match word.as_str() {
            "MARK" => mark.to_owned(),
            _ => word.clone(),
        };
        let words: Vec<_> = request.command.iter().map(stand_in).collect();
        let output = Command::new(&words[0]).args(&words[1..]).output()?;
        if output.status.success() {
            return Ok(());
        }
        io::stderr().write_all(&output.stdout)?;
        io::stderr().write_all(&output.stderr)?;
        Err(format!("state {states}, after mark `{mark}`: {}", output.status).into())
    })?;
    println!(
        "NOTE {} entries, {} states at flush or FUA ({} were not drawn, {} flushes changed nothing), {} with a part of what came later: all good",
        tally.entries, tally.points, tally.passed_over, tally.repeats, tally.parts
    );
    if states == 0 {
        return Err(Box::new(LogError::Io(io::Error::other(
            "no state was tried",
        ))));
    }
    Ok(())
}
