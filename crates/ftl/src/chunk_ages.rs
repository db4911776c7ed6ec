//! Chunks in the order in which they were opened: who looks for the oldest need not look at all.

use crate::geometry::{Tier, UnitId};
use crate::units::{UnitState, UnitTable};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cell::RefCell;
use varve_units::Lsn;

/// Chunks with the stamps they were opened with, oldest first; made when it is asked for first.
///
/// One that was emptied has another stamp since, and leaves when it has become the first, or when there are twice as many
/// as chunks. Stamps may be equal, of chunks that no record came between: the order is that of opening.
#[derive(Default)]
pub(crate) struct ChunkAges(RefCell<Option<VecDeque<(Lsn, UnitId)>>>);

impl ChunkAges {
    /// A chunk was opened, later than all that are in use.
    pub(crate) fn note_opened(&self, id: UnitId, stamp: Lsn, units: &UnitTable) {
        let mut order = self.0.borrow_mut();
        let Some(order) = &mut *order else {
            return;
        };
        if order.len() >= 2 * units.geometry().chunks as usize {
            order.retain(|opened| is_as_opened(units, *opened));
        }
        order.push_back((stamp, id));
    }

    /// The oldest chunk that is wanted.
    pub(crate) fn oldest(
        &self,
        units: &UnitTable,
        is_wanted: impl Fn(UnitId) -> bool,
    ) -> Option<UnitId> {
        let mut order = self.0.borrow_mut();
        let order = order.get_or_insert_with(|| in_use(units));
        while let Some(first) = order.front()
            && !is_as_opened(units, *first)
        {
            order.pop_front();
        }
        let opened = order.iter().filter(|opened| is_as_opened(units, **opened));
        let mut opened = opened.map(|(_, id)| *id);
        opened.find(|id| is_wanted(*id))
    }
}

/// True if a chunk was not emptied since.
fn is_as_opened(units: &UnitTable, (stamp, id): (Lsn, UnitId)) -> bool {
    units.unit(id).stamp() == stamp
}

/// All chunks that hold something.
fn in_use(units: &UnitTable) -> VecDeque<(Lsn, UnitId)> {
    let is_used = |id: &UnitId| {
        let state = units.unit(*id).state();
        matches!(
            state,
            UnitState::Open | UnitState::Closed | UnitState::Cleaning
        )
    };
    let used = units.ids(Tier::Fast).filter(is_used);
    let mut order: Vec<_> = used.map(|id| (units.unit(id).stamp(), id)).collect();
    order.sort_by_key(|(stamp, _)| *stamp);
    order.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;

    const CHUNKS: u32 = 8;

    fn table() -> UnitTable {
        UnitTable::new(Geometry {
            chunks: CHUNKS,
            ..crate::geometry::SMALL
        })
    }

    fn open(units: &UnitTable, ages: &ChunkAges, chunk: u32, stamp: u64) {
        let id = UnitId::chunk(chunk);
        units.open(id, Lsn(stamp));
        ages.note_opened(id, Lsn(stamp), units);
    }

    fn free(units: &UnitTable, chunk: u32, stamp: u64) {
        let id = UnitId::chunk(chunk);
        units.transition(id, UnitState::Closed);
        units.transition(id, UnitState::Emptied);
        units.end_use(id, Lsn(stamp));
        assert!(units.try_free(id));
    }

    /// What was there before anybody asked is in it, what was opened since is behind, what was emptied is not.
    #[test]
    fn the_oldest_is_first() {
        let (units, ages) = (table(), ChunkAges::default());
        for (chunk, stamp) in [(3, 10), (1, 20), (5, 30)] {
            open(&units, &ages, chunk, stamp);
        }
        let oldest = |but: &[u32]| {
            let found = ages.oldest(&units, |id| !but.contains(&id.index));
            found.map(|id| id.index)
        };
        assert_eq!(oldest(&[]), Some(3));
        assert_eq!(oldest(&[3]), Some(1));
        free(&units, 3, 40);
        assert_eq!(oldest(&[]), Some(1));
        open(&units, &ages, 3, 50);
        assert_eq!(oldest(&[1, 5]), Some(3), "used again, it is the youngest");
        free(&units, 5, 60);
        assert_eq!(oldest(&[1, 3]), None);
    }

    /// A chunk that stays for ever, and so keeps what came after it from leaving, does not make it long.
    #[test]
    fn it_stays_short() {
        let (units, ages) = (table(), ChunkAges::default());
        open(&units, &ages, 0, 1);
        assert_eq!(ages.oldest(&units, |_| true), Some(UnitId::chunk(0)));
        for stamp in 1..200 {
            open(&units, &ages, 1, 2 * stamp);
            free(&units, 1, 2 * stamp + 1);
            let length = ages.0.borrow().as_ref().map(VecDeque::len);
            assert!(length.is_some_and(|length| length <= 2 * CHUNKS as usize));
        }
        assert_eq!(ages.oldest(&units, |_| true), Some(UnitId::chunk(0)));
    }
}
