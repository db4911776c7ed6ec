//! Why the control plane did not do what was asked.

use crate::failure::Exit;
use crate::finding::Finding;
use crate::open::UNUSABLE;
use crate::path::PathError;
use crate::size::SizeError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use varve_ftl::{EngineError, RecoverError, StopReason};
use varve_hostio::{NoIo, OpenError};
use varve_io::IoError;
use varve_pool::label::{CreateError, ImportError};
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
    /// None of the paths has a label of a pool.
    NoLabels,
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
    /// A volume would become smaller and lose what is behind its new end.
    WouldShrink {
        /// The volume.
        volume: String,
        /// Its size in bytes.
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
            | Self::Model { .. }
            | Self::NoPaths
            | Self::SeveralPools(_)
            | Self::Request(_) => Exit::Usage,
            Self::NoPool(_)
            | Self::NoLabels
            | Self::NoVolume { .. }
            | Self::NoDrive { .. }
            | Self::NoJob(_) => Exit::NotFound,
            Self::Preflight(_)
            | Self::Missing { .. }
            | Self::WouldShrink { .. }
            | Self::HasVolumes { .. }
            | Self::HalfDestroyed(_)
            | Self::ModelFile { .. }
            | Self::DriveLive { .. }
            | Self::Closed(_)
            | Self::Open(_) => Exit::Refused,
            Self::PoolExists(_)
            | Self::Naming(_)
            | Self::InUse(_)
            | Self::Daemon(_)
            | Self::Served(_)
            | Self::Busy { .. } => Exit::Conflict,
            Self::Undestroyed { findings, .. } => left_exit(findings),
            Self::Pool { error, .. } => pool_exit(error),
            Self::Engine { error, .. } => engine_exit(error),
            Self::Io(_)
            | Self::Home { .. }
            | Self::StateFile(_)
            | Self::Random(_)
            | Self::Ended
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
            Self::NoLabels => "no-labels",
            Self::NoPaths => "no-paths",
            Self::SeveralPools(_) => "several-pools",
            Self::NoVolume { .. } => "no-volume",
            Self::NoDrive { .. } => "no-drive",
            Self::NoJob(_) => "no-job",
            Self::Preflight(_) => "preflight",
            Self::Missing { .. } => "drives-missing",
            Self::WouldShrink { .. } => "would-shrink",
            Self::HasVolumes { .. } => "has-volumes",
            Self::HalfDestroyed(_) | Self::Undestroyed { .. } => "half-destroyed",
            Self::ModelFile { .. } => "model-file",
            Self::DriveLive { .. } => "drive-live",
            Self::PoolExists(_) => "pool-exists",
            Self::Naming(_) => "naming",
            Self::InUse(_) => "in-use",
            Self::Daemon(_) => "daemon-running",
            Self::Busy { .. } => "busy",
            Self::Pool { error, .. } => pool_code(error),
            Self::Engine { error, .. } => engine_code(error),
            Self::Open(_) => "open",
            Self::Io(_) => "no-io",
            Self::Home { .. } => "state-directory",
            Self::StateFile(_) => "state-file",
            Self::Random(_) => "no-chance",
            Self::Closed(_) => "pool-closed",
            Self::Served(_) => "pool-served",
            Self::Request(_) => "bad-request",
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
                | Self::Pool { .. }
                | Self::Preflight(_)
                | Self::HalfDestroyed(_)
                | Self::Open(_)
        )
    }

    /// What the user can do next, if that is known.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        Some(match self {
            Self::BadName(_) => "use 1 to 48 characters of A-Z a-z 0-9 . _ -, neither . nor - first".to_owned(),
            Self::Size(_) => "write a size such as 10G".to_owned(),
            Self::Path(_) => "write PATH, or PATH:SIZE for a new sparse file".to_owned(),
            Self::Protect { .. } => PROTECT_NEXT.to_owned(),
            Self::Model { .. } => model_next(),
            Self::OverProvision(_) => "use --over-provision 5 to 80".to_owned(),
            Self::NoPool(_) => "varve pool list, or varve pool import PATH... if its drives are \
                                here"
                .to_owned(),
            Self::NoLabels => "name all drives of the pool: varve inspect PATH shows what each \
                               holds"
                .to_owned(),
            Self::NoPaths => "varve pool import PATH... names all drives of the pool; one that varve pool list \
                              shows needs no paths: varve pool import --pool NAME"
                .to_owned(),
            Self::SeveralPools(_) => "name one: varve pool import --pool NAME PATH...".to_owned(),
            Self::NoVolume { pool, .. } => format!("varve volume list {pool}"),
            Self::NoDrive { pool, .. } => format!("varve drive list {pool}"),
            Self::NoJob(_) => "varve pool status".to_owned(),
            Self::Preflight(findings) => preflight_next(findings)?,
            Self::Missing { pool, findings } => missing_next(pool, findings),
            Self::WouldShrink { .. } => {
                "add --shrink if what is behind the new end may go".to_owned()
            }
            Self::HalfDestroyed(_) | Self::Undestroyed { .. } | Self::HasVolumes { .. } => {
                self.destroy_next()?
            }
            Self::ModelFile { path, .. } => format!(
                "remove {}: the account begins anew, and nothing else is lost",
                path.display()
            ),
            Self::DriveLive { .. } => "add --give-up to go on without it until the new one is \
                                       filled"
                .to_owned(),
            Self::PoolExists(_) => "choose another name, or see varve pool list".to_owned(),
            Self::Naming(_) => "try again when it has ended".to_owned(),
            Self::InUse(_) => {
                "try again in a moment, if a daemon is starting on this state directory, or when the command has \
                 ended that has them; a daemon on another state directory is asked with --state DIR"
                    .to_owned()
            }
            Self::Daemon(_) => "use another --state DIR, or end that daemon".to_owned(),
            Self::Busy { pool, .. } => format!("varve pool status {pool}"),
            Self::Pool { pool, error, .. } => pool_next(pool, error)?,
            Self::Engine { error, .. } => engine_next(error)?,
            Self::Open(_) | Self::Random(_) => return None,
            Self::Closed(pool) => {
                format!(
                    "varve pool status {pool} tells why; varve pool import --pool {pool} opens it, with --degraded \
                     also without drives that are missing; varve drive replace {pool}/DRIVE PATH puts another drive \
                     in the place of one"
                )
            }
            Self::Request(_) => "use the same version of varve on both sides".to_owned(),
            Self::Served(_) | Self::Ended | Self::Crowded(_) | Self::Daemonless(_) | Self::Silent(_) => {
                self.daemon_next().to_owned()
            }
            Self::Io(_) => "varve needs Linux 5.11 or newer with io_uring allowed".to_owned(),
            Self::Home { .. } => {
                "choose a directory this user may write to: --state DIR".to_owned()
            }
            Self::StateFile(path) => format!(
                "move {} away; varve pool import PATH... makes it anew",
                path.display()
            ),
        })
    }

    /// It and its causes, from the outside in, for a finding about the drive at `path`.
    pub(crate) fn why(&self, path: &Path) -> String {
        let mut text = self.to_string();
        if let Self::Open(error) = self {
            let (whole, path) = (error.to_string(), path.display().to_string());
            let why = whole.strip_prefix(&path).unwrap_or(&whole);
            return why.trim_start_matches([':', ' ']).to_owned();
        }
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }

    /// What to do about a destruction.
    fn destroy_next(&self) -> Option<String> {
        Some(match self {
            Self::HalfDestroyed(pool) => format!("varve pool destroy {pool}, to end it"),
            Self::Undestroyed { pool, .. } => format!(
                "varve pool destroy {pool} once more, when they can be used; to let go what is left as it is: varve \
                 pool export {pool} --forget"
            ),
            Self::HasVolumes { pool, .. } => {
                format!("varve pool destroy {pool} --with-volumes, if all of them may go")
            }
            _ => return None,
        })
    }

    /// What to do about a daemon.
    const fn daemon_next(&self) -> &'static str {
        match self {
            Self::Served(_) => "end the daemon first",
            Self::Crowded(_) => "try again when some of them are answered",
            Self::Silent(_) => {
                "see whether varve serve is suspended (kill -CONT goes on) or has no processor; then try again"
            }
            _ => "see whether varve serve still runs; if not, try again",
        }
    }

    pub(crate) fn into_findings(self) -> Vec<Finding> {
        match self {
            Self::Preflight(findings)
            | Self::InUse(findings)
            | Self::Missing { findings, .. }
            | Self::Undestroyed { findings, .. } => findings,
            _ => Vec::new(),
        }
    }
}

fn missing_next(pool: &str, findings: &[Finding]) -> String {
    let first = match findings.iter().any(|finding| finding.code == UNUSABLE) {
        true => "let this user read and write the drives, or bring back what is away",
        false => "bring the drives back, or tell where they are: varve pool import PATH...",
    };
    let names = findings.iter().filter(|one| one.code == "drive-missing");
    let mut names = names.filter_map(|one| one.text.strip_prefix("drive ")?.split(' ').next());
    let drive = names.next().unwrap_or("DRIVE");
    format!(
        "{first}; to go on without them: varve pool import --pool {pool} --degraded; to put another drive in the place \
         of one: varve drive replace {pool}/{drive} PATH"
    )
}

fn preflight_next(findings: &[Finding]) -> Option<String> {
    let has = |code: &str| findings.iter().any(|finding| finding.code == code);
    if has("member") {
        return Some("varve pool destroy POOL first, or use other drives".to_owned());
    }
    if has("twice") {
        return Some("name each drive once".to_owned());
    }
    if has("holds-data") {
        return Some("use blank drives, or add --overwrite if what they hold may go".to_owned());
    }
    if has("exists") {
        return Some("write PATH without a size to use what is there".to_owned());
    }
    if has("missing") {
        return Some("write PATH:SIZE where a new sparse file is to be made".to_owned());
    }
    if has("own-drive") {
        return Some(
            "use a drive that is not in the pool: varve drive list names those that are".to_owned(),
        );
    }
    if has("too-many-drives") {
        return Some("make several pools of them".to_owned());
    }
    if has("too-many-fast") {
        return Some("use fewer fast drives: each holds a copy of the same log".to_owned());
    }
    if has("too-small") || has("plan") {
        return Some("use larger drives".to_owned());
    }
    let known = UNFIT_NEXT.iter().find(|(code, _)| has(code));
    Some(known.map_or(OTHERS_NEXT, |(_, next)| next).to_owned())
}

/// What to do about a path that is no drive for a pool, by the code of what was found; the first that is there.
const UNFIT_NEXT: [(&str, &str); 8] = [
    (
        "in-use",
        "unmount it, or end what uses it, or use another drive",
    ),
    (
        "denied",
        "let this user read and write it (sudo, or the group it belongs to), or use another drive",
    ),
    (
        "not-a-disk",
        "name a block device or a regular file, or write PATH:SIZE for a new sparse file",
    ),
    ("no-directory", "make the directory first"),
    ("read-only", "make it writable, or use another drive"),
    (
        "sector-size",
        "format it with sectors of 4096 or 512 bytes (nvme format), or use another drive",
    ),
    ("too-large", "use smaller drives, or partitions of it"),
    (
        "system",
        "see what the kernel says of it (dmesg), or use another drive",
    ),
];
/// What is left to do about a drive.
const OTHERS_NEXT: &str = "use other drives";

/// Somebody else's use is a conflict, all else a failure.
fn left_exit(findings: &[Finding]) -> Exit {
    match findings.iter().all(|finding| finding.code == "in-use") {
        true => Exit::Conflict,
        false => Exit::Failed,
    }
}

fn pool_exit(error: &PoolError) -> Exit {
    use ImportError::{NoLabel, OwnedElsewhere};
    match error {
        PoolError::BadName | PoolError::SeveralPools => Exit::Usage,
        PoolError::NoPool | PoolError::NoSlot(_) | PoolError::Import(NoLabel { .. }) => {
            Exit::NotFound
        }
        PoolError::Import(OwnedElsewhere { .. }) | PoolError::SlotInUse(_) => Exit::Conflict,
        PoolError::Plan(_)
        | PoolError::DenseMissing { .. }
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
        PoolError::Import(ImportError::WouldLose(_)) => "would-lose",
        PoolError::Import(_) => "import",
        PoolError::DenseMissing { .. } => "drives-missing",
        PoolError::Needed(_) => "drive-needed",
        PoolError::SlotInUse(_) => "drive-live",
        PoolError::Recover(_) => "recover",
        PoolError::Engine(error) => engine_code(error),
        PoolError::Stopped(_) => engine_code(&EngineError::Stopped),
        _ => "pool",
    }
}

fn model_next() -> String {
    let sheets: Vec<_> = varve_media::sheets().collect();
    format!(
        "use one of {}; without its .model file a drive keeps no account",
        sheets.join(", ")
    )
}

fn pool_next(pool: &str, error: &PoolError) -> Option<String> {
    Some(match error {
        PoolError::Import(ImportError::OwnedElsewhere { .. }) => format!(
            "varve pool export {pool} there; if that machine is gone for good: varve pool import \
             --take-over PATH..."
        ),
        PoolError::Import(ImportError::WouldLose(_)) => format!(
            "name every drive of the pool that is there: varve pool import --pool {pool} PATH...; to \
             do without the others for good, with what only they hold: --accept-loss"
        ),
        PoolError::Import(ImportError::Duplicate { .. }) => {
            "one of the two is a copy: take it away".to_owned()
        }
        PoolError::Unfinished => {
            "repeat varve pool create with the same drives in the same order".to_owned()
        }
        PoolError::DenseMissing { .. } | PoolError::Import(ImportError::NoFast { .. }) => {
            format!(
                "bring the missing drives back; varve drive list {pool} names them; if they are gone for good: \
                 varve pool export {pool} --forget"
            )
        }
        PoolError::Plan(_) => "use larger drives".to_owned(),
        PoolError::Recover(RecoverError::Engine(EngineError::Io(IoError::NoSpace)))
        | PoolError::Stopped(
            StopReason::Log(IoError::NoSpace) | StopReason::Flush(IoError::NoSpace),
        ) => {
            format!("make room beneath the fast drives of {pool}, then try again")
        }
        PoolError::Recover(_) => {
            format!(
                "varve inspect on each drive of {pool} shows what is left; to let it go: varve pool export {pool} \
                 --forget"
            )
        }
        PoolError::SlotInUse(_) => "varve drive replace --give-up".to_owned(),
        PoolError::Engine(error) => engine_next(error)?,
        PoolError::Stopped(_) => engine_next(&EngineError::Stopped)?,
        _ => return None,
    })
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

fn engine_next(error: &EngineError) -> Option<String> {
    Some(
        match error {
            EngineError::NameTaken => "choose another name, or varve volume list",
            EngineError::BadName => "use 1 to 48 characters of A-Z a-z 0-9 . _ -",
            EngineError::BadSize(_) => "choose a size of 4 KiB to 4 PiB",
            EngineError::Io(IoError::NoSpace) => {
                "make room on the file system beneath the drives; writes go on by themselves then"
            }
            EngineError::Stopped | EngineError::Io(_) => {
                "varve pool status shows which drive failed; opening the pool again recovers it"
            }
            _ => return None,
        }
        .to_owned(),
    )
}

/// How many dense drives go with which protection.
const PROTECT_NEXT: &str = "use --protect none, mirror (an even number of dense drives) or K+1 (K + 1 dense drives, \
                            K at least 2)";

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
            _ => f.write_str("somebody else is at it"),
        }
    }

    fn fmt_daemon(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crowded(waiting) => write!(f, "{waiting} requests wait for the daemon already"),
            Self::Silent(span) => {
                let silence = span.as_secs();
                write!(f, "the daemon has not answered for {silence} s")
            }
            Self::Daemonless(_) => f.write_str("the daemon cannot be asked"),
            _ => f.write_str("the control plane has ended"),
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
            Self::NoLabels => f.write_str("none of the paths has a label of a pool"),
            Self::NoPaths => f.write_str("no path is given"),
            Self::SeveralPools(pools) => {
                write!(f, "the paths belong to several pools: {}", pools.join(", "))
            }
            Self::NoVolume { pool, volume } => write!(f, "pool {pool} has no volume `{volume}`"),
            Self::NoDrive { pool, drive } => write!(f, "pool {pool} has no drive `{drive}`"),
            Self::NoJob(id) => write!(f, "there is no job {id}"),
            Self::Preflight(_) => f.write_str("preflight found what stands in the way"),
            Self::Missing { pool, .. } => write!(f, "drives of pool {pool} are missing"),
            Self::WouldShrink { volume, bytes } => {
                write!(f, "{volume} has {bytes} bytes and would become smaller")
            }
            Self::HalfDestroyed(pool) => {
                write!(f, "pool {pool} was being destroyed when that was cut short")
            }
            Self::Undestroyed { pool, .. } => {
                write!(f, "drives of pool {pool} could not be destroyed")
            }
            Self::ModelFile { path, why } => {
                let path = path.display();
                write!(f, "the model's account {path} cannot be used: {why}")
            }
            Self::HasVolumes { pool, volumes } => {
                write!(f, "pool {pool} has {volumes} volumes, which would be lost")
            }
            Self::DriveLive { pool, drive } => {
                write!(f, "drive {drive} of pool {pool} is in use")
            }
            Self::PoolExists(_)
            | Self::Naming(_)
            | Self::InUse(_)
            | Self::Daemon(_)
            | Self::Busy { .. } => self.fmt_conflict(f),
            Self::Pool { pool, paths, .. } => write!(f, "pool {pool} failed{}", at(paths)),
            Self::Engine { what, .. } => write!(f, "{what} failed"),
            Self::Open(_) => f.write_str("a drive cannot be opened"),
            Self::Io(_) => f.write_str("this process cannot use drives"),
            Self::Home { path, .. } => {
                let path = path.display();
                write!(f, "{path} of the state directory cannot be used")
            }
            Self::StateFile(path) => {
                write!(f, "{} is damaged or of another version", path.display())
            }
            Self::Random(_) => f.write_str("the system gives no random bytes"),
            Self::Closed(pool) => write!(f, "pool {pool} is not open"),
            Self::Served(pool) => write!(f, "pool {pool} is open for hosts"),
            Self::Request(what) => write!(f, "not understood: {what}"),
            Self::Ended | Self::Crowded(_) | Self::Daemonless(_) | Self::Silent(_) => {
                self.fmt_daemon(f)
            }
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
