//! `varve serve` as a process of its own.

use super::error::DemoError;
use super::site::Site;
use crate::serve::Serving;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use varve_io::World;
use varve_units::Nanos;

/// How long a server may need to drain. Arbitrary: a checkpoint of a small pool takes far less.
const DRAIN_MAX: Nanos = Nanos::from_secs(20);
/// Between two looks at it.
const LOOK: Nanos = Nanos::from_millis(1);

/// A server that hosts can connect to. It ends with this process at the latest: the pipe to its
/// standard input ends then. Killed when dropped.
pub(super) struct Server {
    process: Process,
    /// What it serves.
    pub(super) serving: Serving,
    /// From its start until hosts could connect: pools are recovered in that time.
    pub(super) started_in: Nanos,
}

impl Server {
    /// Starts one and waits until hosts can connect.
    ///
    /// # Errors
    /// [`DemoError::Server`] with what it said.
    pub(super) async fn start(world: &dyn World, site: &Site) -> Result<Self, DemoError> {
        let begun = world.now();
        let child = spawn(site).map_err(|error| DemoError::Server(error.to_string()))?;
        let mut process = Process(child);
        loop {
            let said = fs::read_to_string(site.announcement()).unwrap_or_default();
            // Anything else is why it will not serve: it ends then, and its log says the same for people.
            if let Ok(serving) = serde_json::from_str(&said) {
                return Ok(Self {
                    process,
                    serving,
                    started_in: world.now().since(begun),
                });
            }
            if !matches!(process.0.try_wait(), Ok(None)) {
                return Err(DemoError::Server(last_words(site)));
            }
            world.sleep(LOOK).await;
        }
    }

    /// Ends it with SIGKILL: it gets no chance to do anything.
    ///
    /// # Errors
    /// [`DemoError::Server`].
    pub(super) async fn kill(mut self, world: &dyn World) -> Result<(), DemoError> {
        let killed = self.process.0.kill();
        killed.map_err(|error| DemoError::Server(error.to_string()))?;
        self.ended(world).await.map(|_| ())
    }

    /// Ends it in good order: it drains and takes a checkpoint.
    ///
    /// # Errors
    /// [`DemoError::Server`]: it did not, or said why not.
    pub(super) async fn stop(mut self, world: &dyn World, site: &Site) -> Result<(), DemoError> {
        drop(self.process.0.stdin.take());
        match self.ended(world).await?.success() {
            true => Ok(()),
            false => Err(DemoError::Server(last_words(site))),
        }
    }

    async fn ended(&mut self, world: &dyn World) -> Result<ExitStatus, DemoError> {
        let until = world.now() + DRAIN_MAX;
        while world.now() < until {
            let status = self.process.0.try_wait();
            if let Some(status) = status.map_err(|error| DemoError::Server(error.to_string()))? {
                return Ok(status);
            }
            world.sleep(LOOK).await;
        }
        Err(DemoError::Server("it does not end".to_owned()))
    }
}

fn spawn(site: &Site) -> std::io::Result<Child> {
    let log = File::options().create(true).append(true).open(site.log())?;
    let said = File::create(site.announcement())?;
    Command::new(std::env::current_exe()?)
        .args(["serve", "--json", "--until-stdin-ends", "--config"])
        .arg(site.config())
        .stdin(Stdio::piped())
        .stdout(said)
        .stderr(log)
        // Ctrl-C is for the demonstration, which ends the server in good order.
        .process_group(0)
        .spawn()
}

/// Killed when dropped. One that has ended cannot be, and that is as well.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn last_words(site: &Site) -> String {
    let log = fs::read_to_string(site.log()).unwrap_or_default();
    let lines: Vec<&str> = log.lines().rev().take(3).collect();
    if lines.is_empty() {
        return "it ended without a word".to_owned();
    }
    lines.into_iter().rev().collect::<Vec<_>>().join("; ")
}
