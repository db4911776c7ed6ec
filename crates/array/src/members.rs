//! The members of one array: states, losses and their commits, commands to many at once.
//!
//! ```text
//!            fails a command                commit ends well
//!     Live ------------------> Leaving --------------------------> Lost
//!      ^  ^                      ^  |  commit failed: stays, the     |
//!      |   \                     |  +- next command tries again      | replace
//!      |    `-- never back       | fails                             v
//!      +---------------------- Rebuilding <--------------------------+
//!            set_live
//! ```

use crate::flights::Flights;
use crate::join::{Part, join};
use crate::member::{Member, MemberState};
use crate::membership::Membership;
use crate::set::{Cover, MemberSet};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Range;
use varve_io::{Command, Completion, Done, Drive, Event, IoError, Outcome, World};

/// The members of one array.
pub(crate) struct Members {
    seats: RefCell<Vec<Seat>>,
    count: usize,
    cover: Cover,
    membership: Rc<dyn Membership>,
    pub(crate) world: Rc<dyn World>,
    pub(crate) flights: Rc<Flights>,
}

struct Seat {
    drive: Option<Rc<dyn Drive>>,
    base: u64,
    incarnation: u32,
    phase: Phase,
    /// Ranges whose writes were in flight when the drive took its seat, and so were not sent to
    /// it.
    missed: Vec<Range<u64>>,
}

enum Phase {
    Live,
    Leaving(IoError, Option<Rc<Attempt>>),
    Lost,
    Rebuilding,
}

/// One try to commit a loss.
#[derive(Default)]
struct Attempt {
    result: Cell<Option<Result<(), IoError>>>,
    ended: Event,
}

impl Seat {
    fn new(member: Member) -> Self {
        Self {
            drive: member.drive,
            base: member.base,
            incarnation: 0,
            phase: match member.state {
                MemberState::Live => Phase::Live,
                MemberState::Lost => Phase::Lost,
                MemberState::Rebuilding => Phase::Rebuilding,
                MemberState::Leaving => unreachable!("no member is assembled leaving"),
            },
            missed: Vec::new(),
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

    fn those(&self, wanted: impl Fn(MemberState) -> bool) -> MemberSet {
        let mut set = MemberSet::default();
        for (index, seat) in self.seats.borrow().iter().enumerate() {
            if wanted(seat.state()) {
                set.insert(index);
            }
        }
        set
    }

    fn holds(&self, set: MemberSet) -> bool {
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
        let (base, incarnation) = (seat.base, seat.incarnation);
        drop(seats);
        Part::new(member, incarnation, drive.submit(make(base)))
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
                let _flight = this.flights.enter(range);
                let parts = start(&this);
                this.conclude(parts).await
            });
        }
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
            let (member, incarnation) = (part.member, part.incarnation);
            let mut parts = join(alloc::vec![part]).await;
            let part = parts.pop().expect("one part was joined");
            if let Err(why) = part.into_outcome() {
                this.fail(member, incarnation, why);
                return Err(why);
            }
            Ok(Done::Nothing)
        })
    }

    /// Flushes every member that takes writes.
    pub(crate) fn flush(self: &Rc<Self>) -> Completion {
        if !self.holds(self.live()) {
            return Completion::ready(Err(IoError::Gone));
        }
        let this = Rc::clone(self);
        let parts = self.broadcast(|_, _| Command::Flush);
        Completion::flow(async move { this.conclude(parts).await })
    }

    /// Sends a hint to every member that takes writes; how it ends there is of no consequence.
    pub(crate) fn hint(self: &Rc<Self>, make: impl Fn(u64) -> Command) -> Completion {
        let parts = self.broadcast(|_, base| make(base));
        Completion::flow(async move {
            drop(join(parts).await);
            Ok(Done::Nothing)
        })
    }

    /// Starts a command on every member that takes writes. `make` takes member and base.
    pub(crate) fn broadcast(&self, make: impl Fn(usize, u64) -> Command) -> Vec<Part> {
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

    /// Awaits a command that was sent to every member that takes writes, and judges it: who
    /// failed it or was left out is lost, and the loss committed, before it is a success.
    async fn conclude(self: &Rc<Self>, parts: Vec<Part>) -> Outcome {
        let parts = join(parts).await;
        let mut good = MemberSet::default();
        let mut first_error = None;
        for part in &parts {
            match part.error() {
                None => good.insert(part.member),
                Some(why) => first_error = first_error.or(Some(why)),
            }
        }
        if !self.holds(self.live().and(good)) {
            return Err(first_error.unwrap_or(IoError::Gone));
        }
        for part in &parts {
            if let Some(why) = part.error() {
                self.fail(part.member, part.incarnation, why);
            }
        }
        while let Some(member) = self.leaving_outside(good) {
            self.settle(member).await?;
        }
        // Members may have been lost to other commands meanwhile.
        if !self.holds(self.live().and(good)) {
            return Err(first_error.unwrap_or(IoError::Gone));
        }
        Ok(Done::Nothing)
    }

    fn leaving_outside(&self, good: MemberSet) -> Option<usize> {
        let leaving = self.those(|state| state == MemberState::Leaving);
        (0..self.count).find(|&member| leaving.contains(member) && !good.contains(member))
    }

    /// Notes how a read ended: a drive that is gone is lost.
    pub(crate) fn note_read(self: &Rc<Self>, part: &Part) {
        if part.error() == Some(IoError::Gone) {
            self.fail(part.member, part.incarnation, IoError::Gone);
        }
    }

    /// Gives a member up, unless the others would not hold everything, or it is another drive by
    /// now; starts to commit the loss.
    pub(crate) fn fail(self: &Rc<Self>, member: usize, incarnation: u32, why: IoError) {
        let is_spare = self.holds(self.live().without(member));
        {
            let mut seats = self.seats.borrow_mut();
            let seat = &mut seats[member];
            if seat.incarnation != incarnation {
                return;
            }
            match seat.phase {
                Phase::Live if is_spare => {}
                Phase::Rebuilding => {}
                Phase::Live | Phase::Leaving(..) | Phase::Lost => return,
            }
            seat.phase = Phase::Leaving(why, None);
        }
        self.attempt(member);
    }

    /// The running attempt to commit the loss of `member`, begun if there is none; `None` if the
    /// member is not leaving.
    fn attempt(self: &Rc<Self>, member: usize) -> Option<Rc<Attempt>> {
        let attempt = Rc::new(Attempt::default());
        let why = {
            let mut seats = self.seats.borrow_mut();
            let Phase::Leaving(why, running) = &mut seats[member].phase else {
                return None;
            };
            if let Some(running) = running {
                return Some(Rc::clone(running));
            }
            *running = Some(Rc::clone(&attempt));
            *why
        };
        let commit = self.membership.lost(member, why);
        let (this, mine) = (Rc::clone(self), Rc::clone(&attempt));
        self.world.spawn(Box::pin(async move {
            let result = commit.await.map(|_| ());
            this.end_attempt(member, &mine, result);
        }));
        Some(attempt)
    }

    fn end_attempt(&self, member: usize, attempt: &Rc<Attempt>, result: Result<(), IoError>) {
        let mut seats = self.seats.borrow_mut();
        let seat = &mut seats[member];
        if let Phase::Leaving(why, Some(running)) = &seat.phase
            && Rc::ptr_eq(running, attempt)
        {
            seat.phase = match result {
                Ok(()) => Phase::Lost,
                Err(_) => Phase::Leaving(*why, None),
            };
        }
        drop(seats);
        attempt.result.set(Some(result));
        attempt.ended.notify();
    }

    /// Ends when the loss of a leaving member is committed, or could not be.
    async fn settle(self: &Rc<Self>, member: usize) -> Result<(), IoError> {
        let Some(attempt) = self.attempt(member) else {
            return Ok(());
        };
        loop {
            if let Some(result) = attempt.result.get() {
                return result;
            }
            attempt.ended.listen().await;
        }
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
        seat.incarnation += 1;
        seat.drive = Some(drive);
        seat.base = base;
        seat.missed = missed;
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
        seat.phase = Phase::Lost;
    }

    /// Ranges a rebuilding member was not sent.
    pub(crate) fn missed(&self, member: usize) -> Vec<Range<u64>> {
        self.seats.borrow()[member].missed.clone()
    }

    /// The missed ranges were copied.
    pub(crate) fn clear_missed(&self, member: usize) {
        self.seats.borrow_mut()[member].missed.clear();
    }

    /// True if some member with a drive can lose completed writes with the power.
    pub(crate) fn has_volatile_cache(&self) -> bool {
        let seats = self.seats.borrow();
        let mut drives = seats.iter().filter_map(|seat| seat.drive.as_ref());
        drives.any(|drive| drive.info().volatile_cache)
    }
}

fn illegal(member: usize, from: MemberState, to: MemberState) -> ! {
    panic!("member {member}: illegal transition from {from} to {to}");
}
