//! The `io_uring` of one reactor: operations in flight, and the one wait for all of them.
//!
//! An operation owns the memory the kernel works on, from its start until its completion has been
//! taken from the ring; nobody else can free it meanwhile, not even the executor's drop, which
//! cancels what can be cancelled and waits for the rest.
//!
//! **Invariants**: an operation is in the table exactly while the kernel has it or its completion is
//! in the backlog; completions run outside of any borrow of the ring.
//!
//! **Not here**: what operations do (`transfer`, `socket`), when a reactor waits (`executor`).

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use std::cell::{Cell, RefCell};
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

mod bell;
mod table;

pub(crate) use bell::{Bell, Count};
use table::Table;
pub(crate) use table::Ticket;

/// Entries of the submission queue: 64 B each; more are submitted in several calls.
const SUBMISSIONS: u32 = 256;
/// Entries of the completion queue: 16 B each. The kernel keeps what does not fit.
const COMPLETIONS: u32 = 4096;
/// What marks the completion of a cancellation, which nobody waits for.
const CANCELLATION: u64 = u64::MAX;
/// How often, and how far apart, memory for a ring is asked for: a second in all. Arbitrary: the kernel
/// takes milliseconds.
const MEMORY_TRIES_MAX: u32 = 100;
const MEMORY_PAUSE: Duration = Duration::from_millis(10);

/// What the kernel does for a reactor.
///
/// # Safety
/// What [`Operation::entry`] names (memory, descriptors) is owned by the operation or by what it
/// keeps alive, is not touched otherwise, and stays where it is while the operation is boxed, until
/// it is dropped or [`Operation::end`] is called.
#[expect(unsafe_code, reason = "the kernel works on the operation's memory")]
pub(crate) unsafe trait Operation {
    /// What the kernel is asked; called at the start and whenever `end` says so.
    fn entry(&mut self) -> squeue::Entry;

    /// The kernel has answered, with a count or a negative error number, and forgotten the memory.
    fn end(self: Box<Self>, result: i32) -> Next;
}

/// What comes after an answer.
pub(crate) enum Next {
    /// Nothing: whoever waited was told.
    Over,
    /// The kernel is asked again.
    Again(Box<dyn Operation>),
}

/// A reactor's ring.
pub(crate) struct Ring {
    uring: RefCell<IoUring>,
    table: RefCell<Table>,
    /// Completions taken from the ring that have not run yet: ticket and result.
    backlog: RefCell<Vec<(u64, i32)>>,
    is_closed: Cell<bool>,
}

impl Ring {
    /// A ring of the calling thread.
    ///
    /// # Errors
    /// The kernel has no `io_uring`, forbids it, or is older than 5.11.
    pub(crate) fn new() -> io::Result<Self> {
        Self::with(set_up(&Flavour::ALL)?)
    }

    fn with(uring: IoUring) -> io::Result<Self> {
        let params = uring.params();
        if !params.is_feature_ext_arg() || !params.is_feature_nodrop() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self {
            uring: RefCell::new(uring),
            table: RefCell::default(),
            backlog: RefCell::default(),
            is_closed: Cell::new(false),
        })
    }

    /// Starts an operation: the kernel sees it at the next [`Ring::submit`] or wait. After
    /// [`Ring::close`] it ends at once, as cancelled.
    pub(crate) fn start(&self, operation: Box<dyn Operation>) -> Ticket {
        self.begin(operation, false)
    }

    /// As [`Ring::start`], for what alone does not keep a reactor from having stalled.
    pub(crate) fn start_behind(&self, operation: Box<dyn Operation>) {
        self.begin(operation, true);
    }

    fn begin(&self, mut operation: Box<dyn Operation>, is_behind: bool) -> Ticket {
        if self.is_closed.get() {
            drop(operation.end(-libc::ECANCELED));
            return Ticket::NONE;
        }
        let entry = operation.entry();
        let ticket = self.table.borrow_mut().insert(operation, is_behind);
        self.push(&entry.user_data(ticket.0));
        ticket
    }

    /// Asks the kernel to give an operation up; it ends either way, perhaps well.
    pub(crate) fn cancel(&self, ticket: Ticket) {
        if self.table.borrow().has(ticket) && !self.is_closed.get() {
            self.push_cancel(ticket);
        }
    }

    fn push_cancel(&self, ticket: Ticket) {
        let entry = opcode::AsyncCancel::new(ticket.0).build();
        self.push(&entry.user_data(CANCELLATION));
    }

    #[expect(unsafe_code, reason = "the kernel works on the operation's memory")]
    fn push(&self, entry: &squeue::Entry) {
        let mut uring = self.uring.borrow_mut();
        loop {
            // SAFETY: the entry is that of an operation in the table, which keeps what it names until
            // the completion (the trait's contract), or names nothing. Tests: drops with operations
            // in flight.
            if unsafe { uring.submission().push(entry) }.is_ok() {
                return;
            }
            self.enter(&mut uring, None);
        }
    }

    /// Gives the kernel what was started, and lets it complete what it has deferred.
    pub(crate) fn submit(&self) {
        let mut uring = self.uring.borrow_mut();
        let submissions = uring.submission();
        let is_needed =
            !submissions.is_empty() || submissions.taskrun() || submissions.cq_overflow();
        drop(submissions);
        if is_needed {
            self.enter(&mut uring, None);
        }
    }

    /// Submits, and waits until something ends or `pause` is over (`None`: for ever).
    pub(crate) fn wait(&self, pause: Option<Duration>) {
        let mut uring = self.uring.borrow_mut();
        let is_quiet = self.backlog.borrow().is_empty() && uring.completion().is_empty();
        let pause = if is_quiet {
            pause
        } else {
            Some(Duration::ZERO)
        };
        self.enter(&mut uring, Some(pause));
    }

    /// One call of the kernel; completions are moved to the backlog.
    ///
    /// # Panics
    /// If the kernel refuses the call itself: then the ring is broken.
    fn enter(&self, uring: &mut IoUring, wait: Option<Option<Duration>>) {
        let result = match wait {
            None | Some(Some(Duration::ZERO)) => uring.submit(),
            Some(None) => uring.submit_and_wait(1),
            Some(Some(pause)) => {
                let pause = Timespec::from(pause);
                let args = SubmitArgs::new().timespec(&pause);
                uring.submitter().submit_with_args(1, &args)
            }
        };
        self.reap(uring);
        if let Err(error) = result {
            // EAGAIN, EBUSY, ENOMEM: the kernel wants completions taken first, or has no memory just
            // now. What was not submitted is still in the queue.
            let passes = [
                libc::ETIME,
                libc::EINTR,
                libc::EAGAIN,
                libc::EBUSY,
                libc::ENOMEM,
            ];
            let is_passing = error
                .raw_os_error()
                .is_some_and(|number| passes.contains(&number));
            assert!(is_passing, "the kernel refuses the ring: {error}");
        }
    }

    fn reap(&self, uring: &mut IoUring) {
        let mut backlog = self.backlog.borrow_mut();
        let ended = uring.completion();
        backlog.extend(ended.map(|entry| (entry.user_data(), entry.result())));
    }

    /// True if something has ended and not been run, or the kernel has deferred the end of something
    /// to the next [`Ring::submit`].
    pub(crate) fn has_ended(&self) -> bool {
        !self.backlog.borrow().is_empty() || {
            let mut uring = self.uring.borrow_mut();
            !uring.completion().is_empty() || uring.submission().taskrun()
        }
    }

    /// True if an operation that was not started "behind" is in flight.
    pub(crate) fn is_awaited(&self) -> bool {
        self.table.borrow().awaited() > 0
    }

    /// Ends what the kernel has completed. True if there was anything.
    pub(crate) fn run_ended(&self) -> bool {
        self.reap(&mut self.uring.borrow_mut());
        let mut ended = mem::take(&mut *self.backlog.borrow_mut());
        let has_ended = !ended.is_empty();
        for (ticket, result) in ended.drain(..) {
            self.end(ticket, result);
        }
        // Its memory is for the next ones, unless some came while these ran.
        let mut backlog = self.backlog.borrow_mut();
        if backlog.is_empty() {
            *backlog = ended;
        }
        has_ended
    }

    fn end(&self, ticket: u64, result: i32) {
        if ticket == CANCELLATION {
            return;
        }
        let operation = self.table.borrow_mut().take(Ticket(ticket));
        match operation.end(result) {
            Next::Over => self.table.borrow_mut().vacate(Ticket(ticket)),
            Next::Again(mut operation) => {
                let entry = operation.entry();
                self.table.borrow_mut().put_back(Ticket(ticket), operation);
                self.push(&entry.user_data(ticket));
            }
        }
    }

    /// Ends everything: cancels what is in flight and waits until the kernel has let go of its
    /// memory. Whoever waited for an operation is not told.
    pub(crate) fn close(&self) {
        if self.is_closed.replace(true) {
            return;
        }
        let tickets = self.table.borrow().tickets();
        tickets
            .into_iter()
            .for_each(|ticket| self.push_cancel(ticket));
        while self.table.borrow().count() > 0 {
            self.wait(None);
            let ended = mem::take(&mut *self.backlog.borrow_mut());
            for (ticket, _) in ended {
                if ticket != CANCELLATION {
                    let operation = self.table.borrow_mut().take(Ticket(ticket));
                    self.table.borrow_mut().vacate(Ticket(ticket));
                    drop(operation);
                }
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.close();
    }
}

/// The best ring this kernel has. Completions are deferred to the reactor's own calls (6.1), or at
/// least do not interrupt it (5.19).
fn set_up(flavours: &[Flavour]) -> io::Result<IoUring> {
    let mut last = None;
    for flavour in flavours {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(COMPLETIONS).setup_clamp();
        match flavour {
            Flavour::Deferred => {
                builder.setup_single_issuer();
                builder.setup_defer_taskrun().setup_taskrun_flag();
            }
            Flavour::Cooperative => {
                builder.setup_coop_taskrun().setup_taskrun_flag();
            }
            Flavour::Plain => {}
        }
        match build(&builder) {
            Ok(uring) => return Ok(uring),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::Unsupported.into()))
}

/// Builds a ring. Memory of rings counts against what a user may lock (`RLIMIT_MEMLOCK`), and the kernel
/// gives back that of a closed one a moment later: a refusal is asked again for a while.
#[expect(
    clippy::disallowed_methods,
    reason = "before its ring there is no reactor to wait on"
)]
fn build(builder: &io_uring::Builder) -> io::Result<IoUring> {
    let mut tries = 0;
    loop {
        match builder.build(SUBMISSIONS) {
            Err(error)
                if error.raw_os_error() == Some(libc::ENOMEM) && tries < MEMORY_TRIES_MAX =>
            {
                tries += 1;
                std::thread::sleep(MEMORY_PAUSE);
            }
            built => return built,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Flavour {
    Deferred,
    Cooperative,
    Plain,
}

impl Flavour {
    /// The best first.
    const ALL: [Self; 3] = [Self::Deferred, Self::Cooperative, Self::Plain];
}

/// What wakes a reactor that waits in its ring.
pub(crate) fn hang_bell(ring: &Ring) -> io::Result<Arc<Bell>> {
    let bell = Arc::new(Bell::new()?);
    ring.start_behind(bell::listen(Arc::clone(&bell)));
    Ok(bell)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every set-up that this kernel takes wakes by its bell and by its time limit, and lets go of what
    /// is in flight.
    #[test]
    fn every_flavour_works() {
        let mut count = 0;
        for flavour in Flavour::ALL {
            let uring = match set_up(&[flavour]) {
                Ok(uring) => uring,
                Err(error) => {
                    println!("skipped: {flavour:?}: {error}");
                    continue;
                }
            };
            let ring = Ring::with(uring).unwrap();
            let bell = hang_bell(&ring).unwrap();
            assert!(!ring.is_awaited(), "a bell is no i/o");
            ring.wait(Some(Duration::from_millis(1)));
            assert!(!ring.run_ended(), "{flavour:?}");
            for _ in 0..3 {
                bell.ring();
                ring.wait(None);
                assert!(ring.run_ended(), "{flavour:?}");
            }
            // Heard when it rings while nobody waits, too.
            ring.submit();
            bell.ring();
            while !ring.has_ended() {}
            while !ring.run_ended() {
                ring.submit();
            }
            ring.close();
            assert_eq!(ring.table.borrow().count(), 0);
            count += 1;
        }
        assert!(count > 0, "the kernel takes one of them");
    }
}
