//! What is done to the pool: flows that each keep one write in flight.

use crate::draw::Random;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_ftl::{Engine, EngineError};
use varve_io::{Blocks, World};
use varve_units::{Lba, VolumeId};

/// In which order blocks are written.
pub(crate) enum Order {
    /// From the first on.
    Sequential(u64),
    /// All equally likely.
    Uniform(Random),
}

/// Writes of one phase.
pub(crate) struct Phase {
    /// Blocks of one write.
    pub(crate) blocks: u64,
    /// Writes in flight.
    pub(crate) depth: u32,
    order: RefCell<Order>,
    slots: u64,
    left: Cell<u64>,
    done: Cell<u64>,
    failure: Cell<Option<EngineError>>,
}

impl Phase {
    /// At most `writes` writes of `blocks` blocks each, to a volume of `user_blocks`.
    pub(crate) const fn new(
        order: Order,
        blocks: u64,
        depth: u32,
        user_blocks: u64,
        writes: u64,
    ) -> Self {
        Self {
            blocks,
            depth,
            order: RefCell::new(order),
            slots: user_blocks / blocks,
            left: Cell::new(writes),
            done: Cell::new(0),
            failure: Cell::new(None),
        }
    }

    /// Writes that have ended.
    pub(crate) const fn done(&self) -> u64 {
        self.done.get()
    }

    /// The first failure.
    pub(crate) const fn failure(&self) -> Option<EngineError> {
        self.failure.get()
    }

    fn next(&self) -> Option<u64> {
        let left = self.left.get().checked_sub(1)?;
        self.left.set(left);
        Some(match &mut *self.order.borrow_mut() {
            Order::Sequential(next) => {
                *next += 1;
                *next - 1
            }
            Order::Uniform(random) => random.below(self.slots),
        })
    }
}

/// Runs a phase to its end. `look` is asked after each `every` writes whether that has come.
pub(crate) async fn run(
    world: &Rc<dyn World>,
    engine: &Rc<Engine>,
    volume: VolumeId,
    phase: &Rc<Phase>,
    every: u64,
    look: Rc<dyn Fn(&Phase) -> bool>,
) {
    let flows: Vec<_> = (0..phase.depth)
        .map(|_| {
            let (engine, phase, look) = (Rc::clone(engine), Rc::clone(phase), Rc::clone(&look));
            world.run(async move {
                while let Some(slot) = phase.next() {
                    let lba = Lba(slot * phase.blocks);
                    let data = symbols(lba, phase.blocks, phase.done());
                    if let Err(error) = engine.write(volume, lba, data, false).await {
                        phase.failure.set(phase.failure.get().or(Some(error)));
                        phase.left.set(0);
                    }
                    phase.done.set(phase.done.get() + 1);
                    if phase.done().is_multiple_of(every) && look(&phase) {
                        phase.left.set(0);
                    }
                }
            })
        })
        .collect();
    for flow in flows {
        flow.await;
    }
}

/// Content of blocks: which block, and a few bits of which write, in 40 bits, never 0.
pub(crate) fn symbols(lba: Lba, blocks: u64, version: u64) -> Blocks {
    let symbol = |number: u64| (number ^ version << 36) & ((1 << 40) - 1);
    let first = lba.0 + 1;
    let mut data = Blocks::elided(blocks as usize);
    match data.symbols_mut() {
        [single] => *single = symbol(first),
        all => {
            for (into, number) in all.iter_mut().zip(first..first + blocks) {
                *into = symbol(number);
            }
        }
    }
    data
}
