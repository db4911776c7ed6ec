//! Which tasks of this thread are ready, and the wakers that say so.
//!
//! A waker is a number (thread, generation, task), not a pointer: cloning and dropping it costs
//! nothing, waking pushes an index to a queue of the thread. A waker that outlives its task or its
//! executor names a generation that is gone and does nothing.
//!
//! **Invariant**: a task stands in the queue at most once.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::{RawWaker, RawWakerVTable, Waker};

/// Tasks of one executor at most: 24 bits of a waker.
pub(crate) const TASKS_MAX: usize = 1 << 24;

const GENERATION_MASK: u32 = (1 << 24) - 1;

const _: () = assert!(usize::BITS == 64, "a waker's number has 64 bits");

/// Threads that have had an executor; wraps, which only weakens the check in [`wake`].
static THREADS: AtomicU16 = AtomicU16::new(0);

thread_local! {
    // Not dropped with the thread: looking whether that has happened would cost every waker. A claim
    // that ends leaves no memory behind.
    static READY: ManuallyDrop<RefCell<Ready>> =
        const { ManuallyDrop::new(RefCell::new(Ready::new())) };
}

#[derive(Clone, Copy, Default)]
struct State {
    /// What its wakers are: thread, generation, index.
    number: u64,
    is_queued: bool,
}

struct Ready {
    thread: Option<u16>,
    is_claimed: bool,
    /// Those that became ready since the last [`Claim::take`].
    queue: Vec<u32>,
    tasks: Vec<State>,
    next_generation: u32,
}

impl Ready {
    const fn new() -> Self {
        Self {
            thread: None,
            is_claimed: false,
            queue: Vec::new(),
            tasks: Vec::new(),
            next_generation: 0,
        }
    }

    /// A number that no task of this index has had, as long as generations do not wrap.
    fn number(&mut self, index: u32) -> u64 {
        let generation = self.next_generation;
        self.next_generation = (generation + 1) & GENERATION_MASK;
        let thread = self.thread.expect("a thread that has had an executor");
        u64::from(thread) << 48 | u64::from(generation) << 24 | u64::from(index)
    }

    /// # Panics
    /// On another thread than the task's: what is woken here is single-threaded by construction, so
    /// that would be a lost wake-up.
    #[inline]
    fn wake(&mut self, number: u64) {
        let index = number as u32 & (TASKS_MAX as u32 - 1);
        match self.tasks.get_mut(index as usize) {
            Some(state) if state.number == number => {
                if !state.is_queued {
                    state.is_queued = true;
                    self.queue.push(index);
                }
            }
            _ => {
                let thread = (number >> 48) as u16;
                assert!(self.thread == Some(thread), "woken on another thread");
            }
        }
    }
}

/// The thread's queue, in the hands of one executor.
pub(crate) struct Claim(());

impl Claim {
    /// # Panics
    /// If another executor of this thread is alive: a thread has one reactor.
    pub(crate) fn new() -> Self {
        READY.with(|ready| {
            let mut ready = ready.borrow_mut();
            assert!(!ready.is_claimed, "a thread has one executor at a time");
            ready.is_claimed = true;
            ready
                .thread
                .get_or_insert_with(|| THREADS.fetch_add(1, Ordering::Relaxed));
            Self(())
        })
    }

    /// Makes a new task ready for its first poll.
    pub(crate) fn add(&self, index: u32) {
        READY.with(|ready| {
            let mut ready = ready.borrow_mut();
            let number = ready.number(index);
            if ready.tasks.len() <= index as usize {
                ready.tasks.resize(index as usize + 1, State::default());
            }
            ready.tasks[index as usize] = State {
                number,
                is_queued: true,
            };
            ready.queue.push(index);
        });
    }

    /// Tasks that are ready and not taken yet.
    pub(crate) fn count(&self) -> usize {
        READY.with(|ready| ready.borrow().queue.len())
    }

    /// Takes all tasks that are ready, the one that has been so longest first. They count as ready until
    /// their [`Claim::begin`]. `tasks` is empty, and room for those that become ready next.
    pub(crate) fn take(&self, tasks: &mut Vec<u32>) {
        READY.with(|ready| std::mem::swap(&mut ready.borrow_mut().queue, tasks));
    }

    /// A task that was ready is polled from here on; returns a waker of it.
    #[expect(
        unsafe_code,
        reason = "a waker without a reference count: 3 ns a poll, not 10"
    )]
    pub(crate) fn begin(&self, index: u32) -> Waker {
        let number = READY.with(|ready| {
            let state = &mut ready.borrow_mut().tasks[index as usize];
            state.is_queued = false;
            state.number
        });
        let data = std::ptr::without_provenance(number as usize);
        // SAFETY: the contract of `RawWakerVTable` holds: the data is a number and nothing it
        // could dangle from, so clone and drop need do nothing; wake may be called on any thread,
        // because it only touches that thread's own queue.
        unsafe { Waker::from_raw(RawWaker::new(data, &VTABLE)) }
    }

    /// Wakers of the task that had this index do nothing from now on.
    pub(crate) fn remove(&self, index: u32) {
        READY.with(|ready| {
            let mut ready = ready.borrow_mut();
            let number = ready.number(index);
            ready.tasks[index as usize].number = number;
        });
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        READY.with(|ready| {
            let mut ready = ready.borrow_mut();
            ready.is_claimed = false;
            ready.queue = Vec::new();
            ready.tasks = Vec::new();
        });
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(
    |data| RawWaker::new(data, &VTABLE),
    |data| wake(data as usize),
    |data| wake(data as usize),
    |_| {},
);

fn wake(number: usize) {
    READY.with(|ready| ready.borrow_mut().wake(number as u64));
}
