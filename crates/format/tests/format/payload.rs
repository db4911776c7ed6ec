//! Payload places against an example worked out by hand.

use varve_format::{BatchHead, BatchStart, Crcs, PartKind, PayloadLayout, Record, batch};
use varve_units::{LaneId, Lba, LeafIndex, Lsn, SliceId, VolumeId};

const START: BatchStart = BatchStart {
    epoch: 1,
    lane: LaneId(0),
    sequence: 5,
    address: 1000,
    chunk_sequence: 2,
    durable_through: Lsn(9),
    first_lsn: Lsn(10),
};

fn put(blocks: u32) -> Record {
    Record::Put {
        volume: VolumeId(1),
        lba: Lba(0),
        class: 0,
        crcs: (0..blocks).collect::<Crcs>(),
    }
}

/// Header 64 + 40 + 32 + 36 + 32 = 204 bytes. Data: 2 + 1 blocks. Metadata: a part of 700 bytes,
/// 2 sectors, and a leaf of 9 sectors.
fn records() -> [Record; 4] {
    let leaf = Record::Leaf {
        volume: VolumeId(1),
        leaf: LeafIndex(3),
        through: Lsn(4),
        crc: 5,
    };
    let part = Record::Part {
        checkpoint: 1,
        kind: PartKind::SliceFull,
        slice: SliceId(0),
        index: 0,
        bytes: 700,
        crc: 0,
    };
    [put(2), part, put(1), leaf]
}

fn places(lba_bytes: u32) -> (BatchHead, Vec<(u64, u64)>) {
    let sectors = batch::encode(&START, &records(), lba_bytes);
    let (head, records) = batch::decode(sectors.bytes()).unwrap();
    let places = PayloadLayout::new(&head, &records)
        .enumerate()
        .map(|(index, place)| {
            assert_eq!(place.record, index);
            (place.data_sector, place.meta_sector)
        })
        .collect();
    (head, places)
}

/// 1 header sector, data at 1001 and 1017, metadata from 1025: 11 sectors.
#[test]
fn lba_of_512() {
    let (head, places) = places(512);
    assert_eq!((head.header_bytes, head.meta_bytes), (512, 11 * 512));
    assert_eq!(head.batch_bytes(), 36 * 512);
    assert_eq!(places[0].0, 1001);
    assert_eq!(places[1].1, 1025);
    assert_eq!(places[2].0, 1017);
    assert_eq!(places[3].1, 1027);
}

/// 8 header sectors, data at 1008 and 1024, metadata from 1032: 11 sectors padded to 16.
#[test]
fn lba_of_4096() {
    let (head, places) = places(4096);
    assert_eq!((head.header_bytes, head.meta_bytes), (4096, 8192));
    assert_eq!(head.batch_bytes(), 48 * 512);
    assert_eq!(places[0].0, 1008);
    assert_eq!(places[1].1, 1032);
    assert_eq!(places[2].0, 1024);
    assert_eq!(places[3].1, 1034);
}

/// A lone 4 KiB write costs one sector more where LBAs have 512 bytes.
#[test]
fn smallest_write() {
    assert_eq!(
        BatchHead::measure(&START, &[put(1)], 512).batch_bytes(),
        4608
    );
    assert_eq!(
        BatchHead::measure(&START, &[put(1)], 4096).batch_bytes(),
        8192
    );
}
