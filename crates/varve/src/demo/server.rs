//! `varve serve` as a process of its own.

use super::error::DemoError;
use super::site::Site;
use crate::serve::Serving;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may need to drain. Arbitrary: a checkpoint of a small pool takes far less.
const DRAIN_MAX: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);

/// A server that hosts can connect to. It ends with this process at the latest: the pipe to its
/// standard input ends then. Killed when dropped.
pub(super) struct Server {
    child: Child,
    /// What it serves.
    pub(super) serving: Serving,
    /// From its start until hosts could connect: pools are recovered in that time.
    pub(super) started_in: Duration,
}

impl Server {
    /// Starts one and waits until hosts can connect.
    ///
    /// # Errors
    /// [`DemoError::Server`] with what it said.
    pub(super) fn start(site: &Site) -> Result<Self, DemoError> {
        let failed = |error: std::io::Error| DemoError::Server(error.to_string());
        let begun = Instant::now();
        let log = File::options()
            .create(true)
            .append(true)
            .open(site.log())
            .map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .args(["serve", "--json", "--until-stdin-ends", "--config"])
            .arg(site.config())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // Ctrl-C is for the demonstration, which ends the server in good order.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let out = child.stdout.take().expect("a pipe was asked for");
        let mut line = String::new();
        let read = BufReader::new(out).read_line(&mut line);
        let serving = read.ok().and_then(|_| serde_json::from_str(&line).ok());
        let Some(serving) = serving else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(DemoError::Server(last_words(site)));
        };
        Ok(Self {
            child,
            serving,
            started_in: begun.elapsed(),
        })
    }

    /// Ends it with SIGKILL: it gets no chance to do anything.
    ///
    /// # Errors
    /// [`DemoError::Server`].
    pub(super) fn kill(mut self) -> Result<(), DemoError> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map_err(|error| DemoError::Server(error.to_string()))?;
        Ok(())
    }

    /// Ends it in good order: it drains and takes a checkpoint.
    ///
    /// # Errors
    /// [`DemoError::Server`]: it did not, or said why not.
    pub(super) fn stop(mut self, site: &Site) -> Result<(), DemoError> {
        drop(self.child.stdin.take());
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(_)) => return Err(DemoError::Server(last_words(site))),
                Ok(None) if begun.elapsed() < DRAIN_MAX => thread::sleep(PAUSE),
                Ok(None) => return Err(DemoError::Server("it does not end".to_owned())),
                Err(error) => return Err(DemoError::Server(error.to_string())),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and that is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
