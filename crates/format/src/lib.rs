//! Every structure on media: layout, versions, checksums, inspection.
//!
//! Little-endian, `zerocopy`, size-asserted. Each header carries magic, version, epoch, its own
//! address and a checksum. Decoders treat bytes as hostile and return checked types.
//!
//! **Not here**: what the structures mean for the map or the log (`ftl`), who writes them.

#![no_std]

extern crate alloc;

mod media;

pub mod batch;
mod bitmap;
mod brought;
mod catalogue;
mod checkpoint;
mod chunk;
mod crc;
mod crcs;
mod delta;
mod entry;
mod error;
mod gap;
mod geometry;
mod label;
pub mod layout;
mod leaf;
mod name;
mod p2l;
mod part;
mod payload;
mod record;
mod record_decode;
mod record_encode;
mod record_raw;
mod slice_part;
mod unit;

pub use batch::{
    BATCH_DATA_BLOCKS_MAX, BATCH_HEAD_BYTES, BATCH_HEADER_BYTES_MAX, BATCH_META_BYTES_MAX,
    BATCH_RECORDS_MAX, BatchHead, BatchStart,
};
pub use bitmap::{Tier, UNIT_BITS_HEAD_BYTES, UNIT_BITS_WORDS_MAX, UnitBits, UnitBitsPlace};
pub use brought::{Brought, BroughtBlock, BroughtLeaf};
pub use catalogue::{CATALOGUE_ENTRY_BYTES, CatalogueEntry, VOLUME_BLOCKS_MAX, VolumeState};
pub use checkpoint::{CommitBody, LanePosition, PartKind, PartPlace};
pub use chunk::{CHUNK_HEAD_BYTES, CHUNK_HEADER_BYTES, ChunkHeader, CommitPlace};
pub use crc::{
    are_checksums_symbolic, block_crc, crc24, crc32c, crc32c_parts, make_checksums_symbolic,
};
pub use crcs::Crcs;
pub use delta::{DELTA_BYTES, Delta, DeltaBody, DeltaError};
pub use entry::{CRC24_MASK, Entry};
pub use error::DecodeError;
pub use gap::Gap;
pub use geometry::{
    CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, Geometry, PARITY_MAX, Protection, SLICES_MAX,
};
pub use label::{LABEL_BYTES, LABEL_MAGIC, Label, MEMBERS_MAX, Member, MemberRole, MemberState};
pub use leaf::{LEAF_BYTES, LEAF_ENTRIES, LeafError, LeafImage, Placement};
pub use name::{NAME_BYTES_MAX, Name};
pub use p2l::{NARROW_MEMBERS, Narrow, NarrowTail, P2l, P2lEntry, P2lHead, STRIPE_BLOCKS_MAX};
pub use part::PartPayload;
pub use payload::{PayloadLayout, PayloadPlace};
pub use record::{
    COMMIT_BYTES_MAX, ITEMS_MAX, KeepItem, LBA_END, LEAF_IMAGE_BYTES, MoveItem, PART_BYTES_MAX,
    PUT_BLOCKS_MAX, RECORD_HEAD_BYTES, Record, RecordKind,
};
pub use record_raw::RecordSize;
pub use slice_part::{
    Parent, PartHead, PartWriter, Section, SectionParent, SectionState, SectionSummary,
    SectionView, Sections, SlicePartError, StateSummary, StateView, view_part,
};
pub use unit::{
    CHUNK_ENTRY_BYTES, CHUNKS_PER_PART, ChunkEntry, ChunkState, GROUP_ENTRY_BYTES, GROUPS_PER_PART,
    GroupEntry, GroupState, NarrowGroup,
};
