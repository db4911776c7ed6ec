//! The drive's own map: IU to place, and back.
//!
//! Two words of 32 bits per IU, as drives have them: one in memory, one that they keep in flash.
//! Both hold the number plus one, so that a fresh map is zeroes, and a large drive's memory is taken
//! as it is written.
//!
//! **Invariants**: a place is live if its owner is mapped to it; `live` counts those of each unit.

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
    unit_ius: u32,
}

impl Map {
    pub(crate) fn new(ius: u32, units: u32, unit_ius: u32) -> Self {
        Self {
            places: vec![0; ius as usize],
            owners: vec![0; units as usize * unit_ius as usize],
            live: vec![0; units as usize],
            unit_ius,
        }
    }

    /// Where an IU lies.
    pub(crate) fn place(&self, iu: u32) -> Option<Place> {
        self.places[iu as usize].checked_sub(1).map(Place)
    }

    /// The IU that lies at a place; `None` if what was programmed there is stale, or nothing was.
    pub(crate) fn live_iu(&self, place: Place) -> Option<u32> {
        let iu = self.owners[place.0 as usize].checked_sub(1)?;
        (self.place(iu) == Some(place)).then_some(iu)
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
        self.live[(place.0 / self.unit_ius) as usize] += 1;
    }

    /// The IU lies nowhere. True if it lay somewhere.
    pub(crate) fn unset(&mut self, iu: u32) -> bool {
        let Some(place) = self.place(iu) else {
            return false;
        };
        self.places[iu as usize] = 0;
        self.live[(place.0 / self.unit_ius) as usize] -= 1;
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
        self.live[(place.0 / self.unit_ius) as usize] += count;
    }

    /// The IUs lie nowhere. Returns how many of them lay somewhere.
    pub(crate) fn unset_run(&mut self, ius: Range<u32>) -> u32 {
        let mut count = 0;
        // The unit of the last one, and its first place: runs lie in few units, and a division takes long.
        let (mut unit, mut first) = (0, 0);
        for place in &mut self.places[ius.start as usize..ius.end as usize] {
            let Some(old) = place.checked_sub(1) else {
                continue;
            };
            if old.wrapping_sub(first) >= self.unit_ius {
                unit = old / self.unit_ius;
                first = unit * self.unit_ius;
            }
            self.live[unit as usize] -= 1;
            *place = 0;
            count += 1;
        }
        count
    }
}
