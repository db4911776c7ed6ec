//! The kinds of PDU, what their headers are and who may send them.

/// Who sends a PDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The host.
    Host,
    /// The controller.
    Controller,
}

/// Type of a PDU (spec: nvme-tcp 1.0 §3.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Initialize Connection Request.
    IcReq = 0x00,
    /// Initialize Connection Response.
    IcResp = 0x01,
    /// Terminate Connection Request of a host.
    H2cTermReq = 0x02,
    /// Terminate Connection Request of a controller.
    C2hTermReq = 0x03,
    /// Command capsule.
    CapsuleCmd = 0x04,
    /// Response capsule.
    CapsuleResp = 0x05,
    /// Data from host to controller.
    H2cData = 0x06,
    /// Data from controller to host.
    C2hData = 0x07,
    /// Ready to Transfer.
    R2t = 0x09,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::IcReq,
        Self::IcResp,
        Self::H2cTermReq,
        Self::C2hTermReq,
        Self::CapsuleCmd,
        Self::CapsuleResp,
        Self::H2cData,
        Self::C2hData,
        Self::R2t,
    ];

    /// The kind with this number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// Bytes of the header, digest not counted.
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::IcReq | Self::IcResp => 128,
            Self::CapsuleCmd => 72,
            _ => 24,
        }
    }

    /// Who sends it.
    #[must_use]
    pub const fn sender(self) -> Side {
        match self {
            Self::IcReq | Self::H2cTermReq | Self::CapsuleCmd | Self::H2cData => Side::Host,
            _ => Side::Controller,
        }
    }

    /// True if digests apply, once negotiated.
    #[must_use]
    pub const fn has_digests(self) -> bool {
        !matches!(
            self,
            Self::IcReq | Self::IcResp | Self::H2cTermReq | Self::C2hTermReq
        )
    }

    /// True if data may follow.
    #[must_use]
    pub const fn has_data(self) -> bool {
        matches!(self, Self::CapsuleCmd | Self::H2cData | Self::C2hData)
    }
}
