//! A dense tier: blocks appended to the open units of streams.

use super::units::Units;

/// No block.
const NOBODY: u32 = u32::MAX;

/// A dense tier of numbers.
pub(crate) struct Dense {
    pub(crate) units: Units,
    /// By place, the block that was written there last, alive or not.
    owners: Vec<u32>,
    /// By stream.
    open: Vec<Option<Open>>,
}

#[derive(Clone, Copy)]
struct Open {
    unit: u32,
    next: u32,
}

/// What an append did.
pub(crate) struct Appended {
    /// Where the block lies now.
    pub(crate) place: u32,
    /// The unit that is full now.
    pub(crate) closed: Option<u32>,
}

impl Dense {
    /// An empty tier.
    pub(crate) fn new(units: u32, unit_blocks: u32, streams: usize) -> Self {
        Self {
            units: Units::new(units, unit_blocks),
            owners: vec![NOBODY; units as usize * unit_blocks as usize],
            open: vec![None; streams],
        }
    }

    /// True if an append to the stream takes a free unit.
    pub(crate) fn needs_unit(&self, stream: usize) -> bool {
        self.open[stream].is_none()
    }

    /// The unit of a place.
    pub(crate) fn unit_of(&self, place: u32) -> u32 {
        place / self.units.blocks()
    }

    /// The block that was written last to a place.
    pub(crate) fn owner(&self, place: u32) -> u32 {
        self.owners[place as usize]
    }

    /// Places of a unit.
    pub(crate) fn places(&self, unit: u32) -> std::ops::Range<u32> {
        let first = unit * self.units.blocks();
        first..first + self.units.blocks()
    }

    /// Writes a block behind the others of its stream; with no free unit left, behind those of
    /// another: emptying a unit must never stop for want of one.
    ///
    /// # Panics
    /// If no stream has room. Whoever keeps one unit free before host writes never sees that: what
    /// lives in a victim fits a unit.
    pub(crate) fn append(&mut self, stream: usize, block: u32, now: u64) -> Appended {
        let stream = self.ready(stream, now);
        let Open { unit, next } = self.open[stream].expect("a stream that is ready has a unit");
        let place = unit * self.units.blocks() + next;
        self.owners[place as usize] = block;
        self.units.add(unit);
        let is_full = next + 1 == self.units.blocks();
        self.open[stream] = (!is_full).then_some(Open {
            unit,
            next: next + 1,
        });
        if is_full {
            self.units.close(unit, now);
        }
        Appended {
            place,
            closed: is_full.then_some(unit),
        }
    }

    /// The stream itself with an open unit, or another that has one.
    fn ready(&mut self, stream: usize, now: u64) -> usize {
        if self.open[stream].is_none() {
            self.open[stream] = self
                .units
                .open(stream, now)
                .map(|unit| Open { unit, next: 0 });
        }
        if self.open[stream].is_some() {
            return stream;
        }
        let other = self.open.iter().position(Option::is_some);
        other.expect("some stream has room")
    }
}
