//! Commands to the control plane: where it is asked, how replies and failures are shown.
//!
//! If a daemon listens in the state directory it is asked; else the command opens what it needs
//! itself, under the drives' locks.

use super::Exit;
use super::detached;
use super::failure::{cut_short, keep, tell};
use super::hint::{self, typed, typed_failure, typed_reply};
use crate::envelope;
use clap::Args;
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use varve_control::local::{self, Note};
use varve_control::{
    CheckStep, ControlError, Failure, Finding, Home, JobView, Reply, Request, Severity,
};

/// Options that every command of the control plane has.
#[derive(Args)]
pub(super) struct Front {
    /// State directory [default: /var/lib/varve for root, else $XDG_STATE_HOME/varve, which is
    /// ~/.local/state/varve if that is not set]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Write the result as JSON
    #[arg(long)]
    json: bool,
}

impl Front {
    /// Asks, and shows what comes back: as JSON, or by `show`, which says how the command ended.
    pub(super) fn run(&self, request: Request, show: impl Fn(&Reply) -> Exit) -> Exit {
        match self.ask(request) {
            Ok(reply) if self.json => {
                let exit = judge(&reply);
                show_document(reply);
                exit
            }
            Ok(reply) => show(&reply),
            Err(failure) => fail(&failure),
        }
    }

    /// Asks, shows JSON if that is wanted, and lets `look` look at the reply in either case.
    pub(super) fn run_judged(&self, request: Request, look: impl Fn(&Reply)) -> Exit {
        match self.ask(request) {
            Ok(reply) => {
                look(&reply);
                let exit = judge(&reply);
                if self.json {
                    show_document(reply);
                }
                exit
            }
            Err(failure) => fail(&failure),
        }
    }

    /// A directory that was named and is not there is a mistake: one that lies at the usual place is made by the first
    /// command that has something to remember.
    fn ask(&self, request: Request) -> Result<Reply, Box<Failure>> {
        let home = self.home();
        let is_named = self.state.is_some() && !request.may_be_first();
        if is_named && matches!(Home::find(&home), Ok(None)) {
            return Err(Box::new(ControlError::NoState(home).into()));
        }
        let outcome = local::ask(&home, request, note);
        clear_line();
        outcome
    }

    /// The state directory; next steps name it from now on, if it was given.
    fn home(&self) -> PathBuf {
        hint::set_state(self.state.as_deref());
        self.state.clone().unwrap_or_else(Home::usual)
    }

    /// True if the result is to be JSON.
    pub(super) const fn is_json(&self) -> bool {
        self.json
    }
}

/// Shows what came back as JSON.
fn show_document(mut reply: Reply) {
    typed_reply(&mut reply);
    print!("{}", envelope::tagged(&reply));
}

/// Shows what failed.
pub(super) fn fail(failure: &Failure) -> Exit {
    let mut what = failure.error.clone();
    for cause in &failure.causes {
        what += ": ";
        what += cause;
    }
    show_findings(&failure.findings);
    tell(&what, failure.next.as_deref().unwrap_or(""));
    let mut failure = failure.clone();
    typed_failure(&mut failure);
    let exit = failure.exit;
    keep(failure);
    exit
}

/// How a command ended by its reply: a check that found something wrong failed, and a list that lacks something is
/// not as it should be.
pub(super) fn judge(reply: &Reply) -> Exit {
    match reply {
        Reply::VolumeList { findings, .. } if !findings.is_empty() => Exit::Degraded,
        Reply::PoolCheck(check) if !check.agrees => Exit::Failed,
        Reply::Job(job) if job.scrub.as_ref().is_some_and(|scrub| !scrub.is_clean) => Exit::Failed,
        Reply::PoolRebuild(found) if found.is_partial() => Exit::Degraded,
        _ => Exit::Ok,
    }
}

/// Tells what was found, on standard error.
pub(super) fn show_findings(findings: &[Finding]) {
    for finding in findings {
        let word = match finding.severity {
            Severity::Warning => "warning",
            Severity::Confirm => "found",
            Severity::Refusal => "refused",
        };
        eprintln!("{word}: {}", typed(&finding.to_string()));
    }
}

/// True once a signal came.
static HAS_ENDING: AtomicBool = AtomicBool::new(false);

/// Tells what is waited for, on standard error.
fn note(note: Note<'_>) {
    match note {
        Note::Asked { is_question } => detached::note_asked(is_question),
        Note::Job(job) => {
            detached::note_job(job);
            show_job(job);
        }
        Note::Check(step) => show_check(step),
        Note::Signal(signal) if HAS_ENDING.swap(true, Ordering::Relaxed) => {
            cut_short(signal.into())
        }
        Note::Signal(_) => {
            eprintln!("what was begun is taken back; a second signal ends this at once");
        }
        Note::Queue => eprintln!("another command uses this state directory; it is waited for"),
        Note::Silent(span) => {
            let silence = span.as_secs();
            eprintln!("the daemon has not answered for {silence} s; it may be busy, or suspended");
        }
    }
}

fn show_check(step: &CheckStep) {
    let CheckStep {
        pool,
        of,
        per_cent,
        left_ns,
    } = step;
    // Once a second is for who looks on; a log gets each tenth of a part.
    static TOLD: Mutex<(&str, u64)> = Mutex::new(("", 0));
    let left = left_ns.map_or_else(String::new, |left| {
        format!(", {} s left of them", left / 1_000_000_000)
    });
    let line = format!("check {pool}: {per_cent} % of {of} read{left}");
    if stderr().is_terminal() {
        eprint!("\r\x1b[K{line}");
        return;
    }
    let mut told = TOLD.lock().expect("nobody panics with it");
    if told.0 != *of || *per_cent >= told.1 + 10 || *per_cent < told.1 {
        *told = (of, *per_cent);
        eprintln!("{line}");
    }
}

/// Takes back the line that tells how far something is.
fn clear_line() {
    if stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

fn show_job(job: &JobView) {
    if job.total_bytes == 0 {
        return;
    }
    let share = (job.done_bytes * 100)
        .checked_div(job.total_bytes)
        .unwrap_or(0);
    let rate = super::table::size(job.bytes_per_s);
    let left = job.left_ns.map_or_else(String::new, |left| {
        format!(", {} s left", left / 1_000_000_000)
    });
    let line = format!(
        "job {} {} {}: {share} % of {}, {rate}/s{left}",
        job.job,
        job.does,
        job.what(),
        super::table::size(job.total_bytes),
    );
    if stderr().is_terminal() {
        eprint!("\r\x1b[K{line}");
        if job.done_bytes == job.total_bytes {
            eprintln!();
        }
    } else if share.is_multiple_of(10) {
        eprintln!("{line}");
    }
}

/// `POOL/NAME` of a volume in its parts.
pub(super) fn parse_place(text: &str) -> Result<(String, String), String> {
    split(text).ok_or_else(|| "write POOL/NAME".to_owned())
}

/// `POOL/DRIVE` in its parts.
pub(super) fn parse_slot(text: &str) -> Result<(String, String), String> {
    split(text).ok_or_else(|| "write POOL/DRIVE, as `varve drive list` shows it".to_owned())
}

fn split(text: &str) -> Option<(String, String)> {
    match text.split_once('/') {
        Some((pool, name)) if !pool.is_empty() && !name.is_empty() && !name.contains('/') => {
            Some((pool.to_owned(), name.to_owned()))
        }
        _ => None,
    }
}
