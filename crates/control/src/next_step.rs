//! What a user can do about an error of the control plane.

use crate::error::ControlError;
use crate::finding::{Finding, Severity};
use crate::open::UNUSABLE;
use crate::trouble::taken_next;
use std::io::{self, ErrorKind};
use varve_ftl::{EngineError, RecoverError, StopReason};
use varve_io::IoError;
use varve_pool::PoolError;
use varve_pool::label::{CommitError, ImportError};

/// What to do about hosts that are connected.
const CONNECTED_NEXT: &str =
    "unmount there and disconnect (nvme disconnect -n NQN), or add --cut-off";

impl ControlError {
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
            Self::NoLabels(_) => "name all drives of the pool: varve inspect PATH shows what each \
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
            Self::WouldShrink { .. }
            | Self::HoldsData { .. }
            | Self::HalfDestroyed(_)
            | Self::Undestroyed { .. }
            | Self::HasVolumes { .. } => self.destroy_next()?,
            Self::ModelFile { .. } | Self::NoModel(_) => self.model_next()?,
            Self::DriveLive { .. } => "add --give-up to go on without it until the new one is filled, if the others of \
                                       its tier hold what it does"
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
            Self::Connected { .. } => CONNECTED_NEXT.to_owned(),
            Self::Pool { pool, error, .. } => pool_next(pool, error)?,
            Self::Engine { error, .. } => engine_next(error)?,
            Self::Open(_) | Self::Random(_) | Self::Interrupted(_) => return None,
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
            Self::Home { error, .. } => home_next(error).to_owned(),
            Self::StatePath(_) => "choose a shorter path, of some 90 characters at most: --state DIR".to_owned(),
            Self::NoState(_) => {
                "name the one that was meant: --state DIR; varve pool create and varve pool import make one".to_owned()
            }
            Self::Barred(barred) => barred.next(),
            Self::StateFile(path) => format!(
                "move {} away; varve pool import PATH... makes it anew",
                path.display()
            ),
        })
    }

    /// What to do about a file beside a drive.
    fn model_next(&self) -> Option<String> {
        Some(match self {
            Self::ModelFile { path, .. } => format!(
                "remove {}: the account begins anew, and nothing else is lost",
                path.display()
            ),
            Self::NoModel(path) => format!(
                "give the drive another name, or move {} away if nobody needs it there",
                path.display()
            ),
            _ => return None,
        })
    }

    /// What to do about a destruction, of a part too.
    fn destroy_next(&self) -> Option<String> {
        Some(match self {
            Self::WouldShrink { volume, wanted, .. } => format!(
                "varve volume resize {volume} {wanted} --shrink, if what is behind the new end may go"
            ),
            Self::HoldsData { volume, .. } => {
                format!("varve volume delete {volume} --with-data, if what it holds may go")
            }
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
}

/// What to do about a state directory.
fn home_next(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "make room on its file system, or choose another directory: --state DIR"
        }
        _ => "choose a directory this user may write to: --state DIR",
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
    if has("holds-data") && !findings.iter().any(|one| one.severity == Severity::Refusal) {
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
const UNFIT_NEXT: [(&str, &str); 10] = [
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
    (
        "directory-denied",
        "let this user write to the directory (sudo, or its owner), or name another one",
    ),
    (
        "directory-read-only",
        "mount it for writing, or name another directory",
    ),
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
        PoolError::Import(ImportError::OwnerAlive { .. }) => format!(
            "varve pool export {pool} there releases it; if nobody can do that, end varve on that machine, switch it off or cut \
             it off from the drives, then repeat this"
        ),
        PoolError::Labels(CommitError::Fenced(_)) | PoolError::Stopped(StopReason::Fenced) => {
            taken_next(pool)
        }
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
            format!(
                "make room beneath the fast drives of {pool}; varve pool status {pool} tells what is there, and what was \
                 not done is to be repeated"
            )
        }
        PoolError::Recover(_) => {
            format!(
                "varve inspect on each drive of {pool} shows what is left; to let it go: varve pool export {pool} \
                 --forget"
            )
        }
        PoolError::StillBusy(_) => {
            "try again when the drive answers, after a power cycle say, or use another one"
                .to_owned()
        }
        PoolError::Needed(_) => format!(
            "put back or replace what else is away of its tier, or wait until it is filled: varve pool status {pool}; in a \
             tier without redundancy no drive can be given up: bring the volumes to another pool"
        ),
        PoolError::SlotInUse(_) => "varve drive replace --give-up".to_owned(),
        PoolError::Engine(error) => engine_next(error)?,
        PoolError::Stopped(_) => engine_next(&EngineError::Stopped)?,
        _ => return None,
    })
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

#[cfg(test)]
mod tests {
    use crate::error::ControlError;
    use std::io::{Error, ErrorKind};
    use std::path::Path;

    /// Another directory helps against both, room against one only.
    #[test]
    fn a_full_state_directory_wants_room() {
        let next = |kind: ErrorKind| {
            let error = ControlError::home(Path::new("/state/owner"), Error::from(kind));
            error.next().expect("there is something to do")
        };
        assert!(next(ErrorKind::StorageFull).starts_with("make room"));
        assert!(!next(ErrorKind::PermissionDenied).contains("room"));
    }
}
