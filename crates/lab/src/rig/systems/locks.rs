//! Locks of numbered things, shared or alone, for flows that wait in turn.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use varve_io::{Receiver, Sender, slot};

/// How a lock is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    /// By any number at once.
    Shared,
    /// By one alone.
    Alone,
}

/// Locks; all are free at first.
#[derive(Default)]
pub(crate) struct Locks {
    held: RefCell<BTreeMap<u64, Lock>>,
}

/// A lock that somebody holds.
struct Lock {
    hold: Hold,
    holders: u32,
    /// Who comes next.
    waiting: VecDeque<(Hold, Sender<()>)>,
}

impl Locks {
    /// Takes all locks of a range, one after another: as all do it in this order, none waits for
    /// one that waits for it.
    pub(crate) async fn lock(&self, first: u64, count: u64, hold: Hold) {
        for at in first..first + count {
            if !self.try_lock(at, hold) {
                self.queue(at, hold).await;
            }
        }
    }

    /// Takes a lock if nobody holds it alone or waits for it.
    pub(crate) fn try_lock(&self, at: u64, hold: Hold) -> bool {
        let mut held = self.held.borrow_mut();
        let Some(lock) = held.get_mut(&at) else {
            let lock = Lock {
                hold,
                holders: 1,
                waiting: VecDeque::new(),
            };
            held.insert(at, lock);
            return true;
        };
        let is_open = (lock.hold, hold) == (Hold::Shared, Hold::Shared) && lock.waiting.is_empty();
        lock.holders += u32::from(is_open);
        is_open
    }

    fn queue(&self, at: u64, hold: Hold) -> Receiver<()> {
        let (sender, granted) = slot();
        let mut held = self.held.borrow_mut();
        let lock = held.get_mut(&at).expect("somebody holds it");
        lock.waiting.push_back((hold, sender));
        granted
    }

    /// True if nobody holds a lock.
    pub(crate) fn is_free(&self, at: u64) -> bool {
        !self.held.borrow().contains_key(&at)
    }

    /// Gives locks back, to those who have waited longest.
    ///
    /// # Panics
    /// If one of them is not held.
    pub(crate) fn unlock(&self, first: u64, count: u64) {
        let mut granted = Vec::new();
        for at in first..first + count {
            let mut held = self.held.borrow_mut();
            let lock = held.get_mut(&at).expect("what is unlocked is locked");
            lock.holders -= 1;
            while let Some((hold, _)) = lock.waiting.front()
                && (lock.holders == 0 || (lock.hold, *hold) == (Hold::Shared, Hold::Shared))
            {
                lock.hold = *hold;
                lock.holders += 1;
                granted.extend(lock.waiting.pop_front());
            }
            if lock.holders == 0 {
                held.remove(&at);
            }
        }
        granted.into_iter().for_each(|(_, sender)| sender.send(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_share_keep_out_those_who_do_not() {
        let locks = Locks::default();
        assert!(locks.try_lock(3, Hold::Shared));
        assert!(locks.try_lock(3, Hold::Shared));
        assert!(!locks.try_lock(3, Hold::Alone));
        locks.unlock(3, 1);
        assert!(!locks.try_lock(3, Hold::Alone));
        locks.unlock(3, 1);
        assert!(locks.is_free(3));
        assert!(locks.try_lock(3, Hold::Alone));
        assert!(!locks.try_lock(3, Hold::Shared));
        assert!(locks.try_lock(4, Hold::Alone), "locks are apart");
    }

    #[test]
    fn those_who_wait_come_in_turn() {
        let locks = Locks::default();
        assert!(locks.try_lock(3, Hold::Alone));
        let holds = [Hold::Shared, Hold::Shared, Hold::Alone, Hold::Shared];
        let mut waiting = holds.map(|hold| locks.queue(3, hold));
        let mut granted = || {
            let taken = waiting.iter_mut().map(|one| one.try_take().is_some());
            taken.collect::<Vec<_>>()
        };
        locks.unlock(3, 1);
        assert_eq!(granted(), [true, true, false, false]);
        assert!(!locks.try_lock(3, Hold::Shared), "others came first");
        locks.unlock(3, 1);
        locks.unlock(3, 1);
        assert_eq!(granted()[2..], [true, false]);
        locks.unlock(3, 1);
        assert!(granted()[3]);
        locks.unlock(3, 1);
        assert!(locks.is_free(3));
    }
}
