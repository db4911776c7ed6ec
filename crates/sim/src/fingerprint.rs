//! The action hash: one running number over everything a run does.

/// Mixes 64 bits so that every input bit reaches every output bit.
///
/// # Source
/// Finaliser of SplitMix64.
#[must_use]
pub const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Words that are hashed side by side: each alone waits for the product before it.
const ABREAST: usize = 4;

const fn step(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// Hash of a run of bytes, not meant against intent.
#[must_use]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let (rows, rest) = bytes.as_chunks::<{ 8 * ABREAST }>();
    let mut hashes: [u64; ABREAST] = core::array::from_fn(|column| column as u64);
    for row in rows {
        let (words, _) = row.as_chunks::<8>();
        for (hash, word) in hashes.iter_mut().zip(words) {
            *hash = step(*hash, u64::from_le_bytes(*word));
        }
    }
    let all = hashes.into_iter().fold(bytes.len() as u64, step);
    mix(rest
        .iter()
        .fold(all, |hash, &byte| step(hash, u64::from(byte))))
}

/// What is mixed into the action hash; the numbers are arbitrary and distinct.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Action {
    /// A task was polled.
    Poll = 1,
    /// Time jumped.
    Jump,
    /// A drive accepted a command.
    Submit,
    /// A drive ended a command.
    Complete,
    /// A host operation began.
    Invoke,
    /// A host operation ended.
    Respond,
    /// A fault was injected.
    Fault,
    /// The power failed.
    Crash,
    /// A step of the scenario.
    Step,
    /// A job reached another reactor.
    Job,
    /// Bytes were received from the network.
    Deliver,
}

/// The running hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Mixes one action and its particulars in.
    pub fn add(&mut self, action: Action, particulars: &[u64]) {
        let mut hash = self.0.rotate_left(7) ^ u64::from(action as u8);
        for &value in particulars {
            hash = mix(hash ^ value);
        }
        self.0 = hash;
    }

    /// The hash so far.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every byte counts wherever it stands, and so does the length.
    #[test]
    fn each_byte_counts() {
        let mut seen = BTreeSet::new();
        for length in 0..100 {
            let mut bytes = vec![0; length];
            assert!(seen.insert(hash_bytes(&bytes)), "{length} zeroes");
            for at in 0..length {
                bytes[at] = 1;
                assert!(seen.insert(hash_bytes(&bytes)), "{length} bytes, {at}");
                bytes[at] = 0;
            }
        }
    }
}
