//! A leaf of the map that no copy can be read of: its blocks are lost, and nothing else is.

use crate::common::{Host, Pool, VOLUME_BLOCKS, first_word};
use std::rc::Rc;
use varve_ftl::{Engine, EngineError};
use varve_io::Blocks;
use varve_units::{Lba, LeafIndex};

async fn fill(host: &mut Host, from: u64, to: u64) {
    let mut at = from;
    while at < to {
        let length = 16.min(to - at);
        host.write(at, length).await;
        at += length;
    }
}

/// A pool without dense tier and a host in it. The second leaf of the host's volume is stored in a
/// chunk that soon holds little else: the first leaf was overwritten since.
fn prepared(copies: u8) -> (Pool, Rc<Engine>, Host) {
    let mut pool = Pool::new(8, 1, copies);
    pool.geometry.groups = 0;
    pool.config.reserve.capacity_blocks = 1408;
    pool.config.reserve.groups = 0;
    pool.config.lanes = 1;
    pool.config.map.delta_nodes = 2048;
    pool.config.reserve.chunks = 5;
    let engine = pool.create_fast_only();
    let mut host = pool.host(&engine, 1);
    let mut cold = pool.host(&engine, 2);
    let host = pool.executor.block_on(async move {
        fill(&mut cold, 0, 300).await;
        fill(&mut host, 0, 1100).await;
        for _ in 0..3 {
            fill(&mut host, 0, 512).await;
        }
        // Long enough a chain that the second leaf is merged.
        for at in 0..80 {
            host.discard(600 + 2 * at, 1).await;
        }
        for _ in 0..2 {
            fill(&mut host, 0, 512).await;
        }
        host
    });
    pool.executor.drain();
    (pool, engine, host)
}

fn spoil(pool: &Pool, engine: &Engine, host: &Host) {
    let sector = engine.stored_leaf(host.volume, LeafIndex(1));
    let start = sector.expect("a stored leaf") * 512;
    pool.fast.bad.set(Some((start, start + 4608)));
}

fn leaves_lost(engine: &Engine) -> u64 {
    engine.counters().get("leaves_lost").copied().unwrap_or(0)
}

/// The cleaner meets the leaf: it is declared lost, written, and chunks go on being emptied.
#[test]
fn the_cleaner_goes_on() {
    let (pool, engine, mut host) = prepared(1);
    spoil(&pool, &engine, &host);
    let host = pool.executor.block_on(async move {
        for step in 0..6000_u64 {
            let mixed = (step + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            host.write(mixed % 509, 1).await;
        }
        host
    });
    assert_eq!(leaves_lost(&engine), 1);
    // What the media say later changes nothing: the leaf has another image.
    pool.fast.bad.set(None);
    let inner = Rc::clone(&engine);
    let host = pool.executor.block_on(async move {
        let mut lost = 0;
        for lba in 512..1024 {
            let read = inner.read(host.volume, Lba(lba), Blocks::zeroed(1)).await;
            match read {
                Err(error) => {
                    assert_eq!(error, EngineError::Lost(host.volume, Lba(lba)));
                    lost += 1;
                }
                // What was deallocated or moved since the image was stored is in the chain: it is
                // not lost.
                Ok(block) => assert_eq!(first_word(&block), host.expected(lba), "{lba}"),
            }
        }
        // 80 were deallocated, and few moved.
        assert!((400..=512).contains(&lost), "{lost} blocks");
        host
    });
    let inner = Rc::clone(&engine);
    let audited = async move { inner.audit().await };
    pool.executor.block_on(audited).expect("a sound pool");
    // Lost blocks can be written again.
    pool.executor.block_on(async move {
        let mut host = host;
        fill(&mut host, 512, 1024).await;
        host.verify().await.expect("no block is lost any more");
    });
    assert_eq!(leaves_lost(&engine), 1);
}

/// A host deallocates blocks of the leaf, more often than a chain is long.
#[test]
fn deallocations_do_not_wait_for_ever() {
    let (pool, engine, mut host) = prepared(1);
    spoil(&pool, &engine, &host);
    let mut host = pool.executor.block_on(async move {
        for step in 0..6000_u64 {
            host.discard(512 + step * 7 % 512, 1).await;
        }
        host
    });
    assert_eq!(leaves_lost(&engine), 1);
    host = pool.executor.block_on(async move {
        host.discard(0, VOLUME_BLOCKS).await;
        host.verify().await.expect("nothing is left");
        host
    });
    assert_eq!(host.mapped(), 0);
}

/// The leaf is deallocated as a whole, or its volume deleted, before anyone reads it.
#[test]
fn a_lost_leaf_can_be_dropped() {
    for whole in [true, false] {
        let (pool, engine, mut host) = prepared(1);
        spoil(&pool, &engine, &host);
        let inner = Rc::clone(&engine);
        pool.executor.block_on(async move {
            if whole {
                host.discard(512, 512).await;
            } else {
                let deleted = inner.delete_volume(host.volume).await;
                deleted.expect("a volume to delete");
            }
        });
        pool.executor.drain();
        assert_eq!(leaves_lost(&engine), 1, "whole: {whole}");
    }
}

/// A merge waits for the leaf's image while the volume is deleted: the leaf takes no new image. One would name places that
/// others may have by now, with an LSN younger than theirs, and the purge would bury them (the engine's shape, 32).
#[test]
fn a_merge_that_a_deletion_overtakes_writes_no_image() {
    let (pool, engine, mut host) = prepared(1);
    let (volume, leaf) = (host.volume, LeafIndex(1));
    let stored = engine.stored_leaf(volume, leaf).expect("a stored leaf");
    pool.fast
        .held
        .set(Some((stored * 512, stored * 512 + 4608)));
    // The image of another leaf takes the place of its own, and its chain grows until it is to be merged.
    let host = pool.executor.block_on(async move {
        let read = host.engine.read(host.volume, Lba(0), Blocks::zeroed(1));
        read.await.expect("a block");
        for at in 0..100 {
            host.discard(512 + 2 * at, 1).await;
        }
        host
    });
    pool.executor.drain();
    assert_eq!(pool.fast.waiting(), 1, "the merge reads the image");
    let inner = Rc::clone(&engine);
    let deleted = async move { inner.delete_volume(host.volume).await };
    pool.executor.block_on(deleted).expect("a volume to delete");
    pool.executor.drain();
    assert_eq!(pool.fast.waiting(), 2, "the purge reads the image too");
    assert_eq!(engine.stored_leaf(volume, leaf), Some(stored));
    pool.fast.let_go();
    while pool.executor.turn() {
        let now = engine.stored_leaf(volume, leaf);
        assert_eq!(now, Some(stored), "no other image, and not dropped unread");
    }
    pool.fast.held.set(None);
    while pool.fast.waiting() > 0 {
        pool.fast.let_go();
    }
    while pool.executor.turn() {
        let now = engine.stored_leaf(volume, leaf);
        assert!(now.is_none_or(|now| now == stored), "no other image");
    }
    assert_eq!(engine.stored_leaf(volume, leaf), None);
    assert_eq!(engine.counters().get("volumes_purged"), Some(&1));
}

/// One copy of the leaf cannot be read and the other is out of use, but only for a moment: it is
/// asked again before the leaf is written off.
#[test]
fn a_leaf_that_was_gone_for_a_moment_is_not_lost() {
    let (pool, engine, host) = prepared(2);
    let sector = engine.stored_leaf(host.volume, LeafIndex(1));
    let start = sector.expect("a stored leaf") * 512;
    pool.fast.bad_on.borrow_mut().push((1, start..start + 4608));
    pool.fast.gone_reads.borrow_mut()[0] = 1;
    let inner = Rc::clone(&engine);
    let read = async move {
        let block = inner.read(host.volume, Lba(600), Blocks::zeroed(1)).await;
        let block = block.expect("no block is lost");
        assert_eq!(first_word(&block), host.expected(600));
        host
    };
    let host = pool.executor.block_on(read);
    assert_eq!(pool.fast.gone_reads.borrow()[0], 0, "the leaf was read");
    assert_eq!(leaves_lost(&engine), 0);
    let verified = async move { host.verify().await };
    pool.executor.block_on(verified).expect("no block is lost");
}
