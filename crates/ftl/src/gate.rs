//! The gate host writes pass, one on each reactor for the leaves it owns, before they enter the log: who is next, and when.
//!
//! 1. A write that finds the gate idle and room in the log passes at once, unless it came too soon (4).
//! 2. Others wait in the queue of their tenant. Tenants take turns; in its turn a tenant may spend
//!    [`QUANTUM`] blocks of log (deficit round robin), one that comes anew has the next turn.
//! 3. Behind the gate at most a window of log is on its way, so that whoever passes is not behind
//!    a long queue again.
//! 4. When free chunks run short, each write costs time: the less is left, the more. So hosts slow
//!    down until they write what cleaning frees, instead of stopping each time nothing is left.
//!
//! Where the dense tier has no room either, who would wait for that is refused (`shortage`).
//!
//! A write whose host is lost leaves its queue ([`Recall`]).
//!
//! Correctness knows no clock: what may pass is decided by the room in the log alone.
//!
//! Room is the pool's; reactors take it as they come.
//!
//! **Invariants**: nobody passes while another waits at the same gate; a tenant's writes pass in their order.

use crate::error::EngineError;
use crate::recall::Recall;
use crate::shared::Shared;
use crate::shortage::Shortage;
use crate::tally::Counter;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{Ordering, fence};
use varve_io::{Event, Listen, Receiver, Sender, slot};
use varve_units::{Nanos, TenantId, VolumeId};

/// Blocks of log a tenant may spend in its turn. Arbitrary: 256 KiB.
const QUANTUM: u64 = 64;
/// Blocks of log behind the gate at least. Arbitrary: 16 MiB keep any drive busy.
const WINDOW_MIN: u64 = 4096;
/// Longest time one write costs.
const PACE_MAX: Nanos = Nanos::from_millis(1);
/// Time that is not worth sleeping for; it is kept and added to the next.
const PACE_MIN: Nanos = Nanos::from_micros(50);
/// The same on an owner that does nothing else meanwhile: its processor sleeps, and waking one takes some 20
/// us of its time.
const PACE_MIN_APART: Nanos = Nanos::from_micros(200);

/// Writes that waited since each costs time.
const PACED_WRITES: Counter = Counter::named("paced_writes");

/// What a write that waits is told: it passes, or why it does not.
pub(crate) type Pass = Result<(), Denied>;

/// Why a write does not pass, or is not acknowledged. A byte, where errors are 32: each write is told twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denied {
    /// The engine stopped.
    Stopped,
    /// Nobody wants it any more.
    Recalled,
    /// There is no room, and the dense tier has none either.
    Short(Shortage),
}

impl From<Denied> for EngineError {
    fn from(why: Denied) -> Self {
        match why {
            Denied::Stopped => Self::Stopped,
            Denied::Recalled => Self::Recalled,
            Denied::Short(why) => why.refusal().0,
        }
    }
}

/// Writes that wait, by tenant.
#[derive(Default)]
pub(crate) struct Gate {
    queues: RefCell<Queues>,
    /// Somebody came.
    came: Event,
    /// When the next write may pass.
    next: Cell<u64>,
}

#[derive(Default)]
struct Queues {
    /// Who has the turn. Apart: a tenant alone is not looked for.
    first: Option<(TenantId, Queue)>,
    /// Tenants with writes that wait, in order of their turns after that.
    turns: VecDeque<TenantId>,
    /// Their queues.
    others: BTreeMap<TenantId, Queue>,
    /// Memory of the queue that was emptied last, for the next one.
    spare: VecDeque<Waiting>,
}

/// A write that waits.
struct Waiting {
    /// Blocks of log.
    cost: u64,
    pass: Sender<Pass>,
    recall: Option<Recall>,
}

impl Waiting {
    fn is_recalled(&self) -> bool {
        self.recall.as_ref().is_some_and(Recall::is_recalled)
    }
}

struct Queue {
    waiting: VecDeque<Waiting>,
    /// Blocks it may still spend in this turn.
    deficit: u64,
}

impl Gate {
    /// Writes that wait.
    pub(crate) fn queued(&self) -> usize {
        let queues = self.queues.borrow();
        let first = queues.first.iter().map(|(_, queue)| queue);
        let all = first.chain(queues.others.values());
        all.map(|queue| queue.waiting.len()).sum()
    }
}

impl Queues {
    /// True if nobody waits.
    const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn push(&mut self, tenant: TenantId, write: Waiting) {
        let known = match &mut self.first {
            Some((first, queue)) if *first == tenant => Some(queue),
            Some(_) => self.others.get_mut(&tenant),
            None => None,
        };
        if let Some(queue) = known {
            queue.waiting.push_back(write);
            return;
        }
        let mut waiting = core::mem::take(&mut self.spare);
        waiting.push_back(write);
        let deficit = QUANTUM;
        let queue = Queue { waiting, deficit };
        if let Some((before, queue)) = self.first.replace((tenant, queue)) {
            self.turns.push_front(before);
            self.others.insert(before, queue);
        }
    }

    /// Cost of the write whose turn it is. Its tenant has the turn then.
    fn next_cost(&mut self) -> Option<u64> {
        loop {
            let (_, queue) = self.first.as_mut()?;
            let cost = queue.waiting.front().expect("it waits").cost;
            if cost <= queue.deficit {
                return Some(cost);
            }
            queue.deficit += QUANTUM;
            if let Some(next) = self.take_next()
                && let Some((before, queue)) = self.first.replace(next)
            {
                self.turns.push_back(before);
                self.others.insert(before, queue);
            }
        }
    }

    /// Takes the write whose turn it is.
    fn pop(&mut self) -> Option<Sender<Pass>> {
        let (_, queue) = self.first.as_mut()?;
        let write = queue.waiting.pop_front().expect("it waits");
        queue.deficit = queue.deficit.saturating_sub(write.cost);
        if queue.waiting.is_empty() {
            self.spare = core::mem::take(&mut queue.waiting);
            self.first = self.take_next();
        }
        Some(write.pass)
    }

    /// Who has the turn after the first one.
    fn take_next(&mut self) -> Option<(TenantId, Queue)> {
        let tenant = self.turns.pop_front()?;
        let queue = self.others.remove(&tenant).expect("it has a turn");
        Some((tenant, queue))
    }

    /// Everyone who waits, by tenant.
    fn into_all(mut self) -> impl Iterator<Item = Sender<Pass>> {
        self.others.extend(self.first);
        let queues = self.others.into_values();
        queues.flat_map(|queue| queue.waiting.into_iter().map(|write| write.pass))
    }

    /// Takes the writes that nobody wants any more. The others keep their turns.
    fn take_recalled(&mut self) -> Vec<Sender<Pass>> {
        let mut taken = Vec::new();
        let first = self.first.iter_mut().map(|(_, queue)| queue);
        let queues = first.chain(self.others.values_mut());
        for queue in queues.filter(|queue| queue.waiting.iter().any(Waiting::is_recalled)) {
            let (recalled, left) = core::mem::take(&mut queue.waiting)
                .into_iter()
                .partition::<VecDeque<_>, _>(Waiting::is_recalled);
            queue.waiting = left;
            taken.extend(recalled.into_iter().map(|write| write.pass));
        }
        self.others.retain(|_, queue| !queue.waiting.is_empty());
        self.turns.retain(|tenant| self.others.contains_key(tenant));
        if matches!(&self.first, Some((_, queue)) if queue.waiting.is_empty()) {
            self.first = self.take_next();
        }
        taken
    }
}

impl Shared {
    /// Waits until a record of `blocks` blocks may enter the log: what is on its way and this
    /// must fit the chunks above the reserve, however badly they are used.
    ///
    /// # Errors
    /// The engine stopped, there is no room and the dense tier has none either, nobody wants it any more. Whoever
    /// set room aside for it gives that back.
    pub(crate) async fn pass_gate(
        &self,
        volume: VolumeId,
        blocks: u64,
        recall: Option<&Recall>,
    ) -> Result<(), EngineError> {
        match self.enter_gate(volume, blocks, recall) {
            Some(passed) => passed.await.map_err(EngineError::from),
            None => Ok(()),
        }
    }

    /// [`Shared::pass_gate`] up to where it waits: what is waited for, or nothing if the record has
    /// passed.
    pub(crate) fn enter_gate(
        &self,
        volume: VolumeId,
        blocks: u64,
        recall: Option<&Recall>,
    ) -> Option<Receiver<Pass>> {
        // It may have waited for room before it came here.
        let is_recalled = recall.is_some_and(Recall::is_recalled);
        if !is_recalled && !self.is_stopped() && self.try_gate(blocks) {
            return None;
        }
        let (pass, passed) = slot();
        if self.is_stopped() {
            pass.send(Err(Denied::Stopped));
            return Some(passed);
        }
        if is_recalled {
            self.send_back(pass);
            return Some(passed);
        }
        if let Some(recall) = recall {
            recall.waits_at(&self.rc());
        }
        let write = Waiting {
            cost: log_cost(blocks),
            pass,
            recall: recall.cloned(),
        };
        let tenant = self.tenant_of(volume);
        self.gate.queues.borrow_mut().push(tenant, write);
        self.gate.came.notify();
        Some(passed)
    }

    /// Sends back the writes that nobody wants any more.
    pub(crate) fn sweep_gate(&self) {
        let recalled = self.gate.queues.borrow_mut().take_recalled();
        if recalled.is_empty() {
            return;
        }
        recalled.into_iter().for_each(|pass| self.send_back(pass));
        // The gate may wait for room that one of these needed, and nobody else does.
        self.freed.notify();
    }

    fn send_back(&self, pass: Sender<Pass>) {
        self.count("writes_recalled", 1);
        pass.send(Err(Denied::Recalled));
    }

    /// True if a record of `blocks` blocks passes at once: nobody waits, there is room, and what the
    /// writes before it cost is not worth sleeping for.
    pub(crate) fn try_gate(&self, blocks: u64) -> bool {
        let cost = log_cost(blocks);
        if !self.gate.queues.borrow().is_empty() {
            return false;
        }
        if !self.is_slowed() {
            return self.set_log_aside(cost);
        }
        if self.time_ahead() > self.least_pause().0 {
            return false;
        }
        let price = self.price(cost);
        let passes = self.set_log_aside(cost);
        if passes {
            self.charge(price);
        }
        passes
    }

    /// Sets log aside for a write that passes. Who waits elsewhere looks again if it does not: for a moment it was in
    /// their way.
    fn set_log_aside(&self, cost: u64) -> bool {
        let fits = self.reserve_log(cost, self.gate_window());
        if !fits {
            self.wake_waiters_elsewhere();
        }
        fits
    }

    /// Lets writes pass; runs for the engine's life.
    pub(crate) async fn run_gate(self: Rc<Self>) {
        while !self.is_stopped() {
            let Some(cost) = self.gate.queues.borrow_mut().next_cost() else {
                self.gate.came.listen().await;
                continue;
            };
            if !self.has_log_room(cost) {
                if let Some(why) = self.starvation(cost) {
                    let pass = self.gate.queues.borrow_mut().pop();
                    self.count_refusal(why);
                    pass.expect("somebody waits").send(Err(Denied::Short(why)));
                } else {
                    self.wait_for_room(cost).await;
                }
                continue;
            }
            let ahead = self.time_ahead();
            if ahead > self.least_pause().0 {
                self.tally.add_to(self.reactor, PACED_WRITES, 1);
                self.world.sleep(Nanos(ahead)).await;
                // Whoever came meanwhile may be next.
                continue;
            }
            let price = self.price(cost);
            if !self.set_log_aside(cost) {
                // Another reactor was faster.
                continue;
            }
            self.charge(price);
            let pass = self.gate.queues.borrow_mut().pop();
            pass.expect("somebody waits").send(Ok(()));
        }
        self.close_gate();
    }

    /// Tells everyone who waits that the engine stopped.
    pub(crate) fn close_gate(&self) {
        let queues = self.gate.queues.take();
        for pass in queues.into_all() {
            pass.send(Err(Denied::Stopped));
        }
        self.gate.came.notify();
    }

    /// Waits until records are acknowledged or chunks freed.
    async fn wait_for_room(&self, cost: u64) {
        // Said before looking a last time: room that is made from here on is heard of.
        self.set_waits(self.reactor);
        let freed = self.freed.listen();
        if self.has_log_room(cost) || self.starvation(cost).is_some() {
            return;
        }
        let pending = self.pending_log();
        let is_window = pending > 0 && pending + cost > self.gate_window();
        if is_window {
            freed.await;
            return;
        }
        self.count("admission_waits", 1);
        self.wait_for_chunks(freed).await;
    }

    /// Makes deallocations wait while what is left of the log is for those who free it: moves, and the leaves of
    /// victims. Not while they wait for a group themselves: a deallocation may be what empties one.
    pub(crate) async fn leave_log_to_moves(&self) {
        loop {
            self.set_waits(self.reactor);
            let freed = self.freed.listen();
            let waits_for_groups = self.group_waiters.load(Ordering::SeqCst) > 0;
            let is_short = self.dense_shortage().is_some();
            let is_free = !self.is_log_short() || waits_for_groups || is_short;
            if is_free || self.is_stopped() {
                return;
            }
            self.count("discards_waited", 1);
            self.wait_for_chunks(freed).await;
        }
    }

    /// Waits for `freed` as one for whom chunks are to be emptied.
    async fn wait_for_chunks(&self, freed: Listen<'_>) {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        self.read_ended.notify();
        // Before victims are looked for: see `Shared::blocks_died`.
        fence(Ordering::SeqCst);
        self.tell_control(|control, _| {
            control.cleaner_wanted.notify();
            control.checkpoint_wanted.notify();
        });
        freed.await;
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Blocks of log that may be on their way.
    pub(crate) fn gate_window(&self) -> u64 {
        let lane = &self.config.lane;
        let batches = u64::from(self.config.owners()) * lane.inflight_max as u64;
        (batches * lane.batch_blocks_max).max(WINDOW_MIN)
    }

    fn has_log_room(&self, cost: u64) -> bool {
        let pending = self.pending_log();
        let is_alone = pending == 0;
        pending + cost <= self.log_room() && (is_alone || pending + cost <= self.gate_window())
    }

    /// Time that a write costs: what cleaning takes for as much when half of the room that hosts
    /// are slowed down in is left, more below, less above. So room settles where hosts write what
    /// cleaning frees, whatever either can do.
    fn price(&self, cost: u64) -> u64 {
        let slow = self.slow_room();
        let left = self.log_room().saturating_sub(self.pending_log());
        // Each owner has a gate; cleaning is for all of them.
        let pace = self.pace.load(Ordering::Relaxed) * u64::from(self.config.owners());
        let (short, left) = (slow.saturating_sub(left), left.max(1));
        let price = match (pace * cost).checked_mul(short) {
            Some(product) => product / left,
            // More than the longest by far: `left` has 40 bits.
            None => PACE_MAX.0,
        };
        price.min(PACE_MAX.0)
    }

    /// Time that is not worth sleeping for.
    fn least_pause(&self) -> Nanos {
        match self.config.lanes {
            1 => PACE_MIN,
            _ => PACE_MIN_APART,
        }
    }

    /// Nanoseconds until the next write may pass.
    fn time_ahead(&self) -> u64 {
        self.gate.next.get().saturating_sub(self.world.now().0)
    }

    /// A write that passes now puts off the ones behind it.
    fn charge(&self, price: u64) {
        let next = self.gate.next.get().max(self.world.now().0);
        self.gate.next.set(next + price);
    }

    /// True if room is so short that host writes cost time.
    pub(crate) fn is_slowed(&self) -> bool {
        self.log_room() < self.slow_room() + self.pending_log()
    }

    /// True if hosts wait for room, or are about to.
    pub(crate) fn is_log_used_up(&self) -> bool {
        let is_waited_for = self.waiters.load(Ordering::Relaxed) > 0;
        is_waited_for || self.log_room() < self.slow_room() / 16 + self.pending_log()
    }

    /// Room below which hosts are slowed down: half of what the cleaner aims at, a quarter where that is on another
    /// reactor and goes on meanwhile. Above it, bursts are taken at full speed.
    fn slow_room(&self) -> u64 {
        let spare = self.clean_spare() as u64;
        let share = if self.config.lanes == 1 { 2 } else { 4 };
        spare * u64::from(self.units.geometry().chunk_blocks()) / share
    }

    /// Background reads make way: while hosts read and nobody waits for what is being emptied,
    /// each waits for one read of a host to end. Whoever begins to wait ends that.
    pub(crate) async fn yield_to_reads(&self) {
        let waiters = self.waiters.load(Ordering::Relaxed);
        let for_groups =
            self.group_waiters.load(Ordering::Relaxed) + self.pausing.load(Ordering::Relaxed);
        let is_pressed = waiters > 0 || for_groups > 0 || self.is_chunk_wanted();
        if self.host_reads.get() > 0 && !is_pressed && !self.is_stopped() {
            self.count("background_yields", 1);
            self.read_ended.listen().await;
        }
    }
}

/// Blocks of log that a record of `blocks` data blocks can take: a header of its own at worst.
pub(crate) const fn log_cost(blocks: u64) -> u64 {
    blocks + 1
}

/// A read of a host under way.
pub(crate) struct HostRead<'a>(&'a Shared);

impl<'a> HostRead<'a> {
    /// Counts one.
    pub(crate) fn begin(shared: &'a Shared) -> Self {
        shared.host_reads.set(shared.host_reads.get() + 1);
        Self(shared)
    }
}

impl Drop for HostRead<'_> {
    fn drop(&mut self) {
        self.0.host_reads.set(self.0.host_reads.get() - 1);
        self.0.read_ended.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write that waits.
    fn wait(
        queues: &mut Queues,
        tenant: u32,
        cost: u64,
        recall: Option<&Recall>,
    ) -> Receiver<Pass> {
        let (pass, passed) = slot();
        let recall = recall.cloned();
        queues.push(TenantId(tenant), Waiting { cost, pass, recall });
        passed
    }

    /// Writes of a lost host leave, those of others keep their order and their turns: of the same tenant, of one
    /// that has others, and of one whose turn it was.
    #[test]
    fn recalled_writes_leave() {
        let (lost, kept) = (Recall::default(), Recall::default());
        let mut queues = Queues::default();
        let mut waiting = Vec::new();
        // Costs tell writes apart; one is more than a turn, so that the tenants' turns are spent.
        for (tenant, cost, recall) in [
            (1, 100, Some(&lost)),
            (1, 2, Some(&kept)),
            (2, 3, Some(&lost)),
            (3, 4, None),
            (3, 5, Some(&lost)),
            (3, 6, Some(&kept)),
        ] {
            waiting.push(wait(&mut queues, tenant, cost, recall));
        }
        assert!(queues.take_recalled().is_empty());
        lost.recall();
        assert_eq!(queues.take_recalled().len(), 3);
        assert!(queues.take_recalled().is_empty());
        let mut left = Vec::new();
        while let Some(cost) = queues.next_cost() {
            left.push((queues.first.as_ref().expect("it waits").0.0, cost));
            queues.pop().expect("it waits").send(Ok(()));
        }
        assert_eq!(left, [(3, 4), (3, 6), (1, 2)]);
        assert!(queues.is_empty() && queues.turns.is_empty() && queues.others.is_empty());
    }

    /// A tenant with few writes waits for one turn of each other tenant at most, however much the
    /// others have queued, and nobody's writes overtake one another.
    #[test]
    fn a_flood_does_not_delay_others() {
        for cost in [2, 9, 65, 513] {
            let mut queues = Queues::default();
            let mut receivers = Vec::new();
            let mut push = |queues: &mut Queues, tenant: u32, cost: u64| {
                receivers.push((tenant, wait(queues, tenant, cost, None)));
            };
            for _ in 0..128 {
                push(&mut queues, 1, cost);
            }
            for round in 0..40 {
                push(&mut queues, 2, 2);
                let mut spent = 0;
                loop {
                    let next = queues.next_cost().expect("somebody waits");
                    let tenant = queues.first.as_ref().expect("somebody waits").0;
                    queues.pop().expect("somebody waits").send(Ok(()));
                    if tenant == TenantId(2) {
                        break;
                    }
                    spent += next;
                    push(&mut queues, 1, cost);
                }
                assert!(
                    spent <= QUANTUM + cost,
                    "round {round}: {spent} at cost {cost}"
                );
                // The flood goes on between the few writes.
                for _ in 0..3 {
                    queues.next_cost().expect("somebody waits");
                    queues.pop().expect("somebody waits").send(Ok(()));
                    push(&mut queues, 1, cost);
                }
            }
        }
    }

    /// Two floods share evenly in blocks, whatever the sizes of their writes.
    #[test]
    fn floods_share_by_blocks() {
        let mut queues = Queues::default();
        let mut kept = Vec::new();
        let mut spent = [0_u64; 2];
        let mut push = |queues: &mut Queues, tenant: u32| {
            kept.push(wait(queues, tenant, [9, 200][tenant as usize], None));
        };
        (0..64).for_each(|index| push(&mut queues, index % 2));
        for _ in 0..4000 {
            let cost = queues.next_cost().expect("somebody waits");
            let tenant = queues.first.as_ref().expect("somebody waits").0.0;
            spent[tenant as usize] += cost;
            queues.pop().expect("somebody waits").send(Ok(()));
            push(&mut queues, tenant);
        }
        let (less, more) = (spent[0].min(spent[1]), spent[0].max(spent[1]));
        assert!(more - less <= 2 * 200 + QUANTUM, "{spent:?}");
    }
}
