//! What waits to be sent, in segments: data is not copied.

use crate::TRANSFER_BYTES_MAX;
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

/// What is sent with one call.
#[derive(Debug)]
pub(crate) struct Batch<D> {
    pub segments: Vec<Segment<D>>,
    /// Bytes of backend data in it.
    pub data_bytes: usize,
    /// Bytes of headers and small data in it.
    pub small_bytes: usize,
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

    /// As much as a batch has, from now on the caller's: no more data than a transfer's, but one piece
    /// of it in any case. How fast a host reads is seen by batches only.
    pub fn take(&mut self) -> Batch<D> {
        let (mut count, mut data_bytes) = (0, 0);
        for segment in &self.segments {
            if let Segment::Data(data) = segment {
                let bytes = data_bytes + data.as_ref().len();
                if data_bytes > 0 && bytes > TRANSFER_BYTES_MAX as usize {
                    break;
                }
                data_bytes = bytes;
            }
            count += 1;
        }
        let rest = self.segments.split_off(count);
        let segments = core::mem::replace(&mut self.segments, rest);
        let all: usize = segments.iter().map(|one| one.as_ref().len()).sum();
        let small_bytes = all - data_bytes;
        self.data_bytes -= data_bytes;
        self.small_bytes -= small_bytes;
        Batch {
            segments,
            data_bytes,
            small_bytes,
        }
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
