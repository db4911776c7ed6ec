//! Builds a system on its drives, brings it into its state and measures it.

use super::load::{Load, Seen, Span};
use super::mix::{Law, Mix};
use super::report::{RigParameters, RigReport, TierReport, Way};
use super::request::{Protect, RigRequest, SystemName};
use super::station::{Station, Traffic};
use super::stripe_array::{STRIP_BYTES, StripeArray};
use super::system::{Role, System, SystemError};
use super::systems::concat::Concat;
use super::systems::csal::{Csal, CsalPlan};
use super::systems::dm_zoned::{DmZoned, DmZonedPlan};
use super::systems::open_cas::OpenCas;
use super::systems::parity_raid::{Nobody, ParityRaid};
use super::systems::raid0::Raid0;
use super::systems::raid10::Raid10;
use super::systems::varve::Varve;
use crate::draw::Zipf;
use crate::drive::latency;
use crate::recovery::Watch;
use crate::small_pool::{PoolError, PoolRequest, SmallPool};
use crate::waf::PolicyName;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use varve_io::World;
use varve_media::{AnySheet, Counters, Shape, ShapeError};
use varve_sim::executor::{Executor, Journal, Reactor, Stop};
use varve_sim::rng::Rng;
use varve_units::{BLOCK_BYTES, Nanos};

/// Reclaim groups of CSAL, and blocks of a band at least.
const GROUPS: u32 = 200;
const BAND_BLOCKS_MIN: u64 = 64;
/// Blocks of a mebibyte.
const MIB_BLOCKS: u64 = (1 << 20) / BLOCK_BYTES;
/// Bytes of a dense drive whose times do not depend on its size. Chosen: about those of `qlc-002`.
const IN_PLACE_BYTES: u64 = 16 << 30;
/// Time before the window, and of the window, at most.
const RAMP: Nanos = Nanos::from_secs(2);
const WINDOW: Nanos = Nanos::from_secs(5);
/// What is written in larger pieces takes fewer of them.
const WINDOW_BYTES: u64 = 8 << 30;

/// Why nothing was measured.
#[derive(Debug)]
#[non_exhaustive]
pub enum RigError {
    /// A drive's sheet describes no possible drive of that size.
    Drive(ShapeError),
    /// The engine makes no pool of that.
    Pool(String),
    /// Requests have from 4 KiB to 1 MiB, in blocks.
    Bytes(u64),
    /// A zoned drive: no system here writes zones.
    Zoned(&'static str),
    /// A disk below a system that keeps account of every block.
    Disk {
        /// The disk.
        drive: &'static str,
        /// The system.
        system: SystemName,
    },
    /// Jobs, depth, or shares beyond their limits.
    Limits(&'static str),
    /// The system cannot have so many dense drives.
    Drives {
        /// The system.
        system: SystemName,
        /// Fewest and most it can have, as it is to be protected.
        possible: (u32, u32),
    },
    /// Only the engine's tier is protected on demand.
    Protect(SystemName),
    /// The engine failed.
    Engine(SystemError),
    /// The run came to a halt, with how things stood then.
    Stopped(&'static str, BTreeMap<&'static str, u64>),
}

impl fmt::Display for RigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drive(error) => error.fmt(f),
            Self::Pool(error) => f.write_str(error),
            Self::Bytes(bytes) => write!(
                f,
                "requests of {bytes} bytes: 4096 to 1048576, multiples of 4096"
            ),
            Self::Zoned(drive) => write!(
                f,
                "{drive} takes writes at the write pointers of its zones only, and no system here writes zones"
            ),
            Self::Disk { drive, system } => write!(
                f,
                "{drive} as the dense drive of {system}: what a disk does depends on how far its head goes, so it \
                 is modelled at its whole size, and {system} keeps account of every block of it"
            ),
            Self::Limits(what) => f.write_str(what),
            Self::Drives {
                system,
                possible: (1, 1),
            } => write!(f, "{system} has one dense drive"),
            Self::Drives {
                system,
                possible: (least, most),
            } => write!(f, "{system} has from {least} to {most} dense drives"),
            Self::Protect(system) => write!(f, "{system} is protected as it is"),
            Self::Engine(error) => error.fmt(f),
            Self::Stopped(why, gauges) => {
                write!(f, "the run came to a halt: {why}")?;
                if gauges.is_empty() {
                    Ok(())
                } else {
                    write!(f, ": {gauges:?}")
                }
            }
        }
    }
}

impl std::error::Error for RigError {}

/// Looks whether a request makes sense.
///
/// # Errors
/// If it does not.
pub fn check(request: &RigRequest) -> Result<(), RigError> {
    let Mix {
        jobs,
        depth,
        bytes,
        reads_per_cent,
        ..
    } = request.mix;
    if !(BLOCK_BYTES..=1 << 20).contains(&bytes) || !bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(RigError::Bytes(bytes));
    }
    for name in [request.fast, request.dense] {
        if matches!(AnySheet::named(name), Ok(AnySheet::Zoned(_))) {
            return Err(RigError::Zoned(name));
        }
    }
    if matches!(AnySheet::named(request.dense), Ok(AnySheet::Disk(_)))
        && request.system.keeps_blocks()
    {
        let (drive, system) = (request.dense, request.system);
        return Err(RigError::Disk { drive, system });
    }
    let is_skew = match request.mix.law {
        Law::Zipf(theta) => 0.0 < theta && theta < Zipf::THETA_END,
        Law::Sequential | Law::Uniform => true,
    };
    let limits = [
        ((1..=64).contains(&jobs), "from 1 to 64 jobs"),
        (
            (1..=1024).contains(&depth),
            "from 1 to 1024 requests in flight for each job",
        ),
        (reads_per_cent <= 100, "reads are a share in per cent"),
        ((1..=64).contains(&request.cores), "from 1 to 64 processors"),
        (is_skew, "THETA lies above 0 and below 5"),
        (
            (1.0..=90.0).contains(&request.over_provision),
            "over-provisioning of 1 to 90 per cent",
        ),
        (
            (0.0..=100.0).contains(&request.map_cache),
            "0 to 100 per cent of a map in memory",
        ),
        (
            (0.0..=1000.0).contains(&request.passes),
            "overwritten 0 to 1000 times before",
        ),
        (request.rmw_level <= 2, "rmw_level is 0, 1 or 2"),
        (
            (0.1..=100.0).contains(&request.fast_tier),
            "a fast tier from 0.1 to 100 per cent",
        ),
    ];
    if let Some((_, what)) = limits.into_iter().find(|(holds, _)| !holds) {
        return Err(RigError::Limits(what));
    }
    let system = request.system;
    if request.protect != Protect::None && system != SystemName::Varve {
        return Err(RigError::Protect(system));
    }
    let possible = system.drives_possible(request.protect);
    if !(possible.0..=possible.1).contains(&request.drives) {
        return Err(RigError::Drives { system, possible });
    }
    Ok(())
}

/// Measures a system under a load.
///
/// # Errors
/// If the request makes no sense, or the engine fails.
pub fn run(request: &RigRequest, watch: &Watch) -> Result<RigReport, RigError> {
    check(request)?;
    let journal = Rc::new(Journal::default());
    let rng = Rng::new(request.seed);
    let mut executor = Executor::new(journal, rng, Nanos(0)).in_order();
    let built = Built::default();
    let flow = life(
        executor.reactor(),
        *request,
        Rc::clone(watch),
        Rc::clone(&built),
    );
    let lived = executor.run(flow);
    let system = built.take();
    let gauges = system.map(|system| system.gauges()).unwrap_or_default();
    executor.crash();
    lived.map_err(|stop| {
        let why = match stop {
            Stop::Deadlock => "everything waits for everything",
            Stop::Runaway => "flows run on without a request that ends",
            Stop::Stuck => "no request has ended for a minute of virtual time",
            Stop::Crash | Stop::Failed => "it was told to",
        };
        RigError::Stopped(why, gauges)
    })?
}

/// The system of a run, once there is one.
type Built = Rc<RefCell<Option<Rc<dyn System>>>>;

async fn life(
    reactor: Rc<Reactor>,
    request: RigRequest,
    watch: Watch,
    built: Built,
) -> Result<RigReport, RigError> {
    let system = build(&reactor, &request).await?;
    built.replace(Some(Rc::clone(&system)));
    let places = request.mix.places(system.bytes(), request.seed);
    let places = Rc::new(RefCell::new(places));
    let load = Rc::new(Load {
        reactor,
        system: Rc::clone(&system),
        watch,
    });
    let mix = request.mix;
    // What does not keep a state needs none.
    let has_state = system.drives().iter().any(|(_, drive)| drive.has_state());
    if has_state {
        load.age(&mix, &places, request.passes)
            .await
            .map_err(RigError::Engine)?;
    }
    system.start();
    let before = Rc::new(RefCell::new(Sums::default()));
    let (opened, marked) = (Rc::clone(&before), Rc::clone(&system));
    let mark = move || *opened.borrow_mut() = Sums::of(&*marked);
    let requests = (WINDOW_BYTES / mix.bytes).clamp(1 << 12, request.requests.max(1 << 12));
    let span = Span {
        ramp: (RAMP, requests / 2),
        window: (WINDOW, requests),
    };
    let seen = load
        .measure(&mix, &places, span, mark)
        .await
        .map_err(RigError::Engine)?;
    let after = Sums::of(&*system);
    let report = report(&request, &*system, &seen, (&before.borrow(), &after));
    Ok(report)
}

fn dense_bytes(sheet: &AnySheet, scale: u32) -> u64 {
    match sheet {
        AnySheet::Flash(sheet) => Shape::smallest(sheet) / u64::from(scale),
        AnySheet::InPlace(_) => IN_PLACE_BYTES / u64::from(scale),
        AnySheet::Disk(_) | AnySheet::Zoned(_) => sheet.capacity().user_bytes.value,
    }
}

async fn build(reactor: &Rc<Reactor>, request: &RigRequest) -> Result<Rc<dyn System>, RigError> {
    let named = |name| AnySheet::named(name).expect("requests name drives that there are");
    let station =
        |sheet: &AnySheet, bytes| Station::new(sheet, bytes, reactor).map_err(RigError::Drive);
    let dense = named(request.dense);
    let dense_bytes = dense_bytes(&dense, request.scale);
    let world = Rc::clone(reactor) as Rc<dyn World>;
    let array = |sheet: &AnySheet, bytes| -> Result<Vec<_>, RigError> {
        (0..request.drives).map(|_| station(sheet, bytes)).collect()
    };
    let in_place = |parity| -> Result<Rc<dyn System>, RigError> {
        let (drives, world) = (array(&dense, dense_bytes)?, Rc::clone(&world));
        let level = request.rmw_level;
        Ok(ParityRaid::new(
            world,
            drives,
            parity,
            level,
            Rc::new(Nobody),
        ))
    };
    Ok(match request.system {
        SystemName::HddArray => {
            let sheet = named("hdd-002");
            let bytes = sheet.capacity().user_bytes.value;
            Concat::new(array(&sheet, bytes)?)
        }
        SystemName::DropIn => Concat::new(vec![station(&dense, dense_bytes)?]),
        SystemName::CsalPaper | SystemName::CsalToday => {
            let plan = csal_plan(request, dense_bytes);
            let dense = station(&dense, dense_bytes)?;
            let fast = station(&named(request.fast), plan.fast_bytes())?;
            Csal::create(world, plan, (fast, dense))
        }
        SystemName::Raid0 => Raid0::new(array(&dense, dense_bytes)?),
        SystemName::Raid10 => Raid10::new(array(&dense, dense_bytes)?),
        SystemName::Raid5 => in_place(1)?,
        SystemName::Raid6 => in_place(2)?,
        SystemName::OpenCas => {
            let dense = station(&dense, dense_bytes)?;
            let fast = station(&named(request.fast), fast_bytes(request, dense.bytes()))?;
            OpenCas::create(Rc::clone(reactor) as Rc<dyn World>, (fast, dense))
        }
        SystemName::DmZoned => {
            let dense = station(&dense, dense_bytes)?;
            let plan = DmZonedPlan::new(dense.bytes(), fast_bytes(request, dense.bytes()));
            let plan = plan.ok_or(RigError::Limits("drives with room for zones"))?;
            let fast = station(&named(request.fast), plan.fast_bytes())?;
            let world = Rc::clone(reactor) as Rc<dyn World>;
            DmZoned::create(world, plan, (fast, dense))
        }
        SystemName::Varve => {
            let pool = pool(request, &dense, dense_bytes)?;
            let drives = array(&dense, dense_bytes)?;
            let dense = StripeArray::new(drives, request.protect.strips());
            let fast = named(request.fast);
            let fast = StripeArray::new(vec![station(&fast, pool.fast_bytes())?], 0);
            Varve::create(world, pool, (fast, dense), request.cores)
                .await
                .map_err(RigError::Engine)?
        }
    })
}

/// The fast tier of a system that exports all of its dense drive.
fn fast_bytes(request: &RigRequest, dense: u64) -> u64 {
    let blocks = dense as f64 / BLOCK_BYTES as f64 * request.fast_tier / 100.0;
    blocks as u64 * BLOCK_BYTES
}

/// As many bands as 72 for each of 200 erase units of a drive are, which fill it.
fn csal_plan(request: &RigRequest, bytes: u64) -> CsalPlan {
    let policy = match request.system {
        SystemName::CsalToday => PolicyName::CsalToday,
        _ => PolicyName::CsalPaper,
    };
    let blocks = bytes / BLOCK_BYTES;
    let groups = (blocks / u64::from(policy.units_per_group(GROUPS)) / BAND_BLOCKS_MIN)
        .min(GROUPS.into()) as u32;
    let bands = groups * policy.units_per_group(groups);
    let band_blocks = (blocks / u64::from(bands)) as u32;
    let dense = u64::from(bands) * u64::from(band_blocks);
    let user = (dense as f64 * (1.0 - request.over_provision / 100.0)) as u64;
    let tenants = u64::from(request.mix.jobs);
    let user = user / tenants * tenants;
    CsalPlan {
        policy,
        bands,
        band_blocks,
        user_blocks: user,
        tenants,
        fast_blocks: (user as f64 * request.fast_tier / 100.0) as u64,
        map_cache: request.map_cache,
        cores: request.cores,
    }
}

/// As many groups as the drive has erase units, which fill it.
fn pool(request: &RigRequest, dense: &AnySheet, bytes: u64) -> Result<SmallPool, RigError> {
    let groups = match dense {
        AnySheet::Flash(sheet) => {
            sheet.capacity.user_bytes.value / sheet.flash.erase_unit_bytes.value
        }
        AnySheet::InPlace(_) | AnySheet::Disk(_) | AnySheet::Zoned(_) => GROUPS.into(),
    };
    let blocks = bytes / BLOCK_BYTES;
    let data = u64::from(request.drives) - request.protect.strips() as u64;
    let strip = match request.drives {
        1 => u64::from(crate::small_pool::STRIPE_BLOCKS),
        _ => STRIP_BYTES / BLOCK_BYTES,
    };
    // Whole mebibytes of data: the content of the tier is emptied by them when a group is written
    // anew, so no two groups may share one.
    let stripe = strip * data;
    let step = (MIB_BLOCKS >> stripe.trailing_zeros().min(MIB_BLOCKS.ilog2())) * strip;
    // Rounded down: a zone of every drive for each group.
    let zone_blocks = (blocks / groups / step).max(2) * step;
    let pool = SmallPool::new(&PoolRequest {
        groups: (blocks / zone_blocks) as u32,
        group_blocks: (zone_blocks * data) as u32,
        stripe_blocks: (strip * data) as u32,
        over_provision: request.over_provision,
        fast_tier: request.fast_tier,
        volumes: request.mix.jobs.into(),
    });
    pool.map_err(|error| {
        RigError::Pool(match error {
            PoolError::Reserve(error) => error.to_string(),
            PoolError::Capacity { user, usable } => {
                format!("{user} blocks for hosts, of {usable} that there is room for")
            }
        })
    })
}

/// What each drive, and the software, has done so far.
#[derive(Default)]
struct Sums {
    drives: Vec<(Role, Traffic, Counters)>,
    software: BTreeMap<&'static str, u64>,
}

impl Sums {
    fn of(system: &dyn System) -> Self {
        let of = |(role, drive): (Role, Rc<Station>)| (role, drive.traffic(), drive.counters());
        Self {
            drives: system.drives().into_iter().map(of).collect(),
            software: system.counters(),
        }
    }
}

fn report(
    request: &RigRequest,
    system: &dyn System,
    seen: &Seen,
    (before, after): (&Sums, &Sums),
) -> RigReport {
    let [reads, writes] = &seen.latencies_ns;
    let host_bytes = writes.len() as u64 * request.mix.bytes;
    let tier = |role| tier(role, host_bytes, before, after);
    let dense = tier(Role::Dense);
    let waf_total =
        dense.and_then(|(_, media)| (host_bytes > 0).then(|| media as f64 / host_bytes as f64));
    RigReport {
        parameters: RigParameters {
            request: *request,
            made_of: system.parameters().into_iter().collect(),
            user_bytes: system.bytes(),
        },
        virtual_ns: seen.span.0,
        reads: way(reads, request.mix.bytes, seen.span),
        writes: way(writes, request.mix.bytes, seen.span),
        fast: tier(Role::Fast).map(|(report, _)| report),
        dense: dense.map(|(report, _)| report),
        waf_total,
        counters: counters(before, after),
    }
}

/// What was counted in the window. Gauges, which go down as well, are as they were at its end.
fn counters(before: &Sums, after: &Sums) -> BTreeMap<&'static str, u64> {
    let since = |(name, count): (&&'static str, &u64)| {
        let earlier = before.software.get(name).copied().unwrap_or(0);
        (*name, count.checked_sub(earlier).unwrap_or(*count))
    };
    after.software.iter().map(since).collect()
}

fn way(latencies: &[u64], bytes: u64, span: Nanos) -> Option<Way> {
    let requests = latencies.len() as u64;
    let per_second =
        |amount: u64| (u128::from(amount) * 1_000_000_000 / u128::from(span.0.max(1))) as u64;
    (requests > 0).then(|| Way {
        requests,
        iops: per_second(requests),
        bytes_per_s: per_second(requests * bytes),
        latency: latency(latencies),
    })
}

/// What a tier did in the window, and the bytes its media were programmed with.
fn tier(role: Role, host_bytes: u64, before: &Sums, after: &Sums) -> Option<(TierReport, u64)> {
    let mut report = TierReport {
        drives: 0,
        read_bytes: 0,
        written_bytes: 0,
        moved_bytes: 0,
        written_per_host_byte: None,
        waf_device: None,
    };
    let (mut to_drives, mut media) = (0, 0);
    let both = before.drives.iter().zip(&after.drives);
    for ((_, traffic, counters), (_, traffic_after, after)) in both.filter(|(b, _)| b.0 == role) {
        let traffic = traffic_after.since(traffic);
        let counters = after.since(counters);
        report.drives += 1;
        report.read_bytes += traffic.read_bytes;
        report.written_bytes += traffic.written_bytes;
        report.moved_bytes += counters.gc_moved_bytes + counters.rmw_bytes;
        to_drives += counters.host_bytes;
        media += counters.media_bytes;
    }
    let ratio = |a: u64, b: u64| (b > 0).then(|| a as f64 / b as f64);
    report.written_per_host_byte = ratio(report.written_bytes, host_bytes);
    report.waf_device = ratio(media, to_drives);
    (report.drives > 0).then_some((report, media))
}
