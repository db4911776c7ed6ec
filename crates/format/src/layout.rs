//! The layout of every structure as Markdown, derived from the structures themselves.

use crate::media::Table;
use crate::record_raw as record;
use crate::{batch, bitmap, catalogue, checkpoint, chunk, gap, geometry, label, media, p2l, unit};
use alloc::string::String;
use core::fmt::Write;

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
