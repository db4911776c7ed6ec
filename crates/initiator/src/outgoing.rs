//! What waits to be sent, in segments: data is not copied.

use crate::payload::{Payload, Segment};
use alloc::vec::Vec;
use varve_nvme::tcp::{Digests, Header, data_digest, encode};

/// Segments in the order they are sent.
#[derive(Default)]
pub(crate) struct Outgoing {
    segments: Vec<Segment>,
    /// Digests in use.
    pub digests: Digests,
    /// CPDA.
    pub pda: u8,
}

impl Outgoing {
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Everything, from now on the caller's.
    pub fn take(&mut self) -> Vec<Segment> {
        core::mem::take(&mut self.segments)
    }

    /// A PDU without data.
    pub fn header(&mut self, header: &Header) {
        let bytes = encode(header, 0, 0, self.digests, self.pda);
        self.bytes(&bytes);
    }

    /// A TermReq with the header that is to blame.
    pub fn term(&mut self, header: &Header, blamed: &[u8]) {
        let bytes = encode(header, 0, blamed.len(), self.digests, self.pda);
        self.bytes(&bytes);
        self.bytes(blamed);
    }

    /// A PDU with `length` bytes of a command's data.
    pub fn with_data(
        &mut self,
        header: &Header,
        flags: u8,
        (payload, offset, length): (&Payload, u32, u32),
    ) {
        let head = encode(header, flags, length as usize, self.digests, self.pda);
        let data = payload.cut(offset, length);
        self.bytes(&head);
        let digest = self.digests.data.then(|| {
            let parts: Vec<&[u8]> = data.iter().map(AsRef::as_ref).collect();
            data_digest(&parts)
        });
        for segment in data {
            match segment {
                Segment::Bytes(bytes) => self.bytes(&bytes),
                Segment::Piece(..) => self.segments.push(segment),
            }
        }
        if let Some(digest) = digest {
            self.bytes(&digest);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        match self.segments.last_mut() {
            Some(Segment::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.segments.push(Segment::Bytes(bytes.to_vec())),
        }
    }
}
