//! A conventional SSD as an account of what its flash has to do.

use crate::buffer::{Buffer, Joined};
use crate::counters::Counters;
use crate::erase::EraseUnits;
use crate::gc::{FREE_RESERVE, FREE_TARGET, Victim, choose};
use crate::map::Map;
use crate::op::{Op, Place, Why};
use crate::placement::HandleCounters;
use crate::shape::Shape;
use alloc::vec;
use alloc::vec::Vec;
use varve_units::SECTOR_BYTES;

/// A conventional SSD. Single-threaded, without time: what is asked of it is done at once.
///
/// The `on` of each call is told every operation on the flash, in order.
pub struct Ssd {
    pub(crate) shape: Shape,
    pub(crate) buffer: Buffer,
    pub(crate) map: Map,
    pub(crate) units: EraseUnits,
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
            erases_max: erases.iter().max().copied().unwrap_or(0),
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
        for (iu, from, to) in self.pieces(offset, length) {
            if to - from == u64::from(self.shape.iu_bytes) {
                self.buffer.drop(iu);
                self.program(iu, handle, on);
                continue;
            }
            match self.buffer.join(iu, from, to, handle) {
                Joined::Waits => {}
                Joined::Whole => self.program(iu, handle, on),
                Joined::Evicted(oldest, handle) => self.program_in_part(oldest, handle, on),
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
        let iu_bytes = u64::from(self.shape.iu_bytes);
        for (iu, from, to) in self.pieces(offset, length) {
            if to - from < iu_bytes {
                continue;
            }
            let waited = self.buffer.drop(iu);
            if self.map.unset(iu) || waited {
                self.counters.deallocated_bytes += iu_bytes;
            }
        }
        self.counters.since(&before)
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

    /// The IUs of a range, with the bytes of each that lie inside.
    fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = (u32, u64, u64)> + use<> {
        assert!(
            offset.is_multiple_of(SECTOR_BYTES) && length.is_multiple_of(SECTOR_BYTES),
            "misaligned range {offset}+{length}"
        );
        let end = offset.checked_add(length);
        let end = end.filter(|end| *end <= self.shape.bytes);
        let end = end.expect("a range within the drive");
        let iu_bytes = u64::from(self.shape.iu_bytes);
        let ius = offset / iu_bytes..end.div_ceil(iu_bytes);
        let ius = if length == 0 { 0..0 } else { ius };
        ius.map(move |iu| {
            let start = iu * iu_bytes;
            let from = offset.max(start) - start;
            let to = end.min(start + iu_bytes) - start;
            (u32::try_from(iu).expect("an IU of the drive"), from, to)
        })
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
            choose(&self.map, &self.units, self.shape.unit_ius, self.victims)
        })
    }

    /// Moves one live IU out of the victim; erases it if that was the last one.
    fn collect(&mut self, on: &mut impl FnMut(Op)) {
        let unit_ius = self.shape.unit_ius;
        let victim = self.victim();
        let (unit, why, from) = (victim.unit, victim.why, victim.next);
        let places = (from..unit_ius).map(|offset| Place(unit * unit_ius + offset));
        let mut live = places.filter_map(|place| Some((place, self.map.live_iu(place)?)));
        if self.map.live(unit) > 0 {
            let (place, iu) = live.next().expect("live IUs lie behind the last one moved");
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
            self.victim().next = place.0 - unit * unit_ius + 1;
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
        let placement = self.shape.placement;
        let slot = placement.slot(why, owner);
        let open = self.open[slot].get_or_insert_with(|| Open {
            unit: self.units.open(why != Why::Host, placement.owner(slot)),
            next: 0,
        });
        let place = Place(open.unit * self.shape.unit_ius + open.next);
        open.next += 1;
        if open.next == self.shape.unit_ius {
            self.units.close(open.unit);
            self.open[slot] = None;
        }
        place
    }
}
