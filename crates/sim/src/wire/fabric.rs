//! The hosts: one initiator for each volume that a host uses, over the network, for as long as the seed
//! runs.
//!
//! **Invariants**: hosts outlive the pool; an initiator that gives up for good is a failure, because
//! networks and targets come back in time.
//!
//! **Not here**: the target's side (`subject`).

use super::WireCanary;
use super::network::{Network, Tally, Way};
use super::plan::Plan;
use crate::executor::{Reactor, Timeline};
use crate::rng::Rng;
use crate::subject::{Outcome, SubjectError};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use varve_initiator::{Config, Event as HostEvent, Failure, Operation, RemoteDrive};
use varve_io::{Blocks, Command, Done, Drive, Event, Gather, IoError, Target as Memory, World};
use varve_nvme::Nqn;
use varve_units::{BLOCK_BYTES, Lba, Nanos, PLANTS_BUGS, VolumeId};

/// Name of the subsystem.
pub(super) const SUBSYSTEM: &str = "nqn.2026-11.io.varve:sim";
/// Before a host that got no drive tries again. Arbitrary.
const RETRY_PAUSE: Nanos = Nanos::from_millis(5);
/// Places of repeated writes that are remembered. Arbitrary.
const REPEATED_MAX: usize = 64;
/// Namespace numbers in use: those of volumes that exist at a time are far fewer.
const NSIDS: u64 = 1000;

/// The namespace that a volume is.
pub(super) const fn nsid(volume: VolumeId) -> u32 {
    (volume.0 % NSIDS) as u32 + 1
}

/// What a host is connected to a volume by.
pub(super) struct Line {
    volume: VolumeId,
    drive: RemoteDrive<Way>,
    /// Blocks it had when the line was made.
    blocks: u64,
    /// Associations lost.
    losses: Cell<u64>,
    is_back: Cell<bool>,
    /// Associations made, and those of them that were made when the target's power failed last.
    associations: Cell<u64>,
    before_crash: Cell<u64>,
    /// Writes begun that need a flush to be durable; the last of them that was answered; how many had
    /// begun when the last flush that succeeded did.
    begun: Cell<u64>,
    answered: Cell<u64>,
    flushed: Cell<u64>,
    /// Writes that were answered and not flushed may have been lost with the target's power, and no
    /// flush has failed since.
    owes: Cell<bool>,
    /// Hosts take leave of it.
    is_left: Cell<bool>,
}

enum Slot {
    Connecting,
    Connected(Rc<Line>),
}

/// Hosts and network of a seed.
pub struct Fabric {
    plan: Plan,
    machine: Rc<Reactor>,
    network: Rc<Network>,
    tally: Rc<Tally>,
    canary: Option<WireCanary>,
    lines: RefCell<BTreeMap<(u64, VolumeId), Slot>>,
    changed: Event,
    /// Sizes of the volumes that are served, in blocks.
    pub(super) volumes: RefCell<BTreeMap<VolumeId, u64>>,
    next: Cell<u64>,
    is_volatile: Cell<bool>,
    /// Times the target's power has failed.
    crashes: Cell<u64>,
    /// Writes that were sent more than once: where what came late would show.
    repeated: RefCell<VecDeque<Place>>,
}

/// Blocks of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The volume.
    pub volume: VolumeId,
    /// First block.
    pub lba: Lba,
    /// Number of blocks.
    pub count: u64,
}

impl Fabric {
    /// Hosts on a machine of their own, beside whatever runs on `timeline`.
    #[must_use]
    pub fn new(
        plan: Plan,
        timeline: &Rc<Timeline>,
        rng: &Rng,
        canary: Option<WireCanary>,
    ) -> Rc<Self> {
        let machine = timeline.machine(rng.split("hosts' mail"));
        let tally = Rc::new(Tally::default());
        let network = Network::new(Rc::clone(&machine), rng.split("network"), Rc::clone(&tally));
        tally.count("host_over_wire");
        if plan.digests.header || plan.digests.data {
            tally.count("nvme_digests");
        }
        if plan.queues > 1 {
            tally.count("nvme_queues");
        }
        Rc::new(Self {
            plan,
            machine,
            network,
            tally,
            canary: canary.filter(|_| PLANTS_BUGS),
            lines: RefCell::default(),
            changed: Event::new(),
            volumes: RefCell::default(),
            next: Cell::new(0),
            is_volatile: Cell::new(true),
            crashes: Cell::new(0),
            repeated: RefCell::default(),
        })
    }

    /// Where the hosts run.
    #[must_use]
    pub fn machine(&self) -> &Rc<Reactor> {
        &self.machine
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> &Rc<Network> {
        &self.network
    }

    /// What was seen.
    #[must_use]
    pub fn tally(&self) -> &Rc<Tally> {
        &self.tally
    }

    /// Host operations between faults of the network, on average.
    #[must_use]
    pub fn fault_distance(&self) -> u64 {
        self.plan.fault_distance
    }

    pub(super) fn is_planted(&self, canary: WireCanary) -> bool {
        self.canary == Some(canary)
    }

    pub(super) fn set_volatile(&self, is_volatile: bool) {
        self.is_volatile.set(is_volatile);
    }

    /// The power of the target's machine has failed: what was answered and not flushed may be lost, and
    /// no flush may vouch for it.
    pub fn note_crash(&self) {
        self.crashes.set(self.crashes.get() + 1);
        for line in self.connected() {
            self.note(&line);
            line.before_crash.set(line.associations.get());
            let is_dirty = line.answered.get() > line.flushed.get();
            line.owes
                .set(line.owes.get() || (is_dirty && self.is_volatile.get()));
        }
    }

    fn connected(&self) -> Vec<Rc<Line>> {
        let lines = self.lines.borrow();
        let connected = lines.values().filter_map(|slot| match slot {
            Slot::Connected(line) => Some(Rc::clone(line)),
            Slot::Connecting => None,
        });
        connected.collect()
    }

    /// The hosts are switched off: nothing of them runs any more.
    pub fn end(&self) {
        self.machine.fail();
    }

    /// Takes leave of lines to volumes that are gone, or larger than the line knows.
    pub(super) fn review(&self) {
        let volumes = self.volumes.borrow();
        let is_good = |volume: &VolumeId, line: &Line| {
            volumes.get(volume).is_some_and(|&size| size <= line.blocks)
        };
        let mut lines = self.lines.borrow_mut();
        let left = lines.extract_if(.., |(_, volume), slot| match slot {
            Slot::Connected(line) => !is_good(volume, line),
            Slot::Connecting => false,
        });
        let world: &dyn World = &*self.machine;
        for (_, slot) in left {
            if let Slot::Connected(line) = slot {
                line.is_left.set(true);
                world.spawn(Box::pin(async move { line.drive.close().await }));
            }
        }
    }

    fn config(&self, host: u64, volume: VolumeId) -> Config {
        let name = format!("nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-{host:012}");
        let nqn = |name: &str| Nqn::new(name).expect("a good name");
        let mut hostid = [0x42; 16];
        hostid[..8].copy_from_slice(&host.to_le_bytes());
        let mut config = Config::new(nqn(SUBSYSTEM), Some(nsid(volume)), nqn(&name), hostid);
        config.digests = self.plan.digests;
        config.queues = self.plan.queues;
        config.queue_entries = self.plan.entries.max(2);
        config.times = self.plan.times;
        // Faults come as often as the seed draws: a command given up would look like a stop of service.
        config.resends_max = u32::MAX;
        config
    }

    /// The line of a host to a volume; made if there is none.
    async fn line(&self, host: u64, volume: VolumeId) -> Outcome<Rc<Line>> {
        let key = (host, volume);
        loop {
            let slot = match self.lines.borrow().get(&key) {
                Some(Slot::Connected(line)) => return Ok(Rc::clone(line)),
                Some(Slot::Connecting) => true,
                None => false,
            };
            if !self.volumes.borrow().contains_key(&volume) {
                return Err(SubjectError::Stopped);
            }
            if slot {
                self.changed.listen().await;
                continue;
            }
            self.lines.borrow_mut().insert(key, Slot::Connecting);
            let world: Rc<dyn World> = Rc::clone(&self.machine) as Rc<dyn World>;
            let network = Rc::clone(&self.network);
            let way = Way { network, host };
            let drive = RemoteDrive::connect(world, way, self.config(host, volume)).await;
            let Ok(drive) = drive else {
                self.machine.sleep(RETRY_PAUSE).await;
                self.lines.borrow_mut().remove(&key);
                self.changed.notify();
                continue;
            };
            self.plant(&drive);
            let line = Rc::new(Line {
                volume,
                blocks: drive.info().bytes / BLOCK_BYTES,
                drive,
                losses: Cell::new(0),
                is_back: Cell::new(true),
                associations: Cell::new(0),
                before_crash: Cell::new(0),
                begun: Cell::new(0),
                answered: Cell::new(0),
                flushed: Cell::new(0),
                owes: Cell::new(false),
                is_left: Cell::new(false),
            });
            let slot = Slot::Connected(Rc::clone(&line));
            self.lines.borrow_mut().insert(key, slot);
            self.changed.notify();
            // The volume may have changed meanwhile.
            self.review();
            return Ok(line);
        }
    }

    fn plant(&self, drive: &RemoteDrive<Way>) {
        drive.plant(
            self.is_planted(WireCanary::NoQuietTime),
            self.is_planted(WireCanary::FlushVouchesForLost),
        );
    }

    /// The host that carries out the next operation.
    fn host(&self) -> u64 {
        let next = self.next.get();
        self.next.set(next + 1);
        next % self.plan.hosts + 1
    }

    /// Notes what became of associations.
    fn note(&self, line: &Line) {
        for event in line.drive.take_events() {
            match event {
                HostEvent::Lost { loss, is_final } => {
                    line.losses.set(line.losses.get() + 1);
                    if line.is_back.replace(false) {
                        self.tally.count("nvme_lost");
                    }
                    // A flush of all volumes may meet one that is being deleted, and come back too late.
                    let is_served = self.volumes.borrow().contains_key(&line.volume);
                    if is_final && is_served && !line.is_left.get() {
                        let what = format!("a host has given up its target: {loss}");
                        self.machine.journal().fail(what);
                    }
                }
                HostEvent::Ready(_) => {
                    line.associations.set(line.associations.get() + 1);
                    if !line.is_back.replace(true) {
                        self.tally.count("nvme_reconnect");
                    }
                }
                HostEvent::Log(_) | HostEvent::Closed => {}
            }
        }
    }

    /// Notes whether an operation has outlived an association, and was sent again.
    fn note_repeat(&self, line: &Line, losses: u64) -> bool {
        self.note(line);
        let is_repeated = line.losses.get() > losses;
        if is_repeated {
            self.tally.count("nvme_repeat");
        }
        is_repeated
    }

    /// Where a write was sent more than once, if hosts have not gone back there yet.
    pub fn next_repeated(&self) -> Option<Place> {
        self.repeated.borrow_mut().pop_front()
    }

    pub(super) async fn read(&self, volume: VolumeId, lba: Lba, into: Blocks) -> Outcome<Blocks> {
        let line = self.line(self.host(), volume).await?;
        self.note(&line);
        let losses = line.losses.get();
        let (offset, copy) = (lba.0 * BLOCK_BYTES, 0);
        let into = Memory::Data(into);
        let done = line
            .drive
            .submit(Command::Read { offset, into, copy })
            .await;
        self.note_repeat(&line, losses);
        match done {
            Ok(Done::Read(Memory::Data(blocks))) => Ok(blocks),
            Ok(_) => Err(SubjectError::Stopped),
            Err(error) => Err(error_of(error)),
        }
    }

    /// Carries out a change of blocks; `is_cached` if it needs a flush to be durable.
    async fn change(&self, place: Place, operation: Operation, is_cached: bool) -> Outcome<()> {
        let line = self.line(self.host(), place.volume).await?;
        self.note(&line);
        let (losses, number) = (line.losses.get(), line.begun.get() + 1);
        line.begun.set(number);
        let crashes = self.crashes.get();
        let is_forced = matches!(operation, Operation::Write { fua: true, .. });
        let done = line.drive.request(operation).await;
        if self.note_repeat(&line, losses) {
            let mut repeated = self.repeated.borrow_mut();
            repeated.push_back(place);
            if repeated.len() > REPEATED_MAX {
                repeated.pop_front();
            }
        }
        if done.is_ok() && is_cached {
            line.answered.set(line.answered.get().max(number));
        }
        // There is no other association since the power failed: the answer was on its way then.
        let is_old =
            self.crashes.get() > crashes && line.associations.get() == line.before_crash.get();
        if done.is_ok() && is_old && self.is_volatile.get() && !is_forced {
            line.owes.set(line.owes.get() || is_cached);
            return Err(SubjectError::Outlived);
        }
        done.map_err(failure_of)
    }

    pub(super) async fn write(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: Blocks,
        fua: bool,
    ) -> Outcome<()> {
        let count = blocks.len() as u64;
        let mut data = Gather::new();
        data.push_data(blocks);
        let place = Place { volume, lba, count };
        let lba = lba.0;
        let operation = Operation::Write { lba, data, fua };
        self.change(place, operation, !fua).await
    }

    pub(super) async fn write_zeroes(&self, place: Place) -> Outcome<()> {
        let operation = Operation::WriteZeroes {
            lba: place.lba.0,
            blocks: place.count,
            deallocate: false,
            fua: false,
        };
        self.change(place, operation, true).await
    }

    pub(super) async fn discard(&self, place: Place) -> Outcome<()> {
        let ranges = vec![(place.lba.0, place.count as u32)];
        let operation = Operation::Deallocate { ranges };
        self.change(place, operation, false).await
    }

    /// Flushes every namespace, as a host does that was told by others of their writes. Volumes that go
    /// meanwhile need none.
    pub(super) async fn flush(&self) -> Outcome<()> {
        let host = self.host();
        let volumes: Vec<VolumeId> = self.volumes.borrow().keys().copied().collect();
        let mut outcome = Ok(());
        for volume in volumes {
            let done = loop {
                let Ok(line) = self.line(host, volume).await else {
                    break Ok(());
                };
                let done = self.flush_one(&line).await;
                let is_current = matches!(
                    self.lines.borrow().get(&(host, volume)),
                    Some(Slot::Connected(now)) if Rc::ptr_eq(now, &line)
                );
                // A line that was closed meanwhile says nothing of its volume.
                if done.is_ok() || is_current || done == Err(SubjectError::CacheLost) {
                    break done;
                }
            };
            if !self.volumes.borrow().contains_key(&volume) {
                continue;
            }
            outcome = outcome.and(done);
        }
        outcome
    }

    async fn flush_one(&self, line: &Line) -> Outcome<()> {
        self.note(line);
        let (losses, covered) = (line.losses.get(), line.begun.get());
        let done = line.drive.request(Operation::Flush).await;
        self.note_repeat(line, losses);
        match done {
            Ok(()) if line.owes.get() => {
                let what = "a flush vouches for answered writes that may have been lost with the \
                            target's power";
                self.machine.journal().fail(what.to_owned());
            }
            Ok(()) => line.flushed.set(line.flushed.get().max(covered)),
            Err(Failure::CacheLost) => {
                if line.losses.get() == 0 {
                    let what = "a flush fails for a lost cache, but no association was lost";
                    self.machine.journal().fail(what.to_owned());
                }
                line.drive.accept_loss();
                line.owes.set(false);
                line.flushed.set(line.begun.get());
                self.tally.count("nvme_cache_lost");
                return Err(SubjectError::CacheLost);
            }
            Err(_) => {}
        }
        done.map_err(failure_of)
    }
}

const fn error_of(error: IoError) -> SubjectError {
    match error {
        IoError::NoSpace => SubjectError::CapacityExceeded,
        IoError::Media => SubjectError::Media,
        IoError::Timeout => SubjectError::Away,
        _ => SubjectError::Stopped,
    }
}

fn failure_of(failure: Failure) -> SubjectError {
    match failure {
        Failure::CacheLost => SubjectError::CacheLost,
        other => error_of(other.io_error()),
    }
}
