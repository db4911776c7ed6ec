//! Block numbers, sizes, sequence numbers and times as types.
//!
//! An LBA cannot be passed where a physical address is due, and a number of blocks is not a number
//! of bytes. Arithmetic that has no meaning (`Lba + Lba`) does not exist; arithmetic that can
//! overflow panics, because an overflow of these numbers is a programmer error everywhere above
//! the decoders.
//!
//! **Not here**: encodings on media (`format`), geometry (`ftl`, `array`).

#![no_std]

mod address;
mod ids;
mod sequence;
mod size;
mod time;

pub use address::{Lba, LeafIndex, Ppa};
pub use ids::{Generation, LaneId, ShardId, SliceId, TenantId, VolumeId};
pub use sequence::Lsn;
pub use size::{BLOCK, BLOCK_BYTES, Blocks, LEAF_BLOCKS, SECTOR, SECTOR_BYTES};
pub use time::Nanos;

/// True in builds that can plant bugs for the simulator to find: those of tests, and any with the feature `canary`. What is
/// released cannot, whatever it is told: the profile has no debug assertions. Here because every crate with a planted bug asks for it.
pub const PLANTS_BUGS: bool = cfg!(any(feature = "canary", debug_assertions));
