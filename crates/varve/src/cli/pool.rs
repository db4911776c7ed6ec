//! `varve pool`.

use super::Exit;
use super::front::{Front, show_findings};
use super::table::{size, size_or_dash, table};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use varve_control::{
    CreatePool, DrivePath, DriveView, Health, ImportPool, PlanView, PoolView, Protect, Reply,
    Request, parse_size,
};

/// What to do with pools.
#[derive(Subcommand)]
pub(crate) enum Action {
    /// Make a pool of blank drives, or of new sparse files (PATH:SIZE)
    Create(Create),
    /// List the pools that are known here
    List(List),
    /// Show how a pool fares, or all
    Status(Status),
    /// Import a pool from its drives, or with other terms than usual
    Import(Import),
    /// Release a pool, so that any machine may import it
    Export(Export),
    /// Destroy a pool: its drives are blank then
    Destroy(Destroy),
}

/// Options of `varve pool create`.
#[derive(Args)]
pub(crate) struct Create {
    /// Name of the pool
    name: String,
    /// Fast drives; two or more are a mirror
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    fast: Vec<DrivePath>,
    /// Dense drives
    #[arg(long, num_args = 1.., value_name = "PATH")]
    dense: Vec<DrivePath>,
    /// Protection of the dense tier: none, mirror or K+1 [default: the best for so many drives]
    #[arg(long)]
    protect: Option<Protect>,
    /// Share of the dense tier that is kept back, per cent [default: 20]
    #[arg(long, value_name = "PCT")]
    over_provision: Option<u32>,
    /// Keep account of what the dense drives' writes would cost the flash of this data sheet
    #[arg(long, value_name = "SHEET")]
    dense_model: Option<String>,
    /// Make a sparse file of this size at every path without a size of its own
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    create_size: Option<u64>,
    /// Only check, and show what would be made
    #[arg(long)]
    dry_run: bool,
    /// Use drives although they hold something, which is lost
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    front: Front,
}

/// Options of `varve pool list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    front: Front,
}

/// Options of `varve pool status`.
#[derive(Args)]
pub(crate) struct Status {
    /// Name of the pool; all if left out
    name: Option<String>,
    /// End with code 6 unless all is as it should be
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    front: Front,
}

/// Options of `varve pool import`.
#[derive(Args)]
pub(crate) struct Import {
    /// Where its drives are; where they were last if left out
    paths: Vec<PathBuf>,
    /// Name or identity of the pool; may be left out if the paths hold only one
    #[arg(long)]
    pool: Option<String>,
    /// Even if another machine used it last
    #[arg(long)]
    take_over: bool,
    /// Even if drives are missing: they are lost to the pool, and must be replaced
    #[arg(long)]
    degraded: bool,
    /// Even if acknowledged data are lost
    #[arg(long)]
    accept_loss: bool,
    #[command(flatten)]
    front: Front,
}

/// Options of `varve pool export`.
#[derive(Args)]
pub(crate) struct Export {
    /// Name of the pool
    name: String,
    /// Forget it even if it cannot be opened: its drives keep their labels, and `pool create --overwrite` takes
    /// them
    #[arg(long)]
    forget: bool,
    #[command(flatten)]
    front: Front,
}

/// Options of `varve pool destroy`.
#[derive(Args)]
pub(crate) struct Destroy {
    /// Name of the pool
    name: String,
    /// With all volumes on it
    #[arg(long)]
    with_volumes: bool,
    #[command(flatten)]
    front: Front,
}

impl Action {
    /// Does it.
    pub(crate) fn run(&self) -> Exit {
        match self {
            Self::Create(options) => options.run(),
            Self::List(options) => options.front.run(Request::PoolList, show),
            Self::Status(options) => options.run(),
            Self::Import(options) => options.run(),
            Self::Export(options) => {
                let (pool, forget) = (options.name.clone(), options.forget);
                options
                    .front
                    .run(Request::PoolExport { pool, forget }, |_| {
                        println!("pool {} is released and forgotten here", options.name);
                        Exit::Ok
                    })
            }
            Self::Destroy(options) => {
                let (pool, with_volumes) = (options.name.clone(), options.with_volumes);
                let request = Request::PoolDestroy { pool, with_volumes };
                options.front.run(request, |_| {
                    println!("pool {} is destroyed; its drives are blank", options.name);
                    Exit::Ok
                })
            }
        }
    }
}

impl Create {
    fn run(&self) -> Exit {
        let sized = |drives: &[DrivePath]| -> Vec<DrivePath> {
            let sized = |drive: &DrivePath| DrivePath {
                path: drive.path.clone(),
                create_bytes: drive.create_bytes.or(self.create_size),
            };
            drives.iter().map(sized).collect()
        };
        let request = CreatePool {
            dense_model: self.dense_model.clone(),
            pool: self.name.clone(),
            fast: sized(&self.fast),
            dense: sized(&self.dense),
            protect: self.protect,
            over_provision: self.over_provision,
            overwrite: self.overwrite,
            dry_run: self.dry_run,
        };
        self.front.run(Request::PoolCreate(request), show)
    }
}

impl Status {
    fn run(&self) -> Exit {
        let request = match &self.name {
            Some(pool) => Request::PoolStatus { pool: pool.clone() },
            None => Request::PoolList,
        };
        let exit = std::cell::Cell::new(Exit::Ok);
        let outcome = self.front.run_judged(request, |reply| {
            let pools = match reply {
                Reply::PoolStatus(pool) => std::slice::from_ref(pool),
                Reply::PoolList { pools } => pools,
                _ => &[],
            };
            let is_well = |pool: &PoolView| matches!(pool.health, Health::Ok | Health::Closed);
            if self.check && !pools.iter().all(is_well) {
                exit.set(Exit::Degraded);
            }
            if !self.front.is_json() {
                pools.iter().for_each(show_status);
            }
        });
        if outcome == Exit::Ok {
            exit.get()
        } else {
            outcome
        }
    }
}

impl Import {
    fn run(&self) -> Exit {
        let request = ImportPool {
            pool: self.pool.clone(),
            paths: self
                .paths
                .iter()
                .filter_map(|path| std::path::absolute(path).ok())
                .collect(),
            take_over: self.take_over,
            degraded: self.degraded,
            without: None,
            accept_loss: self.accept_loss,
        };
        self.front.run(Request::PoolImport(request), show)
    }
}

fn show(reply: &Reply) -> Exit {
    match reply {
        Reply::PoolList { pools } => print!("{}", list(pools)),
        Reply::PoolStatus(pool) => show_status(pool),
        Reply::PoolPlan(plan) => show_plan(plan),
        other => unreachable!("no reply to a command for pools: {other:?}"),
    }
    Exit::Ok
}

fn list(pools: &[PoolView]) -> String {
    let row = |pool: &PoolView| {
        vec![
            pool.pool.clone(),
            pool.health.word().to_owned(),
            pool.protect.clone(),
            size(pool.raw_bytes),
            size_or_dash(pool.capacity_bytes),
            size_or_dash(pool.used_bytes),
            pool.drives.len().to_string(),
        ]
    };
    let rows: Vec<_> = pools.iter().map(row).collect();
    let heading = [
        "POOL", "HEALTH", "PROTECT", "RAW", "CAPACITY", "USED", "DRIVES",
    ];
    table(&heading, &rows)
}

fn show_status(pool: &PoolView) {
    println!("{}  {}  (id {})", pool.pool, pool.health.word(), pool.id);
    let (fast, dense) = (pool.fast_copies, &pool.protect);
    println!("  fast tier on {fast} drives, dense tier {dense}");
    if let (Some(capacity), None) = (pool.capacity_bytes, pool.used_bytes) {
        println!("  capacity {}", size(capacity));
    }
    if let (Some(capacity), Some(used)) = (pool.capacity_bytes, pool.used_bytes) {
        let unprotected = size_or_dash(pool.unprotected_bytes);
        println!(
            "  {} used of {}, unprotected {unprotected}, {} volumes",
            size(used),
            size(capacity),
            pool.volumes.unwrap_or(0),
        );
    }
    if let Some(reason) = &pool.stopped {
        println!("  stopped: {reason}");
    }
    for job in &pool.jobs {
        println!("  job {job} is at work");
    }
    for line in drives(&pool.drives).lines() {
        println!("  {line}");
    }
    show_findings(&pool.findings);
}

/// Drives as a table.
pub(super) fn drives(drives: &[DriveView]) -> String {
    let row = |drive: &DriveView| {
        let path = drive.path.as_ref().map(|path| path.display().to_string());
        let path = path.unwrap_or_else(|| "-".to_owned());
        let others = drive.replaced_by.iter();
        let mut others = others.filter(|new| Some(*new) != drive.path.as_ref());
        let path = match others.next() {
            Some(new) => format!("{path}, {} takes its place", new.display()),
            None => path,
        };
        let state = match (drive.rebuilt_bytes, drive.rebuild_bytes) {
            (Some(done), Some(total)) if total > 0 => {
                format!("{} {} %", drive.state, done * 100 / total)
            }
            _ => drive.state.clone(),
        };
        vec![
            format!("{}/{}", drive.pool, drive.drive),
            state,
            size(drive.bytes),
            path,
        ]
    };
    let rows: Vec<_> = drives.iter().map(row).collect();
    table(&["DRIVE", "STATE", "SIZE", "PATH"], &rows)
}

fn show_plan(plan: &PlanView) {
    let verb = if plan.is_made {
        "created"
    } else {
        "would be created; nothing was written to the drives"
    };
    println!("pool {} {verb}", plan.pool);
    println!(
        "  fast tier  {} on {} drives, chunks of {}",
        size(plan.fast_bytes),
        plan.fast_copies,
        size(plan.chunk_bytes)
    );
    if plan.dense_bytes > 0 {
        println!(
            "  dense tier {} of data, protection {}, groups of {}",
            size(plan.dense_bytes),
            plan.protect,
            size(plan.group_bytes)
        );
    }
    println!(
        "  capacity   {} ({} % over-provisioning)",
        size(plan.capacity_bytes),
        plan.over_provision
    );
    show_findings(&plan.findings);
    if plan.is_made {
        println!("next: varve volume create {}/NAME SIZE", plan.pool);
    }
}
