//! Requests to end, from outside: signals as events of a reactor.

use crate::call::Call;
use crate::io::Io;
use crate::ring::{Next, Operation};
use io_uring::{opcode, squeue, types};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::rc::Rc;
use std::thread::Builder;
use varve_io::Sender;

/// A request to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// SIGTERM: a service manager's.
    Terminate,
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGHUP: the terminal is gone.
    HangUp,
}

impl Signal {
    const fn of(number: i32) -> Option<Self> {
        match number {
            libc::SIGTERM => Some(Self::Terminate),
            libc::SIGINT => Some(Self::Interrupt),
            libc::SIGHUP => Some(Self::HangUp),
            _ => None,
        }
    }
}

/// The signals of this process, as a reactor sees them.
pub struct Signals {
    io: Io,
    source: Rc<OwnedFd>,
}

/// Tells a process to end, as a service manager would.
///
/// # Errors
/// The system's: there is no such process, or it is somebody else's.
#[expect(unsafe_code, reason = "a system call")]
pub fn terminate(process: u32) -> io::Result<()> {
    let process = i32::try_from(process).map_err(|_| io::ErrorKind::InvalidInput)?;
    // Zero and negative numbers mean groups of processes.
    if process <= 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the call takes numbers only.
    match unsafe { libc::kill(process, libc::SIGTERM) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has `then` called on a thread of its own when the first request to end comes, in place of what the system would
/// do. As [`Signals::take`], to be called before other threads are started.
///
/// # Errors
/// The system's: requests end the process as before.
#[expect(unsafe_code, reason = "system calls")]
pub fn on_signal(then: impl FnOnce(Signal) + Send + 'static) -> io::Result<()> {
    let set = block()?;
    let waiting = Builder::new().name("varve-signals".to_owned());
    let waiting = waiting.spawn(move || {
        loop {
            // SAFETY: the set lives for the length of the call; nothing else is asked for.
            let number = unsafe { libc::sigwaitinfo(&raw const set, ptr::null_mut()) };
            if let Some(signal) = Signal::of(number) {
                return then(signal);
            }
        }
    });
    if waiting.is_err() {
        // SAFETY: the set lives for the length of the call; the former mask is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut()) };
    }
    waiting.map(drop)
}

/// Keeps requests to end waiting until [`Signals::take`] takes them over: what is made before that is not left behind.
/// As that, to be called before other threads are started.
///
/// # Errors
/// The system's.
pub fn hold_signals() -> io::Result<()> {
    block().map(drop)
}

/// Keeps requests to end waiting, for the calling thread and all that it starts afterwards.
#[expect(unsafe_code, reason = "system calls")]
fn block() -> io::Result<libc::sigset_t> {
    // SAFETY: integers only, for which zeroes are values; `sigemptyset` makes it a set.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: integers and addresses that are only compared, for which zeroes are values.
    let mut hang_up: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: the set and the structure live, and are the calls' alone, for their length; the signals exist, and
    // nothing is asked of how they are taken but what that is.
    unsafe {
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        libc::sigaction(libc::SIGHUP, ptr::null(), &raw mut hang_up);
        // One that is blocked comes also where it would be ignored.
        if hang_up.sa_sigaction != libc::SIG_IGN {
            libc::sigaddset(&raw mut set, libc::SIGHUP);
        }
    }
    // SAFETY: as above; the former mask is not asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) } {
        0 => Ok(set),
        failed => Err(io::Error::from_raw_os_error(failed)),
    }
}

impl Signals {
    /// Takes SIGTERM, SIGINT and SIGHUP over from the system, which would end the process, for the calling
    /// thread and all that it starts afterwards. To be called by the first thread before it starts
    /// others: a thread that has them from before ends the process. SIGHUP stays ignored where it was (`nohup`).
    ///
    /// # Errors
    /// The system's.
    #[expect(unsafe_code, reason = "system calls")]
    pub fn take(io: Io) -> io::Result<Self> {
        let set = block()?;
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the set lives, and is the call's alone, for its length.
        let source = unsafe { libc::signalfd(-1, &raw const set, flags) };
        if source < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and nobody else has it.
        let source = Rc::new(unsafe { OwnedFd::from_raw_fd(source) });
        Ok(Self { io, source })
    }

    /// The next signal.
    ///
    /// # Errors
    /// The system's.
    pub async fn next(&self) -> io::Result<Signal> {
        loop {
            if let Some(signal) = self.read()? {
                return Ok(signal);
            }
            let source = Rc::clone(&self.source);
            Call::start(&self.io, |sender| Poll { source, sender }).await?;
        }
    }

    /// A signal that is there.
    #[expect(unsafe_code, reason = "a system call")]
    fn read(&self) -> io::Result<Option<Signal>> {
        const LENGTH: usize = mem::size_of::<libc::signalfd_siginfo>();
        // SAFETY: integers only, for which zeroes are values.
        let mut info: libc::signalfd_siginfo = unsafe { mem::zeroed() };
        let into = (&raw mut info).cast();
        // SAFETY: the structure lives, and is the call's alone, for its length.
        let count = unsafe { libc::read(self.source.as_raw_fd(), into, LENGTH) };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        }
        Ok(Signal::of(info.ssi_signo as i32))
    }
}

/// Waits until there is a signal to be read.
struct Poll {
    source: Rc<OwnedFd>,
    sender: Sender<io::Result<()>>,
}

// SAFETY: names no memory; `source` keeps the descriptor open.
#[expect(unsafe_code, reason = "the kernel works on the descriptor")]
unsafe impl Operation for Poll {
    fn entry(&mut self) -> squeue::Entry {
        let source = types::Fd(self.source.as_raw_fd());
        opcode::PollAdd::new(source, libc::POLLIN as u32).build()
    }

    fn end(self: Box<Self>, result: i32) -> Next {
        self.sender.send(match result {
            result if result < 0 => Err(io::Error::from_raw_os_error(-result)),
            _ => Ok(()),
        });
        Next::Over
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "a system call")]
mod tests {
    use super::*;
    use crate::Executor;
    use varve_units::Nanos;

    #[test]
    fn signals_become_events() {
        // Whoever runs the tests may ignore it (`nohup`).
        // SAFETY: no memory is passed; nothing of this process has a handler of it.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
        let executor = Executor::new();
        let world = executor.world();
        let signals = Signals::take(Io::of(&*world).unwrap()).unwrap();
        let wait = async move {
            let before = world.run(async {
                // SAFETY: no memory is passed. To this thread alone, which has it blocked.
                unsafe { libc::raise(libc::SIGINT) };
            });
            let first = signals.next().await.unwrap();
            before.await;
            let late = world.sleep(Nanos::from_millis(20));
            let raise = world.run(async move {
                late.await;
                // SAFETY: as above.
                unsafe { libc::raise(libc::SIGTERM) };
            });
            let second = signals.next().await.unwrap();
            raise.await;
            // SAFETY: as above.
            unsafe { libc::raise(libc::SIGHUP) };
            let third = signals.next().await.unwrap();
            [first, second, third]
        };
        let seen = executor.run(wait);
        let all = [Signal::Interrupt, Signal::Terminate, Signal::HangUp];
        assert_eq!(seen, Ok(all));
    }
}
