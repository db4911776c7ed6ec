//! Header and data digests: CRC-32C (spec: nvme-tcp 1.0 §3.3.1.1).

use crc_fast::{CrcAlgorithm, Digest};

/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;

/// Which digests a connection uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digests {
    /// Behind headers.
    pub header: bool,
    /// Behind data.
    pub data: bool,
}

impl Digests {
    /// From the DGST field of ICReq and ICResp.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self {
            header: bits & 1 != 0,
            data: bits & 2 != 0,
        }
    }

    /// The DGST field.
    #[must_use]
    pub fn bits(self) -> u8 {
        u8::from(self.header) | u8::from(self.data) << 1
    }
}

/// Digest of the concatenation of `parts`, as it goes on the wire.
#[must_use]
pub fn data_digest(parts: &[&[u8]]) -> [u8; DIGEST_BYTES] {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    ((digest.finalize() & 0xffff_ffff) as u32).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(
            data_digest(&[b"1234", b"56789"]),
            0xe306_9283_u32.to_le_bytes()
        );
        // RFC 3720 B.4: 32 bytes of zeroes.
        assert_eq!(data_digest(&[&[0; 32]]), [0xaa, 0x36, 0x91, 0x8a]);
    }
}
