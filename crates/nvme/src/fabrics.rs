//! Fabrics commands: Connect and properties.
//!
//! spec: base 2.0 §6.

use crate::cqe::Cqe;
use crate::nqn::{NQN_FIELD, Nqn};
use crate::opcode;
use crate::sgl::Sgl;
use crate::sqe::Sqe;
use crate::status::Status;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// CNTLID that asks for a new controller (spec: base 2.0 §6.3).
pub const CNTLID_DYNAMIC: u16 = 0xffff;

/// CATTR: the host does without SQ flow control, so SQHD means nothing.
const NO_FLOW_CONTROL: u8 = 1 << 2;

/// Type of a fabrics command (spec: base 2.0 §6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FabricsType {
    /// Property Set.
    PropertySet = 0x00,
    /// Connect.
    Connect = 0x01,
    /// Property Get.
    PropertyGet = 0x04,
}

impl FabricsType {
    /// Type of a command with the fabrics opcode, if it is one that is spoken here.
    #[must_use]
    pub fn of(sqe: &Sqe) -> Option<Self> {
        let all = [Self::PropertySet, Self::Connect, Self::PropertyGet];
        all.into_iter().find(|kind| *kind as u8 == sqe.fctype())
    }
}

/// Parameters of Connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connect {
    /// Record format, 0.
    pub recfmt: u16,
    /// Queue; 0 is the admin queue.
    pub qid: u16,
    /// Entries of the queue minus one.
    pub sqsize: u16,
    /// True if the host uses SQ flow control.
    pub flow_control: bool,
    /// Keep-alive timeout in milliseconds, 0 for none; admin queue only.
    pub kato_ms: u32,
}

impl Connect {
    /// Reads the command.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let (word10, word11) = (sqe.cdw(10), sqe.cdw(11));
        Self {
            recfmt: (word10 & 0xffff) as u16,
            qid: (word10 >> 16) as u16,
            sqsize: (word11 & 0xffff) as u16,
            flow_control: (word11 >> 16) as u8 & NO_FLOW_CONTROL == 0,
            kato_ms: sqe.cdw(12),
        }
    }

    /// The command, its data in the capsule.
    #[must_use]
    pub fn to_sqe(self, cid: u16) -> Sqe {
        let length = size_of::<ConnectData>() as u32;
        let mut sqe =
            fabrics(FabricsType::Connect, cid).with_sgl(Sgl::InCapsule { offset: 0, length });
        sqe.set_cdw(10, u32::from(self.recfmt) | u32::from(self.qid) << 16);
        let cattr = if self.flow_control {
            0
        } else {
            NO_FLOW_CONTROL
        };
        sqe.set_cdw(11, u32::from(self.sqsize) | u32::from(cattr) << 16);
        sqe.set_cdw(12, self.kato_ms);
        sqe
    }
}

/// Data of Connect, 1024 bytes (spec: base 2.0 §6.3).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ConnectData {
    /// Host identifier.
    pub hostid: [u8; 16],
    /// Controller, or [`CNTLID_DYNAMIC`].
    pub cntlid: U16,
    /// Reserved.
    pub reserved: [u8; 238],
    /// Name of the subsystem.
    pub subnqn: [u8; NQN_FIELD],
    /// Name of the host.
    pub hostnqn: [u8; NQN_FIELD],
    /// Reserved.
    pub reserved_end: [u8; 256],
}

const _: () = assert!(size_of::<ConnectData>() == 1024);

impl ConnectData {
    /// For `host` to connect to `cntlid` of `subsystem`.
    #[must_use]
    pub fn new(hostid: [u8; 16], cntlid: u16, subsystem: &Nqn, host: &Nqn) -> Self {
        Self {
            hostid,
            cntlid: U16::new(cntlid),
            reserved: [0; 238],
            subnqn: subsystem.to_field(),
            hostnqn: host.to_field(),
            reserved_end: [0; 256],
        }
    }
}

/// A wrong parameter of Connect: the result of [`Status::ConnectInvalid`] (spec: base 2.0 §6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidParameter {
    /// Offset in the SQE, or in the data.
    pub offset: u16,
    /// True for the data.
    pub is_data: bool,
}

impl InvalidParameter {
    /// As result of the CQE.
    #[must_use]
    pub fn result(self) -> u64 {
        u64::from(self.offset) | u64::from(self.is_data) << 16
    }
}

/// Property Get or Property Set (spec: base 2.0 §6.5, §6.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PropertyAccess {
    /// Offset of the property.
    pub offset: u32,
    /// True for 8 bytes, false for 4.
    pub is_wide: bool,
    /// Value to set; 0 in a Get.
    pub value: u64,
}

impl PropertyAccess {
    /// Reads the command.
    ///
    /// # Errors
    /// Sizes other than 4 and 8 bytes.
    pub fn from_sqe(sqe: &Sqe) -> Result<Self, Status> {
        let is_wide = match sqe.cdw(10) & 7 {
            0 => false,
            1 => true,
            _ => return Err(Status::InvalidField),
        };
        Ok(Self {
            offset: sqe.cdw(11),
            is_wide,
            value: u64::from(sqe.cdw(12)) | u64::from(sqe.cdw(13)) << 32,
        })
    }

    /// A Get of the property.
    #[must_use]
    pub fn get(self, cid: u16) -> Sqe {
        self.fill(fabrics(FabricsType::PropertyGet, cid))
    }

    /// A Set of the property.
    #[must_use]
    pub fn set(self, cid: u16) -> Sqe {
        let mut sqe = self.fill(fabrics(FabricsType::PropertySet, cid));
        sqe.set_cdw(12, (self.value & 0xffff_ffff) as u32);
        sqe.set_cdw(13, (self.value >> 32) as u32);
        sqe
    }

    fn fill(self, mut sqe: Sqe) -> Sqe {
        sqe.set_cdw(10, u32::from(self.is_wide));
        sqe.set_cdw(11, self.offset);
        sqe
    }
}

fn fabrics(kind: FabricsType, cid: u16) -> Sqe {
    let mut sqe = Sqe::new(opcode::FABRICS, cid, 0);
    sqe.nsid = U32::new(u32::from(kind as u8));
    sqe
}

/// CNTLID of a successful Connect.
#[must_use]
pub fn connected_cntlid(cqe: &Cqe) -> u16 {
    (cqe.dw0.get() & 0xffff) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_connect() {
        let connect = Connect {
            recfmt: 0,
            qid: 2,
            sqsize: 127,
            flow_control: false,
            kato_ms: 5000,
        };
        let sqe = connect.to_sqe(7);
        let bytes = sqe.as_bytes();
        assert_eq!(bytes[..5], [0x7f, 0x40, 7, 0, 1]);
        assert_eq!(bytes[32..40], [0, 4, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[40..52], [0, 0, 2, 0, 127, 0, 4, 0, 0x88, 0x13, 0, 0]);
        assert_eq!(Connect::from_sqe(&sqe), connect);
        assert_eq!(FabricsType::of(&sqe), Some(FabricsType::Connect));
        assert_eq!(sqe.direction(), opcode::Direction::ToController);
    }

    #[test]
    fn golden_property() {
        let access = PropertyAccess {
            offset: 0x14,
            is_wide: false,
            value: 0x0046_0001,
        };
        let sqe = access.set(1);
        assert_eq!(
            sqe.as_bytes()[40..52],
            [0, 0, 0, 0, 0x14, 0, 0, 0, 1, 0, 0x46, 0]
        );
        assert_eq!(PropertyAccess::from_sqe(&sqe), Ok(access));
        assert_eq!(access.get(1).fctype(), 4);
        let mut bad = sqe;
        bad.set_cdw(10, 2);
        assert_eq!(PropertyAccess::from_sqe(&bad), Err(Status::InvalidField));
    }
}
