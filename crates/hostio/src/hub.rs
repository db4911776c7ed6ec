//! How jobs travel between the reactors of one process.
//!
//! A reactor gathers jobs for each peer while it takes a turn and hands them over at the turn's end:
//! one lock of the peer's inbox for a batch. A peer that sleeps is woken; one that is awake looks
//! by itself.
//!
//! **Invariants**: jobs from one reactor to another are taken in the order they were handed over; a
//! reactor goes to sleep only if its inbox was empty after it had said so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;
use varve_io::{Job, ReactorId};

/// What the reactors of one process share.
pub(crate) struct Hub {
    inboxes: Vec<Inbox>,
    rest: Mutex<Rest>,
    /// Every reactor slept and none had a timer.
    is_stalled: AtomicBool,
    is_over: AtomicBool,
}

/// Apart from one another, so that a look into one does not slow the others down.
#[repr(align(128))]
#[derive(Default)]
struct Inbox {
    /// Said under the lock's release; read without it.
    has_jobs: AtomicBool,
    is_asleep: AtomicBool,
    jobs: Mutex<Vec<Job>>,
    thread: Mutex<Option<Thread>>,
}

/// Which reactors sleep without a timer.
struct Rest(Vec<bool>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    pub(crate) fn new(count: u16) -> Self {
        Self {
            inboxes: (0..count).map(|_| Inbox::default()).collect(),
            rest: Mutex::new(Rest(vec![false; usize::from(count)])),
            is_stalled: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    pub(crate) fn reactors(&self) -> u16 {
        self.inboxes.len() as u16
    }

    fn inbox(&self, of: ReactorId) -> &Inbox {
        &self.inboxes[usize::from(of.0)]
    }

    /// The calling thread runs reactor `id` from now on.
    pub(crate) fn seat(&self, id: ReactorId) {
        *lock(&self.inbox(id).thread) = Some(std::thread::current());
    }

    /// Hands jobs over; `jobs` is empty afterwards.
    pub(crate) fn send(&self, to: ReactorId, jobs: &mut Vec<Job>) {
        let inbox = self.inbox(to);
        {
            let mut waiting = lock(&inbox.jobs);
            if waiting.is_empty() {
                std::mem::swap(&mut *waiting, jobs);
            } else {
                waiting.append(jobs);
            }
            // Sequentially consistent with `is_asleep`: of a sender that sees nobody asleep and
            // a sleeper that sees no job at least one would be wrong.
            inbox.has_jobs.store(true, Ordering::SeqCst);
        }
        if inbox.is_asleep.load(Ordering::SeqCst) {
            self.wake(to);
        }
    }

    /// Swaps the inbox of `of` with `into`, which is empty. False if there was nothing.
    pub(crate) fn take(&self, of: ReactorId, into: &mut Vec<Job>) -> bool {
        let inbox = self.inbox(of);
        if !inbox.has_jobs.load(Ordering::Acquire) {
            return false;
        }
        let mut waiting = lock(&inbox.jobs);
        inbox.has_jobs.store(false, Ordering::SeqCst);
        std::mem::swap(&mut *waiting, into);
        true
    }

    /// True if jobs wait for `of`.
    pub(crate) fn has_jobs(&self, of: ReactorId) -> bool {
        self.inbox(of).has_jobs.load(Ordering::Acquire)
    }

    fn wake(&self, id: ReactorId) {
        if let Some(thread) = &*lock(&self.inbox(id).thread) {
            thread.unpark();
        }
    }

    /// Sleeps until a job arrives or `pause` is over; `None` for no timer. False if every
    /// reactor sleeps so: nothing will ever happen again.
    pub(crate) fn sleep(&self, id: ReactorId, pause: Option<Duration>) -> bool {
        let inbox = self.inbox(id);
        inbox.is_asleep.store(true, Ordering::SeqCst);
        if pause.is_none() {
            self.lie_down(id);
        }
        let is_wanted = || {
            inbox.has_jobs.load(Ordering::SeqCst)
                || self.is_over.load(Ordering::SeqCst)
                || self.is_stalled.load(Ordering::SeqCst)
        };
        if !is_wanted() {
            match pause {
                Some(pause) => std::thread::park_timeout(pause),
                None => std::thread::park(),
            }
        }
        inbox.is_asleep.store(false, Ordering::SeqCst);
        if pause.is_none() {
            lock(&self.rest).0[usize::from(id.0)] = false;
        }
        !self.is_stalled.load(Ordering::SeqCst)
    }

    /// Notes that a reactor waits for nothing but jobs. If all do and there is no job, they are
    /// told.
    fn lie_down(&self, id: ReactorId) {
        let mut rest = lock(&self.rest);
        rest.0[usize::from(id.0)] = true;
        // Whoever sends is awake, so what is in no inbox now never will be.
        let has_jobs = |inbox: &Inbox| inbox.has_jobs.load(Ordering::SeqCst);
        if rest.0.iter().all(|&is_down| is_down) && !self.inboxes.iter().any(has_jobs) {
            self.is_stalled.store(true, Ordering::SeqCst);
            (0..self.reactors()).for_each(|peer| self.wake(ReactorId(peer)));
        }
    }

    /// True once [`Hub::end`] was called.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The reactors end.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        (0..self.reactors()).for_each(|peer| self.wake(ReactorId(peer)));
    }
}
