//! The P2L area of one stripe: which block each data block of the stripe is.
//!
//! Index of garbage collection and the second copy of the map, never redo. It lies inside the
//! code of its stripe, as whole blocks.

use crate::error::DecodeError;
use crate::media::{
    U40, U56, VERSION, check_crc, check_equal, check_magic, check_range, check_zero, list, media,
    prefix, seal, truncated,
};
use crate::record::LBA_END;
use alloc::vec;
use alloc::vec::Vec;
use varve_units::{BLOCK, Generation, Lba, Lsn, VolumeId};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Data blocks of one stripe at most. Arbitrary: 256 MiB of data.
pub const STRIPE_BLOCKS_MAX: usize = 1 << 16;

pub(crate) const MAGIC: [u8; 4] = *b"VP2L";
const STRUCTURE: &str = "P2l";

/// One data block of a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct P2lEntry {
    /// Its volume; 0 = padding, the rest is zero too.
    pub volume: VolumeId,
    /// Its number in the volume, below [`LBA_END`].
    pub lba: Lba,
    /// LSN of its host write.
    pub birth: Lsn,
    /// CRC-32C of the block.
    pub crc: u32,
}

impl P2lEntry {
    /// A block of the stripe that belongs to no volume.
    pub const PADDING: Self = Self {
        volume: VolumeId(0),
        lba: Lba(0),
        birth: Lsn::ZERO,
        crc: 0,
    };
}

/// Of a stripe that was written while a drive of its tier was missing: what it leaves out, so that it bears the loss
/// of one more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Narrow {
    /// The member of the dense tier whose strip is all zeroes, below [`NARROW_MEMBERS`].
    pub member: u8,
    /// What it ends with.
    pub tail: NarrowTail,
}

/// What the last strip of a narrow stripe holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NarrowTail {
    /// Data, and the P2L area as in any other stripe.
    Data,
    /// Zeroes. The P2L area is the first of the stripe.
    Zeroes,
    /// The XOR of all other data strips. The P2L area is the first of the stripe.
    Sum,
}

/// Members that a narrow stripe can name.
pub const NARROW_MEMBERS: u8 = 128;

impl Narrow {
    /// True if the P2L area lies where the stripe begins.
    #[must_use]
    pub const fn leads(&self) -> bool {
        !matches!(self.tail, NarrowTail::Data)
    }

    fn codes(narrow: Option<Self>) -> (u8, u8) {
        let Some(Self { member, tail }) = narrow else {
            return (0, 0);
        };
        assert!(member < NARROW_MEMBERS, "member of a narrow stripe");
        let tail = match tail {
            NarrowTail::Data => 0,
            NarrowTail::Zeroes => 1,
            NarrowTail::Sum => 2,
        };
        (member + 1, tail)
    }

    fn from_codes(member: u8, tail: u8) -> Result<Option<Self>, DecodeError> {
        check_range(
            member <= NARROW_MEMBERS,
            "member of a narrow stripe",
            member.into(),
        )?;
        let is_known = tail == 0 || (member > 0 && tail <= 2);
        check_range(is_known, "tail of a narrow stripe", tail.into())?;
        let tail = match tail {
            0 => NarrowTail::Data,
            1 => NarrowTail::Zeroes,
            _ => NarrowTail::Sum,
        };
        let narrow = |member| Self { member, tail };
        Ok(member.checked_sub(1).map(narrow))
    }
}

/// The P2L area of one stripe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct P2l {
    /// Epoch of the pool when it was written, folded with the pool's identity as that of a batch is.
    pub epoch: u32,
    /// Number of the group.
    pub group: u32,
    /// Generation of the group.
    pub generation: Generation,
    /// Number of the stripe within the group.
    pub stripe: u32,
    /// What it leaves out; nothing in a stripe of full width.
    pub narrow: Option<Narrow>,
    /// Its data blocks in order.
    pub entries: Vec<P2lEntry>,
}

/// What the P2L area of a stripe says besides its blocks: see [`P2l`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct P2lHead {
    /// Epoch of the pool, folded with the pool's identity.
    pub epoch: u32,
    /// Number of the group.
    pub group: u32,
    /// Generation of the group.
    pub generation: Generation,
    /// Number of the stripe within the group.
    pub stripe: u32,
    /// What it leaves out; nothing in a stripe of full width.
    pub narrow: Option<Narrow>,
}

impl P2lHead {
    /// Fills `into` with the area of a stripe of `count` data blocks, of which those behind `entries` are padding, and
    /// with zeroes behind it, whatever it held before.
    ///
    /// # Panics
    /// As [`P2l::encode_into`], or if there are more than `count` entries.
    pub fn encode_into(
        &self,
        count: usize,
        mut entries: impl Iterator<Item = P2lEntry>,
        into: &mut [u8],
    ) {
        assert!(
            (1..=STRIPE_BLOCKS_MAX).contains(&count),
            "{count} blocks in a stripe"
        );
        let (narrow_member, narrow_tail) = Narrow::codes(self.narrow);
        let head = P2lHeadRaw {
            magic: MAGIC,
            version: VERSION.into(),
            narrow_member,
            narrow_tail,
            epoch: self.epoch.into(),
            group: self.group.into(),
            generation: self.generation.0.into(),
            stripe: self.stripe.into(),
            count: u32::try_from(count).expect("entries were checked").into(),
            crc: 0.into(),
        };
        let (bytes, behind) = into.split_at_mut(P2l::blocks_for(count) * BLOCK);
        behind.fill(0);
        let (first, rest) = bytes.split_at_mut(size_of::<P2lHeadRaw>());
        first.copy_from_slice(head.as_bytes());
        let (slots, padding) = <[P2lEntryRaw]>::mut_from_prefix_with_elems(rest, count)
            .expect("the blocks hold all entries");
        padding.fill(0);
        for slot in slots {
            let entry = entries.next().unwrap_or(P2lEntry::PADDING);
            *slot = entry.raw();
        }
        assert!(entries.next().is_none(), "blocks of one stripe");
        seal(bytes);
    }
}

media! {
    /// Head of a [`P2l`] on media; followed by `count` entries and zeroes up to a whole block.
    struct P2lHeadRaw: 32 {
        magic: [u8; 4],
        version: U16,
        narrow_member: u8,
        narrow_tail: u8,
        crc: U32,
        epoch: U32,
        group: U32,
        generation: U32,
        stripe: U32,
        count: U32,
    }
}

media! {
    /// A [`P2lEntry`] on media.
    struct P2lEntryRaw: 24 {
        volume: U64,
        lba: U40,
        birth: U56,
        crc: U32,
    }
}

impl P2l {
    /// Blocks of the area of a stripe with `data_blocks` entries.
    #[must_use]
    pub const fn blocks_for(data_blocks: usize) -> usize {
        (size_of::<P2lHeadRaw>() + data_blocks * size_of::<P2lEntryRaw>()).div_ceil(BLOCK)
    }

    /// Whole blocks as bytes.
    ///
    /// # Panics
    /// If there are no entries or more than [`STRIPE_BLOCKS_MAX`], or one breaks a limit.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::blocks_for(self.entries.len()) * BLOCK];
        self.encode_into(&mut bytes);
        bytes
    }

    /// Writes whole blocks to the start of `into`, and zeroes behind them.
    ///
    /// # Panics
    /// As [`Self::encode`], or if `into` is shorter.
    pub fn encode_into(&self, into: &mut [u8]) {
        let head = P2lHead {
            epoch: self.epoch,
            group: self.group,
            generation: self.generation,
            stripe: self.stripe,
            narrow: self.narrow,
        };
        head.encode_into(self.entries.len(), self.entries.iter().copied(), into);
    }

    /// The area in `bytes`, read as that of stripe `stripe` of group `group`.
    ///
    /// # Errors
    /// [`DecodeError`] if it is damaged, of another stripe, or `bytes` is not exactly its blocks.
    pub fn decode(bytes: &[u8], group: u32, stripe: u32) -> Result<Self, DecodeError> {
        check_magic(bytes, MAGIC, STRUCTURE)?;
        let (head, rest) = prefix::<P2lHeadRaw>(bytes, STRUCTURE)?;
        let count = head.count.get() as usize;
        let fits = (1..=STRIPE_BLOCKS_MAX).contains(&count);
        check_range(fits, "stripe blocks", count as u64)?;
        let size = Self::blocks_for(count) * BLOCK;
        if bytes.len() < size {
            return Err(truncated(STRUCTURE, size, bytes.len()));
        }
        check_equal(size as u64, bytes.len() as u64, "stripe blocks")?;
        check_crc(bytes, STRUCTURE)?;
        let narrow = Narrow::from_codes(head.narrow_member, head.narrow_tail)?;
        check_equal(group.into(), head.group.get().into(), "group")?;
        check_equal(stripe.into(), head.stripe.get().into(), "stripe")?;
        let (entries, rest) = list::<P2lEntryRaw>(rest, count, STRUCTURE)?;
        check_zero(rest, STRUCTURE)?;
        Ok(Self {
            epoch: head.epoch.get(),
            group,
            generation: Generation(head.generation.get()),
            stripe,
            narrow,
            entries: P2lEntry::all_checked(entries)?,
        })
    }
}

impl P2lEntry {
    fn raw(&self) -> P2lEntryRaw {
        assert!(self.check().is_ok(), "padding has a volume");
        P2lEntryRaw {
            volume: self.volume.0.into(),
            lba: U40::new(self.lba.0),
            birth: U56::new(self.birth),
            crc: self.crc.into(),
        }
    }

    #[inline]
    fn unchecked(raw: &P2lEntryRaw) -> Self {
        Self {
            volume: VolumeId(raw.volume.get()),
            lba: Lba(raw.lba.get()),
            birth: raw.birth.get(),
            crc: raw.crc.get(),
        }
    }

    fn all_checked(raw: &[P2lEntryRaw]) -> Result<Vec<Self>, DecodeError> {
        let entries: Vec<Self> = raw.iter().map(Self::unchecked).collect();
        // All that is left to be checked of those of a volume is their block number, which has 40 bits there.
        const { assert!(LBA_END == 1 << 40) };
        let mut padding = entries.iter().filter(|entry| entry.volume == VolumeId(0));
        padding.try_for_each(Self::check)?;
        Ok(entries)
    }

    fn check(&self) -> Result<(), DecodeError> {
        check_range(self.lba.0 < LBA_END, "lba", self.lba.0)?;
        let named = self.volume != VolumeId(0) || *self == Self::PADDING;
        check_range(named, "lba of padding", self.lba.0)
    }
}
