//! A server of this machine that guests connect to.

use crate::clock;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a server may need to be able to start again.
const RESTART_MAX: Duration = Duration::from_secs(10);

/// This machine's loopback, as guests see it.
pub const SEEN_AS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// A server process; it does not outlive its test.
pub struct Server {
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    process: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        drop(self.kill());
    }
}

impl Server {
    /// Starts it, and waits until it says on its first line of output that it serves. What it
    /// complains of goes to the file `log`.
    ///
    /// # Errors
    /// If it cannot be started or ends without a word.
    pub fn start(program: &Path, arguments: Vec<String>, log: PathBuf) -> io::Result<Self> {
        File::create(&log)?;
        let process = launch(program, &arguments, &log)?;
        Ok(Self {
            program: program.to_owned(),
            arguments,
            log,
            process,
        })
    }

    /// Ends it with SIGKILL, in the middle of whatever it does.
    ///
    /// # Errors
    /// If it had ended by itself: then something else was wrong.
    pub fn kill(&mut self) -> io::Result<()> {
        if let Some(status) = self.process.try_wait()? {
            return Err(io::Error::other(format!("the server had ended: {status}")));
        }
        self.process.kill()?;
        self.process.wait().map(drop)
    }

    /// Starts it again, with the same arguments. Returns how many attempts that took: sockets and
    /// locks of a process with an `io_uring` may outlive it for a moment.
    ///
    /// # Errors
    /// As for the first start, if it cannot be started within ten seconds.
    pub fn restart(&mut self) -> io::Result<u32> {
        let start = clock::now();
        let mut attempts = 1;
        loop {
            match launch(&self.program, &self.arguments, &self.log) {
                Ok(process) => {
                    self.process = process;
                    return Ok(attempts);
                }
                Err(error) if start.elapsed() > RESTART_MAX => return Err(error),
                Err(_) => attempts += 1,
            }
        }
    }

    /// Asks it to end in order, and waits for that.
    ///
    /// # Errors
    /// If it does not end with status 0.
    pub fn stop(mut self) -> io::Result<()> {
        let id = self.process.id().to_string();
        // The shell has one of its own, kill(1) need not be there.
        Command::new("sh")
            .args(["-c", r#"kill -TERM "$0""#, &id])
            .status()?;
        let status = self.process.wait()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("the server ended with {status}")))
    }
}

fn launch(program: &Path, arguments: &[String], log: &Path) -> io::Result<Child> {
    let mut process = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::options().append(true).open(log)?)
        .spawn()?;
    let output = process.stdout.take().expect("stdout was asked to be piped");
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    if line.is_empty() {
        let status = process.wait()?;
        let said = std::fs::read_to_string(log)?;
        let text = format!("the server did not start: {status}: {}", said.trim());
        return Err(io::Error::other(text));
    }
    Ok(process)
}

/// Ports of this machine that nobody listened on a moment ago.
///
/// # Errors
/// If there are none.
pub fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}
