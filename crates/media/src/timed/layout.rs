//! Which die holds what.
//!
//! A *row* is what one die programs at once: `pages_at_once` flash pages in each plane. The rows of
//! an erase unit go round the dies; every so many a row of parity is put in.

use crate::op::Place;

/// How flash is divided, whatever manages it.
#[derive(Clone, Copy)]
pub(crate) struct Division {
    pub(crate) dies: u32,
    /// Bytes of a flash page in all planes of a die: what one reading gives.
    pub(crate) page_bytes: u32,
    /// Such pages that are programmed at once.
    pub(crate) pages_at_once: u32,
    /// Rows for each one that is parity; none without parity.
    pub(crate) rows_per_parity: Option<u32>,
}

#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) iu_bytes: u32,
    pub(crate) unit_ius: u32,
    /// IUs of a row.
    pub(crate) row_ius: u32,
    /// IUs that one reading of a die gives.
    sense_ius: u32,
    rows_per_unit: u32,
    rows_per_parity: Option<u32>,
    dies: u32,
}

impl Layout {
    /// Units of `unit_ius` IUs.
    ///
    /// # Panics
    /// If a row is smaller than an IU.
    pub(crate) fn new(iu_bytes: u32, unit_ius: u32, division: &Division) -> Self {
        let row_ius = division.page_bytes * division.pages_at_once / iu_bytes;
        assert!(row_ius > 0, "a row holds an IU");
        Self {
            iu_bytes,
            unit_ius,
            row_ius,
            sense_ius: (division.page_bytes / iu_bytes).max(1),
            rows_per_unit: unit_ius.div_ceil(row_ius),
            rows_per_parity: division.rows_per_parity,
            dies: division.dies,
        }
    }

    /// The row of a place.
    pub(crate) fn row(&self, place: Place) -> u32 {
        let (unit, offset) = (place.0 / self.unit_ius, place.0 % self.unit_ius);
        unit * self.rows_per_unit + offset / self.row_ius
    }

    /// IUs of its row before a place.
    pub(crate) fn within(&self, place: Place) -> u32 {
        place.0 % self.unit_ius % self.row_ius
    }

    /// IUs of a row: the last one of an erase unit may be short.
    pub(crate) fn size(&self, row: u32) -> u32 {
        let from = row % self.rows_per_unit * self.row_ius;
        self.row_ius.min(self.unit_ius - from)
    }

    /// What is sensed together with a place.
    pub(crate) fn sense(&self, place: Place) -> (u32, u32) {
        (self.row(place), self.within(place) / self.sense_ius)
    }

    /// The die of a row.
    pub(crate) fn die(&self, row: u32) -> u32 {
        let (unit, index) = (row / self.rows_per_unit, row % self.rows_per_unit);
        self.turn(unit, index + self.parities(index))
    }

    /// The die of the parity that is due after a row, if it is.
    pub(crate) fn parity_die(&self, row: u32) -> Option<u32> {
        let (unit, index) = (row / self.rows_per_unit, row % self.rows_per_unit);
        let per_parity = self.rows_per_parity?;
        let is_due = (index + 1).is_multiple_of(per_parity) || index + 1 == self.rows_per_unit;
        is_due.then(|| self.turn(unit, index + self.parities(index) + 1))
    }

    /// Rows of parity among the first `rows` of a unit.
    fn parities(&self, rows: u32) -> u32 {
        self.rows_per_parity
            .map_or(0, |per_parity| rows / per_parity)
    }

    fn turn(&self, unit: u32, slot: u32) -> u32 {
        let turns = match self.rows_per_parity {
            Some(per_parity) => self.rows_per_unit + self.rows_per_unit.div_ceil(per_parity),
            // Without parity a unit may take all dies evenly. The next one begins a die further, or
            // those filled side by side would meet at the same die again and again.
            None => self.rows_per_unit + 1,
        };
        let before = u64::from(unit) * u64::from(turns);
        ((before + u64::from(slot)) % u64::from(self.dies)) as u32
    }
}
