//! Zones that are emptied and written again.
//!
//! A decision *empties* a zone at once, and may give it to a stream at once; on the drive what was decided
//! before that is still to be read from it, or even to be written to it. So a zone has lives: each begins
//! with a reset, which waits for all uses of the life before, and what is written in a life waits for its
//! reset.
//!
//! **Why nothing waits for ever**: what is done behind begins in the order in which it was decided, and
//! whatever it waits for was decided before it.

use std::collections::BTreeMap;

/// A zone between two resets: which zone, how often it was emptied before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Life {
    zone: u32,
    number: u32,
}

impl Life {
    /// Blocks of its zone: first, and how many.
    pub(super) const fn blocks(self, zone_blocks: u32) -> (u32, u32) {
        (self.zone * zone_blocks, zone_blocks)
    }
}

/// Lives of all zones.
pub(super) struct Reuse {
    /// By zone, how often a decision has emptied it.
    emptied: Vec<u32>,
    /// By zone, how often it was reset for that.
    reset: Vec<u32>,
    /// Batches that have to be carried out in a life.
    uses: BTreeMap<Life, u32>,
}

impl Reuse {
    /// So many zones, all blank.
    pub(super) fn new(zones: u32) -> Self {
        Self {
            emptied: vec![0; zones as usize],
            reset: vec![0; zones as usize],
            uses: BTreeMap::new(),
        }
    }

    /// The life of a zone in which it is decided now.
    pub(super) fn life(&self, zone: u32) -> Life {
        Life {
            zone,
            number: self.emptied[zone as usize],
        }
    }

    /// One batch more is to be carried out in a life.
    pub(super) fn begin(&mut self, life: Life) {
        *self.uses.entry(life).or_insert(0) += 1;
    }

    /// One of them was.
    pub(super) fn end(&mut self, life: Life) {
        let uses = self.uses.get_mut(&life).expect("it was begun");
        *uses -= 1;
        if *uses == 0 {
            self.uses.remove(&life);
        }
    }

    /// A decision empties a zone; returns the life that ends.
    pub(super) fn empty(&mut self, zone: u32) -> Life {
        let life = self.life(zone);
        self.emptied[zone as usize] += 1;
        life
    }

    /// True if nothing is to be carried out in a life.
    pub(super) fn is_unused(&self, life: Life) -> bool {
        !self.uses.contains_key(&life)
    }

    /// True if the zone is what it is in this life.
    pub(super) fn is_begun(&self, life: Life) -> bool {
        self.reset[life.zone as usize] == life.number
    }

    /// The zone was reset at the end of a life.
    pub(super) fn was_reset(&mut self, life: Life) {
        assert!(self.is_begun(life), "{life:?} ends once, and in turn");
        self.reset[life.zone as usize] += 1;
    }

    /// Resets of all zones.
    #[cfg(test)]
    pub(super) fn resets(&self) -> u32 {
        self.reset.iter().sum()
    }
}
