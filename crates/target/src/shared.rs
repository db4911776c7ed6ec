//! What connections share: the subsystem, controllers, actions, effects on one another.

use crate::action::Action;
use crate::budget::Budget;
use crate::clock::Clock;
use crate::connection::ConnectionId;
use crate::controller::Controller;
use crate::subsystem::Subsystem;
use crate::warnings::Warnings;
use alloc::collections::{BTreeMap, VecDeque};
use varve_nvme::Sqe;
use varve_nvme::identify::ControllerKind;
use varve_nvme::opcode::io;

/// What one connection does to others; done by the target after the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// The connections of a controller's I/O queues end.
    CloseQueues(u16),
    /// Events of a controller may be reported.
    Notify(u16),
    /// A command of another queue is to be aborted; `by` waits for the answer.
    Abort {
        cntlid: u16,
        qid: u16,
        cid: u16,
        by: ConnectionId,
        by_cid: u16,
    },
    /// A Connect of an I/O queue waits.
    Connect(ConnectionId),
}

/// Counters of the health log.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Health {
    pub reads: u64,
    pub writes: u64,
    pub blocks_read: u64,
    pub blocks_written: u64,
    pub media_errors: u64,
}

impl Health {
    /// Counts a command that succeeded.
    pub fn count(&mut self, sqe: &Sqe) {
        let blocks = u64::from(sqe.range().count);
        match sqe.opcode {
            io::READ | io::COMPARE => {
                self.reads += 1;
                self.blocks_read += blocks;
            }
            io::WRITE => {
                self.writes += 1;
                self.blocks_written += blocks;
            }
            _ => {}
        }
    }
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub subsystem: Subsystem,
    pub controllers: BTreeMap<u16, Controller>,
    pub actions: VecDeque<Action>,
    pub effects: VecDeque<Effect>,
    pub health: Health,
    pub warnings: Warnings,
    pub clock: Clock,
    pub budget: Budget,
    /// GENCTR of the discovery log.
    pub discovery_generation: u64,
    next_cntlid: u16,
}

/// Highest controller id (spec: base 2.0 §3.1.2: FFF0h and above are reserved).
const CNTLID_MAX: u16 = 0xffef;
/// Controllers for discovery at once. Arbitrary: an eighth of all.
const DISCOVERY_MAX: usize = crate::CONTROLLERS_MAX / 8;

impl Shared {
    pub fn new(subsystem: Subsystem) -> Self {
        Self {
            subsystem,
            controllers: BTreeMap::new(),
            actions: VecDeque::new(),
            effects: VecDeque::new(),
            health: Health::default(),
            warnings: Warnings::default(),
            clock: Clock::default(),
            budget: Budget::new(crate::ALL_DATA_BYTES_MAX),
            discovery_generation: 1,
            next_cntlid: 1,
        }
    }

    /// An id that no controller has; ids come back as late as can be. Controllers for discovery, which anybody may
    /// have, leave most to those for I/O.
    pub fn new_cntlid(&mut self, kind: ControllerKind) -> Option<u16> {
        let is_discovery = |kind| kind == ControllerKind::Discovery;
        let all = self.controllers.values();
        let discovery = all
            .filter(|controller| is_discovery(controller.kind))
            .count();
        let is_full = self.controllers.len() >= crate::CONTROLLERS_MAX
            || is_discovery(kind) && discovery >= DISCOVERY_MAX;
        if is_full {
            return None;
        }
        loop {
            let id = self.next_cntlid;
            self.next_cntlid = if id == CNTLID_MAX { 1 } else { id + 1 };
            if !self.controllers.contains_key(&id) {
                return Some(id);
            }
        }
    }
}
