//! `varve pool`.

use super::Exit;
use super::front::{Front, show_findings};
use super::hint::typed;
use super::scrub::{Scrub, mended};
use super::table::Column::{Number, Text};
use super::table::{count, size, size_or_dash, table};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use varve_control::{
    CreatePool, DrivePath, DriveView, FaultsView, ImportPool, ModelView, PlanView, PoolView,
    Protect, Reply, Request, ScrubView, parse_size,
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
    /// Read everything in every way, in use or not, and mend what is wrong
    Scrub(Scrub),
    /// Release a pool, so that any machine may import it
    Export(Export),
    /// Destroy a pool: its drives are blank then
    Destroy(Destroy),
}

/// Options of `varve pool create`.
// The name first: behind drives it is taken for one.
#[derive(Args)]
#[command(
    override_usage = "varve pool create <NAME> --fast <PATH>... [--dense <PATH>...] [OPTIONS]"
)]
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
    /// Even if another machine used it last. If that did not close it in good order, its heartbeat is watched first, for half
    /// a minute, and it takes as long again until the pool is opened here; it is refused while the other one lives
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
    /// Even while hosts are connected that see its volumes: they lose them
    #[arg(long)]
    cut_off: bool,
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
    /// Even while hosts are connected that see its volumes: they lose them
    #[arg(long)]
    cut_off: bool,
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
            Self::Scrub(options) => options.run(),
            Self::Export(options) => {
                let request = Request::PoolExport {
                    pool: options.name.clone(),
                    forget: options.forget,
                    cut_off: options.cut_off,
                };
                options.front.run(request, show_exported)
            }
            Self::Destroy(options) => {
                let request = Request::PoolDestroy {
                    pool: options.name.clone(),
                    with_volumes: options.with_volumes,
                    cut_off: options.cut_off,
                };
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
            if self.check && !pools.iter().all(PoolView::is_well) {
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
        if self.take_over {
            eprintln!(
                "if the pool was not closed in good order, its owner is watched first, and has time to stop then: this takes \
                 about a minute"
            );
        }
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

fn show_exported(reply: &Reply) -> Exit {
    let Reply::PoolDone { pool, findings } = reply else {
        unreachable!("no reply to an export: {reply:?}");
    };
    match findings.is_empty() {
        true => println!("pool {pool} is released and forgotten here"),
        false => println!("pool {pool} is forgotten here"),
    }
    show_findings(findings);
    Exit::Ok
}

fn list(pools: &[PoolView]) -> String {
    let row = |pool: &PoolView| {
        vec![
            pool.pool.clone(),
            pool.health.word().to_owned(),
            copies(pool.fast_copies),
            pool_code(pool),
            size(pool.raw_bytes),
            size_or_dash(pool.capacity_bytes),
            size_or_dash(pool.used_bytes),
            pool.drives.len().to_string(),
        ]
    };
    let rows: Vec<_> = pools.iter().map(row).collect();
    let columns = [
        Text("POOL"),
        Text("HEALTH"),
        Text("FAST TIER"),
        Text("DENSE TIER"),
        Number("RAW"),
        Number("CAPACITY"),
        Number("USED"),
        Number("DRIVES"),
    ];
    table(&columns, &rows)
}

/// What protects the fast tier, in a word or two.
fn copies(fast_copies: u64) -> String {
    match fast_copies {
        0 => "-".to_owned(),
        1 => "unprotected".to_owned(),
        copies => format!("mirror of {copies}"),
    }
}

/// What protects the dense tier: `none` of the labels is a tier without redundancy, which is something else
/// than no tier.
fn code(protect: &str, has_dense: bool) -> String {
    match protect {
        _ if !has_dense => "-".to_owned(),
        "none" => "unprotected".to_owned(),
        other => other.to_owned(),
    }
}

fn pool_code(pool: &PoolView) -> String {
    code(&pool.protect, has_dense(pool))
}

fn has_dense(pool: &PoolView) -> bool {
    let mut drives = pool.drives.iter();
    drives.any(|drive| drive.drive.starts_with("dense"))
}

/// Which tiers a pool has, for people.
fn tiers(pool: &PoolView) -> String {
    let fast = pool.fast_copies;
    if pool.drives.is_empty() {
        return "which tiers it has is not known: none of its labels can be read".to_owned();
    }
    let fast = format!("fast tier {} on {}", copies(fast), count(fast, "drive"));
    match has_dense(pool) {
        true => {
            let of_tier = |drive: &&DriveView| drive.drive.starts_with("dense");
            let dense = pool.drives.iter().filter(of_tier).count() as u64;
            format!(
                "{fast}, dense tier {} on {}",
                pool_code(pool),
                count(dense, "drive")
            )
        }
        false => format!("{fast}, no dense tier"),
    }
}

fn show_status(pool: &PoolView) {
    println!("{}  {}  (id {})", pool.pool, pool.health.word(), pool.id);
    println!("  {}", tiers(pool));
    if let (Some(capacity), None) = (pool.capacity_bytes, pool.used_bytes) {
        println!("  capacity {}", size(capacity));
    }
    if let (Some(capacity), Some(used)) = (pool.capacity_bytes, pool.used_bytes) {
        let unprotected = size_or_dash(pool.unprotected_bytes);
        println!(
            "  {} used of {}, unprotected {unprotected}, {}",
            size(used),
            size(capacity),
            count(pool.volumes.unwrap_or(0), "volume"),
        );
    }
    if let (Some(leaves), Some(most)) = (pool.leaves, pool.leaves_max) {
        println!("  {leaves} of {most} leaves of the map (parts of 2 MiB with something in them)");
    }
    if let Some(reason) = &pool.stopped {
        println!("  stopped: {reason}");
    }
    for job in &pool.jobs {
        println!("  job {job} is at work");
    }
    if let Some(scrub) = &pool.scrub {
        println!("  {}", last_scrub(scrub));
    }
    for line in drives(&pool.drives).lines() {
        println!("  {line}");
    }
    for line in models(&pool.drives).lines() {
        println!("  {line}");
    }
    show_findings(&pool.findings);
}

/// When the last scrub ended, and what it did.
fn last_scrub(scrub: &ScrubView) -> String {
    let minutes = scrub.ended_ago_ns / 60_000_000_000;
    let ago = match (minutes / (24 * 60), minutes / 60) {
        (0, 0) => format!("{minutes} min"),
        (0, hours) => format!("{hours} h"),
        (days, _) => count(days, "day"),
    };
    let end = match scrub.is_whole {
        true => "ended",
        false => "was ended before its end",
    };
    let rest = match scrub.is_clean {
        true => "; nothing was wrong then".to_owned(),
        false if scrub.has_broken() => "; it left something wrong".to_owned(),
        false => "; not everything was compared".to_owned(),
    };
    format!("last scrub {end} {ago} ago: {}{rest}", mended(scrub))
}

/// What the flash beneath drives would have done, of those that keep account. A drive that took another's
/// place keeps none, and that is said: sums over the tier would mislead.
fn models(drives: &[DriveView]) -> String {
    let models = drives
        .iter()
        .filter_map(|drive| Some((drive, drive.model.as_ref()?)));
    let row = |(drive, model): (&DriveView, &ModelView)| {
        let waf = model.media_bytes as f64 / model.host_bytes.max(1) as f64;
        vec![
            drive.drive.clone(),
            model.sheet.clone(),
            size(model.host_bytes),
            size(model.media_bytes),
            match model.host_bytes {
                0 => "-".to_owned(),
                _ => format!("{waf:.2}"),
            },
            model.erases.to_string(),
        ]
    };
    let rows: Vec<_> = models.map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let columns = [
        Text("DRIVE"),
        Text("MODEL"),
        Number("WRITTEN"),
        Number("PROGRAMMED"),
        Number("WAF"),
        Number("ERASES"),
    ];
    let mut text = table(&columns, &rows);
    let dense = drives
        .iter()
        .filter(|drive| drive.drive.starts_with("dense"));
    let without = dense.filter(|drive| drive.model.is_none() && drive.state != "lost");
    for drive in without {
        text += &format!("drive {} has no model and keeps no account\n", drive.drive);
    }
    text
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
    let columns = [Text("DRIVE"), Text("STATE"), Number("SIZE"), Text("PATH")];
    let mut text = table(&columns, &rows);
    drives.iter().for_each(|drive| text += &faults(drive));
    text
}

/// A line about what a drive did badly; nothing if it did not, or nobody has it open.
fn faults(drive: &DriveView) -> String {
    let faults = drive.faults.unwrap_or_default();
    if faults == FaultsView::default() {
        return String::new();
    }
    let (reads, writes) = (faults.read_errors, faults.write_errors);
    format!(
        "{}/{}: {} and {} ended with an error, {} written again\n",
        drive.pool,
        drive.drive,
        count(reads, "read"),
        count(writes, "write"),
        count(faults.repairs, "part"),
    )
}

/// What of the tier that holds the data volumes may take: over-provisioning is a part only of what is kept back.
fn kept_back(plan: &PlanView) -> String {
    let (tier, bytes) = match plan.dense_bytes {
        0 => ("fast", plan.fast_bytes),
        bytes => ("dense", bytes),
    };
    let share = (plan.capacity_bytes * 100)
        .checked_div(bytes)
        .unwrap_or_default();
    let (capacity, over_provision) = (size(plan.capacity_bytes), plan.over_provision);
    format!(
        "{capacity}, {share} % of the {tier} tier: {over_provision} % of over-provisioning and what \
         cleaning needs are kept back"
    )
}

fn show_plan(plan: &PlanView) {
    let verb = if plan.is_made {
        "created"
    } else {
        "would be created; nothing was written to the drives"
    };
    println!("pool {} {verb}", plan.pool);
    println!(
        "  fast tier  {} {} on {}, chunks of {}",
        size(plan.fast_bytes),
        copies(plan.fast_copies),
        count(plan.fast_copies, "drive"),
        size(plan.chunk_bytes)
    );
    if plan.dense_bytes > 0 {
        println!(
            "  dense tier {} of data, {}, groups of {}",
            size(plan.dense_bytes),
            code(&plan.protect, true),
            size(plan.group_bytes)
        );
    } else {
        println!("  no dense tier");
    }
    println!("  capacity   {}", kept_back(plan));
    show_findings(&plan.findings);
    if plan.is_made {
        let next = format!("varve volume create {}/NAME SIZE", plan.pool);
        println!("next: {}", typed(&next));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(drive: &str, sheet: Option<&str>) -> DriveView {
        let model = |sheet: &str| ModelView {
            sheet: sheet.to_owned(),
            iu_bytes: 16 << 10,
            host_bytes: 4 << 20,
            media_bytes: 10 << 20,
            rmw_reads: 0,
            gc_moved_bytes: 0,
            erases: 7,
        };
        DriveView {
            pool: "tank".to_owned(),
            drive: drive.to_owned(),
            path: None,
            replaced_by: None,
            state: "live".to_owned(),
            bytes: 1 << 30,
            rebuilt_bytes: None,
            rebuild_bytes: None,
            faults: None,
            model: sheet.map(model),
        }
    }

    /// What a drive did badly is told beneath the table; of one that did not, nothing.
    #[test]
    fn faults_are_shown() {
        let mut bad = drive("dense0", None);
        bad.faults = Some(FaultsView {
            read_errors: 2,
            write_errors: 0,
            repairs: 1,
        });
        let mut good = drive("fast0", None);
        good.faults = Some(FaultsView::default());
        let text = drives(&[good, bad]);
        let (_, beneath) = text.rsplit_once("-\n").expect("two rows without a path");
        assert_eq!(
            beneath,
            "tank/dense0: 2 reads and 0 writes ended with an error, 1 part written again\n"
        );
    }

    /// Whoever asked for models sees what they say, and which drive a replacement left without one.
    #[test]
    fn models_are_shown_and_missed() {
        let none = [drive("fast0", None), drive("dense0", None)];
        assert_eq!(models(&none), "");
        let drives = [
            drive("fast0", None),
            drive("dense0", Some("qlc-002")),
            drive("dense1", None),
        ];
        assert_eq!(
            models(&drives),
            "DRIVE   MODEL    WRITTEN  PROGRAMMED   WAF  ERASES\n\
             dense0  qlc-002    4 MiB      10 MiB  2.50       7\n\
             drive dense1 has no model and keeps no account\n"
        );
    }
}
