//! NVMe/TCP: PDUs, their encoder and their decoder.
//!
//! Source: NVMe/TCP Transport 1.0 §3.6.

mod decoder;
mod digest;
mod encode;
mod fatal;
mod header;
mod kind;

pub use decoder::{DataDigest, Decoder, Head, Limits, Pdu, Progress};
pub use digest::{DIGEST_BYTES, Digests, data_digest};
pub use encode::{HEADER_BYTES_MAX, HeaderBytes, encode, payload_offset};
pub use fatal::{FatalError, FatalStatus, TermReq};
pub use header::{DataTransfer, Header, IcReq, IcResp, PFV, R2t};
pub use kind::{Kind, Side};

/// Bytes of the common header (spec: nvme-tcp 1.0 §3.6.1).
pub const COMMON_BYTES: usize = 8;

/// Smallest MAXH2CDATA a controller may advertise (spec: nvme-tcp 1.0 §3.6.2.3).
pub const MAXH2CDATA_MIN: u32 = 4096;

/// In-capsule data that admin queues and Connect always have (spec: nvme-tcp 1.0 §3.3.1).
pub const ADMIN_CAPSULE_DATA: u32 = 8192;

/// Flags of the common header.
pub mod flag {
    /// A header digest follows the header.
    pub const HDGST: u8 = 1 << 0;
    /// A data digest follows the data.
    pub const DDGST: u8 = 1 << 1;
    /// Last PDU of a transfer.
    pub const LAST: u8 = 1 << 2;
    /// The command succeeded and no response capsule follows.
    pub const SUCCESS: u8 = 1 << 3;
}
