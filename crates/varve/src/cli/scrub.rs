//! `varve pool scrub`.

use super::check::{ONE_AWAY, SEVERAL_AWAY};
use super::front::{Front, judge, show_findings};
use super::table::{count, either, size};
use super::{Exit, complain};
use clap::Args;
use varve_control::{JobView, Reply, Request, ScrubPool, ScrubView, parse_bytes};

/// Options of `varve pool scrub`.
#[derive(Args)]
pub(crate) struct Scrub {
    /// Name of the pool
    name: String,
    /// Read at most so much a second, of all drives together [default: 200MB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, conflicts_with_all = ["no_limit", "stop"])]
    limit: Option<u64>,
    /// Read as fast as the drives give; reads and writes of hosts go first all the same
    #[arg(long, conflicts_with = "stop")]
    no_limit: bool,
    /// End the scrub that a daemon has at work
    #[arg(long)]
    stop: bool,
    #[command(flatten)]
    front: Front,
}

impl Scrub {
    /// Scrubs, and ends with code 0 only if nothing is wrong any more and everything could be compared.
    pub(crate) fn run(&self) -> Exit {
        let pool = self.name.clone();
        if self.stop {
            return self
                .front
                .run(Request::PoolScrubStop { pool }, show_stopped);
        }
        let limit_bytes_per_s = match self.no_limit {
            true => Some(0),
            false => self.limit,
        };
        let request = ScrubPool {
            pool,
            limit_bytes_per_s,
        };
        self.front.run(Request::PoolScrub(request), |reply| {
            if let Reply::Job(job) = reply {
                show(job);
            }
            judge(reply)
        })
    }
}

fn show_stopped(reply: &Reply) -> Exit {
    if let Reply::PoolDone { pool, findings } = reply {
        match findings.is_empty() {
            true => println!("the scrub of pool {pool} has ended"),
            false => show_findings(findings),
        }
    }
    Exit::Ok
}

fn show(job: &JobView) {
    let Some(scrub) = &job.scrub else {
        return;
    };
    println!(
        "{} read: {} and {} compared",
        size(scrub.read_bytes),
        count(scrub.blocks, "block"),
        count(scrub.records, "record")
    );
    println!("{}", mended(scrub));
    for loss in &scrub.losses {
        println!("{loss} cannot be read");
    }
    let more = scrub.loss_ranges.saturating_sub(scrub.losses.len() as u64);
    if more > 0 {
        println!("and {more} more");
    }
    if scrub.is_clean {
        println!("pool {}: nothing is wrong now", job.pool);
        return;
    }
    let (what, next) = verdict(&job.pool, scrub);
    complain("scrub-found", &what, &next);
}

/// What was wrong and is no longer.
pub(super) fn mended(scrub: &ScrubView) -> String {
    let (copies, parity) = (scrub.mended_copies, scrub.mended_parity);
    match copies + parity {
        0 => "no copy and no parity was mended".to_owned(),
        _ => format!(
            "{} and {} of parity were wrong and were written again",
            either(copies, "copy", "copies"),
            count(parity, "block")
        ),
    }
}

/// What is still wrong, or not known, and what to do about it.
fn verdict(pool: &str, scrub: &ScrubView) -> (String, String) {
    let mut faults = Vec::new();
    let mut note = |number: u64, one: &str, several: &str| {
        if number > 0 {
            faults.push(either(number, one, several));
        }
    };
    note(
        scrub.unreadable_blocks,
        "block cannot be read",
        "blocks cannot be read",
    );
    note(
        scrub.unknown,
        "stripe or part of the log of which nothing says the content any more",
        "stripes or parts of the log of which nothing says the content any more",
    );
    note(
        scrub.failures,
        "wrong copy could not be written",
        "wrong copies could not be written",
    );
    note(scrub.drives_away, ONE_AWAY, SEVERAL_AWAY);
    note(
        scrub.away,
        "stripe or part of the log could not be compared because a drive is away",
        "stripes or parts of the log could not be compared because a drive is away",
    );
    let what = format!("pool {pool}: {}", faults.join("; "));
    (what, next_of(pool, scrub))
}

/// What to do about what is worst of it.
fn next_of(pool: &str, scrub: &ScrubView) -> String {
    if scrub.unreadable_blocks > 0 {
        return "write what cannot be read once more from a backup: a block that is written is whole"
            .to_owned();
    }
    if scrub.unknown > 0 {
        return format!(
            "back up the volumes; varve check {pool}, when it is closed, tells everything that is wrong"
        );
    }
    if scrub.failures > 0 {
        return format!(
            "varve drive list {pool} tells which drives answered badly; varve drive replace {pool}/DRIVE PATH \
             --give-up puts another one in the place of such a drive"
        );
    }
    format!(
        "varve pool status {pool} names the drives, and what goes on with each; scrub again when they are back"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever alone is wrong is said, with something to do about it; what was mended is nothing to do.
    #[test]
    fn whatever_is_wrong_has_a_next_step() {
        for (change, said) in [
            (
                (|view| view.unreadable_blocks = 3) as fn(&mut ScrubView),
                "3 blocks cannot",
            ),
            (|view| view.unknown = 1, "1 stripe or part"),
            (|view| view.failures = 2, "2 wrong copies"),
            (|view| view.drives_away = 1, "1 drive does not"),
            (|view| view.away = 4, "4 stripes or parts"),
        ] {
            let mut view = ScrubView::default();
            change(&mut view);
            let (what, next) = verdict("p", &view);
            assert!(what.starts_with(&format!("pool p: {said}")), "{what}");
            assert!(!next.is_empty());
        }
        let view = ScrubView {
            mended_copies: 1,
            mended_parity: 2,
            ..ScrubView::default()
        };
        let told = "1 copy and 2 blocks of parity were wrong and were written again";
        assert_eq!(mended(&view), told);
    }
}
