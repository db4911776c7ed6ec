//! One reactor's view of the pool: its own parts, what all share, and the way to the others.

use crate::control::Control;
use crate::crossing::Crossings;
use crate::error::StopReason;
use crate::gate::Gate;
use crate::geometry::UnitId;
use crate::keeps::Keeps;
use crate::load::Stopped;
use crate::placement::Streams;
use crate::placement::bypass::blocks_min;
use crate::posts::Common;
use crate::retention::Retention;
use crate::runs::Runs;
use crate::shard::Shard;
use crate::turn::Turns;
use crate::volumes::Volumes;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::ops::Deref;
use core::sync::atomic::{Ordering, fence};
use varve_io::{Drive, Event, IoError, Key, ReactorId, Reply, World};
use varve_units::{Lsn, SliceId, TenantId, VolumeId};

/// The reactor where control is, with lane 0.
pub(crate) const FIRST: ReactorId = ReactorId(0);

/// Identity of this run of the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The pool.
    pub pool: [u8; 16],
    /// Epoch of this start; greater than every earlier one.
    pub epoch: u32,
}

impl Identity {
    /// What batches and P2L of an epoch carry as theirs: folded with the pool's identity, because they
    /// have no room for that, and an older pool on the same drives may have had the same epoch.
    #[must_use]
    pub fn tag(&self, epoch: u32) -> u32 {
        let words = self
            .pool
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().expect("16 bytes are four words")));
        words.fold(epoch, |tag, word| tag ^ word)
    }

    /// The epoch that carries this tag, if this pool can have had it: that of another pool comes out as
    /// any of 2^32 numbers.
    pub(crate) fn epoch_of(&self, tag: u32) -> Option<u32> {
        // Folded twice an epoch is itself again.
        Some(self.tag(tag)).filter(|epoch| *epoch <= self.epoch)
    }

    /// Under which key reactors keep their parts of this run: one that has ended and is not gone
    /// yet is another one.
    pub(crate) fn key(&self) -> Key {
        let pool = u128::from_le_bytes(self.pool);
        (pool ^ (u128::from(self.epoch) << 64)).to_le_bytes()
    }
}

/// One reactor's view of the pool. What all reactors look at is reached as if it were its own.
pub struct Shared {
    common: Arc<Common>,
    itself: Weak<Shared>,
    pub(crate) reactor: ReactorId,
    pub(crate) world: Rc<dyn World>,
    pub(crate) fast: Rc<dyn Drive>,
    pub(crate) dense: Option<Rc<dyn Drive>>,
    /// Tenants with streams of their own.
    pub(crate) tenant_streams: u32,
    /// Compaction and garbage collection of this reactor share groups.
    pub(crate) is_joint: bool,
    /// The catalogue; every reactor has a copy, changes are told by the first.
    pub(crate) volumes: RefCell<Volumes>,
    shard: RefCell<Option<Rc<Shard>>>,
    /// On the first reactor only.
    control: RefCell<Option<Rc<Control>>>,
    pub(crate) flush_wanted: Event,
    /// Changes of the catalogue are made one at a time.
    pub(crate) catalogue_turn: Turns,
    /// Blocks of a deleted volume were given back.
    pub(crate) purged: Event,
    /// There may be room in the log: units were freed, or writes acknowledged.
    pub(crate) freed: Event,
    /// Flows that run.
    flows: Cell<usize>,
    abandoned: Cell<bool>,
    flush: FlushGate,
    pub(crate) streams: Streams,
    pub(crate) keeps: Keeps,
    /// What became of blocks that stayed in the log.
    pub(crate) retention: Retention,
    /// Host writes that wait for their turn here.
    pub(crate) gate: Gate,
    /// Writes in order of the leaves owned here.
    pub(crate) runs: Runs,
    /// Blocks of one leaf from which on a write may pass the log.
    bypass_from: usize,
    /// Commands of hosts that go to other reactors, or come from them.
    pub(crate) crossings: Crossings,
    /// Reads of hosts that came in here and are under way.
    pub(crate) host_reads: Cell<usize>,
    /// One of them has ended, or background reads are to wait no longer.
    pub(crate) read_ended: Event,
}

impl Deref for Shared {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

/// One flow of the engine, until it ends or is dropped with its executor.
struct Running(Rc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.flows.set(self.0.flows.get() - 1);
        self.0.detach_when_idle();
    }
}

/// What others find on a reactor's desk. Taken away, the reactor's part of the engine goes with its
/// last flow.
pub(crate) struct Seated(pub(crate) Rc<Shared>);

impl Drop for Seated {
    fn drop(&mut self) {
        self.0.abandoned.set(true);
        self.0.detach_when_idle();
    }
}

/// Flushes of the fast tier, shared by all of a reactor who wait for one.
#[derive(Default)]
struct FlushGate {
    started: Cell<u64>,
    ended: Cell<u64>,
    running: Cell<bool>,
    event: Event,
}

impl Shared {
    pub(crate) fn new(
        common: Arc<Common>,
        world: Rc<dyn World>,
        fast: Rc<dyn Drive>,
        dense: Option<Rc<dyn Drive>>,
    ) -> Rc<Self> {
        let crossings = Crossings::new(common.config.lanes);
        let handles = dense.as_ref().map_or(1, |dense| dense.info().handles);
        let is_joint = world.reactor() == FIRST && dense.is_some() && handles == 1;
        let geometry = common.units.geometry();
        let bypass_from = match dense {
            Some(_) if common.config.bypass => blocks_min(geometry.stripe_user_blocks()),
            _ => usize::MAX,
        };
        let tenant_streams = common.config.reserve.tenant_streams_on(handles);
        Rc::new_cyclic(|itself| Self {
            common,
            itself: Weak::clone(itself),
            reactor: world.reactor(),
            world,
            fast,
            dense,
            tenant_streams,
            is_joint,
            volumes: RefCell::default(),
            shard: RefCell::default(),
            control: RefCell::default(),
            flush_wanted: Event::new(),
            catalogue_turn: Turns::default(),
            purged: Event::new(),
            freed: Event::new(),
            flows: Cell::new(0),
            abandoned: Cell::new(false),
            flush: FlushGate::default(),
            streams: Streams::default(),
            keeps: Keeps::default(),
            retention: Retention::default(),
            gate: Gate::default(),
            runs: Runs::default(),
            bypass_from,
            crossings,
            host_reads: Cell::new(0),
            read_ended: Event::new(),
        })
    }

    pub(crate) fn attach(&self, shard: Rc<Shard>, control: Option<Rc<Control>>) {
        *self.shard.borrow_mut() = Some(shard);
        *self.control.borrow_mut() = control;
        if let Some(desk) = self.world.desk() {
            desk.keep(self.identity.key(), Rc::new(Seated(self.rc())));
        }
    }

    /// True if a write of so many blocks of a leaf may pass the log.
    pub(crate) const fn may_bypass(&self, blocks: usize) -> bool {
        blocks >= self.bypass_from
    }

    pub(crate) const fn common(&self) -> &Arc<Common> {
        &self.common
    }

    /// A reference that counts.
    pub(crate) fn rc(&self) -> Rc<Self> {
        self.itself.upgrade().expect("who asks holds it")
    }

    /// Runs a flow of the engine. The last one to end after the engine was dropped breaks the
    /// reference cycles.
    pub(crate) fn spawn(self: &Rc<Self>, flow: impl Future<Output = ()> + 'static) {
        self.flows.set(self.flows.get() + 1);
        let running = Running(Rc::clone(self));
        self.world.spawn(Box::pin(async move {
            flow.await;
            drop(running);
        }));
    }

    /// The engine was dropped: everything stops, and is freed with the last flow.
    pub(crate) fn abandon(&self) {
        self.stop(StopReason::Closed);
        self.tell_others(|there| there.rise());
        self.abandoned.set(true);
        self.detach_when_idle();
    }

    fn detach_when_idle(&self) {
        if self.abandoned.get() && self.flows.get() == 0 {
            self.shard.borrow_mut().take();
            self.control.borrow_mut().take();
            self.streams.clear();
            self.rise();
        }
    }

    /// Takes this off the desk: nobody finds it there any more.
    fn rise(&self) {
        let Some(desk) = self.world.desk() else {
            return;
        };
        let kept = desk.kept::<Seated>(self.identity.key());
        if kept.is_some_and(|kept| core::ptr::eq(&*kept.0, self)) {
            desk.forget(self.identity.key());
        }
    }

    /// Flows of the engine that run here.
    pub(crate) const fn flows(&self) -> usize {
        self.flows.get()
    }

    /// This reactor's shard.
    pub(crate) fn shard(&self) -> Rc<Shard> {
        let shard = self.shard.borrow();
        Rc::clone(
            shard
                .as_ref()
                .expect("the engine is attached while it runs"),
        )
    }

    /// The reactor that owns a slice.
    pub(crate) fn owner_of(&self, slice: SliceId) -> ReactorId {
        self.config.owner_of(slice)
    }

    /// The reactor that owns the slice of a leaf.
    pub(crate) fn owner_of_leaf(&self, key: crate::map::LeafKey) -> ReactorId {
        if self.config.lanes == 1 {
            return FIRST;
        }
        self.owner_of(self.units.geometry().slice_of(key.volume, key.leaf))
    }

    /// Every reactor's view, in one moment. `None` if the others run on threads of their own.
    pub(crate) fn everyone(&self) -> Option<Vec<Rc<Self>>> {
        let view = |id| {
            if id == self.reactor {
                return Some(self.rc());
            }
            let world = self.world.beside(id)?;
            let seated = world.desk()?.kept::<Seated>(self.identity.key())?;
            Some(Rc::clone(&seated.0))
        };
        self.reactors().map(view).collect()
    }

    /// What is pool-wide; on the first reactor only.
    pub(crate) fn control(&self) -> Rc<Control> {
        Rc::clone(
            self.control
                .borrow()
                .as_ref()
                .expect("control is asked where it is, while the engine runs"),
        )
    }

    /// Runs a flow on another reactor, or here; its value comes back. Everything it needs of this
    /// reactor goes along by value.
    ///
    /// # Errors
    /// The engine there is gone.
    pub(crate) async fn call<T, Flow>(
        &self,
        to: ReactorId,
        job: impl FnOnce(Rc<Self>) -> Flow + Send + 'static,
    ) -> Result<T, Stopped>
    where
        T: Send + 'static,
        Flow: Future<Output = T> + 'static,
    {
        if to == self.reactor {
            return Ok(job(self.rc()).await);
        }
        // A flow of the engine there too, counted while it runs. It makes the job's own flow where
        // that stays: a future handed to another one lies in memory twice, and is copied.
        let counted = move |world: &Rc<dyn World>, seated: Rc<Seated>, reply: Reply<T>| {
            let there = Rc::clone(&seated.0);
            there.flows.set(there.flows.get() + 1);
            let running = Running(Rc::clone(&there));
            let home = Rc::clone(world);
            world.spawn(Box::pin(async move {
                let value = job(there).await;
                drop(running);
                reply.send(&*home, value);
            }));
        };
        let answer = self.world.ask(to, self.identity.key(), counted);
        answer.await.map_err(|_| Stopped)
    }

    /// True if a lane waits for a chunk. Only where control is; elsewhere nobody asks.
    pub(crate) fn is_chunk_wanted(&self) -> bool {
        let control = self.control.borrow();
        control
            .as_ref()
            .is_some_and(|control| control.is_chunk_wanted())
    }

    /// Runs a job on a reactor: here at once, elsewhere soon.
    pub(crate) fn tell(&self, to: ReactorId, job: impl FnOnce(&Rc<Self>) + Send + 'static) {
        if to == self.reactor {
            job(&self.rc());
        } else {
            let job = move |seated: Rc<Seated>| job(&Rc::clone(&seated.0));
            self.world.tell(to, self.identity.key(), job);
        }
    }

    /// Runs a job with control, which is on the first reactor.
    pub(crate) fn tell_control(&self, job: impl FnOnce(&Control, &Self) + Send + 'static) {
        self.tell(FIRST, move |first| {
            let control = first.control.borrow().clone();
            if let Some(control) = control {
                job(&control, first);
            }
        });
    }

    /// Runs a job on every other reactor.
    pub(crate) fn tell_others(&self, job: impl FnOnce(&Rc<Self>) + Clone + Send + 'static) {
        for to in self.reactors().filter(|to| *to != self.reactor) {
            self.tell(to, job.clone());
        }
    }

    /// Stops the engine: nothing is acknowledged from here on, on any reactor.
    pub(crate) fn stop(&self, reason: StopReason) {
        if self.set_stopped(reason) {
            self.wake_all();
            self.tell_others(|there| there.wake_all());
        }
    }

    /// Wakes every flow of this reactor, to see that the engine has stopped.
    fn wake_all(&self) {
        let shard = self.shard.borrow().clone();
        if let Some(shard) = shard {
            shard.pump.notify();
            shard.abandon();
        }
        let control = self.control.borrow().clone();
        if let Some(control) = control {
            control.wake_all();
        }
        self.streams.wake_all();
        self.flush.event.notify();
        self.flush_wanted.notify();
        self.purged.notify();
        self.freed.notify();
        self.read_ended.notify();
        self.crossings.wake_all();
        self.close_gate();
    }

    /// The owner of a volume.
    pub(crate) fn tenant_of(&self, volume: VolumeId) -> TenantId {
        let volumes = self.volumes.borrow();
        volumes.get(volume).map_or(TenantId(0), |v| v.entry.tenant)
    }

    /// Makes everything acknowledged before the call durable, in all lanes. Callers of one reactor
    /// share flushes.
    pub(crate) async fn flush_log(&self) -> Result<(), IoError> {
        if !self.fast.info().volatile_cache {
            return Ok(());
        }
        let mine = self.flush.started.get() + 1;
        while self.flush.ended.get() < mine {
            if let Some(reason) = self.stop_reason() {
                return Err(reason.as_io());
            }
            if self.flush.running.get() {
                self.flush.event.listen().await;
            } else {
                self.run_flush().await;
            }
        }
        Ok(())
    }

    async fn run_flush(&self) {
        self.flush.running.set(true);
        let number = self.flush.started.get() + 1;
        self.flush.started.set(number);
        self.shard().lane.borrow_mut().take_unflushed();
        // What other lanes have acknowledged was written before: a flush covers every write that
        // ended before it was submitted, whoever submitted that.
        let acked = self.acked();
        let result = self.fast.flush().await;
        self.flush.running.set(false);
        match result {
            Ok(()) => {
                self.set_durable(&acked);
                self.flush.ended.set(number);
            }
            Err(error) => self.stop(StopReason::Flush(error)),
        }
        self.flush.event.notify();
    }

    /// Flushes when the lane has written enough since the last flush, so that the tail a start
    /// must verify stays short.
    pub(crate) async fn run_flusher(self: Rc<Self>) {
        while !self.is_stopped() {
            self.flush_wanted.listen().await;
            // A failed flush stops the engine by itself.
            let _ = self.flush_log().await;
        }
    }

    /// Room was made in the log: writes that wait, here and elsewhere, look again.
    pub(crate) fn wake_waiters(&self) {
        self.freed.notify();
        self.wake_waiters_elsewhere();
    }

    /// Writes that wait at other reactors look again.
    pub(crate) fn wake_waiters_elsewhere(&self) {
        for to in self.take_waiting(self.reactor) {
            self.tell(to, |there| there.freed.notify());
        }
    }

    /// Moves to a unit were applied, or never will be: it may be a victim now.
    pub(crate) fn moves_arrived(&self, unit: UnitId, count: u32) {
        self.units.unit(unit).moves_arrived(count);
        self.blocks_died();
    }

    /// Blocks died: whoever found nothing to empty looks again, if it is waited for.
    pub(crate) fn blocks_died(&self) {
        // With the fences of those who wait: either they see the bits that were cleared, or this sees
        // them wait. Relaxed loads alone could both miss the other, and nobody would look again.
        fence(Ordering::SeqCst);
        let waits = |waiters: &core::sync::atomic::AtomicU32| waiters.load(Ordering::Relaxed) > 0;
        if waits(&self.group_waiters) || waits(&self.waiters) {
            self.tell_control(|control, _| control.blocks_died());
        }
    }

    /// Adds to a counter that `status` shows.
    pub(crate) fn count(&self, name: &'static str, by: u64) {
        self.tally.add(self.reactor, name, by);
    }

    pub(crate) fn counters(&self) -> BTreeMap<&'static str, u64> {
        self.tally.sums()
    }

    /// Delta nodes of a shard below which merges run.
    pub(crate) fn nodes_low(&self, _shard: &Shard) -> usize {
        self.config.map.delta_nodes / 8
    }

    /// Asks for a checkpoint and waits until one has committed that began after this was called.
    pub(crate) async fn checkpoint_once(&self) {
        let ask = |first: Rc<Self>| async move {
            let control = first.control();
            // The one that is running may have looked at what the caller waits for before that changed.
            let target = control.checkpoint.get() + 1 + u64::from(control.is_checkpointing.get());
            while control.checkpoint.get() < target && !first.is_stopped() {
                control.ask_checkpoint();
                control.committed.listen().await;
            }
        };
        // If the engine is gone the caller sees that it has stopped.
        let _ = self.call(FIRST, ask).await;
    }

    /// The LSN the lane of this reactor goes on with is known to the others.
    pub(crate) fn note_next_lsn(&self, lsn: Lsn) {
        self.set_next_lsn(self.reactor, lsn);
    }

    /// True if a purge is under way somewhere.
    pub(crate) fn is_purging(&self) -> bool {
        self.purges.load(Ordering::Acquire) > 0
    }

    /// True if blocks of this volume can be live.
    pub(crate) fn is_present(&self, volume: VolumeId) -> bool {
        self.volumes.borrow().is_present(volume)
    }
}

impl StopReason {
    const fn as_io(self) -> IoError {
        match self {
            Self::Log(error) | Self::Flush(error) => error,
            Self::Fenced | Self::Closed => IoError::Gone,
        }
    }
}

impl Shard {
    /// The tier's drive a unit lies on.
    pub(crate) fn drive_of(&self, unit: UnitId) -> &Rc<dyn Drive> {
        self.shared.drive_of(unit)
    }
}

impl Shared {
    /// The tier's drive a unit lies on.
    pub(crate) fn drive_of(&self, unit: UnitId) -> &Rc<dyn Drive> {
        match unit.tier {
            crate::geometry::Tier::Fast => &self.fast,
            crate::geometry::Tier::Dense => self
                .dense
                .as_ref()
                .expect("a place on the dense tier exists with it"),
        }
    }
}
