//! One tenant: a volume over NVMe/TCP, and what it does there.

use super::error::DemoError;
use crate::load::{Direction, Draw, Oracle, Order, Phase, Ring, Share, Store, Subject};
use crate::remote::{Address, Remote, Terms, connect};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_initiator::Event;
use varve_io::World;
use varve_nvme::tcp::Digests;
use varve_units::Nanos;

/// Blocks of one operation while a volume is filled or verified: 128 KiB.
const SWEEP_BLOCKS: u64 = 32;
/// Operations in flight then.
const SWEEP_DEPTH: u32 = 8;

/// How a tenant overwrites its volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habit {
    /// Blocks of one operation.
    pub(super) blocks: u64,
    /// Operations in flight.
    pub(super) depth: u32,
    /// Which blocks.
    pub(super) order: Order,
}

/// One tenant.
pub(super) struct Tenant {
    habit: Habit,
    drive: Rc<Remote>,
    subject: Rc<Subject>,
    /// Blocks that it uses, a multiple of those of every operation.
    pub(super) blocks: u64,
    seed: Cell<u64>,
}

impl Tenant {
    /// Connects to a volume, of which `blocks` will be used.
    ///
    /// # Errors
    /// [`DemoError::Unreachable`].
    pub(super) async fn connect(
        world: &Rc<dyn World>,
        address: &Address,
        blocks: u64,
        habit: Habit,
        seed: u64,
    ) -> Result<Self, DemoError> {
        let depth = habit.depth.max(SWEEP_DEPTH);
        let terms = Terms {
            queues: 1,
            depth,
            digests: Digests::default(),
        };
        let drive = connect(world, address, terms).await;
        let drive = drive.map_err(DemoError::Unreachable)?;
        let blocks = blocks / SWEEP_BLOCKS * SWEEP_BLOCKS;
        let oracle = Some(RefCell::new(Oracle::new(blocks, depth)));
        let store = Store::Remote(Rc::clone(&drive));
        Ok(Self {
            habit,
            subject: Rc::new(Subject::new(store, Rc::clone(world), oracle)),
            drive,
            blocks,
            seed: Cell::new(seed),
        })
    }

    /// Visits every block once, in order.
    pub(super) async fn sweep(
        &self,
        direction: Direction,
        look: impl FnMut(&Phase, Nanos) -> bool + 'static,
    ) {
        let habit = Habit {
            blocks: SWEEP_BLOCKS,
            depth: SWEEP_DEPTH,
            order: Order::Sequential,
        };
        let phase = self.phase(habit, direction, self.blocks / SWEEP_BLOCKS);
        self.subject.run(&phase, look).await;
    }

    /// Overwrites until `look` says that it is enough; tells how many operations that were.
    pub(super) async fn overwrite(&self, look: impl FnMut(&Phase, Nanos) -> bool + 'static) -> u64 {
        let phase = self.phase(self.habit, Direction::Write, u64::MAX);
        self.subject.run(&phase, look).await;
        phase.done()
    }

    fn phase(&self, habit: Habit, direction: Direction, operations: u64) -> Rc<Phase> {
        let seed = self.seed.get();
        self.seed.set(seed + 2);
        let share = Share::new(0, 1, habit.blocks);
        let draw = Draw::new(habit.order, self.blocks / habit.blocks, seed);
        Rc::new(Phase::new(
            direction,
            habit.blocks,
            habit.depth,
            (draw, share),
            Ring::new(habit.blocks as usize, false, seed),
            operations,
        ))
    }

    /// Blocks of one operation.
    pub(super) const fn operation_blocks(&self) -> u64 {
        self.habit.blocks
    }

    /// Blocks that were compared with what was written.
    pub(super) fn checked(&self) -> u64 {
        self.subject.tally().checked
    }

    /// Operations that failed or returned what they must not, and the first of them.
    pub(super) fn failures(&self) -> (u64, Option<String>) {
        let tally = self.subject.tally();
        (tally.failures, tally.first.map(|first| first.what))
    }

    /// Associations with the server that were lost.
    pub(super) fn losses(&self) -> u64 {
        let events = self.drive.take_events();
        let lost = events
            .iter()
            .filter(|one| matches!(one, Event::Lost { .. }));
        lost.count() as u64
    }

    pub(super) async fn close(&self) {
        self.drive.close().await;
    }
}
