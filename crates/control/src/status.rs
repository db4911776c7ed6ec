//! How pools fare: those that are open by asking them, the others by their labels.

use crate::away::Away;
use crate::error::ControlError;
use crate::finding::{Finding, Severity};
use crate::model::Models;
use crate::next_step::{gone_next, no_fast_next};
use crate::open::NO_FAST;
use crate::pools::Pools;
use crate::random;
use crate::registry::Entry;
use crate::room::Room;
use crate::running::Running;
use crate::scan::{self, Scan};
use crate::trouble::taken_next;
use crate::view::{DriveView, FaultsView, Health, PoolView};
use crate::volumes::{exposed_bytes, volume_views};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use varve_format::{Geometry, Label, Member, MemberRole, MemberState, Protection};
use varve_ftl::StopReason;
use varve_io::{Flow, IoError};
use varve_pool::label::{MemberId, Role, TableGeneration, Voters, is_covered};
use varve_pool::{SlotState, SlotStatus, engine_config, engine_geometry};
use varve_units::{BLOCK_BYTES, Nanos};

/// Protection of the dense tier as people write it.
pub(crate) fn protect_word(geometry: &Geometry) -> String {
    match geometry.protection {
        Protection::None => "none".to_owned(),
        Protection::Mirror => "mirror".to_owned(),
        Protection::Parity => format!("{}+{}", geometry.data_strips, geometry.parity_strips),
    }
}

impl Pools {
    /// All pools that are known here. Nothing is opened, nothing changed.
    ///
    /// # Errors
    /// The registry cannot be read, an engine stopped while it was asked.
    pub fn list(&self) -> Flow<'_, Result<Vec<PoolView>, ControlError>> {
        Box::pin(async move {
            let registry = self.home.registry()?;
            let mut views = Vec::new();
            for entry in &registry.pools {
                views.push(self.view(entry).await?);
            }
            Ok(views)
        })
    }

    /// One pool. Nothing is opened, nothing changed.
    ///
    /// # Errors
    /// As [`Pools::list`]; [`ControlError::NoPool`].
    pub fn status<'a>(&'a self, pool: &'a str) -> Flow<'a, Result<PoolView, ControlError>> {
        Box::pin(async move {
            let registry = self.home.registry()?;
            let entry = registry.get(pool);
            let entry = entry.ok_or_else(|| ControlError::NoPool(pool.to_owned()))?;
            self.view(entry).await
        })
    }

    async fn view(&self, entry: &Entry) -> Result<PoolView, ControlError> {
        match self.running(&entry.name) {
            Ok(running) => open_view(&self.models, &running, self.world.now()).await,
            Err(_) => Ok(self.closed_view(entry).await),
        }
    }
}

/// The name of a drive's place.
pub(crate) fn drive_name(role: Role, slot: u8) -> String {
    format!("{role}{slot}")
}

/// The same, by the word of a label.
pub(crate) fn place_name(role: MemberRole, slot: u8) -> String {
    let role = match role {
        MemberRole::Fast => "fast",
        MemberRole::Dense => "dense",
        MemberRole::Spare => "spare",
    };
    format!("{role}{slot}")
}

/// Places of the fast tier.
fn fast_copies(drives: &[DriveView]) -> u64 {
    let fast = drives
        .iter()
        .filter(|drive| drive.drive.starts_with("fast"));
    fast.count() as u64
}

/// What is to be known of replacements that have not ended.
fn replacements(pool: &str, drives: &[DriveView]) -> Vec<Finding> {
    let mut told: Vec<(&str, &PathBuf)> = Vec::new();
    let under_way = drives.iter().filter_map(|drive| {
        let path = drive.replaced_by.as_ref()?;
        // Of a pool that is not open, the old drive is listed beside the new one.
        if told.contains(&(&drive.drive, path)) {
            return None;
        }
        told.push((&drive.drive, path));
        let (name, new) = (&drive.drive, path.display());
        let text = match &*drive.state {
            "live" => format!(
                "was to take the place of drive {name}, which is in use still: `varve drive replace {pool}/{name} {new} \
                 --give-up` goes on with it, as it was asked for at first"
            ),
            _ => format!(
                "takes the place of drive {name}, which has not ended: `varve drive replace {pool}/{name} {new}` goes on \
                 with it, or waits for its end"
            ),
        };
        Some(Finding::new(Severity::Warning, "replacing", text).at(path))
    });
    under_way.collect()
}

/// What to do about drives that are away, of which none is taking the place.
fn absences(pool: &str, drives: &[DriveView]) -> Vec<Finding> {
    let is_away = |drive: &&DriveView| {
        let is_away = matches!(&*drive.state, "lost" | "missing" | "truncated");
        is_away && drive.replaced_by.is_none()
    };
    let told = drives.iter().filter(is_away).map(|drive| {
        let (name, state) = (&drive.drive, &drive.state);
        let text = format!(
            "drive {name} is {state}; next: `varve drive replace {pool}/{name} PATH` puts another drive in its place, \
             or fills this one again if it is back"
        );
        Finding::new(Severity::Warning, "drive-away", text)
    });
    told.collect()
}

/// Of a dense tier with parity that lacks a drive: whether what is written now bears the loss of one more.
fn width(running: &Running) -> Option<Finding> {
    let geometry = running.pool.geometry();
    let (_, is_whole) = running.is_whole();
    if is_whole || geometry.protection != varve_format::Protection::Parity {
        return None;
    }
    let text = match running.pool.engine().writes_narrow() {
        true => {
            "new stripes leave out the drive that is missing: what is written now bears the loss of one more drive; what was \
             written before does not"
        }
        false => {
            "new stripes are of full width: what is written now does not bear the loss of one more drive, for want of room, \
             because a drive is being filled, or because two do not answer"
        }
    };
    Some(Finding::new(
        Severity::Warning,
        "stripe-width",
        text.to_owned(),
    ))
}

async fn open_view(
    models: &Models,
    running: &Rc<Running>,
    now: Nanos,
) -> Result<PoolView, ControlError> {
    let pool = &running.pool;
    let drives = open_drives(models, running);
    let away = running.away(now, &drives);
    let stopped = pool.engine().stop_reason();
    // Nobody knows of one that has stopped.
    let usage = match stopped {
        None => Some(volume_views(running).await?),
        Some(_) => None,
    };
    let taken = pool.taken();
    let counters = counters(running);
    let used = usage
        .as_ref()
        .map(|usage| usage.iter().map(|volume| volume.used_bytes).sum());
    let room = Room {
        used_bytes: used.unwrap_or(0),
        capacity_bytes: pool.engine().reserve().capacity_blocks * BLOCK_BYTES,
        leaves: pool.engine().leaves(),
        leaves_max: pool.engine().capacity_leaves(),
    };
    let mut findings = open_findings(running, &drives, &counters);
    findings.extend(away.findings(&running.name));
    findings.extend(room.findings(&running.name));
    Ok(PoolView {
        pool: running.name.clone(),
        id: random::hex(&running.id.0),
        health: open_health(running, &drives, &away),
        is_open: true,
        protect: protect_word(pool.geometry()),
        fast_copies: fast_copies(&drives),
        raw_bytes: drives.iter().map(|drive| drive.bytes).sum(),
        capacity_bytes: Some(room.capacity_bytes),
        used_bytes: used,
        unprotected_bytes: used.map(|used| used.min(exposed_bytes(running))),
        leaves: Some(room.leaves),
        leaves_max: Some(room.leaves_max),
        dense_away: Some(away.is_dense_away()),
        volumes: usage.map(|usage| usage.len() as u64),
        stopped: stopped.map(|why| taken.map_or_else(|| why.to_string(), |how| how.to_string())),
        counters,
        jobs: running
            .job
            .get()
            .into_iter()
            .chain(running.scrubs.job.get())
            .collect(),
        scrub: running.scrubs.last(now),
        drives,
        findings,
    })
}

/// How an open pool fares.
fn open_health(running: &Running, drives: &[DriveView], away: &Away) -> Health {
    let pool = &running.pool;
    let counters = pool.engine().counters();
    let is_damaged = counters.get("blocks_lost").is_some_and(|lost| *lost > 0)
        || !pool.recovery().damage.is_empty();
    let is_whole = drives.iter().all(|drive| drive.state == "live");
    let health = match (pool.engine().stop_reason(), is_damaged, is_whole) {
        (Some(_), ..) => Health::Faulted,
        (None, true, _) => Health::Damaged,
        (None, false, true) => Health::Ok,
        (None, false, false) => Health::Degraded,
    };
    health.max(away.health())
}

impl Pools {
    /// How an open pool fares, as [`Pools::status`] says it.
    ///
    /// # Errors
    /// [`ControlError::NoPool`]: it is not open, or is being closed.
    pub fn health(&self, pool: &str) -> Result<Health, ControlError> {
        let running = self.running(pool)?;
        if running.pool.engine().stop_reason() == Some(StopReason::Closed) {
            return Err(ControlError::NoPool(pool.to_owned()));
        }
        let drives = open_drives(&self.models, &running);
        let away = running.away(self.world.now(), &drives);
        Ok(open_health(&running, &drives, &away))
    }
}

/// What to do about a pool that has stopped by itself.
fn stopped(pool: &str, why: StopReason) -> Option<Finding> {
    let first = match why {
        StopReason::Closed => return None,
        StopReason::Log(IoError::NoSpace) | StopReason::Flush(IoError::NoSpace) => {
            "make room beneath its fast drives"
        }
        _ => "bring back what does not answer",
    };
    let text = format!(
        "it has stopped ({why}), and hosts get errors; next: {first}; then `varve pool import --pool {pool}` opens it anew"
    );
    Some(Finding::new(Severity::Warning, "stopped", text))
}

/// What is to be known of an open pool, but for what does not answer and for room.
fn open_findings(
    running: &Running,
    drives: &[DriveView],
    counters: &BTreeMap<String, u64>,
) -> Vec<Finding> {
    let pool = &running.pool;
    let mut findings = Vec::new();
    if let Some(taken) = pool.taken() {
        let text = format!(
            "{taken}: hosts get errors, and nothing more is written to its drives; next: {}",
            taken_next(&running.name)
        );
        findings.push(Finding::new(Severity::Warning, "taken-over", text));
    } else if let Some(why) = pool.engine().stop_reason() {
        findings.extend(stopped(&running.name, why));
    }
    for damage in &pool.recovery().damage {
        let text = format!(
            "{}: records {} to {} of the log were lost before the last start",
            damage.lane, damage.from.0, damage.to.0
        );
        findings.push(Finding::new(Severity::Warning, "damage", text));
    }
    findings.extend(replacements(&running.name, drives));
    findings.extend(absences(&running.name, drives));
    findings.extend(width(running));
    let lost = counters.get("blocks_lost").copied().unwrap_or(0);
    if lost > 0 {
        let text = format!(
            "blocks that no drive can give back were met {lost} times since the pool was opened; `varve check {}` names all of \
             them, when it is closed",
            running.name
        );
        findings.push(Finding::new(Severity::Warning, "blocks-lost", text));
    }
    findings.extend(repairs(&running.name, counters));
    findings.extend(running.scrubs.findings(&running.name));
    findings
}

/// What reads, cleaning and the map met that did not pass its check, though another copy did.
fn repairs(pool: &str, counters: &BTreeMap<String, u64>) -> Option<Finding> {
    let of = |name: &str| counters.get(name).copied().unwrap_or(0);
    let mended = of("repairs") + of("clean_repairs") + of("leaf_repairs");
    let left = of("repair_failures");
    if mended + left == 0 {
        return None;
    }
    let text = format!(
        "since the pool was opened {mended} copies that did not pass their check were written again from another one, \
         {left} more could not be; next: `varve drive list {pool}` tells of which drives, `varve pool scrub {pool}` looks at everything and mends what else is wrong"
    );
    Some(Finding::new(Severity::Warning, "repairs", text))
}

fn counters(running: &Running) -> BTreeMap<String, u64> {
    let counters = running.pool.counters().into_iter();
    counters
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Drives of an open pool, as its arrays have them.
pub(crate) fn open_drives(models: &Models, running: &Running) -> Vec<DriveView> {
    let members = running.pool.membership().state().members;
    let mut replacing = running.replacing();
    let view = |slot: SlotStatus| {
        let row = slot.member.and_then(|id| members.get(id));
        let path = slot
            .member
            .and_then(|id| running.paths.borrow().get(&id).cloned());
        let model = path.as_deref().and_then(|path| models.view(path));
        let drive = drive_name(slot.slot.role, slot.slot.number);
        DriveView {
            pool: running.name.clone(),
            replaced_by: replacing.remove(&drive),
            drive,
            path,
            model,
            state: match slot.state {
                SlotState::Live => "live",
                SlotState::Rebuilding => "rebuilding",
                SlotState::Leaving => "leaving",
                SlotState::Lost => "lost",
            }
            .to_owned(),
            bytes: row.map_or(0, |row| row.size_bytes),
            rebuilt_bytes: slot.rebuild.map(|progress| progress.done),
            rebuild_bytes: slot.rebuild.map(|progress| progress.total),
            faults: Some(FaultsView {
                read_errors: slot.faults.read_errors,
                write_errors: slot.faults.write_errors,
                repairs: slot.faults.repairs,
            }),
        }
    };
    running.pool.slots().into_iter().map(view).collect()
}

impl Pools {
    /// A pool that is not open, by its labels.
    async fn closed_view(&self, entry: &Entry) -> PoolView {
        let scans = self.glance_each(&entry.paths).await;
        let id = random::parse(&entry.id);
        let of_pool = |scan: &&Scan| scan.label().map(|label| label.pool) == id;
        let newest = scan::newest(scans.iter().filter(of_pool).filter_map(Scan::label));
        let mut findings = Vec::new();
        for scan in scans.iter().filter(|scan| !of_pool(scan)) {
            findings.push(crate::open::not_of_pool(scan));
        }
        let drives = newest.map_or_else(Vec::new, |label| {
            closed_drives(entry, label, &usable(label, &scans, &mut findings))
        });
        findings.extend(replacements(&entry.name, &drives));
        if entry.destroying {
            let text = format!(
                "it was being destroyed; `varve pool destroy {}` ends that",
                entry.name
            );
            findings.push(Finding::new(Severity::Warning, "half-destroyed", text));
        } else {
            findings.extend(obstacles(&entry.name, newest, &drives));
        }
        let unopened = self.unopened.borrow();
        if let Some(why) = unopened.get(&entry.name) {
            let text = format!("it was to be opened and stays closed: {why}");
            findings.push(Finding::new(Severity::Warning, "unopened", text));
        }
        let health = match newest {
            _ if entry.destroying || unopened.contains_key(&entry.name) => Health::Faulted,
            Some(_) if drives.iter().all(|drive| drive.state == "live") => Health::Closed,
            Some(label) if can_serve(label, &drives) => Health::Degraded,
            None | Some(_) => Health::Faulted,
        };
        findings.extend(newest.into_iter().flat_map(|label| self.ownership(label)));
        let room = newest.and_then(|label| self.room(label));
        PoolView {
            pool: entry.name.clone(),
            id: entry.id.clone(),
            health,
            is_open: false,
            protect: newest.map_or_else(String::new, |label| protect_word(&label.geometry)),
            fast_copies: fast_copies(&drives),
            raw_bytes: drives.iter().map(|drive| drive.bytes).sum(),
            capacity_bytes: room.map(|room| room.capacity_bytes),
            used_bytes: None,
            unprotected_bytes: None,
            leaves: None,
            leaves_max: room.map(|room| room.leaves_max),
            dense_away: None,
            volumes: None,
            stopped: None,
            counters: BTreeMap::new(),
            jobs: Vec::new(),
            scrub: None,
            drives,
            findings,
        }
    }

    /// Whose a pool is that is not open, if that is to be known.
    fn ownership(&self, label: &Label) -> Vec<Finding> {
        let (pool, who) = (label.name.as_str(), random::hex(&label.owner));
        let warn = |code: &str, text: String| Finding::new(Severity::Warning, code, text);
        let mut findings = Vec::new();
        if self.is_elsewhere(&label.owner) {
            let text = format!(
                "belongs to owner {who}, another machine or state directory; next: `varve pool export {pool}` there, or \
                 `varve pool import --take-over PATH...` if that is gone for good"
            );
            findings.push(warn("owned-elsewhere", text));
        }
        if !label.is_clean {
            let text = format!("in use by owner {who}, or not closed in good order");
            findings.push(warn("not-clean", text));
        }
        findings
    }

    /// True if somebody owns a pool, and it is not this state directory.
    fn is_elsewhere(&self, owner: &[u8; 16]) -> bool {
        *owner != [0; 16] && *owner != self.settings(0).owner.0
    }

    /// What all volumes of a pool may take: it follows from its geometry.
    fn room(&self, label: &Label) -> Option<Room> {
        let sizes = engine_geometry(&label.geometry);
        let share = label.geometry.over_provision_per_mille;
        let raw_bytes = label.members.iter().map(|member| member.size_bytes).sum();
        let config = engine_config(&sizes, share, &self.settings(raw_bytes)).ok()?;
        Some(Room {
            used_bytes: 0,
            capacity_bytes: config.reserve.capacity_blocks * BLOCK_BYTES,
            leaves: 0,
            leaves_max: config.map.leaves_max as u64,
        })
    }
}

/// Drives that hold all they should.
fn live(drives: &[DriveView]) -> impl Iterator<Item = &DriveView> {
    drives.iter().filter(|drive| drive.state == "live")
}

fn has_fast(drives: &[DriveView]) -> bool {
    live(drives).any(|drive| drive.drive.starts_with("fast"))
}

/// True if a pool that is not open has enough drives to serve.
fn can_serve(label: &Label, drives: &[DriveView]) -> bool {
    let is_live = |name: &str| live(drives).any(|drive| drive.drive == name);
    has_fast(drives)
        && has_quorum(label, drives)
        && is_covered(&label.geometry, |slot| {
            is_live(&drive_name(Role::Dense, slot as u8))
        })
}

/// True if the drives of a pool that are there are the majority that its labels take.
fn has_quorum(label: &Label, drives: &[DriveView]) -> bool {
    let is_there = |member: &&Member| {
        let name = place_name(member.role, member.slot);
        let mut there = drives.iter().filter(|drive| drive.path.is_some());
        there.any(|drive| drive.drive == name && drive.state != "lost")
    };
    let is_voter =
        |member: &&Member| matches!(member.state, MemberState::Active | MemberState::Rebuilding);
    let voters = || label.members.iter().filter(is_voter);
    let there: Vec<u32> = voters().filter(is_there).map(|member| member.id).collect();
    let voters = Voters::new(voters().map(|member| MemberId(member.id)).collect());
    voters.is_quorum(|id| there.contains(&id.0))
}

/// What keeps a pool that is not open from being opened, or what its drives that are away ask for.
fn obstacles(pool: &str, label: Option<&Label>, drives: &[DriveView]) -> Vec<Finding> {
    let warn = |code: &str, text: String| vec![Finding::new(Severity::Warning, code, text)];
    let Some(label) = label else {
        let next = gone_next(pool);
        return warn(
            "pool-gone",
            format!("no label of it can be read; next: {next}"),
        );
    };
    if !has_fast(drives) {
        let next = no_fast_next(pool);
        return warn(
            NO_FAST,
            format!("no fast drive of it is left; next: {next}"),
        );
    }
    if !has_quorum(label, drives) {
        let text = format!(
            "the drives that are there are no majority, and do not open it; next: bring the others back, or to do without \
             them for good, with what only they hold: `varve pool import --pool {pool} --accept-loss`"
        );
        return warn("no-quorum", text);
    }
    absences(pool, drives)
}

/// All but those that were put back from a copy, which are told.
fn usable<'a>(newest: &Label, scans: &'a [Scan], findings: &mut Vec<Finding>) -> Vec<&'a Scan> {
    let (behind, usable): (Vec<_>, _) = scans.iter().partition(|scan| is_behind(newest, scan));
    findings.extend(behind.iter().map(|scan| crate::open::put_back(&scan.path)));
    usable
}

/// True if a drive was put back from a copy, as opening the pool finds out too: it is not used then.
pub(crate) fn is_behind(newest: &Label, scan: &Scan) -> bool {
    let label = scan.label().filter(|label| label.pool == newest.pool);
    let is_older = label.is_some_and(|label| {
        let mut rows = newest.members.iter();
        let is_used = rows.any(|row| {
            let is_used = matches!(row.state, MemberState::Active | MemberState::Rebuilding);
            row.id == label.drive && is_used
        });
        is_used && label.epoch < TableGeneration::from_bits(newest.generation).epoch()
    });
    newest.is_clean && is_older
}

/// Drives of a pool that is not open, as its newest label has them.
fn closed_drives(entry: &Entry, label: &Label, scans: &[&Scan]) -> Vec<DriveView> {
    let members = label.members.iter();
    let members = members.filter(|member| member.state != MemberState::Removed);
    let view = |member: &varve_format::Member| {
        let is_it = |scan: &&&Scan| {
            let found = scan.label();
            found.is_some_and(|other| (other.pool, other.drive) == (label.pool, member.id))
        };
        let found = scans.iter().find(is_it);
        let state = match (member.state, found) {
            (MemberState::Failed, _) => "lost",
            (_, None) => "missing",
            (MemberState::Rebuilding, _) => "rebuilding",
            (_, Some(scan)) if scan.bytes() < Some(member.size_bytes) => "truncated",
            _ => "live",
        };
        DriveView {
            pool: entry.name.clone(),
            drive: place_name(member.role, member.slot),
            replaced_by: None,
            path: found.map(|scan| scan.path.clone()),
            state: state.to_owned(),
            bytes: member.size_bytes,
            rebuilt_bytes: None,
            rebuild_bytes: None,
            faults: None,
            model: None,
        }
    };
    let mut views: Vec<_> = members.map(view).collect();
    for view in &mut views {
        let noted = entry.replacing.get(&view.drive).or(view.path.as_ref());
        view.replaced_by = match &*view.state {
            "rebuilding" => noted.cloned(),
            "live" if view.path.as_ref() == noted => None,
            _ => entry.replacing.get(&view.drive).cloned(),
        };
    }
    // Fast before dense, by place; a drive that took another's place has a higher number.
    views.sort_by_key(|view| (!view.drive.starts_with("fast"), view.drive.clone()));
    views
}
