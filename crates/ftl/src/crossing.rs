//! Commands of hosts, within one leaf, that another reactor owns: half of all on two reactors.
//!
//! 1. The command is a parcel in a box for its owner. The box's courier, a flow, takes what has
//!    gathered when its turn comes, and sends it as one job; a full box is sent at once.
//! 2. The owner queues a write that finds room everywhere at its lane at once; when that is
//!    acknowledged, the answer goes into the box for the caller's reactor. Of a single block that is
//!    read it tells the place, and the caller reads. What must wait, and longer reads, are served by
//!    a *hand*: a flow that does one command after another.
//! 3. Answers travel as commands do. The caller waits at a number.
//!
//! So a crossing costs no task and no allocation of its own, on either side, beside those of the
//! command (ADR reactors, 2). What crosses seldom goes by [`Shared::call`].
//!
//! **Invariants**: a number is given again only after its command was answered; when the engine
//! stops every caller is told by his own reactor, and answers that come later are dropped.

use crate::error::EngineError;
use crate::map::LeafKey;
use crate::read::Spot;
use crate::shared::Shared;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::{Future, poll_fn};
use core::task::{Poll, Waker};
use varve_format::Crcs;
use varve_io::{Blocks, ReactorId};
use varve_units::{Lba, VolumeId};

/// Parcels that are sent at once, without waiting for the courier's turn: their owner may have
/// nothing else to do. Arbitrary: few enough that a turn makes several, so many that the cost of a
/// job is that of a few instructions for each.
const PARCELS_FULL: usize = 32;
/// Lists kept for each reactor. Arbitrary: more batches than are on their way at once.
const SPARES_MAX: usize = 8;

/// A command on its way to the owner of its leaf.
pub(crate) enum Request {
    /// Payload and its checksums.
    Write {
        volume: VolumeId,
        lba: Lba,
        data: Blocks,
        crcs: Crcs,
    },
    /// Memory to read into.
    Read {
        volume: VolumeId,
        lba: Lba,
        into: Blocks,
    },
    /// Where one block lies.
    Find { volume: VolumeId, lba: Lba },
}

impl Request {
    /// The first block it is about.
    const fn block(&self) -> (VolumeId, Lba) {
        match self {
            Self::Write { volume, lba, .. }
            | Self::Read { volume, lba, .. }
            | Self::Find { volume, lba } => (*volume, *lba),
        }
    }
}

/// How it ended.
pub(crate) enum Answer {
    /// The payload's memory goes home with it: who writes more than others would run out of it.
    Written(Result<(), EngineError>, Option<Blocks>),
    Read(Result<Blocks, EngineError>),
    /// Nothing if only a read by the owner can tell.
    Found(Option<Spot>),
}

/// Who waits for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    home: ReactorId,
    number: u32,
}

enum Parcel {
    Ask(u32, Request),
    Answer(u32, Answer),
}

/// One reactor's commands that cross, its own and those of others.
pub(crate) struct Crossings {
    /// What goes to each reactor; the one to itself stays empty.
    boxes: Box<[Outbox]>,
    calls: RefCell<Calls>,
    /// Hands without work.
    idle: RefCell<Vec<Rc<Hand>>>,
}

#[derive(Default)]
struct Outbox {
    parcels: RefCell<Vec<Parcel>>,
    /// Room for the next ones.
    spare: RefCell<Vec<Vec<Parcel>>>,
    courier: Nudge,
}

/// Wakes the one flow that waits for it, also if it comes to wait later.
#[derive(Default)]
struct Nudge {
    is_given: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Nudge {
    fn give(&self) {
        self.is_given.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn taken(&self) -> impl Future<Output = ()> + '_ {
        poll_fn(|context| {
            if self.is_given.take() {
                return Poll::Ready(());
            }
            self.waker.set(Some(context.waker().clone()));
            Poll::Pending
        })
    }
}

/// Callers that wait, by number.
#[derive(Default)]
struct Calls {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
}

enum Slot {
    Vacant,
    Open(Option<Waker>),
    /// `None`: the engine stopped.
    Closed(Option<Answer>),
}

/// A flow that serves commands which cannot be done at once.
#[derive(Default)]
struct Hand {
    work: Cell<Option<(Caller, Request)>>,
    nudge: Nudge,
}

impl Crossings {
    /// Nothing on its way between `reactors`.
    pub(crate) fn new(reactors: u16) -> Self {
        Self {
            boxes: (0..reactors).map(|_| Outbox::default()).collect(),
            calls: RefCell::default(),
            idle: RefCell::default(),
        }
    }

    fn outbox(&self, to: ReactorId) -> &Outbox {
        &self.boxes[usize::from(to.0)]
    }

    fn open(&self) -> u32 {
        let mut calls = self.calls.borrow_mut();
        if let Some(number) = calls.vacant.pop() {
            calls.slots[number as usize] = Slot::Open(None);
            return number;
        }
        calls.slots.push(Slot::Open(None));
        calls.slots.len() as u32 - 1
    }

    /// An answer has come. Nobody waits for it if the engine stopped meanwhile.
    fn close(&self, number: u32, answer: Option<Answer>) {
        let mut calls = self.calls.borrow_mut();
        let slot = &mut calls.slots[number as usize];
        if let Slot::Open(waker) = slot {
            let waker = waker.take();
            *slot = Slot::Closed(answer);
            drop(calls);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn answered(&self, number: u32) -> impl Future<Output = Option<Answer>> + '_ {
        poll_fn(move |context| {
            let mut calls = self.calls.borrow_mut();
            let slot = &mut calls.slots[number as usize];
            if let Slot::Open(waker) = slot {
                *waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            let Slot::Closed(answer) = core::mem::replace(slot, Slot::Vacant) else {
                panic!("a caller is answered once");
            };
            calls.vacant.push(number);
            Poll::Ready(answer)
        })
    }

    /// Callers that wait for an answer.
    pub(crate) fn open_calls(&self) -> usize {
        let calls = self.calls.borrow();
        let is_open = |slot: &&Slot| matches!(slot, Slot::Open(_));
        calls.slots.iter().filter(is_open).count()
    }

    /// The engine stops: callers, couriers and hands are told.
    pub(crate) fn wake_all(&self) {
        let count = self.calls.borrow().slots.len();
        (0..count).for_each(|number| self.close(number as u32, None));
        self.boxes.iter().for_each(|outbox| outbox.courier.give());
        let idle = self.idle.take();
        idle.iter().for_each(|hand| hand.nudge.give());
    }
}

impl Shared {
    /// Writes blocks of one leaf that another reactor owns.
    ///
    /// # Errors
    /// What the owner says; the engine stopped.
    pub(crate) async fn write_there(
        &self,
        owner: ReactorId,
        volume: VolumeId,
        lba: Lba,
        data: Blocks,
        crcs: Crcs,
    ) -> Result<(), EngineError> {
        let request = Request::Write {
            volume,
            lba,
            data,
            crcs,
        };
        match self.ask(owner, request).await {
            Some(Answer::Written(outcome, memory)) => {
                drop(memory);
                outcome
            }
            Some(_) => unreachable!("a write is answered as one"),
            None => Err(EngineError::Stopped),
        }
    }

    /// Reads blocks of one leaf that another reactor owns.
    ///
    /// One block is looked up there and read here: its content is wanted here, and nothing but a place
    /// crosses. Where that does not do, the owner reads.
    ///
    /// # Errors
    /// What the owner says; the engine stopped.
    pub(crate) async fn read_there(
        &self,
        owner: ReactorId,
        volume: VolumeId,
        lba: Lba,
        mut into: Blocks,
    ) -> Result<Blocks, EngineError> {
        if into.len() == 1 {
            let spot = match self.ask(owner, Request::Find { volume, lba }).await {
                Some(Answer::Found(spot)) => spot,
                Some(_) => unreachable!("a question for a place is answered as one"),
                None => return Err(EngineError::Stopped),
            };
            if let Some(spot) = spot
                && self.read_spot(spot, &mut into).await
            {
                return Ok(into);
            }
        }
        let request = Request::Read { volume, lba, into };
        match self.ask(owner, request).await {
            Some(Answer::Read(outcome)) => outcome,
            Some(_) => unreachable!("a read is answered as one"),
            None => Err(EngineError::Stopped),
        }
    }

    fn ask(&self, owner: ReactorId, request: Request) -> impl Future<Output = Option<Answer>> + '_ {
        // Asked of an engine that runs: it will be answered, or closed when that stops.
        let number = self.crossings.open();
        if self.is_stopped() {
            self.crossings.close(number, None);
        } else {
            self.send(owner, Parcel::Ask(number, request));
        }
        self.crossings.answered(number)
    }

    /// Has a parcel sent, soon.
    fn send(&self, to: ReactorId, parcel: Parcel) {
        let outbox = self.crossings.outbox(to);
        let gathered = {
            let mut parcels = outbox.parcels.borrow_mut();
            parcels.push(parcel);
            parcels.len()
        };
        if gathered >= PARCELS_FULL {
            self.dispatch(to);
        } else if gathered == 1 {
            outbox.courier.give();
        }
    }

    /// Sends what gathers for reactor `to`; runs for the engine's life.
    pub(crate) async fn run_courier(self: Rc<Self>, to: ReactorId) {
        while !self.is_stopped() {
            self.crossings.outbox(to).courier.taken().await;
            self.dispatch(to);
        }
    }

    /// Sends what has gathered for reactor `to`.
    fn dispatch(&self, to: ReactorId) {
        let outbox = self.crossings.outbox(to);
        if outbox.parcels.borrow().is_empty() {
            return;
        }
        let spare = outbox.spare.borrow_mut().pop();
        let next = spare.unwrap_or_else(|| Vec::with_capacity(PARCELS_FULL));
        let parcels = outbox.parcels.replace(next);
        let is_ask = |parcel: &&Parcel| matches!(parcel, Parcel::Ask(..));
        let asked = parcels.iter().filter(is_ask).count() as u64;
        self.count("commands_crossed", asked);
        let from = self.reactor;
        self.tell(to, move |there| there.receive(from, parcels));
    }

    /// Parcels of reactor `from` have come.
    fn receive(self: &Rc<Self>, from: ReactorId, mut parcels: Vec<Parcel>) {
        self.look_ahead(&parcels);
        for parcel in parcels.drain(..) {
            match parcel {
                Parcel::Ask(number, request) => self.attend(Caller { home: from, number }, request),
                Parcel::Answer(number, answer) => self.crossings.close(number, Some(answer)),
            }
        }
        // Its memory serves what goes the other way.
        let mut spare = self.crossings.outbox(from).spare.borrow_mut();
        if spare.len() < SPARES_MAX {
            spare.push(parcels);
        }
    }

    /// Has the map's entries fetched that parcels ask for, all at once.
    fn look_ahead(&self, parcels: &[Parcel]) {
        let asked = parcels.iter().filter_map(|parcel| match parcel {
            Parcel::Ask(_, request) => Some(request.block()),
            Parcel::Answer(..) => None,
        });
        let places = asked.map(|(volume, lba)| {
            let leaf = lba.leaf();
            (LeafKey { volume, leaf }, lba.index() as u16)
        });
        self.shard().map.borrow().prefetch(places);
    }

    fn attend(self: &Rc<Self>, caller: Caller, request: Request) {
        let refused = match request {
            Request::Write {
                volume,
                lba,
                data,
                crcs,
            } => self.shard().try_write(volume, lba, data, crcs, caller),
            Request::Find { volume, lba } => {
                let leaf = lba.leaf();
                let spot = self.shard().spot(LeafKey { volume, leaf }, lba.index());
                self.answer(caller, Answer::Found(spot));
                Ok(())
            }
            Request::Read { .. } => Err(request),
        };
        if let Err(request) = refused {
            self.hand_over(caller, request);
        }
    }

    fn hand_over(self: &Rc<Self>, caller: Caller, request: Request) {
        let idle = self.crossings.idle.borrow_mut().pop();
        let hand = idle.unwrap_or_else(|| {
            let hand = Rc::<Hand>::default();
            self.spawn(Rc::clone(self).run_hand(Rc::clone(&hand)));
            hand
        });
        hand.work.set(Some((caller, request)));
        hand.nudge.give();
    }

    async fn run_hand(self: Rc<Self>, hand: Rc<Hand>) {
        while !self.is_stopped() {
            let Some((caller, request)) = hand.work.take() else {
                hand.nudge.taken().await;
                continue;
            };
            if let Some(answer) = self.serve(caller, request).await {
                self.answer(caller, answer);
            }
            self.crossings.idle.borrow_mut().push(Rc::clone(&hand));
        }
    }

    /// Does a command. Nothing for a write that is queued: its acknowledgement is the answer.
    async fn serve(&self, caller: Caller, request: Request) -> Option<Answer> {
        let shard = self.shard();
        match request {
            Request::Write {
                volume,
                lba,
                data,
                crcs,
            } => {
                let written = shard.write_for(caller, volume, lba, data, crcs).await;
                written.map(|outcome| Answer::Written(outcome, None))
            }
            Request::Read {
                volume,
                lba,
                mut into,
            } => {
                let count = into.len();
                let read = shard.read(volume, lba, count, &mut into, 0).await;
                Some(Answer::Read(read.map(|()| into)))
            }
            Request::Find { .. } => unreachable!("a place is told at once"),
        }
    }

    /// Sends an answer to whoever asked, on another reactor.
    pub(crate) fn answer(&self, caller: Caller, answer: Answer) {
        let parcel = Parcel::Answer(caller.number, answer);
        self.send(caller.home, parcel);
    }
}
