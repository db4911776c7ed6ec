//! Identify Controller (CNS 01h) and what the NVM command set adds (CNS 06h).

use crate::nqn::NQN_FIELD;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// CNTRLTYPE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ControllerKind {
    /// Serves namespaces.
    Io = 1,
    /// Serves the discovery log.
    Discovery = 2,
}

/// CTRATT bits.
pub mod attribute {
    /// Host identifiers have 128 bits.
    pub const HOST_ID_128: u32 = 1 << 0;
    /// Any traffic keeps the controller alive (TBKAS).
    pub const TRAFFIC_KEEP_ALIVE: u32 = 1 << 6;
}

/// LPA bits.
pub mod log_attribute {
    /// Command effects log per command set.
    pub const EFFECTS: u8 = 1 << 1;
    /// Get Log Page takes offsets and lengths of 32 bits.
    pub const EXTENDED: u8 = 1 << 2;
    /// Logs 00h, 12h and 13h are there, and scopes in the log of effects.
    pub const SUPPORTED_LOGS: u8 = 1 << 5;
}

/// ONCS bits.
pub mod command_support {
    /// Compare.
    pub const COMPARE: u16 = 1 << 0;
    /// Dataset Management.
    pub const DATASET_MANAGEMENT: u16 = 1 << 2;
    /// Write Zeroes.
    pub const WRITE_ZEROES: u16 = 1 << 3;
}

/// SGLS bits.
pub mod sgl_support {
    /// SGLs without restriction of alignment.
    pub const SUPPORTED: u32 = 1 << 0;
    /// Offsets into the capsule.
    pub const OFFSET: u32 = 1 << 20;
    /// Transport data blocks.
    pub const TRANSPORT: u32 = 1 << 21;
}

/// Power state descriptor, 32 bytes (spec: base 2.0 §5.17.2.1, figure of power states).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct PowerState {
    /// Maximum power in centiwatts.
    pub mp: U16,
    /// Reserved.
    pub reserved: u8,
    /// MXPS and NOPS.
    pub flags: u8,
    /// Entry latency in microseconds.
    pub enlat: U32,
    /// Exit latency in microseconds.
    pub exlat: U32,
    /// Relative ranks and further powers, not reported.
    pub ranks: [u8; 20],
}

/// Identify Controller, 4096 bytes (spec: base 2.0 §5.17.2.1).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
#[allow(
    missing_docs,
    reason = "the fields carry the specification's names, in its order"
)]
pub struct IdentifyController {
    pub vid: U16,
    pub ssvid: U16,
    pub sn: [u8; 20],
    pub mn: [u8; 40],
    pub fr: [u8; 8],
    pub rab: u8,
    pub ieee: [u8; 3],
    pub cmic: u8,
    pub mdts: u8,
    pub cntlid: U16,
    pub ver: U32,
    pub rtd3r: U32,
    pub rtd3e: U32,
    pub oaes: U32,
    pub ctratt: U32,
    pub rrls: U16,
    pub reserved_102: [u8; 9],
    pub cntrltype: u8,
    pub fguid: [u8; 16],
    pub crdt: [U16; 3],
    pub reserved_134: [u8; 122],
    pub oacs: U16,
    pub acl: u8,
    pub aerl: u8,
    pub frmw: u8,
    pub lpa: u8,
    pub elpe: u8,
    pub npss: u8,
    pub avscc: u8,
    pub apsta: u8,
    pub wctemp: U16,
    pub cctemp: U16,
    pub mtfa: U16,
    pub hmpre: U32,
    pub hmmin: U32,
    pub tnvmcap: [u8; 16],
    pub unvmcap: [u8; 16],
    pub rpmbs: U32,
    pub edstt: U16,
    pub dsto: u8,
    pub fwug: u8,
    pub kas: U16,
    pub hctma: U16,
    pub mntmt: U16,
    pub mxtmt: U16,
    pub sanicap: U32,
    pub hmminds: U32,
    pub hmmaxd: U16,
    pub nsetidmax: U16,
    pub endgidmax: U16,
    pub anatt: u8,
    pub anacap: u8,
    pub anagrpmax: U32,
    pub nanagrpid: U32,
    pub pels: U32,
    pub domainid: U16,
    pub reserved_358: [u8; 154],
    pub sqes: u8,
    pub cqes: u8,
    pub maxcmd: U16,
    pub nn: U32,
    pub oncs: U16,
    pub fuses: U16,
    pub fna: u8,
    pub vwc: u8,
    pub awun: U16,
    pub awupf: U16,
    pub icsvscc: u8,
    pub nwpc: u8,
    pub acwu: U16,
    pub cdfs: U16,
    pub sgls: U32,
    pub mnan: U32,
    pub maxdna: [u8; 16],
    pub maxcna: U32,
    pub reserved_564: [u8; 204],
    pub subnqn: [u8; NQN_FIELD],
    pub reserved_1024: [u8; 768],
    pub ioccsz: U32,
    pub iorcsz: U32,
    pub icdoff: U16,
    pub fcatt: u8,
    pub msdbd: u8,
    pub ofcs: U16,
    pub dctype: u8,
    pub reserved_1807: [u8; 241],
    pub psd: [PowerState; 32],
    pub vendor: [u8; 1024],
}

const _: () = assert!(size_of::<PowerState>() == 32);
const _: () = assert!(size_of::<IdentifyController>() == 4096);
const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(IdentifyController, cntrltype) == 111);
    assert!(offset_of!(IdentifyController, oacs) == 256);
    assert!(offset_of!(IdentifyController, kas) == 320);
    assert!(offset_of!(IdentifyController, anatt) == 342);
    assert!(offset_of!(IdentifyController, domainid) == 356);
    assert!(offset_of!(IdentifyController, sqes) == 512);
    assert!(offset_of!(IdentifyController, oncs) == 520);
    assert!(offset_of!(IdentifyController, vwc) == 525);
    assert!(offset_of!(IdentifyController, acwu) == 532);
    assert!(offset_of!(IdentifyController, sgls) == 536);
    assert!(offset_of!(IdentifyController, subnqn) == 768);
    assert!(offset_of!(IdentifyController, ioccsz) == 1792);
    assert!(offset_of!(IdentifyController, dctype) == 1806);
    assert!(offset_of!(IdentifyController, psd) == 2048);
};

impl IdentifyController {
    /// All zero.
    #[must_use]
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }
}

/// What the NVM command set adds to a controller, 4096 bytes (spec: nvm 1.0 §4.1.5.2).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct NvmController {
    /// Verify size limit, exponent of 2 in minimum pages; 0 for none.
    pub vsl: u8,
    /// Write zeroes size limit, exponent of 2 in minimum pages; 0 for none.
    pub wzsl: u8,
    /// Write uncorrectable size limit, exponent of 2 in minimum pages; 0 for none.
    pub wusl: u8,
    /// Ranges of a Dataset Management.
    pub dmrl: u8,
    /// Blocks of one range.
    pub dmrsl: U32,
    /// Blocks of all ranges.
    pub dmsl: U64,
    /// Reserved.
    pub reserved: [u8; 4080],
}

const _: () = assert!(size_of::<NvmController>() == 4096);

impl NvmController {
    /// All zero.
    #[must_use]
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }
}

/// Text in a field of `N` bytes, padded with spaces, cut if too long; other than printable ASCII
/// becomes `?`.
#[must_use]
pub fn ascii_field<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    for (byte, c) in field.iter_mut().zip(text.chars()) {
        let printable = u8::try_from(c)
            .ok()
            .filter(|byte| (0x20..0x7f).contains(byte));
        *byte = printable.unwrap_or(b'?');
    }
    field
}
