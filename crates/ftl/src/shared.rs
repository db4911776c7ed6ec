//! What every shard and the control actor look at.

use crate::config::Config;
use crate::control::Control;
use crate::error::StopReason;
use crate::gate::Gate;
use crate::map::LeafKey;
use crate::placement::Streams;
use crate::shard::Shard;
use crate::turn::Turns;
use crate::units::UnitTable;
use crate::volumes::Volumes;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, Ref, RefCell};
use core::future::Future;
use varve_io::{Drive, Event, IoError, World};
use varve_units::{Lsn, SliceId, TenantId, VolumeId};

/// Identity of this run of the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The pool.
    pub pool: [u8; 16],
    /// Epoch of this start; greater than every earlier one.
    pub epoch: u32,
}

impl Identity {
    /// What batches of an epoch carry as theirs: folded with the pool's identity, because a batch
    /// has no room for that, and an older pool on the same drives may have had the same epoch.
    #[must_use]
    pub fn tag(&self, epoch: u32) -> u32 {
        let words = self
            .pool
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().expect("16 bytes are four words")));
        words.fold(epoch, |tag, word| tag ^ word)
    }
}

/// What every shard and the control actor look at.
pub struct Shared {
    pub(crate) world: Rc<dyn World>,
    pub(crate) fast: Rc<dyn Drive>,
    pub(crate) dense: Option<Rc<dyn Drive>>,
    pub(crate) units: UnitTable,
    pub(crate) config: Config,
    pub(crate) identity: Identity,
    pub(crate) volumes: RefCell<Volumes>,
    shards: RefCell<Vec<Rc<Shard>>>,
    control: RefCell<Option<Rc<Control>>>,
    stopped: Cell<Option<StopReason>>,
    /// Records queued since the last checkpoint began.
    pub(crate) log_records: Cell<u64>,
    /// Bytes submitted since the last checkpoint began.
    pub(crate) log_bytes: Cell<u64>,
    pub(crate) flush_wanted: Event,
    /// Changes of the catalogue are made one at a time.
    pub(crate) catalogue_turn: Turns,
    /// Deleted volumes whose blocks are being given back.
    pub(crate) purges: Cell<usize>,
    /// One of them has given all back.
    pub(crate) purged: Event,
    /// Flows that run.
    flows: Cell<usize>,
    abandoned: Cell<bool>,
    flush: FlushGate,
    pub(crate) streams: Streams,
    /// Blocks that queued writes may newly map.
    pub(crate) pending_blocks: Cell<u64>,
    /// Leaves that queued writes will make, and how many writes make each.
    pub(crate) pending_leaves: RefCell<BTreeMap<LeafKey, u32>>,
    /// Host writes that wait for their turn.
    pub(crate) gate: Gate,
    /// Reads of hosts under way.
    pub(crate) host_reads: Cell<usize>,
    /// One of them has ended.
    pub(crate) read_ended: Event,
    /// Blocks of log that admitted host writes will take.
    pub(crate) pending_log: Cell<u64>,
    /// Live leaves are counted per chunk (false until recovery has loaded them).
    pub(crate) leaves_counted: Cell<bool>,
    counters: RefCell<BTreeMap<&'static str, u64>>,
}

/// One flow of the engine, until it ends or is dropped with its executor.
struct Running(Rc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.flows.set(self.0.flows.get() - 1);
        self.0.detach_when_idle();
    }
}

/// Flushes of the fast tier, shared by all who wait for one.
#[derive(Default)]
struct FlushGate {
    started: Cell<u64>,
    ended: Cell<u64>,
    running: Cell<bool>,
    event: Event,
}

impl Shared {
    pub(crate) fn new(
        world: Rc<dyn World>,
        fast: Rc<dyn Drive>,
        dense: Option<Rc<dyn Drive>>,
        units: UnitTable,
        config: Config,
        identity: Identity,
    ) -> Rc<Self> {
        assert!(config.lanes > 0, "a pool has at least one lane");
        Rc::new(Self {
            world,
            fast,
            dense,
            units,
            config,
            identity,
            volumes: RefCell::default(),
            shards: RefCell::default(),
            control: RefCell::default(),
            stopped: Cell::new(None),
            log_records: Cell::new(0),
            log_bytes: Cell::new(0),
            flush_wanted: Event::new(),
            catalogue_turn: Turns::default(),
            purges: Cell::new(0),
            purged: Event::new(),
            flows: Cell::new(0),
            abandoned: Cell::new(false),
            flush: FlushGate::default(),
            streams: Streams::default(),
            pending_blocks: Cell::new(0),
            pending_leaves: RefCell::default(),
            gate: Gate::default(),
            host_reads: Cell::new(0),
            read_ended: Event::new(),
            pending_log: Cell::new(0),
            leaves_counted: Cell::new(true),
            counters: RefCell::default(),
        })
    }

    pub(crate) fn attach(&self, shards: Vec<Rc<Shard>>, control: Rc<Control>) {
        *self.shards.borrow_mut() = shards;
        *self.control.borrow_mut() = Some(control);
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
        self.abandoned.set(true);
        self.detach_when_idle();
    }

    fn detach_when_idle(&self) {
        if self.abandoned.get() && self.flows.get() == 0 {
            self.shards.borrow_mut().clear();
            self.control.borrow_mut().take();
            self.streams.clear();
        }
    }

    pub(crate) fn shards(&self) -> Vec<Rc<Shard>> {
        self.shards.borrow().clone()
    }

    /// All shards, for as long as nothing is awaited.
    pub(crate) fn borrow_shards(&self) -> Ref<'_, Vec<Rc<Shard>>> {
        self.shards.borrow()
    }

    /// The shard that owns a slice: slices are dealt to shards in turn.
    pub(crate) fn owner(&self, slice: SliceId) -> Rc<Shard> {
        let shards = self.shards.borrow();
        Rc::clone(&shards[usize::from(slice.0) % shards.len()])
    }

    pub(crate) fn control(&self) -> Rc<Control> {
        Rc::clone(
            self.control
                .borrow()
                .as_ref()
                .expect("the engine is attached while it runs"),
        )
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        self.stopped.get()
    }

    /// Stops the engine: nothing is acknowledged from here on.
    pub(crate) fn stop(&self, reason: StopReason) {
        if self.is_stopped() {
            return;
        }
        self.stopped.set(Some(reason));
        for shard in self.shards() {
            shard.pump.notify();
            shard.abandon();
        }
        self.control().wake_all();
        self.streams.wake_all();
        self.flush.event.notify();
        self.flush_wanted.notify();
        self.purged.notify();
        self.read_ended.notify();
        self.close_gate();
    }

    /// The owner of a volume.
    pub(crate) fn tenant_of(&self, volume: VolumeId) -> TenantId {
        let volumes = self.volumes.borrow();
        volumes.get(volume).map_or(TenantId(0), |v| v.entry.tenant)
    }

    /// Draws a stamp for a unit about to be opened: no record so far has it or a later LSN, and
    /// every record from now on does (ADR 5, 6).
    pub(crate) fn draw_stamp(&self) -> Lsn {
        let shards = self.shards.borrow();
        let stamp = shards
            .iter()
            .map(|shard| shard.lane.borrow().next_lsn())
            .max();
        let stamp = stamp.expect("a pool has at least one lane");
        for shard in shards.iter() {
            shard.lane.borrow_mut().observe(stamp);
        }
        stamp
    }

    /// Makes everything acknowledged before the call durable. Callers share flushes.
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
        let acked: Vec<Lsn> = self
            .shards()
            .iter()
            .map(|shard| shard.begin_flush())
            .collect();
        let result = self.fast.flush().await;
        self.flush.running.set(false);
        match result {
            Ok(()) => {
                for (shard, lsn) in self.shards().iter().zip(acked) {
                    shard.lane.borrow_mut().set_durable(lsn);
                }
                self.flush.ended.set(number);
            }
            Err(error) => self.stop(StopReason::Flush(error)),
        }
        self.flush.event.notify();
    }

    /// Flushes when a lane has written enough since the last flush, so that the tail a start must
    /// verify stays short.
    pub(crate) async fn run_flusher(self: Rc<Self>) {
        while !self.is_stopped() {
            self.flush_wanted.listen().await;
            // A failed flush stops the engine by itself.
            let _ = self.flush_log().await;
        }
    }

    /// A write that makes this leaf was acknowledged.
    pub(crate) fn leaf_made(&self, key: LeafKey) {
        let mut pending = self.pending_leaves.borrow_mut();
        let count = pending.get_mut(&key).expect("the leaf was set aside");
        *count -= 1;
        if *count == 0 {
            pending.remove(&key);
        }
    }

    /// Adds to a counter that `status` shows.
    pub(crate) fn count(&self, name: &'static str, by: u64) {
        *self.counters.borrow_mut().entry(name).or_default() += by;
    }

    pub(crate) fn counters(&self) -> BTreeMap<&'static str, u64> {
        self.counters.borrow().clone()
    }

    /// Delta nodes of a shard below which merges run.
    pub(crate) fn nodes_low(&self, _shard: &Shard) -> usize {
        self.config.map.delta_nodes / 8
    }
}

impl StopReason {
    const fn as_io(self) -> IoError {
        match self {
            Self::Log(error) | Self::Flush(error) => error,
            Self::Closed => IoError::Gone,
        }
    }
}

impl Shard {
    /// Notes what a flush that starts now will cover.
    fn begin_flush(&self) -> Lsn {
        let mut lane = self.lane.borrow_mut();
        lane.take_unflushed();
        lane.acked_lsn()
    }
}

impl Shard {
    /// The tier's drive a unit lies on.
    pub(crate) fn drive_of(&self, unit: crate::geometry::UnitId) -> &Rc<dyn Drive> {
        match unit.tier {
            crate::geometry::Tier::Fast => &self.shared.fast,
            crate::geometry::Tier::Dense => self
                .shared
                .dense
                .as_ref()
                .expect("a place on the dense tier exists with it"),
        }
    }
}
