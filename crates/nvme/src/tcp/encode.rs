//! Headers as they go on the wire; data is sent from where it lies.

use super::digest::{DIGEST_BYTES, Digests, data_digest};
use super::header::Header;
use super::kind::Kind;
use super::{COMMON_BYTES, flag};
use core::ops::Deref;

/// Bytes of the longest header with its digest and padding: a command capsule, 76 bytes with its digest,
/// aligned to 72 (a peer may ask for any multiple of 4 up to 128).
pub const HEADER_BYTES_MAX: usize = 144;

// Of all alignments a peer can ask for, and of all kinds: a command capsule is the longest header.
const _: () = {
    let mut pda = 0;
    while pda < 32 {
        let header_bytes = Kind::CapsuleCmd.header_bytes();
        assert!(payload_offset(header_bytes, false, pda) <= HEADER_BYTES_MAX);
        assert!(payload_offset(header_bytes, true, pda) <= HEADER_BYTES_MAX);
        pda += 1;
    }
};

/// Header, digest and padding up to the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderBytes {
    bytes: [u8; HEADER_BYTES_MAX],
    len: u8,
}

impl Deref for HeaderBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Where data starts behind a header of `header_bytes` when the receiver's alignment is `pda`
/// (0 to 31, `(pda + 1) * 4` bytes).
#[must_use]
pub const fn payload_offset(header_bytes: usize, header_digest: bool, pda: u8) -> usize {
    let end = header_bytes + if header_digest { DIGEST_BYTES } else { 0 };
    end.next_multiple_of((pda as usize + 1) * 4)
}

/// Encodes a header in front of `payload_len` bytes. `flags` are LAST and SUCCESS; those of digests
/// are set here. The sender appends the payload, and its [`data_digest`] if data digests are on and
/// there is payload.
///
/// # Panics
/// If the payload is longer than a PDU can say, or the alignment above 31.
#[must_use]
pub fn encode(
    header: &Header,
    flags: u8,
    payload_len: usize,
    digests: Digests,
    pda: u8,
) -> HeaderBytes {
    assert!(pda < 32, "alignment {pda}");
    let kind = header.kind();
    let hlen = kind.header_bytes();
    let has_header_digest = kind.has_digests() && digests.header;
    let has_data_digest = kind.has_data() && digests.data && payload_len > 0;
    let mut end = hlen + if has_header_digest { DIGEST_BYTES } else { 0 };
    let mut pdo = 0;
    if payload_len > 0 && kind.has_data() {
        end = payload_offset(hlen, has_header_digest, pda);
        pdo = end;
    }
    let tail = if has_data_digest { DIGEST_BYTES } else { 0 };
    let plen = u32::try_from(end + payload_len + tail).expect("a PDU is below 4 GiB");
    let mut bytes = [0; HEADER_BYTES_MAX];
    bytes[0] = kind as u8;
    bytes[1] = flags
        | if has_header_digest { flag::HDGST } else { 0 }
        | if has_data_digest { flag::DDGST } else { 0 };
    bytes[2] = hlen as u8;
    bytes[3] = pdo as u8;
    bytes[4..8].copy_from_slice(&plen.to_le_bytes());
    bytes[COMMON_BYTES..hlen].copy_from_slice(header.specific());
    if has_header_digest {
        let digest = data_digest(&[&bytes[..hlen]]);
        bytes[hlen..hlen + DIGEST_BYTES].copy_from_slice(&digest);
    }
    HeaderBytes {
        bytes,
        len: end as u8,
    }
}
