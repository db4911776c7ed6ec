//! The engine itself, on modelled drives: one for the fast tier, one or an array for the dense one.
//!
//! On zoned drives a group is a zone of each. Nothing has to be done for that: the engine writes a group
//! stripe after stripe, each when the one before is there, and discards it as a whole before it opens it
//! again, which is a reset. The drive's port panics where that does not hold. On drives with placement
//! handles a group is a reclaim unit of each, written under the handle of its stream.
//!
//! Data are symbols; all else (log, checkpoints, map, P2L) is what the engine writes. What it costs
//! the processor is charged from measurements of the real thing.
//!
//! There is one reactor with one lane, whatever the number of processors: its charges go to the one that is free first.
//! With one that is what a reactor does; with more it is what one could do if its work could be divided at will.

use super::super::cpu::Cpu;
use super::super::station::Station;
use super::super::stripe_array::StripeArray;
use super::super::system::{Flow, Io, Role, System, SystemError};
use super::super::timed_drive::{Charge, TimedDrive};
use crate::comparators::{ENGINE, Stated, of_pool};
use crate::load::symbols;
use crate::recovery::identity;
use crate::small_pool::SmallPool;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use varve_ftl::{Engine, NewVolume, Seats};
use varve_io::{Drive, World};
use varve_units::{BLOCK_BYTES, Blocks, Lba, Nanos, TenantId, VolumeId};

/// The engine.
pub(crate) struct Varve {
    world: Rc<dyn World>,
    cpu: Rc<Cpu>,
    engine: Engine,
    volumes: Vec<VolumeId>,
    pool: SmallPool,
    fast: Rc<StripeArray>,
    dense: Rc<StripeArray>,
    writes: Cell<u64>,
    /// Blocks that stayed in the log and were charged.
    stayed: Cell<u64>,
}

impl Varve {
    /// A blank pool, a volume for each tenant.
    pub(crate) async fn create(
        world: Rc<dyn World>,
        pool: SmallPool,
        (fast, dense): (Rc<StripeArray>, Rc<StripeArray>),
        cores: usize,
    ) -> Result<Rc<Self>, SystemError> {
        let cpu = Cpu::new(Rc::clone(&world), cores);
        let charge = Charge {
            cpu: Rc::clone(&cpu),
            block: ENGINE.dense_block,
        };
        let seats = Seats {
            world: Rc::clone(&world),
            fast: TimedDrive::fast(&pool.geometry, &fast) as Rc<dyn Drive>,
            dense: Some(TimedDrive::dense(&pool.geometry, &dense, charge) as Rc<dyn Drive>),
        };
        let engine = Engine::create(seats, pool.geometry, pool.config, identity(1)).await?;
        let tenants = pool.user_blocks / pool.volume_blocks;
        let mut volumes = Vec::new();
        for tenant in 1..=tenants as u8 {
            let volume = NewVolume {
                name: &format!("tenant{tenant}"),
                size: Blocks(pool.volume_blocks),
                tenant: TenantId(tenant.into()),
                uuid: [tenant; 16],
                nguid: [tenant; 16],
            };
            volumes.push(engine.create_volume(volume).await?);
        }
        Ok(Rc::new(Self {
            cpu,
            world,
            engine,
            volumes,
            pool,
            fast,
            dense,
            writes: Cell::new(0),
            stayed: Cell::new(0),
        }))
    }

    /// What the command costs. What goes on behind is charged where it is written ([`TimedDrive`]), but for what stays in
    /// the log: that goes there among what hosts write, and is charged behind the next command.
    async fn charge(&self, io: Io) {
        let stayed = self.engine.counter("retained_blocks");
        let blocks = stayed - self.stayed.replace(stayed);
        if blocks > 0 {
            self.cpu.work_behind(Nanos(ENGINE.stayed_block.0 * blocks));
        }
        let blocks = io.bytes / BLOCK_BYTES;
        let own = if io.is_read {
            ENGINE.read
        } else {
            ENGINE.write
        };
        let further = ENGINE.further_block.0 * (blocks - 1);
        self.cpu.work(Nanos(own.0 + further)).await;
    }

    async fn serve_one(&self, io: Io) -> Result<(), SystemError> {
        self.charge(io).await;
        let block = io.offset / BLOCK_BYTES;
        let volume = self.volumes[(block / self.pool.volume_blocks) as usize];
        let lba = Lba(block % self.pool.volume_blocks);
        let count = io.bytes / BLOCK_BYTES;
        if io.is_read {
            let into = self.world.blocks(count as usize, true);
            self.engine.read(volume, lba, into).await.map(drop)
        } else {
            let version = self.writes.get();
            self.writes.set(version + 1);
            let data = symbols(lba, count, version);
            self.engine.write(volume, lba, data, false).await
        }
    }
}

impl System for Varve {
    fn bytes(&self) -> u64 {
        self.pool.user_blocks * BLOCK_BYTES
    }

    fn serve(self: Rc<Self>, io: Io) -> Flow {
        Box::pin(async move { self.serve_one(io).await })
    }

    fn drives(&self) -> Vec<(Role, Rc<Station>)> {
        let of = |role, tier: &StripeArray| {
            let drives = tier
                .drives()
                .iter()
                .map(move |drive| (role, Rc::clone(drive)));
            drives.collect::<Vec<_>>()
        };
        [of(Role::Fast, &self.fast), of(Role::Dense, &self.dense)].concat()
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let geometry = &self.pool.geometry;
        let drives = self.dense.drives();
        let zones = drives[0].zones_in_words();
        let mut parameters = vec![
            ("fast", self.fast.drives()[0].name().to_owned()),
            ("dense", format!("{} of {}", drives.len(), drives[0].name())),
            ("parity strips", self.dense.parity().to_string()),
            ("strip", format!("{} KiB", self.dense.strip_bytes() >> 10)),
            ("groups", geometry.groups.to_string()),
            ("chunks", geometry.chunks.to_string()),
            ("handles", self.dense.handles().to_string()),
            ("processors", self.cpu.cores().to_string()),
            (
                "charge, us",
                format!(
                    "{} a write, {} a read, {} each further block, {} each dense block, {} each that stays in the log",
                    ENGINE.write.0 as f64 / 1e3,
                    ENGINE.read.0 as f64 / 1e3,
                    ENGINE.further_block.0 as f64 / 1e3,
                    ENGINE.dense_block.0 as f64 / 1e3,
                    ENGINE.stayed_block.0 as f64 / 1e3
                ),
            ),
        ];
        parameters.extend(zones.map(|zones| ("zones of the drive", zones)));
        parameters
    }

    fn stated(&self) -> Vec<Stated> {
        of_pool(&self.pool.geometry, &self.pool.config)
    }

    fn counters(&self) -> BTreeMap<&'static str, u64> {
        self.engine.counters()
    }

    fn gauges(&self) -> BTreeMap<&'static str, u64> {
        self.engine.waits()
    }

    fn start(&self) {
        self.cpu.start();
        for (_, drive) in self.drives() {
            drive.start();
        }
    }
}
