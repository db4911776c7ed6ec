//! Where data blocks and parity lie.
//!
//! A *strip* is `strip_blocks` blocks on one drive; a *stripe* is the row of strips at one height
//! over all drives; a *zone* is `zone_strips` strips of one drive; group *g* is zone *g* of every
//! drive. Stripes are counted through all groups, so stripe *s* lies at byte `s x strip` of every
//! drive (from the member's base) and belongs to group `s / zone_strips`. Rotation goes by that
//! number *s*.
//!
//! ```text
//!   none, 3 drives       mirror, 4 drives          parity, data 3, 4 drives
//!   d0  d1  d2           d0   d1   d2   d3         d0  d1  d2  d3
//!   A0  A1  A2           A0*  A0   A1*  A1         A0  A1  A2  P     stripe 0
//!   B0  B1  B2           B0   B0*  B1   B1*        B1  B2  P   B0    stripe 1
//!   C0  C1  C2           C0*  C0   C1*  C1         C2  P   C0  C1    stripe 2
//!                        (* read as copy 0)        P   D0  D1  D2    stripe 3
//! ```
//!
//! Mirror: strip *j* on drives 2j and 2j + 1. Parity: on drive `n - 1 - s mod n`, data follows it
//! cyclically (left-symmetric), so that reading in order visits all drives in turn.

use crate::set::{Cover, MEMBERS_MAX};
use core::fmt;
use core::ops::Range;
use varve_units::{BLOCK_BYTES, Ppa};

/// What a stripe adds to its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Nothing: data strips on all drives.
    None,
    /// Every strip on two drives; an even number of drives.
    Mirror,
    /// One XOR strip for `data` data strips; exactly `data + 1` drives.
    Parity {
        /// Data strips of a stripe, at least 2.
        data: usize,
    },
}

/// Why a geometry is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GeometryError {
    /// No drives, or more than an array can have.
    Drives {
        /// Drives asked for.
        drives: usize,
        /// Most drives of an array.
        most: usize,
    },
    /// A strip of no blocks.
    EmptyStrip,
    /// A zone of no strips.
    EmptyZone,
    /// No groups.
    NoGroups,
    /// Pairs of an odd number of drives.
    OddMirror {
        /// Drives asked for.
        drives: usize,
    },
    /// Fewer than two data strips beside a parity strip; that is a mirror.
    NarrowParity {
        /// Data strips asked for.
        data: usize,
    },
    /// Not exactly one drive more than data strips.
    ParityDrives {
        /// Drives asked for.
        drives: usize,
        /// Data strips asked for.
        data: usize,
    },
    /// More data blocks than a place can name.
    TooLarge {
        /// Most data blocks.
        most: u64,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drives { drives, most } => write!(f, "{drives} drives, 1 to {most} are possible"),
            Self::EmptyStrip => f.write_str("a strip of no blocks"),
            Self::EmptyZone => f.write_str("a zone of no strips"),
            Self::NoGroups => f.write_str("no zone groups"),
            Self::OddMirror { drives } => write!(f, "{drives} drives cannot be paired"),
            Self::NarrowParity { data } => {
                write!(f, "{data} data strips beside parity, at least 2 are due")
            }
            Self::ParityDrives { drives, data } => write!(
                f,
                "{drives} drives for {data} data strips and one parity strip"
            ),
            Self::TooLarge { most } => write!(f, "more than {most} data blocks"),
        }
    }
}

impl core::error::Error for GeometryError {}

/// Place of a data block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Stripe, counted through all groups.
    pub stripe: u64,
    /// Data strip inside the stripe.
    pub strip: usize,
    /// Block inside the strip.
    pub block: u64,
}

/// What a strip of one drive holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Content {
    /// This data strip of the stripe, or its second copy.
    Data(usize),
    /// The stripe's parity.
    Parity,
}

/// Checked geometry of a stripe set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    drives: usize,
    strip_blocks: u64,
    zone_strips: u64,
    groups: u64,
    protection: Protection,
}

impl Geometry {
    /// A geometry of `groups` groups over `drives` drives; a strip of `strip_blocks` blocks, a
    /// zone of `zone_strips` strips.
    ///
    /// # Errors
    /// What makes it impossible.
    pub fn new(
        drives: usize,
        strip_blocks: u64,
        zone_strips: u64,
        groups: u64,
        protection: Protection,
    ) -> Result<Self, GeometryError> {
        let most = MEMBERS_MAX;
        if drives == 0 || drives > most {
            return Err(GeometryError::Drives { drives, most });
        }
        if strip_blocks == 0 {
            return Err(GeometryError::EmptyStrip);
        }
        if zone_strips == 0 {
            return Err(GeometryError::EmptyZone);
        }
        if groups == 0 {
            return Err(GeometryError::NoGroups);
        }
        match protection {
            Protection::Mirror if !drives.is_multiple_of(2) => {
                return Err(GeometryError::OddMirror { drives });
            }
            Protection::Parity { data } if data < 2 => {
                return Err(GeometryError::NarrowParity { data });
            }
            Protection::Parity { data } if drives != data + 1 => {
                return Err(GeometryError::ParityDrives { drives, data });
            }
            Protection::None | Protection::Mirror | Protection::Parity { .. } => {}
        }
        let blocks = strip_blocks
            .checked_mul(zone_strips)
            .and_then(|blocks| blocks.checked_mul(groups))
            .and_then(|blocks| blocks.checked_mul(drives as u64));
        if blocks.is_none_or(|blocks| blocks > Ppa::RESERVED) {
            let most = Ppa::RESERVED;
            return Err(GeometryError::TooLarge { most });
        }
        Ok(Self {
            drives,
            strip_blocks,
            zone_strips,
            groups,
            protection,
        })
    }

    /// Number of drives.
    #[must_use]
    pub const fn drives(&self) -> usize {
        self.drives
    }

    /// Number of groups.
    #[must_use]
    pub const fn groups(&self) -> u64 {
        self.groups
    }

    /// Protection of a stripe.
    #[must_use]
    pub const fn protection(&self) -> Protection {
        self.protection
    }

    /// Independent ways to read a block.
    #[must_use]
    pub const fn copies(&self) -> u8 {
        match self.protection {
            Protection::None => 1,
            Protection::Mirror | Protection::Parity { .. } => 2,
        }
    }

    /// Data strips of a stripe.
    #[must_use]
    pub const fn data_strips(&self) -> usize {
        match self.protection {
            Protection::None => self.drives,
            Protection::Mirror => self.drives / 2,
            Protection::Parity { data } => data,
        }
    }

    /// Bytes of a strip.
    #[must_use]
    pub const fn strip_bytes(&self) -> u64 {
        self.strip_blocks * BLOCK_BYTES
    }

    /// Bytes of one zone, of one drive.
    #[must_use]
    pub const fn zone_bytes(&self) -> u64 {
        self.strip_bytes() * self.zone_strips
    }

    /// Bytes of each drive that are used, from the member's base on.
    #[must_use]
    pub const fn member_bytes(&self) -> u64 {
        self.zone_bytes() * self.groups
    }

    /// Data bytes of a stripe.
    #[must_use]
    pub const fn stripe_bytes(&self) -> u64 {
        self.strip_bytes() * self.data_strips() as u64
    }

    /// Data bytes of a group.
    #[must_use]
    pub const fn group_bytes(&self) -> u64 {
        self.stripe_bytes() * self.zone_strips
    }

    /// Data bytes of the array.
    #[must_use]
    pub const fn data_bytes(&self) -> u64 {
        self.group_bytes() * self.groups
    }

    /// Number of stripes in all groups.
    #[must_use]
    pub const fn stripes(&self) -> u64 {
        self.zone_strips * self.groups
    }

    /// The stripes of a group.
    ///
    /// # Panics
    /// If there is no such group.
    #[must_use]
    pub fn group_stripes(&self, group: u64) -> Range<u64> {
        assert!(group < self.groups, "group beyond the array");
        group * self.zone_strips..(group + 1) * self.zone_strips
    }

    /// Where data block `block` lies.
    ///
    /// # Panics
    /// If there is no such block.
    #[must_use]
    pub fn place(&self, block: u64) -> Place {
        assert!(
            block < self.data_bytes() / BLOCK_BYTES,
            "data block beyond the array"
        );
        let strip = block / self.strip_blocks;
        let strips = self.data_strips() as u64;
        Place {
            stripe: strip / strips,
            strip: (strip % strips) as usize,
            block: block % self.strip_blocks,
        }
    }

    /// The drive a data strip is read from as copy 0.
    #[must_use]
    pub const fn direct(&self, stripe: u64, strip: usize) -> usize {
        match self.protection {
            Protection::None => strip,
            Protection::Mirror => 2 * strip + (stripe % 2) as usize,
            Protection::Parity { .. } => (self.parity_at(stripe) + 1 + strip) % self.drives,
        }
    }

    /// The drive of the stripe's parity, if it has one.
    #[must_use]
    pub const fn parity(&self, stripe: u64) -> Option<usize> {
        match self.protection {
            Protection::Parity { .. } => Some(self.parity_at(stripe)),
            Protection::None | Protection::Mirror => None,
        }
    }

    const fn parity_at(&self, stripe: u64) -> usize {
        self.drives - 1 - (stripe % self.drives as u64) as usize
    }

    /// What the strip of `drive` holds in `stripe`.
    ///
    /// # Panics
    /// If there is no such drive.
    #[must_use]
    pub const fn content(&self, stripe: u64, drive: usize) -> Content {
        assert!(drive < self.drives, "drive beyond the array");
        match self.protection {
            Protection::None => Content::Data(drive),
            Protection::Mirror => Content::Data(drive / 2),
            Protection::Parity { .. } => {
                let parity = self.parity_at(stripe);
                if drive == parity {
                    Content::Parity
                } else {
                    Content::Data((drive + self.drives - parity - 1) % self.drives)
                }
            }
        }
    }

    /// The drives whose strips at the same height give back the strip of `drive`; empty if
    /// nothing does.
    pub(crate) fn others(&self, drive: usize) -> impl Iterator<Item = usize> + use<> {
        let range = match self.protection {
            Protection::None => 0..0,
            Protection::Mirror => (drive ^ 1)..(drive ^ 1) + 1,
            Protection::Parity { .. } => 0..self.drives,
        };
        range.filter(move |&other| other != drive)
    }

    /// The only drive that gives back the strip of `drive`, if one does alone.
    pub(crate) fn partner(&self, drive: usize) -> Option<usize> {
        let mut others = self.others(drive);
        others.next().filter(|_| others.next().is_none())
    }

    pub(crate) const fn cover(&self) -> Cover {
        match self.protection {
            Protection::None => Cover::All,
            Protection::Mirror => Cover::Pairs,
            Protection::Parity { .. } => Cover::AllButOne,
        }
    }
}
