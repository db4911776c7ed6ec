//! A life of the pool behind its target: hosts' operations go over the network, what an operator does
//! reaches the pool directly and shows in the namespaces.

use super::WireCanary;
use super::fabric::{Fabric, Place, SUBSYSTEM, nsid};
use crate::checker::space::Space;
use crate::checker::volumes::{Found, Naming};
use crate::executor::Reactor;
use crate::rng::Rng;
use crate::subject::{Flow, Outcome, Scrubbed, Subject, SubjectError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use varve_ftl::{EngineError, Recall};
use varve_io::{Blocks, Drive, IoError, World};
use varve_nvme::Nqn;
use varve_server::volume::namespace;
use varve_server::{Backing, Server, VolumeStore};
use varve_target::{Hosts, Subsystem};
use varve_units::{Lba, Nanos, VolumeId};

/// One life.
pub struct Served {
    fabric: Rc<Fabric>,
    server: Server,
    world: Rc<dyn World>,
    pool: Rc<dyn Subject>,
    rng: Rc<RefCell<Rng>>,
}

/// One of so many commands waits before it reaches the pool. Arbitrary.
const WAITS: u64 = 16;
/// The longest such wait. Arbitrary: a few attempts of a host to connect.
const WAIT_MAX: Nanos = Nanos::from_millis(256);

/// A volume as its store reaches it. A store promises no order among commands in flight, so now and
/// then one waits for so long that others of its host, sent after it was lost, could overtake it.
struct Volume {
    pool: Rc<dyn Subject>,
    id: VolumeId,
    world: Rc<dyn World>,
    rng: Rc<RefCell<Rng>>,
}

impl Volume {
    /// True if it waited.
    async fn wait(&self) -> bool {
        let span = {
            let rng = &mut *self.rng.borrow_mut();
            rng.chance(1, WAITS)
                .then(|| rng.magnitude(1 << 13, WAIT_MAX.0))
        };
        if let Some(span) = span {
            self.world.sleep(Nanos(span)).await;
        }
        span.is_some()
    }

    /// The engine's error of this kind.
    fn error(&self, error: SubjectError, lba: Lba) -> EngineError {
        match error {
            SubjectError::CapacityExceeded => EngineError::CapacityExceeded,
            SubjectError::NoSpace => EngineError::Io(IoError::NoSpace),
            SubjectError::Away => EngineError::DenseAway,
            SubjectError::Media => EngineError::Io(IoError::Media),
            SubjectError::Lost => EngineError::Lost(self.id, lba),
            _ => EngineError::Stopped,
        }
    }
}

impl Backing for Volume {
    async fn read(&self, lba: Lba, into: Blocks) -> Result<Blocks, EngineError> {
        self.wait().await;
        let done = self.pool.read(self.id, lba, into).await;
        done.map_err(|error| self.error(error, lba))
    }

    async fn write(
        &self,
        recall: &Recall,
        lba: Lba,
        data: Blocks,
        fua: bool,
    ) -> Result<(), EngineError> {
        // A store need not hear of a recall: one that waited here is an old write that lands late.
        let done = match self.wait().await {
            true => self.pool.write(self.id, lba, data, fua).await,
            false => self.pool.write_for(recall, self.id, lba, data, fua).await,
        };
        done.map_err(|error| self.error(error, lba))
    }

    async fn flush(&self) -> Result<(), EngineError> {
        self.wait().await;
        let done = self.pool.flush().await;
        done.map_err(|error| self.error(error, Lba(0)))
    }

    async fn discard(&self, lba: Lba, blocks: u64) -> Result<(), EngineError> {
        self.wait().await;
        let done = self.pool.discard(self.id, lba, blocks).await;
        done.map_err(|error| self.error(error, lba))
    }

    async fn write_zeroes(&self, lba: Lba, blocks: u64, fua: bool) -> Result<(), EngineError> {
        self.wait().await;
        let mut done = self.pool.write_zeroes(self.id, lba, blocks).await;
        // No host asks for it; one sends so what it has to repeat.
        if done.is_ok() && fua {
            done = self.pool.flush().await;
        }
        done.map_err(|error| self.error(error, lba))
    }
}

impl Served {
    /// Serves a pool that was started on `machine`.
    #[must_use]
    pub fn new(
        fabric: &Rc<Fabric>,
        machine: &Rc<Reactor>,
        pool: Rc<dyn Subject>,
        rng: Rng,
    ) -> Self {
        let nqn = Nqn::new(SUBSYSTEM).expect("a good name");
        let (serial, firmware) = ("SIM0001".to_owned(), "0.1".to_owned());
        let subsystem = Subsystem::new(nqn, serial, firmware, Hosts::Any, Vec::new());
        let world: Rc<dyn World> = Rc::clone(machine) as Rc<dyn World>;
        let server = Server::new(Rc::clone(&world), subsystem);
        server.plant(
            fabric.is_planted(WireCanary::QueueBeforeRemains),
            fabric.is_planted(WireCanary::AnswerBeforeWrite),
        );
        fabric.set_volatile(pool.is_volatile());
        let served = Self {
            fabric: Rc::clone(fabric),
            server,
            world,
            pool,
            rng: Rc::new(RefCell::new(rng)),
        };
        fabric.volumes.borrow_mut().clear();
        for (volume, size) in served.pool.volumes() {
            served.put(volume, size);
        }
        fabric.review();
        served.server.accept(fabric.network().listen(machine));
        served
    }

    /// Shows a volume to hosts, or its new size.
    fn put(&self, volume: VolumeId, size: u64) {
        let mut id = [0x7a; 16];
        id[8..].copy_from_slice(&volume.0.to_be_bytes());
        let namespace = namespace(size, id, id, self.pool.is_volatile());
        let pool = Rc::clone(&self.pool);
        let (world, rng) = (Rc::clone(&self.world), Rc::clone(&self.rng));
        let id = volume;
        let backing = Volume {
            pool,
            id,
            world,
            rng,
        };
        let store = VolumeStore::new(Rc::clone(&self.world), backing);
        let put = self.server.put(nsid(volume), namespace, Rc::new(store));
        put.expect("a volume is a good namespace");
        self.fabric.volumes.borrow_mut().insert(volume, size);
    }
}

impl Subject for Served {
    fn is_volatile(&self) -> bool {
        self.pool.is_volatile()
    }

    fn write(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: Blocks,
        forced: bool,
    ) -> Flow<'_, Outcome<()>> {
        Box::pin(self.fabric.write(volume, lba, blocks, forced))
    }

    fn read(&self, volume: VolumeId, lba: Lba, into: Blocks) -> Flow<'_, Outcome<Blocks>> {
        Box::pin(self.fabric.read(volume, lba, into))
    }

    fn discard(&self, volume: VolumeId, lba: Lba, count: u64) -> Flow<'_, Outcome<()>> {
        Box::pin(self.fabric.discard(Place { volume, lba, count }))
    }

    fn write_zeroes(&self, volume: VolumeId, lba: Lba, count: u64) -> Flow<'_, Outcome<()>> {
        Box::pin(self.fabric.write_zeroes(Place { volume, lba, count }))
    }

    fn flush(&self) -> Flow<'_, Outcome<()>> {
        Box::pin(self.fabric.flush())
    }

    fn create_volume<'a>(
        &'a self,
        identity: &'a Naming,
        count: u64,
    ) -> Flow<'a, Outcome<VolumeId>> {
        Box::pin(async move {
            let id = self.pool.create_volume(identity, count).await?;
            self.put(id, count);
            Ok(id)
        })
    }

    fn delete_volume(&self, volume: VolumeId) -> Flow<'_, Outcome<()>> {
        Box::pin(async move {
            self.fabric.volumes.borrow_mut().remove(&volume);
            self.pool.delete_volume(volume).await?;
            self.server.remove(nsid(volume));
            self.fabric.review();
            Ok(())
        })
    }

    fn resize_volume(&self, volume: VolumeId, count: u64) -> Flow<'_, Outcome<()>> {
        Box::pin(async move {
            self.pool.resize_volume(volume, count).await?;
            self.put(volume, count);
            self.fabric.review();
            Ok(())
        })
    }

    fn found(&self) -> Vec<Found> {
        self.pool.found()
    }

    fn volumes(&self) -> Vec<(VolumeId, u64)> {
        self.pool.volumes()
    }

    fn replace(&self, index: usize, drive: Rc<dyn Drive>, works: bool) -> Flow<'_, Outcome<()>> {
        self.pool.replace(index, drive, works)
    }

    fn is_whole(&self, index: usize) -> bool {
        self.pool.is_whole(index)
    }

    /// Answers what was taken, then closes the pool.
    fn close(&self) -> Flow<'_, Outcome<()>> {
        Box::pin(async move {
            self.server.drain().await;
            self.pool.close().await
        })
    }

    fn space(&self) -> Space {
        self.pool.space()
    }

    fn status(&self) -> BTreeMap<&'static str, u64> {
        let mut status = self.pool.status();
        let counters = self.server.counters();
        status.insert("nvme_remains", counters.orphaned);
        status.insert("nvme_executing", counters.in_flight);
        status
    }

    fn waits(&self) -> Vec<BTreeMap<&'static str, u64>> {
        self.pool.waits()
    }

    fn scrub(
        &self,
        limit: Option<u64>,
        go_on: Rc<dyn Fn() -> bool>,
    ) -> Flow<'_, Outcome<Option<Scrubbed>>> {
        self.pool.scrub(limit, go_on)
    }

    fn wrong_copies(&self) -> Flow<'_, Result<u64, String>> {
        self.pool.wrong_copies()
    }

    fn read_narrow(&self) -> Flow<'_, Result<u64, String>> {
        self.pool.read_narrow()
    }

    fn audit(&self) -> Flow<'_, Result<(), String>> {
        self.pool.audit()
    }
}
