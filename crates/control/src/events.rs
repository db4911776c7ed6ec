//! What changes, told to whoever watches.
//!
//! **Invariant**: a watcher that is too slow costs bounded memory, and learns that it missed something.

use crate::volume::{Volume, VolumeInfo};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

/// Events kept for a watcher. Arbitrary: far beyond what commands cause between two turns.
const EVENTS_MAX: usize = 1024;

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
}

/// The events from [`crate::Pools::watch`] on.
pub struct Watch(Rc<Queue>);

impl Watch {
    /// The next event, when there is one.
    pub async fn next(&self) -> Event {
        loop {
            let next = self.0.events.borrow_mut().pop_front();
            if let Some(event) = next {
                return event;
            }
            self.0.changed.listen().await;
        }
    }

    /// The next event, if there is one.
    #[must_use]
    pub fn try_next(&self) -> Option<Event> {
        self.0.events.borrow_mut().pop_front()
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
        Watch(queue)
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

    #[test]
    fn who_left_is_forgotten() {
        let watchers = Watchers::default();
        drop(watchers.watch());
        watchers.tell(&opened(0));
        let _watch = watchers.watch();
        assert_eq!(watchers.0.borrow().len(), 1);
    }
}
