//! Sectors of metadata and symbols in few bytes, without loss.
//!
//! Metadata of the engine are mostly zero bytes: short numbers in wide fields. A bit per 8-byte
//! word tells whether it is zero; of the others the bytes between the zeroes at both ends are kept.
//! Leaf images are compared with what they were at first: what has not changed counts as zero.

use varve_format::Entry;

/// Bytes of a packed symbol: symbols are below 2^40.
pub(super) const SYMBOL_BYTES: usize = 5;
/// Symbols are below this.
pub(super) const SYMBOL_END: u64 = 1 << 40;

/// What bytes are compared with: words that are the same cost a bit.
#[derive(Clone, Copy)]
pub(super) enum Base<'a> {
    /// Zeroes.
    Zeroes,
    /// A leaf without blocks.
    Blank,
    /// Bytes as long as those to be packed.
    Bytes(&'a [u8]),
}

impl Base<'_> {
    fn word(&self, index: usize) -> u64 {
        match self {
            Self::Zeroes => 0,
            Self::Blank => Entry::ABSENT.bits(),
            Self::Bytes(bytes) => {
                let word = &bytes[index * 8..index * 8 + 8];
                u64::from_le_bytes(word.try_into().expect("a word has eight bytes"))
            }
        }
    }
}

/// Appends `bytes`, whole words, to `into`.
pub(super) fn pack(bytes: &[u8], base: Base<'_>, into: &mut Vec<u8>) {
    let (words, rest) = bytes.as_chunks::<8>();
    assert!(rest.is_empty(), "metadata are whole words");
    for (number, group) in words.chunks(8).enumerate() {
        // A byte for the group, and for each word a byte and its own; eight more are written and
        // taken back.
        let mut packed = [0; 1 + 8 * 9 + 8];
        let (mut present, mut end) = (0, 1);
        for (index, word) in group.iter().enumerate() {
            let word = u64::from_le_bytes(*word) ^ base.word(number * 8 + index);
            if word == 0 {
                continue;
            }
            present |= 1 << index;
            let skipped = word.trailing_zeros() / 8;
            let length = 8 - word.leading_zeros() / 8 - skipped;
            packed[end] = (skipped << 4 | length) as u8;
            packed[end + 1..end + 9].copy_from_slice(&(word >> (8 * skipped)).to_le_bytes());
            end += 1 + length as usize;
        }
        packed[0] = present;
        into.extend_from_slice(&packed[..end]);
    }
}

/// Restores what [`pack`] made; fills `into` whole.
pub(super) fn unpack(packed: &[u8], base: Base<'_>, into: &mut [u8]) {
    let mut at = 0;
    let (words, _) = into.as_chunks_mut::<8>();
    for (number, group) in words.chunks_mut(8).enumerate() {
        let present = packed[at];
        at += 1;
        for (index, word) in group.iter_mut().enumerate() {
            let mut found = 0;
            if present >> index & 1 == 1 {
                let (skipped, length) = (packed[at] >> 4, usize::from(packed[at] & 15));
                let mut bytes = [0; 8];
                match packed.get(at + 1..at + 9) {
                    Some(ahead) => bytes.copy_from_slice(ahead),
                    None => bytes[..length].copy_from_slice(&packed[at + 1..=at + length]),
                }
                let kept = u64::MAX >> (64 - 8 * length);
                found = (u64::from_le_bytes(bytes) & kept) << (8 * skipped);
                at += 1 + length;
            }
            *word = (found ^ base.word(number * 8 + index)).to_le_bytes();
        }
    }
}

/// Appends symbols.
pub(super) fn pack_symbols(symbols: &[u64], into: &mut Vec<u8>) {
    let bits = symbols.iter().fold(0, |bits, symbol| bits | symbol);
    assert!(bits < SYMBOL_END, "symbols of the laboratory have 40 bits");
    let start = into.len();
    into.resize(start + symbols.len() * SYMBOL_BYTES, 0);
    let (packed, _) = into[start..].as_chunks_mut::<SYMBOL_BYTES>();
    for (packed, symbol) in packed.iter_mut().zip(symbols) {
        packed.copy_from_slice(&symbol.to_le_bytes()[..SYMBOL_BYTES]);
    }
}

/// Symbols `from..` of what [`pack_symbols`] made.
pub(super) fn unpack_symbols(packed: &[u8], from: usize, into: &mut [u64]) {
    let (packed, _) = packed[from * SYMBOL_BYTES..].as_chunks::<SYMBOL_BYTES>();
    for (packed, symbol) in packed[..into.len()].iter().zip(into) {
        let mut bytes = [0; 8];
        bytes[..SYMBOL_BYTES].copy_from_slice(packed);
        *symbol = u64::from_le_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_whatever_they_are() {
        let mut state = 1_u64;
        for round in 0..200 {
            let bytes: Vec<u8> = (0..512 * (1 + round % 9))
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let byte = (state >> 56) as u8;
                    if byte > round as u8 {
                        0
                    } else {
                        (state >> 40) as u8
                    }
                })
                .collect();
            let other = vec![9; bytes.len()];
            for base in [Base::Zeroes, Base::Blank, Base::Bytes(&other)] {
                let mut packed = Vec::new();
                pack(&bytes, base, &mut packed);
                let mut back = vec![7; bytes.len()];
                unpack(&packed, base, &mut back);
                assert_eq!(back, bytes);
            }
        }
    }

    #[test]
    fn a_blank_leaf_takes_a_bit_a_word() {
        let blank: Vec<u8> = (0..512)
            .flat_map(|_| Entry::ABSENT.bits().to_le_bytes())
            .collect();
        let mut packed = Vec::new();
        pack(&blank, Base::Blank, &mut packed);
        assert_eq!(packed.len(), 64);
    }

    #[test]
    fn symbols_come_back() {
        let symbols = [0, 1, SYMBOL_END - 1, 0x1234_5678];
        let mut packed = Vec::new();
        pack_symbols(&symbols, &mut packed);
        for from in 0..=symbols.len() {
            let mut back = vec![7; symbols.len() - from];
            unpack_symbols(&packed, from, &mut back);
            assert_eq!(back, symbols[from..]);
        }
    }
}
