//! Erase units: what state they are in, how often each was erased.
//!
//! An erase unit is one flash block of every plane of every die, the unit in which the drive frees
//! space.

use crate::candidates::Changed;
use crate::placement::SHARED;
use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Erased, holds nothing.
    Free,
    /// Being filled.
    Open,
    /// Full.
    Closed,
}

pub(crate) struct EraseUnits {
    states: Vec<State>,
    erases: Vec<u32>,
    /// The most of `erases`.
    erases_max: u32,
    free: Vec<u32>,
    /// Whose data each unit holds, a handle or [`SHARED`]; of no meaning for free ones.
    owners: Vec<u8>,
    /// Where units were closed or erased, for who looks for the least of them.
    pub(crate) changed: Changed,
}

impl EraseUnits {
    pub(crate) fn new(units: u32) -> Self {
        Self {
            states: vec![State::Free; units as usize],
            erases: vec![0; units as usize],
            erases_max: 0,
            free: (0..units).collect(),
            owners: vec![SHARED; units as usize],
            changed: Changed::new(units),
        }
    }

    /// Units in these states, erased so often, of these owners.
    pub(crate) fn of(states: Vec<State>, erases: Vec<u32>, owners: Vec<u8>) -> Self {
        let all = (0..).zip(&states);
        let free = all.filter(|(_, state)| **state == State::Free);
        let free = free.map(|(unit, _)| unit).collect();
        Self {
            changed: Changed::new(states.len() as u32),
            states,
            erases_max: erases.iter().max().copied().unwrap_or(0),
            erases,
            free,
            owners,
        }
    }

    /// How many are free.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn state(&self, unit: u32) -> State {
        self.states[unit as usize]
    }

    /// Whose data a unit holds.
    pub(crate) fn owner(&self, unit: u32) -> u8 {
        self.owners[unit as usize]
    }

    /// How often each was erased.
    pub(crate) fn erases(&self) -> &[u32] {
        &self.erases
    }

    /// How often the most worn one was.
    pub(crate) const fn erases_max(&self) -> u32 {
        self.erases_max
    }

    /// All closed ones.
    pub(crate) fn closed(&self) -> impl Iterator<Item = u32> + '_ {
        let all = (0..).zip(&self.states);
        all.filter(|(_, state)| **state == State::Closed)
            .map(|(unit, _)| unit)
    }

    /// Opens a free unit for the data of an owner: the least worn one for data that just came in, the most worn one for data
    /// that has proved to live long.
    ///
    /// # Panics
    /// If none is free.
    pub(crate) fn open(&mut self, is_worn: bool, owner: u8) -> u32 {
        let wear = |at: &usize| {
            let unit = self.free[*at];
            (self.erases[unit as usize], unit)
        };
        let range = 0..self.free.len();
        let at = if is_worn {
            range.max_by_key(wear)
        } else {
            range.min_by_key(wear)
        };
        let unit = self
            .free
            .swap_remove(at.expect("an erase unit is kept free"));
        self.states[unit as usize] = State::Open;
        self.owners[unit as usize] = owner;
        unit
    }

    /// An open unit is full.
    pub(crate) fn close(&mut self, unit: u32) {
        assert_eq!(self.state(unit), State::Open, "erase unit {unit}");
        self.states[unit as usize] = State::Closed;
        self.changed.note(unit);
    }

    /// A closed unit is erased and free.
    pub(crate) fn erase(&mut self, unit: u32) {
        assert_eq!(self.state(unit), State::Closed, "erase unit {unit}");
        self.states[unit as usize] = State::Free;
        self.changed.note(unit);
        let erases = &mut self.erases[unit as usize];
        *erases += 1;
        self.erases_max = self.erases_max.max(*erases);
        self.free.push(unit);
    }
}
