//! `varve check`.

use super::front::{Front, judge};
use super::rebuild::Rebuild;
use super::table::either;
use super::{Exit, complain};
use clap::Args;
use varve_control::{CheckView, Reply, Request};

/// Options of `varve check`.
#[derive(Args)]
#[command(
    override_usage = "varve check <POOL> [OPTIONS]\n       varve check <POOL> --rebuild --fast <PATH>... [OPTIONS]"
)]
pub(crate) struct Options {
    /// The pool; no daemon may have it open
    pool: String,
    #[command(flatten)]
    rebuild: Rebuild,
    #[command(flatten)]
    front: Front,
}

impl Options {
    /// Checks, and ends with code 0 only if all agrees; or makes the map anew.
    pub(crate) fn run(&self) -> Exit {
        if let Some(request) = self.rebuild.request(&self.pool) {
            return self.front.run(request, super::rebuild::show);
        }
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
    if check.broken.is_none() {
        show_counts(check);
    }
    if check.agrees {
        println!("pool {}: map, P2L and checksums agree", check.pool);
        return;
    }
    show_losses(check);
    show_bad(check);
    let (what, next) = verdict(check);
    complain("does-not-agree", &what, &next);
}

fn show_counts(check: &CheckView) {
    println!(
        "{} blocks ({} fast, {} dense), {} leaves, {} stripes, {} checkpoint parts read by every copy",
        check.mapped_blocks,
        check.fast_blocks,
        check.dense_blocks,
        check.leaves,
        check.stripes,
        check.parts
    );
}

/// What is said of drives that are away, or filled.
pub(super) const ONE_AWAY: &str = "drive does not hold all it should";
pub(super) const SEVERAL_AWAY: &str = "drives do not hold all they should";

/// What is lost, for whoever has to bring it back.
fn show_losses(check: &CheckView) {
    for loss in &check.losses {
        println!("{loss} cannot be read");
    }
    let more = check.loss_ranges.saturating_sub(check.losses.len() as u64);
    if more > 0 {
        println!("and {more} more");
    }
    if check.is_partial {
        println!("not every block was looked at: more may be lost");
    } else if check.broken.is_some() && check.loss_ranges == 0 {
        println!("every block of every volume can be read");
    }
}

/// Who holds the copies that do not pass their check.
fn show_bad(check: &CheckView) {
    for bad in &check.bad_drives {
        let path = bad
            .path
            .as_ref()
            .map(|path| format!(" ({})", path.display()));
        let (path, copies) = (path.unwrap_or_default(), bad.copies);
        let copies = either(
            copies,
            "copy does not pass its check",
            "copies do not pass their check",
        );
        println!("drive {}{path}: {copies}", bad.drive);
    }
    let named: u64 = check.bad_drives.iter().map(|bad| bad.copies).sum();
    let unnamed = check.bad_copies.saturating_sub(named);
    if unnamed > 0 {
        println!(
            "of no drive alone: {unnamed} more, stripes of which it cannot be told who does not fit"
        );
    }
}

/// What mends copies that do not pass their check. A drive may be filled from the others alone only if none
/// of those holds anything wrong.
fn mending(check: &CheckView) -> String {
    let named: u64 = check.bad_drives.iter().map(|bad| bad.copies).sum();
    match &check.bad_drives[..] {
        [one] if named == check.bad_copies => format!(
            "varve drive replace {}/{} PATH --give-up --from-others: another drive, at PATH, is filled from the \
             others, which hold everything; this one may be used again once it is wiped. If it is to stay: varve pool \
             scrub {} mends what is wrong on it",
            check.pool, one.drive, check.pool
        ),
        _ => format!(
            "give up none of the drives yet: what one holds wrong is on the others alone. varve pool scrub {} writes it \
             again from what is right, parity too; then varve check {} again",
            check.pool, check.pool
        ),
    }
}

/// What is wrong, and what to do about it.
fn verdict(check: &CheckView) -> (String, String) {
    let mut faults = Vec::new();
    if let Some(broken) = &check.broken {
        faults.push(broken.clone());
    }
    let mut note = |number: u64, one: &str, several: &str| {
        if number > 0 {
            faults.push(either(number, one, several));
        }
    };
    note(
        check.unreadable_blocks,
        "block cannot be read",
        "blocks cannot be read",
    );
    note(
        check.bad_copies,
        "copy does not pass its check, another one does",
        "copies do not pass their check, another copy does",
    );
    note(
        check.lost_blocks,
        "block was declared lost",
        "blocks were declared lost",
    );
    note(
        check.damaged_ranges,
        "range of the log was lost",
        "ranges of the log were lost",
    );
    note(check.drives_away, ONE_AWAY, SEVERAL_AWAY);
    note(
        check.stripes_away,
        "stripe could not be compared with what names its blocks while a drive is away",
        "stripes could not be compared with what names their blocks while a drive is away",
    );
    let next = next_of(check);
    let what = format!("pool {}: {}", check.pool, faults.join("; "));
    (what, next)
}

/// What to do about what is worst of it. There is always something.
fn next_of(check: &CheckView) -> String {
    let pool = &check.pool;
    if check.drives_away > 0 || check.stripes_away > 0 {
        return format!("varve pool status {pool} names them, and what goes on with each");
    }
    if check.loss_ranges > 0 || check.lost_blocks > 0 {
        return "write what is lost once more from a backup: a block that is written is whole"
            .to_owned();
    }
    // Nothing was counted behind it, so no drive is known to be the only one that is wrong.
    if check.broken.is_some() {
        return format!(
            "back up the volumes, then make the pool anew (varve pool destroy {pool} --with-volumes) and bring them \
             back; report what was found as a bug, unless drives were written to by others"
        );
    }
    if check.bad_copies > 0 {
        return mending(check);
    }
    // Which blocks they were of nobody knows.
    format!(
        "compare what was written last before the pool was opened with a backup, and write it once more where it \
         differs; varve check {pool} once more tells whether anything else is wrong"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_control::BadDrive;

    fn found(drives: &[(&str, u64)], unnamed: u64) -> String {
        let bad = |(drive, copies): &(&str, u64)| BadDrive {
            drive: (*drive).to_owned(),
            path: None,
            copies: *copies,
        };
        let named: u64 = drives.iter().map(|drive| drive.1).sum();
        verdict(&CheckView {
            pool: "p".to_owned(),
            bad_copies: named + unnamed,
            bad_drives: drives.iter().map(bad).collect(),
            ..CheckView::default()
        })
        .1
    }

    /// What could not be compared is told, and is no agreement; so is a drive that went away meanwhile.
    #[test]
    fn what_was_not_compared_is_told() {
        let (what, next) = verdict(&CheckView {
            pool: "p".to_owned(),
            stripes_away: 3,
            ..CheckView::default()
        });
        assert!(what.starts_with("pool p: 3 stripes could not"), "{what}");
        assert!(next.starts_with("varve pool status p"), "{next}");
    }

    /// Whatever alone is wrong, there is something to do about it: each count of a view, as programs get it, is made
    /// the only one.
    #[test]
    fn whatever_is_wrong_has_a_next_step() {
        let view = CheckView {
            pool: "p".to_owned(),
            ..CheckView::default()
        };
        // Taken apart by name: a count that is added is missed here.
        let CheckView {
            pool: _,
            agrees: _,
            broken: _,
            bad_copies: _,
            bad_drives: _,
            losses: _,
            loss_ranges: _,
            unreadable_blocks: _,
            is_partial: _,
            lost_blocks: _,
            damaged_ranges: _,
            drives_away: _,
            leaves: _,
            mapped_blocks: _,
            fast_blocks: _,
            dense_blocks: _,
            stripes: _,
            stripes_away: _,
            parts: _,
            redone_records: _,
            redone_of_hosts: _,
        } = view.clone();
        let broken = CheckView {
            broken: Some("a leaf names a block twice".to_owned()),
            ..view.clone()
        };
        let mut wrong = vec![broken];
        for change in [
            (|view| view.bad_copies = 1) as fn(&mut CheckView),
            |view| view.loss_ranges = 1,
            |view| view.unreadable_blocks = 1,
            |view| view.lost_blocks = 1,
            |view| view.damaged_ranges = 1,
            |view| view.drives_away = 1,
            |view| view.stripes_away = 1,
        ] {
            let mut view = view.clone();
            change(&mut view);
            wrong.push(view);
        }
        for view in &wrong {
            assert!(!verdict(view).1.is_empty(), "{view:?}");
        }
    }

    /// Behind what is broken nothing was counted: no drive is given up for what was found before.
    #[test]
    fn no_drive_is_given_up_where_the_map_is_broken() {
        let (_, next) = verdict(&CheckView {
            pool: "p".to_owned(),
            broken: Some("a leaf names a block twice".to_owned()),
            bad_copies: 1,
            bad_drives: vec![BadDrive {
                drive: "dense1".to_owned(),
                path: None,
                copies: 1,
            }],
            ..CheckView::default()
        });
        assert!(next.starts_with("back up the volumes"), "{next}");
    }

    /// To give a drive up is advised only where all that is wrong is on it.
    #[test]
    fn a_drive_is_given_up_only_if_the_others_are_right() {
        let one = found(&[("dense1", 693)], 0);
        let advice = "varve drive replace p/dense1 PATH --give-up --from-others";
        assert!(one.starts_with(advice), "{one}");
        for (drives, unnamed) in [
            (&[("dense1", 693)][..], 5611),
            (&[("dense1", 693), ("dense2", 1)], 0),
            (&[], 3),
        ] {
            let next = found(drives, unnamed);
            assert!(next.starts_with("give up none"), "{next}");
            assert!(!next.contains("drive replace"), "{next}");
        }
    }
}
