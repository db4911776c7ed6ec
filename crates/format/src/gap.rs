//! A sector that a drive of the fast tier was filled with because no other drive could give what it
//! should hold.
//!
//! The log's end is where no batch is. A drive that was filled where nothing could be read would say so of a
//! place that held a batch; with a gap there it says that nobody knows. What is written there next
//! replaces it.

use crate::error::DecodeError;
use crate::media::{
    VERSION, check_crc, check_home, check_magic, check_zero, lsn, media, prefix, seal, truncated,
};
use varve_io::Sectors;
use varve_units::{Lsn, SECTOR};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

pub(crate) const MAGIC: [u8; 4] = *b"VGAP";
const STRUCTURE: &str = "Gap";

media! {
    /// A [`Gap`] on media; zeroes follow up to 512 bytes.
    struct GapRaw: 48 {
        magic: [u8; 4],
        version: U16,
        reserved: [u8; 2],
        crc: U32,
        reserved_more: [u8; 4],
        pool: [u8; 16],
        address_sector: U64,
        stamp: U64,
    }
}

/// A sector of which the content was lost when its drive was filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Identity of the pool.
    pub pool: [u8; 16],
    /// Its fast-tier sector.
    pub address: u64,
    /// LSN drawn when it was written: it says nothing of a chunk that was opened since.
    pub stamp: Lsn,
}

impl Gap {
    /// The sector on media.
    ///
    /// # Panics
    /// If the LSN has more than 56 bits.
    #[must_use]
    pub fn encode(&self) -> Sectors {
        assert!(self.stamp <= Lsn::MAX, "LSN of 56 bits");
        let raw = GapRaw {
            magic: MAGIC,
            version: VERSION.into(),
            pool: self.pool,
            address_sector: self.address.into(),
            stamp: self.stamp.0.into(),
            ..GapRaw::new_zeroed()
        };
        let mut sectors = Sectors::zeroed(1);
        let bytes = sectors.bytes_mut();
        bytes[..size_of::<GapRaw>()].copy_from_slice(raw.as_bytes());
        seal(bytes);
        sectors
    }

    /// The gap in `bytes`, read at sector `address` of the pool `pool`.
    ///
    /// # Errors
    /// [`DecodeError`] if there is none, or one of another pool or of another place.
    pub fn decode(bytes: &[u8], pool: &[u8; 16], address: u64) -> Result<Self, DecodeError> {
        let bytes = bytes
            .get(..SECTOR)
            .ok_or_else(|| truncated(STRUCTURE, SECTOR, bytes.len()))?;
        check_magic(bytes, MAGIC, STRUCTURE)?;
        check_crc(bytes, STRUCTURE)?;
        let (raw, rest) = prefix::<GapRaw>(bytes, STRUCTURE)?;
        check_zero(rest, STRUCTURE)?;
        check_zero(&raw.reserved, STRUCTURE)?;
        check_zero(&raw.reserved_more, STRUCTURE)?;
        check_home(
            (raw.pool, *pool),
            (raw.address_sector.get(), address),
            STRUCTURE,
        )?;
        Ok(Self {
            pool: raw.pool,
            address,
            stamp: lsn(raw.stamp.get(), "stamp")?,
        })
    }
}
