//! From a commit's parts to slices: each by its owner, the newest part first.

use super::RecoverError;
use super::scan::{Payload, read_payload};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::map::SliceLoad;
use crate::shared::Shared;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_format::{CommitBody, PartKind, PartPlace};
use varve_io::ReactorId;
use varve_units::{Lsn, SliceId};

/// Parts of a slice that are read at the same time: 2 MiB. Arbitrary: as much as keeps a drive busy.
const PARTS_AHEAD: usize = 8;

/// The parts of a slice, oldest first, and the cut that the newest one leads to.
type SliceParts = (SliceId, Lsn, Vec<PartPlace>);

impl Engine {
    /// Has the owner of each slice load it, one slice after another, all owners at the same time.
    pub(super) async fn load_slices(
        &self,
        body: &CommitBody,
        slices: BTreeMap<SliceId, Vec<PartPlace>>,
    ) -> Result<(), RecoverError> {
        let mut by_owner: BTreeMap<ReactorId, Vec<SliceParts>> = BTreeMap::new();
        for (slice, parts) in slices {
            let sector = parts.first().map_or(0, |part| part.sector);
            let cut = body.cuts.get(usize::from(slice.0)).copied();
            let cut = cut.filter(|_| slice.0 < self.shared.units.geometry().slices);
            let cut = cut.ok_or(RecoverError::PartMismatch { sector })?;
            let owner = self.shared.owner_of(slice);
            by_owner.entry(owner).or_default().push((slice, cut, parts));
        }
        let loading: Vec<_> = by_owner
            .into_iter()
            .map(|(owner, slices)| {
                let shared = self.shared.rc();
                let load = move |there: Rc<Shared>| async move {
                    for (slice, cut, parts) in slices {
                        there.load_slice(slice, cut, parts).await?;
                    }
                    Ok::<(), RecoverError>(())
                };
                let flow = async move { shared.call(owner, load).await };
                self.shared.world.run(flow)
            })
            .collect();
        let mut done = Ok(());
        for owner in loading {
            let stopped = Err(RecoverError::Engine(EngineError::Stopped));
            done = done.and(owner.await.unwrap_or(stopped));
        }
        done
    }
}

impl Shared {
    /// Reads a checkpoint part.
    pub(super) async fn read_part(&self, part: PartPlace) -> Result<Payload, RecoverError> {
        let geometry = self.units.geometry();
        let payload = read_payload(&*self.fast, geometry, part.sector, part.bytes, part.crc).await;
        payload.ok_or(RecoverError::PartUnreadable {
            checkpoint: part.checkpoint,
            sector: part.sector,
        })
    }

    /// Loads a slice of this reactor from its parts, given oldest first, up to the cut that the
    /// commit names. Some are read ahead: each would wait for the drive otherwise.
    async fn load_slice(
        self: &Rc<Self>,
        slice: SliceId,
        cut: Lsn,
        mut parts: Vec<PartPlace>,
    ) -> Result<(), RecoverError> {
        let mut load = SliceLoad::new(slice, self.units.geometry().slices);
        let newest = parts.last().map_or(0, |part| part.sector);
        let mut reading = VecDeque::new();
        loop {
            while reading.len() < PARTS_AHEAD {
                let Some(part) = parts.pop() else { break };
                let shared = Rc::clone(self);
                let read = async move { shared.read_part(part).await };
                reading.push_back((part, self.world.run(read)));
            }
            let Some((part, payload)) = reading.pop_front() else {
                break;
            };
            let is_full = part.kind == PartKind::SliceFull;
            let sector = part.sector;
            load.add(is_full, &payload.await?)
                .map_err(|_| RecoverError::PartMismatch { sector })?;
        }
        let mismatch = RecoverError::PartMismatch { sector: newest };
        if load.cut() != cut {
            return Err(mismatch);
        }
        let shard = self.shard();
        let loaded = shard.map.borrow_mut().load(&load);
        loaded.map_err(|_| mismatch)
    }
}
