//! Errors that end a connection, graded as TermReq wants them.

use alloc::vec::Vec;
use core::fmt;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the offending PDU's header that a TermReq carries, at most.
pub const TERM_DATA_MAX: usize = 128;

/// Fatal Error Status (spec: nvme-tcp 1.0 §3.5, FES of §3.6.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum FatalStatus {
    /// A header field has a wrong value; FEI is its offset.
    InvalidField = 1,
    /// A PDU that may not come now.
    Sequence = 2,
    /// The header digest does not match; FEI is the digest received.
    HeaderDigest = 3,
    /// Data outside of what was asked for.
    OutOfRange = 4,
    /// More data than the limit, or too many R2Ts.
    LimitExceeded = 5,
    /// A parameter that is not supported; FEI is its offset.
    Unsupported = 6,
}

/// Why a connection has to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FatalError {
    /// The grade.
    pub status: FatalStatus,
    /// Offset of the field, or the digest received; 0 for other grades.
    pub detail: u32,
    /// Header of the PDU, as far as it came, at most 128 bytes.
    pub header: Vec<u8>,
}

impl FatalError {
    /// With the header that is to blame.
    #[must_use]
    pub fn new(status: FatalStatus, detail: u32, header: &[u8]) -> Self {
        let header = header[..header.len().min(TERM_DATA_MAX)].to_vec();
        Self {
            status,
            detail,
            header,
        }
    }
}

impl fmt::Display for FatalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            FatalStatus::InvalidField => write!(f, "invalid header field at byte {}", self.detail),
            FatalStatus::Sequence => f.write_str("pdu out of sequence"),
            FatalStatus::HeaderDigest => write!(f, "header digest {:#010x} wrong", self.detail),
            FatalStatus::OutOfRange => f.write_str("data out of range"),
            FatalStatus::LimitExceeded => f.write_str("data transfer limit exceeded"),
            FatalStatus::Unsupported => {
                write!(f, "unsupported parameter at byte {}", self.detail)
            }
        }
    }
}

impl core::error::Error for FatalError {}

/// Specific part of H2CTermReq and C2HTermReq, 16 bytes (spec: nvme-tcp 1.0 §3.6.2.4).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct TermReq {
    /// Fatal Error Status.
    pub fes: U16,
    /// Fatal Error Information.
    pub fei: U32,
    /// Reserved.
    pub reserved: [u8; 10],
}

const _: () = assert!(size_of::<TermReq>() == 16);

impl From<&FatalError> for TermReq {
    fn from(error: &FatalError) -> Self {
        Self {
            fes: U16::new(error.status as u16),
            fei: U32::new(error.detail),
            reserved: [0; 10],
        }
    }
}
