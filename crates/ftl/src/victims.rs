//! Which group garbage collection empties next, and when.
//!
//! By cost-benefit, (1 - u) / u x age, among those that fit: a victim is begun only if all that it
//! may hold has room in groups that nobody else can take, or, where compaction shares them, in stripes
//! that it leaves. So what is begun ends, and every victim that ends gives a group back.
//!
//! Of the groups that compaction leaves to garbage collection one is for starts: a crash costs the
//! stripes of which one lane's moves were durable and another's were not, and the victim that was
//! being emptied then needs more than its group had left.

use crate::control::Control;
use crate::geometry::{Tier, UnitId};
use crate::limits::GC_VICTIMS_MAX;
use crate::placement::{OpenGroup, StreamId, Streams, Writer};
use crate::rooms::Rooms;
use crate::shared::Shared;
use crate::units::UnitState;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Free groups that garbage collection leaves to starts as long as it gets on without.
const START_GROUPS: usize = 1;

/// Garbage collection works ahead by one of so many groups beyond what a victim takes: so much a burst of it
/// makes. Arbitrary: shorter ones mix more of what it and compaction write; each costs its share of
/// over-provisioning.
const AHEAD_SHARE: u32 = 128;
/// Groups that it works ahead by at most. Arbitrary.
const AHEAD_MAX: u32 = 8;
/// Where compaction shares groups, those of fewer stripes are made ahead as well. Arbitrary: groups come
/// back with a checkpoint, and were compaction to wait for one at every few stripes, those would be all that
/// the log is used for.
const AHEAD_STRIPES: u32 = 8;

/// A victim that is moved to narrow stripes gives back one of so many of the blocks that a group of those holds, at least.
/// Arbitrary.
const NARROW_GAIN: u64 = 8;

/// A group being emptied.
pub(crate) struct Victim {
    /// They go to the streams of their tenants.
    pub(crate) is_spread: bool,
    /// Blocks that it may have held when this began.
    pub(crate) held: u32,
}

/// A group that may be emptied, and the blocks it may hold.
type Candidate = (UnitId, u64);

impl Shared {
    /// The group with the best gain for its cost, if one should be emptied.
    ///
    /// Another one is begun when those before wait for their last stripe to fill: padding would
    /// cost what a victim gains. Where all go to one stream, the blocks of the first are written
    /// before those of the next; where several streams are written each can need a group, so two
    /// victims are the most there.
    pub(crate) fn next_group(&self) -> Option<u32> {
        let control = self.control();
        let work = &control.gc_work;
        let can_spread = self.can_spread();
        let most = if can_spread { 2 } else { GC_VICTIMS_MAX };
        let running = work.running.get();
        let may_begin = running == 0 || (running < most && work.all_wait());
        if !may_begin {
            return None;
        }
        let is_short = self.is_short_of_groups();
        if !is_short && !self.fills_apart() {
            return None;
        }
        let closed = self.closed_groups();
        if can_spread {
            return self.best(&closed, u64::MAX);
        }
        let best = self.best(&closed, self.gc_room(START_GROUPS));
        if !is_short {
            return best;
        }
        let best = best.or_else(|| {
            // Padded, lean victims would give back what they took.
            let is_last_way = match running {
                0 => !self.must_recount(),
                _ => control.gc_is_lean.get(),
            };
            is_last_way.then(|| self.best(&closed, self.gc_room(0)))?
        });
        best.filter(|group| !self.is_lean(*group) || !self.is_compaction_next())
    }

    /// Closed groups, with the blocks they may hold. Read once: it falls while others look.
    fn closed_groups(&self) -> Vec<Candidate> {
        let control = self.control();
        let closed = |id: UnitId| {
            let unit = self.units.unit(id);
            let is_closed = unit.state() == UnitState::Closed
                && !unit.is_awaiting_moves()
                && !control.is_stuck(self, id)
                && !control.is_deferred(id);
            is_closed.then(|| (id, u64::from(unit.live())))
        };
        self.units.ids(Tier::Dense).filter_map(closed).collect()
    }

    /// The best of them that fits `room` stripes.
    fn best(&self, closed: &[Candidate], room: u64) -> Option<u32> {
        let control = self.control();
        let user = self.group_user_blocks();
        let stripe = u64::from(self.units.geometry().stripe_user_blocks());
        let (_, tails) = self
            .streams
            .collecting(self.units.geometry().group_stripes());
        let fits = |live: u64| (tails + live).div_ceil(stripe) <= room;
        // A full pool with nothing to do must not copy its groups over and over.
        let gain = if self.is_urgent() {
            1
        } else {
            (user / 8).max(1)
        };
        let now = control.pool_now(self);
        let best = closed
            .iter()
            .filter(|(_, live)| live + gain <= user && fits(*live))
            .max_by_key(|(id, live)| {
                let age = now.saturating_sub(control.closed_at(id.index)) / 1000 + 1;
                u128::from(user - live) * u128::from(age) * 1000 / (u128::from(*live) + 1)
            });
        // A group in which all seems live is looked at once after a start, if there is no other:
        // bits that the start brought back may be all that keeps it full.
        let full = || {
            let doubtful = closed
                .iter()
                .filter(|(id, live)| self.units.unit(*id).is_doubtful() && fits(*live));
            doubtful.min_by_key(|(id, _)| control.closed_at(id.index))
        };
        best.or_else(full).map(|(id, _)| id.index)
    }

    /// Stripes that garbage collection is sure to get if it leaves `kept` free groups: those of its
    /// own groups, and of the free ones that compaction leaves it.
    fn gc_room(&self, kept: usize) -> u64 {
        let control = self.control();
        let group_stripes = self.units.geometry().group_stripes();
        let stripes = u64::from(group_stripes);
        let left = |group: u32| stripes - u64::from(self.written_stripes(group));
        let idle = control.open_groups.idle_of(Writer::GarbageCollection);
        let idle: u64 = idle.into_iter().map(left).sum();
        let free = control.free_groups();
        let free = free.min(self.config.reserve.gc_groups as usize);
        let free = free.saturating_sub(kept) as u64 * stripes;
        let (own, _) = self.streams.collecting(group_stripes);
        (idle + free).saturating_add_signed(own)
    }

    /// True if garbage collection can write stripes of `narrow` blocks: its victims give back more than they take then, and
    /// what they may still hold goes, in stripes of full width, to what is kept for it.
    pub(crate) fn collects_narrow(&self, narrow: u32) -> bool {
        let control = self.control();
        let geometry = self.units.geometry();
        let victims = control.gc_victims.borrow();
        let most = u64::from(narrow) * u64::from(geometry.group_stripes());
        let mut held = victims.values().map(|victim| u64::from(victim.held));
        if held.any(|held| held > most - most / NARROW_GAIN) {
            return false;
        }
        let live = |group: &u32| u64::from(self.units.unit(UnitId::group(*group)).live());
        let left: u64 = victims.keys().map(live).sum();
        drop(victims);
        if control.spread_victims() > 0 || self.can_spread() {
            return control.free_groups() > self.groups_to_spread(0) + 1;
        }
        let (_, queued) = self.streams.collecting(geometry.group_stripes());
        let stripes = (left + queued).div_ceil(u64::from(geometry.stripe_user_blocks()));
        // The one that is written, and one that is padded.
        stripes + 2 <= self.gc_room(START_GROUPS)
    }

    /// Stripes that are left in groups that streams share, and in free ones, less those that are taken.
    pub(crate) fn joint_stripes(&self) -> u64 {
        let control = self.control();
        let group_stripes = self.units.geometry().group_stripes();
        let left = |group: u32| u64::from(group_stripes - self.written_stripes(group));
        let idle = control.open_groups.idle_of(Writer::GarbageCollection);
        let idle: u64 = idle.into_iter().map(left).sum();
        let free = control.free_groups() as u64 * u64::from(group_stripes);
        let (own, _) = self.streams.collecting(group_stripes);
        (idle + free).saturating_add_signed(own)
    }

    /// Stripes of a group that were written.
    pub(crate) fn written_stripes(&self, group: u32) -> u32 {
        let pointer = self.units.unit(UnitId::group(group)).write_pointer();
        pointer / self.units.geometry().stripe_blocks
    }

    /// Groups beyond the reserve and what hosts may fill.
    pub(crate) fn spare_groups(&self) -> u32 {
        let reserve = &self.config.reserve;
        let used = reserve.capacity_blocks.div_ceil(self.group_user_blocks()) as u32;
        let groups = self.units.geometry().groups;
        groups.saturating_sub(used + reserve.groups)
    }

    pub(crate) fn group_user_blocks(&self) -> u64 {
        let geometry = self.units.geometry();
        u64::from(geometry.stripe_user_blocks()) * u64::from(geometry.group_stripes())
    }

    /// True if emptying a group gains less than a stripe.
    pub(crate) fn is_lean(&self, group: u32) -> bool {
        let live = self.units.unit(UnitId::group(group)).live();
        let stripe = self.units.geometry().stripe_user_blocks();
        u64::from(live + stripe) > self.group_user_blocks()
    }

    /// Tenants of the streams, a bit each, that tenants with volumes have between them.
    fn tenants_in_use(&self) -> u64 {
        let most = self.tenant_streams;
        let mut seen = 0_u64;
        for tenant in self.volumes.borrow().tenants() {
            seen |= 1 << self.stream_of(tenant).0;
            if seen.count_ones() == most {
                break;
            }
        }
        seen
    }

    /// Streams of one writer that tenants with volumes have between them.
    pub(crate) fn streams_in_use(&self) -> u32 {
        self.tenants_in_use().count_ones()
    }

    /// True if there are groups enough for each tenant's blocks of another victim, however full, to go to
    /// their own stream.
    pub(crate) fn can_spread(&self) -> bool {
        self.streams_in_use() > 1 && self.control().free_groups() > self.groups_to_spread(1)
    }

    /// Groups that are left to garbage collection while it has victims whose blocks go to the streams of their
    /// tenants: those that all victims, and `more` beside them, open at most, and the reserve.
    pub(crate) fn groups_to_spread(&self, more: u64) -> usize {
        let geometry = self.units.geometry();
        let user = u64::from(geometry.stripe_user_blocks());
        let control = self.control();
        let victims = control.gc_victims.borrow();
        let live = |group: &u32| u64::from(self.units.unit(UnitId::group(*group)).live());
        // The tails of all streams, less than a stripe each, are padded as one.
        let of = |live: u64| live.div_ceil(user) + 1;
        let running: u64 = victims.keys().map(|group| of(live(group))).sum();
        let stripes = running + more * of(self.group_user_blocks());
        self.rooms_to_spread().opened_by(stripes) + self.config.reserve.gc_groups as usize
    }

    /// Room of the streams of garbage collection that tenants with volumes have.
    fn rooms_to_spread(&self) -> Rooms {
        let tenants = self.tenants_in_use();
        let mut left: BTreeMap<u32, u32> = (0..u64::BITS)
            .filter(|tenant| tenants & 1 << tenant != 0)
            .map(|tenant| (tenant, 0))
            .collect();
        let group_stripes = self.units.geometry().group_stripes();
        let open = self.control().open_groups.of(Writer::GarbageCollection);
        for (group, stream) in open {
            let stripes = group_stripes - self.written_stripes(group);
            left.entry(stream.tenant.0)
                .and_modify(|left| *left += stripes);
        }
        let left = left.into_values().collect();
        Rooms::new(left, group_stripes)
    }

    /// True if garbage collection may pad a stripe: all blocks of its victims are in the queues, and
    /// there is no other victim. Were one still read, the padding could take the room that was found
    /// for the rest of its blocks.
    pub(crate) fn may_pad(&self) -> bool {
        self.control().gc_work.all_wait()
    }

    /// Free groups up to which garbage collection works: with those that it works ahead by less, and one
    /// more, a victim can still be begun in the way that its tenants want.
    pub(crate) fn gc_target(&self) -> usize {
        let least = if self.streams_in_use() > 1 {
            self.groups_to_spread(1) + 1
        } else {
            self.config.reserve.gc_groups as usize
        };
        least + self.groups_ahead() + 1
    }

    fn groups_ahead(&self) -> usize {
        let geometry = self.units.geometry();
        if self.is_joint && geometry.group_stripes() >= AHEAD_STRIPES {
            // Bursts need not keep apart what both write.
            return 0;
        }
        (geometry.groups / AHEAD_SHARE).min(AHEAD_MAX) as usize
    }

    /// True if fewer groups are free than are wanted, from when those are used up that it works ahead by: so
    /// compaction and garbage collection take turns. One that waits for its last stripe counts as free: the
    /// first blocks of the next victim fill that. Not where they share groups: the next one is begun at once
    /// there, since compaction will soon wait for it.
    pub(crate) fn is_short_of_groups(&self) -> bool {
        let control = self.control();
        let settling = usize::from(!self.is_joint && control.gc_work.waiting.get() > 0);
        let (ready, target) = (control.ready_groups(self) + settling, self.gc_target());
        let begins = ready + self.groups_ahead() < target;
        let goes_on = ready < target + usize::from(self.fills_its_group());
        let is_short = begins || (control.is_gc_burst.get() && goes_on);
        control.is_gc_burst.set(is_short);
        is_short
    }

    /// True if groups are waited for and none is to be had beyond the reserve.
    fn is_urgent(&self) -> bool {
        let control = self.control();
        control.has_group_waiters()
            && control.ready_groups(self) <= self.config.reserve.gc_groups as usize
    }

    /// True if what a start left in doubt keeps garbage collection from finding a victim that fits.
    pub(crate) fn must_recount(&self) -> bool {
        let is_in_doubt = |(id, _): &Candidate| self.units.unit(*id).is_doubtful();
        self.control().gc_work.running.get() == 0
            && self.is_urgent()
            && self.closed_groups().iter().any(is_in_doubt)
    }

    /// Closed groups whose live bits may be of blocks that are dead, at most so many: those with the fewest,
    /// which are the likeliest to turn out empty. Without a stripe to move blocks to only such a group helps.
    pub(crate) fn doubtful_groups(&self, most: usize) -> Vec<u32> {
        let mut doubtful = self.closed_groups();
        doubtful.retain(|(id, _)| self.units.unit(*id).is_doubtful());
        doubtful.sort_by_key(|(_, live)| *live);
        doubtful.truncate(most);
        doubtful.iter().map(|(id, _)| id.index).collect()
    }
}

impl Control {
    /// Groups being collected into the streams of their tenants.
    pub(crate) fn spread_victims(&self) -> usize {
        let victims = self.gc_victims.borrow();
        victims.values().filter(|victim| victim.is_spread).count()
    }

    /// Groups that are free, or will be with the next checkpoint.
    pub(crate) fn ready_groups(&self, shared: &Shared) -> usize {
        self.free_groups() + self.discards.count() + self.freeable_groups(shared)
    }
}

impl Streams {
    /// Of garbage collection's streams: stripes that are left to the one that takes all when groups
    /// are short, less those that blocks already taken from a queue will need; and blocks queued.
    fn collecting(&self, group_stripes: u32) -> (i64, u64) {
        let left = |open: OpenGroup| i64::from(group_stripes - open.next_stripe);
        let (mut stripes, mut blocks) = (0, 0);
        self.each(|stream| {
            if stream.id().writer != Writer::GarbageCollection {
                return;
            }
            blocks += stream.queued() as u64;
            let claimed = i64::from(stream.is_writing()) + i64::from(stream.is_lent());
            match stream.open().map(left) {
                Some(left) if stream.id() == StreamId::LAST_RESORT => stripes += left - claimed,
                Some(_) => {}
                None => stripes -= claimed,
            }
        });
        (stripes, blocks)
    }
}
