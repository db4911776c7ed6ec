//! What fuzzing makes of its bytes as a structure on media; an ordinary test replays the corpus.
//!
//! What a decoder accepts, its encoder can write and it accepts that again: nothing that is taken from a
//! drive is beyond a limit that is asserted where it would be written.

use varve_format::{
    Brought, CatalogueEntry, ChunkEntry, ChunkHeader, CommitBody, Delta, Gap, GroupEntry, Label,
    LeafImage, P2l, PART_BYTES_MAX, PartWriter, Record, Section, SectionState, UnitBits, batch,
    crc32c, view_part,
};

/// Where the structures that are asked for it say they lie.
pub const POOL: [u8; 16] = [7; 16];
pub const ADDRESS: u64 = 4096;

/// First byte: the structure. The rest: its bytes, sealed anew where it has a checksum.
pub fn structures(bytes: &[u8]) {
    let [kind, rest @ ..] = bytes else { return };
    let sealed = seal(rest);
    match kind % 13 {
        0 => batches(&sealed),
        1 => again(
            &sealed,
            |bytes| ChunkHeader::decode(bytes, &POOL, ADDRESS).ok(),
            |header| header.encode().bytes().to_vec(),
        ),
        2 => again(
            &sealed,
            |bytes| CommitBody::decode(bytes).ok(),
            CommitBody::encode,
        ),
        3 => again(
            &sealed,
            |bytes| Label::decode(bytes).ok(),
            |label| label.encode().bytes().to_vec(),
        ),
        4 => again(
            &sealed,
            |bytes| Gap::decode(bytes, &POOL, ADDRESS).ok(),
            |gap| gap.encode().bytes().to_vec(),
        ),
        5 => again(&sealed, |bytes| P2l::decode(bytes, 5, 9).ok(), P2l::encode),
        6 => again(
            rest,
            |bytes| Record::decode(bytes).ok().map(|(record, _)| record),
            |record| {
                let mut bytes = vec![0; record.encoded_bytes()];
                record.encode(&mut bytes);
                bytes
            },
        ),
        7 => again(
            rest,
            |bytes| GroupEntry::decode_part(bytes).ok(),
            |entries| GroupEntry::encode_part(entries),
        ),
        8 => again(
            rest,
            |bytes| ChunkEntry::decode_part(bytes).ok(),
            |entries| ChunkEntry::encode_part(entries),
        ),
        9 => again(
            rest,
            |bytes| UnitBits::decode_part(bytes).ok(),
            |runs| {
                let mut part = Vec::new();
                runs.iter().for_each(|run| run.encode_into(&mut part));
                part
            },
        ),
        10 => again(
            rest,
            |bytes| CatalogueEntry::decode_part(bytes).ok(),
            |entries| entries.iter().flat_map(CatalogueEntry::encode).collect(),
        ),
        11 => slice_parts(rest),
        _ => leaves(rest),
    }
}

/// The bytes with a checksum that holds.
fn seal(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= 12 {
        bytes[8..12].fill(0);
        let crc = crc32c(&bytes);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// What is accepted is accepted again as it was written.
fn again<T: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Option<T>,
    encode: impl Fn(&T) -> Vec<u8>,
) {
    if let Some(found) = decode(bytes) {
        assert_eq!(decode(&encode(&found)).as_ref(), Some(&found));
    }
}

/// Both decoders say the same, and records that were accepted are written again as they were.
fn batches(bytes: &[u8]) {
    let mut brought = Brought::default();
    let head = batch::decode_brought(bytes, &mut brought);
    let all = batch::decode(bytes);
    assert_eq!(head.as_ref().ok(), all.as_ref().ok().map(|(head, _)| head));
    let Ok((head, records)) = all else { return };
    let start = head.start();
    let same = [512, 4096].map(|lba| batch::encode(&start, &records, lba));
    let length = head.header_bytes as usize;
    assert!(
        same.iter()
            .any(|sectors| sectors.bytes() == &bytes[..length])
    );
}

/// Sections of a payload; `None` where one of them, or a delta, is refused.
fn sections(bytes: &[u8]) -> Option<Vec<Section>> {
    let (_, views) = view_part(bytes).ok()?;
    let mut all = Vec::new();
    for view in views {
        let view = view.ok()?;
        let state = match view.state {
            None => SectionState::Gone,
            Some(state) => SectionState::Present {
                parent: state.parent,
                mapped: state.mapped,
                is_bound: state.is_bound,
                deltas: state.deltas().collect::<Result<_, _>>().ok()?,
            },
        };
        all.push(Section {
            volume: view.volume,
            leaf: view.leaf,
            state,
        });
    }
    Some(all)
}

fn slice_parts(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(PART_BYTES_MAX)];
    let (Ok((head, _)), Some(found)) = (view_part(bytes), sections(bytes)) else {
        return;
    };
    let mut writer = PartWriter::default();
    found.iter().for_each(|section| writer.push(section));
    let payloads = writer.finish(head.slice(), head.is_full(), head.since(), head.cut());
    let again = payloads
        .iter()
        .map(|payload| sections(payload.bytes()).expect("as it was written"));
    assert_eq!(again.flatten().collect::<Vec<_>>(), found);
}

/// A leaf, and its bytes as deltas.
fn leaves(bytes: &[u8]) {
    if let Ok(image) = LeafImage::decode(bytes) {
        let mapped = image.entries().iter().filter(|entry| entry.is_mapped());
        assert_eq!(usize::from(image.mapped()), mapped.count());
    }
    for raw in bytes.as_chunks().0 {
        if let Ok(delta) = Delta::decode(*raw) {
            assert_eq!(delta.to_bytes(), *raw);
            let (index, body) = (delta.index(), delta.body());
            assert_eq!(Delta::new(index, body, delta_lsn(raw)), delta);
        }
    }
}

/// The half of an LSN that a delta holds.
fn delta_lsn(raw: &[u8; 16]) -> varve_units::Lsn {
    let half = u32::from_le_bytes([raw[12], raw[13], raw[14], raw[15]]);
    varve_units::Lsn(half.into())
}
