//! A pool on files, served to a Linux host, and the server killed under load.

use super::Scenario;
use crate::machine::{Failure, Said};
use crate::server::{SEEN_AS, Server, free_ports};
use crate::suite::{Program, Stand};
use std::io;
use std::path::Path;
use std::process::Command;

/// What the host was promised is there after every death of the server.
pub const SCENARIO: Scenario = Scenario {
    name: "pool",
    about: "XFS and ext4 on a pool, `varve serve` killed under load, reconnected, verified",
    programs: &[Program::binary("varve", "varve")],
    run,
};

const NQN: &str = "nqn.2026-11.io.varve:guest";

/// Creates what is served, and writes the fast tier full: what the host writes finds it so, and sends blocks to the
/// dense tier. `varve` takes the state directory behind each.
const CREATE: [&[&str]; 4] = [
    &[
        "pool", "create", "tank", "--fast", "f0:64M", "f1:64M", "--dense", "d0:1G", "d1:1G",
        "d2:1G", "d3:1G",
    ],
    &["volume", "create", "tank/x", "512M"],
    &["volume", "create", "tank/e", "256M"],
    &[
        "bench",
        "pool:tank/x",
        "--rw",
        "randwrite",
        "--bs",
        "64k",
        "--runtime",
        "3",
    ],
];

/// What the administrator does while a host is connected.
fn volume(what: &str) -> Option<&'static [&'static str]> {
    match what {
        "resize" => Some(&["volume", "resize", "tank/e", "384M"]),
        "create" => Some(&["volume", "create", "tank/n", "64M"]),
        "delete" => Some(&["volume", "delete", "tank/n", "--with-data"]),
        _ => None,
    }
}

fn run(stand: &Stand<'_>) -> Result<Said, Failure> {
    let varve = &stand.programs[0];
    for arguments in CREATE {
        call(varve, &stand.folder, arguments)?;
    }
    let [port, discovery] = free_ports()?;
    let state = stand.folder.join("state");
    let arguments = format!(
        "serve --listen 127.0.0.1:{port} --discovery 127.0.0.1:{discovery} \
         --advertise {SEEN_AS} --nqn {NQN} --json --state"
    );
    let words = arguments.split_whitespace().map(str::to_owned);
    let arguments = words.chain([state.display().to_string()]).collect();
    let mut server = Server::start(varve, arguments, stand.folder.join("server.log"))?;
    let script = format!(
        "nqn={NQN}\nhost={SEEN_AS}\nport={port}\n{}",
        include_str!("../../guest/pool.sh")
    );
    let (mut attempts, mut compacted) = (0, 0);
    let mut said = stand.guest(&script, &mut |mark| {
        let unknown = || io::Error::other("nothing belongs to this mark");
        let done = match mark.split_once('-') {
            Some(("kill", _)) => blocks_compacted(varve, &stand.folder)
                .and_then(|blocks| {
                    compacted += blocks;
                    server.kill()
                })
                .and_then(|()| server.restart())
                .map(|took| attempts += took),
            Some(("volume", what)) => volume(what)
                .ok_or_else(unknown)
                .and_then(|arguments| call(varve, &stand.folder, arguments).map(drop)),
            _ => Err(unknown()),
        };
        done.map_err(|error| error.to_string())
    })?;
    said.notes.push(format!(
        "{attempts} attempts for all starts after a SIGKILL"
    ));
    compacted += blocks_compacted(varve, &stand.folder)?;
    if compacted == 0 {
        return Err(io::Error::other("nothing went to the dense tier under the host").into());
    }
    said.notes.push(format!(
        "{compacted} blocks went to the dense tier under the host"
    ));
    server.stop()?;
    call(varve, &stand.folder, &["check", "tank"])?;
    Ok(said)
}

/// Blocks that have gone to the dense tier since the server was started.
fn blocks_compacted(varve: &Path, at: &Path) -> io::Result<u64> {
    let said = call(varve, at, &["pool", "status", "tank", "--json"])?;
    // Counters that are 0 are left out.
    if !said.contains("\"compacted_blocks\"") && said.contains("\"counters\"") {
        return Ok(0);
    }
    let behind = said.split_once("\"compacted_blocks\":");
    let number = behind.map(|(_, behind)| behind.split([',', '}']).next().unwrap_or_default());
    number
        .and_then(|number| number.trim().parse().ok())
        .ok_or_else(|| io::Error::other(format!("no counter in: {said}")))
}

/// Runs a command of the program to its end, with the drives in the folder `at`. Returns what it said.
fn call(varve: &Path, at: &Path, arguments: &[&str]) -> io::Result<String> {
    let mut command = Command::new(varve);
    command.args(arguments).args(["--state", "state"]);
    let output = command.current_dir(at).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = arguments.join(" ");
    let text = format!("varve {line}: {}: {}", output.status, said.trim());
    Err(io::Error::other(text))
}
