//! What a user can do about an error of the control plane.

use crate::error::ControlError;
use crate::finding::{Finding, Severity};
use crate::open::{NO_FAST, TOO_FEW, UNUSABLE};
use crate::trouble::taken_next;
use std::io::{self, ErrorKind};
use varve_ftl::{EngineError, RebuildError, RecoverError, StopReason};
use varve_hostio::OpenError;
use varve_io::IoError;
use varve_pool::label::{CommitError, CreateError, ImportError};
use varve_pool::{PoolError, RestoreError};

/// What to do about hosts that are connected.
const CONNECTED_NEXT: &str =
    "unmount there and disconnect (nvme disconnect -n NQN), or add --cut-off";

impl ControlError {
    /// What the user can do next. There is always something.
    #[must_use]
    pub fn next(&self) -> String {
        match self {
            Self::BadName(_)
            | Self::Size(_)
            | Self::Path(_)
            | Self::Protect { .. }
            | Self::Model { .. }
            | Self::OverProvision(_)
            | Self::NoPaths
            | Self::SeveralPools(_) => self.usage_next(),
            Self::NoPool(_) => "varve pool list, or varve pool import PATH... if its drives are \
                                here"
                .to_owned(),
            Self::NoLabels(_) => LABELS_NEXT.to_owned(),
            Self::NoVolume { pool, .. } => format!("varve volume list {pool}"),
            Self::NoDrive { pool, .. } => format!("varve drive list {pool}"),
            Self::NoJob(_) => "varve pool status".to_owned(),
            Self::Preflight(findings) => preflight_next(findings),
            Self::Missing { pool, findings } => missing_next(pool, findings),
            Self::Gone { pool, .. } => gone_next(pool),
            Self::WouldShrink { .. }
            | Self::HoldsData { .. }
            | Self::HalfDestroyed(_)
            | Self::Undestroyed { .. }
            | Self::HasVolumes { .. } => self.destroy_next(),
            Self::ModelFile { .. } | Self::NoModel(_) => self.model_next(),
            Self::DriveLive { .. } => {
                "add --give-up to go on without it until the new one is filled, if the others of \
                                       its tier hold what it does"
                    .to_owned()
            }
            Self::PoolExists(_) => "choose another name, or see varve pool list".to_owned(),
            Self::Naming(_) => "try again when it has ended".to_owned(),
            Self::InUse(findings) => in_use_next(findings).to_owned(),
            Self::Daemon(_) => "use another --state DIR, or end that daemon".to_owned(),
            Self::Scrubbed { pool, .. } => format!(
                "varve pool scrub {pool} --stop ends it; without a limit varve pool scrub {pool} waits for its end"
            ),
            Self::ScrubEnded(pool) => format!("varve pool scrub {pool} begins it anew"),
            Self::Busy { pool, .. } => format!("varve pool status {pool}"),
            Self::Connected { .. } => CONNECTED_NEXT.to_owned(),
            Self::Pool { pool, error, .. } => pool_next(pool, error),
            Self::Engine { error, .. } => engine_next(error).to_owned(),
            Self::Open(error) => open_next(error).to_owned(),
            Self::Random(_) => "see that this user can read /dev/urandom".to_owned(),
            Self::Interrupted(_) => "run it again, if it is still wanted".to_owned(),
            Self::Closed(pool) => {
                format!(
                    "varve pool status {pool} tells why; varve pool import --pool {pool} opens it, with --degraded \
                     also without drives that are missing; varve drive replace {pool}/DRIVE PATH puts another drive \
                     in the place of one"
                )
            }
            Self::Request(_) => "use the same version of varve on both sides".to_owned(),
            Self::Served(_)
            | Self::Ended
            | Self::Crowded(_)
            | Self::Daemonless(_)
            | Self::Silent(_) => self.daemon_next().to_owned(),
            Self::Io(_) => "varve needs Linux 5.11 or newer with io_uring allowed".to_owned(),
            Self::Home { .. }
            | Self::StatePath(_)
            | Self::NoState(_)
            | Self::Barred(_)
            | Self::StateFile(_) => self.state_next(),
        }
    }

    /// What to write in place of what makes no sense.
    fn usage_next(&self) -> String {
        match self {
            Self::BadName(_) => {
                "use 1 to 48 characters of A-Z a-z 0-9 . _ -, neither . nor - first".to_owned()
            }
            Self::Size(_) => "write a size such as 10G".to_owned(),
            Self::Path(_) => "write PATH, or PATH:SIZE for a new sparse file".to_owned(),
            Self::Protect { drives: 0, .. } => {
                "name dense drives, or leave --protect out: without any the pool is protected by its fast ones"
                    .to_owned()
            }
            Self::Protect { .. } => PROTECT_NEXT.to_owned(),
            Self::Model { .. } => model_next(),
            Self::OverProvision(_) => "use --over-provision 5 to 80".to_owned(),
            Self::NoPaths => {
                "varve pool import PATH... names all drives of the pool; one that varve pool list shows needs no paths: \
                 varve pool import --pool NAME"
                    .to_owned()
            }
            Self::SeveralPools(_) => "name one: varve pool import --pool NAME PATH...".to_owned(),
            _ => unreachable!("not about what was asked for"),
        }
    }

    /// What to do about a state directory.
    fn state_next(&self) -> String {
        match self {
            Self::Home { error, .. } => home_next(error).to_owned(),
            Self::StatePath(_) => {
                "choose a shorter path, of some 90 characters at most: --state DIR".to_owned()
            }
            Self::NoState(_) => "name the one that was meant: --state DIR; varve pool create and varve pool import make one"
                .to_owned(),
            Self::Barred(barred) => barred.next(),
            Self::StateFile(path) => {
                // Another owner than the pools have cannot open them otherwise.
                let is_owner = path.ends_with("owner");
                let option = if is_owner { "--take-over " } else { "" };
                format!(
                    "move {} away; varve pool import {option}PATH... makes it anew",
                    path.display()
                )
            }
            _ => unreachable!("not about a state directory"),
        }
    }

    /// What to do about a file beside a drive.
    fn model_next(&self) -> String {
        match self {
            Self::ModelFile { path, .. } => format!(
                "remove {}: the account begins anew, and nothing else is lost",
                path.display()
            ),
            Self::NoModel(path) => format!(
                "give the drive another name, or move {} away if nobody needs it there",
                path.display()
            ),
            _ => unreachable!("not about a file beside a drive"),
        }
    }

    /// What to do about a destruction, of a part too.
    fn destroy_next(&self) -> String {
        match self {
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
            _ => unreachable!("not about a destruction"),
        }
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

/// What to do about drives that are in use: by processes, of which any may be Varve, or by the system.
fn in_use_next(findings: &[Finding]) -> &'static str {
    let mut users = findings.iter().filter(|found| found.code == "in-use");
    let is_of_system = |found: &Finding| {
        let of_system = [
            "mounted at",
            "swap space",
            "by the device",
            "it has partitions",
        ];
        of_system.iter().any(|of| found.text.contains(of))
    };
    match users.any(is_of_system) {
        true => "unmount it, or end what uses it, or use another drive",
        false => {
            "try again in a moment, if a daemon is starting on this state directory, or when the command has ended that \
             has them; a daemon on another state directory is asked with --state DIR"
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
    if findings.iter().any(|one| one.code == NO_FAST) {
        return no_fast_next(pool);
    }
    if findings.iter().any(|one| one.code == TOO_FEW) {
        return too_few_next(pool);
    }
    let names = findings
        .iter()
        .filter(|one| ["drive-missing", "truncated"].contains(&&*one.code));
    let mut names =
        names.filter_map(|one| one.text.strip_prefix("drive ")?.split([' ', ':']).next());
    let drive = names.next().unwrap_or("DRIVE");
    format!(
        "{first}; to go on without them: varve pool import --pool {pool} --degraded; to put another drive in the place \
         of one: varve drive replace {pool}/{drive} PATH"
    )
}

fn preflight_next(findings: &[Finding]) -> String {
    let has = |code: &str| findings.iter().any(|finding| finding.code == code);
    if let Some(member) = findings.iter().find(|finding| finding.code == "member") {
        let named = member.text.split("of pool ").nth(1);
        let pool = named.and_then(|text| text.split(' ').next());
        let pool = pool.unwrap_or("POOL");
        return format!("varve pool destroy {pool} first, or use other drives");
    }
    if has("twice") {
        return "name each drive once".to_owned();
    }
    if has("holds-data") && !findings.iter().any(|one| one.severity == Severity::Refusal) {
        return "use blank drives, or add --overwrite if what they hold may go".to_owned();
    }
    if has("exists") {
        return "write PATH without a size to use what is there".to_owned();
    }
    if has("missing") {
        return "write PATH:SIZE where a new sparse file is to be made".to_owned();
    }
    if has("own-drive") {
        return "use a drive that is not in the pool: varve drive list names those that are"
            .to_owned();
    }
    if has("too-many-drives") {
        return "make several pools of them".to_owned();
    }
    if has("too-many-fast") {
        return "use fewer fast drives: each holds a copy of the same log".to_owned();
    }
    if has("too-small") || has("plan") {
        return "use larger drives".to_owned();
    }
    let known = UNFIT_NEXT.iter().find(|(code, _)| has(code));
    known.map_or(OTHERS_NEXT, |(_, next)| next).to_owned()
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

/// What to do about a drive that cannot be opened: as what a preflight finds of it.
fn open_next(error: &OpenError) -> &'static str {
    let code = match error {
        OpenError::Kind(_) => "not-a-disk",
        OpenError::InUse(_) => "in-use",
        OpenError::ReadOnly(_) => "read-only",
        OpenError::LbaBytes { .. } => "sector-size",
        OpenError::Empty(_) => {
            return "use a drive that has room, or PATH:SIZE for a new sparse file";
        }
        OpenError::System { error, .. } => match error.kind() {
            ErrorKind::NotFound => {
                return "bring the drive back, or tell where it is: varve pool import PATH...";
            }
            ErrorKind::PermissionDenied => "denied",
            _ => "system",
        },
        _ => return OTHERS_NEXT,
    };
    let known = UNFIT_NEXT.iter().find(|(known, _)| *known == code);
    known.map_or(OTHERS_NEXT, |(_, next)| next)
}

/// What is left to do about a drive.
const OTHERS_NEXT: &str = "use other drives";

fn model_next() -> String {
    let sheets: Vec<_> = varve_media::sheets().collect();
    format!(
        "use one of {}; without its .model file a drive keeps no account",
        sheets.join(", ")
    )
}

fn pool_next(pool: &str, error: &PoolError) -> String {
    match error {
        PoolError::Import(error) => import_next(pool, error),
        PoolError::Labels(error) => labels_next(pool, error),
        PoolError::Create(error) => create_next(error).to_owned(),
        PoolError::Restore(error) => restore_next(pool, *error),
        PoolError::Engine(error) => engine_next(error).to_owned(),
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
                "varve check {pool} --rebuild --fast PATH... makes its map anew from the dense drives, on other fast ones \
                 or with --overwrite on these; what is in the log alone is lost then. To let it go: varve pool export \
                 {pool} --forget"
            )
        }
        PoolError::MapWhole { with_loss: false } => format!(
            "varve pool import --pool {pool}; with --force it is rebuilt nevertheless, and what its log holds is lost"
        ),
        PoolError::MapWhole { with_loss: true } => format!(
            "varve pool import --pool {pool} --accept-loss; with --force it is rebuilt nevertheless, and more is lost"
        ),
        PoolError::Rebuild(error) => rebuild_next(pool, error),
        PoolError::NoDenseTier => {
            format!("bring its fast drives back; to let it go: varve pool export {pool} --forget")
        }
        PoolError::FastCount { wanted, .. } => format!("name {wanted} drives behind --fast"),
        PoolError::FastUnfit { .. } => {
            "use drives as large as those that the pool had, with sectors that are no larger"
                .to_owned()
        }
        PoolError::Relabel(_) => "give the same command again, with --overwrite".to_owned(),
        PoolError::Stopped(StopReason::Fenced) => taken_next(pool),
        PoolError::Stopped(_) => engine_next(&EngineError::Stopped).to_owned(),
        PoolError::DenseMissing { .. } => too_few_next(pool),
        PoolError::Needed(_) => format!(
            "put back or replace what else is away of its tier, or wait until it is filled: varve pool status {pool}; in a \
             tier without redundancy no drive can be given up: bring the volumes to another pool"
        ),
        PoolError::NoSlot(_) => format!("varve drive list {pool}"),
        PoolError::Assemble(_) | PoolError::Geometry(_) => format!(
            "varve inspect PATH, on each drive of {pool}, tells one that was cut short or is another one's copy"
        ),
        PoolError::Unfinished => {
            "repeat varve pool create with the same drives in the same order".to_owned()
        }
        PoolError::Plan(_) => "use larger drives".to_owned(),
        PoolError::BadName => "use 1 to 48 characters of A-Z a-z 0-9 . _ -".to_owned(),
        PoolError::NoPool => LABELS_NEXT.to_owned(),
        PoolError::SeveralPools => "name one: varve pool import --pool NAME PATH...".to_owned(),
        PoolError::StillBusy(_) => {
            "try again when the drive answers, after a power cycle say, or use another one"
                .to_owned()
        }
        PoolError::SlotInUse(_) => "varve drive replace --give-up".to_owned(),
        PoolError::Drive(_) => {
            "see what the kernel says of it (dmesg), or use another drive".to_owned()
        }
        _ => format!("varve pool status {pool}"),
    }
}

/// What to do about a map that could not be rebuilt. The dense drives are as they were.
fn rebuild_next(pool: &str, error: &RebuildError) -> String {
    match error {
        RebuildError::NoRoom { .. } | RebuildError::NoGroups { .. } => {
            "use larger fast drives: what was freed and is back has to be kept there for a while"
                .to_owned()
        }
        RebuildError::TooManyLeaves { .. } => "use larger fast drives".to_owned(),
        RebuildError::Dense(_) => format!(
            "see that the dense drives of {pool} answer (dmesg), and give the same command again"
        ),
        _ => "see that the new fast drives can be written (dmesg), and give the same command again"
            .to_owned(),
    }
}

/// Where no fast drive of a pool is left that holds its log.
pub(crate) fn no_fast_next(pool: &str) -> String {
    format!(
        "bring the missing fast drives back; if they are gone for good: varve check {pool} --rebuild --fast PATH... \
         makes the map anew from the dense drives, and what is in the log alone is lost. To let the pool go: varve \
         pool export {pool} --forget"
    )
}

/// Where no drive of a pool is left that its labels tell of.
pub(crate) fn gone_next(pool: &str) -> String {
    format!(
        "bring the drives back, or tell where they are: varve pool import PATH...; to let the pool go: varve pool export \
         {pool} --forget"
    )
}

/// Where drives of a pool are away without which it cannot go on.
fn too_few_next(pool: &str) -> String {
    format!(
        "bring the missing drives back; varve drive list {pool} names them; if they are gone for good: \
         varve pool export {pool} --forget"
    )
}

/// What to do where no label tells what was asked for.
const LABELS_NEXT: &str = "name all drives of the pool: varve inspect PATH shows what each holds";

fn import_next(pool: &str, error: &ImportError) -> String {
    match error {
        ImportError::NoLabel { .. } => LABELS_NEXT.to_owned(),
        ImportError::OwnedElsewhere { .. } => format!(
            "varve pool export {pool} there; if that machine is gone for good: varve pool import \
             --take-over PATH..."
        ),
        ImportError::OwnerAlive { .. } => format!(
            "varve pool export {pool} there releases it; if nobody can do that, end varve on that machine, switch it off or cut \
             it off from the drives, then repeat this"
        ),
        ImportError::WouldLose(_) => format!(
            "name every drive of the pool that is there: varve pool import --pool {pool} PATH...; to \
             do without the others for good, with what only they hold: --accept-loss"
        ),
        ImportError::Duplicate { .. } => "one of the two is a copy: take it away".to_owned(),
        ImportError::Conflict { .. } => format!(
            "varve inspect PATH, on each drive of {pool}, shows what its label says; import it without the one that does \
             not belong: varve pool import --pool {pool} PATH..."
        ),
        ImportError::NoFast { .. } => no_fast_next(pool),
        ImportError::EpochsUsedUp => {
            "make another pool of other drives, and bring the volumes there from a backup"
                .to_owned()
        }
        _ => format!("varve inspect PATH, on each drive of {pool}, shows what its label says"),
    }
}

fn labels_next(pool: &str, error: &CommitError) -> String {
    match error {
        CommitError::Fenced(_) => taken_next(pool),
        CommitError::NoQuorum { .. } | CommitError::Stopped | CommitError::Closed => format!(
            "varve pool status {pool} tells which drives failed; when they are back: varve pool import --pool {pool}"
        ),
        CommitError::NotBlank | CommitError::NotMember { .. } => {
            "use another drive, or add --overwrite if what it holds may go".to_owned()
        }
        _ => format!(
            "varve pool status {pool} tells what is away of its tier: put that back or replace it first"
        ),
    }
}

const fn create_next(error: &CreateError) -> &'static str {
    match error {
        CreateError::NotBlank { .. } => "varve pool destroy POOL first, or use other drives",
        CreateError::Io { .. } => {
            "see what the kernel says of it (dmesg), then repeat this, or use another drive in its place"
        }
        CreateError::NoFast => "name a fast drive: --fast PATH",
        _ => OTHERS_NEXT,
    }
}

fn restore_next(pool: &str, error: RestoreError) -> String {
    match error {
        RestoreError::Target(_) => format!(
            "see what the kernel says of the new drive (dmesg), then repeat this, or use another one: varve drive list \
             {pool}"
        ),
        RestoreError::Interrupted => {
            "repeat varve drive replace, which goes on: same place, same drive".to_owned()
        }
        _ => format!(
            "varve pool status {pool} tells which of the other drives fail; when they are back, repeat this"
        ),
    }
}

const fn engine_next(error: &EngineError) -> &'static str {
    match error {
        EngineError::NoSuchVolume(_) | EngineError::OutOfRange { .. } => "varve volume list",
        EngineError::NameTaken => "choose another name, or varve volume list",
        EngineError::BadName => "use 1 to 48 characters of A-Z a-z 0-9 . _ -",
        EngineError::BadSize(_) => "choose a size of 4 KiB to 4 PiB",
        EngineError::CapacityExceeded => {
            "delete volumes, or have hosts give back what they need no longer (fstrim); varve pool status tells how much \
             is in use"
        }
        EngineError::TooManyVolumes => {
            "delete a volume that nobody needs (varve volume list), or make another pool"
        }
        EngineError::Lost(..) => {
            "write what is lost once more from a backup: a block that is written is whole"
        }
        EngineError::DenseAway => {
            "varve pool status and varve drive list tell which drive does not answer; writes go on by themselves when it does"
        }
        EngineError::Io(IoError::NoSpace) => {
            "make room on the file system beneath the drives; writes go on by themselves then"
        }
        EngineError::Recalled => "try again",
        EngineError::NotSeated(_) => "report this as a bug, with what was printed",
        EngineError::Stopped | EngineError::Io(_) => {
            "varve pool status shows which drive failed; varve pool import --pool NAME opens the pool anew and recovers it"
        }
        _ => "varve pool status",
    }
}

/// How many dense drives go with which protection.
const PROTECT_NEXT: &str = "use --protect none, mirror (an even number of dense drives) or K+1 (K + 1 dense drives, \
                            K at least 2)";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use std::io::Error;
    use std::path::{Path, PathBuf};
    use varve_hostio::{NoIo, Signal};
    use varve_io::ReactorId;
    use varve_pool::label::{ChangeError, MemberId, PoolId, TableGeneration};
    use varve_units::{Lba, VolumeId};

    fn system(kind: ErrorKind) -> Error {
        kind.into()
    }

    /// What is advised follows from who has a drive, and whose it is.
    #[test]
    fn drives_of_others_get_their_own_advice() {
        let found = |code, text| vec![Finding::new(Severity::Refusal, code, text)];
        let mounted = ControlError::InUse(found("in-use", "is in use: mounted at /mnt"));
        assert!(mounted.next().starts_with("unmount it"));
        let held = ControlError::InUse(found("in-use", "is in use: by process 7 (varve)"));
        assert!(held.next().starts_with("try again"));
        let other = ControlError::Preflight(found("member", "is a drive of pool tank (09ab)"));
        assert!(other.next().starts_with("varve pool destroy tank first"));
        let missing = |code| {
            let findings = found(code, "drive dense1: has 1 bytes, once it had 2");
            let pool = "p".to_owned();
            ControlError::Missing { pool, findings }.next()
        };
        assert!(missing("truncated").contains("varve drive replace p/dense1 PATH"));
        assert!(missing(TOO_FEW).contains("varve drive list p"));
        assert!(missing(NO_FAST).contains("varve check p --rebuild"));
    }

    /// Why a drive cannot be opened.
    fn unopened() -> Vec<OpenError> {
        let path = || PathBuf::from("/x");
        let call = |kind| OpenError::System {
            path: path(),
            call: "open",
            error: system(kind),
        };
        let sectors = OpenError::LbaBytes {
            path: path(),
            asked: 512,
            least: 4096,
        };
        vec![
            OpenError::Kind(path()),
            OpenError::InUse(path()),
            OpenError::ReadOnly(path()),
            sectors,
            OpenError::Empty(path()),
            call(ErrorKind::NotFound),
            call(ErrorKind::PermissionDenied),
            call(ErrorKind::Other),
        ]
    }

    /// Why an engine fails.
    fn engines() -> Vec<EngineError> {
        let (volume, lba) = (VolumeId(1), Lba(1));
        let beyond = EngineError::OutOfRange {
            lba,
            blocks: 1,
            size: 1,
        };
        vec![
            EngineError::NoSuchVolume(volume),
            beyond,
            EngineError::CapacityExceeded,
            EngineError::Lost(volume, lba),
            EngineError::DenseAway,
            EngineError::Io(IoError::Media),
            EngineError::Io(IoError::NoSpace),
            EngineError::Stopped,
            EngineError::Recalled,
            EngineError::NotSeated(ReactorId(1)),
            EngineError::NameTaken,
            EngineError::BadSize(0),
            EngineError::BadName,
            EngineError::TooManyVolumes,
        ]
    }

    /// Why labels are not written, and pools not imported.
    fn labels() -> Vec<PoolError> {
        let id = MemberId(1);
        let generation = TableGeneration::new(1, 1);
        let imports = [
            ImportError::NoLabel {
                pool: PoolId([1; 16]),
            },
            ImportError::Duplicate {
                id,
                first: 0,
                second: 1,
            },
            ImportError::Conflict { generation, id },
            ImportError::NoFast { missing: vec![id] },
            ImportError::EpochsUsedUp,
        ];
        let commits = [
            CommitError::Refused(ChangeError::NoMember { id }),
            CommitError::Stopped,
            CommitError::Closed,
            CommitError::NotBlank,
            CommitError::NotMember { id },
        ];
        let creates = [
            CreateError::NotBlank { drive: 0 },
            CreateError::Io {
                drive: 0,
                error: IoError::Media,
            },
            CreateError::NoFast,
            CreateError::EpochsUsedUp,
        ];
        let restores = [
            RestoreError::Unprotected,
            RestoreError::Source(IoError::Media),
            RestoreError::Unreadable,
            RestoreError::Target(IoError::Media),
            RestoreError::Interrupted,
        ];
        let imports = imports.into_iter().map(PoolError::Import);
        let commits = commits.into_iter().map(PoolError::Labels);
        let creates = creates.into_iter().map(PoolError::Create);
        let restores = restores.into_iter().map(PoolError::Restore);
        let rest = [
            PoolError::BadName,
            PoolError::NoPool,
            PoolError::SeveralPools,
            PoolError::Drive(IoError::Media),
            PoolError::DenseMissing { away: 2 },
            PoolError::Unfinished,
            PoolError::Recover(RecoverError::NoCheckpoint),
            PoolError::Stopped(StopReason::Closed),
            PoolError::Stopped(StopReason::Fenced),
        ];
        let all = imports.chain(commits).chain(creates).chain(restores);
        all.chain(rest).collect()
    }

    /// Whatever fails, there is something to do: nothing is answered with silence, nor with another's answer where
    /// there is one of its own.
    #[test]
    fn all_that_fails_has_a_next_step() {
        let of_pool = |error| ControlError::Pool {
            pool: "tank".to_owned(),
            error,
            paths: Box::default(),
        };
        let of_engine = |error| ControlError::Engine {
            what: "it".to_owned(),
            error,
        };
        let engines = engines().into_iter();
        let in_pools = engines.clone().map(PoolError::Engine).chain(labels());
        let all = unopened().into_iter().map(ControlError::Open);
        let all = all.chain(engines.map(of_engine));
        let all = all.chain(in_pools.map(of_pool));
        let rest = [
            ControlError::Random(system(ErrorKind::NotFound)),
            ControlError::Interrupted(Signal::Interrupt),
            ControlError::Ended,
            ControlError::Io(NoIo::Kernel(system(ErrorKind::PermissionDenied))),
        ];
        for error in all.chain(rest) {
            let next = Failure::from(error).next.unwrap_or_default();
            assert!(!next.is_empty());
        }
        let told = |error| of_pool(error).next();
        assert!(told(PoolError::Restore(RestoreError::Interrupted)).contains("goes on"));
        assert!(told(PoolError::Import(ImportError::EpochsUsedUp)).contains("another pool"));
        assert!(
            of_engine(EngineError::TooManyVolumes)
                .next()
                .contains("delete a volume")
        );
        assert!(
            of_engine(EngineError::CapacityExceeded)
                .next()
                .contains("fstrim")
        );
        let denied = unopened().swap_remove(6);
        assert!(ControlError::Open(denied).next().contains("read and write"));
    }

    /// Another directory helps against both, room against one only.
    #[test]
    fn a_full_state_directory_wants_room() {
        let next = |kind: ErrorKind| {
            let error = ControlError::home(Path::new("/state/owner"), Error::from(kind));
            error.next()
        };
        assert!(next(ErrorKind::StorageFull).starts_with("make room"));
        assert!(!next(ErrorKind::PermissionDenied).contains("room"));
    }
}
