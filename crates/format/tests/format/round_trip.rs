//! What is written is what is read.

use crate::draw::Draw;
use varve_format::{
    CatalogueEntry, ChunkEntry, ChunkHeader, CommitBody, Gap, GroupEntry, Label, P2l, Record,
    UnitBits, batch,
};

const SEEDS: u64 = 300;

#[test]
fn records() {
    let mut draw = Draw(1);
    for _ in 0..20 * SEEDS {
        let record = draw.record();
        let size = record.encoded_bytes();
        let mut bytes = vec![0xaa; size + 5];
        assert_eq!(record.encode(&mut bytes), size);
        assert_eq!(bytes[size..], [0xaa; 5], "nothing beyond its size");
        let (read, read_size) = Record::decode(&bytes).unwrap();
        assert_eq!((read, read_size), (record, size));
    }
}

#[test]
fn batches() {
    for seed in 0..SEEDS {
        let mut draw = Draw(seed);
        let (start, records) = (draw.batch_start(), draw.records(60));
        for lba_bytes in [512, 4096] {
            let sectors = batch::encode(&start, &records, lba_bytes);
            let head = varve_format::BatchHead::measure(&start, &records, lba_bytes);
            assert_eq!(sectors.bytes().len() as u32, head.header_bytes);
            assert_eq!(head.header_bytes % lba_bytes, 0);
            assert_eq!(head.batch_bytes() % u64::from(lba_bytes), 0);
            assert_eq!(batch::decode_head(&sectors.bytes()[..512]), Ok(head));
            let (read, read_records) = batch::decode(sectors.bytes()).unwrap();
            assert_eq!(read, head);
            assert_eq!(read_records, records);
            assert_eq!(read.first_lsn, start.first_lsn);
            assert_eq!(read.last_lsn(), read.lsn(records.len() - 1));
        }
    }
}

#[test]
fn headers_and_bodies() {
    for seed in 0..SEEDS {
        let mut draw = Draw(seed);
        let chunk = draw.chunk_header();
        let sectors = chunk.encode();
        let read = ChunkHeader::decode(sectors.bytes(), &chunk.pool, chunk.address);
        assert_eq!(read, Ok(chunk));

        let gap = draw.gap();
        let read = Gap::decode(gap.encode().bytes(), &gap.pool, gap.address);
        assert_eq!(read, Ok(gap));

        let commit = draw.commit_body();
        let bytes = commit.encode();
        assert_eq!(bytes.len(), commit.encoded_bytes());
        assert_eq!(CommitBody::decode(&bytes), Ok(commit));

        let label = draw.label();
        assert_eq!(Label::decode(label.encode().bytes()), Ok(label));

        let p2l = draw.p2l(1000);
        let bytes = p2l.encode();
        assert_eq!(bytes.len(), P2l::blocks_for(p2l.entries.len()) * 4096);
        assert_eq!(P2l::decode(&bytes, p2l.group, p2l.stripe), Ok(p2l));
    }
}

#[test]
fn parts() {
    for seed in 0..SEEDS {
        let mut draw = Draw(seed);
        let groups: Vec<_> = (0..draw.count(300)).map(|_| draw.group_entry()).collect();
        assert_eq!(
            GroupEntry::decode_part(&GroupEntry::encode_part(&groups)),
            Ok(groups)
        );

        let chunks: Vec<_> = (0..draw.count(300)).map(|_| draw.chunk_entry()).collect();
        assert_eq!(
            ChunkEntry::decode_part(&ChunkEntry::encode_part(&chunks)),
            Ok(chunks)
        );

        let runs: Vec<_> = (0..draw.count(30)).map(|_| draw.unit_bits()).collect();
        let mut part = Vec::new();
        for run in &runs {
            run.encode_into(&mut part);
        }
        assert_eq!(UnitBits::decode_part(&part), Ok(runs));

        let entries: Vec<_> = (0..draw.count(30))
            .map(|_| draw.catalogue_entry())
            .collect();
        let part: Vec<u8> = entries.iter().flat_map(CatalogueEntry::encode).collect();
        assert_eq!(CatalogueEntry::decode_part(&part), Ok(entries));
    }
}
