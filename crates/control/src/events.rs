//! What changes, told to whoever watches.
//!
//! Whoever follows with [`Watch::next`] is waited for before a command is answered: what it made is there for others.
//!
//! **Invariants**: a watcher that is too slow costs bounded memory, and learns that it missed something; one that hangs
//! holds up an answer for a bounded time.

use crate::volume::{Volume, VolumeInfo};
use crate::within::within;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use varve_io::World;
use varve_units::Nanos;

/// Events kept for a watcher. Arbitrary: far beyond what commands cause between two turns.
const EVENTS_MAX: usize = 1024;
/// How long an answer waits for those who follow. Arbitrary: a file that is made durable takes seconds on a busy disk.
const PATIENCE: Nanos = Nanos::from_secs(5);

/// A change.
#[derive(Clone, Debug)]
pub enum Event {
    /// A pool was opened: its volumes can be used.
    PoolOpened {
        /// Its name.
        pool: String,
    },
    /// A pool is about to be closed: operations on its volumes will fail.
    PoolClosing {
        /// Its name.
        pool: String,
    },
    /// Another owner has taken the drives of a pool over: operations on its volumes fail.
    PoolTaken {
        /// Its name.
        pool: String,
    },
    /// A volume was created.
    VolumeCreated(Volume),
    /// A volume has another size.
    VolumeResized(Volume),
    /// A volume was deleted.
    VolumeDeleted(VolumeInfo),
    /// The watcher was too slow: events are missing here.
    Missed,
}

#[derive(Default)]
struct Queue {
    events: RefCell<VecDeque<Event>>,
    changed: varve_io::Event,
    /// Somebody takes one event after another.
    is_followed: Cell<bool>,
    /// What came of the last one, or of earlier ones, is still being done.
    under_way: Cell<usize>,
    rested: varve_io::Event,
}

impl Queue {
    /// All that was told is done.
    fn is_done(&self) -> bool {
        !self.is_followed.get() || (self.under_way.get() == 0 && self.events.borrow().is_empty())
    }
}

/// The events from [`crate::Pools::watch`] on.
pub struct Watch {
    queue: Rc<Queue>,
    /// The event that was given last.
    last: RefCell<Option<UnderWay>>,
}

/// While this lives, what was told is not done.
pub struct UnderWay(Rc<Queue>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.set(self.0.under_way.get() - 1);
        self.0.rested.notify();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.queue.is_followed.set(false);
        self.queue.rested.notify();
    }
}

impl Watch {
    /// The next event, when there is one. Who asks has done what the one before was about, but for what is
    /// [under way](Self::under_way).
    pub async fn next(&self) -> Event {
        self.queue.is_followed.set(true);
        drop(self.last.take());
        loop {
            let next = self.queue.events.borrow_mut().pop_front();
            if let Some(event) = next {
                self.last.replace(Some(self.under_way()));
                return event;
            }
            self.queue.changed.listen().await;
        }
    }

    /// For what comes of an event and goes on beside the next ones.
    #[must_use]
    pub fn under_way(&self) -> UnderWay {
        self.queue.under_way.set(self.queue.under_way.get() + 1);
        UnderWay(Rc::clone(&self.queue))
    }

    /// The next event, if there is one.
    #[must_use]
    pub fn try_next(&self) -> Option<Event> {
        self.queue.events.borrow_mut().pop_front()
    }
}

/// Everybody who watches.
#[derive(Default)]
pub(crate) struct Watchers(RefCell<Vec<Weak<Queue>>>);

impl Watchers {
    pub(crate) fn watch(&self) -> Watch {
        let queue = Rc::new(Queue::default());
        let mut all = self.0.borrow_mut();
        all.retain(|queue| queue.strong_count() > 0);
        all.push(Rc::downgrade(&queue));
        Watch {
            queue,
            last: RefCell::default(),
        }
    }

    /// Ends once those who follow have done what they were told of, or take too long.
    pub(crate) async fn heard(&self, world: &dyn World) {
        let until = world.now() + PATIENCE;
        let all: Vec<_> = self.0.borrow().iter().filter_map(Weak::upgrade).collect();
        for queue in all {
            while !queue.is_done() {
                if within(world, until, queue.rested.listen()).await.is_none() {
                    return;
                }
            }
        }
    }

    pub(crate) fn tell(&self, event: &Event) {
        let all: Vec<_> = self.0.borrow().iter().filter_map(Weak::upgrade).collect();
        for queue in all {
            {
                let mut events = queue.events.borrow_mut();
                if events.len() < EVENTS_MAX {
                    events.push_back(event.clone());
                } else if let Some(last) = events.back_mut() {
                    *last = Event::Missed;
                }
            }
            queue.changed.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(number: usize) -> Event {
        Event::PoolOpened {
            pool: number.to_string(),
        }
    }

    #[test]
    fn a_slow_watcher_learns_that_it_missed_something() {
        let watchers = Watchers::default();
        let watch = watchers.watch();
        (0..=EVENTS_MAX).for_each(|number| watchers.tell(&opened(number)));
        let mut found: Vec<_> = std::iter::from_fn(|| watch.try_next()).collect();
        assert_eq!(found.len(), EVENTS_MAX);
        assert!(matches!(found.pop(), Some(Event::Missed)));
        assert!(matches!(&found[0], Event::PoolOpened { pool } if pool == "0"));
    }

    /// A command waits for who follows, and for what that one has under way; not for who hangs or has left.
    #[test]
    fn who_follows_is_waited_for() {
        let executor = varve_hostio::Executor::new();
        let world = executor.world();
        let flow = async move {
            let watchers = Watchers::default();
            let short = Nanos::from_millis(20);
            // One that only looks now and then.
            let looks = watchers.watch();
            watchers.tell(&opened(0));
            watchers.heard(&*world).await;
            drop(looks);
            let watch = Rc::new(watchers.watch());
            let (follower, clock) = (Rc::clone(&watch), Rc::clone(&world));
            let done = Rc::new(Cell::new(0));
            let count = Rc::clone(&done);
            world.spawn(Box::pin(async move {
                follower.next().await;
                clock.sleep(short).await;
                count.set(1);
                follower.next().await;
                let (under_way, later) = (follower.under_way(), Rc::clone(&clock));
                clock.spawn(Box::pin(async move {
                    later.sleep(short).await;
                    count.set(2);
                    drop(under_way);
                }));
                follower.next().await;
                // It hangs.
                clock.sleep(Nanos::from_secs(3600)).await;
                drop(follower);
            }));
            world.sleep(short).await;
            for told in 1..=2 {
                watchers.tell(&opened(told));
                watchers.heard(&*world).await;
                assert_eq!(done.get(), told);
            }
            let before = world.now();
            watchers.tell(&opened(3));
            watchers.heard(&*world).await;
            assert!(world.now().since(before) >= PATIENCE);
            // It has left.
            drop(watch);
        };
        executor.run(flow).expect("it ends");
    }

    #[test]
    fn who_left_is_forgotten() {
        let watchers = Watchers::default();
        drop(watchers.watch());
        watchers.tell(&opened(0));
        let _watch = watchers.watch();
        assert_eq!(watchers.0.borrow().len(), 1);
    }
}
