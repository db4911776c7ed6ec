//! Reading the labels of several drives again, until a quorum has answered.

use crate::label::commit::{CommitError, Failed};
use crate::label::fence::{Fence, Known, Seen, Taken};
use crate::label::generation::TableGeneration;
use crate::label::member::MemberId;
use crate::label::quorum::Voters;
use crate::label::store::LabelStore;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use varve_io::{Event, World};
use varve_units::Nanos;

/// Looks at the labels in the time of one heartbeat, while an owner is watched.
const LOOKS_A_BEAT: u64 = 2;

/// Drives to look at.
pub(crate) type Looked = Vec<(MemberId, Rc<LabelStore>)>;

/// What drives have said so far.
#[derive(Default)]
pub(crate) struct Look {
    seen: RefCell<Vec<(MemberId, Seen)>>,
    event: Event,
}

impl Look {
    /// Begins to read the labels of all drives at once. Who finds that somebody else wrote there lets the fence fall
    /// before anything else is done to that label, early or late.
    pub(crate) fn start(world: &dyn World, drives: Looked, fence: &Rc<Fence>) -> Rc<Self> {
        let look = Rc::new(Self::default());
        for (id, store) in drives {
            let (look, fence) = (Rc::clone(&look), Rc::clone(fence));
            world.spawn(Box::pin(async move {
                let seen = store.look(|copies| fence.judge(copies)).await;
                look.seen.borrow_mut().push((id, seen));
                look.event.notify();
            }));
        }
        look
    }

    /// Waits until a quorum of each of `asked` has said that nobody else wrote to its labels, or until somebody is found
    /// who did. A drive that never answers delays only what would fail without it.
    pub(crate) async fn decided(
        &self,
        count: usize,
        fence: &Fence,
        generation: TableGeneration,
        asked: &[&Voters],
    ) -> Result<(), CommitError> {
        loop {
            if let Some(taken) = fence.taken() {
                return Err(CommitError::Fenced(taken));
            }
            let is_ours = |id| self.seen.borrow().contains(&(id, Seen::Ours));
            let lacking = asked.iter().find(|voters| !voters.is_quorum(is_ours));
            let Some(deciders) = lacking else {
                return Ok(());
            };
            if self.seen.borrow().len() == count {
                if self
                    .seen
                    .borrow()
                    .iter()
                    .any(|(_, seen)| *seen == Seen::Other)
                {
                    fence.fall(Taken::Reused);
                    continue;
                }
                let ids = deciders.ids().iter().copied();
                return Err(CommitError::NoQuorum {
                    generation,
                    deciders: (*deciders).clone(),
                    durable: ids.filter(|id| is_ours(*id)).collect(),
                    failed: self.silent(),
                });
            }
            self.event.listen().await;
        }
    }

    fn silent(&self) -> Vec<Failed> {
        let seen = self.seen.borrow();
        let silent = seen.iter().filter_map(|(id, seen)| match seen {
            Seen::Silent(error) => Some((*id, *error)),
            Seen::Ours | Seen::Newer(_) | Seen::Other => None,
        });
        silent.collect()
    }
}

/// Watches whether anybody writes to the labels of some drives, for longer than an owner that lives is silent. What was
/// found, and how long that took.
pub(crate) async fn watch(
    world: &dyn World,
    stores: &[Rc<LabelStore>],
    known: Known,
    beat: Nanos,
) -> Option<(Taken, Nanos)> {
    let fence = Rc::new(Fence::new(beat));
    fence.know(known);
    let pause = Nanos(beat.0 / LOOKS_A_BEAT);
    let mut waited = Nanos(0);
    loop {
        let idle = stores.iter().filter(|store| !store.is_busy());
        // Who is who is of no interest here.
        let drives = idle.map(|store| (MemberId(0), Rc::clone(store)));
        drop(Look::start(world, drives.collect(), &fence));
        world.sleep(pause).await;
        if let Some(taken) = fence.taken() {
            return Some((taken, waited));
        }
        // The last look was at the end of the time.
        if waited >= fence.watch() || pause == Nanos(0) {
            return None;
        }
        waited = waited + pause;
    }
}
