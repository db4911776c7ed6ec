//! Free groups for a pool in which freed blocks have come back: the emptiest groups are emptied into the log.
//!
//! Garbage collection needs free groups to begin with. What was free when the fast tier was lost may hold blocks again
//! whose later versions or deallocations were in the log alone.

use super::{RebuildError, RebuildReport};
use crate::candidate::Candidate;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::gate::log_cost;
use crate::geometry::{Tier, UnitId};
use crate::progress::Progress;
use crate::shared::Shared;
use crate::units::UnitState;
use alloc::rc::Rc;
use alloc::vec::Vec;

impl Engine {
    /// Sees to it that enough groups are free. Returns how many were emptied for that.
    pub(super) async fn make_room(&self, report: &RebuildReport) -> Result<u64, RebuildError> {
        let shared = &self.shared;
        let geometry = shared.units.geometry();
        let reserve = &shared.config.reserve;
        // Garbage collection's, and one that compaction can have.
        let needed = reserve.gc_groups + 1;
        let user = u64::from(geometry.stripe_user_blocks()) * u64::from(geometry.group_stripes());
        let most = user * u64::from(geometry.groups - needed);
        let mapped = report.mapped;
        if mapped > most {
            return Err(RebuildError::NoRoom { mapped, most });
        }
        let mut used: Vec<UnitId> = shared.units.ids(Tier::Dense).collect();
        used.retain(|id| shared.units.unit(*id).state() == UnitState::Closed);
        used.sort_unstable_by_key(|id| shared.units.unit(*id).live());
        let free = geometry.groups - used.len() as u32;
        let emptiest = &used[..needed.saturating_sub(free) as usize];
        let blocks: u64 = emptiest
            .iter()
            .map(|id| u64::from(shared.units.unit(*id).live()))
            .sum();
        let (free, needed) = (u64::from(free), u64::from(needed));
        if log_cost(blocks) > self.room_to_evacuate() {
            return Err(RebuildError::NoGroups { free, needed });
        }
        for group in emptiest {
            shared.evacuate(*group).await?;
        }
        Ok(emptiest.len() as u64)
    }

    /// Blocks of log beyond what a start and what comes behind it need.
    fn room_to_evacuate(&self) -> u64 {
        let shared = &self.shared;
        let reserve = &shared.config.reserve;
        let kept = reserve.chunks + reserve.part_chunks;
        let free = shared.control().free_chunks() as u64;
        let chunk = u64::from(shared.units.geometry().chunk_blocks());
        free.saturating_sub(u64::from(kept)) * chunk
    }
}

impl Shared {
    /// Appends all blocks of a group to the log again.
    async fn evacuate(self: &Rc<Self>, id: UnitId) -> Result<(), RebuildError> {
        let geometry = *self.units.geometry();
        let progress = Rc::new(Progress::default());
        let stripes = self.units.unit(id).write_pointer() / geometry.stripe_blocks;
        for stripe in (0..stripes).filter(|stripe| self.stripe_has_live(id.index, *stripe)) {
            let entries = self.read_p2l(id.index, stripe).await;
            let entries = entries.map_err(|ways| RebuildError::Dense(ways.why()))?;
            for candidate in self.stripe_candidates(id.index, stripe, &entries).await {
                self.evacuate_block(id, &candidate, &progress).await?;
            }
        }
        progress.settled().await;
        if progress.has_failed() {
            return Err(EngineError::Stopped.into());
        }
        self.control().emptied(self, id);
        Ok(())
    }

    async fn evacuate_block(
        self: &Rc<Self>,
        id: UnitId,
        candidate: &Candidate,
        progress: &Rc<Progress>,
    ) -> Result<(), RebuildError> {
        match self.read_other_copy(id, candidate).await {
            Ok(block) => {
                let item = candidate.with(0);
                self.re_append(&item, &Rc::new(block), progress).await;
                Ok(())
            }
            Err(ways) if ways.is_lost() => {
                self.declare_lost(id, candidate, progress).await;
                Ok(())
            }
            Err(ways) => Err(RebuildError::Dense(ways.why())),
        }
    }
}
