//! Each limit of a record and of a label, at its edge and one beyond.

use crate::draw::Draw;
use varve_format::{
    COMMIT_BYTES_MAX, Crcs, DecodeError, ITEMS_MAX, KeepItem, LBA_END, Label, Member, MoveItem,
    PART_BYTES_MAX, PartKind, Protection, Record,
};
use varve_units::{Lba, LeafIndex, Lsn, Ppa, SliceId, VolumeId};

const VOLUME: VolumeId = VolumeId(1);
const SLICE: SliceId = SliceId(0);

fn put(lba: u64, blocks: u32) -> Record {
    Record::Put {
        volume: VOLUME,
        lba: Lba(lba),
        class: 0,
        crcs: (0..blocks).collect::<Crcs>(),
    }
}

fn external(ppa: u64, blocks: u32) -> Record {
    Record::External {
        volume: VOLUME,
        lba: Lba(0),
        ppa: Ppa::from_bits(ppa).unwrap(),
        class: 0,
        crcs: (0..blocks).collect::<Crcs>(),
    }
}

fn moves(count: usize, lba: u64, old: Ppa, new: Ppa) -> Record {
    let item = MoveItem {
        lba: Lba(lba),
        old,
        new,
        class: 0,
    };
    Record::Move {
        slice: SLICE,
        volume: VOLUME,
        items: vec![item; count],
    }
}

fn keeps(count: usize, lba: u64, old: Ppa, birth: u64) -> Record {
    let item = KeepItem {
        lba: Lba(lba),
        old,
        class: 0,
        birth: Lsn(birth),
        crc: 0,
    };
    Record::Keep {
        slice: SLICE,
        volume: VOLUME,
        items: vec![item; count],
    }
}

fn discard(lba: u64, blocks: u64) -> Record {
    Record::Discard {
        slice: SLICE,
        volume: VOLUME,
        lba: Lba(lba),
        blocks,
        zero: false,
    }
}

fn leaf(leaf: u64, through: u64) -> Record {
    Record::Leaf {
        volume: VOLUME,
        leaf: LeafIndex(leaf),
        through: Lsn(through),
        crc: 0,
    }
}

fn part(bytes: usize) -> Record {
    Record::Part {
        checkpoint: 1,
        kind: PartKind::Bitmap,
        slice: SLICE,
        index: 0,
        bytes: u32::try_from(bytes).unwrap(),
        crc: 0,
    }
}

fn commit(bytes: usize) -> Record {
    Record::Commit {
        checkpoint: 1,
        bytes: u32::try_from(bytes).unwrap(),
        crc: 0,
    }
}

#[test]
fn records() {
    let (last, place) = (LBA_END - 1, Ppa::dense(0));
    let top = Ppa::RESERVED;
    let within = [
        put(0, 512),
        put(511, 1),
        put(last, 1),
        external(top - 2, 2),
        moves(ITEMS_MAX, last, place, place),
        keeps(ITEMS_MAX, last, place, Lsn::MAX.0),
        discard(0, LBA_END),
        discard(last, 1),
        leaf(LBA_END / 512 - 1, Lsn::MAX.0),
        part(PART_BYTES_MAX),
        commit(COMMIT_BYTES_MAX),
    ];
    for record in within {
        assert_eq!(record.check(), Ok(()), "{record:?}");
        let mut bytes = vec![0; record.encoded_bytes()];
        record.encode(&mut bytes);
        assert_eq!(Record::decode(&bytes).unwrap().0, record);
    }
    let beyond = [
        put(0, 0),
        put(0, 513),
        put(511, 2),
        put(LBA_END, 1),
        external(top - 1, 2),
        external(Ppa::ABSENT.bits(), 1),
        moves(0, 0, place, place),
        moves(ITEMS_MAX + 1, 0, place, place),
        moves(1, LBA_END, place, place),
        moves(1, 0, Ppa::ABSENT, place),
        moves(1, 0, place, Ppa::ZERO),
        keeps(0, 0, place, 0),
        keeps(ITEMS_MAX + 1, 0, place, 0),
        keeps(1, LBA_END, place, 0),
        keeps(1, 0, Ppa::LOST, 0),
        keeps(1, 0, place, Lsn::MAX.0 + 1),
        discard(0, 0),
        discard(LBA_END, 1),
        discard(last, 2),
        discard(1, u64::MAX),
        leaf(LBA_END / 512, 0),
        leaf(0, Lsn::MAX.0 + 1),
        part(0),
        part(PART_BYTES_MAX + 1),
        commit(0),
        commit(COMMIT_BYTES_MAX + 1),
    ];
    for record in beyond {
        let found = record.check();
        assert!(
            matches!(found, Err(DecodeError::Range { .. })),
            "{record:?}"
        );
    }
}

#[test]
#[should_panic(expected = "record breaks its limits")]
fn encoder_refuses_a_put_over_two_leaves() {
    put(511, 2).encode(&mut [0; 100]);
}

/// Changes of a valid label, each of which breaks one limit.
#[test]
fn labels() {
    let breaks: [fn(&mut Label); 12] = [
        |label| label.members.clear(),
        |label| label.members = vec![label.members[0]; 101],
        |label| label.members.push(label.members[0]),
        |label| label.drive = u32::MAX,
        |label| label.geometry.chunk_bytes += 1,
        |label| label.geometry.chunk_bytes = 1 << 31,
        |label| label.geometry.chunks = 0,
        |label| label.geometry.fast_bytes = 0,
        |label| label.geometry.slices = 257,
        |label| label.geometry.lba_bytes = 520,
        |label| label.geometry.over_provision_per_mille = 1000,
        |label| {
            label.geometry.protection = Protection::Parity;
            label.geometry.parity_strips = 9;
        },
    ];
    for (index, make_invalid) in breaks.into_iter().enumerate() {
        let mut label = Draw(3).label();
        label.members.truncate(99);
        label.drive = label.members[0].id;
        assert_eq!(Label::decode(label.encode().bytes()).as_ref(), Ok(&label));
        make_invalid(&mut label);
        assert!(label.check().is_err(), "change {index}");
    }
}

/// The table is full with 100 members.
#[test]
fn label_with_all_members() {
    let mut label = Draw(4).label();
    let first = label.members[0];
    label.members = (0..100).map(|id| Member { id, ..first }).collect();
    label.drive = 99;
    assert_eq!(Label::decode(label.encode().bytes()), Ok(label));
}
