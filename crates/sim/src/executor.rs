//! The seeded executor: one thread, virtual time, an order drawn from the seed.
//!
//! Ready flows are polled one at a time. Which one comes next is drawn: bursts of first-in
//! first-out, last-in first-out and random order follow one another, because each finds other
//! bugs. A poll costs a little virtual time; when nothing is ready, time jumps to the next timer.
//!
//! Several reactors live in the one thread: they share flows' queue, timers and time, and differ in
//! what they keep. Jobs between them arrive after a delay that is drawn for each, in order for each
//! pair.
//!
//! Several machines can share one [`Timeline`]: queue, timers and time are the timeline's, and each flow
//! and timer belongs to one machine. A [`Reactor`] is a machine; an [`Executor`] runs all of them until
//! its own ends or crashes. So hosts outlive a crash of the pool that they talk to over a network.
//!
//! **Invariants**: after [`Executor::crash`] no flow of its machine runs again and no timer of it
//! fires; whatever outlives it (drives, checkers, other machines) was never owned by it.
//!
//! **Not here**: drives, hosts; they use [`Reactor`].

use crate::fingerprint::Action;
use crate::rng::Rng;
use std::future::Future;
use std::rc::Rc;
use varve_io::World;
use varve_units::Nanos;

mod journal;
mod reactor;
mod timeline;

pub use journal::Journal;
pub use reactor::Reactor;
use timeline::Ready;
pub use timeline::Timeline;

/// Virtual time one poll takes. Arbitrary; above zero, so that flows that only yield see time pass.
const POLL_NS: u64 = 100;
/// When the power fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// Never.
    Never,
    /// At this action of the run (counted over all restarts).
    Action(u64),
    /// At this time.
    Time(Nanos),
    /// After this many more completed drive writes.
    Writes(u64),
    /// After this many more completed drive flushes.
    Flushes(u64),
}

impl Trigger {
    /// The feature that is seen when it fires.
    #[must_use]
    pub const fn feature(self) -> &'static str {
        match self {
            Self::Never => "crash_by_nothing",
            Self::Action(_) => "crash_at_action",
            Self::Time(_) => "crash_at_time",
            Self::Writes(_) => "crash_at_write",
            Self::Flushes(_) => "crash_at_flush",
        }
    }
}

/// Why an executor stopped before its root flow ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The trigger fired.
    Crash,
    /// Nothing is ready, no timer runs, and the root flow waits.
    Deadlock,
    /// Too many polls without progress.
    Runaway,
    /// Too much virtual time without progress.
    Stuck,
    /// A checker stopped the run.
    Failed,
}

#[derive(Clone, Copy)]
enum Order {
    First,
    Last,
    Random,
}

/// The executor of one life of the pool, from power-on to crash or clean end.
pub struct Executor {
    reactor: Rc<Reactor>,
    rng: Rng,
    order: Order,
    burst: u64,
    poll_span: Nanos,
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.reactor.clear_desks();
    }
}

impl Executor {
    /// An executor with nothing to do, whose clock starts at `start`.
    #[must_use]
    pub fn new(journal: Rc<Journal>, rng: Rng, start: Nanos) -> Self {
        Self::on(&Timeline::new(journal, start), rng)
    }

    /// An executor of one more machine on a timeline.
    #[must_use]
    pub fn on(timeline: &Rc<Timeline>, rng: Rng) -> Self {
        Self {
            reactor: timeline.machine(rng.split("mail")),
            rng,
            order: Order::First,
            burst: 0,
            poll_span: Nanos(POLL_NS),
        }
    }

    /// What is ready first runs first, and polls take a nanosecond: for measurements, where time
    /// is what was asked for and nothing else.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        (self.order, self.burst) = (Order::First, u64::MAX);
        self.poll_span = Nanos(1);
        self
    }

    /// What flows and drives see.
    #[must_use]
    pub fn reactor(&self) -> Rc<Reactor> {
        Rc::clone(&self.reactor)
    }

    /// Runs everything until `root` ends.
    ///
    /// # Errors
    /// Why it stopped before.
    pub fn run<T: 'static>(&mut self, root: impl Future<Output = T> + 'static) -> Result<T, Stop> {
        let world: &dyn World = &*self.reactor;
        let mut end = world.run(root);
        self.reactor.progress();
        loop {
            if self.reactor.journal().has_failed() {
                return Err(Stop::Failed);
            }
            if let Some(value) = end.try_take() {
                return Ok(value);
            }
            if self.reactor.is_crash_due() {
                return Err(Stop::Crash);
            }
            self.step()?;
        }
    }

    /// The power of the machine fails: every flow and timer of it is dropped. Returns the time.
    pub fn crash(self) -> Nanos {
        let reactor = &self.reactor;
        let now = reactor.now();
        reactor.journal().add(Action::Crash, &[now.0]);
        reactor.fail();
        now
    }

    /// Runs what is ready on the other machines, until nothing is or `polls` have been made; no time
    /// passes. What reached them before this one failed has an effect before anything that follows.
    pub fn settle_others(&mut self, polls: u64) {
        self.reactor.fail();
        for _ in 0..polls {
            let Some(ready) = self.choose() else { return };
            self.reactor.timeline().run(ready);
        }
    }

    fn step(&mut self) -> Result<(), Stop> {
        let timeline = Rc::clone(self.reactor.timeline());
        timeline.fire_due();
        if let Some(ready) = self.choose() {
            timeline.run_for(ready, self.poll_span);
        } else {
            timeline.jump()?;
        }
        timeline.liveness()
    }

    fn choose(&mut self) -> Option<Ready> {
        let timeline = Rc::clone(self.reactor.timeline());
        timeline.take_ready(|queue| {
            if self.burst == 0 {
                self.burst = self.rng.magnitude(1, 256);
                self.order = self.rng.pick(&[Order::First, Order::Last, Order::Random]);
            }
            self.burst -= 1;
            match self.order {
                Order::First => queue.pop_front(),
                Order::Last => queue.pop_back(),
                Order::Random => {
                    let index = self.rng.index(queue.len());
                    queue.swap_remove_back(index)
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use varve_io::{Event, ReactorId, slot};

    fn executor(seed: u64) -> (Executor, Rc<Journal>) {
        let journal = Rc::new(Journal::default());
        let executor = Executor::new(Rc::clone(&journal), Rng::new(seed), Nanos(0));
        (executor, journal)
    }

    /// Ten flows that yield and sleep leave their numbers in the order they ended.
    fn race(seed: u64) -> (Vec<u64>, u64) {
        let (mut executor, journal) = executor(seed);
        let reactor = executor.reactor();
        let ended = Rc::new(RefCell::new(Vec::new()));
        let left = Rc::new((Event::new(), Cell::new(10)));
        for number in 0..10 {
            let (reactor, ended) = (Rc::clone(&reactor), Rc::clone(&ended));
            let left = Rc::clone(&left);
            executor.reactor().spawn(Box::pin(async move {
                reactor.yield_now().await;
                reactor.sleep(Nanos(50)).await;
                reactor.yield_now().await;
                ended.borrow_mut().push(number);
                left.1.set(left.1.get() - 1);
                left.0.notify();
            }));
        }
        let waiting = Rc::clone(&left);
        let end = executor.run(async move {
            while waiting.1.get() > 0 {
                waiting.0.listen().await;
            }
        });
        assert_eq!(end, Ok(()));
        (ended.take(), journal.hash())
    }

    /// The same seed gives the same order and hash, another seed another order.
    #[test]
    fn order_is_a_function_of_the_seed() {
        assert_eq!(race(3), race(3));
        let orders: std::collections::BTreeSet<_> = (0..20).map(|seed| race(seed).0).collect();
        assert!(orders.len() > 5, "{} orders", orders.len());
    }

    /// Time jumps over idle spans and never runs backwards.
    #[test]
    fn time_jumps() {
        let (mut executor, _) = executor(1);
        let reactor = executor.reactor();
        let end = executor.run(async move {
            reactor.sleep(Nanos::from_secs(5)).await;
            reactor.now()
        });
        assert!(end.expect("ends") >= Nanos::from_secs(5));
    }

    /// A flow that waits for nothing is a deadlock; one that only yields is seen to run away; one
    /// that only sleeps is stuck.
    #[test]
    fn lack_of_progress_is_found() {
        let (mut first, _) = executor(1);
        let end = first.run(async {
            let (_sender, receiver) = slot::<()>();
            receiver.await;
        });
        assert_eq!(end, Err(Stop::Deadlock));
        let (mut second, _) = executor(1);
        let reactor = second.reactor();
        let end = second.run(async move {
            loop {
                reactor.yield_now().await;
            }
        });
        assert_eq!(end, Err::<(), _>(Stop::Runaway));
        let (mut third, _) = executor(1);
        let reactor = third.reactor();
        let end = third.run(async move {
            loop {
                reactor.sleep(Nanos::from_millis(1)).await;
            }
        });
        assert_eq!(end, Err::<(), _>(Stop::Stuck));
    }

    /// Ten jobs each from three reactors to one, which writes down who sent what and when.
    fn deliver(seed: u64) -> Vec<(ReactorId, u64, Nanos)> {
        const KEY: varve_io::Key = [7; 16];
        type Log = (RefCell<Vec<(ReactorId, u64, Nanos)>>, Event, Rc<dyn World>);
        let (mut executor, _) = executor(seed);
        let reactor = executor.reactor();
        reactor.seat(3);
        let world: Rc<dyn World> = Rc::clone(&reactor) as Rc<dyn World>;
        let log: Rc<Log> = Rc::new((RefCell::default(), Event::new(), Rc::clone(&world)));
        let keeper = world.beside(ReactorId(2)).unwrap();
        keeper
            .desk()
            .unwrap()
            .keep(KEY, Rc::clone(&log) as Rc<dyn std::any::Any>);
        for number in 0..10 {
            for from in (0..3).map(ReactorId) {
                let job = move |log: Rc<Log>| {
                    log.0.borrow_mut().push((from, number, log.2.now()));
                    log.1.notify();
                };
                world.beside(from).unwrap().tell(ReactorId(2), KEY, job);
            }
        }
        let waiting = Rc::clone(&log);
        let end = executor.run(async move {
            while waiting.0.borrow().len() < 30 {
                waiting.1.listen().await;
            }
        });
        assert_eq!(end, Ok(()));
        log.0.take()
    }

    /// Jobs of a pair keep their order; how pairs mix and how long jobs take is a function of the
    /// seed.
    #[test]
    fn jobs_arrive_in_order_and_late() {
        let mut mixes = std::collections::BTreeSet::new();
        for seed in 0..20 {
            let log = deliver(seed);
            assert_eq!(log, deliver(seed));
            for from in (0..3).map(ReactorId) {
                let mine = log.iter().filter(|entry| entry.0 == from);
                assert!(mine.map(|entry| entry.1).eq(0..10));
            }
            mixes.insert(log);
        }
        assert!(mixes.len() > 15, "{} mixes", mixes.len());
    }

    /// A crash at an action drops all flows, and their destructors may still call the reactor.
    #[test]
    fn crash_drops_flows() {
        struct Guard(Rc<Reactor>);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.spawn(Box::pin(async {}));
                drop(self.0.sleep(Nanos(1)));
            }
        }
        let (mut executor, journal) = executor(1);
        let reactor = executor.reactor();
        reactor.arm(Trigger::Action(5));
        let guard = Guard(Rc::clone(&reactor));
        let end = executor.run(async move {
            loop {
                guard.0.sleep(Nanos(10)).await;
            }
        });
        assert_eq!(end, Err::<(), _>(Stop::Crash));
        assert!(journal.actions() >= 5 && journal.actions() < 8);
        executor.crash();
        assert!(reactor.is_dead());
        assert_eq!(Rc::strong_count(&reactor), 1);
    }
}
