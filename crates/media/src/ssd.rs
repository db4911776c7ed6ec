//! A conventional SSD as an account of what its flash has to do.

use crate::buffer::{Buffer, Joined};
use crate::candidates::Candidates;
use crate::counters::Counters;
use crate::erase::EraseUnits;
use crate::gc::{FREE_RESERVE, FREE_TARGET, Victim, choose};
use crate::map::Map;
use crate::op::{Op, Place, Why};
use crate::placement::HandleCounters;
use crate::shape::Shape;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use varve_units::SECTOR_BYTES;

/// A conventional SSD. Single-threaded, without time: what is asked of it is done at once.
///
/// The `on` of each call is told every operation on the flash, in order.
pub struct Ssd {
    pub(crate) shape: Shape,
    pub(crate) buffer: Buffer,
    pub(crate) map: Map,
    pub(crate) units: EraseUnits,
    candidates: Candidates,
    /// Open units, by [`Why`] and handle: what hosts write, what is moved and what rests die at
    /// different rates.
    pub(crate) open: Vec<Option<Open>>,
    pub(crate) victim: Option<Victim>,
    pub(crate) victims: u64,
    pub(crate) counters: Counters,
    pub(crate) handles: Vec<HandleCounters>,
}

/// An erase unit that is being filled.
pub(crate) struct Open {
    pub(crate) unit: u32,
    /// Offset in it of the next IU.
    pub(crate) next: u32,
}

/// How often erase units were erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wear {
    /// Erases of the least worn.
    pub erases_min: u32,
    /// Erases of the most worn.
    pub erases_max: u32,
    /// Erases of all.
    pub erases: u64,
}

impl Ssd {
    /// A drive fresh from the factory.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            buffer: Buffer::new(shape.merge_slots, shape.iu_bytes),
            map: Map::new(shape.ius, shape.units, shape.unit_ius),
            units: EraseUnits::new(shape.units),
            candidates: Candidates::new(shape.units),
            open: (0..shape.placement.slots()).map(|_| None).collect(),
            victim: None,
            victims: 0,
            counters: Counters::default(),
            handles: vec![HandleCounters::default(); usize::from(shape.placement.handles)],
        }
    }

    /// What it is.
    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// What it has done.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What was done under each handle.
    #[must_use]
    pub fn handles(&self) -> &[HandleCounters] {
        &self.handles
    }

    /// How worn it is.
    #[must_use]
    pub fn wear(&self) -> Wear {
        let erases = self.units.erases();
        Wear {
            erases_min: erases.iter().min().copied().unwrap_or(0),
            erases_max: self.units.erases_max(),
            erases: erases.iter().map(|count| u64::from(*count)).sum(),
        }
    }

    /// Where the IU that holds byte `offset` lies; `None` if nothing of it was programmed since it
    /// was deallocated.
    #[must_use]
    pub fn place(&self, offset: u64) -> Option<Place> {
        self.map.place(self.iu_of(offset))
    }

    /// IUs written in part that wait for their rest.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// The host writes bytes `offset..offset + length` under handle 0; returns what that came to.
    ///
    /// # Panics
    /// If the range is not made of 512 B sectors of the drive.
    pub fn write(&mut self, offset: u64, length: u64, on: &mut impl FnMut(Op)) -> Counters {
        self.write_to(0, offset, length, on)
    }

    /// The host writes bytes `offset..offset + length` under a handle; returns what that came to. An
    /// IU written in part under several handles belongs to the last.
    ///
    /// # Panics
    /// If the range is not made of 512 B sectors of the drive, or it has no such handle.
    pub fn write_to(
        &mut self,
        handle: u8,
        offset: u64,
        length: u64,
        on: &mut impl FnMut(Op),
    ) -> Counters {
        let handles = self.shape.placement.handles;
        assert!(handle < handles, "handle {handle} of {handles}");
        let before = self.counters;
        self.counters.host_bytes += length;
        self.handles[usize::from(handle)].host_bytes += length;
        let end = self.end_of(offset, length);
        let iu_bytes = u64::from(self.shape.iu_bytes);
        let mut at = offset;
        while at < end {
            let (iu, from) = (at / iu_bytes, at % iu_bytes);
            if from == 0 && at + iu_bytes <= end {
                let behind = end / iu_bytes;
                self.program_run(narrow(iu)..narrow(behind), handle, on);
                at = behind * iu_bytes;
            } else {
                let to = iu_bytes.min(end - iu * iu_bytes);
                self.write_part(narrow(iu), from..to, handle, on);
                at = iu * iu_bytes + to;
            }
        }
        self.counters.since(&before)
    }

    /// The host no longer needs bytes `offset..offset + length`. IUs that are only partly inside
    /// stay as they are.
    ///
    /// # Panics
    /// If the range is not made of 512 B sectors of the drive.
    pub fn deallocate(&mut self, offset: u64, length: u64) -> Counters {
        let before = self.counters;
        let end = self.end_of(offset, length);
        let iu_bytes = u64::from(self.shape.iu_bytes);
        let ius = narrow(offset.div_ceil(iu_bytes))..narrow(end / iu_bytes);
        if !ius.is_empty() {
            let count = if self.buffer.len() == 0 {
                self.map.unset_run(ius)
            } else {
                self.unset_each(ius)
            };
            self.counters.deallocated_bytes += u64::from(count) * iu_bytes;
        }
        self.counters.since(&before)
    }

    /// The IUs lie nowhere and do not wait. Returns how many of them did either.
    fn unset_each(&mut self, ius: Range<u32>) -> u32 {
        let mut count = 0;
        for iu in ius {
            let waited = self.buffer.drop(iu);
            count += u32::from(self.map.unset(iu) || waited);
        }
        count
    }

    /// The host wants durable what it wrote.
    pub fn flush(&mut self, on: &mut impl FnMut(Op)) -> Counters {
        let before = self.counters;
        if !self.shape.is_protected {
            while let Some((iu, handle)) = self.buffer.pop() {
                self.program_in_part(iu, handle, on);
            }
        }
        self.counters.since(&before)
    }

    fn iu_of(&self, offset: u64) -> u32 {
        assert!(offset < self.shape.bytes, "offset {offset} beyond the end");
        u32::try_from(offset / u64::from(self.shape.iu_bytes)).expect("an IU of the drive")
    }

    /// The end of a range of the drive.
    fn end_of(&self, offset: u64, length: u64) -> u64 {
        assert!(
            offset.is_multiple_of(SECTOR_BYTES) && length.is_multiple_of(SECTOR_BYTES),
            "misaligned range {offset}+{length}"
        );
        let end = offset.checked_add(length);
        let end = end.filter(|end| *end <= self.shape.bytes);
        end.expect("a range within the drive")
    }

    /// The host writes bytes of an IU, not all of them.
    fn write_part(&mut self, iu: u32, bytes: Range<u64>, handle: u8, on: &mut impl FnMut(Op)) {
        match self.buffer.join(iu, bytes.start, bytes.end, handle) {
            Joined::Waits => {}
            Joined::Whole => self.program(iu, handle, on),
            Joined::Evicted(oldest, handle) => self.program_in_part(oldest, handle, on),
        }
    }

    /// Programs an IU of which the host wrote a part only: the rest is read first, if there is one.
    fn program_in_part(&mut self, iu: u32, handle: u8, on: &mut impl FnMut(Op)) {
        if let Some(place) = self.map.place(iu) {
            self.counters.rmw_reads += 1;
            self.counters.rmw_bytes += u64::from(self.shape.iu_bytes);
            on(Op::Read(place, Why::Host));
        }
        self.program(iu, handle, on);
    }

    /// Programs IUs behind one another of which the host wrote all: as often as can be, many with one step.
    fn program_run(&mut self, mut ius: Range<u32>, handle: u8, on: &mut impl FnMut(Op)) {
        self.buffer.drop_all(&ius);
        while !ius.is_empty() {
            let quiet = self.quiet(handle).min(ius.end - ius.start);
            if quiet == 0 {
                self.program(ius.start, handle, on);
                ius.start += 1;
            } else {
                let behind = ius.start + quiet;
                self.program_quietly(ius.start..behind, handle, on);
                ius.start = behind;
            }
        }
    }

    /// IUs that can be programmed under a handle one after another and nothing else happens: the open unit has
    /// room for them, no move is due and no victim is wanted.
    fn quiet(&self, handle: u8) -> u32 {
        let Some(open) = &self.open[usize::from(handle)] else {
            return 0;
        };
        let room = self.shape.unit_ius - open.next;
        match &self.victim {
            Some(victim) => victim.quiet().min(room.into()) as u32,
            None if self.units.free() < FREE_TARGET => 0,
            None => room,
        }
    }

    /// Programs IUs, no more than are [`Ssd::quiet`]: what [`Ssd::program`] would do with each of them.
    fn program_quietly(&mut self, ius: Range<u32>, handle: u8, on: &mut impl FnMut(Op)) {
        let count = ius.end - ius.start;
        let first = self.next_places(Why::Host, handle, count);
        self.map.set_run(ius, first);
        let bytes = u64::from(count) * u64::from(self.shape.iu_bytes);
        self.counters.media_bytes += bytes;
        self.handles[usize::from(handle)].media_bytes += bytes;
        if let Some(victim) = &mut self.victim {
            victim.owe_quietly(count);
        }
        for place in first.0..first.0 + count {
            on(Op::Program(Place(place), Why::Host));
        }
    }

    /// Programs an IU that is whole in the buffer, and collects garbage in proportion.
    fn program(&mut self, iu: u32, handle: u8, on: &mut impl FnMut(Op)) {
        while self.open[usize::from(handle)].is_none() && self.units.free() <= FREE_RESERVE {
            self.collect(on);
        }
        let place = self.next_place(Why::Host, handle);
        self.map.set(iu, place);
        self.counters.media_bytes += u64::from(self.shape.iu_bytes);
        self.handles[usize::from(handle)].media_bytes += u64::from(self.shape.iu_bytes);
        on(Op::Program(place, Why::Host));
        if self.victim.is_some() || self.units.free() < FREE_TARGET {
            self.victim().owe();
            while self.victim.as_mut().is_some_and(Victim::is_due) {
                self.collect(on);
            }
        }
    }

    fn victim(&mut self) -> &mut Victim {
        self.victim.get_or_insert_with(|| {
            self.victims += 1;
            let (map, units) = (&mut self.map, &mut self.units);
            let unit_ius = self.shape.unit_ius;
            choose(&mut self.candidates, map, units, unit_ius, self.victims)
        })
    }

    /// Moves one live IU out of the victim; erases it if that was the last one.
    fn collect(&mut self, on: &mut impl FnMut(Op)) {
        let unit_ius = self.shape.unit_ius;
        let victim = self.victim();
        let (unit, why, from) = (victim.unit, victim.why, victim.next);
        if self.map.live(unit) > 0 {
            let first = unit * unit_ius;
            let live = self.map.first_live(first + from..first + unit_ius);
            let (place, iu) = live.expect("live IUs lie behind the last one moved");
            if from == 0 || place.0 / 64 > (first + from - 1) / 64 {
                self.map.look_ahead(place);
            }
            on(Op::Read(place, why));
            let owner = self.units.owner(unit);
            let target = self.next_place(why, owner);
            self.map.set(iu, target);
            let iu_bytes = u64::from(self.shape.iu_bytes);
            self.counters.media_bytes += iu_bytes;
            self.counters.gc_moved_bytes += iu_bytes;
            if let Some(handle) = self.handles.get_mut(usize::from(owner)) {
                handle.media_bytes += iu_bytes;
                handle.moved_bytes += iu_bytes;
            }
            on(Op::Program(target, why));
            self.victim().next = place.0 - first + 1;
        }
        if self.map.live(unit) == 0 {
            self.victim = None;
            self.units.erase(unit);
            self.counters.erases += 1;
            on(Op::Erase(unit));
        }
    }

    /// The next place to program for data of an owner.
    fn next_place(&mut self, why: Why, owner: u8) -> Place {
        self.next_places(why, owner, 1)
    }

    /// The first of so many places behind one another to program for data of an owner; the open unit has room
    /// for them.
    fn next_places(&mut self, why: Why, owner: u8, count: u32) -> Place {
        let placement = self.shape.placement;
        let slot = placement.slot(why, owner);
        let open = self.open[slot].get_or_insert_with(|| Open {
            unit: self.units.open(why != Why::Host, placement.owner(slot)),
            next: 0,
        });
        let place = Place(open.unit * self.shape.unit_ius + open.next);
        open.next += count;
        assert!(open.next <= self.shape.unit_ius, "places of one unit");
        if open.next == self.shape.unit_ius {
            self.units.close(open.unit);
            self.open[slot] = None;
        }
        place
    }
}

fn narrow(iu: u64) -> u32 {
    u32::try_from(iu).expect("an IU of the drive")
}
