//! What of a pool does not answer although no drive was given up: drives that fail, or say nothing, and that the others
//! cannot do without.
//!
//! Such a drive stays `live`: to give it up would be to lose what it alone holds. It shows in what the engine meets, stripes that
//! the dense tier refuses now and reads that were refused lately, and in labels that it did not take.
//!
//! **Not here**: drives that were given up, or are missing (`status`).

use crate::finding::{Finding, Severity};
use crate::running::Running;
use crate::status::drive_name;
use crate::trouble::Trouble;
use crate::view::{DriveView, FaultsView, Health};
use varve_ftl::DenseOutage;
use varve_pool::SlotState;
use varve_units::Nanos;

/// How long reads count that were refused. Arbitrary: hosts ask again within less, and who looks comes once a second.
const READS_KEPT: Nanos = Nanos::from_secs(10);
/// Heartbeats that a drive is behind another one to be called silent: as many as tell others that an owner is.
const SILENT_BEATS: u64 = 3;

/// What does not answer.
pub(crate) struct Away {
    dense: Option<DenseOutage>,
    /// Drives of the dense tier that answered writes with errors since the pool was opened.
    refusing: Vec<String>,
    has_refused_reads: bool,
    /// Drives that take no labels.
    silent: Vec<String>,
    /// True if the labels note nothing more until the pool is opened again: a commit of theirs found no quorum.
    has_ended_labels: bool,
}

/// Reads that were refused because a tier did not answer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Refusals {
    /// As counted last.
    known: u64,
    /// When there were more than before.
    last: Option<Nanos>,
}

impl Refusals {
    /// True if some came since one looked last, or a moment before that; there are `count` of them by now.
    fn are_recent(&mut self, count: u64, now: Nanos) -> bool {
        if count > self.known {
            *self = Self {
                known: count,
                last: Some(now),
            };
        }
        self.last.is_some_and(|last| now.since(last) < READS_KEPT)
    }
}

impl Running {
    /// What does not answer now, of a pool whose drives are these.
    pub(crate) fn away(&self, now: Nanos, drives: &[DriveView]) -> Away {
        let engine = self.pool.engine();
        // One that has stopped is told as that.
        let dense = engine.dense_outage();
        let dense = dense.filter(|_| engine.stop_reason().is_none());
        let failed = |of: fn(&FaultsView) -> u64, drive: &&DriveView| {
            let is_seated = matches!(&*drive.state, "live" | "leaving");
            is_seated && drive.faults.as_ref().is_some_and(|faults| of(faults) > 0)
        };
        let refusing = drives
            .iter()
            .filter(|drive| drive.drive.starts_with("dense"))
            .filter(|drive| failed(|faults| faults.write_errors, drive));
        Away {
            refusing: refusing.map(|drive| drive.drive.clone()).collect(),
            dense,
            has_refused_reads: self.has_refused_reads(now),
            silent: self.silent(),
            has_ended_labels: self.has_ended_labels() && engine.stop_reason().is_none(),
        }
    }

    /// True if no change of its drives can be noted any more until it is opened again.
    pub(crate) fn has_ended_labels(&self) -> bool {
        self.pool.membership().is_stopped()
    }

    /// True if reads of hosts were refused a moment ago because a tier did not answer.
    fn has_refused_reads(&self, now: Nanos) -> bool {
        let counters = self.pool.engine().counters();
        let count = counters.get("reads_away").copied().unwrap_or(0);
        let mut refusals = self.refused_reads.get();
        let is_recent = refusals.are_recent(count, now);
        self.refused_reads.set(refusals);
        is_recent
    }

    /// Live drives that are several heartbeats behind what another one took. Those that the others can do without are given
    /// up sooner.
    fn silent(&self) -> Vec<String> {
        let beats = self.pool.membership().heartbeats();
        let newest = beats.values().max().copied().unwrap_or(0);
        let slots = self.pool.slots().into_iter();
        let silent = slots.filter(|slot| {
            let beat = slot.member.and_then(|id| beats.get(&id));
            slot.state == SlotState::Live && beat.is_some_and(|beat| newest - beat >= SILENT_BEATS)
        });
        silent
            .map(|slot| drive_name(slot.slot.role, slot.slot.number))
            .collect()
    }
}

impl Away {
    /// How a pool fares at best with that.
    pub(crate) fn health(&self) -> Health {
        match self.dense {
            Some(outage) if outage.holds_hosts => Health::Faulted,
            None if self.troubles().is_empty() => Health::Ok,
            _ => Health::Degraded,
        }
    }

    /// True while the dense tier refuses stripes.
    pub(crate) const fn is_dense_away(&self) -> bool {
        self.dense.is_some()
    }

    pub(crate) fn findings(&self, pool: &str) -> Vec<Finding> {
        let warn = |code: &str, text: String| Finding::new(Severity::Warning, code, text);
        let mut findings = Vec::new();
        if let Some(outage) = self.dense {
            findings.push(warn("dense-away", self.dense_text(pool, outage)));
        }
        for drive in &self.silent {
            let text = format!(
                "drive {drive} takes no labels, and the others cannot do without it; next: `varve drive list {pool}` tells \
                 where it is and what it did, to bring it back"
            );
            findings.push(warn("drive-silent", text));
        }
        if self.has_refused_reads {
            let text = format!(
                "reads of hosts fail because a drive does not answer that the others cannot do without; next: \
                 `varve drive list {pool}` tells which one answers with errors"
            );
            findings.push(warn("reads-away", text));
        }
        if self.has_ended_labels {
            let text = format!(
                "its labels found no quorum and note nothing more: hosts go on until a drive fails, whose loss cannot be \
                 noted; next: bring the drives back that `varve drive list {pool}` tells errors of, then `varve pool \
                 import --pool {pool}` opens it anew"
            );
            findings.push(warn("labels-ended", text));
        }
        findings
    }

    fn dense_text(&self, pool: &str, outage: DenseOutage) -> String {
        let what = match outage.is_full {
            true => "there is no room beneath the dense tier".to_owned(),
            false => format!("the dense tier takes no writes{}", told(&self.refusing)),
        };
        let hosts = match (outage.holds_hosts, outage.refuses_hosts) {
            (true, true) => "the fast tier is full, and hosts' writes are refused",
            (true, false) => "the fast tier is full, and hosts' writes wait",
            (false, _) => "what hosts write stays in the fast tier as long as that has room",
        };
        let next = match outage.is_full {
            true => {
                format!("`varve drive list {pool}` tells where its drives are, to make room there")
            }
            false => format!(
                "`varve drive list {pool}` tells which drive answers with errors, to bring it back; one that failed a \
                 flush is used again when its pool was opened anew (restart the daemon)"
            ),
        };
        format!("{what}: {hosts}; it is tried again all the time; next: {next}")
    }

    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        let mut troubles = Vec::new();
        if self.is_dense_away() {
            let drives = self.refusing.clone();
            troubles.push(Trouble::DenseAway { drives });
        }
        let silent = self.silent.iter().cloned();
        troubles.extend(silent.map(|drive| Trouble::Silent { drive }));
        if self.has_refused_reads {
            troubles.push(Trouble::ReadsAway);
        }
        if self.has_ended_labels {
            troubles.push(Trouble::LabelsEnded);
        }
        troubles
    }
}

/// The drives that something is said of, in brackets; nothing if none is known.
pub(crate) fn told(drives: &[String]) -> String {
    match drives.is_empty() {
        true => String::new(),
        false => format!(" (errors of {})", drives.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads that are refused are told of for a while, and again when there are more.
    #[test]
    fn refused_reads_are_told_of_for_a_while() {
        let mut refusals = Refusals::default();
        let seconds = [
            (0, 0, false),
            (3, 1, true),
            (3, 10, true),
            (3, 11, false),
            (4, 60, true),
        ];
        for (count, second, is_told) in seconds {
            let now = Nanos::from_secs(second);
            assert_eq!(refusals.are_recent(count, now), is_told, "{second} s");
        }
    }

    /// Whatever does not answer is a finding, a trouble and no health; hosts that are held up are a fault.
    #[test]
    fn what_does_not_answer_is_told() {
        let none = || Away {
            dense: None,
            refusing: Vec::new(),
            has_refused_reads: false,
            silent: Vec::new(),
            has_ended_labels: false,
        };
        let outage = |holds_hosts| DenseOutage {
            streams: 1,
            refuses_hosts: false,
            is_full: false,
            holds_hosts,
        };
        let reads = Away {
            has_refused_reads: true,
            ..none()
        };
        let silent = Away {
            silent: vec!["dense0".to_owned()],
            ..none()
        };
        let labels = Away {
            has_ended_labels: true,
            ..none()
        };
        let dense = |holds_hosts| Away {
            dense: Some(outage(holds_hosts)),
            ..none()
        };
        for (away, code, health) in [
            (reads, "reads-away", Health::Degraded),
            (silent, "drive-silent", Health::Degraded),
            (labels, "labels-ended", Health::Degraded),
            (dense(false), "dense-away", Health::Degraded),
            (dense(true), "dense-away", Health::Faulted),
        ] {
            let [found] = &away.findings("p")[..] else {
                panic!("one finding: {code}");
            };
            assert_eq!((&*found.code, away.health()), (code, health));
            assert!(found.text.contains("`varve drive list p`"), "{found}");
            assert_eq!(away.troubles().len(), 1, "{code}");
        }
        let none = none();
        assert_eq!((none.health(), none.findings("p").len()), (Health::Ok, 0));
        assert!(none.troubles().is_empty());
    }
}
