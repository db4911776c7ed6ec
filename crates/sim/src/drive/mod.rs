//! The simulated drive: latency, a volatile cache, faults, a trace.
//!
//! A [`SimDrive`] outlives crashes; [`SimDrive::attach`] gives the [`Drive`] that one life of the
//! pool uses. Commands complete out of order. A write becomes visible to reads at some moment
//! between submission and completion.
//!
//! Faults lie over pristine content: a flaw hides a sector until the sector is written again.
//! Each flaw is claimed from the fault atlas first and released when it ends.
//!
//! [`SimDrive`] is what the simulator holds, `State` what it is, `Attached` what the pool sees.
//!
//! **Not here**: whether a fault may strike (`atlas`), when (`scenario`).

mod ailment;
mod attached;
mod former;
mod misread;
mod refusal;
mod spell;
mod state;

pub use misread::Misread;
pub use refusal::Refusals;

use crate::atlas::Atlas;
use crate::cache::Cache;
use crate::executor::Reactor;
use crate::laps::Laps;
use crate::platter::Platter;
use crate::rng::Rng;
use crate::shortage::Refusal;
use ailment::Ailments;
use attached::Attached;
use former::Former;
use spell::Spells;
use state::{Flaw, State, sectors};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use varve_io::{Drive, Gather, IoError, Sectors};
use varve_units::{BLOCK_BYTES, Nanos, SECTOR};

/// What a drive is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveSpec {
    /// Size in bytes.
    pub bytes: u64,
    /// 512 or 4096.
    pub lba_bytes: u32,
    /// True if completed writes wait for a flush.
    pub volatile_cache: bool,
    /// Placement handles that writes can name.
    pub handles: u8,
    /// Blocks that are read to save a command.
    pub gap_blocks: u8,
    /// True if repairs of single blocks may hang.
    pub hangs_repairs: bool,
}

/// A fault that strikes the next write the atlas lets it strike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteFault {
    /// Acknowledged, but nothing was written.
    Lost,
    /// Acknowledged, but written this many logical blocks further (modulo the drive).
    Misdirected(u64),
    /// Refused with a media error; nothing was written.
    Error,
    /// Refused with this error; all of it was written, or a part.
    Refused(IoError),
}

/// A bay of the simulated machine and the drive in it, surviving the crashes of the pool.
pub struct SimDrive(RefCell<Rc<RefCell<State>>>, Former);

impl SimDrive {
    /// A blank drive, number `index` of the pool.
    #[must_use]
    pub fn new(index: usize, spec: DriveSpec, rng: Rng, atlas: Rc<RefCell<Atlas>>) -> Self {
        assert!(spec.bytes.is_multiple_of(BLOCK_BYTES), "whole blocks");
        let state = State {
            index,
            spec,
            rng,
            platter: Platter::default(),
            cache: Cache::default(),
            flaws: BTreeMap::new(),
            armed: Vec::new(),
            misreads: Vec::new(),
            doomed: Vec::new(),
            refusals: None,
            atlas,
            is_gone: false,
            is_given_up: false,
            ailments: Ailments::default(),
            has_returned: false,
            incarnation: 0,
            spells: Spells::default(),
            outage: None,
            laps: None,
            next: 0,
            trace: VecDeque::new(),
            tally: BTreeMap::new(),
        };
        Self(
            RefCell::new(Rc::new(RefCell::new(state))),
            Former::default(),
        )
    }

    /// The drive that is in the bay.
    fn state(&self) -> Rc<RefCell<State>> {
        Rc::clone(&self.0.borrow())
    }

    /// From now on `laps` sees every write.
    pub fn watch(&self, laps: Rc<RefCell<Laps>>) {
        self.state().borrow_mut().laps = Some(laps);
    }

    /// From now on it refuses writes with the other drives of its tier.
    pub fn join(&self, refusals: Rc<RefCell<Refusals>>) {
        self.state().borrow_mut().refusals = Some(refusals);
    }

    /// The drive as one life of the pool sees it.
    #[must_use]
    pub fn attach(&self, reactor: &Rc<Reactor>) -> Rc<dyn Drive> {
        Rc::new(Attached {
            incarnation: self.state().borrow().incarnation,
            state: self.state(),
            reactor: Rc::clone(reactor),
        })
    }

    /// Smallest unit of a transfer.
    #[must_use]
    pub fn lba_bytes(&self) -> u64 {
        u64::from(self.state().borrow().spec.lba_bytes)
    }

    /// Writes that were sent and that no read sees yet.
    #[must_use]
    pub fn writes_in_flight(&self) -> usize {
        self.state().borrow().cache.in_flight()
    }

    /// The power fails: whatever was not durable is kept, lost or torn.
    pub fn power_fail(&self) {
        self.1.power_fail();
        let state = self.state();
        let state = &mut *state.borrow_mut();
        let lba_bytes = u64::from(state.spec.lba_bytes);
        let is_unflushed = state.ailments.is_unflushed && state.rng.chance(1, 2);
        let (platter, rng) = (&mut state.platter, &mut state.rng);
        state.cache.fail(platter, rng, lba_bytes, is_unflushed);
        state.ailments.is_unflushed = false;
        state.doomed.clear();
        if let Some(refusals) = &state.refusals {
            refusals.borrow_mut().forget();
        }
        state.spells = Spells::default();
        state.ailments.labels_until = Nanos(0);
        state.outage = None;
    }

    /// Reads of a range near a random written place fail until it is rewritten. False if the
    /// atlas refuses.
    pub fn break_media(&self, rng: &mut Rng) -> bool {
        self.plant("media_error", rng, |_| Flaw::Media)
    }

    /// Bits flip in a range near a random written place. False if the atlas refuses.
    pub fn rot(&self, rng: &mut Rng) -> bool {
        self.plant("bit_rot", rng, |rng| Flaw::Rot {
            byte: rng.index(SECTOR),
            mask: 1 << rng.below(8),
        })
    }

    /// Reads of a range near a random written place fail for good, whatever is written there; if it `refuses`,
    /// writes do too, and the drive is as good as lost. False if the atlas refuses.
    pub fn break_for_good(&self, rng: &mut Rng, refuses: bool) -> bool {
        if refuses && !self.condemn() {
            return false;
        }
        let flaw = |_: &mut Rng| Flaw::Bad {
            refuses,
            is_rewritten: false,
        };
        if !refuses {
            return self.plant("bad_range", rng, flaw);
        }
        let state = self.state();
        let state = &mut *state.borrow_mut();
        if let Some(range) = state.written_range(rng) {
            let flaws = sectors(&range).map(|sector| (sector, flaw(rng)));
            state.flaws.extend(flaws);
            state.count("bad_range_refusing");
        }
        true
    }

    /// Every write is refused from now on; reads and flushes work. False if the atlas refuses.
    pub fn turn_read_only(&self) -> bool {
        let may = self.condemn();
        if may {
            self.state().borrow_mut().ailments.is_read_only = true;
        }
        may
    }

    /// The next flush fails, or all from now on, while everything else works. False if the atlas refuses.
    pub fn fail_flushes(&self, error: IoError, is_single: bool) -> bool {
        let may = self.condemn();
        if may {
            self.state().borrow_mut().ailments.flush = Some((error, is_single));
        }
        may
    }

    /// Whoever meets what comes may stop using the drive: to the atlas it is lost.
    fn condemn(&self) -> bool {
        let state = self.state();
        let state = state.borrow();
        !state.is_gone && state.atlas.borrow_mut().lose(state.index)
    }

    fn plant(&self, name: &'static str, rng: &mut Rng, flaw: impl Fn(&mut Rng) -> Flaw) -> bool {
        let state = self.state();
        let state = &mut *state.borrow_mut();
        if state.is_gone {
            return false;
        }
        let Some(range) = state.written_range(rng) else {
            return false;
        };
        if !state.claim(&range) {
            return false;
        }
        for sector in sectors(&range) {
            state.put_flaw(sector, flaw(rng));
        }
        state.count(name);
        true
    }

    /// The next write that the atlas lets it strike meets this fault.
    pub fn arm(&self, fault: WriteFault) {
        self.state().borrow_mut().armed.push(fault);
    }

    /// The next read that the atlas lets it strike goes elsewhere.
    pub fn misdirect_read(&self, misread: Misread) {
        self.state().borrow_mut().misreads.push(misread);
    }

    /// The next write of its tier that the atlas lets it strike is stored, all of it or a part, and refused.
    /// Nothing happens to a drive of a tier that refuses none.
    pub fn arm_refusal(&self, error: IoError) {
        if let Some(refusals) = &self.state().borrow().refusals {
            refusals.borrow_mut().arm(error);
        }
    }

    /// The next flush of its tier that the atlas lets it strike fails on all of its drives. Nothing happens to a
    /// drive of a tier that refuses none.
    pub fn arm_flush_refusal(&self, error: IoError) {
        if let Some(refusals) = &self.state().borrow().refusals {
            refusals.borrow_mut().arm_flush(error);
        }
    }

    /// Forgets faults that have not struck yet; there is room again.
    pub fn disarm(&self) {
        let state = self.state();
        let state = &mut *state.borrow_mut();
        state.armed.clear();
        state.misreads.clear();
        if let Some(refusals) = &state.refusals {
            refusals.borrow_mut().disarm();
        }
        state.outage = None;
    }

    /// Commands are refused until `until`: the file system beneath a sparse drive is full, or the drive is away. Not for a
    /// drive whose peers could do without it: it would be lost, and the atlas does not know.
    pub fn run_out(&self, refusal: Refusal, until: Nanos) {
        self.state().borrow_mut().outage = Some((refusal, until));
    }

    /// True if redundancy can do without it, as it is now.
    #[must_use]
    pub fn may_be_lost(&self) -> bool {
        let state = self.state();
        let state = state.borrow();
        state.atlas.borrow().may_lose(state.index)
    }

    /// Every command fails from now on. False if the atlas refuses.
    pub fn lose(&self) -> bool {
        let state = self.state();
        let state = &mut *state.borrow_mut();
        let index = state.index;
        if !state.atlas.borrow_mut().lose(index) {
            return false;
        }
        state.is_gone = true;
        state.count("gone");
        true
    }

    /// True if it has places that stay bad whatever is written there.
    #[must_use]
    pub fn has_bad_places(&self) -> bool {
        let state = self.state();
        let state = state.borrow();
        let mut flaws = state.flaws.values();
        flaws.any(|flaw| matches!(flaw, Flaw::Bad { .. }))
    }

    /// Every command fails from now on, if the atlas counts it as lost: it took no writes, say, or was not whole yet.
    pub fn leave(&self) {
        let state = self.state();
        let state = &mut *state.borrow_mut();
        if state.atlas.borrow().is_lost(state.index) && !state.is_gone {
            state.is_gone = true;
            state.count("gone");
        }
    }

    /// True while it does not answer.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.state().borrow().is_gone
    }

    /// Answers again, with what it held. The atlas still counts it as lost.
    pub fn come_back(&self) {
        let state = self.state();
        let state = &mut *state.borrow_mut();
        assert!(state.is_gone, "only a lost drive comes back");
        state.is_gone = false;
        state.has_returned = true;
        state.count("came_back");
    }

    /// True if it answers again with what it held, and may have missed writes.
    #[must_use]
    pub fn has_returned(&self) -> bool {
        self.state().borrow().has_returned
    }

    /// The pool gave it up while it was away for a while: it answers, and what is written it is not sent.
    pub fn miss_writes(&self) {
        let state = self.state();
        let state = &mut *state.borrow_mut();
        let may = state.atlas.borrow_mut().lose(state.index);
        assert!(may, "nothing went wrong while it was away");
        state.has_returned = true;
    }

    /// The pool says that a drive that returned holds all it should: it never missed a write.
    pub fn found_whole(&self) {
        let state = self.state();
        let state = &mut *state.borrow_mut();
        assert!(state.has_returned, "only what was away is found whole");
        state.has_returned = false;
        state.atlas.borrow_mut().found_whole(state.index);
        state.count("returned_whole");
    }

    /// A blank drive takes its place, reached by attaching anew: who attached before finds the old
    /// one gone. The atlas still counts it as lost.
    pub fn replace(&self) {
        let state = self.state();
        let state = &mut *state.borrow_mut();
        self.1.take_out(state.taken_out());
        state.cache.clear();
        state.flaws.clear();
        state.doomed.clear();
        state.is_gone = false;
        state.ailments = Ailments::default();
        state.has_returned = false;
        state.incarnation += 1;
        state.count("replaced");
    }

    /// A blank drive takes its place, which works: who attached before goes on with it, until the power fails. The
    /// atlas is to count it as lost, so nothing strikes either of them. What it reads wrong without a word ends: a copy
    /// of it would be wrong there too, unknown to the atlas.
    pub fn hand_over(&self) {
        let old = self.state();
        let fails = |flaw: &Flaw| matches!(flaw, Flaw::Media | Flaw::Bad { .. });
        old.borrow_mut().flaws.retain(|_, flaw| fails(flaw));
        let new = old.borrow_mut().successor();
        self.0.replace(Rc::new(RefCell::new(new)));
        self.1.take_out(old);
    }

    /// The pool says that another drive holds all that it should in this place: the one before is given up for good.
    pub fn note_given_up(&self) {
        self.1.give_up();
    }

    /// The drive that was given up last, put back beside the one in its place, with what it holds.
    pub fn put_back(&self, reactor: &Rc<Reactor>) -> Option<Rc<dyn Drive>> {
        let state = self.1.put_back()?;
        let incarnation = state.borrow().incarnation;
        self.state().borrow_mut().count("put_back");
        Some(Rc::new(Attached {
            incarnation,
            state,
            reactor: Rc::clone(reactor),
        }))
    }

    /// Everything takes a hundred times as long until `until`.
    pub fn slow_down(&self, until: Nanos) {
        let state = self.state();
        let state = &mut *state.borrow_mut();
        state.spells.slow.begin(until);
    }

    /// Some reads take sixty times as long until `until`: much is moved and reused under them.
    pub fn slow_reads(&self, until: Nanos) {
        let state = self.state();
        let state = &mut *state.borrow_mut();
        state.spells.slow_reads.begin(until);
    }

    /// A read now and then hangs until `until`, and is answered long after the others.
    pub fn hang_reads(&self, until: Nanos) {
        let state = self.state();
        let state = &mut *state.borrow_mut();
        state.spells.hung_reads.begin(until);
    }

    /// As [`SimDrive::hang_reads`], many reads of leaves and no others.
    pub fn hang_leaf_reads(&self, until: Nanos) {
        let state = self.state();
        let state = &mut *state.borrow_mut();
        state.spells.hung_leaves.begin(until);
    }

    /// Lifts all flaws: the content is pristine again. A range that refuses writes goes on doing so: its drive is lost.
    pub fn heal(&self) {
        let state = self.state();
        let state = &mut *state.borrow_mut();
        let all = 0..state.spec.bytes;
        state
            .flaws
            .retain(|_, flaw| matches!(flaw, Flaw::Bad { refuses: true, .. }));
        state.armed.clear();
        state.misreads.clear();
        state.atlas.borrow_mut().release(state.index, all);
    }

    /// Faults that struck, by name.
    #[must_use]
    pub fn tally(&self) -> BTreeMap<&'static str, u64> {
        self.state().borrow().tally.clone()
    }

    /// The last commands, oldest first, a line each.
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        let state = self.state();
        let state = state.borrow();
        let lines = state.trace.iter().map(|line| {
            format!(
                "drive {} at {}: {} {:#x}+{:#x} {}",
                state.index, line.at, line.kind, line.offset, line.length, line.outcome
            )
        });
        lines.collect()
    }
}

/// Sectors of metadata as a gather of its own.
#[must_use]
pub fn gather_of(sectors: Sectors) -> Gather {
    let mut gather = Gather::new();
    gather.push_meta(sectors);
    gather
}
