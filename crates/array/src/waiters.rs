//! Flows that wait for members, to be woken when one of these leaves.
//!
//! An [`varve_io::Event`] would keep the waker of every command until the first loss; here a flow takes
//! its own away when it has what it waits for.

use crate::set::MemberSet;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::task::Waker;

/// All who wait.
#[derive(Default)]
pub(crate) struct Waiters(RefCell<Table>);

#[derive(Default)]
struct Table {
    slots: Vec<Option<Waiter>>,
    free: Vec<usize>,
}

struct Waiter {
    members: MemberSet,
    waker: Waker,
}

impl Waiters {
    /// Notes, or notes again, for which members a flow waits.
    pub(crate) fn note(&self, ticket: &mut Option<usize>, members: MemberSet, waker: &Waker) {
        let table = &mut *self.0.borrow_mut();
        let slot = *ticket.get_or_insert_with(|| {
            table.free.pop().unwrap_or_else(|| {
                table.slots.push(None);
                table.slots.len() - 1
            })
        });
        match &mut table.slots[slot] {
            Some(waiter) => {
                waiter.members = members;
                waiter.waker.clone_from(waker);
            }
            empty @ None => {
                let waker = waker.clone();
                *empty = Some(Waiter { members, waker });
            }
        }
    }

    /// A flow has what it waited for, or is no more.
    pub(crate) fn forget(&self, ticket: &mut Option<usize>) {
        let Some(slot) = ticket.take() else {
            return;
        };
        let table = &mut *self.0.borrow_mut();
        let waiter = table.slots[slot].take();
        assert!(waiter.is_some(), "who forgets has noted");
        table.free.push(slot);
    }

    /// Wakes those who wait for a member, oldest slot first.
    pub(crate) fn wake(&self, member: usize) {
        let table = self.0.borrow();
        let waiters = table.slots.iter().flatten();
        let concerned = waiters.filter(|waiter| waiter.members.contains(member));
        let wakers: Vec<Waker> = concerned.map(|waiter| waiter.waker.clone()).collect();
        drop(table);
        wakers.into_iter().for_each(Waker::wake);
    }
}
