//! Pools that are scrubbed while they are open: what is mended, what is named, how a scrub ends.

use crate::common::{MIB, Scratch, ended, new_pool, new_volume, pattern, session};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use varve_control::{
    CreatePool, Exit, Failure, JobState, Pools, Protect, ScrubPool, ScrubView, Severity,
};
use varve_units::Lba;

/// Blocks of the volume: more than the fast drives hold.
const BLOCKS: u64 = 30_000;

/// A new pool whose volume is written over one and a half times, so that there are dead blocks too.
async fn load(pools: &Pools, wanted: &CreatePool) {
    pools.create_pool(wanted).await.unwrap();
    let volume = new_volume(&wanted.pool, "v", BLOCKS * 4096 / MIB + 1);
    let volume = pools.create_volume(&volume).await.unwrap();
    for (version, end) in [(1, BLOCKS), (2, BLOCKS / 2)] {
        for first in (0..end).step_by(40) {
            let data = pattern(first, 40, version);
            volume.write(Lba(first), data, false).await.unwrap();
        }
    }
    volume.flush().await.unwrap();
}

/// Flips a bit in every so many bytes of what a drive holds, its labels apart.
fn rot(path: &Path, every: u64) {
    let file: File = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let bytes = file.metadata().unwrap().len();
    for at in (MIB..bytes).step_by(every as usize) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    }
}

fn of(limit_bytes_per_s: u64) -> ScrubPool {
    ScrubPool {
        pool: "p".to_owned(),
        limit_bytes_per_s: Some(limit_bytes_per_s),
    }
}

async fn scrub(pools: &Rc<Pools>) -> ScrubView {
    let job = ended(pools, pools.scrub_pool(&of(0)).unwrap()).await;
    assert_eq!(job.state, JobState::Done, "{job:?}");
    assert_eq!((job.does.as_str(), job.what().as_str()), ("scrub", "p"));
    assert!(job.total_bytes > MIB && job.done_bytes == job.total_bytes);
    *job.scrub.expect("a scrub that has ended")
}

/// One drive of each tier is rotten in many places, data, parity, map and log: a scrub mends all of it while the pool is
/// open, which a check of everything agrees to.
#[test]
fn a_scrub_mends_what_a_drive_of_each_tier_has_wrong() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = new_pool(&scratch, "p");
    let (fast, dense) = (wanted.fast[1].path.clone(), wanted.dense[2].path.clone());
    session(&home, |pools| async move {
        load(&pools, &wanted).await;
        pools.close_all().await;
    });
    rot(&fast, 97 * 512);
    rot(&dense, 61 * 512);
    session(&home, |pools| async move {
        pools.open("p").await.unwrap();
        let view = scrub(&pools).await;
        assert!(view.is_clean && view.is_whole, "{view:?}");
        assert!(
            view.mended_copies > 100 && view.mended_parity > 20,
            "{view:?}"
        );
        let check = pools.check_pool("p").await.unwrap();
        assert!(check.agrees, "{check:?}");
        let status = pools.status("p").await.unwrap();
        let last = status.scrub.clone().expect("it is remembered");
        assert_eq!(status.counters["scrub_repairs"], view.mended_copies);
        let now = ScrubView {
            ended_ago_ns: last.ended_ago_ns,
            ..view
        };
        assert_eq!(last, now);
        assert!(status.jobs.is_empty());
        let found = status
            .findings
            .iter()
            .any(|finding| finding.code == "scrub");
        assert!(!found, "nothing is left to do: {status:?}");
        assert_eq!(scrub(&pools).await.mended_copies, 0);
        pools.close_all().await;
    });
}

/// Without redundancy what is rotten is named as a check names it, and a finding stays until a scrub finds nothing.
#[test]
fn what_no_drive_gives_back_is_named() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = CreatePool {
        dense: scratch.drives("d", 1, 256),
        protect: Some(Protect::None),
        ..new_pool(&scratch, "p")
    };
    let dense = wanted.dense[0].path.clone();
    session(&home, |pools| async move {
        load(&pools, &wanted).await;
        pools.close_all().await;
    });
    rot(&dense, 517 * 4096);
    session(&home, |pools| async move {
        pools.open("p").await.unwrap();
        let view = scrub(&pools).await;
        assert!(
            view.is_whole && !view.is_clean && view.has_broken(),
            "{view:?}"
        );
        let status = pools.status("p").await.unwrap();
        let mut findings = status.findings.iter();
        let finding = findings.find(|finding| finding.code == "scrub");
        assert_eq!(
            finding.map(|finding| finding.severity),
            Some(Severity::Warning)
        );
        let check = pools.check_pool("p").await.unwrap();
        assert_eq!(view.unreadable_blocks, check.unreadable_blocks, "{view:?}");
        assert_eq!(view.losses, check.losses);
        // What is written once more is whole.
        let volume = pools.volume("p", "v").unwrap();
        for loss in &view.losses {
            for lba in loss.lba..loss.lba + loss.blocks {
                volume
                    .write(Lba(lba), pattern(lba, 1, 3), false)
                    .await
                    .unwrap();
            }
        }
        let after = scrub(&pools).await;
        assert!(after.is_clean, "{after:?}");
        let status = pools.status("p").await.unwrap();
        assert!(
            status
                .findings
                .iter()
                .all(|finding| finding.code != "scrub")
        );
        drop(volume);
        pools.close_all().await;
    });
}

/// Who asks for a scrub while one is at work gets that one, unless it is to have another limit. It ends when it is told to, and with the pool.
#[test]
fn a_scrub_ends_when_it_is_told_to_and_with_its_pool() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = new_pool(&scratch, "p");
    session(&home, |pools| async move {
        load(&pools, &wanted).await;
        assert!(
            pools
                .scrub_pool(&ScrubPool {
                    pool: "q".to_owned(),
                    ..of(0)
                })
                .is_err()
        );
        // Minutes of work.
        let first = pools.scrub_pool(&of(100_000)).unwrap();
        let any = ScrubPool {
            limit_bytes_per_s: None,
            ..of(0)
        };
        for same in [of(100_000), any] {
            assert_eq!(pools.scrub_pool(&same).unwrap().job, first.job);
        }
        let refused = Failure::from(pools.scrub_pool(&of(0)).unwrap_err());
        assert_eq!(
            (refused.exit, &*refused.code),
            (Exit::Conflict, "scrub-at-work")
        );
        assert_eq!(pools.status("p").await.unwrap().jobs, [first.job]);
        assert!(pools.stop_scrub("p").await.unwrap().is_empty());
        let job = pools.job(first.job).unwrap();
        assert_eq!(job.state, JobState::Failed);
        assert_eq!(job.failure.as_ref().unwrap().code, "scrub-ended");
        assert!(!job.scrub.unwrap().is_whole);
        assert_eq!(pools.stop_scrub("p").await.unwrap()[0].code, "no-scrub");
        let second = pools.scrub_pool(&of(100_000)).unwrap();
        assert_ne!(second.job, first.job);
        let closed = pools.close_all().await;
        assert!(
            closed.iter().all(|(_, outcome)| outcome.is_ok()),
            "{closed:?}"
        );
        let job = ended(&pools, pools.job(second.job).unwrap()).await;
        assert_eq!(job.failure.unwrap().code, "scrub-ended");
    });
}
