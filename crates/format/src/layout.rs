//! The layout of every structure as Markdown, and what its codes mean, derived from the structures themselves.

use crate::media::Table;
use crate::record_raw as record;
use crate::{
    ChunkState, GroupState, MemberRole, MemberState, PartKind, Protection, RecordKind, Tier,
    VolumeState, batch, bitmap, catalogue, checkpoint, chunk, gap, geometry, label, media, p2l,
    unit,
};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// The first bytes of structures that stand alone.
const MAGICS: &[(&str, [u8; 4])] = &[
    ("Label", label::LABEL_MAGIC),
    ("ChunkHeader", chunk::MAGIC),
    ("Gap", gap::MAGIC),
    ("BatchHead", batch::MAGIC),
    ("CommitBody", checkpoint::MAGIC),
    ("P2lHead", p2l::MAGIC),
];

/// Bits of `flags` in the head of a record.
const RECORD_FLAGS: &[(&str, u8)] = &[
    ("External", record::EXTERNAL),
    ("Conditional", record::CONDITIONAL),
    ("Zero", record::ZERO),
    ("Commit", record::COMMIT),
];

/// All structures in reading order.
const TABLES: &[Table] = &[
    media::Preamble::TABLE,
    label::LabelRaw::TABLE,
    geometry::GeometryRaw::TABLE,
    label::MemberRaw::TABLE,
    chunk::ChunkHeaderRaw::TABLE,
    gap::GapRaw::TABLE,
    batch::BatchHeadRaw::TABLE,
    record::RecordHead::TABLE,
    record::PutRaw::TABLE,
    record::ItemsRaw::TABLE,
    record::MoveItemRaw::TABLE,
    record::KeepItemRaw::TABLE,
    record::DiscardRaw::TABLE,
    record::LeafRaw::TABLE,
    record::PartRaw::TABLE,
    record::CommitRaw::TABLE,
    record::CatalogueRaw::TABLE,
    catalogue::CatalogueEntryRaw::TABLE,
    checkpoint::CommitBodyRaw::TABLE,
    checkpoint::LanePositionRaw::TABLE,
    checkpoint::PartPlaceRaw::TABLE,
    unit::GroupEntryRaw::TABLE,
    unit::ChunkEntryRaw::TABLE,
    bitmap::UnitBitsRaw::TABLE,
    p2l::P2lHeadRaw::TABLE,
    p2l::P2lEntryRaw::TABLE,
];

/// One Markdown table for each structure: field, offset, bytes.
#[must_use]
pub fn tables() -> String {
    let mut text = String::from("# Layout on media\n");
    for table in TABLES {
        let name = table.name.trim_end_matches("Raw");
        let _ = write!(text, "\n## {name}, {} bytes\n\n", table.bytes);
        text.push_str("| field | offset | bytes |\n| --- | ---: | ---: |\n");
        for field in table.fields {
            let _ = writeln!(
                text,
                "| {} | {} | {} |",
                field.name, field.offset, field.bytes
            );
        }
    }
    text.push_str(&values());
    text
}

/// What stands in fields that have only some values.
fn values() -> String {
    let mut text = format!(
        "\n## Magic numbers and codes\n\nAll structures have version {}.\n\n| field | values |\n| --- | --- |\n",
        media::VERSION
    );
    let magics = MAGICS.iter().map(|(name, magic)| {
        let letters: String = magic.iter().map(|byte| char::from(*byte)).collect();
        format!("{name} {letters}")
    });
    let flags = RECORD_FLAGS
        .iter()
        .map(|(name, bit)| format!("{name} {bit}"));
    let mut row = |field: &str, values: Vec<String>| {
        let _ = writeln!(text, "| {field} | {} |", values.join(", "));
    };
    row("magic", magics.collect());
    macro_rules! codes {
        ($($field:literal $of:ident),*) => {$(
            let codes = $of::ALL.iter().map(|one| format!("{one:?} {}", one.code()));
            row($field, codes.collect());
        )*};
    }
    codes!(
        "kind of a record" RecordKind, "part_kind" PartKind, "protection" Protection,
        "role of a member" MemberRole, "state of a member" MemberState, "state of a volume" VolumeState,
        "state of a group" GroupState, "state of a chunk" ChunkState, "tier" Tier
    );
    row("flags of a record", flags.collect());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields follow one another without a gap and fill their structure; names are unique.
    #[test]
    fn no_implicit_padding() {
        for (index, table) in TABLES.iter().enumerate() {
            let mut end = 0;
            for field in table.fields {
                assert_eq!(field.offset, end, "{}.{}", table.name, field.name);
                end += field.bytes;
            }
            assert_eq!(end, table.bytes, "{}", table.name);
            assert!(TABLES[..index].iter().all(|other| other.name != table.name));
        }
    }
}
