//! CSAL as its paper describes it: compaction sorts a chunk's blocks by tenant and appends each
//! tenant's to a zone of that tenant; garbage collection has a zone of its own.
//!
//! The paper does not say which zone is emptied next; here it is the one with the fewest live blocks.
//!
//! # Source
//! Document 002.

use super::super::policy::{Moving, Policy, View};
use crate::comparators::CSAL_PAPER;

/// CSAL's published placement.
pub(super) struct CsalPaper {
    tenants: usize,
}

impl CsalPaper {
    /// With so many tenants.
    pub(super) const fn new(tenants: usize) -> Self {
        Self { tenants }
    }
}

impl Policy for CsalPaper {
    fn streams(&self) -> usize {
        self.tenants + 1
    }

    fn reserve(&self) -> usize {
        CSAL_PAPER.free_bands
    }

    fn discards(&self) -> bool {
        CSAL_PAPER.discards
    }

    fn stream_of_new(&mut self, moving: &Moving) -> usize {
        moving.tenant
    }

    fn stream_of_moved(&mut self, _moving: &Moving, _from: usize) -> usize {
        self.tenants
    }

    fn victim(&mut self, view: &View<'_>) -> Option<u32> {
        view.units.emptiest()
    }
}
