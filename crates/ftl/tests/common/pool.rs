//! A pool small enough that its cleaner and garbage collection always have work, and hosts.

use super::super::ftl::lane::LaneLimits;
use super::super::ftl::map::MapLimits;
use super::super::ftl::{
    CHAIN_AGE_MAX, Config, Demand, Draft, Engine, EngineError, Geometry, Identity, NewVolume,
    RebuildError, RebuildReport, Rebuilding, RecoverError, RecoveryReport, Reserve, Seats,
};
use super::{Executor, MemoryDrive};
use std::boxed::Box;
use std::collections::BTreeMap;
use std::format;
use std::rc::Rc;
use varve_format::Name;
use varve_io::{Blocks, Drive, Flow, ReactorId, World};
use varve_units::{BLOCK, Blocks as Count, Lba, Nanos, TenantId, VolumeId};

/// Blocks of each volume.
pub const VOLUME_BLOCKS: u64 = 1100;

/// Drives and settings; they outlive the engines started on them.
pub struct Pool {
    pub executor: Rc<Executor>,
    pub fast: Rc<MemoryDrive>,
    pub dense: Rc<MemoryDrive>,
    pub geometry: Geometry,
    pub config: Config,
    /// Its identity.
    pub id: [u8; 16],
}

/// Tasks hold the executor that holds them, and drives with all their bytes: without this each test
/// would keep its own until the process ends.
impl Drop for Pool {
    fn drop(&mut self) {
        self.executor.crash();
    }
}

/// What is kept back with so many lanes.
fn reserve(geometry: &Geometry, lanes: u16) -> Reserve {
    let demand = Demand {
        lanes,
        delta_nodes: 256,
        checkpoint_bytes: 2 << 20,
        over_provision_per_mille: 0,
    };
    Reserve::derive(geometry, &demand).expect("room for the reserve")
}

impl Pool {
    /// 18 chunks of 1 MiB and 13 groups of 1 MiB; each tier has `copies` copies. The reserve leaves
    /// hosts less of the log than their volumes hold, so what is cleaned is not all dead.
    pub fn new(seed: u64, p2l_copies: u32, copies: u8) -> Self {
        let executor = Executor::new(seed);
        let geometry = Geometry {
            chunk_bytes: 1 << 20,
            chunks: 18,
            lba_bytes: 512,
            group_blocks: 256,
            groups: 13,
            stripe_blocks: 64,
            p2l_copies,
            slices: 16,
        };
        let reserve = reserve(&geometry, 2);
        let drive = |bytes| MemoryDrive::new(Rc::clone(&executor), bytes, copies);
        Self {
            fast: drive(18 << 20),
            dense: drive(16 << 20),
            executor,
            geometry,
            id: [7; 16],
            config: Config {
                lanes: 2,
                lane: LaneLimits {
                    batch_blocks_max: 64,
                    inflight_max: 4,
                },
                map: MapLimits {
                    delta_nodes: 256,
                    images: 2,
                    leaves_max: reserve.leaves_max as usize,
                },
                flush_bytes: 1 << 20,
                checkpoint_records: 300,
                checkpoint_bytes: 2 << 20,
                window: 4,
                reserve,
                chain_age: CHAIN_AGE_MAX,
                idle_after: None,
                bypass: true,
                elided: false,
                canary: None,
            },
        }
    }

    /// Has it started on so many reactors, one or two.
    pub fn set_lanes(&mut self, lanes: u16) {
        self.config.lanes = lanes;
        self.config.reserve = reserve(&self.geometry, lanes);
    }

    /// Offers the other reactors' seats and returns the first's.
    fn seats(&self) -> Seats {
        let beside = self.executor.beside(ReactorId(1));
        self.seats_of(beside.expect("two reactors")).offer(self.id);
        self.seats_of(Rc::clone(&self.executor) as Rc<dyn World>)
    }

    fn seats_of(&self, world: Rc<dyn World>) -> Seats {
        Seats {
            world,
            fast: Rc::clone(&self.fast) as Rc<dyn Drive>,
            dense: Some(Rc::clone(&self.dense) as Rc<dyn Drive>),
        }
    }

    fn identity(&self, epoch: u32) -> Identity {
        let pool = self.id;
        Identity { pool, epoch }
    }

    /// A new, empty pool.
    pub fn create(&self) -> Rc<Engine> {
        let (geometry, config) = (self.geometry, self.config);
        let create = Engine::create(self.seats(), geometry, config, self.identity(1));
        Rc::new(self.executor.block_on(create).expect("a blank pool"))
    }

    /// A new pool without a dense tier.
    pub fn create_fast_only(&self) -> Rc<Engine> {
        let seats = Seats {
            dense: None,
            ..self.seats()
        };
        let (geometry, config) = (self.geometry, self.config);
        let create = Engine::create(seats, geometry, config, self.identity(1));
        Rc::new(self.executor.block_on(create).expect("a blank pool"))
    }

    /// Starts again what the drives hold.
    pub fn open(&self, epoch: u32) -> Rc<Engine> {
        let opened = self.try_open(epoch);
        opened.expect("a pool that was used").0
    }

    /// Starts again what the drives hold, and tells what it found.
    pub fn try_open(&self, epoch: u32) -> Result<(Rc<Engine>, RecoveryReport), RecoverError> {
        let (geometry, config) = (self.geometry, self.config);
        let open = Engine::open(self.seats(), geometry, config, self.identity(epoch));
        let opened = self.executor.block_on(open);
        opened.map(|(engine, report)| (Rc::new(engine), report))
    }

    /// A start of what the drives hold, to be run for as long as the caller likes.
    pub fn opening(
        &self,
        epoch: u32,
    ) -> Flow<'static, Result<(Engine, RecoveryReport), RecoverError>> {
        let (geometry, config) = (self.geometry, self.config);
        Engine::open(self.seats(), geometry, config, self.identity(epoch))
    }

    /// Makes the map anew on another fast drive, with so much memory for choosing.
    pub fn rebuilding(
        &self,
        epoch: u32,
        memory: u64,
    ) -> Flow<'static, Result<RebuildReport, RebuildError>> {
        let (geometry, identity) = (self.geometry, self.identity(epoch));
        let config = Config {
            lanes: 1,
            reserve: reserve(&self.geometry, 1),
            ..self.config
        };
        let seats = self.seats_of(Rc::clone(&self.executor) as Rc<dyn World>);
        Box::pin(async move {
            let draft = |id: VolumeId, end: Count| Draft {
                name: Name::new(&format!("volume-{}", id.0)).expect("a name"),
                size: Count(end.0.max(VOLUME_BLOCKS)),
                tenant: TenantId(0),
                uuid: [id.0 as u8; 16],
                nguid: [id.0 as u8; 16],
            };
            let wanted = Rebuilding {
                draft: &draft,
                progress: &|_| (),
                memory,
            };
            Engine::rebuild(seats, geometry, config, identity, &wanted).await
        })
    }

    /// A host with a volume of its own.
    pub fn host(&self, engine: &Rc<Engine>, number: u64) -> Host {
        let (engine, inner) = (Rc::clone(engine), Rc::clone(engine));
        let create = async move {
            let name = format!("volume-{number}");
            let new = NewVolume {
                name: &name,
                size: Count(VOLUME_BLOCKS),
                tenant: TenantId(1),
                uuid: [number as u8; 16],
                nguid: [number as u8; 16],
            };
            inner.create_volume(new).await.expect("a new volume")
        };
        Host {
            volume: self.executor.block_on(create),
            engine,
            executor: Rc::clone(&self.executor),
            model: BTreeMap::new(),
            ever: BTreeMap::new(),
            stamp: number << 32,
        }
    }
}

/// How long a host waits that was refused.
const RETRY: Nanos = Nanos::from_millis(100);

/// Writes, overwrites and discards blocks of its volume at random, and remembers them.
#[derive(Clone)]
pub struct Host {
    pub volume: VolumeId,
    pub engine: Rc<Engine>,
    executor: Rc<Executor>,
    model: BTreeMap<u64, u64>,
    /// Where each block was written that it ever wrote.
    ever: BTreeMap<u64, u64>,
    stamp: u64,
}

impl Host {
    /// Runs `count` operations, one after the other.
    pub async fn run(&mut self, count: usize) {
        for _ in 0..count {
            let lba = self.executor.below(VOLUME_BLOCKS as usize - 16) as u64;
            let length = 1 + self.executor.below(16) as u64;
            if self.executor.below(12) == 0 {
                self.discard(lba, length * 8).await;
            } else {
                self.write(lba, length).await;
            }
        }
    }

    /// Writes blocks; again and again while the dense tier is away.
    pub async fn write(&mut self, lba: u64, length: u64) {
        loop {
            let done = self.try_write(lba, length).await;
            if done != Err(EngineError::DenseAway) {
                return done.expect("a write in range, within capacity");
            }
            self.executor.sleep(RETRY).await;
        }
    }

    /// Writes blocks. Refused, it has changed nothing if it is one record.
    pub async fn try_write(&mut self, lba: u64, length: u64) -> Result<(), EngineError> {
        let mut data = Blocks::zeroed(length as usize);
        let first = self.stamp + 1;
        for block in data.bytes_mut().chunks_mut(BLOCK) {
            self.stamp += 1;
            block[..8].copy_from_slice(&self.stamp.to_le_bytes());
        }
        let (volume, engine) = (self.volume, Rc::clone(&self.engine));
        engine.write(volume, Lba(lba), data, false).await?;
        for index in 0..length {
            self.model.insert(lba + index, first + index);
            self.ever.insert(first + index, lba + index);
        }
        Ok(())
    }

    /// Deallocates blocks.
    pub async fn discard(&mut self, lba: u64, length: u64) {
        loop {
            let done = self.try_discard(lba, length).await;
            if done != Err(EngineError::DenseAway) {
                return done.expect("a discard in range");
            }
            self.executor.sleep(RETRY).await;
        }
    }

    /// Deallocates blocks. Refused, it has changed nothing if they are of one leaf.
    pub async fn try_discard(&mut self, lba: u64, length: u64) -> Result<(), EngineError> {
        let length = length.min(VOLUME_BLOCKS - lba);
        let engine = Rc::clone(&self.engine);
        engine.discard(self.volume, Lba(lba), length).await?;
        self.model.retain(|at, _| !(lba..lba + length).contains(at));
        Ok(())
    }

    /// Blocks it has written and not deallocated.
    pub fn mapped(&self) -> u64 {
        self.model.len() as u64
    }

    /// What the first eight bytes of a block should be.
    pub fn expected(&self, lba: u64) -> u64 {
        self.model.get(&lba).copied().unwrap_or(0)
    }

    /// Where the block was written that begins like this, if it wrote one.
    pub fn place_of(&self, word: u64) -> Option<u64> {
        self.ever.get(&word).copied()
    }

    /// From now on a block is expected to hold what begins like this.
    pub fn accept(&mut self, lba: u64, word: u64) {
        match word {
            0 => self.model.remove(&lba),
            _ => self.model.insert(lba, word),
        };
    }

    /// Blocks it has written so far, overwritten ones included.
    pub fn written(&self) -> u64 {
        self.stamp & 0xffff_ffff
    }

    /// Reads everything back.
    pub async fn verify(&self) -> Result<(), EngineError> {
        for lba in 0..VOLUME_BLOCKS {
            let read = self.engine.read(self.volume, Lba(lba), Blocks::zeroed(1));
            let found = first_word(&read.await?);
            assert_eq!(found, self.expected(lba), "{} {lba}", self.volume);
        }
        Ok(())
    }

    /// The host on the engine that came after.
    pub fn moved_to(mut self, engine: &Rc<Engine>) -> Self {
        self.engine = Rc::clone(engine);
        self
    }
}

/// The first eight bytes of a block, where hosts put their stamps.
pub fn first_word(block: &Blocks) -> u64 {
    let word = block.bytes().first_chunk().expect("a block has them");
    u64::from_le_bytes(*word)
}
