//! Groups that take stripes: whose each is, and who gets one.
//!
//! A group is open from its first stripe to its last, over any number of starts: closed by each
//! start it would lose what is left of it, and a pool that crashes again and again would run out of
//! free groups. A start does not know which stripes were written behind the last one that the log
//! names, so it writes them again; see [`Shared::read_p2l`] for how the two are told apart.
//!
//! **Invariants**: an open group is in one stream's hand (or that of those that share it) or idle; garbage
//! collection finds an idle group wherever there is one and none is free, so what the reserve leaves it is
//! not lost to streams that have nothing to write.

use crate::control::Control;
use crate::geometry::{Geometry, Tier, UnitId};
use crate::placement::{OpenGroup, StreamId, Writer};
use crate::shared::Shared;
use crate::units::UnitState;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use varve_io::ReactorId;
use varve_units::{Ppa, VolumeId};

/// Open groups, on the first reactor.
#[derive(Default)]
pub(crate) struct OpenGroups {
    streams: RefCell<BTreeMap<u32, StreamId>>,
    /// Groups that redo found open and no table names the stream of: who wrote, and for which volume.
    found: RefCell<BTreeMap<u32, (Writer, VolumeId)>>,
    /// Those in no stream's hand.
    idle: RefCell<BTreeSet<u32>>,
}

impl OpenGroups {
    /// A group belongs to this stream now.
    pub(crate) fn opened(&self, group: u32, stream: StreamId) {
        self.streams.borrow_mut().insert(group, stream);
    }

    /// Redo found a group in use that was free when its table was written.
    pub(crate) fn found(&self, group: u32, by: Writer, volume: VolumeId) {
        self.found.borrow_mut().insert(group, (by, volume));
    }

    /// A group takes no more stripes.
    pub(crate) fn closed(&self, group: u32) {
        self.streams.borrow_mut().remove(&group);
        self.idle.borrow_mut().remove(&group);
    }

    /// The stream that owns an open group.
    pub(crate) fn stream_of(&self, group: u32) -> Option<StreamId> {
        self.streams.borrow().get(&group).copied()
    }

    /// The stream that owns each group, if it is open.
    pub(crate) fn owners(&self, groups: u32) -> Vec<Option<StreamId>> {
        let mut owners = alloc::vec![None; groups as usize];
        for (group, stream) in self.streams.borrow().iter() {
            owners[*group as usize] = Some(*stream);
        }
        owners
    }

    /// Open groups in no stream's hand.
    pub(crate) fn idle(&self) -> BTreeSet<u32> {
        self.idle.borrow().clone()
    }

    /// Those that belong to streams of a writer, and to which.
    pub(crate) fn of(&self, writer: Writer) -> Vec<(u32, StreamId)> {
        let streams = self.streams.borrow();
        let of = streams.iter().filter(|(_, stream)| stream.writer == writer);
        of.map(|(group, stream)| (*group, *stream)).collect()
    }

    /// True if there is one in no stream's hand.
    pub(crate) fn has_idle(&self) -> bool {
        !self.idle.borrow().is_empty()
    }

    /// Idle ones that belong to streams of a writer.
    pub(crate) fn idle_of(&self, writer: Writer) -> Vec<u32> {
        let is_of = |group: &u32| self.stream_of(*group).is_some_and(|of| of.writer == writer);
        self.idle.borrow().iter().copied().filter(is_of).collect()
    }

    /// An idle group whose stream passes, given to this one.
    fn take(&self, to: StreamId, passes: impl Fn(StreamId) -> bool) -> Option<u32> {
        let mut idle = self.idle.borrow_mut();
        let mut streams = self.streams.borrow_mut();
        let group = *idle
            .iter()
            .find(|group| streams.get(group).is_some_and(|owner| passes(*owner)))?;
        idle.remove(&group);
        streams.insert(group, to);
        Some(group)
    }
}

impl Writer {
    /// As the group table has it; 0 is no writer.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::Compaction => 1,
            Self::GarbageCollection => 2,
        }
    }

    /// Of a code in the group table.
    pub(crate) const fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Compaction),
            2 => Some(Self::GarbageCollection),
            _ => None,
        }
    }

    /// Who moves blocks away from a place.
    pub(crate) fn of_moves_from(geometry: &Geometry, old: Ppa) -> Self {
        match geometry.locate(old) {
            Some(place) if place.unit.tier == Tier::Dense => Self::GarbageCollection,
            _ => Self::Compaction,
        }
    }
}

impl Control {
    /// A group to append to, for a stream of a reactor: one of its own that is idle, a free one, or
    /// for want of both another stream's. Compaction leaves the reserve to garbage collection.
    /// `None` if the engine stopped first.
    pub(crate) async fn obtain_group(
        &self,
        shared: &Shared,
        to: ReactorId,
        stream: StreamId,
    ) -> Option<OpenGroup> {
        loop {
            if shared.is_stopped() {
                return None;
            }
            let open = self.group_at_once(shared, to, stream);
            if open.is_some() {
                return open;
            }
            self.wait_for_group(shared, stream.writer).await;
        }
    }

    /// Waits until a group is freed, or handed back.
    pub(crate) async fn wait_for_group(&self, shared: &Shared, writer: Writer) {
        if writer == Writer::GarbageCollection && self.freeable_groups(shared) > 0 {
            // Garbage collection itself waits: it will not get round to asking.
            self.ask_checkpoint();
        }
        self.add_group_waiter();
        shared.read_ended.notify();
        // Deallocations leave the log to moves, but not to moves that wait for a group.
        shared.wake_waiters();
        self.freed.listen().await;
        self.remove_group_waiter();
    }

    /// [`Control::obtain_group`] without waiting.
    pub(crate) fn group_at_once(
        &self,
        shared: &Shared,
        to: ReactorId,
        stream: StreamId,
    ) -> Option<OpenGroup> {
        let group = self.group_now(shared, to, stream)?;
        shared.units.unit(UnitId::group(group)).set_home(to);
        Some(OpenGroup {
            group,
            next_stripe: shared.written_stripes(group),
            handle: shared.handle_of(stream),
        })
    }

    fn group_now(&self, shared: &Shared, to: ReactorId, stream: StreamId) -> Option<u32> {
        let own = self.open_groups.take(stream, |owner| owner == stream);
        if own.is_some() {
            return own;
        }
        let is_joint = shared.is_joint;
        if stream == StreamId::LAST_RESORT && (is_joint || self.gc_is_collapsed.get()) {
            // What its tenants' streams left: nobody else goes on in it.
            let left = self
                .open_groups
                .take(stream, |owner| is_joint || owner.writer == stream.writer);
            if left.is_some() {
                return left;
            }
        }
        // How many depends on what garbage collection does by then.
        if self.free_groups() > self.groups_kept(shared, stream.writer) {
            return self.grant_group(shared, to, stream);
        }
        let like = |owner: StreamId| owner.writer == stream.writer;
        let alike = self.open_groups.take(stream, like);
        let is_collecting = stream.writer == Writer::GarbageCollection;
        alike.or_else(|| self.open_groups.take(stream, |_| is_collecting))
    }

    /// Free groups that a writer leaves to others.
    fn groups_kept(&self, shared: &Shared, writer: Writer) -> usize {
        let reserve = &shared.config.reserve;
        match writer {
            Writer::GarbageCollection => 0,
            // A group whose blocks go to several streams can make several of them open another.
            Writer::Compaction if self.spread_victims() > 0 => shared.groups_to_spread(0),
            Writer::Compaction => reserve.gc_groups as usize,
        }
    }

    /// A stream has nothing to write for now and others want groups: they may have its own.
    pub(crate) fn hand_back(&self, group: u32) {
        self.open_groups.idle.borrow_mut().insert(group);
        self.freed.notify();
    }
}

impl Shared {
    /// After recovery: streams go on with the groups that were open, at the first stripe that the
    /// log does not name.
    pub(crate) fn resume_open_groups(self: &Rc<Self>) {
        let control = self.control();
        let open = &control.open_groups;
        for stream in open.streams.borrow_mut().values_mut() {
            // The table was written on drives with more handles.
            stream.tenant = self.stream_of(stream.tenant);
        }
        for (group, (writer, volume)) in open.found.take() {
            let tenant = self.stream_of(self.tenant_of(volume));
            open.opened(group, StreamId { tenant, writer });
        }
        let blocks = self.units.geometry().group_blocks;
        for id in self.units.ids(Tier::Dense) {
            let unit = self.units.unit(id);
            if unit.state() != UnitState::Open {
                // The table names the stream of groups that were filled since.
                open.closed(id.index);
            } else if unit.write_pointer() >= blocks || open.stream_of(id.index).is_none() {
                control.group_closed(self, id.index);
            } else {
                self.units.resume(id);
                open.idle.borrow_mut().insert(id.index);
            }
        }
    }
}
