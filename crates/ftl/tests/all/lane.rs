//! The append point by itself: what it hands back when writes fail.

use varve_format::Record;
use varve_ftl::lane::{Batch, ChunkGrant, Idle, Lane, LaneLimits, Rank};
use varve_ftl::load::Load;
use varve_ftl::{Geometry, Identity};
use varve_io::{Sectors, Supply};
use varve_units::{Generation, LaneId, Lba, Lsn, SliceId, VolumeId};

const GEOMETRY: Geometry = Geometry {
    chunk_bytes: 1 << 20,
    chunks: 16,
    lba_bytes: 512,
    group_blocks: 256,
    groups: 8,
    stripe_blocks: 64,
    p2l_copies: 1,
    slices: 16,
};

fn lane() -> Lane {
    lane_of(LaneId(0))
}

fn lane_of(id: LaneId) -> Lane {
    let identity = Identity {
        pool: [7; 16],
        epoch: 1,
    };
    let limits = LaneLimits {
        batch_blocks_max: 64,
        inflight_max: 4,
    };
    Lane::new(id, identity, GEOMETRY, limits, Lsn(1), Supply::default())
}

/// Queues a record, perhaps one that goes into one batch with the next.
fn push(lane: &mut Lane, lba: u64, joins_next: bool) {
    let record = Record::Discard {
        slice: SliceId(0),
        volume: VolumeId(1),
        lba: Lba(lba),
        blocks: 1,
        zero: false,
    };
    lane.push(record, load(), joins_next);
}

/// Of a record that brings nothing and for which nobody waits.
fn load() -> Load {
    Load::new(None, Sectors::zeroed(0), None)
}

fn grant(chunk: u32) -> ChunkGrant {
    ChunkGrant {
        chunk,
        stamp: Lsn(u64::from(chunk) + 1),
        generation: Generation(0),
        commit: None,
        takes: Rank::Ordinary,
    }
}

/// Seals the next batch into the open chunk or, if it needs one, into `chunk`.
fn seal(lane: &mut Lane, chunk: u32) -> u64 {
    loop {
        match lane.seal() {
            Ok(write) => return write.sequence,
            Err(Idle::NeedsChunk { .. }) => lane.give_chunk(grant(chunk)),
            Err(Idle::Busy) => panic!("nothing to seal"),
        }
    }
}

/// Records that are joined are in one batch, or wait for the next, or for another chunk, together.
#[test]
fn joined_records_share_a_batch() {
    let mut lane = lane();
    // 64 KiB of records of 32 B are one batch at most: one more of them would fit.
    let most = 2048;
    for lba in 0..most - 1 {
        push(&mut lane, lba, false);
    }
    for lba in most..most + 3 {
        push(&mut lane, lba, lba < most + 2);
    }
    let mut records = Vec::new();
    while !lane.is_drained() {
        let sequence = seal(&mut lane, 4);
        let batches = lane.written(sequence);
        records.extend(batches.iter().map(|batch| batch.records.len() as u64));
    }
    assert_eq!(records, [most - 1, 3]);
}

/// A batch that waits to be written again has given its place up already. If the next write fails
/// too, only that one's place is handed back: the other place may be somebody else's by now.
#[test]
fn a_place_is_given_up_once() {
    let mut lane = lane();
    for lba in 0..2 {
        push(&mut lane, lba, false);
        assert_eq!(seal(&mut lane, 4), lba);
    }
    lane.failed(0);
    assert!(
        lane.reroute().is_none(),
        "the second is still being written"
    );
    let _ = lane.written(1);
    let chunks: Vec<u32> = lane.reroute().unwrap().iter().map(Batch::chunk).collect();
    assert_eq!(chunks, [4, 4]);
    assert_eq!(seal(&mut lane, 5), 0);
    lane.failed(0);
    let chunks: Vec<u32> = lane.reroute().unwrap().iter().map(Batch::chunk).collect();
    assert_eq!(chunks, [5]);
    // Both are written in the end, in order.
    assert_eq!(seal(&mut lane, 6), 0);
    assert_eq!(seal(&mut lane, 6), 1);
    assert!(lane.written(1).is_empty());
    assert_eq!(lane.written(0).len(), 2);
    assert!(lane.is_drained());
}

/// Writes batches until the open chunk is full. Tells how often the next was asked for.
fn fill_chunk(lane: &mut Lane) -> usize {
    let mut asked = 0;
    loop {
        push(lane, 1, false);
        match lane.seal() {
            Ok(write) => drop(lane.written(write.sequence)),
            Err(Idle::NeedsChunk { .. }) => return asked,
            Err(Idle::Busy) => panic!("nothing to seal"),
        }
        asked += usize::from(lane.asks_ahead());
    }
}

/// The next chunk is asked for once, before the open one is full, and opened when it is. One that is refused
/// is asked for again in the next chunk; lane 0, which names the newest commit, never asks.
#[test]
fn the_next_chunk_is_asked_for_ahead() {
    let mut lane = lane_of(LaneId(1));
    push(&mut lane, 0, false);
    let first = seal(&mut lane, 3);
    drop(lane.written(first));
    assert_eq!(fill_chunk(&mut lane), 1);
    assert!(!lane.open_ahead(), "no answer yet");
    lane.give_ahead(Some(grant(5)));
    assert_eq!(lane.chunks(), [3, 5]);
    assert!(lane.open_ahead());
    assert_eq!(lane.open_chunk(), Some(5));
    assert_eq!(fill_chunk(&mut lane), 1);
    lane.give_ahead(None);
    assert!(!lane.open_ahead(), "it was refused");
    lane.give_chunk(grant(7));
    assert_eq!(fill_chunk(&mut lane), 1);

    let mut lane = lane_of(LaneId(0));
    push(&mut lane, 0, false);
    let first = seal(&mut lane, 3);
    drop(lane.written(first));
    assert_eq!(fill_chunk(&mut lane), 0);
}

/// Behind a commit nothing opens another chunk before it is flushed; what fits the open one goes there.
#[test]
fn a_commit_holds_its_lane() {
    let mut lane = lane();
    push(&mut lane, 0, false);
    let first = seal(&mut lane, 3);
    drop(lane.written(first));
    let record = Record::Commit {
        checkpoint: 1,
        bytes: 512,
        crc: 0,
    };
    let body = Load {
        meta: Sectors::zeroed(1),
        ..load()
    };
    lane.push(record, body, false);
    let commit = seal(&mut lane, 3);
    drop(lane.written(commit));
    while lane.holds() {
        push(&mut lane, 1, false);
        match lane.seal() {
            Ok(write) => drop(lane.written(write.sequence)),
            Err(Idle::Busy) => break,
            Err(Idle::NeedsChunk { .. }) => panic!("a chunk is asked for"),
        }
    }
    assert!(lane.holds() && lane.open_chunk() == Some(3));
    lane.release();
    assert!(matches!(lane.seal(), Err(Idle::NeedsChunk { .. })));
}
