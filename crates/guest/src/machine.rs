//! Boots the guest, follows its console, answers its marks.

use crate::clock;
use crate::console::Line;
use crate::prepare::Prepared;
use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The kernel's command line. An oops ends the guest, and with it the test.
const KERNEL_LINE: &str = "console=ttyS0 panic=-1 oops=panic quiet mitigations=off \
                           random.trust_cpu=1 tsc=unstable no_timer_check nokaslr";

/// What scripts build upon.
const PRELUDE: &str = include_str!("../guest/prelude.sh");

/// Memory of the guest in MiB.
const MEMORY_MIB: u32 = 2_048;

/// Lines of the console that a failure shows.
const TAIL_LINES: usize = 40;

/// One run of a guest.
pub struct Boot<'a> {
    /// What it does; a shell script behind the prelude.
    pub script: &'a str,
    /// A folder for its console, and `share`, which the guest sees as `/share`.
    pub folder: &'a Path,
    /// When it is given up on.
    pub limit: Duration,
}

/// What a guest that did all it was asked to has said.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Said {
    /// How many steps it did.
    pub steps: usize,
    /// Its notes, in order.
    pub notes: Vec<String>,
}

/// Why a guest did not do what it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// Something of the host's could not be done.
    Host(io::Error),
    /// The host could not do what belongs to a mark.
    Mark {
        /// The mark.
        name: String,
        /// Why.
        why: String,
    },
    /// The script ended with another status than 0, or the guest without one, or took too long.
    Guest {
        /// What happened.
        what: String,
        /// The step it was in.
        step: String,
        /// The end of its console.
        tail: Vec<String>,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(error) => write!(f, "host: {error}"),
            Self::Mark { name, why } => write!(f, "at the guest's mark {name}: {why}"),
            Self::Guest { what, step, tail } => {
                write!(f, "{what}, in step `{step}`")?;
                tail.iter().try_for_each(|line| write!(f, "\n    {line}"))
            }
        }
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Host(error)
    }
}

/// A guest that can be booted, any number of times.
#[derive(Clone, Debug)]
pub struct Machine {
    prepared: Prepared,
}

/// The running QEMU, which does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Machine {
    /// A machine of what was prepared.
    pub fn new(prepared: Prepared) -> Self {
        Self { prepared }
    }

    /// Boots and waits for the script's end. `on_mark` is called for each mark of the script,
    /// which goes on when it returns.
    ///
    /// # Errors
    /// If the script fails, the guest dies, the time is over, or the host cannot play its part.
    pub fn run(
        &self,
        boot: &Boot<'_>,
        on_mark: &mut dyn FnMut(&str) -> Result<(), String>,
    ) -> Result<Said, Failure> {
        let share = boot.folder.join("share");
        fs::create_dir_all(share.join("marks"))?;
        let script = boot.folder.join("script");
        fs::write(&script, format!("{PRELUDE}\n{}", boot.script))?;
        let mut child = self.command(&script, &share);
        child.stderr(File::create(boot.folder.join("qemu.err"))?);
        let mut running = Running(child.spawn()?);
        let output = running
            .0
            .stdout
            .take()
            .expect("stdout was asked to be piped");
        let mut watch = Watch {
            lines: reader(output),
            log: File::create(boot.folder.join("console.log"))?,
            start: clock::now(),
            limit: boot.limit,
            step: "boot".to_owned(),
            tail: VecDeque::new(),
            said: Said::default(),
        };
        let done = share.join("marks");
        watch.follow(&mut |mark| {
            on_mark(mark).map_err(|why| Failure::Mark {
                name: mark.to_owned(),
                why,
            })?;
            File::create(done.join(mark))
                .map(drop)
                .map_err(Failure::Host)
        })
    }

    fn command(&self, script: &Path, share: &Path) -> Command {
        let qemu = self.prepared.qemu();
        let option = |name: &str, path: PathBuf| format!("{name}={}", path.display());
        let mut command = Command::new(qemu.join("loader"));
        command.arg("--library-path").arg(qemu.join("lib"));
        command.arg(qemu.join("qemu-system-x86_64"));
        command.arg("-L").arg(qemu.join("data"));
        command.env("QEMU_MODULE_DIR", qemu.join("modules"));
        command.args(["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "Nehalem"]);
        command.args(["-smp", "2", "-m", &MEMORY_MIB.to_string()]);
        command.args([
            "-nodefaults",
            "-no-reboot",
            "-display",
            "none",
            "-serial",
            "stdio",
        ]);
        command.args(["-device", "isa-debug-exit,iobase=0x501,iosize=2"]);
        command.args([
            "-netdev",
            "user,id=net",
            "-device",
            "virtio-net-pci,romfile=,netdev=net",
        ]);
        let share = option(
            "local,mount_tag=share,security_model=none,path",
            share.to_owned(),
        );
        command.arg("-virtfs").arg(share);
        let script = option("name=opt/script,file", script.to_owned());
        command.arg("-fw_cfg").arg(script);
        command.arg("-kernel").arg(self.prepared.kernel());
        command.arg("-initrd").arg(self.prepared.memory_disk());
        command.arg("-append").arg(KERNEL_LINE);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }
}

/// Reads lines on a thread of its own: only so can waiting for one be bounded.
#[expect(
    clippy::disallowed_methods,
    reason = "a pipe of another process has no deadline of its own"
)]
fn reader(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
    lines
}

/// The console of a running guest.
struct Watch {
    lines: Receiver<String>,
    log: File,
    start: Instant,
    limit: Duration,
    step: String,
    tail: VecDeque<String>,
    said: Said,
}

impl Watch {
    fn follow(
        &mut self,
        on_mark: &mut dyn FnMut(&str) -> Result<(), Failure>,
    ) -> Result<Said, Failure> {
        loop {
            let left = self.limit.saturating_sub(self.start.elapsed());
            let text = match self.lines.recv_timeout(left) {
                Ok(text) => text,
                Err(RecvTimeoutError::Timeout) => {
                    let limit = self.limit.as_secs();
                    return Err(self.failure(format!("not done within {limit} s")));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.failure("the guest ended without a result".to_owned()));
                }
            };
            writeln!(
                self.log,
                "{:8.2} {text}",
                self.start.elapsed().as_secs_f64()
            )?;
            match Line::parse(&text) {
                Line::Step(name) => {
                    name.clone_into(&mut self.step);
                    self.said.steps += 1;
                    self.tail.clear();
                }
                Line::Mark(name) => on_mark(name)?,
                Line::Note(note) => self.said.notes.push(note.to_owned()),
                Line::Result(0) => return Ok(std::mem::take(&mut self.said)),
                Line::Result(status) => {
                    return Err(self.failure(format!("the script ended with {status}")));
                }
                Line::Fail(_) | Line::Other => {
                    if self.tail.len() == TAIL_LINES {
                        self.tail.pop_front();
                    }
                    self.tail.push_back(text);
                }
            }
        }
    }

    fn failure(&mut self, what: String) -> Failure {
        Failure::Guest {
            what,
            step: self.step.clone(),
            tail: self.tail.drain(..).collect(),
        }
    }
}
