//! Why the control plane did not do what was asked.

use crate::barred::Barred;
use crate::failure::Exit;
use crate::finding::{Finding, Severity};
use crate::path::PathError;
use crate::size::SizeError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use varve_ftl::{EngineError, RebuildError, StopReason};
use varve_hostio::{NoIo, OpenError, Signal};
use varve_pool::label::{CommitError, CreateError, ImportError};
use varve_pool::{PlanError, PoolError};

/// Why the control plane did not do what was asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum ControlError {
    /// No such name is possible.
    BadName(String),
    /// A size makes no sense.
    Size(SizeError),
    /// A path makes no sense.
    Path(PathError),
    /// The protection asked for does not fit the number of dense drives.
    Protect {
        /// As it was asked for.
        asked: String,
        /// Dense drives given.
        drives: usize,
    },
    /// The model of a drive cannot be used.
    Model {
        /// Which, and why.
        what: String,
    },
    /// A share that must lie between two others does not.
    OverProvision(u32),
    /// No pool of this name is known.
    NoPool(String),
    /// None of the paths has a label of a pool; what each is instead.
    NoLabels(Vec<Finding>),
    /// Neither paths nor a pool whose paths are known.
    NoPaths,
    /// The paths hold several pools.
    SeveralPools(Vec<String>),
    /// The pool has no such volume.
    NoVolume {
        /// The pool.
        pool: String,
        /// The volume.
        volume: String,
    },
    /// The pool has no such drive.
    NoDrive {
        /// The pool.
        pool: String,
        /// The drive.
        drive: String,
    },
    /// No job of this number is known.
    NoJob(u64),
    /// The drives cannot be used for this.
    Preflight(Vec<Finding>),
    /// Drives of the pool are away.
    Missing {
        /// The pool.
        pool: String,
        /// Which, and why.
        findings: Vec<Finding>,
    },
    /// No label of the pool can be read where its drives were.
    Gone {
        /// The pool.
        pool: String,
        /// What is there instead.
        findings: Vec<Finding>,
    },
    /// A volume would become smaller and lose what is behind its new end.
    WouldShrink {
        /// The volume.
        volume: String,
        /// Its size in bytes.
        bytes: u64,
        /// The size that it was to have.
        wanted: u64,
    },
    /// What a volume holds would be lost with it.
    HoldsData {
        /// The volume.
        volume: String,
        /// Bytes in use, at most.
        bytes: u64,
    },
    /// The pool has volumes, which would be lost.
    HasVolumes {
        /// The pool.
        pool: String,
        /// How many.
        volumes: usize,
    },
    /// The pool is known to be in the middle of its destruction.
    HalfDestroyed(String),
    /// A destruction could not take the labels off all drives.
    Undestroyed {
        /// The pool.
        pool: String,
        /// Which are left, and why.
        findings: Vec<Finding>,
    },
    /// What a drive's model had counted cannot be read.
    ModelFile {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Where a drive's model would be lies something else.
    NoModel(PathBuf),
    /// The drive is in use and must be given up before another takes its place.
    DriveLive {
        /// The pool.
        pool: String,
        /// The drive.
        drive: String,
    },
    /// A pool of this name is known already.
    PoolExists(String),
    /// Another process has been making a pool for long.
    Naming(PathBuf),
    /// The drives are in use.
    InUse(Vec<Finding>),
    /// Another daemon uses the state directory.
    Daemon(PathBuf),
    /// Something is being done to the pool that must end first.
    Busy {
        /// The pool.
        pool: String,
        /// The job.
        job: u64,
    },
    /// A scrub was told to end before it had looked at everything.
    ScrubEnded(String),
    /// A scrub is at work that reads at most so many bytes a second, 0 for any number.
    Scrubbed {
        /// Of which pool.
        pool: String,
        /// Its limit.
        limit: u64,
    },
    /// Hosts see the volumes of the pool, and would lose them.
    Connected {
        /// The pool.
        pool: String,
        /// Their names.
        hosts: Vec<String>,
    },
    /// A pool failed.
    Pool {
        /// Its name.
        pool: String,
        /// Why.
        error: PoolError,
        /// The drives that it names by their numbers.
        paths: Box<[PathBuf]>,
    },
    /// The engine of a pool failed.
    Engine {
        /// What it was to do, to what.
        what: String,
        /// Why.
        error: EngineError,
    },
    /// A drive cannot be opened.
    Open(OpenError),
    /// This process cannot do i/o.
    Io(NoIo),
    /// A file of the state directory cannot be used.
    Home {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The path of the state directory is too long for the socket in it.
    StatePath(PathBuf),
    /// The state directory that was named is not there.
    NoState(PathBuf),
    /// The state directory, or the daemon in it, is for another user.
    Barred(Barred),
    /// A file of the state directory holds something else.
    StateFile(PathBuf),
    /// The system has no random bytes.
    Random(io::Error),
    /// The pool is known, but not open.
    Closed(String),
    /// The daemon has the pool open for hosts.
    Served(String),
    /// A request, or an answer, is not understood.
    Request(String),
    /// The control plane has ended.
    Ended,
    /// A signal came before it was done, and what was begun is taken back.
    Interrupted(Signal),
    /// So many requests wait for the control plane already.
    Crowded(usize),
    /// The daemon went away, or must not be asked.
    Daemonless(io::Error),
    /// The daemon has not answered a question for so long.
    Silent(Duration),
}

impl ControlError {
    pub(crate) fn home(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        Self::Home { path, error }
    }

    pub(crate) fn pool(name: &str) -> impl FnOnce(PoolError) -> Self + '_ {
        |error| Self::pool_of(name, &[], error)
    }

    /// A pool of drives at these paths, in the order they were given in, failed.
    pub(crate) fn pool_of(name: &str, paths: &[PathBuf], error: PoolError) -> Self {
        let numbers = match &error {
            PoolError::Create(CreateError::NotBlank { drive } | CreateError::Io { drive, .. }) => {
                vec![*drive]
            }
            PoolError::Import(ImportError::Duplicate { first, second, .. }) => {
                vec![*first, *second]
            }
            _ => Vec::new(),
        };
        let named = numbers.into_iter().filter_map(|drive| paths.get(drive));
        Self::Pool {
            pool: name.to_owned(),
            paths: named.cloned().collect(),
            error,
        }
    }

    /// The class of it.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::BadName(_)
            | Self::Size(_)
            | Self::Path(_)
            | Self::Protect { .. }
            | Self::OverProvision(_)
            | Self::NoPaths
            | Self::SeveralPools(_)
            | Self::StatePath(_)
            | Self::Request(_) => Exit::Usage,
            Self::NoPool(_)
            | Self::Model { .. }
            | Self::NoState(_)
            | Self::NoLabels(_)
            | Self::NoVolume { .. }
            | Self::NoDrive { .. }
            | Self::NoJob(_) => Exit::NotFound,
            Self::Preflight(findings) => preflight_exit(findings),
            Self::Missing { .. }
            | Self::Gone { .. }
            | Self::WouldShrink { .. }
            | Self::HoldsData { .. }
            | Self::HasVolumes { .. }
            | Self::HalfDestroyed(_)
            | Self::ModelFile { .. }
            | Self::NoModel(_)
            | Self::DriveLive { .. }
            | Self::Closed(_)
            | Self::Barred(_)
            | Self::Open(_) => Exit::Refused,
            Self::PoolExists(_)
            | Self::Naming(_)
            | Self::InUse(_)
            | Self::Daemon(_)
            | Self::Served(_)
            | Self::Connected { .. }
            | Self::Scrubbed { .. }
            | Self::Busy { .. } => Exit::Conflict,
            Self::Undestroyed { findings, .. } => left_exit(findings),
            Self::Interrupted(signal) => (*signal).into(),
            Self::Pool { error, .. } => pool_exit(error),
            Self::Engine { error, .. } => engine_exit(error),
            Self::Io(_)
            | Self::Home { .. }
            | Self::StateFile(_)
            | Self::Random(_)
            | Self::Ended
            | Self::ScrubEnded(_)
            | Self::Crowded(_)
            | Self::Daemonless(_)
            | Self::Silent(_) => Exit::Failed,
        }
    }

    /// A stable word for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadName(_) => "bad-name",
            Self::Size(_) => "bad-size",
            Self::Path(_) => "bad-path",
            Self::Protect { .. } => "bad-protection",
            Self::OverProvision(_) => "bad-over-provision",
            Self::Model { .. } => "bad-model",
            Self::NoPool(_) => "no-pool",
            Self::NoLabels(_) => "no-labels",
            Self::NoPaths => "no-paths",
            Self::SeveralPools(_) => "several-pools",
            Self::NoVolume { .. } => "no-volume",
            Self::NoDrive { .. } => "no-drive",
            Self::NoJob(_) => "no-job",
            Self::Preflight(_) => "preflight",
            Self::Missing { .. } => "drives-missing",
            Self::Gone { .. } => "pool-gone",
            Self::WouldShrink { .. } => "would-shrink",
            Self::HoldsData { .. } => "volume-holds-data",
            Self::HasVolumes { .. } => "has-volumes",
            Self::HalfDestroyed(_) | Self::Undestroyed { .. } => "half-destroyed",
            Self::ModelFile { .. } => "model-file",
            Self::NoModel(_) => "no-model",
            Self::DriveLive { .. } => "drive-live",
            Self::PoolExists(_) => "pool-exists",
            Self::Naming(_) => "naming",
            Self::InUse(_) => "in-use",
            Self::Daemon(_) => "daemon-running",
            Self::Connected { .. } => "hosts-connected",
            Self::Busy { .. } => "busy",
            Self::ScrubEnded(_) => "scrub-ended",
            Self::Scrubbed { .. } => "scrub-at-work",
            Self::Pool { error, .. } => pool_code(error),
            Self::Engine { error, .. } => engine_code(error),
            Self::Open(_) => "open",
            Self::Io(_) => "no-io",
            Self::Home { .. } | Self::StatePath(_) => "state-directory",
            Self::NoState(_) => "no-state-directory",
            Self::Barred(_) => "denied",
            Self::StateFile(_) => "state-file",
            Self::Random(_) => "no-chance",
            Self::Closed(_) => "pool-closed",
            Self::Served(_) => "pool-served",
            Self::Request(_) => "bad-request",
            Self::Interrupted(_) => "interrupted",
            Self::Ended | Self::Daemonless(_) => "daemon-gone",
            Self::Crowded(_) => "crowded",
            Self::Silent(_) => "daemon-silent",
        }
    }

    /// True if a pool is known, and cannot be opened as its drives are.
    pub(crate) const fn is_beyond_reach(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. }
                | Self::Gone { .. }
                | Self::Pool { .. }
                | Self::Preflight(_)
                | Self::HalfDestroyed(_)
                | Self::Open(_)
        )
    }

    /// It and its causes, from the outside in, for a finding about the drive at `path`.
    pub(crate) fn why(&self, path: &Path) -> String {
        if let Self::ModelFile { .. } = self {
            return format!("{self}; {}", self.next());
        }
        if let Self::Open(error) = self {
            let (whole, path) = (error.to_string(), path.display().to_string());
            let why = whole.strip_prefix(&path).unwrap_or(&whole);
            return why.trim_start_matches([':', ' ']).to_owned();
        }
        self.whole()
    }

    /// It and its causes, from the outside in.
    pub(crate) fn whole(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }

    pub(crate) fn into_findings(self) -> Vec<Finding> {
        match self {
            Self::Preflight(findings)
            | Self::InUse(findings)
            | Self::NoLabels(findings)
            | Self::Missing { findings, .. }
            | Self::Gone { findings, .. }
            | Self::Undestroyed { findings, .. } => findings,
            _ => Vec::new(),
        }
    }
}

/// Somebody else's use is a conflict, all else a failure.
fn left_exit(findings: &[Finding]) -> Exit {
    match findings.iter().all(|finding| finding.code == "in-use") {
        true => Exit::Conflict,
        false => Exit::Failed,
    }
}

/// What is not there does not exist, whatever it was to be; all else is a refusal.
fn preflight_exit(findings: &[Finding]) -> Exit {
    let refused = findings
        .iter()
        .filter(|one| one.severity != Severity::Warning);
    let mut codes = refused.map(|finding| finding.code.as_str()).peekable();
    let is_there = codes.peek().is_none() || codes.any(|code| !ABSENT.contains(&code));
    match is_there {
        true => Exit::Refused,
        false => Exit::NotFound,
    }
}

/// Codes of findings that say that there is nothing.
const ABSENT: [&str; 2] = ["missing", "no-directory"];

fn pool_exit(error: &PoolError) -> Exit {
    use ImportError::{NoLabel, OwnedElsewhere, OwnerAlive};
    match error {
        PoolError::BadName | PoolError::SeveralPools => Exit::Usage,
        PoolError::NoPool | PoolError::NoSlot(_) | PoolError::Import(NoLabel { .. }) => {
            Exit::NotFound
        }
        PoolError::Import(OwnedElsewhere { .. } | OwnerAlive { .. })
        | PoolError::Labels(CommitError::Fenced(_))
        | PoolError::Stopped(StopReason::Fenced)
        | PoolError::SlotInUse(_)
        | PoolError::StillBusy(_) => Exit::Conflict,
        PoolError::Plan(_)
        | PoolError::DenseMissing { .. }
        | PoolError::MapWhole { .. }
        | PoolError::NoDenseTier
        | PoolError::FastCount { .. }
        | PoolError::FastUnfit { .. }
        | PoolError::TooManyMembers
        | PoolError::Rebuild(
            RebuildError::NoRoom { .. }
            | RebuildError::NoGroups { .. }
            | RebuildError::TooManyLeaves { .. },
        )
        | PoolError::Needed(_)
        | PoolError::Unfinished
        | PoolError::Create(CreateError::NotBlank { .. })
        | PoolError::Import(_) => Exit::Refused,
        PoolError::Engine(error) => engine_exit(error),
        _ => Exit::Failed,
    }
}

fn pool_code(error: &PoolError) -> &'static str {
    match error {
        PoolError::Plan(PlanError::Reserve(_)) => "too-small",
        PoolError::Plan(_) => "plan",
        PoolError::Create(_) => "label-drives",
        PoolError::Unfinished => "unfinished",
        PoolError::Import(ImportError::OwnedElsewhere { .. }) => "owned-elsewhere",
        PoolError::Import(ImportError::OwnerAlive { .. }) => "owner-alive",
        PoolError::Labels(CommitError::Fenced(_)) | PoolError::Stopped(StopReason::Fenced) => {
            "taken-over"
        }
        PoolError::Import(ImportError::WouldLose(_)) => "would-lose",
        PoolError::Import(_) => "import",
        PoolError::DenseMissing { .. } => "drives-missing",
        PoolError::Needed(_) => "drive-needed",
        PoolError::SlotInUse(_) => "drive-live",
        PoolError::StillBusy(_) => "drive-busy",
        PoolError::Recover(_) => "recover",
        PoolError::MapWhole { .. } => "map-whole",
        PoolError::NoDenseTier => "no-dense-tier",
        PoolError::FastCount { .. } => "fast-count",
        PoolError::FastUnfit { .. } => "fast-unfit",
        PoolError::Rebuild(_) | PoolError::Relabel(_) | PoolError::TooManyMembers => "rebuild",
        PoolError::Engine(error) => engine_code(error),
        PoolError::Stopped(_) => engine_code(&EngineError::Stopped),
        _ => "pool",
    }
}

const fn engine_exit(error: &EngineError) -> Exit {
    match error {
        EngineError::NoSuchVolume(_) => Exit::NotFound,
        EngineError::NameTaken => Exit::Conflict,
        EngineError::BadSize(_) | EngineError::BadName | EngineError::OutOfRange { .. } => {
            Exit::Usage
        }
        EngineError::TooManyVolumes | EngineError::CapacityExceeded => Exit::Refused,
        _ => Exit::Failed,
    }
}

const fn engine_code(error: &EngineError) -> &'static str {
    match error {
        EngineError::NoSuchVolume(_) => "no-volume",
        EngineError::NameTaken => "volume-exists",
        EngineError::BadSize(_) => "bad-size",
        EngineError::BadName => "bad-name",
        EngineError::TooManyVolumes => "too-many-volumes",
        EngineError::CapacityExceeded => "full",
        EngineError::Stopped => "stopped",
        EngineError::Lost(..) => "lost",
        EngineError::Io(_) => "io",
        _ => "engine",
    }
}

/// Where, for the end of a sentence; nothing if nowhere is named.
fn at(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    match paths.is_empty() {
        true => String::new(),
        false => format!(" at {}", paths.join(", ")),
    }
}

impl ControlError {
    fn fmt_conflict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scrubbed { pool, limit: 0 } => {
                write!(f, "pool {pool} is being scrubbed already, without a limit")
            }
            Self::Scrubbed { pool, limit } => write!(
                f,
                "pool {pool} is being scrubbed already, at {limit} bytes a second at most"
            ),
            Self::PoolExists(name) => write!(f, "a pool `{name}` is known already"),
            Self::Naming(path) => {
                let path = path.display();
                write!(
                    f,
                    "another command has been making a pool with the state directory {path} for long"
                )
            }
            Self::InUse(_) => f.write_str("the drives are in use"),
            Self::Daemon(path) => write!(
                f,
                "another daemon uses the state directory {}",
                path.display()
            ),
            Self::Busy { pool, job } => write!(f, "job {job} is at work on pool {pool}"),
            Self::Connected { pool, hosts } => write!(
                f,
                "hosts are connected that see the volumes of pool {pool} and would lose them: {}",
                hosts.join(", ")
            ),
            _ => f.write_str("somebody else is at it"),
        }
    }

    fn fmt_drives(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preflight(_) => f.write_str("preflight found what stands in the way"),
            Self::Missing { pool, .. } => write!(f, "drives of pool {pool} are missing"),
            Self::Gone { pool, .. } => {
                write!(
                    f,
                    "no label of pool {pool} can be read where its drives were"
                )
            }
            Self::ModelFile { path, why } => {
                let path = path.display();
                write!(f, "the model's account {path} cannot be used: {why}")
            }
            Self::NoModel(path) => {
                let path = path.display();
                write!(f, "{path} is where the drive's model would be, and is none")
            }
            Self::DriveLive { pool, drive } => {
                write!(f, "drive {drive} of pool {pool} is in use")
            }
            _ => f.write_str("a drive cannot be opened"),
        }
    }

    fn fmt_destroy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldShrink { volume, bytes, .. } => {
                write!(f, "{volume} has {bytes} bytes and would become smaller")
            }
            Self::HoldsData { volume, bytes } => {
                write!(f, "{volume} holds up to {bytes} bytes, which would be lost")
            }
            Self::HalfDestroyed(pool) => {
                write!(f, "pool {pool} was being destroyed when that was cut short")
            }
            Self::HasVolumes { pool, volumes } => {
                let s = if *volumes == 1 { "" } else { "s" };
                write!(
                    f,
                    "pool {pool} has {volumes} volume{s}, which would be lost"
                )
            }
            Self::Undestroyed { pool, .. } => {
                write!(f, "drives of pool {pool} could not be destroyed")
            }
            _ => f.write_str("a pool could not be destroyed"),
        }
    }

    fn fmt_daemon(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted(_) => {
                f.write_str("a signal came before it was done; what was begun was taken back")
            }
            Self::Crowded(waiting) => write!(f, "{waiting} requests wait for the daemon already"),
            Self::Silent(span) => {
                let silence = span.as_secs();
                write!(f, "the daemon has not answered for {silence} s")
            }
            Self::ScrubEnded(pool) => write!(
                f,
                "the scrub of pool {pool} was ended before it had looked at everything"
            ),
            Self::Daemonless(_) => f.write_str("the daemon cannot be asked"),
            _ => f.write_str("the control plane has ended"),
        }
    }

    fn fmt_state(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StatePath(path) => {
                let path = path.display();
                write!(
                    f,
                    "the path of the state directory {path} is too long for a socket in it"
                )
            }
            Self::NoState(path) => write!(f, "there is no state directory {}", path.display()),
            Self::Barred(barred) => write!(f, "{barred}"),
            Self::StateFile(path) => {
                write!(f, "{} is damaged or of another version", path.display())
            }
            Self::Home { path, .. } => {
                let path = path.display();
                write!(f, "{path} of the state directory cannot be used")
            }
            _ => unreachable!("not about the state directory"),
        }
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName(name) => write!(f, "`{name}` is no name"),
            Self::Size(_) => f.write_str("the size makes no sense"),
            Self::Path(_) => f.write_str("the path makes no sense"),
            Self::Protect { asked, drives } => {
                write!(
                    f,
                    "protection `{asked}` does not go with {drives} dense drives"
                )
            }
            Self::Model { what } => f.write_str(what),
            Self::OverProvision(share) => {
                write!(f, "over-provisioning of {share} % is out of range")
            }
            Self::NoPool(name) => write!(f, "there is no pool `{name}`"),
            Self::NoLabels(_) => f.write_str("none of the paths has a label of a pool"),
            Self::NoPaths => f.write_str("no path is given"),
            Self::SeveralPools(pools) => {
                write!(f, "the paths belong to several pools: {}", pools.join(", "))
            }
            Self::NoVolume { pool, volume } => write!(f, "pool {pool} has no volume `{volume}`"),
            Self::NoDrive { pool, drive } => write!(f, "pool {pool} has no drive `{drive}`"),
            Self::NoJob(id) => write!(f, "there is no job {id}"),
            Self::Preflight(_)
            | Self::Missing { .. }
            | Self::Gone { .. }
            | Self::ModelFile { .. }
            | Self::NoModel(_)
            | Self::DriveLive { .. }
            | Self::Open(_) => self.fmt_drives(f),
            Self::WouldShrink { .. }
            | Self::HoldsData { .. }
            | Self::HalfDestroyed(_)
            | Self::Undestroyed { .. }
            | Self::HasVolumes { .. } => self.fmt_destroy(f),
            Self::PoolExists(_)
            | Self::Naming(_)
            | Self::InUse(_)
            | Self::Daemon(_)
            | Self::Connected { .. }
            | Self::Scrubbed { .. }
            | Self::Busy { .. } => self.fmt_conflict(f),
            Self::Pool { pool, paths, .. } => write!(f, "pool {pool} failed{}", at(paths)),
            Self::Engine { what, .. } => write!(f, "{what} failed"),
            Self::Io(_) => f.write_str("this process cannot use drives"),
            Self::Home { .. }
            | Self::StatePath(_)
            | Self::NoState(_)
            | Self::Barred(_)
            | Self::StateFile(_) => self.fmt_state(f),
            Self::Random(_) => f.write_str("the system gives no random bytes"),
            Self::Closed(pool) => write!(f, "pool {pool} is not open"),
            Self::Served(pool) => write!(f, "pool {pool} is open for hosts"),
            Self::Request(what) => write!(f, "not understood: {what}"),
            Self::Ended
            | Self::ScrubEnded(_)
            | Self::Interrupted(_)
            | Self::Crowded(_)
            | Self::Daemonless(_)
            | Self::Silent(_) => self.fmt_daemon(f),
        }
    }
}

impl std::error::Error for ControlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Size(error) => Some(error),
            Self::Path(error) => Some(error),
            Self::Pool { error, .. } => Some(error),
            Self::Engine { error, .. } => Some(error),
            Self::Open(error) => Some(error),
            Self::Io(error) => Some(error),
            Self::Home { error, .. } | Self::Random(error) | Self::Daemonless(error) => Some(error),
            _ => None,
        }
    }
}

impl From<SizeError> for ControlError {
    fn from(error: SizeError) -> Self {
        Self::Size(error)
    }
}

impl From<PathError> for ControlError {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}

impl From<NoIo> for ControlError {
    fn from(error: NoIo) -> Self {
        Self::Io(error)
    }
}
