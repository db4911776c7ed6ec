//! What waits to be sent, in segments: data is not copied.

use alloc::vec::Vec;
use varve_nvme::tcp::{Digests, Header, data_digest, encode};

/// A piece of what a connection sends.
#[derive(Debug)]
pub enum Segment<D> {
    /// Headers, digests, small data.
    Bytes(Vec<u8>),
    /// Data of a read as the backend gave it.
    Data(D),
}

impl<D: AsRef<[u8]>> AsRef<[u8]> for Segment<D> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Data(data) => data.as_ref(),
        }
    }
}

/// Segments in the order they are sent.
#[derive(Debug)]
pub(crate) struct Outgoing<D> {
    segments: Vec<Segment<D>>,
    /// Bytes of headers and small data.
    small_bytes: usize,
    /// Bytes of backend data.
    data_bytes: usize,
    /// Digests in use.
    pub digests: Digests,
    /// HPDA.
    pub pda: u8,
}

impl<D: AsRef<[u8]>> Outgoing<D> {
    pub fn new() -> Self {
        Self {
            segments: Vec::new(),
            small_bytes: 0,
            data_bytes: 0,
            digests: Digests::default(),
            pda: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub fn small_bytes(&self) -> usize {
        self.small_bytes
    }

    pub fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// Everything, from now on the caller's.
    pub fn take(&mut self) -> Vec<Segment<D>> {
        self.small_bytes = 0;
        self.data_bytes = 0;
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

    /// A PDU with small data, copied.
    pub fn with_bytes(&mut self, header: &Header, flags: u8, data: &[u8]) {
        let bytes = encode(header, flags, data.len(), self.digests, self.pda);
        self.bytes(&bytes);
        self.bytes(data);
        if self.digests.data {
            self.bytes(&data_digest(&[data]));
        }
    }

    /// A PDU with data of the backend.
    pub fn with_data(&mut self, header: &Header, flags: u8, data: D) {
        let bytes = data.as_ref();
        let head = encode(header, flags, bytes.len(), self.digests, self.pda);
        let digest = self.digests.data.then(|| data_digest(&[bytes]));
        self.bytes(&head);
        self.data_bytes += data.as_ref().len();
        self.segments.push(Segment::Data(data));
        if let Some(digest) = digest {
            self.bytes(&digest);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.small_bytes += bytes.len();
        match self.segments.last_mut() {
            Some(Segment::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.segments.push(Segment::Bytes(bytes.to_vec())),
        }
    }
}
