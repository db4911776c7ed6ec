//! Varve inside the guest, and the power lost at every point at which it counted on its drives.

use super::{Scenario, no_marks};
use crate::machine::{Failure, Said};
use crate::suite::{Program, Stand};
use std::fs::{self, File};
use std::io;
use std::process::Command;

/// Real drives below a real kernel, in place of the simulator's.
pub const YOUNG: Scenario = Scenario {
    name: "power",
    about: "a pool on dm-log-writes, replayed to every flush and FUA, opened and read in full",
    programs: PROGRAMS,
    run: |stand| run(stand, &Life::YOUNG),
};

/// The same with blocks on their way to the dense tier.
pub const OLD: Scenario = Scenario {
    name: "power-old",
    about: "a pool that cleans and collects on dm-log-writes, replayed to some flushes, opened and read in full",
    programs: PROGRAMS,
    run: |stand| run(stand, &Life::OLD),
};

const PROGRAMS: &[Program] = &[
    Program::binary("varve-guest", "varve-guest-replay"),
    Program::example("varve-control", "promises"),
];

/// The size of each drive: about the smallest that a pool is made of.
const DRIVE_MIB: u64 = 17;

/// What is done to a pool, and how many of the states are tried that it leaves.
struct Life {
    /// The size of its volume.
    volume_mib: u32,
    /// Rounds before the guest begins.
    aged: u32,
    /// Rounds in the guest, each flushed; the pool is opened anew behind the middle one.
    rounds: u32,
    /// One state in so many is tried: each takes seconds of an emulated processor.
    one_in: u32,
    /// How the last one ends.
    end: &'static str,
}

impl Life {
    const YOUNG: Self = Self {
        volume_mib: 4,
        aged: 0,
        rounds: 4,
        one_in: 1,
        end: "close",
    };
    /// Aged until three times has gone to the dense tier what it holds, then written until both halves clean chunks.
    const OLD: Self = Self {
        volume_mib: 16,
        aged: 400,
        rounds: 12,
        one_in: 16,
        end: "old",
    };
}

fn run(stand: &Stand<'_>, life: &Life) -> Result<Said, Failure> {
    let note = age(stand, life)?;
    let Life {
        aged,
        rounds,
        one_in,
        end,
        ..
    } = life;
    let (middle, last) = (aged + rounds / 2, aged + rounds);
    let script = format!(
        "mib={DRIVE_MIB}\naged={aged}\nrounds={last}\nmiddle={middle}\nend={end}\nseed=1\none_in={one_in}\n{}",
        include_str!("../../guest/power.sh")
    );
    let mut said = stand.guest(&script, &mut no_marks)?;
    said.notes.push(format!("before that {note}"));
    Ok(said)
}

/// Makes the pool out here, where a processor is not emulated, and lets it go: one that has run for long.
fn age(stand: &Stand<'_>, life: &Life) -> io::Result<String> {
    let drives = stand.folder.join("share/drives");
    fs::create_dir(&drives)?;
    let drive = |name: &str| {
        let path = drives.join(name);
        File::create(&path)?.set_len(DRIVE_MIB << 20)?;
        Ok(path.display().to_string())
    };
    let all = |names: &[&str]| -> io::Result<String> {
        let paths: io::Result<Vec<String>> = names.iter().map(|name| drive(name)).collect();
        Ok(paths?.join(","))
    };
    let (fast, dense) = (all(&["f0", "f1"])?, all(&["d0", "d1", "d2"])?);
    let home = stand.folder.join("home").display().to_string();
    let (mib, last) = (life.volume_mib.to_string(), life.aged.to_string());
    promise(stand, &["make", &home, &fast, &dense, &mib])?;
    promise(stand, &["age", &home, &last])
}

fn promise(stand: &Stand<'_>, words: &[&str]) -> io::Result<String> {
    let output = Command::new(&stand.programs[1]).args(words).output()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() {
        return Ok(said);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = format!("promises {}: {}", words[0], errors.trim());
    Err(io::Error::other(text))
}
