//! Which tasks of this thread are ready, and the wakers that say so.
//!
//! A waker is a number (thread, generation, task), not a pointer: cloning and dropping it costs
//! nothing, waking pushes an index to a queue of the thread. A waker that outlives its task or its
//! executor names a generation that is gone and does nothing.
//!
//! **Invariant**: a task stands in the queue at most once.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::{RawWaker, RawWakerVTable, Waker};

/// Tasks of one executor at most: 24 bits of a waker.
pub(crate) const TASKS_MAX: usize = 1 << 24;

const GENERATION_MASK: u32 = (1 << 24) - 1;

const _: () = assert!(usize::BITS == 64, "a waker's number has 64 bits");

/// Threads that have had an executor; wraps, which only weakens the check in [`wake`].
static THREADS: AtomicU16 = AtomicU16::new(0);

thread_local! {
    static READY: RefCell<Ready> = const { RefCell::new(Ready::new()) };
}

#[derive(Clone, Copy, Default)]
struct State {
    generation: u32,
    is_queued: bool,
}

struct Ready {
    thread: Option<u16>,
    is_claimed: bool,
    queue: VecDeque<u32>,
    tasks: Vec<State>,
    next_generation: u32,
}

impl Ready {
    const fn new() -> Self {
        Self {
            thread: None,
            is_claimed: false,
            queue: VecDeque::new(),
            tasks: Vec::new(),
            next_generation: 0,
        }
    }

    fn push(&mut self, index: u32) {
        let state = &mut self.tasks[index as usize];
        if !state.is_queued {
            state.is_queued = true;
            self.queue.push_back(index);
        }
    }
}

/// The thread's queue, in the hands of one executor.
pub(crate) struct Claim {
    thread: u16,
}

impl Claim {
    /// # Panics
    /// If another executor of this thread is alive: a thread has one reactor.
    pub(crate) fn new() -> Self {
        READY.with_borrow_mut(|ready| {
            assert!(!ready.is_claimed, "a thread has one executor at a time");
            ready.is_claimed = true;
            let thread = *ready
                .thread
                .get_or_insert_with(|| THREADS.fetch_add(1, Ordering::Relaxed));
            Self { thread }
        })
    }

    /// Makes a new task ready for its first poll; returns its generation.
    pub(crate) fn add(&self, index: u32) -> u32 {
        READY.with_borrow_mut(|ready| {
            let generation = ready.next_generation;
            ready.next_generation = (generation + 1) & GENERATION_MASK;
            if ready.tasks.len() <= index as usize {
                ready.tasks.resize(index as usize + 1, State::default());
            }
            ready.tasks[index as usize] = State {
                generation,
                is_queued: false,
            };
            ready.push(index);
            generation
        })
    }

    /// Tasks that are ready.
    pub(crate) fn count(&self) -> usize {
        READY.with_borrow(|ready| ready.queue.len())
    }

    /// The task that has been ready longest.
    pub(crate) fn pop(&self) -> Option<u32> {
        READY.with_borrow_mut(|ready| {
            let index = ready.queue.pop_front()?;
            ready.tasks[index as usize].is_queued = false;
            Some(index)
        })
    }

    /// Wakers of the task that had this index do nothing from now on.
    pub(crate) fn remove(&self, index: u32) {
        READY.with_borrow_mut(|ready| {
            let generation = ready.next_generation;
            ready.next_generation = (generation + 1) & GENERATION_MASK;
            ready.tasks[index as usize].generation = generation;
        });
    }

    /// A waker of a task.
    #[expect(
        unsafe_code,
        reason = "a waker without a reference count: 3 ns a poll, not 10"
    )]
    pub(crate) fn waker(&self, index: u32, generation: u32) -> Waker {
        let number = usize::from(self.thread) << 48 | (generation as usize) << 24 | index as usize;
        let data = std::ptr::without_provenance(number);
        // SAFETY: the contract of `RawWakerVTable` holds: the data is a number and nothing it
        // could dangle from, so clone and drop need do nothing; wake may be called on any thread,
        // because it only touches that thread's own queue.
        unsafe { Waker::from_raw(RawWaker::new(data, &VTABLE)) }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        READY.with_borrow_mut(|ready| {
            ready.is_claimed = false;
            ready.queue.clear();
            ready.tasks.clear();
        });
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(
    |data| RawWaker::new(data, &VTABLE),
    |data| wake(data as usize),
    |data| wake(data as usize),
    |_| {},
);

/// # Panics
/// On another thread than the task's: what is woken here is single-threaded by construction, so
/// that would be a lost wake-up.
fn wake(number: usize) {
    let thread = (number >> 48) as u16;
    let generation = (number >> 24) as u32 & GENERATION_MASK;
    let index = number as u32 & (TASKS_MAX as u32 - 1);
    // The thread's storage may be gone when the thread ends; nothing runs there any more.
    let _ = READY.try_with(|ready| {
        let mut ready = ready.borrow_mut();
        assert!(ready.thread == Some(thread), "woken on another thread");
        let state = ready.tasks.get(index as usize).copied();
        if state.is_some_and(|state| state.generation == generation) {
            ready.push(index);
        }
    });
}
