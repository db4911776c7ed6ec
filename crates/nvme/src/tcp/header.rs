//! Headers of PDUs behind the common part.

use super::Kind;
use super::fatal::TermReq;
use crate::cqe::Cqe;
use crate::sqe::Sqe;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The one PDU format version (spec: nvme-tcp 1.0 §3.6.2.2).
pub const PFV: u16 = 0;

/// Common header of all PDUs, 8 bytes, raw (spec: nvme-tcp 1.0 §3.6.1).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct RawCommon {
    /// Type.
    pub kind: u8,
    /// Flags.
    pub flags: u8,
    /// Bytes of the header without digest.
    pub hlen: u8,
    /// Offset of the data.
    pub pdo: u8,
    /// Bytes of the PDU.
    pub plen: U32,
}

/// Specific part of ICReq, 120 bytes (spec: nvme-tcp 1.0 §3.6.2.2).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct IcReq {
    /// PDU format version.
    pub pfv: U16,
    /// Alignment of data to the host: `(HPDA + 1) * 4` bytes; 0 to 31.
    pub hpda: u8,
    /// Digests asked for.
    pub dgst: u8,
    /// R2Ts per command that the host takes, minus one.
    pub maxr2t: U32,
    /// Reserved.
    pub reserved: [u8; 112],
}

/// Specific part of ICResp, 120 bytes (spec: nvme-tcp 1.0 §3.6.2.3).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct IcResp {
    /// PDU format version.
    pub pfv: U16,
    /// Alignment of data to the controller: `(CPDA + 1) * 4` bytes; 0 to 31.
    pub cpda: u8,
    /// Digests in use.
    pub dgst: u8,
    /// Bytes of data an H2CData may have.
    pub maxh2cdata: U32,
    /// Reserved.
    pub reserved: [u8; 112],
}

/// Specific part of H2CData and C2HData, 16 bytes (spec: nvme-tcp 1.0 §3.6.2.9, §3.6.2.10).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct DataTransfer {
    /// The command.
    pub cccid: U16,
    /// Tag of the R2T; reserved in C2HData.
    pub ttag: U16,
    /// Offset into the command's data.
    pub datao: U32,
    /// Bytes here.
    pub datal: U32,
    /// Reserved.
    pub reserved: U32,
}

/// Specific part of R2T, 16 bytes (spec: nvme-tcp 1.0 §3.6.2.8).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct R2t {
    /// The command.
    pub cccid: U16,
    /// The controller's tag for the transfer.
    pub ttag: U16,
    /// Offset asked for.
    pub r2to: U32,
    /// Bytes asked for.
    pub r2tl: U32,
    /// Reserved.
    pub reserved: U32,
}

const _: () = assert!(size_of::<RawCommon>() == 8);
const _: () = assert!(size_of::<IcReq>() == 120 && size_of::<IcResp>() == 120);
const _: () = assert!(size_of::<DataTransfer>() == 16 && size_of::<R2t>() == 16);

impl IcReq {
    /// A request for format 0.
    #[must_use]
    pub fn new(hpda: u8, dgst: u8, maxr2t: u32) -> Self {
        Self {
            pfv: U16::new(PFV),
            hpda,
            dgst,
            maxr2t: U32::new(maxr2t),
            reserved: [0; 112],
        }
    }
}

impl IcResp {
    /// A response of format 0.
    #[must_use]
    pub fn new(cpda: u8, dgst: u8, maxh2cdata: u32) -> Self {
        Self {
            pfv: U16::new(PFV),
            cpda,
            dgst,
            maxh2cdata: U32::new(maxh2cdata),
            reserved: [0; 112],
        }
    }
}

impl DataTransfer {
    /// `length` bytes at `offset` of command `cid`; `tag` 0 from a controller.
    #[must_use]
    pub fn new(cid: u16, tag: u16, offset: u32, length: u32) -> Self {
        Self {
            cccid: U16::new(cid),
            ttag: U16::new(tag),
            datao: U32::new(offset),
            datal: U32::new(length),
            reserved: U32::ZERO,
        }
    }
}

impl R2t {
    /// Asks for `length` bytes at `offset` of command `cid`.
    #[must_use]
    pub fn new(cid: u16, tag: u16, offset: u32, length: u32) -> Self {
        Self {
            cccid: U16::new(cid),
            ttag: U16::new(tag),
            r2to: U32::new(offset),
            r2tl: U32::new(length),
            reserved: U32::ZERO,
        }
    }
}

/// A header of either direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// ICReq.
    IcReq(IcReq),
    /// ICResp.
    IcResp(IcResp),
    /// H2CTermReq.
    H2cTermReq(TermReq),
    /// C2HTermReq.
    C2hTermReq(TermReq),
    /// Command capsule.
    CapsuleCmd(Sqe),
    /// Response capsule.
    CapsuleResp(Cqe),
    /// H2CData.
    H2cData(DataTransfer),
    /// C2HData.
    C2hData(DataTransfer),
    /// R2T.
    R2t(R2t),
}

impl Header {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::IcReq(_) => Kind::IcReq,
            Self::IcResp(_) => Kind::IcResp,
            Self::H2cTermReq(_) => Kind::H2cTermReq,
            Self::C2hTermReq(_) => Kind::C2hTermReq,
            Self::CapsuleCmd(_) => Kind::CapsuleCmd,
            Self::CapsuleResp(_) => Kind::CapsuleResp,
            Self::H2cData(_) => Kind::H2cData,
            Self::C2hData(_) => Kind::C2hData,
            Self::R2t(_) => Kind::R2t,
        }
    }

    /// Bytes behind the common header.
    #[must_use]
    pub fn specific(&self) -> &[u8] {
        match self {
            Self::IcReq(header) => header.as_bytes(),
            Self::IcResp(header) => header.as_bytes(),
            Self::H2cTermReq(header) | Self::C2hTermReq(header) => header.as_bytes(),
            Self::CapsuleCmd(sqe) => sqe.as_bytes(),
            Self::CapsuleResp(cqe) => cqe.as_bytes(),
            Self::H2cData(header) | Self::C2hData(header) => header.as_bytes(),
            Self::R2t(header) => header.as_bytes(),
        }
    }

    /// Reads the part behind the common header; `None` if the length is another.
    #[must_use]
    pub fn from_specific(kind: Kind, bytes: &[u8]) -> Option<Self> {
        fn read<T: FromBytes>(bytes: &[u8]) -> Option<T> {
            T::read_from_bytes(bytes).ok()
        }
        match kind {
            Kind::IcReq => read(bytes).map(Self::IcReq),
            Kind::IcResp => read(bytes).map(Self::IcResp),
            Kind::H2cTermReq => read(bytes).map(Self::H2cTermReq),
            Kind::C2hTermReq => read(bytes).map(Self::C2hTermReq),
            Kind::CapsuleCmd => read(bytes).map(Self::CapsuleCmd),
            Kind::CapsuleResp => read(bytes).map(Self::CapsuleResp),
            Kind::H2cData => read(bytes).map(Self::H2cData),
            Kind::C2hData => read(bytes).map(Self::C2hData),
            Kind::R2t => read(bytes).map(Self::R2t),
        }
    }
}
