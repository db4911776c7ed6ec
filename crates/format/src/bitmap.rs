//! Live bits of chunks and groups: the payload of a bitmap part.
//!
//! A part is a list of runs of 64-bit words; a unit whose bits exceed one part is spread over
//! several runs. Bits at or above the write pointer load as 1 (engine.md section 2), which is the
//! reader's business. The checksum is that of the part.

use crate::error::DecodeError;
use crate::media::{check_range, check_zero, codes, list, media, prefix};
use crate::record::PART_BYTES_MAX;
use alloc::vec::Vec;
use varve_units::Generation;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

/// Bytes in front of the words of a run.
pub const UNIT_BITS_HEAD_BYTES: usize = 24;
/// Words of the longest run: one run that fills a part.
pub const UNIT_BITS_WORDS_MAX: usize = (PART_BYTES_MAX - UNIT_BITS_HEAD_BYTES) / 8;

const STRUCTURE: &str = "UnitBits";

codes! {
    /// A tier; codes are never reused.
    enum Tier, "tier" {
        /// The fast tier; its units are chunks.
        Fast = 1,
        /// The dense tier; its units are groups.
        Dense = 2,
    }
}

/// A run of live bits of one unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitBits {
    /// Tier of the unit.
    pub tier: Tier,
    /// Number of the chunk or group.
    pub unit: u32,
    /// Its generation.
    pub generation: Generation,
    /// Its write pointer when the bits were taken: sectors of a chunk, data blocks of a group.
    pub write_pointer: u32,
    /// Index of the first word within the unit; bit 0 of word 0 is the first block.
    pub first_word: u32,
    /// The words, 1 to [`UNIT_BITS_WORDS_MAX`].
    pub words: Vec<u64>,
}

media! {
    /// Head of a [`UnitBits`] on media; followed by `words` 64-bit words.
    struct UnitBitsRaw: 24 {
        tier: u8,
        reserved: [u8; 3],
        unit: U32,
        generation: U32,
        write_pointer: U32,
        first_word: U32,
        words: U32,
    }
}

const _: () = assert!(size_of::<UnitBitsRaw>() == UNIT_BITS_HEAD_BYTES);

/// Which words of which unit a run has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitBitsPlace {
    /// Tier of the unit.
    pub tier: Tier,
    /// Number of the chunk or group.
    pub unit: u32,
    /// Its generation.
    pub generation: Generation,
    /// Its write pointer when the bits were taken.
    pub write_pointer: u32,
    /// Index of the first word within the unit.
    pub first_word: u32,
}

impl UnitBitsPlace {
    /// Bytes of an encoded run of so many words.
    #[must_use]
    pub const fn encoded_bytes(words: usize) -> usize {
        UNIT_BITS_HEAD_BYTES + words * size_of::<U64>()
    }

    /// Appends a run of these words to a part's payload.
    ///
    /// # Panics
    /// If the run has no words or too many, or the part grows beyond [`PART_BYTES_MAX`].
    pub fn encode_into(&self, words: impl ExactSizeIterator<Item = u64>, part: &mut Vec<u8>) {
        let count = words.len();
        assert!(
            (1..=UNIT_BITS_WORDS_MAX).contains(&count),
            "{count} words in a run"
        );
        assert!(
            part.len() + Self::encoded_bytes(count) <= PART_BYTES_MAX,
            "bitmap part overflows"
        );
        let raw = UnitBitsRaw {
            tier: self.tier.code(),
            reserved: [0; 3],
            unit: self.unit.into(),
            generation: self.generation.0.into(),
            write_pointer: self.write_pointer.into(),
            first_word: self.first_word.into(),
            words: u32::try_from(count).expect("words were checked").into(),
        };
        part.extend_from_slice(raw.as_bytes());
        let start = part.len();
        part.resize(start + count * size_of::<U64>(), 0);
        let (slots, _) = part[start..].as_chunks_mut::<{ size_of::<U64>() }>();
        for (slot, word) in slots.iter_mut().zip(words) {
            *slot = word.to_le_bytes();
        }
    }
}

impl UnitBits {
    /// Bytes of the encoded run.
    #[must_use]
    pub const fn encoded_bytes(&self) -> usize {
        UnitBitsPlace::encoded_bytes(self.words.len())
    }

    /// Appends the run to a part's payload.
    ///
    /// # Panics
    /// If the run has no words or too many, or the part grows beyond [`PART_BYTES_MAX`].
    pub fn encode_into(&self, part: &mut Vec<u8>) {
        let place = UnitBitsPlace {
            tier: self.tier,
            unit: self.unit,
            generation: self.generation,
            write_pointer: self.write_pointer,
            first_word: self.first_word,
        };
        place.encode_into(self.words.iter().copied(), part);
    }

    /// All runs of a part.
    ///
    /// # Errors
    /// [`DecodeError`] if a run is truncated or a field is out of range.
    pub fn decode_part(bytes: &[u8]) -> Result<Vec<Self>, DecodeError> {
        let size = bytes.len();
        check_range(size <= PART_BYTES_MAX, "part bytes", size as u64)?;
        let mut runs = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (raw, after) = prefix::<UnitBitsRaw>(rest, STRUCTURE)?;
            check_zero(&raw.reserved, STRUCTURE)?;
            let count = raw.words.get() as usize;
            let fits = (1..=UNIT_BITS_WORDS_MAX).contains(&count);
            check_range(fits, "words of a run", count as u64)?;
            let end = raw.first_word.get().checked_add(raw.words.get());
            check_range(end.is_some(), "first word", raw.first_word.get().into())?;
            let (words, after) = list::<U64>(after, count, STRUCTURE)?;
            runs.push(Self {
                tier: Tier::from_code(raw.tier)?,
                unit: raw.unit.get(),
                generation: Generation(raw.generation.get()),
                write_pointer: raw.write_pointer.get(),
                first_word: raw.first_word.get(),
                words: words.iter().map(|word| word.get()).collect(),
            });
            rest = after;
        }
        Ok(runs)
    }
}
