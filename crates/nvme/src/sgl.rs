//! Where a command's data is: the two SGL descriptors that NVMe/TCP knows.

use crate::status::Status;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Data block, offset subtype: in the capsule.
const IN_CAPSULE: u8 = 0x01;
/// Transport data block, transport specific subtype: moved by data PDUs.
const TRANSPORT: u8 = 0x5a;

/// SGL descriptor, 16 bytes, raw (spec: base 2.0 §4.1.2).
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    Default,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct RawSgl {
    /// Address, or offset into the capsule.
    pub address: U64,
    /// Bytes.
    pub length: U32,
    /// Reserved.
    pub reserved: [u8; 3],
    /// Type in the high nibble, subtype in the low one.
    pub kind: u8,
}

const _: () = assert!(size_of::<RawSgl>() == 16);

/// Where a command's data is (spec: nvme-tcp 1.0 §3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sgl {
    /// Behind the SQE in the same capsule.
    InCapsule {
        /// Bytes from the start of the capsule's data.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Moved by H2CData or C2HData.
    Transport {
        /// Bytes.
        length: u32,
    },
}

impl Sgl {
    /// Bytes of data.
    #[must_use]
    pub const fn length(self) -> u32 {
        match self {
            Self::InCapsule { length, .. } | Self::Transport { length } => length,
        }
    }
}

impl TryFrom<RawSgl> for Sgl {
    type Error = Status;

    fn try_from(raw: RawSgl) -> Result<Self, Status> {
        let length = raw.length.get();
        match raw.kind {
            IN_CAPSULE => Ok(Self::InCapsule {
                offset: raw.address.get(),
                length,
            }),
            TRANSPORT => Ok(Self::Transport { length }),
            // Commands without data may leave the descriptor zero.
            0 if length == 0 => Ok(Self::Transport { length: 0 }),
            _ => Err(Status::InvalidSglType),
        }
    }
}

impl From<Sgl> for RawSgl {
    fn from(sgl: Sgl) -> Self {
        let (address, kind) = match sgl {
            Sgl::InCapsule { offset, .. } => (offset, IN_CAPSULE),
            Sgl::Transport { .. } => (0, TRANSPORT),
        };
        Self {
            address: U64::new(address),
            length: U32::new(sgl.length()),
            reserved: [0; 3],
            kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors() {
        let sgls = [
            Sgl::Transport { length: 4096 },
            Sgl::InCapsule {
                offset: 0,
                length: 512,
            },
        ];
        for sgl in sgls {
            assert_eq!(Sgl::try_from(RawSgl::from(sgl)), Ok(sgl));
        }
        assert_eq!(RawSgl::from(sgls[0]).as_bytes()[15], 0x5a);
        let keyed = RawSgl {
            kind: 0x40,
            ..RawSgl::from(sgls[0])
        };
        assert_eq!(Sgl::try_from(keyed), Err(Status::InvalidSglType));
    }
}
