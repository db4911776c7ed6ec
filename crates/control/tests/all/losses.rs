//! A check names everything that is lost, not the first of it only.

use crate::common::{MIB, Scratch, new_pool, new_volume, pattern, session};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use varve_control::{CheckView, CreatePool, Health, Pools, Protect};
use varve_ftl::EngineError;
use varve_io::Blocks;
use varve_units::Lba;

/// Blocks of the volume that is damaged: more than the fast tier holds.
const BLOCKS: u64 = 28_000;
/// Blocks of a write.
const RUN: u64 = 40;
/// Ranges that a check names.
const NAMED_MAX: usize = 100;

/// A pool without redundancy: what is damaged is lost.
fn frail(scratch: &Scratch) -> CreatePool {
    CreatePool {
        fast: scratch.drives("fast", 1, 64),
        dense: scratch.drives("dense", 2, 128),
        protect: Some(Protect::None),
        ..new_pool(scratch, "p")
    }
}

/// Flips a byte of each 4 KiB in these MiB of a drive.
fn damage(path: &Path, mib: std::ops::Range<u64>) {
    let options = OpenOptions::new().read(true).write(true).open(path);
    let file = options.expect("a drive");
    for at in (mib.start * MIB..mib.end * MIB).step_by(4096) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("a byte");
        file.write_all_at(&[byte[0] ^ 0x40], at).expect("a byte");
    }
}

/// Blocks that cannot be read, one after the other, as ranges.
async fn lost_ranges(pools: &Pools) -> Vec<(u64, u64)> {
    let volume = pools.volume("p", "w").unwrap();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for lba in 0..BLOCKS {
        match volume.read(Lba(lba), Blocks::zeroed(1)).await {
            Ok(read) => assert!(read.bytes() == pattern(lba, 1, 2).bytes(), "block {lba}"),
            Err(EngineError::Lost(..)) => match ranges.last_mut() {
                Some((first, blocks)) if *first + *blocks == lba => *blocks += 1,
                _ => ranges.push((lba, 1)),
            },
            Err(error) => panic!("block {lba}: {error}"),
        }
    }
    ranges
}

fn is_told(check: &CheckView, ranges: &[(u64, u64)]) {
    assert_eq!(check.loss_ranges, ranges.len() as u64, "{check:?}");
    let blocks: u64 = ranges.iter().map(|(_, blocks)| blocks).sum();
    assert_eq!(check.unreadable_blocks, blocks);
    assert!(!check.is_partial && !check.agrees);
    assert_eq!(check.losses.len(), ranges.len().min(NAMED_MAX));
    for (loss, (first, blocks)) in check.losses.iter().zip(ranges) {
        assert_eq!(loss.volume, "w");
        assert_eq!((loss.lba, loss.blocks), (*first, *blocks));
        assert_eq!(
            (loss.offset_bytes, loss.bytes),
            (first * 4096, blocks * 4096)
        );
    }
}

/// All that is lost is named, by volume; the volume beside it is not, and what is written again is whole.
#[test]
fn a_check_names_all_that_is_lost() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = frail(&scratch);
    let dense = wanted.dense[0].path.clone();
    session(&home, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        pools
            .create_volume(&new_volume("p", "v", 64))
            .await
            .unwrap();
        let volume = new_volume("p", "w", 4096);
        let volume = pools.create_volume(&volume).await.unwrap();
        for first in (0..BLOCKS).step_by(RUN as usize) {
            let data = pattern(first, RUN as usize, 2);
            volume.write(Lba(first), data, false).await.unwrap();
        }
        volume.flush().await.unwrap();
        pools.close_all().await;
    });
    damage(&dense, 8..12);
    damage(&dense, 20..21);
    session(&home, |pools| async move {
        pools.open("p").await.unwrap();
        let check = pools.check_pool("p").await.unwrap();
        let broken = check.broken.clone().expect("something is broken");
        assert!(broken.starts_with("volume w, byte "), "{broken}");
        let ranges = lost_ranges(&pools).await;
        println!("{} ranges are lost: {broken}", ranges.len());
        assert!(!ranges.is_empty(), "nothing was hit");
        is_told(&check, &ranges);
        let status = pools.status("p").await.unwrap();
        assert_eq!(status.health, Health::Damaged, "{status:?}");
        assert!(
            status
                .findings
                .iter()
                .any(|found| found.code == "blocks-lost")
        );
        let volume = pools.volume("p", "w").unwrap();
        for (first, blocks) in ranges {
            let data = pattern(first, blocks as usize, 2);
            volume.write(Lba(first), data, true).await.unwrap();
        }
        let check = pools.check_pool("p").await.unwrap();
        assert_eq!(
            (check.loss_ranges, check.unreadable_blocks),
            (0, 0),
            "{check:?}"
        );
        assert!(lost_ranges(&pools).await.is_empty());
        pools.close_all().await;
    });
}
