//! Whether a session may still write to its drives, or somebody else took them over.
//!
//! Locks keep two owners apart on one machine only. Between machines labels do: whoever takes a pool over writes a
//! newer epoch to them and waits; whoever has it reads them again before each heartbeat and each change, and stops where
//! they say more than it wrote. A fence that has fallen stays so: nothing is written to any drive any more, by whatever
//! part of the pool.
//!
//! **Not here**: what is sent to a drive before the labels were read and lands later, by a machine that stood still in
//! between. Only drives can refuse that.

use crate::label::generation::TableGeneration;
use crate::label::state::{Label, LabelState, Owner, PoolId};
use alloc::boxed::Box;
use core::cell::{Cell, RefCell};
use core::fmt;
use varve_io::IoError;
use varve_units::Nanos;

/// Heartbeats for which an owner is watched before its pool is taken over: one may be late, one may be missed.
const WATCHED_BEATS: u64 = 3;
/// Heartbeats that go by before whoever took a pool over writes more than labels: the old owner has looked at its
/// labels by then, though that may take as long as the pause between two.
const QUIET_BEATS: u64 = 2;

/// What became of a pool whose session is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// Another session has claimed it.
    Claimed {
        /// Whose, if the labels say so already: they do when whoever takes over has waited.
        owner: Option<Owner>,
        /// Its epoch.
        epoch: u32,
        /// The heartbeat of that label.
        heartbeat: u64,
    },
    /// Too few drives have its labels: others are another pool's by now.
    Reused,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed {
                owner: Some(owner),
                epoch,
                ..
            } => write!(f, "{owner} has taken the pool over (epoch {epoch})"),
            Self::Claimed { epoch, .. } => {
                write!(f, "another owner has taken the pool over (epoch {epoch})")
            }
            Self::Reused => f.write_str("its drives have the labels of another pool"),
        }
    }
}

/// Whether a session may write.
pub struct Fence {
    beat: Nanos,
    taken: Cell<Option<Taken>>,
    /// What labels may say.
    known: Cell<Option<Known>>,
    stop: RefCell<Option<Box<dyn Fn()>>>,
}

impl Fence {
    /// Of a session that writes a heartbeat each `beat`.
    #[must_use]
    pub const fn new(beat: Nanos) -> Self {
        Self {
            beat,
            taken: Cell::new(None),
            known: Cell::new(None),
            stop: RefCell::new(None),
        }
    }

    /// The pause between two heartbeats.
    #[must_use]
    pub const fn beat(&self) -> Nanos {
        self.beat
    }

    /// How long the old owner of a pool is watched.
    pub(crate) const fn watch(&self) -> Nanos {
        Nanos(self.beat.0.saturating_mul(WATCHED_BEATS))
    }

    /// How long nothing but labels is written to a pool that was taken over.
    pub(crate) const fn quiet(&self) -> Nanos {
        Nanos(self.beat.0.saturating_mul(QUIET_BEATS))
    }

    /// What became of the pool, if it is no longer the session's.
    #[must_use]
    pub const fn taken(&self) -> Option<Taken> {
        self.taken.get()
    }

    /// The session is about to write so much, at most.
    pub(crate) fn know(&self, known: Known) {
        self.known.set(Some(known));
    }

    /// What a drive says, by what the session knows now: a look may wait until a label was written. The fence falls if
    /// somebody else wrote there.
    pub(crate) fn judge(&self, copies: &[Copied]) -> Seen {
        let known = self.known.get().expect("a session knows what it found");
        let seen = known.judge(copies);
        if let Seen::Newer(taken) = seen {
            self.fall(taken);
        }
        seen
    }

    /// Nothing is written from here on; what first made it so is told.
    pub(crate) fn fall(&self, taken: Taken) {
        if self.taken.get().is_none() {
            self.taken.set(Some(taken));
            if let Some(stop) = &*self.stop.borrow() {
                stop();
            }
        }
    }

    /// Who is told when it falls; at once if it has.
    pub(crate) fn tell(&self, stop: impl Fn() + 'static) {
        if self.taken.get().is_some() {
            stop();
        }
        *self.stop.borrow_mut() = Some(Box::new(stop));
    }
}

/// What a session knows of its labels; what says more was written by another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) pool: PoolId,
    pub(crate) epoch: u32,
    pub(crate) generation: TableGeneration,
    /// Who may be named in labels of this epoch; anybody as long as the epoch is another session's.
    pub(crate) owners: Option<[Owner; 2]>,
    /// The heartbeat of labels of this generation, if none is the session's own.
    pub(crate) heartbeat: Option<u64>,
}

impl Known {
    /// Of a label that was found, by a session that has written nothing yet. `epoch` is the highest that was found.
    pub(crate) const fn of_found(state: &LabelState, epoch: u32) -> Self {
        Self {
            pool: state.pool,
            epoch,
            generation: state.generation,
            owners: None,
            heartbeat: Some(state.heartbeat),
        }
    }

    fn judge(&self, copies: &[Copied]) -> Seen {
        let labels = || {
            copies
                .iter()
                .filter_map(|copy| copy.as_ref().ok()?.as_ref())
        };
        let is_ours = |label: &&Label| label.state.pool == self.pool;
        let newer = |label: &Label| self.newer(&label.state);
        if let Some(taken) = labels().filter(is_ours).find_map(newer) {
            return Seen::Newer(taken);
        }
        let errors = || copies.iter().filter_map(|copy| copy.as_ref().err());
        // Sectors that cannot be read were not written since: a write mends them.
        if let Some(error) = errors().find(|error| **error != IoError::Media) {
            return Seen::Silent(*error);
        }
        // Where there is no label at all nobody says that the drive is his: it gets one again.
        if labels().any(|label| is_ours(&label)) || labels().next().is_none() {
            return Seen::Ours;
        }
        Seen::Other
    }

    fn newer(&self, state: &LabelState) -> Option<Taken> {
        let is_named = |owners: [Owner; 2]| {
            let is_of_epoch = state.generation.epoch() == self.epoch;
            !is_of_epoch || state.owner == Owner::NOBODY || owners.contains(&state.owner)
        };
        let is_beaten = state.generation == self.generation
            && self.heartbeat.is_some_and(|known| state.heartbeat > known);
        let is_ours = state.epoch <= self.epoch
            && state.generation <= self.generation
            && self.owners.is_none_or(is_named)
            && !is_beaten;
        let is_other = |owner: &Owner| {
            let is_known = self.owners.is_some_and(|owners| owners.contains(owner));
            *owner != Owner::NOBODY && !is_known
        };
        (!is_ours).then(|| Taken::Claimed {
            owner: Some(state.owner).filter(is_other),
            epoch: state.epoch,
            heartbeat: state.heartbeat,
        })
    }
}

/// What was read where a copy of a label should be: nothing if that is none.
pub(crate) type Copied = Result<Option<Label>, IoError>;

/// What the labels of one drive say to a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// Nobody else wrote there.
    Ours,
    /// Another session did.
    Newer(Taken),
    /// It is another pool's.
    Other,
    /// The drive does not say.
    Silent(IoError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::member::MemberId;
    use crate::label::table::MemberTable;
    use varve_format::{Geometry, Name, Protection};

    const ME: Owner = Owner([1; 16]);
    const OTHER: Owner = Owner([2; 16]);
    const POOL: PoolId = PoolId([7; 16]);

    fn label(epoch: u32, generation: (u32, u32), owner: Owner) -> Copied {
        let geometry = Geometry {
            chunk_bytes: 1 << 20,
            chunks: 64,
            slices: 16,
            group_blocks: 0,
            groups: 0,
            stripe_data_blocks: 0,
            strip_blocks: 0,
            protection: Protection::None,
            data_strips: 0,
            parity_strips: 0,
            lba_bytes: 512,
            fast_bytes: 64 << 20,
            over_provision_per_mille: 70,
        };
        let state = LabelState {
            pool: POOL,
            name: Name::new("shelf").expect("a name"),
            generation: TableGeneration::new(generation.0, generation.1),
            epoch,
            owner,
            heartbeat: 5,
            clean: false,
            unfinished: false,
            geometry,
            members: MemberTable::default(),
        };
        let own = MemberId(0);
        Ok(Some(Label { own, state }))
    }

    fn foreign() -> Copied {
        let mut label = label(9, (9, 9), OTHER).ok().flatten().expect("a label");
        label.state.pool = PoolId([8; 16]);
        Ok(Some(label))
    }

    /// A session of epoch 3 that has written up to generation 3.4.
    const KNOWN: Known = Known {
        pool: POOL,
        epoch: 3,
        generation: TableGeneration::new(3, 4),
        owners: Some([ME, ME]),
        heartbeat: None,
    };

    /// What labels of an own session say, in one copy or the other.
    #[test]
    fn what_a_session_did_not_write_is_newer() {
        let ours = [
            label(3, (3, 4), ME),
            label(3, (3, 1), ME),
            label(3, (3, 4), Owner::NOBODY),
            label(3, (2, 8), OTHER),
            label(2, (2, 8), OTHER),
            label(0, (0, 1), Owner::NOBODY),
        ];
        let newer = [
            (label(4, (2, 8), OTHER), Some(OTHER)),
            (label(4, (3, 4), ME), None),
            (label(3, (3, 5), ME), None),
            (label(3, (3, 1), OTHER), Some(OTHER)),
            (label(5, (5, 1), Owner::NOBODY), None),
        ];
        for one in &ours {
            for other in [one.clone(), Ok(None), Err(IoError::Media), foreign()] {
                let seen = KNOWN.judge(&[one.clone(), other.clone()]);
                assert_eq!(seen, Seen::Ours, "{one:?} {other:?}");
                assert_eq!(KNOWN.judge(&[other, one.clone()]), Seen::Ours);
            }
            let silent = [one.clone(), Err(IoError::Gone)];
            assert_eq!(KNOWN.judge(&silent), Seen::Silent(IoError::Gone));
            for (newer, by) in &newer {
                for copies in [[one.clone(), newer.clone()], [newer.clone(), one.clone()]] {
                    let Seen::Newer(Taken::Claimed { owner, .. }) = KNOWN.judge(&copies) else {
                        panic!("{copies:?}");
                    };
                    assert_eq!(owner, *by);
                }
            }
        }
    }

    /// A drive without a label gets one again; one with another pool's is no witness.
    #[test]
    fn a_drive_of_another_pool_is_told_from_one_without_a_label() {
        let (blank, bad) = (Ok(None), Err(IoError::Media));
        for copy in [&blank, &bad] {
            let other = [foreign(), copy.clone()];
            assert_eq!(KNOWN.judge(&other), Seen::Other);
            for second in [&blank, &bad] {
                assert_eq!(KNOWN.judge(&[copy.clone(), second.clone()]), Seen::Ours);
            }
        }
    }

    /// A label that was found is older than any heartbeat of it.
    #[test]
    fn a_heartbeat_is_newer_than_what_was_found() {
        let found = label(3, (3, 4), OTHER).ok().flatten().expect("a label");
        let mut known = Known::of_found(&found.state, 3);
        assert_eq!(known.judge(&[Ok(Some(found.clone()))]), Seen::Ours);
        known.heartbeat = Some(4);
        let seen = known.judge(&[Ok(Some(found))]);
        let by = Some(OTHER);
        assert!(
            matches!(seen, Seen::Newer(Taken::Claimed { owner, heartbeat: 5, .. }) if owner == by)
        );
        assert_eq!(known.judge(&[label(3, (3, 3), OTHER)]), Seen::Ours);
    }

    /// What made it fall first is what is told, once.
    #[test]
    fn a_fence_falls_once() {
        let fence = Fence::new(Nanos(1));
        let count = alloc::rc::Rc::new(Cell::new(0));
        let told = alloc::rc::Rc::clone(&count);
        fence.tell(move || told.set(told.get() + 1));
        fence.fall(Taken::Reused);
        let owner = Some(OTHER);
        fence.fall(Taken::Claimed {
            owner,
            epoch: 9,
            heartbeat: 0,
        });
        assert_eq!((fence.taken(), count.get()), (Some(Taken::Reused), 1));
    }
}
