//! Virtual hosts: they carry operations out against one life of a pool and hand every answer to
//! the oracle.
//!
//! Hosts that reach the pool over a network have a machine of their own: what they have begun goes on
//! there over a crash of the pool, until it is answered.
//!
//! **Invariants**: changes of a volume's existence or size run alone on that volume; everything
//! else overlaps freely. No borrow is held while an operation is under way.

use crate::checker::{Change, Oracle, Ticket};
use crate::content::fill;
use crate::executor::Reactor;
use crate::fingerprint::Action;
use crate::patience::Patience;
use crate::rng::Rng;
use crate::shortage::Shortage;
use crate::subject::{Flow, Outcome, Subject, SubjectError};
use crate::wire::{Fabric, Place};
use crate::workload::{Kind, Op, Workload};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use varve_io::{Blocks, World};
use varve_units::{LEAF_BLOCKS, Lba, Nanos, TenantId, VolumeId};

/// How long a host waits before it looks again whether a volume is idle.
const PAUSE: Nanos = Nanos::from_micros(20);
/// Longest pause of a host that was refused for want of room beneath a drive. Arbitrary: a shortage is
/// not to take up all operations of a life.
const SHORT_PAUSE_MAX: Nanos = Nanos::from_millis(500);
/// How long after a repeated write what came late is looked for, at most. Arbitrary: half of the time
/// in which something may come late.
const LATE_MAX: Nanos = Nanos::from_secs(1);

/// What hosts share over all lives of a pool.
pub struct Shared {
    /// What they were promised.
    pub oracle: RefCell<Oracle>,
    /// What they do next.
    pub workload: RefCell<Workload>,
    /// Operations ended so far.
    pub operations: Cell<u64>,
    /// What was seen, by feature.
    pub coverage: RefCell<BTreeMap<&'static str, u64>>,
    /// True if blocks are symbols.
    pub is_elided: bool,
    /// Number of tenants.
    pub tenants: u64,
    /// Blocks of one record of a host's write at most.
    pub record_blocks: u64,
    /// Most volumes at a time.
    pub volumes_max: usize,
    /// Most blocks of a volume.
    pub volume_blocks_max: Cell<u64>,
    /// How hosts reach the pool, if not in process.
    pub fabric: Option<Rc<Fabric>>,
    /// Operations under way on the hosts' machine, by volume.
    pub afloat: RefCell<BTreeMap<VolumeId, u64>>,
    /// Room beneath the dense drive.
    pub shortage: Rc<Shortage>,
    /// The drives of the log are away: what fails now nobody hears of.
    pub is_log_away: Cell<bool>,
}

impl Shared {
    /// Counts a feature once more.
    pub fn count(&self, feature: &'static str) {
        *self.coverage.borrow_mut().entry(feature).or_default() += 1;
    }

    fn is_afloat(&self, volume: VolumeId) -> bool {
        self.afloat
            .borrow()
            .get(&volume)
            .is_some_and(|&count| count > 0)
    }
}

/// The hosts of one life of a pool.
pub struct Hosts {
    shared: Rc<Shared>,
    reactor: Rc<Reactor>,
    subject: Rc<dyn Subject>,
    /// What is behind the network, if there is one: the same otherwise.
    pool: Rc<dyn Subject>,
    /// Operations under way on each volume.
    busy: RefCell<BTreeMap<VolumeId, u64>>,
    /// Volumes that somebody wants alone.
    locked: RefCell<Vec<VolumeId>>,
    rng: RefCell<Rng>,
    is_stopping: Cell<bool>,
}

impl Hosts {
    /// Hosts that do nothing yet.
    #[must_use]
    pub fn new(
        shared: Rc<Shared>,
        reactor: Rc<Reactor>,
        subject: Rc<dyn Subject>,
        pool: Rc<dyn Subject>,
        rng: Rng,
    ) -> Rc<Self> {
        Rc::new(Self {
            shared,
            reactor,
            subject,
            pool,
            busy: RefCell::default(),
            locked: RefCell::default(),
            rng: RefCell::new(rng),
            is_stopping: Cell::new(false),
        })
    }

    /// Begins no new operation.
    pub fn stop(&self) {
        self.is_stopping.set(true);
    }

    /// Carries out operations one after another until stopped.
    pub async fn work(self: Rc<Self>) {
        let mut patience = self.patience();
        while !self.is_stopping.get() && !self.reactor.journal().has_failed() {
            let free = self.free_volumes();
            if free.is_empty() {
                if self.shared.oracle.borrow().sizes().is_empty() {
                    self.create().await;
                }
                self.reactor.sleep(patience.next_pause()).await;
                continue;
            }
            patience = self.patience();
            if let Some(place) = self.next_repeated(&free) {
                self.enter(place.volume);
                self.go_back(place).await;
                self.leave(place.volume);
                continue;
            }
            let (volume, op) = {
                let mut workload = self.shared.workload.borrow_mut();
                let (volume, size) = workload.volume(&free);
                (volume, workload.next(volume, size))
            };
            self.enter(volume);
            self.carry_out(volume, op).await;
            self.leave(volume);
        }
    }

    /// Where a write was just sent more than once, if it can be written to again.
    fn next_repeated(&self, free: &[(VolumeId, u64)]) -> Option<Place> {
        let place = self.shared.fabric.as_ref()?.next_repeated()?;
        let (_, size) = *free.iter().find(|(volume, _)| *volume == place.volume)?;
        (place.lba.0 + place.count <= size).then_some(place)
    }

    /// Writes once more to where a write was sent more than once, and reads it after a while: were
    /// the first of them still on its way, it would land on the new content.
    async fn go_back(self: &Rc<Self>, place: Place) {
        let Place { volume, lba, count } = place;
        self.write(volume, lba, count, false).await;
        let pause = self.rng.borrow_mut().magnitude(1 << 14, LATE_MAX.0);
        self.reactor.sleep(Nanos(pause)).await;
        let hosts = Rc::clone(self);
        let read = async move { hosts.read(volume, lba, count).await };
        self.afloat(Some(volume), read).await;
    }

    fn patience(&self) -> Patience {
        Patience::new(PAUSE, self.shared.fabric.is_some())
    }

    /// Carries out an operation where it lives as long as its host does.
    async fn afloat<T: 'static>(
        &self,
        volume: Option<VolumeId>,
        operation: impl Future<Output = T> + 'static,
    ) -> T {
        let Some(fabric) = &self.shared.fabric else {
            return operation.await;
        };
        let volume = volume.unwrap_or(VolumeId(u64::MAX));
        *self.shared.afloat.borrow_mut().entry(volume).or_default() += 1;
        let shared = Rc::clone(&self.shared);
        let world: &dyn World = &**fabric.machine();
        let end = world.run(async move {
            let outcome = operation.await;
            let mut afloat = shared.afloat.borrow_mut();
            *afloat.get_mut(&volume).expect("counted before") -= 1;
            outcome
        });
        end.await
    }

    /// What the pool answers; of one whose log is away errors are not heard: its machine fails.
    async fn answered<T>(&self, asked: Flow<'_, Outcome<T>>) -> Outcome<T> {
        let outcome = asked.await;
        if outcome.is_err() && self.shared.is_log_away.get() {
            std::future::pending::<()>().await;
        }
        outcome
    }

    /// Waits until nothing is under way on the hosts' machine.
    pub async fn land(&self) {
        let mut patience = self.patience();
        while self.shared.afloat.borrow().values().any(|&count| count > 0) {
            self.reactor.sleep(patience.next_pause()).await;
        }
    }

    /// The ticket of an operation that was just begun: its host may outlive the pool.
    fn launch(&self, ticket: Ticket) {
        if self.shared.fabric.is_some() {
            self.shared.oracle.borrow_mut().set_afloat(ticket);
        }
    }

    /// An operation was answered.
    fn landed(&self, ticket: Ticket) {
        let has_crashed = self.shared.oracle.borrow().has_crashed_since(ticket);
        if has_crashed && self.shared.fabric.is_some() {
            self.shared.count("nvme_outlived_crash");
        }
    }

    fn enter(&self, volume: VolumeId) {
        *self.busy.borrow_mut().entry(volume).or_default() += 1;
    }

    fn leave(&self, volume: VolumeId) {
        let mut busy = self.busy.borrow_mut();
        *busy.get_mut(&volume).expect("entered before") -= 1;
    }

    fn free_volumes(&self) -> Vec<(VolumeId, u64)> {
        let mut sizes = self.shared.oracle.borrow().sizes();
        let locked = self.locked.borrow();
        sizes.retain(|(id, _)| !locked.contains(id));
        sizes
    }

    async fn carry_out(self: &Rc<Self>, volume: VolumeId, op: Op) {
        let lba = Lba(op.lba);
        match op.kind {
            Kind::Read | Kind::Scan => {
                let hosts = Rc::clone(self);
                let read = async move { hosts.read(volume, lba, op.count).await };
                self.afloat(Some(volume), read).await;
            }
            Kind::Write | Kind::Force => {
                let forced = op.kind == Kind::Force;
                self.write(volume, lba, op.count, forced).await;
                self.count_size(lba, op.count);
            }
            Kind::Discard | Kind::DiscardHuge | Kind::Zeroes => {
                self.zero(volume, lba, op.count, op.kind).await;
            }
            Kind::Flush => self.flush().await,
            Kind::Create => self.create().await,
            Kind::Delete | Kind::Resize => self.change_alone(volume, op).await,
        }
        self.shared.count(op.kind.name());
    }

    /// Counts a write that is longer than one record. None is that reaches the pool by wire: commands there are
    /// no longer.
    fn count_size(&self, lba: Lba, count: u64) {
        if count <= self.shared.record_blocks || self.shared.fabric.is_some() {
            return;
        }
        self.shared.count("host_write_huge");
        if lba.index() as u64 + count > LEAF_BLOCKS {
            self.shared.count("host_write_leaves");
        } else if count == LEAF_BLOCKS {
            self.shared.count("host_write_leaf");
        }
    }

    /// Counts an operation and mixes its end into the action hash.
    fn ended(&self, word: u64, ticket: u64, is_ok: bool) {
        let particulars = [word, ticket, u64::from(is_ok)];
        self.reactor.journal().add(Action::Respond, &particulars);
        self.reactor.progress();
        self.shared.operations.set(self.shared.operations.get() + 1);
    }

    fn began(&self, op: &[u64]) {
        self.reactor.journal().add(Action::Invoke, op);
    }

    fn fail(&self, what: String) {
        self.reactor.journal().fail(what);
    }

    /// Reads and checks blocks.
    async fn read(&self, volume: VolumeId, lba: Lba, count: u64) {
        let ticket = self.begin_read(volume, lba, count);
        self.launch(ticket);
        let into = Blocks::new(count as usize, self.shared.is_elided);
        let outcome = self.answered(self.subject.read(volume, lba, into)).await;
        self.landed(ticket);
        self.end_read(ticket, volume, lba, count, outcome);
    }

    /// The same without the network.
    async fn read_inside(&self, volume: VolumeId, lba: Lba, count: u64) {
        let ticket = self.begin_read(volume, lba, count);
        let into = Blocks::new(count as usize, self.shared.is_elided);
        let outcome = self.pool.read(volume, lba, into).await;
        self.end_read(ticket, volume, lba, count, outcome);
    }

    fn begin_read(&self, volume: VolumeId, lba: Lba, count: u64) -> Ticket {
        self.began(&[1, volume.0, lba.0, count]);
        self.shared.oracle.borrow_mut().begin_other()
    }

    fn end_read(
        &self,
        ticket: Ticket,
        volume: VolumeId,
        lba: Lba,
        count: u64,
        outcome: Outcome<Blocks>,
    ) {
        self.ended(1, ticket.begun, outcome.is_ok());
        let oracle = &mut *self.shared.oracle.borrow_mut();
        match outcome {
            Ok(blocks) if blocks.len() as u64 != count => {
                self.fail(format!(
                    "a read of {count} blocks returned {}",
                    blocks.len()
                ));
            }
            Ok(blocks) => {
                if let Err(what) = oracle.end_read(ticket, volume, lba, &blocks) {
                    self.fail(what);
                }
            }
            Err(SubjectError::Away) if self.is_unread() => self.shared.count("host_away"),
            Err(error) => self.fail(format!("read of {volume} {lba}: {error}")),
        }
    }

    async fn write(self: &Rc<Self>, volume: VolumeId, lba: Lba, count: u64, forced: bool) {
        let hosts = Rc::clone(self);
        let write = async move { hosts.write_one(volume, lba, count, forced).await };
        let outcome = self.afloat(Some(volume), write).await;
        if outcome.is_err() && self.is_short() {
            // Who asks at once asks in vain.
            let pause = self.rng.borrow_mut().magnitude(PAUSE.0, SHORT_PAUSE_MAX.0);
            self.reactor.sleep(Nanos(pause)).await;
        }
        if let Err(SubjectError::CapacityExceeded | SubjectError::NoSpace | SubjectError::Away) =
            outcome
        {
            // A full pool is to be worked on, not only knocked at.
            self.reactor.sleep(PAUSE).await;
            if self.rng.borrow_mut().chance(1, 4) {
                self.zero(volume, lba, count, Kind::Discard).await;
            }
        }
    }

    async fn write_one(&self, volume: VolumeId, lba: Lba, count: u64, forced: bool) -> Outcome<()> {
        self.began(&[2, volume.0, lba.0, count]);
        let (ticket, blocks) = {
            let oracle = &mut *self.shared.oracle.borrow_mut();
            let ticket = oracle.begin_write(volume, lba, count, Change::Write);
            let mut blocks = Blocks::new(count as usize, self.shared.is_elided);
            for index in 0..count {
                let stamp = oracle.stamp(volume, Lba(lba.0 + index));
                fill(&mut blocks, index as usize, stamp, ticket.id);
            }
            (ticket, blocks)
        };
        self.launch(ticket);
        let outcome = self
            .answered(self.subject.write(volume, lba, blocks, forced))
            .await;
        self.end_change(ticket, volume, lba, count, forced, outcome);
        outcome
    }

    async fn zero(self: &Rc<Self>, volume: VolumeId, lba: Lba, count: u64, kind: Kind) {
        let hosts = Rc::clone(self);
        let zero = async move { hosts.zero_one(volume, lba, count, kind).await };
        self.afloat(Some(volume), zero).await;
    }

    async fn zero_one(&self, volume: VolumeId, lba: Lba, count: u64, kind: Kind) {
        self.began(&[3, volume.0, lba.0, count]);
        let ticket = {
            let oracle = &mut *self.shared.oracle.borrow_mut();
            oracle.begin_write(volume, lba, count, Change::Zero)
        };
        self.launch(ticket);
        let asked = if kind == Kind::Zeroes {
            self.subject.write_zeroes(volume, lba, count)
        } else {
            self.subject.discard(volume, lba, count)
        };
        let outcome = self.answered(asked).await;
        if outcome == Err(SubjectError::CapacityExceeded) && !self.is_short() {
            self.fail(format!("zeroing {count} blocks of {volume} needs no space"));
        }
        self.end_change(ticket, volume, lba, count, false, outcome);
    }

    fn end_change(
        &self,
        ticket: Ticket,
        volume: VolumeId,
        lba: Lba,
        count: u64,
        forced: bool,
        outcome: Outcome<()>,
    ) {
        self.landed(ticket);
        self.ended(2, ticket.begun, outcome.is_ok());
        let oracle = &mut *self.shared.oracle.borrow_mut();
        match outcome {
            Ok(()) => oracle.end_write(ticket, forced),
            Err(SubjectError::Outlived) => oracle.end_failed(ticket),
            Err(SubjectError::CapacityExceeded | SubjectError::NoSpace) if self.is_short() => {
                oracle.end_failed(ticket);
                self.shared.count("host_no_space");
            }
            Err(SubjectError::Away) if self.is_short() => {
                oracle.end_failed(ticket);
                self.shared.count("host_away");
            }
            Err(SubjectError::CapacityExceeded) => {
                let space = self.subject.space();
                if let Err(what) = oracle.check_refusal(space, ticket, volume, lba, count) {
                    self.fail(what);
                }
                oracle.end_failed(ticket);
                self.shared.count("host_refused");
            }
            Err(error) => self.fail(format!(
                "write of {count} blocks to {volume} {lba}: {error}"
            )),
        }
    }

    /// True if a refusal that is seen now may be one of the dense drive.
    fn is_short(&self) -> bool {
        let over_wire = self.shared.fabric.is_some();
        self.shared.shortage.explains(self.reactor.now(), over_wire)
    }

    /// The same of a read.
    fn is_unread(&self) -> bool {
        let over_wire = self.shared.fabric.is_some();
        let shortage = &self.shared.shortage;
        shortage.explains_read(self.reactor.now(), over_wire)
    }

    /// Flushes the pool.
    pub async fn flush(self: &Rc<Self>) {
        let hosts = Rc::clone(self);
        self.afloat(None, async move { hosts.flush_one().await })
            .await;
    }

    async fn flush_one(&self) {
        self.began(&[4]);
        let ticket = self.shared.oracle.borrow_mut().begin_other();
        self.launch(ticket);
        let outcome = self.answered(self.subject.flush()).await;
        self.landed(ticket);
        self.ended(4, ticket.begun, outcome.is_ok());
        let oracle = &mut *self.shared.oracle.borrow_mut();
        match outcome {
            Ok(()) => oracle.end_flush(ticket),
            Err(SubjectError::CacheLost) => oracle.end_failed(ticket),
            Err(error) => self.fail(format!("flush: {error}")),
        }
    }

    /// Creates the first volumes, as many and as large as there may be.
    pub async fn create_first(&self) {
        let most = self.shared.volume_blocks_max.get();
        let mut left = self.shared.volumes_max;
        if self.shared.oracle.borrow().sizes().is_empty() {
            while left > 0 {
                self.create_sized(most).await;
                left -= 1;
            }
        }
    }

    /// Makes all volumes as large as may be and no larger, with nothing in flight: hosts that are
    /// to wear out the pool need more to write to than its fast tier holds, and room to do so.
    pub async fn even_out(&self) {
        self.land().await;
        let most = self.shared.volume_blocks_max.get();
        for (volume, size) in self.free_volumes() {
            if size != most {
                self.resize(volume, most).await;
            }
        }
        while self.free_volumes().len() < self.shared.volumes_max {
            let before = self.free_volumes().len();
            self.create_sized(most).await;
            if self.free_volumes().len() == before {
                break;
            }
        }
    }

    /// Deallocates whole volumes until no more than `percent` of the capacity is in use: what the
    /// pool holds beyond what hosts see of it (changes in doubt) fills it too.
    pub async fn make_room(self: &Rc<Self>, percent: u64) {
        for (volume, size) in self.free_volumes() {
            let space = self.subject.space();
            if space.used_blocks * 100 <= space.capacity_blocks * percent {
                break;
            }
            self.zero(volume, Lba(0), size, Kind::DiscardHuge).await;
            self.shared.count("room_made");
        }
    }

    /// Creates a volume of random size, unless there are enough.
    async fn create(&self) {
        let most = self.shared.volume_blocks_max.get();
        let least = (most / 3).max(64).min(most);
        let size = self.rng.borrow_mut().within(least, most);
        self.create_sized(size).await;
    }

    async fn create_sized(&self, size: u64) {
        let tenant = TenantId(self.rng.borrow_mut().below(self.shared.tenants) as u32);
        let identity = {
            let oracle = &mut *self.shared.oracle.borrow_mut();
            if oracle.sizes().len() + oracle.creating() >= self.shared.volumes_max {
                return;
            }
            oracle.begin_create(size, tenant)
        };
        self.began(&[5, size]);
        let outcome = self
            .answered(self.subject.create_volume(&identity, size))
            .await;
        self.ended(5, size, outcome.is_ok());
        let oracle = &mut *self.shared.oracle.borrow_mut();
        match outcome {
            Ok(id) => {
                if let Err(what) = oracle.end_create(id, &identity) {
                    self.fail(what);
                }
            }
            Err(SubjectError::CapacityExceeded) => oracle.end_create_failed(&identity),
            Err(error) => self.fail(format!("creation of a volume: {error}")),
        }
    }

    /// Deletes or resizes a volume once nothing else is under way on it.
    async fn change_alone(&self, volume: VolumeId, op: Op) {
        let is_last = self.free_volumes().len() < 2;
        if self.locked.borrow().contains(&volume) || (op.kind == Kind::Delete && is_last) {
            return;
        }
        self.locked.borrow_mut().push(volume);
        let mut patience = self.patience();
        while self.busy.borrow()[&volume] > 1 || self.shared.is_afloat(volume) {
            self.reactor.sleep(patience.next_pause()).await;
        }
        if op.kind == Kind::Delete {
            self.delete(volume).await;
        } else {
            let most = self.shared.volume_blocks_max.get();
            self.resize(volume, op.count.min(most)).await;
        }
        self.locked.borrow_mut().retain(|&locked| locked != volume);
    }

    async fn delete(&self, volume: VolumeId) {
        self.began(&[6, volume.0]);
        self.shared.oracle.borrow_mut().begin_delete(volume);
        let outcome = self.answered(self.subject.delete_volume(volume)).await;
        self.ended(6, volume.0, outcome.is_ok());
        match outcome {
            Ok(()) => self.shared.oracle.borrow_mut().end_delete(volume),
            Err(error) => self.fail(format!("deletion of {volume}: {error}")),
        }
    }

    async fn resize(&self, volume: VolumeId, size: u64) {
        self.began(&[7, volume.0, size]);
        let ticket = self.shared.oracle.borrow_mut().begin_resize(volume, size);
        let outcome = self
            .answered(self.subject.resize_volume(volume, size))
            .await;
        self.ended(7, volume.0, outcome.is_ok());
        let oracle = &mut *self.shared.oracle.borrow_mut();
        match outcome {
            Ok(()) => oracle.end_resize(volume, size, ticket),
            Err(SubjectError::CapacityExceeded) => oracle.end_resize_failed(volume, ticket),
            Err(SubjectError::NoSpace | SubjectError::Away) if self.is_short() => {
                oracle.end_resize_failed(volume, ticket);
                self.shared.count("host_no_space");
            }
            Err(error) => self.fail(format!("resize of {volume}: {error}")),
        }
    }

    /// Reads every block of every volume, a few reads at a time; seldom over the network, which takes
    /// long.
    pub async fn verify(self: Rc<Self>) {
        let over_wire = self.shared.fabric.is_some() && self.rng.borrow().split("way").chance(1, 8);
        if over_wire {
            self.shared.count("nvme_verify");
        }
        let mut parts = Vec::new();
        for (volume, size) in self.shared.oracle.borrow().sizes() {
            let mut at = 0;
            while at < size {
                let count = self.rng.borrow_mut().within(32, 256).min(size - at);
                parts.push((volume, Lba(at), count));
                at += count;
            }
        }
        let parts = Rc::new(RefCell::new(parts));
        let world: Rc<dyn World> = Rc::clone(&self.reactor) as Rc<dyn World>;
        let mut readers = Vec::new();
        for _ in 0..4 {
            let (hosts, parts) = (Rc::clone(&self), Rc::clone(&parts));
            readers.push(world.run(async move {
                loop {
                    let part = parts.borrow_mut().pop();
                    let Some((volume, lba, count)) = part else {
                        break;
                    };
                    if over_wire {
                        let reader = Rc::clone(&hosts);
                        let read = async move { reader.read(volume, lba, count).await };
                        hosts.afloat(Some(volume), read).await;
                    } else {
                        hosts.read_inside(volume, lba, count).await;
                    }
                }
            }));
        }
        for reader in readers {
            reader.await;
        }
    }
}
