//! The members of one array: their states, commands to many of them at once.
//!
//! ```text
//!        fails a command, is given up        commit ends well
//!     Live ------------------> Leaving --------------------------> Lost
//!      ^  ^                      ^  |  commit failed: stays, the     |
//!      |   \                     |  +- next command tries again      | replace
//!      |    `-- never back       | fails                             v
//!      +---------------------- Rebuilding <--------------------------+
//!            set_live
//! ```

use crate::faults::{Ask, Faults};
use crate::flights::Flights;
use crate::former::Former;
use crate::join::{Part, Sent};
use crate::loss::Attempt;
use crate::member::{Member, MemberState};
use crate::membership::Membership;
use crate::set::{Cover, MemberSet};
use crate::silence::{Silences, Silent};
use crate::waiters::Waiters;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Range;
use varve_io::{Command, Completion, Done, Drive, DriveInfo, IoError, Outcome, World};

/// The members of one array.
pub(crate) struct Members {
    pub(crate) seats: RefCell<Vec<Seat>>,
    count: usize,
    cover: Cover,
    pub(crate) membership: Rc<dyn Membership>,
    pub(crate) world: Rc<dyn World>,
    pub(crate) flights: Rc<Flights>,
    pub(crate) waiters: Waiters,
    is_stopping: Cell<bool>,
    has_former: Cell<bool>,
    pub(crate) silences: Silences,
}

pub(crate) struct Seat {
    /// Nothing once the loss is committed: what was begun holds the drive until it has ended, and then
    /// nobody here has it open any more.
    drive: Option<Rc<dyn Drive>>,
    /// What a lost drive said of itself. It counts for the array after its loss too: what the array
    /// promises must not change while it is in use.
    past: Option<DriveInfo>,
    base: u64,
    pub(crate) incarnation: u32,
    pub(crate) phase: Phase,
    /// Nobody waits for its drive any more: its loss is committed, or could not be.
    pub(crate) has_left: bool,
    /// Held by every command that a drive in this seat was sent, whichever drive, until that has
    /// ended there.
    begun: Rc<()>,
    /// A copy to it was begun since it took its seat here.
    is_filling: bool,
    /// Ranges whose writes were in flight when the drive took its seat, and so were not sent to
    /// it.
    missed: Vec<Range<u64>>,
    /// The drive that sat here before, kept, until another one is filled.
    pub(crate) former: Option<Former>,
    /// Of the drive that sits here.
    pub(crate) faults: Faults,
    /// That it did not answer the last read it was sent.
    pub(crate) silent: Option<Silent>,
}

pub(crate) enum Phase {
    Live,
    Leaving(IoError, Option<Rc<Attempt>>),
    Lost,
    Rebuilding,
}

impl Seat {
    fn new(member: Member) -> Self {
        Self {
            past: None,
            drive: member.drive,
            base: member.base,
            incarnation: 0,
            phase: match member.state {
                MemberState::Live => Phase::Live,
                MemberState::Lost => Phase::Lost,
                MemberState::Rebuilding => Phase::Rebuilding,
                MemberState::Leaving => Phase::Leaving(IoError::Gone, None),
            },
            has_left: false,
            begun: Rc::new(()),
            is_filling: false,
            missed: Vec::new(),
            former: None,
            faults: Faults::default(),
            silent: None,
        }
    }

    fn state(&self) -> MemberState {
        match self.phase {
            Phase::Live => MemberState::Live,
            Phase::Leaving(..) => MemberState::Leaving,
            Phase::Lost => MemberState::Lost,
            Phase::Rebuilding => MemberState::Rebuilding,
        }
    }

    /// Takes no commands any more; its drive is the caller's to drop, when nothing here is borrowed.
    pub(crate) fn lose(&mut self) -> Option<Rc<dyn Drive>> {
        self.past = self.info();
        self.phase = Phase::Lost;
        self.has_left = true;
        self.drive.take()
    }

    /// What a command that is sent to its drive holds.
    pub(crate) fn begin(&self) -> Rc<()> {
        Rc::clone(&self.begun)
    }

    /// What its drive says of itself, or said.
    fn info(&self) -> Option<DriveInfo> {
        self.drive.as_deref().map(Drive::info).or(self.past)
    }
}

impl Members {
    pub(crate) fn new(
        members: Vec<Member>,
        cover: Cover,
        membership: Rc<dyn Membership>,
        world: Rc<dyn World>,
    ) -> Rc<Self> {
        Rc::new(Self {
            count: members.len(),
            seats: RefCell::new(members.into_iter().map(Seat::new).collect()),
            cover,
            membership,
            world,
            flights: Rc::default(),
            waiters: Waiters::default(),
            is_stopping: Cell::new(false),
            has_former: Cell::new(false),
            silences: Silences::default(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn state(&self, member: usize) -> MemberState {
        self.seats.borrow()[member].state()
    }

    pub(crate) fn is_live(&self, member: usize) -> bool {
        self.state(member) == MemberState::Live
    }

    /// What a read says that would go through a member which is not live. One that was given up for good has no say
    /// in what is lost. Any other may yet have what the rest do not: one on its way out as long as the labels do not say
    /// that it is lost, and one that is filled, which has what was copied or written to it. Of a mirror one that was away
    /// from the start has none: what a reader writes down there, that something is lost too, commits its loss first.
    pub(crate) fn absence(&self, member: usize) -> IoError {
        let seat = &self.seats.borrow()[member];
        let may_return = match seat.phase {
            Phase::Live => true,
            Phase::Leaving(..) => seat.drive.is_some() || self.cover != Cover::Any,
            Phase::Lost => false,
            Phase::Rebuilding => seat.is_filling,
        };
        if may_return {
            IoError::Gone
        } else {
            IoError::GivenUp
        }
    }

    /// The same of a read that needs all of these; nothing if there are none.
    pub(crate) fn absence_of(&self, missing: impl Iterator<Item = usize>) -> Option<IoError> {
        let absences = missing.map(|member| self.absence(member));
        absences.reduce(|one, other| match other {
            IoError::GivenUp => other,
            _ => one,
        })
    }

    /// A copy to a rebuilding member begins.
    pub(crate) fn begin_filling(&self, member: usize) {
        self.seats.borrow_mut()[member].is_filling = true;
    }

    /// Which drive in that seat; rises by one with each replacement.
    pub(crate) fn incarnation(&self, member: usize) -> u32 {
        self.seats.borrow()[member].incarnation
    }

    /// Members that hold everything.
    pub(crate) fn live(&self) -> MemberSet {
        self.those(|state| state == MemberState::Live)
    }

    /// Members that take writes.
    pub(crate) fn written(&self) -> MemberSet {
        self.those(|state| matches!(state, MemberState::Live | MemberState::Rebuilding))
    }

    pub(crate) fn those(&self, wanted: impl Fn(MemberState) -> bool) -> MemberSet {
        let mut set = MemberSet::default();
        for (index, seat) in self.seats.borrow().iter().enumerate() {
            if wanted(seat.state()) {
                set.insert(index);
            }
        }
        set
    }

    pub(crate) fn holds(&self, set: MemberSet) -> bool {
        self.cover.holds(set, self.count)
    }

    /// Starts a command on one member. `make` builds it from the member's base.
    ///
    /// # Panics
    /// If the member has no drive.
    pub(crate) fn send(&self, member: usize, make: impl FnOnce(u64) -> Command) -> Part {
        let seats = self.seats.borrow();
        let seat = &seats[member];
        let drive = Rc::clone(seat.drive.as_ref().expect("a member in use has a drive"));
        let (base, incarnation, begun) = (seat.base, seat.incarnation, seat.begin());
        drop(seats);
        let command = make(base);
        let ask = Ask::of(&command);
        let sent = Sent {
            member,
            incarnation,
            silences: self.silences.count(),
            ask,
        };
        Part::new(sent, drive.submit(command), begun)
    }

    /// Starts a write of the member range `range` on the members `start` chooses, and returns its
    /// future. Waits first if the range is held.
    ///
    /// While a member rebuilds the write's end is a task of its own: a copy may wait for it, and
    /// must not depend on the order in which the caller awaits its writes.
    pub(crate) fn write(
        self: &Rc<Self>,
        range: Range<u64>,
        start: impl FnOnce(&Self) -> Vec<Part> + 'static,
    ) -> Completion {
        if !self.holds(self.live()) {
            return Completion::ready(Err(IoError::Gone));
        }
        let this = Rc::clone(self);
        if self.flights.is_held(&range) {
            return self.detached(async move {
                this.flights.released(&range).await;
                this.note_written(&range);
                let _flight = this.flights.enter(range);
                let parts = start(&this);
                this.conclude(parts).await
            });
        }
        self.note_written(&range);
        let flight = self.flights.enter(range);
        let parts = start(self);
        let ending = async move {
            let _flight = flight;
            this.conclude(parts).await
        };
        if self.those(|state| state == MemberState::Rebuilding).len() > 0 {
            return self.detached(ending);
        }
        Completion::flow(ending)
    }

    /// Writes to one member only, in the member range `range`.
    pub(crate) fn repair(
        self: &Rc<Self>,
        range: Range<u64>,
        member: usize,
        start: impl FnOnce(&Self) -> Part + 'static,
    ) -> Completion {
        let this = Rc::clone(self);
        self.detached(async move {
            this.flights.released(&range).await;
            if !this.is_live(member) {
                return Err(IoError::Gone);
            }
            let _flight = this.flights.enter(range);
            let part = start(&this);
            let Sent {
                member,
                incarnation,
                ..
            } = part.sent;
            if let Err(why) = this.one(part).await.into_outcome() {
                this.fail(member, incarnation, why);
                return Err(why);
            }
            this.note_repair(member, incarnation);
            Ok(Done::Nothing)
        })
    }

    /// Flushes every member that takes writes. Whoever was asked may be lost before it answers, and
    /// another drive be live in its place by then: that is asked, too.
    pub(crate) fn flush(self: &Rc<Self>) -> Completion {
        if !self.holds(self.live()) {
            return Completion::ready(Err(IoError::Gone));
        }
        let this = Rc::clone(self);
        let mut parts = self.broadcast(|_, _| Command::Flush);
        Completion::flow(async move {
            loop {
                let asked: Vec<_> = parts.iter().map(|part| part.sent).collect();
                let outcome = this.conclude(parts).await;
                if outcome.is_ok() || !this.has_others(&asked) {
                    return outcome;
                }
                parts = this.broadcast(|_, _| Command::Flush);
            }
        })
    }

    /// True if a live member is none of these.
    fn has_others(&self, asked: &[Sent]) -> bool {
        let live = self.live();
        let seats = self.seats.borrow();
        let mut seats = seats.iter().enumerate();
        seats.any(|(member, seat)| {
            let is_it = |sent: &Sent| sent.member == member && sent.incarnation == seat.incarnation;
            live.contains(member) && !asked.iter().any(is_it)
        })
    }

    /// Sends a hint to every member that takes writes; how it ends there is of no consequence.
    pub(crate) fn hint(self: &Rc<Self>, make: impl Fn(u64) -> Command) -> Completion {
        let parts = self.broadcast(|_, base| make(base));
        let this = Rc::clone(self);
        Completion::flow(async move {
            drop(this.join(parts).await);
            Ok(Done::Nothing)
        })
    }

    /// Starts a command on every member that takes writes. `make` takes member and base.
    pub(crate) fn broadcast(&self, mut make: impl FnMut(usize, u64) -> Command) -> Vec<Part> {
        let set = self.written();
        (0..self.count)
            .filter(|&member| set.contains(member))
            .map(|member| self.send(member, |base| make(member, base)))
            .collect()
    }

    /// Runs a flow as a task and returns the future of its end.
    fn detached(&self, flow: impl Future<Output = Outcome> + 'static) -> Completion {
        let (sender, completion) = Completion::waiting();
        self.world
            .spawn(Box::pin(async move { sender.send(flow.await) }));
        completion
    }

    /// Lost to Rebuilding, with another drive.
    pub(crate) fn replace(&self, member: usize, drive: Rc<dyn Drive>, base: u64) {
        let missed = self.flights.in_flight();
        let mut seats = self.seats.borrow_mut();
        let seat = &mut seats[member];
        if !matches!(seat.phase, Phase::Lost) {
            illegal(member, seat.state(), MemberState::Rebuilding);
        }
        seat.phase = Phase::Rebuilding;
        seat.has_left = false;
        seat.incarnation += 1;
        seat.is_filling = false;
        seat.drive = Some(drive);
        seat.base = base;
        seat.missed = missed;
        seat.faults = Faults::default();
        seat.silent = None;
    }

    /// Keeps the drive of a live member, to read from while another one is filled. To be called before the
    /// member is given up: what is written from then on counts as not on that drive.
    pub(crate) fn keep(&self, member: usize) {
        // Who knows how writes in flight end there.
        let in_flight = self.flights.in_flight();
        let mut seats = self.seats.borrow_mut();
        let seat = &mut seats[member];
        let is_live = matches!(seat.phase, Phase::Live);
        let Some(drive) = seat.drive.clone().filter(|_| is_live) else {
            illegal(member, seat.state(), MemberState::Lost);
        };
        seat.former = Some(Former::new(drive, seat.base, in_flight));
        self.has_former.set(true);
    }

    /// Ways to read more than usual: through a drive that is kept.
    pub(crate) fn kept_ways(&self) -> u8 {
        u8::from(self.has_former.get())
    }

    /// Lets go of the drive that was kept at a seat.
    pub(crate) fn release_former(&self, member: usize) {
        let former = self.seats.borrow_mut()[member].former.take();
        drop(former);
        let seats = self.seats.borrow();
        let mut seats = seats.iter();
        self.has_former.set(seats.any(|seat| seat.former.is_some()));
    }

    /// A range is written from now on, without the drives that are kept.
    fn note_written(&self, range: &Range<u64>) {
        if !self.has_former.get() {
            return;
        }
        for seat in &mut *self.seats.borrow_mut() {
            if let Some(former) = &mut seat.former {
                former.note(range.clone());
            }
        }
    }

    /// Rebuilding to Live.
    pub(crate) fn set_live(&self, member: usize) {
        let mut seats = self.seats.borrow_mut();
        let seat = &mut seats[member];
        if !matches!(seat.phase, Phase::Rebuilding) {
            illegal(member, seat.state(), MemberState::Live);
        }
        assert!(
            seat.missed.is_empty(),
            "member {member} goes live before writes it missed were copied"
        );
        seat.phase = Phase::Live;
    }

    /// Live, Leaving or Rebuilding to Lost: the loss is committed already.
    pub(crate) fn set_lost(&self, member: usize) {
        let mut seats = self.seats.borrow_mut();
        let seat = &mut seats[member];
        if matches!(seat.phase, Phase::Lost) {
            illegal(member, seat.state(), MemberState::Lost);
        }
        let drive = seat.lose();
        drop(seats);
        drop(drive);
        self.waiters.wake(member);
    }

    /// True if nobody waits any more for the drive that a part was sent to.
    pub(crate) fn has_left(&self, sent: &Sent) -> bool {
        let seat = &self.seats.borrow()[sent.member];
        seat.has_left || seat.incarnation != sent.incarnation
    }

    /// True if every command that the drives of a seat were ever sent has ended there.
    pub(crate) fn is_drained(&self, member: usize) -> bool {
        Rc::strong_count(&self.seats.borrow()[member].begun) == 1
    }

    /// True if all members but this one hold everything.
    pub(crate) fn can_spare(&self, member: usize) -> bool {
        self.holds(self.live().without(member))
    }

    /// Lets copies to rebuilding members end early.
    pub(crate) fn stop_copies(&self) {
        self.is_stopping.set(true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.get()
    }

    /// Ranges a rebuilding member was not sent.
    pub(crate) fn missed(&self, member: usize) -> Vec<Range<u64>> {
        self.seats.borrow()[member].missed.clone()
    }

    /// The missed ranges were copied.
    pub(crate) fn clear_missed(&self, member: usize) {
        self.seats.borrow_mut()[member].missed.clear();
    }

    /// True if some member that has or had a drive can lose completed writes with the power.
    pub(crate) fn has_volatile_cache(&self) -> bool {
        let seats = self.seats.borrow();
        let mut infos = seats.iter().filter_map(Seat::info);
        infos.any(|info| info.volatile_cache)
    }

    /// Placement handles that all of them have.
    pub(crate) fn handles(&self) -> u8 {
        let seats = self.seats.borrow();
        let infos = seats.iter().filter_map(Seat::info);
        infos.map(|info| info.handles).min().unwrap_or(1)
    }

    /// Blocks that cost none of them more to read than a command does.
    pub(crate) fn gap_blocks(&self) -> u8 {
        let seats = self.seats.borrow();
        let infos = seats.iter().filter_map(Seat::info);
        infos.map(|info| info.gap_blocks).min().unwrap_or(0)
    }
}

fn illegal(member: usize, from: MemberState, to: MemberState) -> ! {
    panic!("member {member}: illegal transition from {from} to {to}");
}
