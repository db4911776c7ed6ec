//! Which die holds what.
//!
//! A *row* is what one die programs at once: `pages_at_once` flash pages in each plane. The rows of
//! an erase unit go round the dies; every so many a row of parity is put in.

use crate::op::Place;
use crate::shape::Shape;
use crate::sheet::Nand;

#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) iu_bytes: u32,
    pub(crate) unit_ius: u32,
    /// IUs of a row.
    pub(crate) row_ius: u32,
    /// IUs that one reading of a die gives.
    sense_ius: u32,
    rows_per_unit: u32,
    rows_per_parity: u32,
    dies: u32,
}

impl Layout {
    pub(crate) fn new(shape: &Shape, nand: &Nand) -> Self {
        let page_bytes = nand.planes.value * nand.page_bytes.value;
        let row_ius = page_bytes * nand.pages_at_once.value / shape.iu_bytes;
        assert!(row_ius > 0, "a row holds an IU");
        Self {
            iu_bytes: shape.iu_bytes,
            unit_ius: shape.unit_ius,
            row_ius,
            sense_ius: (page_bytes / shape.iu_bytes).max(1),
            rows_per_unit: shape.unit_ius.div_ceil(row_ius),
            rows_per_parity: nand.programs_per_parity.value.max(1),
            dies: nand.dies.value,
        }
    }

    /// Rows of a drive.
    pub(crate) fn rows(&self, units: u32) -> usize {
        self.rows_per_unit as usize * units as usize
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
        self.turn(unit, index + index / self.rows_per_parity)
    }

    /// The die of the parity that is due after a row, if it is.
    pub(crate) fn parity_die(&self, row: u32) -> Option<u32> {
        let (unit, index) = (row / self.rows_per_unit, row % self.rows_per_unit);
        let is_due =
            (index + 1).is_multiple_of(self.rows_per_parity) || index + 1 == self.rows_per_unit;
        is_due.then(|| self.turn(unit, index + index / self.rows_per_parity + 1))
    }

    fn turn(&self, unit: u32, slot: u32) -> u32 {
        let parities = self.rows_per_unit.div_ceil(self.rows_per_parity);
        let before = u64::from(unit) * u64::from(self.rows_per_unit + parities);
        ((before + u64::from(slot)) % u64::from(self.dies)) as u32
    }
}
