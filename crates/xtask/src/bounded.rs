//! Running what may not end by itself.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long tests that are run together may take: three times what the longest were seen to take. What waits for ever fails
/// by then and says where, in place of all that is run.
pub(crate) const LONGEST: Duration = Duration::from_mins(20);
/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long what it wrote is waited for afterwards: what it started may live, and keep its output open.
const REST: Duration = Duration::from_secs(10);

/// What came of it.
pub(crate) struct Ended {
    /// None if it was killed.
    pub status: Option<ExitStatus>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command without input for at most `longest`.
///
/// # Errors
/// If it cannot be started or waited for.
pub(crate) fn run(command: &mut Command, longest: Duration) -> std::io::Result<Ended> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = collect(child.stdout.take().expect("stdout was asked to be piped"));
    let stderr = collect(child.stderr.take().expect("stderr was asked to be piped"));
    let status = wait(&mut child, longest)?;
    Ok(Ended {
        status,
        stdout: rest(&stdout),
        stderr: rest(&stderr),
    })
}

/// Runs a part of this program for at most `longest`; what does not end goes on beside the rest.
///
/// # Errors
/// If it does not end, or panics.
#[expect(clippy::disallowed_methods, reason = "only a thread can be left alone")]
pub(crate) fn within<T: Send + 'static>(
    longest: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (sender, done) = channel();
    std::thread::spawn(move || sender.send(work()));
    done.recv_timeout(longest).map_err(|error| match error {
        RecvTimeoutError::Timeout => not_ended(longest),
        RecvTimeoutError::Disconnected => "it panicked".to_owned(),
    })
}

/// What is told of one that did not.
pub(crate) fn not_ended(longest: Duration) -> String {
    format!("not ended after {} s", longest.as_secs())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a child is waited for without a world"
)]
fn wait(child: &mut Child, longest: Duration) -> std::io::Result<Option<ExitStatus>> {
    let start = now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= longest {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// Sends what is read, as it is read.
#[expect(
    clippy::disallowed_methods,
    reason = "pipes are read beside one another"
)]
fn collect(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, read) = channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    read
}

/// All that was read, or is until it ends or there is nothing for [`REST`].
fn rest(read: &Receiver<Vec<u8>>) -> String {
    let mut all = Vec::new();
    while let Ok(more) = read.recv_timeout(REST) {
        all.extend(more);
    }
    String::from_utf8_lossy(&all).into_owned()
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a command takes is what bounds it"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::{run, within};
    use std::process::Command;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_ends_is_told_whole() {
        let ended = run(
            &mut shell("echo out; echo err >&2; exit 3"),
            Duration::from_mins(1),
        )
        .unwrap();
        assert_eq!(ended.status.and_then(|status| status.code()), Some(3));
        assert_eq!((&*ended.stdout, &*ended.stderr), ("out\n", "err\n"));
    }

    /// What it wrote is there, though what it started lives on and could write more.
    #[test]
    fn what_does_not_end_is_ended() {
        let ended = run(
            &mut shell("echo begun; sleep 6 & wait"),
            Duration::from_secs(3),
        )
        .unwrap();
        assert_eq!(ended.status, None);
        assert_eq!(ended.stdout, "begun\n");
    }

    #[test]
    fn work_that_does_not_end_is_left() {
        assert_eq!(within(Duration::from_mins(1), || 5), Ok(5));
        let (open, gate) = channel::<()>();
        let waits = within(Duration::from_millis(10), move || gate.recv());
        assert_eq!(waits, Err("not ended after 0 s".to_owned()));
        drop(open);
        let panics = within(Duration::from_mins(1), || {
            assert!(std::env::args().count() == 0);
        });
        assert_eq!(panics, Err("it panicked".to_owned()));
    }

    #[test]
    fn what_cannot_be_started_is_an_error() {
        assert!(run(&mut Command::new("/none"), Duration::from_secs(1)).is_err());
    }
}
