//! Identify Namespace (CNS 00h), what the NVM command set adds (05h), what all sets share (08h).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// NSFEAT bits.
pub mod namespace_feature {
    /// Thin provisioning.
    pub const THIN: u8 = 1 << 0;
    /// NAWUN, NAWUPF and NACWU are those of this namespace.
    pub const ATOMIC: u8 = 1 << 1;
    /// NPWG, NPWA, NPDG, NPDA and NOWS mean something.
    pub const OPTIMAL: u8 = 1 << 4;
    /// In the independent structure: this namespace has no volatile write cache.
    pub const NO_WRITE_CACHE: u8 = 1 << 5;
}

/// LBA format, 4 bytes (spec: nvm 1.0 §4.1.5.1).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct LbaFormat {
    /// Metadata bytes.
    pub ms: U16,
    /// Exponent of 2 of the block's bytes.
    pub lbads: u8,
    /// Relative performance, 0 is best.
    pub rp: u8,
}

/// Identify Namespace, 4096 bytes (spec: nvm 1.0 §4.1.5.1).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
#[allow(
    missing_docs,
    reason = "the fields carry the specification's names, in its order"
)]
pub struct IdentifyNamespace {
    pub nsze: U64,
    pub ncap: U64,
    pub nuse: U64,
    pub nsfeat: u8,
    pub nlbaf: u8,
    pub flbas: u8,
    pub mc: u8,
    pub dpc: u8,
    pub dps: u8,
    pub nmic: u8,
    pub rescap: u8,
    pub fpi: u8,
    pub dlfeat: u8,
    pub nawun: U16,
    pub nawupf: U16,
    pub nacwu: U16,
    pub nabsn: U16,
    pub nabo: U16,
    pub nabspf: U16,
    pub noiob: U16,
    pub nvmcap: [u8; 16],
    pub npwg: U16,
    pub npwa: U16,
    pub npdg: U16,
    pub npda: U16,
    pub nows: U16,
    pub mssrl: U16,
    pub mcl: U32,
    pub msrc: u8,
    pub reserved_81: [u8; 11],
    pub anagrpid: U32,
    pub reserved_96: [u8; 3],
    pub nsattr: u8,
    pub nvmsetid: U16,
    pub endgid: U16,
    pub nguid: [u8; 16],
    pub eui64: [u8; 8],
    pub lbaf: [LbaFormat; 64],
    pub vendor: [u8; 3712],
}

const _: () = assert!(size_of::<LbaFormat>() == 4);
const _: () = assert!(size_of::<IdentifyNamespace>() == 4096);
const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(IdentifyNamespace, nvmcap) == 48);
    assert!(offset_of!(IdentifyNamespace, anagrpid) == 92);
    assert!(offset_of!(IdentifyNamespace, nguid) == 104);
    assert!(offset_of!(IdentifyNamespace, lbaf) == 128);
};

impl IdentifyNamespace {
    /// All zero: what an inactive namespace has.
    #[must_use]
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }

    /// Bytes of a block in the format in use, if it is a sensible one.
    #[must_use]
    pub fn block_bytes(&self) -> Option<u32> {
        let index = usize::from(self.flbas & 15) | usize::from(self.flbas >> 5 & 3) << 4;
        let exponent = u32::from(self.lbaf.get(index)?.lbads);
        (9..=24).contains(&exponent).then(|| 1 << exponent)
    }
}

/// What the NVM command set adds to a namespace, 4096 bytes (spec: nvm 1.0 §4.1.5.3).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct NvmNamespace {
    /// Logical block storage tag mask.
    pub lbstm: U64,
    /// Protection information capabilities.
    pub pic: u8,
    /// Reserved.
    pub reserved: [u8; 3],
    /// Extended LBA formats.
    pub elbaf: [U32; 64],
    /// Reserved.
    pub reserved_end: [u8; 3828],
}

const _: () = assert!(size_of::<NvmNamespace>() == 4096);

impl NvmNamespace {
    /// All zero: no protection information.
    #[must_use]
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }
}

/// What all command sets share about a namespace, 4096 bytes (spec: base 2.0 §5.17.2.8).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
#[allow(
    missing_docs,
    reason = "the fields carry the specification's names, in its order"
)]
pub struct IndependentNamespace {
    pub nsfeat: u8,
    pub nmic: u8,
    pub rescap: u8,
    pub fpi: u8,
    pub anagrpid: U32,
    pub nsattr: u8,
    pub reserved_9: u8,
    pub nvmsetid: U16,
    pub endgid: U16,
    pub nstat: u8,
    pub reserved_15: [u8; 4081],
}

const _: () = assert!(size_of::<IndependentNamespace>() == 4096);

impl IndependentNamespace {
    /// All zero.
    #[must_use]
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }
}
