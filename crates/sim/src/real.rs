//! The real pool as a subject: the same crates that serve hosts, on simulated drives.

use crate::atlas::{Extent, Layout, Scheme, Tier};
use crate::canary::Canary;
use crate::checker::space::Space;
use crate::checker::volumes::{Found, Naming};
use crate::laps::LogArea;
use crate::rng::Rng;
use crate::scenario::LANES_FEW;
use crate::subject::{Config, Dense, Factory, Flow, Outcome, Scrubbed, Subject, SubjectError};
use crate::wire::WireCanary;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use varve_ftl::{Engine, EngineError, GROUPS_MIN, Identity, NewVolume, Recall};
use varve_io::{Blocks, Drive, IoError, ReactorId, World};
use varve_pool::label::{CreateError, LabelStore, Owner, PoolId, RESERVED_BYTES, Role};
use varve_pool::{
    NewPool, Pool, PoolError, PoolOptions, Protect, Settings, Slot, SlotState, Tuning,
};
use varve_units::{BLOCK_BYTES, Lba, Nanos, TenantId, VolumeId};

mod rebuild;

const MIB: u64 = 1 << 20;
/// Chunks of each lane where there are many: more than a pool of that many lanes needs to have room for all.
const LANE_CHUNKS: u64 = 16;
/// Map slices where there are many lanes.
const SLICES_MANY: u16 = 16;
/// Blocks of each write of an earlier pool.
const EARLIER_BLOCKS: u64 = 64;
/// From the close of an earlier pool until its drives are blanked.
const EARLIER_REST: Nanos = Nanos::from_secs(1);
/// Longest unit under one checksum: the payload of a commit.
const GUARD_BYTES: u64 = 1 << 20;

/// Features of the engine that a campaign must have seen.
const FEATURES: &[&str] = &[
    "admission_waits",
    "aged_merges",
    "background_yields",
    "away_refusals",
    "bad_range",
    "bad_range_read",
    "bad_range_write",
    "batches_read_again",
    "bypassed_blocks",
    "checkpoints",
    "chunks_ahead",
    "chunks_cleaned",
    "chunks_cleaned_idle",
    "compacted_blocks",
    "compaction_pauses",
    "creations_cut",
    "dense_outages",
    "discarded_to_noise",
    "discards_redone",
    "earlier_pools",
    "flush_error",
    "full_at_minimal_reserve",
    "full_rejections",
    "gc_blocks",
    "groups_collected",
    "groups_discarded",
    "host_away",
    "host_no_space",
    "host_write_huge",
    "host_write_leaf",
    "host_write_leaves",
    "hung_leaf_reads",
    "hung_reads",
    "kept_blocks",
    "leaf_merges",
    "leaf_reads",
    "log_outages",
    "many_lanes",
    "map_rebuilt",
    "map_rebuilds_cut",
    "map_rebuilt_without_a_drive",
    "members_lost",
    "misdirected_read",
    "misdirected_reads_lasting",
    "moves_redone",
    "narrow_reads",
    "narrow_stripes",
    "no_space",
    "no_space_refusals",
    "outage",
    "paced_writes",
    "put_back",
    "read_only",
    "read_without_two",
    "read_retries",
    "records_passed_over",
    "refused_flush",
    "refused_stripe",
    "remirrors",
    "repairs",
    "retained_blocks",
    "scrub_parity_repairs",
    "scrub_repairs",
    "scrubs",
    "scrubs_checked",
    "second_losses",
    "slow_reads",
    "starts_refused",
    "stripe_write_errors",
    "stripes_joined",
    "tier_outages",
    "turns_waited",
    "units_retired",
    "volumes_purged",
    "writes_recalled",
];

/// What every seed must have seen in a pool without a dense tier.
const ESSENTIALS_FAST: &[&str] = &["checkpoints", "chunks_cleaned"];
/// What every seed must have seen in a pool with one.
const ESSENTIALS_DENSE: &[&str] = &[
    "checkpoints",
    "chunks_cleaned",
    "compacted_blocks",
    "groups_collected",
];

/// Makes real pools.
pub struct Real {
    canary: Option<Canary>,
    is_verbose: bool,
}

impl Real {
    /// A pool as it is, or one with a planted bug.
    #[must_use]
    pub const fn new(canary: Option<Canary>) -> Self {
        Self {
            canary,
            is_verbose: false,
        }
    }

    /// Shows each pool on standard error, why one could not be opened or a drive not be replaced.
    #[must_use]
    pub const fn verbose(self, is_verbose: bool) -> Self {
        Self { is_verbose, ..self }
    }

    fn settings(&self, config: &Config) -> Settings {
        Settings {
            owner: Owner([7; 16]),
            take_over: false,
            accept_loss: false,
            beat: None,
            lanes: config.lanes,
            map_bytes: config.map_bytes,
            elided: config.is_elided,
            tuning: Tuning {
                chain_age: config.chain_age,
                images_min: config.images_min,
                idle_after: Some(config.idle_after),
            },
            // Half of the seeds send all through the log, where most rules have their breaches.
            bypass: config.seed % 2 == 1,
            canary: match self.canary {
                Some(Canary::Pool(canary)) => Some(canary),
                Some(Canary::Wire(_)) | None => None,
            },
        }
    }
}

/// Chunks of more than a megabyte hold what lies across the bounds at which mirrors turn to another drive.
fn chunk_bytes(config: &Config) -> u64 {
    let mut rng = Rng::new(config.seed).split("chunk bytes");
    let is_large = rng.chance(1, 4) && config.lanes_max <= LANES_FEW;
    if is_large { 2 * MIB } else { MIB }
}

/// Sizes that depend on the seed alone.
fn options(config: &Config) -> PoolOptions {
    let mut rng = Rng::new(config.seed).split("real pool");
    // Nothing but the reserve is left free then: it must be enough for everything.
    let is_minimal = Rng::new(config.seed).split("reserve").chance(1, 3);
    PoolOptions {
        chunk_bytes: chunk_bytes(config),
        slices: config.slices,
        protect: match config.dense {
            Dense::None | Dense::Single => Protect::None,
            Dense::Mirror => Protect::Mirror,
            Dense::Parity(_) => Protect::Parity,
        },
        strip_blocks: rng.pick(&[4, 8, 16, 32]),
        zone_strips: rng.within(2, 6) as u32,
        over_provision_per_mille: if is_minimal {
            0
        } else {
            rng.magnitude(32, 300) as u16
        },
    }
}

impl Factory for Real {
    fn adapt(&self, config: &mut Config) {
        let mut rng = Rng::new(config.seed).split("real sizes");
        config.lanes = config.lanes.min(config.lanes_max);
        let lanes = u64::from(config.lanes_max);
        let chunks = if config.lanes_max > LANES_FEW {
            // A lane owns slices, one at least.
            config.slices = SLICES_MANY;
            LANE_CHUNKS * lanes
        } else {
            12 + 4 * lanes
        };
        let chunks = chunks + rng.within(0, 4);
        let chunk_bytes = chunk_bytes(config);
        config.fast_bytes = RESERVED_BYTES + chunks * chunk_bytes;
        config.dense_bytes = dense_bytes(config, rng.within(180, 360));
        config.record_blocks = chunk_bytes / 2 / BLOCK_BYTES;
        // Parity of symbols is not defined: such pools hold real blocks.
        config.is_elided &= !matches!(config.dense, Dense::Parity(_));
    }

    fn layout(&self, config: &Config) -> Layout {
        let tier = |first: usize, count: usize, bytes: u64, scheme: Scheme| Tier {
            scheme,
            extents: (first..first + count)
                .map(|drive| {
                    // The labels of a tier's only drive are as unprotected as the tier.
                    let base = if scheme == Scheme::Single {
                        0
                    } else {
                        RESERVED_BYTES
                    };
                    Extent {
                        drive,
                        base,
                        bytes: bytes - base,
                    }
                })
                .collect(),
        };
        let fast = if config.fast > 1 {
            Scheme::Mirror
        } else {
            Scheme::Single
        };
        let mut tiers = vec![tier(0, config.fast, config.fast_bytes, fast)];
        let strip_bytes = u64::from(options(config).strip_blocks) * BLOCK_BYTES;
        let dense = match config.dense {
            Dense::None => None,
            Dense::Single => Some(Scheme::Single),
            Dense::Mirror => Some(Scheme::Mirror),
            Dense::Parity(_) => Some(Scheme::Parity { strip_bytes }),
        };
        if let Some(scheme) = dense {
            let count = config.dense.drives();
            tiers.push(tier(config.fast, count, config.dense_bytes, scheme));
        }
        Layout {
            drives: config.drives(),
            tiers,
            guard_bytes: GUARD_BYTES,
            losses_max: losses_max(config),
        }
    }

    fn create(
        &self,
        world: Rc<dyn World>,
        drives: Vec<Rc<dyn Drive>>,
        config: Config,
    ) -> Flow<'static, Outcome<Rc<dyn Subject>>> {
        let (settings, is_verbose) = (self.settings(&config), self.is_verbose);
        Box::pin(async move {
            let (fast, dense) = drives.split_at(config.fast);
            let new = NewPool {
                id: pool_id(&config),
                name: "sim",
                fast,
                dense,
                options: options(&config),
            };
            let pool = match Pool::create(Rc::clone(&world), new, settings).await {
                // Cut short when all but the answer was done: what is there is the pool.
                Err(PoolError::Create(CreateError::NotBlank { .. })) => {
                    Pool::open(Rc::clone(&world), &drives, None, settings).await
                }
                other => other,
            };
            wrap(pool, &*world, &config, is_verbose)
        })
    }

    fn repeats_creation(&self) -> bool {
        true
    }

    fn knows_drives(&self) -> bool {
        true
    }

    fn tells_shortage(&self) -> bool {
        true
    }

    fn earlier(
        &self,
        world: Rc<dyn World>,
        drives: Vec<Rc<dyn Drive>>,
        config: Config,
    ) -> Option<Flow<'static, Outcome<()>>> {
        let settings = self.settings(&config);
        Some(Box::pin(async move {
            let (fast, dense) = drives.split_at(config.fast);
            let new = NewPool {
                id: PoolId([1; 16]),
                name: "earlier",
                fast,
                dense,
                options: options(&config),
            };
            let pool = Pool::create(Rc::clone(&world), new, settings).await;
            let pool = pool.map_err(|_| SubjectError::Unusable)?;
            fill_earlier(pool.engine(), &config)
                .await
                .map_err(outcome)?;
            pool.close(true).await.map_err(|_| SubjectError::Stopped)?;
            drop(pool);
            // Its labels are written once more behind the close.
            world.sleep(EARLIER_REST).await;
            for drive in &drives {
                let erased = LabelStore::open(Rc::clone(drive)).await.erase().await;
                erased.map_err(|_| SubjectError::Media)?;
            }
            Ok(())
        }))
    }

    fn open(
        &self,
        world: Rc<dyn World>,
        drives: Vec<Rc<dyn Drive>>,
        config: Config,
    ) -> Flow<'static, Outcome<Rc<dyn Subject>>> {
        let (settings, is_verbose) = (self.settings(&config), self.is_verbose);
        Box::pin(async move {
            let pool = Pool::open(Rc::clone(&world), &drives, None, settings).await;
            wrap(pool, &*world, &config, is_verbose)
        })
    }

    fn rebuild(
        &self,
        world: Rc<dyn World>,
        drives: Vec<Rc<dyn Drive>>,
        config: Config,
    ) -> Option<Flow<'static, Outcome<BTreeMap<&'static str, u64>>>> {
        let settings = self.settings(&config);
        Some(Box::pin(rebuild::rebuild(
            world,
            drives,
            (config, settings),
            self.is_verbose,
        )))
    }

    fn features(&self) -> &'static [&'static str] {
        FEATURES
    }

    fn essentials(&self, config: &Config) -> &'static [&'static str] {
        match config.dense {
            Dense::None => ESSENTIALS_FAST,
            Dense::Single | Dense::Mirror | Dense::Parity(_) => ESSENTIALS_DENSE,
        }
    }

    fn log_area(&self, config: &Config) -> Option<LogArea> {
        Some(LogArea {
            base: RESERVED_BYTES,
            chunk_bytes: chunk_bytes(config),
            chunks: ((config.fast_bytes - RESERVED_BYTES) / chunk_bytes(config)) as usize,
        })
    }

    fn wire_canary(&self) -> Option<WireCanary> {
        match self.canary {
            Some(Canary::Wire(canary)) => Some(canary),
            Some(Canary::Pool(_)) | None => None,
        }
    }
}

/// The identity of a seed's pool.
fn pool_id(config: &Config) -> PoolId {
    let mut rng = Rng::new(config.seed).split("pool id");
    let mut id = [0; 16];
    id[..8].copy_from_slice(&rng.bits().to_le_bytes());
    PoolId(id)
}

/// Writes the fast tier over, so that what lies in it and in groups is valid but for its pool.
async fn fill_earlier(engine: &Engine, config: &Config) -> Result<(), EngineError> {
    let count = engine.capacity() / 2;
    let new = NewVolume {
        name: "earlier",
        size: varve_units::Blocks(count),
        tenant: TenantId(0),
        uuid: [3; 16],
        nguid: [4; 16],
    };
    let volume = engine.create_volume(new).await?;
    let log = config.fast_bytes / BLOCK_BYTES;
    for at in (0..log * 3 / 2).step_by(EARLIER_BLOCKS as usize) {
        let lba = Lba(at % (count - EARLIER_BLOCKS));
        let data = Blocks::new(EARLIER_BLOCKS as usize, config.is_elided);
        engine.write(volume, lba, data, false).await?;
    }
    engine.flush().await
}

/// Bytes of a dense drive so that the dense tier holds `percent` of what the fast tier does: less,
/// and what hosts write would be dead before it is compacted.
fn dense_bytes(config: &Config, percent: u64) -> u64 {
    let options = options(config);
    let data = match config.dense {
        Dense::None => return RESERVED_BYTES,
        Dense::Single | Dense::Mirror => 1,
        Dense::Parity(drives) => drives as u64 - 1,
    };
    let zone = u64::from(options.strip_blocks * options.zone_strips) * BLOCK_BYTES;
    let wanted = (config.fast_bytes - RESERVED_BYTES) * percent / 100;
    RESERVED_BYTES + wanted.div_ceil(zone * data).max(GROUPS_MIN.into()) * zone
}

/// Drives that may be lost at once. The rest is a majority then, whoever is lost: half of the
/// drives would be a quorum only with the first of them. What a rebuild copies are bytes, so a
/// pool of symbols loses no drive.
const fn losses_max(config: &Config) -> usize {
    if config.is_elided {
        0
    } else {
        (config.drives() - 1) / 2
    }
}

fn wrap(
    pool: Result<Pool, PoolError>,
    world: &dyn World,
    config: &Config,
    is_verbose: bool,
) -> Outcome<Rc<dyn Subject>> {
    if is_verbose {
        eprintln!(
            "config: {config:?} {:?}",
            pool.as_ref().map(|pool| *pool.geometry()).ok()
        );
    }
    match pool {
        Ok(pool) => Ok(Rc::new(Life {
            engines: engines(&pool, world),
            next: Cell::new(0),
            pool,
            fast: config.fast,
            is_verbose,
            full_minimal: Cell::new(0),
        })),
        Err(error) => {
            if is_verbose {
                eprintln!("pool: {error:?}");
            }
            Err(SubjectError::Unusable)
        }
    }
}

/// One life of a real pool.
struct Life {
    pool: Pool,
    /// The engine as each reactor has it: hosts come in everywhere.
    engines: Vec<Engine>,
    next: Cell<usize>,
    /// Fast drives.
    fast: usize,
    is_verbose: bool,
    /// Times the pool was seen full with nothing but its reserve free.
    full_minimal: Cell<u64>,
}

/// The engine of a pool as each reactor of the world has it.
fn engines(pool: &Pool, world: &dyn World) -> Vec<Engine> {
    let state = pool.membership().state();
    let identity = Identity {
        pool: state.pool.0,
        epoch: state.epoch,
    };
    let worlds = (0..world.reactors()).filter_map(|reactor| world.beside(ReactorId(reactor)));
    worlds
        .filter_map(|world| Engine::at(&*world, identity))
        .collect()
}

impl Life {
    /// The engine at one reactor after the other.
    fn engine(&self) -> &Engine {
        let next = self.next.get();
        self.next.set(next + 1);
        let engine = self.engines.get(next % self.engines.len().max(1));
        engine.unwrap_or(self.pool.engine())
    }

    /// The slot of drive `index`.
    fn slot(&self, index: usize) -> Slot {
        let (role, number) = match index.checked_sub(self.fast) {
            None => (Role::Fast, index),
            Some(number) => (Role::Dense, number),
        };
        Slot {
            role,
            number: number as u8,
        }
    }
}

const fn outcome(error: EngineError) -> SubjectError {
    match error {
        EngineError::CapacityExceeded => SubjectError::CapacityExceeded,
        EngineError::Lost(..) => SubjectError::Lost,
        EngineError::Io(IoError::NoSpace) => SubjectError::NoSpace,
        EngineError::DenseAway
        | EngineError::Io(IoError::Gone | IoError::Timeout | IoError::ReadOnly) => {
            SubjectError::Away
        }
        EngineError::Io(_) => SubjectError::Media,
        _ => SubjectError::Stopped,
    }
}

impl Subject for Life {
    fn is_volatile(&self) -> bool {
        self.pool.engine().is_volatile()
    }

    fn write(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: Blocks,
        forced: bool,
    ) -> Flow<'_, Outcome<()>> {
        Box::pin(async move {
            self.engine()
                .write(volume, lba, blocks, forced)
                .await
                .map_err(outcome)
        })
    }

    fn write_for<'a>(
        &'a self,
        recall: &'a Recall,
        volume: VolumeId,
        lba: Lba,
        blocks: Blocks,
        forced: bool,
    ) -> Flow<'a, Outcome<()>> {
        Box::pin(async move {
            self.engine()
                .write_for(recall, volume, lba, blocks, forced)
                .await
                .map_err(outcome)
        })
    }

    fn read(&self, volume: VolumeId, lba: Lba, into: Blocks) -> Flow<'_, Outcome<Blocks>> {
        Box::pin(async move { self.engine().read(volume, lba, into).await.map_err(outcome) })
    }

    fn discard(&self, volume: VolumeId, lba: Lba, count: u64) -> Flow<'_, Outcome<()>> {
        Box::pin(async move {
            self.engine()
                .discard(volume, lba, count)
                .await
                .map_err(outcome)
        })
    }

    fn write_zeroes(&self, volume: VolumeId, lba: Lba, count: u64) -> Flow<'_, Outcome<()>> {
        Box::pin(async move {
            self.engine()
                .write_zeroes(volume, lba, count, false)
                .await
                .map_err(outcome)
        })
    }

    fn flush(&self) -> Flow<'_, Outcome<()>> {
        Box::pin(async move { self.engine().flush().await.map_err(outcome) })
    }

    fn create_volume<'a>(
        &'a self,
        identity: &'a Naming,
        count: u64,
    ) -> Flow<'a, Outcome<VolumeId>> {
        Box::pin(async move {
            let new = NewVolume {
                name: &identity.name,
                size: varve_units::Blocks(count),
                tenant: identity.tenant,
                uuid: identity.uuid,
                nguid: identity.nguid,
            };
            self.engine().create_volume(new).await.map_err(outcome)
        })
    }

    fn found(&self) -> Vec<Found> {
        let volumes = self.pool.engine().volumes().into_iter();
        let found = volumes.map(|entry| Found {
            id: entry.id,
            size: entry.size.0,
            identity: Some(Naming {
                tenant: entry.tenant,
                name: entry.name.as_str().to_owned(),
                uuid: entry.uuid,
                nguid: entry.nguid,
            }),
        });
        found.collect()
    }

    fn delete_volume(&self, volume: VolumeId) -> Flow<'_, Outcome<()>> {
        Box::pin(async move { self.engine().delete_volume(volume).await.map_err(outcome) })
    }

    fn resize_volume(&self, volume: VolumeId, count: u64) -> Flow<'_, Outcome<()>> {
        Box::pin(async move {
            let size = varve_units::Blocks(count);
            self.engine()
                .resize_volume(volume, size)
                .await
                .map_err(outcome)
        })
    }

    fn volumes(&self) -> Vec<(VolumeId, u64)> {
        let volumes = self.pool.engine().volumes();
        volumes
            .into_iter()
            .map(|entry| (entry.id, entry.size.0))
            .collect()
    }

    fn replace(&self, index: usize, drive: Rc<dyn Drive>, works: bool) -> Flow<'_, Outcome<()>> {
        let slot = self.slot(index);
        Box::pin(async move {
            let given_up = match works {
                true => self.pool.hand_over(slot).await,
                false => self.pool.give_up(slot).await,
            };
            let outcome = match given_up {
                Ok(()) => self.pool.replace(slot, drive, &mut |_| {}).await,
                Err(error) => Err(error),
            };
            let Err(error) = outcome else { return Ok(()) };
            if self.is_verbose {
                eprintln!("replace: {error:?}, slots {:?}", self.pool.slots());
            }
            Err(SubjectError::Stopped)
        })
    }

    fn is_whole(&self, index: usize) -> bool {
        let slots = self.pool.slots();
        let slot = slots.iter().find(|found| found.slot == self.slot(index));
        slot.is_some_and(|slot| slot.state == SlotState::Live)
    }

    fn scrub(
        &self,
        limit: Option<u64>,
        go_on: Rc<dyn Fn() -> bool>,
    ) -> Flow<'_, Outcome<Option<Scrubbed>>> {
        Box::pin(async move {
            let scrubbed = self.pool.scrub(limit, &mut |_| go_on()).await;
            let report = scrubbed.map_err(|_| SubjectError::Stopped)?;
            if self.is_verbose {
                eprintln!("scrub: {report:?}");
            }
            Ok(Some(Scrubbed {
                is_clean: report.is_whole && report.is_clean(),
                lost: report.lost_blocks + report.unknown,
            }))
        })
    }

    fn wrong_copies(&self) -> Flow<'_, Result<u64, String>> {
        Box::pin(async move {
            let (audited, defects) = self.pool.audit().await;
            audited.map_err(|error| format!("{error} ({error:?})"))?;
            if self.is_verbose && defects.sum() > 0 {
                eprintln!("wrong behind a scrub: {defects:?}");
            }
            Ok(defects.sum())
        })
    }

    fn read_narrow(&self) -> Flow<'_, Result<u64, String>> {
        Box::pin(async move {
            let read = self.pool.engine().audit_narrow().await;
            read.map_err(|error| format!("{error} ({error:?})"))
        })
    }

    fn close(&self) -> Flow<'_, Outcome<()>> {
        Box::pin(async move {
            self.pool
                .close(false)
                .await
                .map_err(|_| SubjectError::Stopped)
        })
    }

    fn space(&self) -> Space {
        let engine = self.pool.engine();
        Space {
            used_blocks: engine.used_upper().min(engine.capacity()),
            capacity_blocks: engine.capacity(),
            capacity_leaves: engine.capacity_leaves(),
            is_exact: false,
        }
    }

    fn status(&self) -> BTreeMap<&'static str, u64> {
        let engine = self.pool.engine();
        let mut status = self.pool.counters();
        status.extend(engine.gauges());
        let is_minimal = self.pool.geometry().over_provision_per_mille == 0;
        let is_full = engine.used_upper() >= engine.capacity();
        let seen = self.full_minimal.get() + u64::from(is_minimal && is_full);
        self.full_minimal.set(seen);
        status.insert("full_at_minimal_reserve", seen);
        let many_lanes = self.engines.len() > usize::from(LANES_FEW);
        status.insert("many_lanes", u64::from(many_lanes));
        status
    }

    fn waits(&self) -> Vec<BTreeMap<&'static str, u64>> {
        self.engines.iter().map(Engine::waits).collect()
    }

    fn on_dense(&self) -> Flow<'_, Result<Vec<(VolumeId, Lba)>, String>> {
        Box::pin(async move {
            let found = self.pool.engine().blocks_on_dense().await;
            found.map_err(|error| format!("{error} ({error:?})"))
        })
    }

    fn audit(&self) -> Flow<'_, Result<(), String>> {
        Box::pin(async move {
            let audited = self.pool.engine().audit().await;
            audited
                .map(|_| ())
                .map_err(|error| format!("{error} ({error:?})"))
        })
    }
}
