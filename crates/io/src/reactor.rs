//! Reactors to one another: jobs, calls, and what each keeps for those who call.
//!
//! A reactor runs on one thread, and what it owns is touched by nobody else. Others send it a *job*:
//! a function that is `Send` and runs there. A *call* is a job whose answer comes back the same way.
//!
//! **Invariants**: jobs from one reactor to another run in the order they were posted; a call is
//! answered once, by the reactor that was called; a job touches the state of the reactor it runs on
//! and no other.
//!
//! **Not here**: how jobs travel (the executor's affair: rings between threads, or virtual time).

use crate::slot::{Receiver, Sender, slot};
use crate::world::World;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::RefCell;
use core::future::Future;
use core::marker::PhantomData;

/// Which reactor: they are numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ReactorId(pub u16);

/// What runs on another reactor, given that reactor's world.
pub type Job = Box<dyn FnOnce(&Rc<dyn World>) + Send>;

/// Under which name reactors keep their parts of one thing, a pool's identity say.
pub type Key = [u8; 16];

/// The reactor that was called keeps nothing (any more) under the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Absent;

/// What a reactor keeps for those who call it, and who waits for answers.
#[derive(Default)]
pub struct Desk {
    kept: RefCell<BTreeMap<Key, Rc<dyn Any>>>,
    calls: RefCell<Calls>,
}

/// Calls without an answer yet.
#[derive(Default)]
struct Calls {
    waiting: Vec<Option<Rc<dyn Any>>>,
    vacant: Vec<usize>,
}

impl Desk {
    /// Keeps `what` under `key`, in place of what was kept there.
    pub fn keep(&self, key: Key, what: Rc<dyn Any>) {
        let before = self.kept.borrow_mut().insert(key, what);
        drop(before);
    }

    /// Keeps nothing under `key` any more.
    pub fn forget(&self, key: Key) {
        let before = self.kept.borrow_mut().remove(&key);
        drop(before);
    }

    /// What is kept under `key`, if it is a `T`.
    #[must_use]
    pub fn kept<T: 'static>(&self, key: Key) -> Option<Rc<T>> {
        let kept = self.kept.borrow().get(&key).cloned()?;
        kept.downcast().ok()
    }

    /// Forgets everything: the reactor ends.
    pub fn clear(&self) {
        let kept = self.kept.take();
        let calls = self.calls.take();
        drop((kept, calls));
    }

    fn open<T: 'static>(&self) -> (usize, Receiver<Result<T, Absent>>) {
        let (sender, receiver) = slot();
        let mut calls = self.calls.borrow_mut();
        let sender = Some(sender.into_any());
        let index = match calls.vacant.pop() {
            Some(index) => {
                calls.waiting[index] = sender;
                index
            }
            None => {
                calls.waiting.push(sender);
                calls.waiting.len() - 1
            }
        };
        (index, receiver)
    }

    /// # Panics
    /// If the call was answered already: replies are sent once by construction.
    fn close<T: 'static>(&self, index: usize, answer: Result<T, Absent>) {
        let sender = {
            let mut calls = self.calls.borrow_mut();
            let Some(sender) = calls.waiting.get_mut(index).and_then(Option::take) else {
                // The reactor has ended, and everyone who waited with it.
                return;
            };
            calls.vacant.push(index);
            sender
        };
        Sender::from_any(sender)
            .expect("a call is answered in kind")
            .send(answer);
    }
}

/// Where the answer of a call goes. Whoever asked waits until it is sent.
pub struct Reply<T> {
    home: ReactorId,
    index: usize,
    kind: PhantomData<fn(T)>,
}

impl<T: Send + 'static> Reply<T> {
    /// Sends the answer, from the world of the reactor that was called.
    pub fn send(self, world: &dyn World, answer: T) {
        self.close(world, Ok(answer));
    }

    fn close(self, world: &dyn World, answer: Result<T, Absent>) {
        let index = self.index;
        let job = move |home: &Rc<dyn World>| desk(&**home).close(index, answer);
        world.post(self.home, Box::new(job));
    }
}

fn desk(world: &dyn World) -> &Desk {
    world.desk().expect("a reactor that has peers has a desk")
}

impl dyn World + '_ {
    /// Runs `job` on reactor `to` with what it keeps under `key`; nothing if it keeps none.
    pub fn tell<L: 'static>(
        &self,
        to: ReactorId,
        key: Key,
        job: impl FnOnce(Rc<L>) + Send + 'static,
    ) {
        self.post(
            to,
            Box::new(move |there| {
                if let Some(local) = desk(&**there).kept(key) {
                    job(local);
                }
            }),
        );
    }

    /// Runs the flow that `job` makes of what reactor `to` keeps under `key`, there; the answer
    /// comes back.
    ///
    /// The answer is [`Absent`] if the reactor keeps no `L` under the key.
    pub fn call<L, T, F, Flow>(
        &self,
        to: ReactorId,
        key: Key,
        job: F,
    ) -> Receiver<Result<T, Absent>>
    where
        L: 'static,
        T: Send + 'static,
        F: FnOnce(Rc<L>) -> Flow + Send + 'static,
        Flow: Future<Output = T> + 'static,
    {
        self.ask(to, key, move |there, local, reply| {
            let world = Rc::clone(there);
            let flow = job(local);
            there.spawn(Box::pin(async move {
                let answer = flow.await;
                reply.send(&*world, answer);
            }));
        })
    }

    /// Runs `job` on reactor `to` with what it keeps under `key`, there; the job sees to it that an
    /// answer is sent, now or later.
    ///
    /// The answer is [`Absent`] if the reactor keeps no `L` under the key.
    pub fn ask<L, T, F>(&self, to: ReactorId, key: Key, job: F) -> Receiver<Result<T, Absent>>
    where
        L: 'static,
        T: Send + 'static,
        F: FnOnce(&Rc<dyn World>, Rc<L>, Reply<T>) + Send + 'static,
    {
        let (index, receiver) = desk(self).open();
        let reply = Reply {
            home: self.reactor(),
            index,
            kind: PhantomData,
        };
        self.post(
            to,
            Box::new(move |there| match desk(&**there).kept(key) {
                None => reply.close(&**there, Err(Absent)),
                Some(local) => job(there, local, reply),
            }),
        );
        receiver
    }
}
