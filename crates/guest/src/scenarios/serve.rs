//! `varve serve` as a Linux host sees it, with a namespace in memory.

use super::{Scenario, no_marks};
use crate::machine::{Failure, Said};
use crate::server::{SEEN_AS, Server, free_ports};
use crate::suite::{Program, Stand};

/// The kernel must not warn of anything.
pub const SCENARIO: Scenario = Scenario {
    name: "serve",
    about: "the kernel's NVMe/TCP host and nvme-cli against `varve serve`, without a warning",
    programs: &[Program::binary("varve", "varve")],
    run,
};

const NQN: &str = "nqn.2026-11.io.varve:guest";

fn run(stand: &Stand<'_>) -> Result<Said, Failure> {
    let [port, discovery] = free_ports()?;
    let arguments = format!(
        "serve --test-namespace ram --size 512m --listen 127.0.0.1:{port} \
         --discovery 127.0.0.1:{discovery} --advertise {SEEN_AS} --nqn {NQN} --json"
    );
    let arguments = arguments.split_whitespace().map(str::to_owned).collect();
    let server = Server::start(
        &stand.programs[0],
        arguments,
        stand.folder.join("server.log"),
    )?;
    let script = format!(
        "nqn={NQN}\nhost={SEEN_AS}\nport={port}\ndiscovery={discovery}\n{}",
        include_str!("../../guest/serve.sh")
    );
    let said = stand.guest(&script, &mut no_marks)?;
    server.stop()?;
    Ok(said)
}
