//! The closed erase unit that is the cheapest to free, out of many.
//!
//! A drive below a comparator may have fifteen thousand units of a dozen IUs: to look at each of them for every victim took
//! most of such a run. Units lie in pieces; what was the best of a piece still is unless something of it changed.

use crate::erase::{EraseUnits, State};
use crate::map::Map;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Units of a piece. Arbitrary: a few cache lines of each column.
const PIECE: u32 = 32;

/// What decides: live IUs, erases, number.
type Key = (u32, u32, u32);

/// Which pieces changed since somebody looked.
pub(crate) struct Changed(Vec<bool>);

impl Changed {
    /// All of them, of so many units.
    pub(crate) fn new(units: u32) -> Self {
        Self(vec![true; units.div_ceil(PIECE) as usize])
    }

    /// Something of this unit did.
    pub(crate) fn note(&mut self, unit: u32) {
        self.0[(unit / PIECE) as usize] = true;
    }

    /// True if this piece did, for the last time.
    fn take(&mut self, piece: usize) -> bool {
        core::mem::take(&mut self.0[piece])
    }
}

/// The best of each piece.
pub(crate) struct Candidates(Vec<Option<Key>>);

impl Candidates {
    /// Of a drive of so many units.
    pub(crate) fn new(units: u32) -> Self {
        Self(vec![None; units.div_ceil(PIECE) as usize])
    }

    /// The closed unit with the fewest live IUs, of those the least worn one, of those the first; `None` if none is closed.
    pub(crate) fn least(&mut self, map: &mut Map, units: &mut EraseUnits) -> Option<u32> {
        let count = units.erases().len() as u32;
        for (at, best) in self.0.iter_mut().enumerate() {
            let (of_map, of_units) = (map.changed.take(at), units.changed.take(at));
            if of_map || of_units {
                let first = at as u32 * PIECE;
                *best = least_of(first..count.min(first + PIECE), map, units);
            }
        }
        let least = self.0.iter().flatten().min()?;
        Some(least.2)
    }
}

fn least_of(range: Range<u32>, map: &Map, units: &EraseUnits) -> Option<Key> {
    let closed = range.filter(|unit| units.state(*unit) == State::Closed);
    let keys = closed.map(|unit| (map.live(unit), units.erases()[unit as usize], unit));
    keys.min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Place;

    /// Whatever changes between two looks, the one that is found is the one that a look at all of them finds.
    #[test]
    fn the_least_of_all_is_found() {
        const UNITS: u32 = 200;
        const UNIT_IUS: u32 = 6;
        let mut random = 3_u32;
        let mut draw = |below: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) % below
        };
        let mut map = Map::new(UNITS * UNIT_IUS, UNITS, UNIT_IUS);
        let mut units = EraseUnits::new(UNITS);
        let mut candidates = Candidates::new(UNITS);
        assert_eq!(candidates.least(&mut map, &mut units), None);
        let mut found = 0;
        for round in 0..3_000 {
            for _ in 0..draw(8) {
                let free = units.free();
                if free > 0 && draw(3) > 0 {
                    let unit = units.open(false, 0);
                    let first = unit * UNIT_IUS;
                    map.set_run(first..first + UNIT_IUS, Place(first));
                    // Little of it may be left, and somebody looks before it is closed: that has to be told too.
                    map.unset_run(first..first + draw(UNIT_IUS));
                    candidates.least(&mut map, &mut units);
                    units.close(unit);
                }
                map.unset(draw(UNITS * UNIT_IUS));
                let run = draw(UNITS * UNIT_IUS - 9);
                map.unset_run(run..run + draw(9));
            }
            let expected = least_of(0..UNITS, &map, &units).map(|(_, _, unit)| unit);
            assert_eq!(
                candidates.least(&mut map, &mut units),
                expected,
                "round {round}"
            );
            if let Some(unit) = expected.filter(|_| draw(2) == 0) {
                map.unset_run(unit * UNIT_IUS..(unit + 1) * UNIT_IUS);
                units.erase(unit);
                found += 1;
            }
        }
        assert!(found > 1_000, "{found} were erased");
    }
}
