//! How jobs travel between the reactors of one process.
//!
//! A reactor gathers jobs for each peer while it takes a turn and hands them over at the turn's end:
//! one lock of the peer's inbox for a batch. A peer that sleeps is woken; one that is awake looks
//! by itself.
//!
//! **Invariants**: jobs from one reactor to another are taken in the order they were handed over; a
//! reactor goes to sleep only if its inbox was empty after it had said so.

use crate::ring::Bell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
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
    /// There are jobs. Written under the lock of `jobs`, so it never contradicts them for longer than
    /// that; read without it. What the jobs carry is ordered by the lock, not by this word.
    has_jobs: AtomicBool,
    /// Its reactor sleeps or is about to: whoever sends must wake it. Only its reactor writes it.
    is_asleep: AtomicBool,
    jobs: Mutex<Vec<Job>>,
    sleeper: Mutex<Option<Sleeper>>,
}

/// How a reactor is woken.
struct Sleeper {
    thread: Thread,
    /// What ends its waits once it waits in a ring and no longer parks.
    bell: Option<Arc<Bell>>,
}

/// What a reactor that goes to sleep still waits for beside jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// Nothing: it would sleep for ever if no job came.
    Nothing,
    /// A timer, or i/o in flight.
    Something,
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
        *lock(&self.inbox(id).sleeper) = Some(Sleeper {
            thread: std::thread::current(),
            bell: None,
        });
    }

    /// Reactor `id` waits in a ring from now on: who wakes it rings the bell too. To be called by its
    /// own thread.
    pub(crate) fn hang(&self, id: ReactorId, bell: Arc<Bell>) {
        if let Some(sleeper) = &mut *lock(&self.inbox(id).sleeper) {
            sleeper.bell = Some(bell);
        }
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
            // This store and the load below, and in `sleep` the store of `is_asleep` and the load of
            // this, are in one order (all `SeqCst`). So of a sender that sees nobody asleep and a
            // sleeper that sees no job at least one would be wrong: no wake-up is lost. Acquire and
            // release would not do: each could read the word as it was before the other's store.
            inbox.has_jobs.store(true, Ordering::SeqCst);
        }
        if inbox.is_asleep.load(Ordering::SeqCst) {
            self.wake(to);
        }
    }

    /// Swaps the inbox of `of` with `into`, which is empty. False if there was nothing.
    pub(crate) fn take(&self, of: ReactorId, into: &mut Vec<Job>) -> bool {
        let inbox = self.inbox(of);
        // A job that is not seen yet is seen in the next turn, or by `sleep`. `Acquire` is more than
        // is needed: the lock orders what the jobs carry.
        if !inbox.has_jobs.load(Ordering::Acquire) {
            return false;
        }
        let mut waiting = lock(&inbox.jobs);
        // Under the lock: a sender that comes later stores `true` after this.
        inbox.has_jobs.store(false, Ordering::SeqCst);
        std::mem::swap(&mut *waiting, into);
        true
    }

    /// True if jobs wait for `of`.
    pub(crate) fn has_jobs(&self, of: ReactorId) -> bool {
        self.inbox(of).has_jobs.load(Ordering::Acquire)
    }

    fn wake(&self, id: ReactorId) {
        if let Some(sleeper) = &*lock(&self.inbox(id).sleeper) {
            sleeper.thread.unpark();
            if let Some(bell) = &sleeper.bell {
                bell.ring();
            }
        }
    }

    /// Sleeps in `wait` until a job arrives or what it `awaits` happens. False if every reactor
    /// awaits nothing: nothing will ever happen again.
    ///
    /// `wait` returns when the reactor's thread is unparked or its bell rung, also if that came before
    /// it was called.
    pub(crate) fn sleep(&self, id: ReactorId, awaits: Awaits, wait: impl FnOnce()) -> bool {
        let inbox = self.inbox(id);
        // Before the look at `has_jobs` below, in the one order of all `SeqCst`: see `send`.
        inbox.is_asleep.store(true, Ordering::SeqCst);
        if awaits == Awaits::Nothing {
            self.lie_down(id);
        }
        let is_wanted = || {
            inbox.has_jobs.load(Ordering::SeqCst)
                || self.is_over.load(Ordering::SeqCst)
                || self.is_stalled.load(Ordering::SeqCst)
        };
        // Whoever sends, ends or finds a stall after this look sees `is_asleep` and wakes: a token
        // that comes before `park`, or a bell rung before the wait, makes that return at once.
        if !is_wanted() {
            wait();
        }
        inbox.is_asleep.store(false, Ordering::SeqCst);
        if awaits == Awaits::Nothing {
            lock(&self.rest).0[usize::from(id.0)] = false;
        }
        !self.is_stalled.load(Ordering::SeqCst)
    }

    /// Notes that a reactor waits for nothing but jobs. If all do and there is no job, they are
    /// told.
    fn lie_down(&self, id: ReactorId) {
        let mut rest = lock(&self.rest);
        rest.0[usize::from(id.0)] = true;
        // Whoever sends is awake, so what is in no inbox now never will be. One that was woken and has
        // taken its jobs has risen under this lock before; one that has not taken them yet still has
        // them in its inbox. So a reactor at work is seen by its mark or by its jobs.
        let has_jobs = |inbox: &Inbox| inbox.has_jobs.load(Ordering::SeqCst);
        if rest.0.iter().all(|&is_down| is_down) && !self.inboxes.iter().any(has_jobs) {
            self.is_stalled.store(true, Ordering::SeqCst);
            (0..self.reactors()).for_each(|peer| self.wake(ReactorId(peer)));
        }
    }

    /// True once [`Hub::end`] was called.
    pub(crate) fn is_over(&self) -> bool {
        // Looked at once a turn; who sleeps looks again after `is_asleep`, as for jobs.
        self.is_over.load(Ordering::Acquire)
    }

    /// The reactors end.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        (0..self.reactors()).for_each(|peer| self.wake(ReactorId(peer)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;
    use varve_io::World;

    /// Pseudo-random numbers: `SplitMix64`.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Gives other threads a chance, differently each time.
    fn dawdle(state: &mut u64) {
        match next(state) % 8 {
            0 => std::thread::yield_now(),
            1 => (0..next(state) % 300).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }

    /// Sleeps as a reactor without a ring does.
    fn sleep(hub: &Hub, id: ReactorId, pause: Option<Duration>) -> bool {
        match pause {
            Some(pause) => hub.sleep(id, Awaits::Something, || std::thread::park_timeout(pause)),
            None => hub.sleep(id, Awaits::Nothing, std::thread::park),
        }
    }

    /// One reactor without an executor: takes `left` tokens in all, passes each on to a peer, and
    /// sleeps whenever it has none. Returns false if it was told of a stall.
    fn pass_on(hub: &Hub, id: ReactorId, state: &mut u64, taken: &AtomicU64, most: u64) -> bool {
        let mut jobs: Vec<Job> = Vec::new();
        while !hub.is_over() {
            let has_jobs = hub.take(id, &mut jobs);
            dawdle(state);
            for job in jobs.drain(..) {
                drop(job);
                if taken.fetch_add(1, Ordering::Relaxed) + 1 >= most {
                    hub.end();
                    return true;
                }
                let to = ReactorId((next(state) % u64::from(hub.reactors())) as u16);
                let token: Job = Box::new(|_: &Rc<dyn World>| {});
                hub.send(to, &mut vec![token]);
                dawdle(state);
            }
            let pause = next(state)
                .is_multiple_of(16)
                .then(|| Duration::from_micros(50));
            if !has_jobs && !sleep(hub, id, pause) {
                return false;
            }
        }
        true
    }

    /// Tokens that wander between reactors which sleep whenever they can: a wake-up that is lost
    /// stops a token for good, a stall that is not one ends the run. With one token nearly every send
    /// meets a reactor on its way to sleep.
    #[test]
    fn no_wake_up_is_lost_and_no_stall_is_made_up() {
        const MOST: u64 = 1500;
        for seed in 0..16_u64 {
            let count = 2 + (seed % 3) as u16;
            let hub = Hub::new(count);
            let taken = AtomicU64::new(0);
            for token in 0..1 + seed % 4 {
                let to = ReactorId((token % u64::from(count)) as u16);
                hub.send(to, &mut vec![Box::new(|_: &Rc<dyn World>| {}) as Job]);
            }
            std::thread::scope(|scope| {
                for id in (0..count).map(ReactorId) {
                    let (hub, taken) = (&hub, &taken);
                    scope.spawn(move || {
                        hub.seat(id);
                        let mut state = seed << 8 | u64::from(id.0);
                        assert!(pass_on(hub, id, &mut state, taken, MOST), "seed {seed}");
                    });
                }
            });
            assert!(taken.into_inner() >= MOST, "seed {seed}");
        }
    }

    /// Tokens that are not passed on: the last reactor to lie down tells all, whoever it is.
    #[test]
    fn every_stall_is_found() {
        for seed in 0..100_u64 {
            let count = 2 + (seed % 3) as u16;
            let hub = Arc::new(Hub::new(count));
            std::thread::scope(|scope| {
                for id in (0..count).map(ReactorId) {
                    let hub = Arc::clone(&hub);
                    scope.spawn(move || {
                        hub.seat(id);
                        let (mut state, mut jobs) = (seed << 8 | u64::from(id.0), Vec::new());
                        let peer = ReactorId((id.0 + 1) % count);
                        dawdle(&mut state);
                        hub.send(peer, &mut vec![Box::new(|_: &Rc<dyn World>| {}) as Job]);
                        loop {
                            dawdle(&mut state);
                            if hub.take(id, &mut jobs) {
                                jobs.clear();
                            } else if !sleep(&hub, id, None) {
                                return;
                            }
                        }
                    });
                }
            });
            assert!(!hub.has_jobs(ReactorId(0)), "seed {seed}");
        }
    }
}
