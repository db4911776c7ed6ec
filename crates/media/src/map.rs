//! The drive's own map: IU to place, and back.
//!
//! Two words of 32 bits per IU, as drives have them: one in memory, one that they keep in flash.
//! Both hold the number plus one, so that a fresh map is zeroes, and a large drive's memory is taken
//! as it is written.
//!
//! **Invariants**: a place is live if its owner is mapped to it; `live` counts those of each unit, `bits` has one for each, so
//! that who looks for them in a unit passes over the rest without asking where their owners lie now.

use crate::candidates::Changed;
use crate::op::Place;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

pub(crate) struct Map {
    /// Place of each IU, plus one; 0 for unmapped.
    places: Vec<u32>,
    /// IU last programmed at each place, plus one; stale once that IU lies elsewhere.
    owners: Vec<u32>,
    /// Live IUs of each erase unit.
    live: Vec<u32>,
    /// Where `live` did, for who looks for the least of it.
    pub(crate) changed: Changed,
    /// Which places are live, 64 a word.
    bits: Vec<u64>,
    unit_ius: u32,
}

impl Map {
    pub(crate) fn new(ius: u32, units: u32, unit_ius: u32) -> Self {
        Self {
            places: vec![0; ius as usize],
            owners: vec![0; units as usize * unit_ius as usize],
            bits: vec![0; (units as usize * unit_ius as usize).div_ceil(64)],
            live: vec![0; units as usize],
            changed: Changed::new(units),
            unit_ius,
        }
    }

    /// Where an IU lies.
    pub(crate) fn place(&self, iu: u32) -> Option<Place> {
        self.places[iu as usize].checked_sub(1).map(Place)
    }

    /// The IU that lies at a place; `None` if what was programmed there is stale, or nothing was.
    pub(crate) fn live_iu(&self, place: Place) -> Option<u32> {
        let is_live = self.bits[place.0 as usize / 64] >> (place.0 % 64) & 1 == 1;
        is_live.then(|| self.owners[place.0 as usize] - 1)
    }

    /// The first live place among these, and the IU that lies there.
    pub(crate) fn first_live(&self, places: Range<u32>) -> Option<(Place, u32)> {
        let mut at = places.start;
        while at < places.end {
            let word = self.bits[at as usize / 64] >> (at % 64);
            if word != 0 {
                let place = at + word.trailing_zeros();
                let iu = || self.owners[place as usize] - 1;
                return (place < places.end).then(|| (Place(place), iu()));
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Looks at where the IUs that lie beside a place are mapped, before any of them moves: reads that do not depend on one
    /// another wait for memory together.
    pub(crate) fn look_ahead(&self, place: Place) {
        let word = place.0 as usize / 64;
        let (mut bits, mut seen) = (self.bits[word], 0);
        while bits != 0 {
            let owner = self.owners[word * 64 + bits.trailing_zeros() as usize];
            seen ^= self.places[owner as usize - 1];
            bits &= bits - 1;
        }
        core::hint::black_box(seen);
    }

    /// Live IUs of an erase unit.
    pub(crate) fn live(&self, unit: u32) -> u32 {
        self.live[unit as usize]
    }

    /// The IU lies at `place` from now on, and no longer where it lay.
    pub(crate) fn set(&mut self, iu: u32, place: Place) {
        self.unset(iu);
        self.places[iu as usize] = place.0 + 1;
        self.owners[place.0 as usize] = iu + 1;
        self.bits[place.0 as usize / 64] |= 1 << (place.0 % 64);
        let unit = place.0 / self.unit_ius;
        self.live[unit as usize] += 1;
        self.changed.note(unit);
    }

    /// The IU lies nowhere. True if it lay somewhere.
    pub(crate) fn unset(&mut self, iu: u32) -> bool {
        let Some(place) = self.place(iu) else {
            return false;
        };
        self.places[iu as usize] = 0;
        self.bits[place.0 as usize / 64] &= !(1 << (place.0 % 64));
        let unit = place.0 / self.unit_ius;
        self.live[unit as usize] -= 1;
        self.changed.note(unit);
        true
    }

    /// IUs behind one another lie at places behind one another from now on, all of one erase unit, the first
    /// at `place`.
    pub(crate) fn set_run(&mut self, ius: Range<u32>, place: Place) {
        self.unset_run(ius.clone());
        let count = ius.end - ius.start;
        let places = &mut self.places[ius.start as usize..ius.end as usize];
        let numbers = place.0 + 1..place.0 + 1 + count;
        for (place, number) in places.iter_mut().zip(numbers) {
            *place = number;
        }
        let owners = &mut self.owners[place.0 as usize..][..count as usize];
        for (owner, iu) in owners.iter_mut().zip(ius) {
            *owner = iu + 1;
        }
        for (word, mask) in words(place.0..place.0 + count) {
            self.bits[word] |= mask;
        }
        let unit = place.0 / self.unit_ius;
        self.live[unit as usize] += count;
        self.changed.note(unit);
    }

    /// The IUs lie nowhere. Returns how many of them lay somewhere.
    pub(crate) fn unset_run(&mut self, ius: Range<u32>) -> u32 {
        let (mut count, mut at) = (0, ius.start);
        while at < ius.end {
            let places = &mut self.places[at as usize..ius.end as usize];
            let Some(first) = places[0].checked_sub(1) else {
                at += 1;
                continue;
            };
            // What was written as a run lies behind one another: one look at its unit is enough.
            let unit = first / self.unit_ius;
            let end = (unit + 1) * self.unit_ius;
            let numbers = first + 1..end + 1;
            let run = places.iter().zip(numbers);
            let length = run.take_while(|(place, number)| **place == *number).count();
            places[..length].fill(0);
            let length = length as u32;
            for (word, mask) in words(first..first + length) {
                self.bits[word] &= !mask;
            }
            self.live[unit as usize] -= length;
            self.changed.note(unit);
            count += length;
            at += length;
        }
        count
    }
}

/// The words in which these bits lie, and which of each.
fn words(bits: Range<u32>) -> impl Iterator<Item = (usize, u64)> {
    let mut at = bits.start;
    core::iter::from_fn(move || {
        (at < bits.end).then(|| {
            let word = at / 64;
            let end = bits.end.min((word + 1) * 64);
            let mask = (u64::MAX >> (64 - (end - at))) << (at % 64);
            at = end;
            (word as usize, mask)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::Map;
    use crate::op::Place;
    use alloc::vec;

    const UNITS: u32 = 5;
    const UNIT_IUS: u32 = 77;

    /// Bits, counts and both directions agree after any changes.
    #[test]
    fn live_places_are_those_of_mapped_ius() {
        let (ius, places) = (300, UNITS * UNIT_IUS);
        let mut map = Map::new(ius, UNITS, UNIT_IUS);
        let mut random = 7_u32;
        let mut draw = |below: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) % below
        };
        for _ in 0..2_000 {
            let free = |map: &Map, range: core::ops::Range<u32>| map.first_live(range).is_none();
            let (iu, place) = (draw(ius), draw(places));
            let count = draw(9).min(ius - iu).min(UNIT_IUS - place % UNIT_IUS);
            match draw(4) {
                0 => drop(map.unset(iu)),
                1 => drop(map.unset_run(iu..iu + count)),
                2 if free(&map, place..place + 1) => map.set(iu, Place(place)),
                3 if count > 0 && free(&map, place..place + count) => {
                    map.set_run(iu..iu + count, Place(place));
                }
                _ => {}
            }
            let mut owners = vec![None; places as usize];
            for iu in 0..ius {
                if let Some(place) = map.place(iu) {
                    assert_eq!(owners[place.0 as usize].replace(iu), None);
                }
            }
            let lies = |place: u32| owners[place as usize];
            for unit in 0..UNITS {
                let places = unit * UNIT_IUS..(unit + 1) * UNIT_IUS;
                let live = places.clone().filter_map(lies).count();
                assert_eq!(map.live(unit) as usize, live);
                let at = places.start + draw(UNIT_IUS);
                let next = (at..places.end).find_map(|one| Some((Place(one), lies(one)?)));
                assert_eq!(map.first_live(at..places.end), next);
                assert_eq!(map.live_iu(Place(at)), lies(at));
            }
        }
    }
}
