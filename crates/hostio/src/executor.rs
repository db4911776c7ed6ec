//! The executor of one reactor in real time: one thread, first ready first run.
//!
//! A turn runs the jobs of its peers and what the kernel has completed, polls every task that is
//! ready then, lets those go on that yielded, fires timers, hands over what it has for its peers and
//! submits its i/o. When nothing is ready it looks for jobs a moment longer, or for as long as it was
//! told to, and sleeps until the next job, timer or completion: in its ring if it has one, which
//! submits in the same call.
//!
//! **Invariant**: no borrow of the executor's state is held while a task is polled or dropped, or a
//! job runs.

use crate::boot::BootClock;
use crate::hub::{Awaits, Hub};
use crate::io::Port;
use crate::ready::{Claim, TASKS_MAX};
use crate::ring::Ring;
use crate::spare::SPARE;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::rc::Rc;
use std::rc::Weak;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use varve_io::{Blocks, Desk, Job, ReactorId, Receiver, Sender, Supply, Task, World, slot};
use varve_units::Nanos;

/// Looks for jobs before an idle reactor with peers sleeps, about as long as a wake-up takes (2 to
/// 5 us), and between two looks at the clock.
const SPINS_MAX: u32 = 64;

/// Tasks polled before a reactor gives its peers what it has for them, and looks what they have for
/// it: a peer that waits for the whole of a long turn sleeps meanwhile, and then it has a long turn.
/// Arbitrary: an exchange costs about as much as one task.
const POLLS_ALONE: usize = 32;

/// Nothing is ready and no timer runs, but the root flow has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stalled;

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("every flow waits for another one")
    }
}

impl std::error::Error for Stalled {}

/// Turns in which nothing was submitted before one submits that need not: the rest that was to do so may never come,
/// where timers fire at the end of every turn. Arbitrary.
const TURNS_ALONE: u32 = 16;

struct Timer {
    at: Nanos,
    number: u64,
    sender: Sender<()>,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

struct Reactor {
    origin: Instant,
    boot: BootClock,
    claim: Claim,
    /// Tasks by index; none while one is polled.
    tasks: RefCell<Vec<Option<Task>>>,
    /// Room for the indices of those of a turn.
    ready: RefCell<Vec<u32>>,
    free: RefCell<Vec<u32>>,
    yields: RefCell<Vec<Sender<()>>>,
    /// Who waits for the kernel to be asked, and yields then.
    looks: RefCell<Vec<Sender<()>>>,
    timers: RefCell<BinaryHeap<Reverse<Timer>>>,
    timer_count: Cell<u64>,
    itself: Weak<Reactor>,
    id: ReactorId,
    hub: Arc<Hub>,
    desk: Desk,
    port: Rc<Port>,
    /// Turns since it submitted or rested.
    turns_alone: Cell<u32>,
    /// How long it looks for the end of i/o before it sleeps.
    spin: Cell<Nanos>,
    /// Jobs for each peer, handed over at the end of a turn.
    outbox: RefCell<Vec<Vec<Job>>>,
    /// Room for the jobs of a turn.
    inbox: RefCell<Vec<Job>>,
}

/// An executor; see the module. Its tasks are dropped with it.
pub struct Executor(Rc<Reactor>);

impl Default for Executor {
    fn default() -> Self {
        Self::new()
    }
}

impl Executor {
    /// An executor of the calling thread; its clock starts at 0.
    ///
    /// # Panics
    /// If the thread has one already.
    #[must_use]
    pub fn new() -> Self {
        Self::seated(ReactorId(0), Arc::new(Hub::new(1)), origin())
    }

    /// The executor of reactor `id`; the clocks of all reactors start at `origin`.
    pub(crate) fn seated(id: ReactorId, hub: Arc<Hub>, origin: Instant) -> Self {
        hub.seat(id);
        let outbox = (0..hub.reactors()).map(|_| Vec::new()).collect();
        let port = Port::new(id, Arc::clone(&hub));
        let reactor = Rc::new_cyclic(|itself| Reactor {
            origin,
            boot: BootClock::since(origin),
            claim: Claim::new(),
            tasks: RefCell::default(),
            ready: RefCell::default(),
            free: RefCell::default(),
            yields: RefCell::default(),
            looks: RefCell::default(),
            timers: RefCell::default(),
            timer_count: Cell::new(0),
            itself: Weak::clone(itself),
            id,
            hub,
            desk: Desk::default(),
            port,
            turns_alone: Cell::new(0),
            spin: Cell::new(Nanos(0)),
            outbox: RefCell::new(outbox),
            inbox: RefCell::default(),
        });
        reactor.port.keep(&*reactor);
        Self(reactor)
    }

    /// Looks for the end of i/o for so long before it sleeps, from now on: an answer that comes within
    /// that time costs no wake-up, which takes longer than a small command. It costs a processor
    /// that has nothing better to do. 0, as at first: sleeps at once.
    pub fn spin(&self, span: Nanos) {
        self.0.spin.set(span);
    }

    /// The executor as flows see it.
    #[must_use]
    pub fn world(&self) -> Rc<dyn World> {
        Rc::clone(&self.0) as Rc<dyn World>
    }

    /// Runs a flow, and all that it spawns, until it ends.
    ///
    /// # Errors
    /// [`Stalled`] if it never will.
    pub fn run<T: 'static>(&self, root: impl Future<Output = T> + 'static) -> Result<T, Stalled> {
        let mut ended = self.world().run(root);
        loop {
            if let Some(value) = ended.try_take() {
                return Ok(value);
            }
            if self.0.hub.is_over() {
                return Err(Stalled);
            }
            self.0.turn()?;
        }
    }

    /// Takes turns until all reactors end.
    ///
    /// # Errors
    /// [`Stalled`] if that can never be.
    pub(crate) fn serve(&self) -> Result<(), Stalled> {
        while !self.0.hub.is_over() {
            self.0.turn()?;
        }
        Ok(())
    }
}

/// Now, for the clocks of reactors to start at.
#[expect(clippy::disallowed_methods, reason = "this is the seam's clock")]
pub(crate) fn origin() -> Instant {
    Instant::now()
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.0.desk.clear();
        let tasks = self.0.tasks.take();
        drop(tasks);
        self.0.yields.take();
        self.0.looks.take();
        self.0.timers.take();
        // Last: what tasks had in flight belongs to the kernel until it says so.
        if let Some(ring) = self.0.port.ring() {
            ring.close();
        }
    }
}

impl Reactor {
    fn turn(&self) -> Result<(), Stalled> {
        let has_jobs = self.run_jobs();
        let has_ended = self.port.ring().is_some_and(Ring::run_ended);
        let has_polled = self.poll_ready();
        let yields = std::mem::take(&mut *self.yields.borrow_mut());
        let looks = std::mem::take(&mut *self.looks.borrow_mut());
        let nobody_waits = yields.is_empty() && looks.is_empty();
        let idle = !has_polled && nobody_waits && !has_jobs && !has_ended;
        for sender in yields {
            sender.send(());
        }
        self.hand_over();
        let turns_alone = self.turns_alone.replace(0);
        if idle {
            self.rest()?;
        } else if self.claim.count() > 0 || turns_alone == TURNS_ALONE || !looks.is_empty() {
            if let Some(ring) = self.port.ring() {
                ring.submit();
            }
        } else {
            // The rest that comes next submits and waits in one call.
            self.turns_alone.set(turns_alone + 1);
        }
        // What the kernel has told now is handed out and polled before they are, in the next turn.
        self.yields.borrow_mut().extend(looks);
        self.fire_timers();
        Ok(())
    }

    /// Polls every task that is ready now. True if there was any.
    fn poll_ready(&self) -> bool {
        let mut ready = self.ready.take();
        self.claim.take(&mut ready);
        let has_peers = self.hub.reactors() > 1;
        for tasks in ready.chunks(POLLS_ALONE) {
            tasks.iter().for_each(|index| self.poll(*index));
            if has_peers && tasks.len() == POLLS_ALONE {
                self.hand_over();
                self.run_jobs();
            }
        }
        let has_polled = !ready.is_empty();
        ready.clear();
        *self.ready.borrow_mut() = ready;
        has_polled
    }

    /// Runs what peers have sent, and it itself. True if there was anything.
    fn run_jobs(&self) -> bool {
        let mut jobs = self.inbox.take();
        let has_jobs = if self.hub.reactors() == 1 {
            // Its own alone: they come from tasks and jobs, so a turn follows before it rests.
            std::mem::swap(&mut self.outbox.borrow_mut()[0], &mut jobs);
            !jobs.is_empty()
        } else {
            self.hub.take(self.id, &mut jobs)
        };
        if has_jobs {
            let world: Rc<dyn World> = self.itself.upgrade().expect("a reactor at work exists");
            for job in jobs.drain(..) {
                job(&world);
            }
        }
        *self.inbox.borrow_mut() = jobs;
        has_jobs
    }

    /// Gives peers the jobs of this turn.
    fn hand_over(&self) {
        if self.hub.reactors() == 1 {
            return;
        }
        for (peer, jobs) in self.outbox.borrow_mut().iter_mut().enumerate() {
            if !jobs.is_empty() {
                self.hub.send(ReactorId(peer as u16), jobs);
            }
        }
    }

    /// Waits for a job, the next timer or the end of i/o.
    fn rest(&self) -> Result<(), Stalled> {
        let next = self.timers.borrow().peek().map(|timer| timer.0.at);
        let pause = next.map(|next| Duration::from_nanos(next.since(self.now()).0));
        let ring = self.port.ring();
        let awaits = if pause.is_some() || ring.is_some_and(Ring::is_awaited) {
            Awaits::Something
        } else {
            Awaits::Nothing
        };
        let wait = || match (ring, pause) {
            (Some(ring), pause) => ring.wait(pause),
            (None, Some(pause)) => std::thread::park_timeout(pause),
            (None, None) => std::thread::park(),
        };
        let is_alone = self.hub.reactors() == 1;
        if is_alone && awaits == Awaits::Nothing {
            return Err(Stalled);
        }
        if self.look_out(ring, is_alone, next) {
            return Ok(());
        }
        if is_alone {
            wait();
            return Ok(());
        }
        if self.hub.sleep(self.id, awaits, wait) {
            Ok(())
        } else {
            Err(Stalled)
        }
    }

    /// Looks for jobs and the end of i/o a moment longer, until the next timer at most. True if there
    /// is something.
    fn look_out(&self, ring: Option<&Ring>, is_alone: bool, next: Option<Nanos>) -> bool {
        let spin = self.spin.get();
        if spin == Nanos(0) && is_alone {
            return false;
        }
        if let Some(ring) = ring {
            ring.submit();
        }
        let is_wanted = || self.hub.has_jobs(self.id) || ring.is_some_and(Ring::has_ended);
        let end = (spin > Nanos(0)).then(|| self.now() + spin);
        let end = end.map(|end| next.map_or(end, |next| end.min(next)));
        loop {
            for _ in 0..SPINS_MAX {
                if is_wanted() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if end.is_none_or(|end| self.now() >= end) {
                return false;
            }
        }
    }

    fn poll(&self, index: u32) {
        let waker = self.claim.begin(index);
        let task = self.tasks.borrow_mut()[index as usize].take();
        let Some(mut task) = task else { return };
        match task.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => self.tasks.borrow_mut()[index as usize] = Some(task),
            Poll::Ready(()) => {
                self.claim.remove(index);
                self.free.borrow_mut().push(index);
            }
        }
    }

    /// Fires what is due.
    fn fire_timers(&self) {
        if self.timers.borrow().is_empty() {
            return;
        }
        let now = self.now();
        loop {
            let mut timers = self.timers.borrow_mut();
            if timers.peek().is_none_or(|timer| timer.0.at > now) {
                return;
            }
            let Some(Reverse(timer)) = timers.pop() else {
                return;
            };
            drop(timers);
            timer.sender.send(());
        }
    }
}

impl World for Reactor {
    fn now(&self) -> Nanos {
        Nanos(self.origin.elapsed().as_nanos() as u64)
    }

    fn now_outside(&self) -> Nanos {
        self.boot.now()
    }

    fn sleep(&self, span: Nanos) -> Receiver<()> {
        let (sender, receiver) = slot();
        let number = self.timer_count.get();
        self.timer_count.set(number + 1);
        let at = self.now() + span;
        self.timers
            .borrow_mut()
            .push(Reverse(Timer { at, number, sender }));
        receiver
    }

    fn spawn(&self, task: Task) {
        let mut tasks = self.tasks.borrow_mut();
        let index = match self.free.borrow_mut().pop() {
            Some(index) => {
                tasks[index as usize] = Some(task);
                index
            }
            None => {
                assert!(tasks.len() < TASKS_MAX, "more tasks than wakers can name");
                tasks.push(Some(task));
                tasks.len() as u32 - 1
            }
        };
        self.claim.add(index);
    }

    fn yield_now(&self) -> Receiver<()> {
        let (sender, receiver) = slot();
        self.yields.borrow_mut().push(sender);
        receiver
    }

    fn catch_up(&self) -> Receiver<()> {
        let (sender, receiver) = slot();
        self.looks.borrow_mut().push(sender);
        receiver
    }

    fn blocks(&self, count: usize, elided: bool) -> Blocks {
        if elided {
            Blocks::elided(count)
        } else {
            Blocks::recycled(count, &SPARE)
        }
    }

    fn supply(&self) -> Supply {
        Supply::of(&SPARE)
    }

    fn reactor(&self) -> ReactorId {
        self.id
    }

    fn reactors(&self) -> u16 {
        self.hub.reactors()
    }

    fn post(&self, to: ReactorId, job: Job) {
        self.outbox.borrow_mut()[usize::from(to.0)].push(job);
    }

    fn desk(&self) -> Option<&Desk> {
        Some(&self.desk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_io::Event;

    #[test]
    fn flows_run_in_the_order_they_became_ready() {
        let executor = Executor::new();
        let world = executor.world();
        let seen = Rc::new(RefCell::new(Vec::new()));
        let log = Rc::clone(&seen);
        let root = async move {
            let ended: Vec<_> = (0..3)
                .map(|flow| {
                    let (log, inner) = (Rc::clone(&log), Rc::clone(&world));
                    world.run(async move {
                        for step in 0..2 {
                            log.borrow_mut().push((step, flow));
                            inner.yield_now().await;
                        }
                    })
                })
                .collect();
            for flow in ended {
                flow.await;
            }
        };
        executor.run(root).unwrap();
        assert_eq!(
            *seen.borrow(),
            [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
        );
    }

    #[test]
    fn timers_fire_in_order_of_time_and_not_early() {
        let executor = Executor::new();
        let world = executor.world();
        let spans = executor
            .run(async move {
                let start = world.now();
                let late = world.sleep(Nanos::from_millis(4));
                let soon = world.sleep(Nanos::from_millis(1));
                soon.await;
                let first = world.now().since(start);
                late.await;
                (first, world.now().since(start))
            })
            .unwrap();
        assert!(spans.0 >= Nanos::from_millis(1) && spans.1 >= Nanos::from_millis(4));
    }

    /// Who asks all reactors asks itself too, and may be the only one.
    #[test]
    fn a_reactor_alone_runs_the_jobs_it_posts_to_itself() {
        let executor = Executor::new();
        let world = executor.world();
        let desk = world.desk().unwrap();
        let count = Rc::new(Cell::new(0_u32));
        desk.keep(
            *b"jobs of a test\0\0",
            Rc::clone(&count) as Rc<dyn std::any::Any>,
        );
        let root = async move {
            for expected in 1..=3 {
                world.tell(
                    ReactorId(0),
                    *b"jobs of a test\0\0",
                    |count: Rc<Cell<u32>>| {
                        count.set(count.get() + 1);
                    },
                );
                world.yield_now().await;
                world.yield_now().await;
                assert_eq!(count.get(), expected);
            }
            count.get()
        };
        assert_eq!(executor.run(root), Ok(3));
    }

    #[test]
    fn a_flow_that_waits_for_nobody_is_told() {
        let executor = Executor::new();
        let root = async { Event::new().listen().await };
        assert_eq!(executor.run(root), Err(Stalled));
    }

    #[test]
    fn a_waker_of_an_ended_task_wakes_no_other() {
        let executor = Executor::new();
        let world = executor.world();
        let event = Rc::new(Event::new());
        let polls = Rc::new(Cell::new(0));
        let (waiting, counted) = (Rc::clone(&event), Rc::clone(&polls));
        let root = async move {
            // Listens twice, so that a waker stays behind in the event when the task has ended.
            let first = Rc::clone(&waiting);
            world
                .run(async move {
                    let mut listen = Box::pin(first.listen());
                    std::future::poll_fn(|context| {
                        let _ = listen.as_mut().poll(context);
                        Poll::Ready(())
                    })
                    .await;
                })
                .await;
            let (sender, receiver) = slot::<()>();
            let mut receiver = Box::pin(receiver);
            world.spawn(Box::pin(std::future::poll_fn(move |context| {
                counted.set(counted.get() + 1);
                receiver.as_mut().poll(context)
            })));
            world.yield_now().await;
            waiting.notify();
            world.yield_now().await;
            sender.send(());
            world.yield_now().await;
        };
        executor.run(root).unwrap();
        assert_eq!(polls.get(), 2);
    }

    #[test]
    fn an_executor_follows_another_on_one_thread() {
        for _ in 0..3 {
            let executor = Executor::new();
            let world = executor.world();
            let root = async move { world.yield_now().await };
            executor.run(root).unwrap();
        }
    }
}
