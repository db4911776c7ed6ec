//! CSAL as open-sourced: a writer for compaction and one for garbage collection take bands from one
//! list of free ones, in the order in which they became free; victims are whole reclaim groups.
//!
//! What is left out: bands are emptied one after another, not while compaction goes on, so compaction
//! never waits at two free bands.
//!
//! # Source
//! SPDK 26.09-pre: `lib/ftl/ftl_band.c` (`band_cmp`, `get_band_phys_info`,
//! `ftl_band_search_next_to_reloc`), `lib/ftl/ftl_writer.c`, `lib/ftl/utils/ftl_conf.c`.

use super::super::policy::{Moving, Policy, View};
use super::super::units::Units;
use crate::comparators::CSAL_TODAY;

/// CSAL's open-source rule.
pub(super) struct CsalToday {
    group_bands: u32,
    /// The group that is being emptied, and the next of its bands to look at.
    group: Option<u32>,
    next: u32,
}

impl CsalToday {
    /// Groups of so many bands.
    pub(super) const fn new(group_bands: u32) -> Self {
        Self {
            group_bands,
            group: None,
            next: 0,
        }
    }

    /// Invalid share of a group, as if bands that are not closed had nothing invalid; how often its
    /// bands were written on average.
    fn look_at(&self, group: u32, units: &Units) -> (f64, f64) {
        let first = group * self.group_bands;
        let (mut invalid, mut writes) = (0.0, 0.0);
        for band in first..first + self.group_bands {
            writes += f64::from(units.openings(band));
            if units.is_closed(band) {
                invalid += 1.0 - f64::from(units.live(band)) / f64::from(units.blocks());
            }
        }
        let bands = f64::from(self.group_bands);
        (invalid / bands, writes / bands)
    }

    /// The group to empty next.
    fn choose(&self, units: &Units) -> Option<u32> {
        let mut chosen: Option<(u32, f64)> = None;
        let mut most_invalid = 0.0;
        for group in 0..units.count() as u32 / self.group_bands {
            let (invalid, writes) = self.look_at(group, units);
            if invalid == 0.0 {
                continue;
            }
            let is_better = chosen.is_none_or(|(_, chosen_writes)| {
                let differ = invalid - most_invalid;
                if differ.abs() > CSAL_TODAY.similar {
                    differ > 0.0
                } else {
                    writes < chosen_writes
                }
            });
            if is_better {
                chosen = Some((group, writes));
                // As published: the bar never sinks, even if a group below it is preferred.
                most_invalid = f64::max(most_invalid, invalid);
            }
        }
        chosen.map(|(group, _)| group)
    }
}

impl Policy for CsalToday {
    fn streams(&self) -> usize {
        2
    }

    fn reserve(&self) -> usize {
        CSAL_TODAY.free_bands
    }

    fn discards(&self) -> bool {
        CSAL_TODAY.discards
    }

    fn metadata_per_block(&self) -> f64 {
        CSAL_TODAY.metadata_per_block
    }

    fn stream_of_new(&mut self, _moving: &Moving) -> usize {
        0
    }

    fn stream_of_moved(&mut self, _moving: &Moving, _from: usize) -> usize {
        1
    }

    fn victim(&mut self, view: &View<'_>) -> Option<u32> {
        loop {
            if let Some(group) = self.group {
                let end = (group + 1) * self.group_bands;
                while self.next < end {
                    let band = self.next;
                    if view.units.is_closed(band) {
                        return Some(band);
                    }
                    self.next += 1;
                }
            }
            self.group = Some(self.choose(view.units)?);
            self.next = self.group? * self.group_bands;
        }
    }
}
