//! Bounds of the engine: everything has one, with its origin. What depends on a pool's sizes is
//! derived in `reserve`.

use varve_units::Nanos;

/// Bytes of records in one batch at most. Arbitrary: 4,096 moves of 16 B.
pub const BATCH_HEADER_BYTES_MAX: u64 = 64 << 10;
/// Metadata payload of one batch at most, in sectors (256 KiB parts, leaves). Arbitrary.
pub const BATCH_META_SECTORS_MAX: u64 = 1024;
/// Records that may queue at a lane before appenders wait. Arbitrary: a few batches.
pub const LANE_QUEUE_MAX: usize = 2048;
/// Leaf merges in flight in one shard. Arbitrary: enough to share batches.
pub const MERGES_MAX: usize = 16;
/// Chain length at which a leaf is merged even if the delta pool has room (engine.md U2).
pub const CHAIN_MAX: usize = 64;
/// Old chains that one walk over a slice looks for at most. Arbitrary: the walk costs little beside
/// so many merges, and they are 16 KiB.
pub const AGED_AT_ONCE: usize = 1024;
/// Old chains that are merged after one checkpoint while what is left of the log is kept for others.
/// Arbitrary: less than a checkpoint takes itself.
pub const AGED_MAX_SHORT: usize = 4;
/// Old chains of copies that are away after which a round ends. Arbitrary.
pub const AGED_AWAY_MAX: usize = 16;
/// Blocks that are read beside one another from a victim, or a stripe of one, at most, in one read of
/// the device or in several (512 KiB).
pub const CLEANER_RUN_MAX: usize = 128;
/// Groups in the hands of garbage collection at most, nearly all waiting for their last stripe to
/// fill. Arbitrary: the blocks that they wait for are less than a stripe in all.
pub const GC_VICTIMS_MAX: usize = 8;
/// Stripes of a victim that garbage collection reads beside one another at most. Dense flash takes
/// milliseconds for a read whose die is programmed, and a stripe takes two, one after the other.
/// Arbitrary: 10 ms a stripe of 1 MiB, half of it alive, are 800 MB a second then.
pub const GC_STRIPES_MAX: usize = 16;
/// Deallocations and moves that a chain may hold, those on their way to their shard included;
/// beside them it holds at most one put for each block, and each put of the next record counts as one
/// more, also if it replaces another. Records that could add more wait.
pub const CHAIN_ROOM: usize = crate::map::CHAIN_MAX - 2 * varve_units::LEAF_BLOCKS as usize;
/// Places that one command of a host is read from beside one another at most. Arbitrary: 128 KiB that lie
/// scattered are read in one latency of the drive.
pub const READS_AT_ONCE: usize = 32;
/// Of all commands, about: each has its share of these, one at least. Arbitrary: enough for the dies of a drive. Where
/// hosts have a thousand commands in flight, more cost writes and reads 4 to 7 % of their rate on modelled flash.
pub const READS_OF_ALL: usize = 256;
/// Times a read looks up again because its unit was reused, before it yields. Arbitrary.
pub const READ_RETRIES_MAX: usize = 64;
/// Times a write of the log is sent to another chunk before the engine stops. Arbitrary.
pub const REROUTES_MAX: u32 = 8;
/// Pause between attempts when a needed resource is exhausted by a fault. Arbitrary.
pub const RETRY_PAUSE: Nanos = Nanos::from_millis(1);
/// Pause between questions to a tier that is away, at most. Arbitrary: hosts wait no longer than
/// that once it is back.
pub const OUTAGE_PAUSE_MAX: Nanos = Nanos::from_secs(1);
