//! The project's own policy: the real engine, on modelled tiers whose blocks are symbols.
//!
//! Tenants of a load have a volume each. Time passes with the bytes that drives move, so the seed
//! decides everything.

use super::device::Device;
use super::report::{Bytes, WafReport};
use super::request::{Sizes, WafError, WafRequest};
use super::tiers::Sums;
use super::workload::{Source, Write};
use crate::clock::{Clock, Paced};
use crate::comparators::of_pool;
use crate::load::symbols;
use crate::media::{Keeping, Kind, ModelDrive, Moved};
use crate::recovery::{LabError, Watch, identity};
use crate::small_pool::{
    CHUNK_BYTES_MIN, PoolError, PoolRequest, SLICES_UNTIMED, STRIPE_BLOCKS, SmallPool,
};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use varve_ftl::{Engine, EngineError, NewVolume, Seats};
use varve_hostio::Executor;
use varve_io::{Drive, World};
use varve_units::{BLOCK_BYTES, Blocks, LEAF_BLOCKS, Lba, TenantId, VolumeId};

/// Writes in flight.
const DEPTH: usize = 64;
/// Blocks of one write of the fill: volumes are whole numbers of them.
const FILL_BLOCKS: u64 = 128;
const _: () = assert!(LEAF_BLOCKS.is_multiple_of(FILL_BLOCKS));
/// Blocks from one look of the watch to the next.
const WATCHED: u64 = 1 << 12;
/// Bytes a second of the tiers: they pace the modelled clock, which ages are measured by.
const FAST_BANDWIDTH: u64 = 6_000_000_000;
const DENSE_BANDWIDTH: u64 = 3_000_000_000;
/// Stripes of a group, about.
const STRIPES: u32 = 40;

/// The engine's pool for a run.
struct Plan {
    pool: SmallPool,
    sizes: Sizes,
}

impl Plan {
    fn new(request: &WafRequest) -> Result<Self, WafError> {
        let asked = request.sizes()?;
        if request.fast_tier == 0.0 {
            return Err(WafError::NoFastTier);
        }
        let pool = SmallPool::new(&PoolRequest {
            groups: request.groups,
            group_blocks: asked.unit_blocks,
            stripe_blocks: stripe_blocks(asked.unit_blocks),
            chunk_bytes_min: CHUNK_BYTES_MIN,
            slices: SLICES_UNTIMED,
            over_provision: request.over_provision,
            fast_tier: request.fast_tier,
            volumes: request.workload.tenants() as u64,
            map_cache: 100.0,
        });
        let pool = pool.map_err(|error| match error {
            PoolError::Reserve(error) => WafError::Reserve(error),
            PoolError::Capacity { user, usable } => WafError::Capacity { user, usable },
        })?;
        let sizes = Sizes {
            units: request.groups,
            unit_blocks: pool.group_data_blocks,
            user: pool.user_blocks,
            fast: pool.fast_bytes() / BLOCK_BYTES,
        };
        let user = sizes.user;
        request.workload.check(user).map_err(WafError::Area)?;
        Ok(Self { pool, sizes })
    }
}

/// Blocks of a stripe: a fortieth of a group, so that tails of groups cost the same share at every size, and
/// at most what the engine has elsewhere. Shorter ones would hold more P2L.
fn stripe_blocks(group_blocks: u32) -> u32 {
    (group_blocks / STRIPES)
        .max(1)
        .next_power_of_two()
        .clamp(STRIPE_BLOCKS / 4, STRIPE_BLOCKS)
}

/// Looks whether the engine can be run like that.
pub(super) fn check(request: &WafRequest) -> Result<(), WafError> {
    Plan::new(request).map(|_| ())
}

/// Runs the engine under a workload.
pub(super) fn run(request: &WafRequest, watch: &Watch) -> Result<WafReport, WafError> {
    let plan = Plan::new(request)?;
    let clock = Rc::new(Clock::default());
    let group_blocks = plan.pool.geometry.group_blocks;
    let device = Device::new(request.groups.into(), group_blocks.into());
    let device = Rc::new(RefCell::new(device.map_err(WafError::Drive)?));
    let below = Rc::clone(&device);
    let geometry = &plan.pool.geometry;
    let keeping = Keeping::of(geometry);
    let fast = ModelDrive::fast(geometry, keeping, FAST_BANDWIDTH, Rc::clone(&clock));
    let dense = ModelDrive::dense(geometry, keeping, DENSE_BANDWIDTH, Rc::clone(&clock));
    dense.watch(Box::new(move |moved| tell(&mut below.borrow_mut(), moved)));
    let machine = Rc::new(Machine {
        request: request.clone(),
        source: RefCell::new(request.source(&plan.sizes)?),
        plan,
        clock,
        fast: Rc::new(fast),
        dense: Rc::new(dense),
        device,
        engine: OnceCell::new(),
        watch: Rc::clone(watch),
    });
    let executor = Executor::new();
    let flow = Rc::clone(&machine);
    let lived = executor.run({
        let world = executor.world();
        async move { flow.life(world).await }
    });
    drop(executor);
    let lived = lived.map_err(|stalled| {
        let waits = machine.engine.get().map(|engine| engine.waits());
        LabError::Stalled(stalled, waits.unwrap_or_default())
    });
    lived.and_then(|lived| lived).map_err(WafError::Engine)
}

/// Tells the drive below what the engine did to its dense tier.
fn tell(device: &mut Device, moved: Moved) {
    match moved {
        Moved::Written { offset, bytes } => {
            device.write(offset / BLOCK_BYTES, bytes / BLOCK_BYTES);
        }
        Moved::Discarded { offset, bytes } => {
            device.discard(offset / BLOCK_BYTES, bytes / BLOCK_BYTES);
        }
    }
}

/// Drives, load and clock of a run.
struct Machine {
    request: WafRequest,
    plan: Plan,
    source: RefCell<Source>,
    clock: Rc<Clock>,
    fast: Rc<ModelDrive>,
    dense: Rc<ModelDrive>,
    device: Rc<RefCell<Device>>,
    /// Once it is there: to be asked what it waits for, should it stand still.
    engine: OnceCell<Rc<Engine>>,
    watch: Watch,
}

/// A running engine with its volumes, by tenant.
struct Subject {
    engine: Rc<Engine>,
    volumes: Vec<VolumeId>,
}

/// Writes of a phase.
struct Phase {
    name: &'static str,
    /// True if it goes from the first block to the last.
    is_fill: bool,
    /// Blocks to be written, and those whose writes have begun.
    blocks: u64,
    begun: Cell<u64>,
    failure: Cell<Option<EngineError>>,
}

impl Machine {
    async fn life(self: Rc<Self>, world: Rc<dyn World>) -> Result<WafReport, LabError> {
        let subject = Rc::new(self.create(&world).await?);
        let user = self.plan.sizes.user;
        self.write(&world, &subject, ("fill", true, user)).await?;
        let (warm_up, measured) = self.request.writes(&self.plan.sizes);
        self.write(&world, &subject, ("warm up", false, warm_up))
            .await?;
        let before = self.sums(&subject, 0);
        let bytes = self.bytes();
        let measured = self.write(&world, &subject, ("measure", false, measured));
        let measured = measured.await?;
        let sums = self.sums(&subject, measured).since(&before);
        let bytes = self.bytes().since(&bytes);
        let (stripe, user) = (
            f64::from(self.plan.pool.geometry.stripe_blocks),
            f64::from(self.plan.pool.geometry.stripe_user_blocks()),
        );
        let report = WafReport::new(&self.request, &self.plan.sizes, &sums, stripe / user - 1.0);
        let lost = subject.engine.counters().get("blocks_lost").copied();
        assert_eq!(lost, None, "modelled drives lose nothing");
        subject.engine.close().await?;
        let pool = &self.plan.pool;
        let stated = of_pool(&pool.geometry, &pool.config);
        Ok(report.with_fast_bytes(bytes).stating(stated))
    }

    async fn create(&self, world: &Rc<dyn World>) -> Result<Subject, EngineError> {
        let seats = Seats {
            world: Rc::new(Paced {
                inner: Rc::clone(world),
                clock: Rc::clone(&self.clock),
            }),
            fast: Rc::clone(&self.fast) as Rc<dyn Drive>,
            dense: Some(Rc::clone(&self.dense) as Rc<dyn Drive>),
        };
        let (geometry, config) = (self.plan.pool.geometry, self.plan.pool.config);
        let engine = Engine::create(seats, geometry, config, identity(1)).await?;
        let mut volumes = Vec::new();
        for tenant in 0..self.request.workload.tenants() as u8 {
            let volume = NewVolume {
                name: &format!("tenant{tenant}"),
                size: Blocks(self.plan.pool.volume_blocks),
                tenant: TenantId(u32::from(tenant) + 1),
                uuid: [tenant + 1; 16],
                nguid: [tenant + 1; 16],
            };
            volumes.push(engine.create_volume(volume).await?);
        }
        let engine = Rc::new(engine);
        let kept = self.engine.set(Rc::clone(&engine));
        assert!(kept.is_ok(), "a run has one engine");
        Ok(Subject { engine, volumes })
    }

    /// Writes as many blocks as asked for, with several writes in flight; tells how many: the last write may
    /// be longer than what was left.
    async fn write(
        self: &Rc<Self>,
        world: &Rc<dyn World>,
        subject: &Rc<Subject>,
        (name, is_fill, blocks): (&'static str, bool, u64),
    ) -> Result<u64, EngineError> {
        let phase = Rc::new(Phase {
            name,
            is_fill,
            blocks,
            begun: Cell::new(0),
            failure: Cell::new(None),
        });
        let flows: Vec<_> = (0..DEPTH)
            .map(|_| {
                let (machine, subject) = (Rc::clone(self), Rc::clone(subject));
                let phase = Rc::clone(&phase);
                world.run(async move { machine.flow(&subject, &phase).await })
            })
            .collect();
        for flow in flows {
            flow.await;
        }
        phase.failure.get().map_or(Ok(phase.begun.get()), Err)
    }

    async fn flow(&self, subject: &Subject, phase: &Phase) {
        while let Some((volume, lba, blocks, version)) = self.next(subject, phase) {
            let data = symbols(lba, blocks, version);
            if let Err(error) = subject.engine.write(volume, lba, data, false).await {
                phase.failure.set(phase.failure.get().or(Some(error)));
                phase.begun.set(phase.blocks);
            }
        }
    }

    /// The next write of a phase: how many blocks of what, and which write it is.
    #[inline(always)]
    fn next(&self, subject: &Subject, phase: &Phase) -> Option<(VolumeId, Lba, u64, u64)> {
        let begun = phase.begun.get();
        if begun >= phase.blocks {
            return None;
        }
        let write = if phase.is_fill {
            Write {
                block: begun,
                blocks: FILL_BLOCKS,
            }
        } else {
            self.source.borrow_mut().next()
        };
        let after = begun + write.blocks;
        phase.begun.set(after);
        if begun == 0 || begun / WATCHED != after / WATCHED {
            (self.watch)(phase.name, begun as f64 / phase.blocks as f64, "");
        }
        let tenant = write.block / self.plan.pool.volume_blocks;
        let lba = Lba(write.block - tenant * self.plan.pool.volume_blocks);
        Some((subject.volumes[tenant as usize], lba, write.blocks, begun))
    }

    /// Blocks written so far, `host` of them by hosts.
    fn sums(&self, subject: &Subject, host: u64) -> Sums {
        let counters = subject.engine.counters();
        // What never happened is not in the list.
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        Sums {
            host,
            fast: self.fast.traffic().of(Kind::Data) / BLOCK_BYTES,
            compacted: count("compacted_blocks") + count("bypassed_blocks"),
            collected: count("gc_blocks"),
            device: self.device.borrow_mut().counters(),
        }
    }

    fn bytes(&self) -> Bytes {
        let traffic = self.fast.traffic();
        Bytes {
            headers: traffic.of(Kind::Headers),
            leaves: traffic.of(Kind::Leaves),
            checkpoints: traffic.of(Kind::Checkpoints),
        }
    }
}
