//! One direction of a connection: bytes in order, each there at its time, in a bounded buffer.
//!
//! **Invariants**: bytes arrive in order, cut anywhere; a failure is seen behind the bytes that precede
//! it; nothing is taken after a failure or an end was seen.

use crate::executor::Reactor;
use crate::fingerprint::{Action, hash_bytes};
use crate::rng::Rng;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use varve_io::{Event, World};
use varve_units::Nanos;

/// How a direction broke.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Broken {
    /// The other end does not know the connection any more.
    Reset,
    /// The network gave it up; the other end may know nothing of that.
    Silent,
}

/// What is to happen to bytes that are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mouth {
    Open,
    /// No more are sent.
    Ended,
    /// They are lost, and nobody says so.
    Lossy,
    /// Nobody takes them: sending fails.
    Broken(Broken),
}

/// Bytes before `until` are there at `at`.
struct Mark {
    until: u64,
    at: Nanos,
}

/// One direction.
pub(super) struct Pipe {
    number: u64,
    rng: RefCell<Rng>,
    /// Shortest way through the network.
    latency: Nanos,
    capacity: usize,
    bytes: RefCell<VecDeque<u8>>,
    marks: RefCell<VecDeque<Mark>>,
    /// Bytes ever put in and ever taken out.
    sent: Cell<u64>,
    taken: Cell<u64>,
    /// Nothing arrives before.
    held_until: Cell<Nanos>,
    mouth: Cell<Mouth>,
    /// The receiver sees it behind the bytes that are left, not before its time.
    failure: Cell<Option<(Nanos, Broken)>>,
    /// For the receiver: look again.
    changed: Event,
    /// For the sender: look again.
    room: Event,
}

impl Pipe {
    pub fn new(number: u64, mut rng: Rng, latency: Nanos) -> Self {
        let capacity = rng.magnitude(1 << 11, 1 << 20) as usize;
        Self {
            number,
            latency,
            capacity,
            rng: RefCell::new(rng),
            bytes: RefCell::default(),
            marks: RefCell::default(),
            sent: Cell::new(0),
            taken: Cell::new(0),
            held_until: Cell::new(Nanos(0)),
            mouth: Cell::new(Mouth::Open),
            failure: Cell::new(None),
            changed: Event::new(),
            room: Event::new(),
        }
    }

    /// Bytes under way.
    pub fn queued(&self) -> usize {
        self.bytes.borrow().len()
    }

    /// Puts bytes in until all are, waiting for room; they are there when they have come through the
    /// network. `parts` are sent one behind the other.
    ///
    /// # Errors
    /// How the direction broke.
    pub async fn send(&self, world: &Reactor, parts: &[&[u8]]) -> Result<(), Broken> {
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                match self.mouth.get() {
                    Mouth::Broken(how) => return Err(how),
                    Mouth::Ended => return Err(Broken::Silent),
                    Mouth::Lossy => break,
                    Mouth::Open => {}
                }
                let room = self.capacity - self.queued();
                if room == 0 {
                    self.dispatch(world);
                    self.room.listen().await;
                    continue;
                }
                let (now, later) = rest.split_at(room.min(rest.len()));
                self.bytes.borrow_mut().extend(now);
                self.sent.set(self.sent.get() + now.len() as u64);
                rest = later;
            }
        }
        self.dispatch(world);
        match self.mouth.get() {
            Mouth::Broken(how) => Err(how),
            Mouth::Open | Mouth::Ended | Mouth::Lossy => Ok(()),
        }
    }

    /// Sends off what was put in since the last time, seldom in several pieces.
    fn dispatch(&self, world: &Reactor) {
        let (now, sent) = (world.now(), self.sent.get());
        let rng = &mut *self.rng.borrow_mut();
        let marks = &mut *self.marks.borrow_mut();
        let last = marks.back();
        let mut from = last.map_or(self.taken.get(), |mark| mark.until);
        let mut at = last.map_or(now, |mark| mark.at).max(now + self.latency);
        let mut pieces = if rng.chance(1, 6) {
            rng.within(2, 4)
        } else {
            1
        };
        while from < sent {
            let until = if pieces > 1 {
                rng.within(from + 1, sent)
            } else {
                sent
            };
            marks.push_back(Mark { until, at });
            at = at + Nanos(rng.magnitude(1, self.latency.0.max(1) * 8));
            from = until;
            pieces -= 1;
        }
        self.changed.notify();
    }

    /// Takes what is there, or waits for some: 0 bytes at the end.
    ///
    /// # Errors
    /// How the direction broke.
    pub async fn receive(
        &self,
        world: &Reactor,
        mut into: Vec<u8>,
    ) -> Result<(usize, Vec<u8>), Broken> {
        loop {
            let now = world.now();
            let there = self.there(now);
            if there > 0 {
                let count = self.take(there, &mut into);
                let end = &into[into.len() - count..];
                let particulars = [self.number, count as u64, hash_bytes(&end[..count.min(64)])];
                world.journal().add(Action::Deliver, &particulars);
                return Ok((count, into));
            }
            let is_empty = self.queued() == 0;
            match (self.failure.get(), self.mouth.get()) {
                (Some((at, how)), _) if is_empty && at <= now => return Err(how),
                (None, Mouth::Ended) if is_empty => return Ok((0, into)),
                _ => {}
            }
            let due = if is_empty {
                self.failure.get().map(|failure| failure.0)
            } else {
                let marks = self.marks.borrow();
                marks.front().map(|mark| mark.at.max(self.held_until.get()))
            };
            let changed = self.changed.listen();
            match due {
                Some(at) if at > now => first(world.sleep(at.since(now)), changed).await,
                _ => changed.await,
            }
        }
    }

    /// Bytes that have arrived.
    fn there(&self, now: Nanos) -> usize {
        if self.held_until.get() > now {
            return 0;
        }
        let marks = self.marks.borrow();
        let arrived = marks.iter().take_while(|mark| mark.at <= now).last();
        arrived.map_or(0, |mark| (mark.until - self.taken.get()) as usize)
    }

    /// Takes as much as there is room for, now and then less.
    fn take(&self, there: usize, into: &mut Vec<u8>) -> usize {
        let room = into.capacity() - into.len();
        let mut count = there.min(room);
        let rng = &mut *self.rng.borrow_mut();
        if rng.chance(1, 16) {
            count = rng.within(1, count as u64) as usize;
        }
        let mut bytes = self.bytes.borrow_mut();
        let (front, back) = bytes.as_slices();
        let from_front = count.min(front.len());
        into.extend_from_slice(&front[..from_front]);
        into.extend_from_slice(&back[..count - from_front]);
        bytes.drain(..count);
        self.taken.set(self.taken.get() + count as u64);
        let mut marks = self.marks.borrow_mut();
        while marks
            .front()
            .is_some_and(|mark| mark.until <= self.taken.get())
        {
            marks.pop_front();
        }
        self.room.notify();
        count
    }

    /// No more will be sent; what was sent arrives.
    pub fn end(&self) {
        if self.mouth.get() == Mouth::Open {
            self.mouth.set(Mouth::Ended);
        }
        self.changed.notify();
        self.room.notify();
    }

    /// What is sent from now on is lost without a word.
    pub fn lose_rest(&self) {
        if !matches!(self.mouth.get(), Mouth::Broken(_)) {
            self.mouth.set(Mouth::Lossy);
        }
        self.room.notify();
    }

    /// Sending fails from now on.
    pub fn refuse(&self, how: Broken) {
        self.mouth.set(Mouth::Broken(how));
        self.room.notify();
    }

    /// The receiver is told at `at` that the direction broke, behind what is left of the bytes.
    pub fn break_off(&self, at: Nanos, how: Broken) {
        if self.failure.get().is_none() {
            self.failure.set(Some((at, how)));
        }
        self.changed.notify();
    }

    /// Nothing arrives before `until`.
    pub fn hold(&self, until: Nanos) {
        self.held_until.set(self.held_until.get().max(until));
        self.changed.notify();
    }

    /// Whatever is held arrives.
    pub fn release(&self) {
        self.held_until.set(Nanos(0));
        self.changed.notify();
    }

    /// All but the first `count` bytes under way are lost. True if something was.
    pub fn cut(&self, count: usize) -> bool {
        let mut bytes = self.bytes.borrow_mut();
        if bytes.len() <= count {
            return false;
        }
        bytes.truncate(count);
        let end = self.taken.get() + count as u64;
        self.sent.set(end);
        let marks = &mut *self.marks.borrow_mut();
        while let Some(mark) = marks.pop_back() {
            let before = marks.back().map_or(self.taken.get(), |mark| mark.until);
            if before < end {
                let until = mark.until.min(end);
                marks.push_back(Mark { until, ..mark });
                break;
            }
        }
        true
    }

    /// A place to cut what is under way, anywhere.
    pub fn any_place(&self) -> usize {
        let queued = self.queued() as u64;
        self.rng.borrow_mut().within(0, queued) as usize
    }
}

/// Ends with the first of both.
pub(super) async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        let is_over =
            one.as_mut().poll(context).is_ready() || other.as_mut().poll(context).is_ready();
        if is_over {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::{Executor, Journal};
    use std::rc::Rc;

    const BYTES: usize = 100_000;

    fn content() -> Vec<u8> {
        (0..BYTES).map(|at| (at % 251) as u8).collect()
    }

    /// Sends everything in parts, and ends.
    async fn feed(pipe: Rc<Pipe>, world: Rc<Reactor>, mut rng: Rng) -> Result<(), Broken> {
        let all = content();
        let mut rest = &all[..];
        while !rest.is_empty() {
            let count = (rng.magnitude(1, 1 << 14) as usize).min(rest.len());
            let (part, behind) = rest.split_at(count);
            let middle = rng.index(part.len() + 1);
            pipe.send(&world, &[&part[..middle], &part[middle..]])
                .await?;
            rest = behind;
        }
        pipe.end();
        Ok(())
    }

    /// Receives until the end: what came, how it ended, and when its first byte was there.
    async fn drain(pipe: Rc<Pipe>, world: Rc<Reactor>) -> (Vec<u8>, Option<Broken>, Nanos) {
        let (mut all, mut first_at) = (Vec::new(), None);
        loop {
            match pipe.receive(&world, Vec::with_capacity(5_000)).await {
                Ok((0, _)) => return (all, None, first_at.unwrap_or_default()),
                Ok((count, part)) => {
                    assert_eq!(part.len(), count);
                    first_at.get_or_insert(world.now());
                    all.extend(part);
                }
                Err(how) => return (all, Some(how), first_at.unwrap_or_default()),
            }
        }
    }

    type Received = (Vec<u8>, Option<Broken>, Nanos);

    /// A transfer that `disturb` interferes with while it goes on.
    fn transfer(seed: u64, disturb: impl FnOnce(&Pipe, &Reactor) + 'static) -> Received {
        let rng = Rng::new(seed);
        let mut executor = Executor::new(Rc::<Journal>::default(), rng.split("order"), Nanos(0));
        let reactor = executor.reactor();
        let pipe = Rc::new(Pipe::new(1, rng.split("pipe"), Nanos(10_000)));
        let end = executor.run(async move {
            let world: Rc<dyn World> = Rc::clone(&reactor) as Rc<dyn World>;
            let sender = feed(Rc::clone(&pipe), Rc::clone(&reactor), rng.split("parts"));
            drop(world.run(sender));
            let receiver = world.run(drain(Rc::clone(&pipe), Rc::clone(&reactor)));
            reactor.sleep(Nanos(12_000)).await;
            disturb(&pipe, &reactor);
            receiver.await
        });
        end.expect("an end")
    }

    /// All bytes arrive, in order, not before the network's time.
    #[test]
    fn bytes_arrive_in_order() {
        for seed in 0..50 {
            let (all, how, first_at) = transfer(seed, |_, _| {});
            assert!(all == content() && how.is_none(), "seed {seed}");
            assert!(first_at >= Nanos(10_000), "seed {seed}: {first_at:?}");
        }
    }

    /// What is held arrives late and whole.
    #[test]
    fn a_hold_loses_nothing() {
        for seed in 0..50 {
            let until = Nanos::from_millis(700);
            let (all, how, _) = transfer(seed, move |pipe, _| pipe.hold(until));
            assert!(all == content() && how.is_none(), "seed {seed}");
        }
    }

    /// A reset is seen behind some of the bytes, which are those that were sent.
    #[test]
    fn a_reset_cuts_anywhere() {
        let mut lengths = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let (all, how, _) = transfer(seed, |pipe, world| {
                pipe.cut(pipe.any_place());
                pipe.break_off(world.now(), Broken::Reset);
                pipe.refuse(Broken::Reset);
            });
            assert!(content().starts_with(&all), "seed {seed}");
            assert!(how == Some(Broken::Reset), "seed {seed}");
            lengths.insert(all.len());
        }
        assert!(lengths.len() > 20, "{lengths:?}");
    }
}
