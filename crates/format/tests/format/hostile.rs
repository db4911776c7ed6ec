//! Bytes with a valid checksum but arbitrary fields: never a panic, and what is accepted is
//! exactly what its own encoder writes, so it keeps every limit.

use crate::draw::Draw;
use varve_format::{
    BatchHead, Brought, BroughtBlock, BroughtLeaf, ChunkEntry, ChunkHeader, CommitBody,
    DecodeError, Gap, GroupEntry, Label, P2l, PayloadLayout, Record, UnitBits, batch, crc32c,
};
use varve_units::{Lba, VolumeId};

const ROUNDS: u64 = 30_000;

/// Changes a few bytes, most often near the start, to arbitrary or extreme values.
fn tamper(draw: &mut Draw, bytes: &mut [u8]) {
    for _ in 0..draw.count(6) {
        let reach = if draw.below(3) == 0 {
            bytes.len()
        } else {
            bytes.len().min(200)
        };
        let index = draw.index(reach);
        bytes[index] = match draw.below(4) {
            0 => 0,
            1 => 0xff,
            2 => bytes[index] ^ (1 << draw.below(8)),
            _ => draw.byte(),
        };
    }
}

/// Makes the checksum right again.
fn reseal(bytes: &mut [u8]) {
    bytes[8..12].fill(0);
    let crc = crc32c(bytes);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
}

/// What a batch brought, by way of all its records.
fn brought(bytes: &[u8]) -> Result<(BatchHead, Brought), DecodeError> {
    let (head, records) = batch::decode(bytes)?;
    let mut all = Brought::default();
    for (at, record) in PayloadLayout::new(&head, &records).zip(&records) {
        let block = |index: usize, lba, birth, crc, class| BroughtBlock {
            volume: VolumeId(0),
            lba,
            sector: at.data_sector + index as u64 * 8,
            birth,
            crc,
            class,
            is_kept: matches!(record, Record::Keep { .. }),
        };
        let mut add = |volume, one| all.blocks.push(BroughtBlock { volume, ..one });
        match record {
            Record::Put {
                volume,
                lba,
                class,
                crcs,
            } => {
                for (index, crc) in crcs.as_slice().iter().enumerate() {
                    let (lba, birth) = (Lba(lba.0 + index as u64), head.lsn(at.record));
                    add(*volume, block(index, lba, birth, *crc, *class));
                }
            }
            Record::Keep { volume, items, .. } => {
                for (index, item) in items.iter().enumerate() {
                    let one = block(index, item.lba, item.birth, item.crc, item.class);
                    add(*volume, one);
                }
            }
            Record::Leaf { volume, leaf, .. } => all.leaves.push(BroughtLeaf {
                volume: *volume,
                leaf: *leaf,
                sector: at.meta_sector,
            }),
            _ => {}
        }
    }
    Ok((head, all))
}

/// What a batch brought, decoded as such.
fn decode_brought(bytes: &[u8]) -> Result<(BatchHead, Brought), DecodeError> {
    let mut all = Brought::default();
    let head = batch::decode_brought(bytes, &mut all)?;
    Ok((head, all))
}

#[test]
fn batches() {
    let mut accepted = 0;
    for seed in 0..ROUNDS {
        let mut draw = Draw(seed);
        let (start, records) = (draw.batch_start(), draw.records(6));
        let mut bytes = batch::encode(&start, &records, 512).bytes().to_vec();
        tamper(&mut draw, &mut bytes);
        reseal(&mut bytes);
        assert_eq!(decode_brought(&bytes), brought(&bytes), "seed {seed}");
        let Ok((head, records)) = batch::decode(&bytes) else {
            continue;
        };
        accepted += 1;
        let start = head.start();
        let again = [512, 4096].map(|lba| batch::encode(&start, &records, lba));
        let same = again.iter().any(|sectors| sectors.bytes() == bytes);
        assert!(same, "seed {seed}");
    }
    assert!(accepted > ROUNDS / 100, "only {accepted} were accepted");
}

#[test]
fn headers_and_bodies() {
    let mut accepted = [0; 5];
    for seed in 0..ROUNDS {
        let mut draw = Draw(seed);
        let chunk = draw.chunk_header();
        let mut bytes = chunk.encode().bytes().to_vec();
        tamper(&mut draw, &mut bytes);
        reseal(&mut bytes);
        if let Ok(read) = ChunkHeader::decode(&bytes, &chunk.pool, chunk.address) {
            accepted[0] += 1;
            assert_eq!(read.encode().bytes(), bytes, "chunk, seed {seed}");
        }
        let mut bytes = draw.commit_body().encode();
        tamper(&mut draw, &mut bytes);
        reseal(&mut bytes);
        if let Ok(read) = CommitBody::decode(&bytes) {
            accepted[1] += 1;
            assert_eq!(read.encode(), bytes, "commit, seed {seed}");
        }
        let mut bytes = draw.label().encode().bytes().to_vec();
        tamper(&mut draw, &mut bytes);
        reseal(&mut bytes);
        if let Ok(read) = Label::decode(&bytes) {
            accepted[2] += 1;
            assert_eq!(read.encode().bytes(), bytes, "label, seed {seed}");
        }
        let gap = draw.gap();
        let mut bytes = gap.encode().bytes().to_vec();
        tamper(&mut draw, &mut bytes);
        reseal(&mut bytes);
        if let Ok(read) = Gap::decode(&bytes, &gap.pool, gap.address) {
            accepted[4] += 1;
            assert_eq!(read.encode().bytes(), bytes, "gap, seed {seed}");
        }
        let p2l = draw.p2l(40);
        let mut bytes = p2l.encode();
        tamper(&mut draw, &mut bytes);
        reseal(&mut bytes);
        if let Ok(read) = P2l::decode(&bytes, p2l.group, p2l.stripe) {
            accepted[3] += 1;
            assert_eq!(read.encode(), bytes, "p2l, seed {seed}");
        }
    }
    let enough = accepted.iter().all(|&count| count > ROUNDS / 100);
    assert!(enough, "only {accepted:?} were accepted");
}

#[test]
fn records_and_parts() {
    for seed in 0..ROUNDS {
        let mut draw = Draw(seed);
        let mut bytes: Vec<u8> = (0..draw.count(400)).map(|_| draw.byte()).collect();
        bytes[0] = 1 + draw.byte() % 5;
        if let Some(flags) = bytes.get_mut(1) {
            *flags = draw.byte() % 9;
        }
        if let Some(upper) = bytes.get_mut(6..8) {
            upper.fill(0);
        }
        if let Ok((record, size)) = Record::decode(&bytes) {
            let mut again = vec![0; size];
            record.encode(&mut again);
            assert_eq!(again, bytes[..size], "record, seed {seed}");
        }
        let mut groups = GroupEntry::encode_part(&[draw.group_entry()]);
        tamper(&mut draw, &mut groups);
        if let Ok(read) = GroupEntry::decode_part(&groups) {
            assert_eq!(GroupEntry::encode_part(&read), groups);
        }
        let mut chunks = ChunkEntry::encode_part(&[draw.chunk_entry()]);
        tamper(&mut draw, &mut chunks);
        if let Ok(read) = ChunkEntry::decode_part(&chunks) {
            assert_eq!(ChunkEntry::encode_part(&read), chunks);
        }
        let mut part = Vec::new();
        draw.unit_bits().encode_into(&mut part);
        tamper(&mut draw, &mut part);
        if let Ok(read) = UnitBits::decode_part(&part) {
            let mut again = Vec::new();
            read.iter().for_each(|run| run.encode_into(&mut again));
            assert_eq!(again, part, "bitmap, seed {seed}");
        }
    }
}

/// Heads that promise more than the limits are refused before anything is read or allocated.
#[test]
fn lengths_beyond_limits() {
    let mut draw = Draw(1);
    let start = draw.batch_start();
    let bytes = batch::encode(&start, &[draw.record()], 4096)
        .bytes()
        .to_vec();
    // records, header sectors, data blocks, metadata sectors
    for field in [46..48, 48..50, 56..60, 60..64] {
        let mut tampered = bytes.clone();
        tampered[field.clone()].fill(0xff);
        assert!(batch::decode_head(&tampered).is_err(), "{field:?}");
    }
}
