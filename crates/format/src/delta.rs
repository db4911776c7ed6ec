//! The delta: one change of a leaf, 16 bytes, in chains and in checkpoint parts.

use crate::entry::{CRC24_MASK, Entry};
use crate::leaf::{LEAF_ENTRIES, Placement};
use core::fmt;
use varve_units::{Lsn, Ppa};
use zerocopy::little_endian::U128;
use zerocopy::{Immutable, IntoBytes, KnownLayout, Unaligned};

/// What a delta does to its leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeltaBody {
    /// The entry becomes this, whatever it was.
    Put {
        /// Place and checksum.
        entry: Entry,
        /// Class and moved flag.
        placement: Placement,
    },
    /// The entry's place becomes `new` if it is `old`; the checksum stays.
    Move {
        /// Place the entry must have.
        old: Ppa,
        /// Place it gets.
        new: Ppa,
        /// Class and moved flag it gets.
        placement: Placement,
    },
    /// `count` entries become absent or zero.
    Discard {
        /// Length of the run, 1..=512.
        count: u16,
        /// Written as zeroes rather than deallocated.
        zero: bool,
    },
}

/// A change of a leaf: index (bits 0..9), kind (9..11), placement (11..16), place (16..56),
/// argument (56..96), low half of the LSN (96..128).
///
/// The argument is the checksum of a put, the old place of a move, the run length of a discard
/// (whose place is `absent` or `zero`). The form on media and in memory is the same. A value of
/// this type is always well formed: it is built by a constructor or checked by [`Delta::decode`].
///
/// # Source
/// engine.md section 4.
#[derive(Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Delta(U128);

/// Bytes of a delta.
pub const DELTA_BYTES: usize = 16;

const _: () = assert!(size_of::<Delta>() == DELTA_BYTES);

const PUT: u8 = 0;
const MOVE: u8 = 1;
const DISCARD: u8 = 2;
const PPA_MASK: u64 = (1 << Ppa::BITS) - 1;

impl Delta {
    /// A delta of no effect worth keeping, to fill slabs.
    pub const FILLER: Self = Self(U128::new((Ppa::ABSENT.bits() as u128) << 16));

    /// The change `body` of the entry `index`, made by the record `lsn`.
    ///
    /// # Panics
    /// If the index, or the end of a discard, is beyond the leaf.
    #[must_use]
    pub fn new(index: u16, body: DeltaBody, lsn: Lsn) -> Self {
        assert!(usize::from(index) < LEAF_ENTRIES, "index beyond the leaf");
        let (kind, placement, ppa, arg) = match body {
            DeltaBody::Put { entry, placement } => return Self::put(index, entry, placement, lsn),
            DeltaBody::Move {
                old,
                new,
                placement,
            } => (MOVE, placement, new, old.bits()),
            DeltaBody::Discard { count, zero } => {
                let end = usize::from(index) + usize::from(count);
                assert!(count > 0 && end <= LEAF_ENTRIES, "discard beyond the leaf");
                let ppa = if zero { Ppa::ZERO } else { Ppa::ABSENT };
                (DISCARD, Placement::default(), ppa, u64::from(count))
            }
        };
        let tag = u128::from(index) | u128::from(kind) << 9 | u128::from(placement.bits()) << 11;
        let lsn = u128::from(lsn.0 & 0xffff_ffff);
        Self(U128::new(
            tag | u128::from(ppa.bits()) << 16 | u128::from(arg) << 56 | lsn << 96,
        ))
    }

    /// [`Delta::new`] of a put: place and checksum stand in it as in the entry.
    ///
    /// # Panics
    /// If the index is beyond the leaf.
    #[inline]
    #[must_use]
    pub const fn put(index: u16, entry: Entry, placement: Placement, lsn: Lsn) -> Self {
        assert!((index as usize) < LEAF_ENTRIES, "index beyond the leaf");
        let tag = index as u64 | (PUT as u64) << 9 | (placement.bits() as u64) << 11;
        let low = tag | entry.bits() << 16;
        let high = entry.bits() >> 48 | lsn.0 << 32;
        Self(U128::new(low as u128 | (high as u128) << 64))
    }

    /// Its bytes.
    #[inline]
    #[must_use]
    pub const fn to_bytes(self) -> [u8; DELTA_BYTES] {
        self.0.to_bytes()
    }

    /// The delta in these bytes.
    ///
    /// # Errors
    /// An unknown kind, a reserved place, a run beyond the leaf, or spare bits set.
    pub fn decode(bytes: [u8; DELTA_BYTES]) -> Result<Self, DeltaError> {
        let delta = Self(U128::new(u128::from_le_bytes(bytes)));
        let (ppa, arg) = (delta.ppa_bits(), delta.arg());
        let is_place = |bits: u64| bits < Ppa::RESERVED;
        let valid = match delta.kind() {
            PUT => {
                arg <= u64::from(CRC24_MASK) && Entry::from_bits(ppa | arg << Ppa::BITS).is_some()
            }
            MOVE => is_place(arg) && (is_place(ppa) || ppa == Ppa::LOST.bits()),
            DISCARD => {
                let end = u64::from(delta.index()) + arg;
                let named = ppa == Ppa::ZERO.bits() || ppa == Ppa::ABSENT.bits();
                named && arg > 0 && end <= LEAF_ENTRIES as u64 && delta.placement_bits() == 0
            }
            _ => false,
        };
        if valid {
            Ok(delta)
        } else {
            Err(DeltaError {
                bits: delta.0.get(),
            })
        }
    }

    /// First entry it changes, 0..512.
    #[inline]
    #[must_use]
    pub const fn index(self) -> u16 {
        (self.0.get() & 511) as u16
    }

    /// What it does.
    #[inline]
    #[must_use]
    pub fn body(self) -> DeltaBody {
        let ppa = self.ppa();
        let placement = Placement::from_bits(self.placement_bits()).expect("five bits");
        match self.kind() {
            PUT => DeltaBody::Put {
                entry: Entry::new(ppa, self.arg() as u32),
                placement,
            },
            MOVE => DeltaBody::Move {
                old: Ppa::from_bits(self.arg()).expect("masked to 40 bits"),
                new: ppa,
                placement,
            },
            _ => DeltaBody::Discard {
                count: self.arg() as u16,
                zero: ppa == Ppa::ZERO,
            },
        }
    }

    /// The place it brings: of a put or the new one of a move; `absent` or `zero` of a discard.
    #[inline]
    #[must_use]
    pub fn ppa(self) -> Ppa {
        Ppa::from_bits(self.ppa_bits()).expect("masked to 40 bits")
    }

    /// True for a move that is still to be judged.
    #[inline]
    #[must_use]
    pub const fn is_move(self) -> bool {
        self.kind() == MOVE
    }

    /// True for a discard of a run.
    #[inline]
    #[must_use]
    pub const fn is_discard(self) -> bool {
        self.kind() == DISCARD
    }

    /// One past the last entry it touches.
    #[inline]
    #[must_use]
    pub const fn end(self) -> u16 {
        if self.is_discard() {
            self.index() + self.arg() as u16
        } else {
            self.index() + 1
        }
    }

    /// True if it touches the entry `index`.
    #[inline]
    #[must_use]
    pub const fn touches(self, index: u16) -> bool {
        self.index() <= index && index < self.end()
    }

    /// True for a put or move that brings a place: what the mapped upper bound counts.
    #[inline]
    #[must_use]
    pub const fn brings_place(self) -> bool {
        !self.is_discard() && self.ppa_bits() < Ppa::RESERVED
    }

    /// Its LSN: the highest one up to `applied` with these low bits.
    ///
    /// `None` if there is none: the delta is younger than `applied`.
    #[inline]
    #[must_use]
    pub const fn lsn_within(self, applied: Lsn) -> Option<Lsn> {
        let low = (self.0.get() >> 96) as u64;
        let high = applied.0 & !0xffff_ffff;
        if low <= applied.0 & 0xffff_ffff {
            Some(Lsn(high | low))
        } else if high == 0 {
            None
        } else {
            Some(Lsn((high - (1 << 32)) | low))
        }
    }

    /// How many LSNs `applied`, none of a younger delta, lies beyond its own.
    #[inline]
    #[must_use]
    pub const fn age_at(self, applied: Lsn) -> u32 {
        (applied.0 as u32).wrapping_sub(self.lsn_low())
    }

    /// True if its LSN is below that of `other`, of the same chain: LSNs of one chain lie less than
    /// 2^31 apart.
    #[inline]
    #[must_use]
    pub const fn is_older_than(self, other: Self) -> bool {
        let (low, of_other) = (self.lsn_low(), other.lsn_low());
        low.wrapping_sub(of_other) >= 1 << 31
    }

    const fn lsn_low(self) -> u32 {
        (self.0.get() >> 96) as u32
    }

    const fn kind(self) -> u8 {
        ((self.0.get() >> 9) & 3) as u8
    }

    const fn placement_bits(self) -> u8 {
        ((self.0.get() >> 11) & 31) as u8
    }

    const fn ppa_bits(self) -> u64 {
        (self.0.get() >> 16) as u64 & PPA_MASK
    }

    const fn arg(self) -> u64 {
        (self.0.get() >> 56) as u64 & PPA_MASK
    }
}

impl fmt::Debug for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let low = (self.0.get() >> 96) as u32;
        write!(f, "{}: {:?} @..{low:#x}", self.index(), self.body())
    }
}

/// Bytes that are not a delta.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeltaError {
    /// The bits found.
    pub bits: u128,
}

impl fmt::Display for DeltaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delta has no meaning: {:#x}", self.bits)
    }
}

impl core::error::Error for DeltaError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies() -> [DeltaBody; 4] {
        let placement = Placement::new(11, true);
        let entry = Entry::new(Ppa::fast(8), CRC24_MASK);
        let (old, new) = (Ppa::fast(7), Ppa::dense(3));
        [
            DeltaBody::Put { entry, placement },
            DeltaBody::Move {
                old,
                new,
                placement,
            },
            DeltaBody::Discard {
                count: 2,
                zero: true,
            },
            DeltaBody::Discard {
                count: 1,
                zero: false,
            },
        ]
    }

    #[test]
    fn a_delta_survives_its_bytes() {
        for body in bodies() {
            let delta = Delta::new(510, body, Lsn(0x12_3456_789a));
            let bytes: [u8; 16] = delta.as_bytes().try_into().unwrap();
            let read = Delta::decode(bytes).unwrap();
            assert_eq!((read.index(), read.body()), (510, body));
            assert_eq!(
                read.lsn_within(Lsn(0x13_0000_0000)),
                Some(Lsn(0x12_3456_789a))
            );
            assert_eq!(
                read.lsn_within(Lsn(0x12_3456_789a)),
                Some(Lsn(0x12_3456_789a))
            );
            assert_eq!(
                read.lsn_within(Lsn(0x12_3456_7899)),
                Some(Lsn(0x11_3456_789a))
            );
        }
    }

    /// The words of a put are those of its entry.
    #[test]
    fn a_put_is_what_its_fields_make_it() {
        let fields = |index: u16, entry: Entry, placement: Placement, lsn: Lsn| {
            let tag = u128::from(index) | u128::from(placement.bits()) << 11;
            let place = u128::from(entry.ppa().bits()) << 16;
            let checksum = u128::from(entry.crc24()) << 56;
            (tag | place | checksum | u128::from(lsn.0 & 0xffff_ffff) << 96).to_le_bytes()
        };
        let placement = Placement::new(15, true);
        for entry in [
            Entry::new(Ppa::fast(8), CRC24_MASK),
            Entry::new(Ppa::dense(7), 0x12_3456),
            Entry::LOST,
        ] {
            let lsn = Lsn(0x12_fedc_ba98);
            let put = Delta::put(511, entry, placement, lsn);
            assert_eq!(put.to_bytes(), fields(511, entry, placement, lsn));
            assert_eq!(put.body(), DeltaBody::Put { entry, placement });
            assert_eq!(put, Delta::new(511, put.body(), lsn));
        }
    }

    #[test]
    fn deltas_of_a_chain_have_an_order() {
        let at = |lsn| Delta::new(5, bodies()[0], Lsn(lsn));
        for first in [1, 0xffff_fff0, 0x7fff_ffff, 0x12_8000_0000] {
            for apart in [1, 0x20, 0x7fff_ffff] {
                let (old, young) = (at(first), at(first + apart));
                assert!(old.is_older_than(young) && !young.is_older_than(old));
            }
            assert!(!at(first).is_older_than(at(first)));
        }
    }

    #[test]
    fn hostile_deltas_are_refused() {
        let good = Delta::new(510, bodies()[2], Lsn(1));
        let mut bytes: [u8; 16] = good.as_bytes().try_into().unwrap();
        bytes[7] = 3;
        assert!(Delta::decode(bytes).is_err(), "run beyond the leaf");
        bytes[7] = 0;
        assert!(Delta::decode(bytes).is_err(), "empty run");
        bytes[1] |= 6;
        assert!(Delta::decode(bytes).is_err(), "unknown kind");
        assert_eq!(good.lsn_within(Lsn(0)), None);
    }
}
