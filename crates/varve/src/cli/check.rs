//! `varve check`.

use super::front::{Front, judge};
use super::{Exit, complain};
use clap::Args;
use varve_control::{CheckView, Reply, Request};

/// Options of `varve check`.
#[derive(Args)]
pub(crate) struct Options {
    /// The pool; no daemon may have it open
    pool: String,
    #[command(flatten)]
    front: Front,
}

impl Options {
    /// Checks, and ends with code 0 only if all agrees.
    pub(crate) fn run(&self) -> Exit {
        let pool = self.pool.clone();
        self.front.run(Request::PoolCheck { pool }, |reply| {
            if let Reply::PoolCheck(check) = reply {
                show(check);
            }
            judge(reply)
        })
    }
}

fn show(check: &CheckView) {
    println!(
        "{} blocks ({} fast, {} dense), {} leaves, {} stripes, {} checkpoint parts read by every copy",
        check.mapped_blocks,
        check.fast_blocks,
        check.dense_blocks,
        check.leaves,
        check.stripes,
        check.parts
    );
    if check.agrees {
        println!("pool {}: map, P2L and checksums agree", check.pool);
        return;
    }
    let mut faults = Vec::new();
    if let Some(broken) = &check.broken {
        faults.push(broken.clone());
    }
    let mut count = |number: u64, what: &str| {
        if number > 0 {
            faults.push(format!("{number} {what}"));
        }
    };
    count(
        check.bad_copies,
        "copies do not pass their check, another copy does",
    );
    count(check.lost_blocks, "blocks were declared lost");
    count(check.damaged_ranges, "ranges of the log were lost");
    count(check.drives_away, "drives do not hold all they should");
    let next = if check.drives_away > 0 {
        format!("varve drive list {}", check.pool)
    } else {
        String::new()
    };
    complain(
        &format!("pool {}: {}", check.pool, faults.join("; ")),
        &next,
    );
}
