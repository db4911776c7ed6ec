//! Every flipped byte and every truncation of a header is refused; so is another place.

use crate::draw::Draw;
use varve_format::{
    CatalogueEntry, ChunkEntry, ChunkHeader, CommitBody, DecodeError, Gap, GroupEntry, Label, P2l,
    Record, UnitBits, batch,
};

/// Flips each byte of `bytes` in two ways and cuts it at each length: `decode` refuses all.
fn refuses_damage<T>(bytes: &[u8], decode: impl Fn(&[u8]) -> Result<T, DecodeError>) {
    assert!(decode(bytes).is_ok());
    let mut damaged = bytes.to_vec();
    for index in 0..bytes.len() {
        for flip in [0x01, 0xff] {
            damaged[index] ^= flip;
            assert!(decode(&damaged).is_err(), "byte {index} ^ {flip:#x}");
            damaged[index] ^= flip;
        }
    }
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length]).is_err(), "cut at {length}");
    }
}

#[test]
fn batches() {
    for seed in 0..3 {
        let mut draw = Draw(seed);
        let records: Vec<_> = std::iter::repeat_with(|| draw.record())
            .filter(|record| record.encoded_bytes() < 300)
            .take(12)
            .collect();
        let sectors = batch::encode(&draw.batch_start(), &records, 512);
        refuses_damage(sectors.bytes(), batch::decode);
    }
}

#[test]
fn headers_and_bodies() {
    let mut draw = Draw(7);
    let chunk = draw.chunk_header();
    refuses_damage(chunk.encode().bytes(), |bytes| {
        ChunkHeader::decode(bytes, &chunk.pool, chunk.address)
    });
    let gap = draw.gap();
    refuses_damage(gap.encode().bytes(), |bytes| {
        Gap::decode(bytes, &gap.pool, gap.address)
    });
    refuses_damage(draw.label().encode().bytes(), Label::decode);
    refuses_damage(&draw.commit_body().encode(), CommitBody::decode);
    let p2l = draw.p2l(200);
    refuses_damage(&p2l.encode(), |bytes| {
        P2l::decode(bytes, p2l.group, p2l.stripe)
    });
}

#[test]
fn another_place() {
    let mut draw = Draw(8);
    let chunk = draw.chunk_header();
    let sectors = chunk.encode();
    let found = ChunkHeader::decode(sectors.bytes(), &chunk.pool, chunk.address ^ 1);
    assert!(matches!(found, Err(DecodeError::Address { .. })));
    let found = ChunkHeader::decode(sectors.bytes(), &[0; 16], chunk.address);
    assert!(matches!(found, Err(DecodeError::Pool { .. })));
    let gap = draw.gap();
    let found = Gap::decode(gap.encode().bytes(), &gap.pool, gap.address ^ 1);
    assert!(matches!(found, Err(DecodeError::Address { .. })));
    let found = Gap::decode(gap.encode().bytes(), &[0; 16], gap.address);
    assert!(matches!(found, Err(DecodeError::Pool { .. })));
    let p2l = draw.p2l(10);
    for (group, stripe) in [(p2l.group ^ 1, p2l.stripe), (p2l.group, p2l.stripe ^ 1)] {
        let found = P2l::decode(&p2l.encode(), group, stripe);
        assert!(matches!(found, Err(DecodeError::Mismatch { .. })));
    }
}

/// Records and parts have no checksum of their own, but a cut is never taken for the whole.
#[test]
fn truncated_records_and_parts() {
    let mut draw = Draw(9);
    for _ in 0..200 {
        let record = draw.record();
        let mut bytes = vec![0; record.encoded_bytes()];
        record.encode(&mut bytes);
        for length in 0..bytes.len() {
            let found = Record::decode(&bytes[..length]);
            assert!(matches!(found, Err(DecodeError::Truncated { .. })));
        }
    }
    let groups = GroupEntry::encode_part(&[draw.group_entry(); 2]);
    let chunks = ChunkEntry::encode_part(&[draw.chunk_entry(); 2]);
    let entry = draw.catalogue_entry().encode();
    let mut bits = Vec::new();
    draw.unit_bits().encode_into(&mut bits);
    for cut in 1..32 {
        assert!(GroupEntry::decode_part(&groups[..groups.len() - cut]).is_err());
        assert!(ChunkEntry::decode_part(&chunks[..chunks.len() - cut]).is_err());
        assert!(CatalogueEntry::decode_part(&entry[..entry.len() - cut]).is_err());
        assert!(cut >= bits.len() || UnitBits::decode_part(&bits[..bits.len() - cut]).is_err());
    }
}
