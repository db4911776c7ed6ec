//! Every structure on media: layout, versions, checksums, inspection.
//!
//! Little-endian, `zerocopy`, size-asserted. Each header carries magic, version, epoch, its own
//! address and a checksum. Decoders treat bytes as hostile and return checked types.
//!
//! **Not here**: what the structures mean for the map or the log (`ftl`), who writes them.

#![no_std]

extern crate alloc;

mod batch;
mod catalogue;
mod checkpoint;
mod chunk;
mod crc;
mod delta;
mod entry;
mod error;
mod label;
mod leaf;
mod p2l;
mod record;
mod slice_part;

pub use delta::{DELTA_BYTES, Delta, DeltaBody, DeltaError};
pub use entry::{CRC24_MASK, Entry};
pub use leaf::{LEAF_BYTES, LEAF_ENTRIES, LeafError, LeafImage, Placement};
pub use slice_part::{
    PART_BYTES_MAX, Parent, PartHead, PartWriter, Section, SectionParent, SectionState,
    SlicePartError, decode_part,
};
