//! What a seed means: the pool, the hosts, the crashes and the faults.

use crate::drive::{DriveSpec, Misread, SimDrive, WriteFault};
use crate::executor::Trigger;
use crate::guarantee::OPERATIONS_MIN;
use crate::rng::Rng;
use crate::stress::Stress;
use crate::subject::{Config, Dense, Factory};
use crate::wire;
use varve_io::IoError;
use varve_pool::Tuning;
use varve_units::{LEAF_BLOCKS, Nanos};

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// As many lanes are many: from there on each is given chunks of its own.
pub const LANES_FEW: u16 = 3;
/// Of so many seeds one has more. Arbitrary: such a seed is several times the work.
const MANY_LANES_ONE_IN: u64 = 10;

/// What a drive may say of a write that it stored.
const REFUSALS: [IoError; 5] = [
    IoError::Media,
    IoError::Gone,
    IoError::Timeout,
    IoError::NoSpace,
    IoError::ReadOnly,
];

/// What may be changed about a seed's scenario from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Host operations.
    pub operations: u64,
    /// True if faults other than crashes strike.
    pub has_faults: bool,
    /// If set: one crash at this action of the run, and no other.
    pub crash_at: Option<u64>,
    /// If set: what is pressed on, whatever the seed draws.
    pub stress: Option<Stress>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            operations: 2_500,
            has_faults: true,
            crash_at: None,
            stress: None,
        }
    }
}

impl Options {
    /// True if the run must have seen all that every run must see: not one that was shortened, or
    /// spared its faults or crashes.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.operations >= OPERATIONS_MIN && self.has_faults && self.crash_at.is_none()
    }

    /// A short run with one crash at the given action: for trying all of them in turn.
    #[must_use]
    pub const fn crash_at(operations: u64, action: u64) -> Self {
        Self {
            operations,
            has_faults: false,
            crash_at: Some(action),
            stress: None,
        }
    }
}

/// The scenario of a seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The pool.
    pub config: Config,
    /// Its drives.
    pub drives: Vec<DriveSpec>,
    /// Host operations in flight at a time.
    pub depth: u64,
    /// Number of tenants.
    pub tenants: u64,
    /// Most volumes at a time.
    pub volumes: usize,
    /// Many tenants with a volume or two each: many streams, many leaves, little of each.
    pub is_crowded: bool,
    /// Size of all volumes, in percent of the pool's capacity.
    pub fill_percent: u64,
    /// Lives in which hosts work.
    pub lives: u64,
    /// Host operations between faults, on average.
    pub fault_distance: u64,
    /// What it presses on.
    pub stress: Stress,
    /// How hosts reach the pool over the network, if they do.
    pub wire: Option<wire::Plan>,
}

impl Plan {
    /// Draws the scenario of a seed for pools of this make; what it presses on may be given.
    #[must_use]
    pub fn draw(seed: u64, factory: &dyn Factory, stress: Option<Stress>) -> Self {
        let rng = Rng::new(seed);
        let mut pool = rng.split("pool");
        let dense = match pool.below(6) {
            0 => Dense::None,
            1 => Dense::Single,
            2 => Dense::Mirror,
            _ => Dense::Parity(pool.within(3, 5) as usize),
        };
        let mut config = Config {
            seed,
            fast: 1 + usize::from(pool.chance(2, 3)),
            dense,
            fast_bytes: pool.within(8, 24) * MIB,
            dense_bytes: pool.within(8, 32) * MIB,
            slices: pool.pick(&[1, 4, 16]),
            lanes: pool.within(1, 4) as u16,
            lanes_max: draw_lanes(&mut rng.split("lanes")),
            lba_bytes: pool.pick(&[512, 4096]),
            count_max: LEAF_BLOCKS,
            record_blocks: LEAF_BLOCKS,
            map_bytes: pool.magnitude(64, 4096) << 10,
            chain_age: Tuning::USUAL.chain_age,
            images_min: Tuning::USUAL.images_min,
            idle_after: draw_idle(&mut rng.split("rest")),
            is_elided: pool.chance(2, 3),
            volatile_cache: pool.chance(3, 4),
        };
        draw_tuning(&mut rng.split("tuning"), &mut config);
        let stress = stress.unwrap_or_else(|| Stress::draw(&mut rng.split("stress")));
        stress.shape(&mut config);
        factory.adapt(&mut config);
        let mut placement = rng.split("placement");
        let handles = match placement.chance(1, 2) {
            true => placement.within(2, 16) as u8,
            false => 1,
        };
        let gap_blocks = rng.split("gaps").below(8) as u8;
        let spec = |bytes: u64| DriveSpec {
            bytes,
            lba_bytes: config.lba_bytes,
            volatile_cache: config.volatile_cache,
            handles,
            gap_blocks,
            hangs_repairs: stress == Stress::LateRepairs,
        };
        let mut drives = vec![spec(config.fast_bytes); config.fast];
        drives.resize(config.drives(), spec(config.dense_bytes));
        let mut hosts = rng.split("hosts");
        let wire = wire::Plan::draw(&rng, &config);
        let mut plan = Self {
            config,
            drives,
            depth: hosts.magnitude(1, 32).max(stress.depth_min()),
            tenants: hosts.within(1, 3),
            volumes: hosts.within(1, 4) as usize,
            is_crowded: rng.split("crowded").chance(1, 4),
            fill_percent: hosts.within(75, 125),
            lives: hosts.within(5, 8),
            fault_distance: hosts.magnitude(20, 300).min(stress.fault_distance_max()),
            stress,
            wire,
        };
        if plan.is_crowded {
            let mut crowd = rng.split("crowd");
            plan.tenants = crowd.within(4, 8);
            plan.volumes = crowd.within(8, 16) as usize;
        }
        plan
    }
}

impl Plan {
    /// What a campaign counts of it.
    pub fn features(&self) -> impl Iterator<Item = &'static str> {
        let placement = self.drives.iter().any(|drive| drive.handles > 1);
        let crowded = self.is_crowded.then_some("crowded");
        let more = crowded.into_iter().chain(placement.then_some("placement"));
        core::iter::once(self.stress.name()).chain(more)
    }
}

/// Limits that a seed reaches, each in half of the seeds: chains that grow old, as those of real pools do
/// after hours, and more leaves than images, as real pools have.
fn draw_tuning(rng: &mut Rng, config: &mut Config) {
    if rng.chance(1, 2) {
        config.chain_age = rng.magnitude(1 << 8, 1 << 14);
    }
    if rng.chance(1, 2) {
        config.images_min = rng.pick(&[1, 2, 4, 8]);
    }
}

/// How long hosts are quiet before the pool is idle: in half of the seeds as long as in real pools, else what
/// their pauses last.
fn draw_idle(rng: &mut Rng) -> Nanos {
    match rng.chance(1, 2) {
        true => Tuning::USUAL.idle_after.expect("pools may be idle"),
        false => Nanos(rng.magnitude(1 << 16, 1 << 30)),
    }
}

/// Most log lanes of a seed: seldom many, because such a pool needs a large fast tier.
fn draw_lanes(rng: &mut Rng) -> u16 {
    if rng.chance(1, MANY_LANES_ONE_IN) {
        rng.within(u64::from(LANES_FEW) + 1, 8) as u16
    } else {
        rng.within(1, u64::from(LANES_FEW)) as u16
    }
}

/// When the power fails after the hosts have done their part.
#[must_use]
pub fn draw_trigger(rng: &mut Rng, actions: u64, now: Nanos) -> Trigger {
    match rng.below(4) {
        0 => Trigger::Action(actions + rng.magnitude(1, 4_096)),
        1 => Trigger::Time(now + Nanos(rng.magnitude(100, 4 << 20))),
        2 => Trigger::Writes(rng.magnitude(1, 128)),
        _ => Trigger::Flushes(rng.magnitude(1, 8)),
    }
}

/// Ends all flaws, more often than not: what is flawed on its peers forbids that a drive is lost.
pub(crate) fn heal_perhaps(rng: &mut Rng, drives: &[SimDrive]) {
    if rng.chance(2, 3) {
        drives.iter().for_each(SimDrive::heal);
    }
}

/// A read that goes anywhere, or by whole megabytes, where what lies there is more like what should have been read.
fn draw_misread(rng: &mut Rng, drive: &SimDrive) -> Misread {
    let blocks = match rng.chance(1, 2) {
        true => rng.magnitude(1, 1 << 12),
        false => rng.within(1, 32) * (MIB / drive.lba_bytes()),
    };
    Misread {
        blocks,
        lasts: rng.chance(1, 3),
    }
}

/// Lets one random fault strike one random drive, as far as the atlas permits. Faults of writes
/// strike later, or never.
pub fn inject(rng: &mut Rng, drives: &[SimDrive], stress: Stress, now: Nanos) {
    let drive = &drives[rng.index(drives.len())];
    match rng.weighted(&stress.fault_weights()) {
        0 => drop(drive.break_media(rng)),
        1 => drop(drive.rot(rng)),
        2 => drive.arm(WriteFault::Lost),
        3 => drive.arm(WriteFault::Misdirected(rng.magnitude(1, 1 << 12))),
        4 => drive.arm(WriteFault::Error),
        5 => {
            heal_perhaps(rng, drives);
            drive.lose();
        }
        9 => drive.arm(WriteFault::Refused(rng.pick(&REFUSALS))),
        10 => {
            let error = rng.pick(&REFUSALS);
            drives.iter().for_each(|drive| drive.arm_refusal(error));
        }
        12 => drive.misdirect_read(draw_misread(rng, drive)),
        13 => {
            let refuses = rng.chance(1, 3);
            if refuses {
                heal_perhaps(rng, drives);
            }
            drive.break_for_good(rng, refuses);
        }
        14 => {
            heal_perhaps(rng, drives);
            drive.turn_read_only();
        }
        15 => {
            heal_perhaps(rng, drives);
            drive.fail_flushes(rng.pick(&REFUSALS), rng.chance(1, 2));
        }
        16 => {
            let error = rng.pick(&REFUSALS);
            drives
                .iter()
                .for_each(|drive| drive.arm_flush_refusal(error));
        }
        6 => drive.slow_down(now + Nanos::from_millis(rng.magnitude(1, 32))),
        7 => drive.slow_reads(now + Nanos::from_millis(rng.magnitude(1, 64))),
        11 => {
            let until = now + Nanos::from_millis(rng.magnitude(4, 256));
            drives.iter().for_each(|drive| drive.hang_leaf_reads(until));
        }
        _ => drive.hang_reads(now + Nanos::from_millis(rng.magnitude(4, 256))),
    }
    // A pool without redundancy may see nothing worse, but it sees this at least.
    if drives.iter().all(|drive| drive.tally().is_empty()) {
        drive.slow_down(now + Nanos::from_millis(1));
    }
}
