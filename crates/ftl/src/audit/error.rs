//! What an audit can find wrong: one variant per invariant.

use crate::geometry::UnitId;
use crate::units::UnitState;
use core::fmt;
use varve_format::{Entry, P2lEntry};
use varve_units::{Lba, LeafIndex, Lsn, Ppa, VolumeId};

/// A mapped block and the unit it lies in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapped {
    /// The volume.
    pub volume: VolumeId,
    /// The block.
    pub lba: Lba,
    /// Its place.
    pub ppa: Ppa,
    /// The chunk or group of that place.
    pub unit: UnitId,
}

impl fmt::Display for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            volume,
            lba,
            ppa,
            unit,
        } = self;
        write!(f, "{volume} {lba} at {ppa:?} in {unit}")
    }
}

impl fmt::Display for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.tier {
            crate::geometry::Tier::Fast => "chunk",
            crate::geometry::Tier::Dense => "group",
        };
        write!(f, "{word} {}", self.index)
    }
}

/// The first invariant found broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AuditError {
    /// Map against media: a mapped block fails its check by every copy.
    BlockUnreadable {
        /// The block.
        at: Mapped,
        /// The 24 bits its checksum must have.
        expected: u32,
        /// Those of the last copy that could be read at all.
        found: Option<u32>,
    },
    /// The map names a place that the pool does not have.
    NoSuchPlace {
        /// The volume.
        volume: VolumeId,
        /// The block.
        lba: Lba,
        /// The place named.
        ppa: Ppa,
    },
    /// A mapped place lies in a unit that is not in use.
    PlaceNotInUse {
        /// The block.
        at: Mapped,
        /// The state found.
        state: UnitState,
    },
    /// A mapped place has a 0 bit.
    LiveBitClear {
        /// The block.
        at: Mapped,
        /// The bit.
        bit: u32,
    },
    /// A mapped place ends beyond what its unit has appended.
    PlaceBeyondPointer {
        /// The block.
        at: Mapped,
        /// Where the block ends: sectors of a chunk, data blocks of a group.
        end: u32,
        /// What was appended, in the same unit.
        write_pointer: u32,
    },
    /// A reference is older than the present use of its unit.
    ReferenceOlderThanStamp {
        /// The block.
        at: Mapped,
        /// The unit's stamp.
        stamp: Lsn,
        /// LSN at which the reference was in force.
        since: Lsn,
    },
    /// Two entries of the map refer to the same place, or to places that overlap.
    PlaceShared {
        /// One of them.
        at: Mapped,
        /// The other.
        other: Mapped,
    },
    /// No area and no copy of a stripe's P2L passes its checks.
    P2lUnreadable {
        /// The group.
        unit: UnitId,
        /// The stripe.
        stripe: u32,
        /// A block of it that is mapped.
        at: Mapped,
    },
    /// A mapped place is none of its stripe's user data.
    PlaceInP2lArea {
        /// The block.
        at: Mapped,
        /// The stripe.
        stripe: u32,
    },
    /// The P2L names another block at a mapped place.
    P2lDisagrees {
        /// The block.
        at: Mapped,
        /// Low 24 bits of its checksum as the map has them.
        expected: u32,
        /// The P2L's entry.
        found: P2lEntry,
    },
    /// The live count of a unit is not the number of its 1 bits.
    LiveCountWrong {
        /// The unit.
        unit: UnitId,
        /// 1 bits.
        expected: u32,
        /// The count.
        found: u32,
    },
    /// A unit has fewer 1 bits than blocks mapped in it.
    FewerBitsThanBlocks {
        /// The unit.
        unit: UnitId,
        /// Blocks mapped.
        expected: u32,
        /// 1 bits.
        found: u32,
    },
    /// A free unit has live bits, leaves or a write pointer.
    FreeUnitNotEmpty {
        /// The unit.
        unit: UnitId,
        /// Its live count.
        live: u32,
        /// Its leaf count.
        leaves: u32,
        /// Its write pointer.
        write_pointer: u32,
    },
    /// A unit stands in a list although its state is another.
    ListedInState {
        /// The unit.
        unit: UnitId,
        /// The state of the list's units.
        expected: UnitState,
        /// Its state.
        found: UnitState,
    },
    /// A unit stands in a list twice, or in two lists.
    ListedTwice {
        /// The unit.
        unit: UnitId,
        /// Its state.
        state: UnitState,
    },
    /// A free or open unit stands in no list, so that nobody will ever use it.
    ListedNowhere {
        /// The unit.
        unit: UnitId,
        /// Its state.
        state: UnitState,
    },
    /// The leaf count of a chunk is not the number of leaves whose image lies there.
    LeafCountWrong {
        /// The chunk.
        unit: UnitId,
        /// Leaves whose stored image lies there.
        expected: u32,
        /// The count.
        found: u32,
    },
    /// No copy of a leaf's stored image passes its check.
    LeafUnreadable {
        /// The volume.
        volume: VolumeId,
        /// The leaf.
        leaf: LeafIndex,
        /// Fast-tier sector of the image.
        sector: u64,
        /// The checksum it must have.
        expected: u32,
        /// That of the last copy that could be read at all.
        found: Option<u32>,
    },
    /// A leaf's stored image lies in a chunk that is not in use.
    LeafNotInUse {
        /// The volume.
        volume: VolumeId,
        /// The leaf.
        leaf: LeafIndex,
        /// The chunk.
        unit: UnitId,
        /// The state found.
        state: UnitState,
    },
    /// A leaf's stored image ends beyond what its chunk has appended.
    LeafBeyondPointer {
        /// The volume.
        volume: VolumeId,
        /// The leaf.
        leaf: LeafIndex,
        /// The chunk.
        unit: UnitId,
        /// Where the image ends, in sectors of the chunk.
        end: u32,
        /// Sectors appended.
        write_pointer: u32,
    },
    /// A cached image is not its base folded with its chain.
    CacheDisagrees {
        /// The volume.
        volume: VolumeId,
        /// The block.
        lba: Lba,
        /// The entry as worked out.
        expected: Entry,
        /// The entry cached.
        found: Entry,
    },
    /// A part or the record of the newest commit lies in a chunk that is not in use.
    PartNotInUse {
        /// The checkpoint that wrote it.
        checkpoint: u64,
        /// Its fast-tier sector.
        sector: u64,
        /// The chunk.
        unit: UnitId,
        /// The state found.
        state: UnitState,
    },
    /// No copy of a part of the newest commit passes its check.
    PartUnreadable {
        /// The checkpoint that wrote it.
        checkpoint: u64,
        /// Its fast-tier sector.
        sector: u64,
        /// The checksum it must have.
        expected: u32,
        /// That of the last copy that could be read at all.
        found: Option<u32>,
    },
    /// More blocks are mapped than the upper bound says.
    UsedBelowMapped {
        /// Blocks mapped.
        expected: u64,
        /// The bound.
        found: u64,
    },
    /// What reactors show of their bounds, which admission goes by, is not what their maps say.
    UsedShownWrong {
        /// The bound of all maps.
        expected: u64,
        /// What is shown.
        found: u64,
    },
    /// Leaves changed faster than they could be read: the engine is not quiescent.
    Unsettled,
    /// Reactors run on threads of their own, so that they cannot be looked at in one moment.
    OutOfSight,
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlockUnreadable {
                at,
                expected,
                found,
            } => {
                write!(f, "{at} fails its check by every copy: ")?;
                sums(f, *expected, *found)
            }
            Self::NoSuchPlace { volume, lba, ppa } => {
                write!(
                    f,
                    "{volume} {lba} is mapped to {ppa:?}, which does not exist"
                )
            }
            Self::PlaceNotInUse { at, state } => {
                write!(f, "{at} is mapped, but the unit is {state:?}")
            }
            Self::LiveBitClear { at, bit } => write!(f, "{at} is mapped, but live bit {bit} is 0"),
            Self::PlaceBeyondPointer {
                at,
                end,
                write_pointer,
            } => write!(
                f,
                "{at} ends at {end}, beyond the write pointer {write_pointer}"
            ),
            Self::ReferenceOlderThanStamp { at, stamp, since } => write!(
                f,
                "{at} is referred to since {since}, before the unit's stamp {stamp}"
            ),
            Self::PlaceShared { at, other } => write!(f, "{at} overlaps {other}"),
            _ => self.fmt_rest(f),
        }
    }
}

impl AuditError {
    fn fmt_rest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::P2lUnreadable { unit, stripe, at } => {
                write!(
                    f,
                    "the P2L of stripe {stripe} of {unit} is unreadable; {at}"
                )
            }
            Self::PlaceInP2lArea { at, stripe } => {
                write!(f, "{at} is no user data of stripe {stripe}")
            }
            Self::P2lDisagrees {
                at,
                expected,
                found,
            } => write!(
                f,
                "{at} with checksum {expected:#08x} is {} {} with checksum {:#010x} in the P2L",
                found.volume, found.lba, found.crc
            ),
            Self::LiveCountWrong {
                unit,
                expected,
                found,
            } => write!(f, "{unit} has {expected} live bits and counts {found}"),
            Self::FewerBitsThanBlocks {
                unit,
                expected,
                found,
            } => write!(
                f,
                "{unit} has {expected} mapped blocks and {found} live bits"
            ),
            Self::FreeUnitNotEmpty {
                unit,
                live,
                leaves,
                write_pointer,
            } => write!(
                f,
                "{unit} is free with {live} live blocks, {leaves} leaves, \
                 write pointer {write_pointer}"
            ),
            Self::ListedInState {
                unit,
                expected,
                found,
            } => write!(f, "{unit} is listed as {expected:?} and is {found:?}"),
            Self::ListedTwice { unit, state } => {
                write!(f, "{unit}, {state:?}, is listed more than once")
            }
            Self::ListedNowhere { unit, state } => {
                write!(f, "{unit}, {state:?}, is in nobody's list")
            }
            _ => self.fmt_leaves(f),
        }
    }

    fn fmt_leaves(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeafCountWrong {
                unit,
                expected,
                found,
            } => write!(f, "{unit} holds {expected} leaf images and counts {found}"),
            Self::LeafUnreadable {
                volume,
                leaf,
                sector,
                expected,
                found,
            } => {
                write!(f, "leaf {} of {volume} at sector {sector}: ", leaf.0)?;
                sums(f, *expected, *found)
            }
            Self::LeafNotInUse {
                volume,
                leaf,
                unit,
                state,
            } => write!(
                f,
                "leaf {} of {volume} lies in {unit}, which is {state:?}",
                leaf.0
            ),
            Self::LeafBeyondPointer {
                volume,
                leaf,
                unit,
                end,
                write_pointer,
            } => write!(
                f,
                "leaf {} of {volume} in {unit} ends at {end}, beyond the write pointer \
                 {write_pointer}",
                leaf.0
            ),
            Self::CacheDisagrees {
                volume,
                lba,
                expected,
                found,
            } => write!(f, "{volume} {lba} is {expected:?} and cached as {found:?}"),
            _ => self.fmt_pool(f),
        }
    }

    fn fmt_pool(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PartNotInUse {
                checkpoint,
                sector,
                unit,
                state,
            } => write!(
                f,
                "a start needs sector {sector} of checkpoint {checkpoint} in {unit}, which is \
                 {state:?}"
            ),
            Self::PartUnreadable {
                checkpoint,
                sector,
                expected,
                found,
            } => {
                write!(f, "part of checkpoint {checkpoint} at sector {sector}: ")?;
                sums(f, *expected, *found)
            }
            Self::UsedBelowMapped { expected, found } => {
                write!(f, "{expected} blocks are mapped, the bound is {found}")
            }
            Self::UsedShownWrong { expected, found } => {
                write!(
                    f,
                    "maps bound the blocks in use at {expected}, {found} is shown"
                )
            }
            Self::OutOfSight => f.write_str("reactors on threads of their own cannot be audited"),
            _ => f.write_str("leaves change faster than they can be audited"),
        }
    }
}

fn sums(f: &mut fmt::Formatter<'_>, expected: u32, found: Option<u32>) -> fmt::Result {
    match found {
        Some(found) => write!(f, "checksum {found:#x}, expected {expected:#x}"),
        None => write!(f, "unreadable, expected checksum {expected:#x}"),
    }
}

impl core::error::Error for AuditError {}
