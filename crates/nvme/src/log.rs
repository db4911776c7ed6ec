//! Log pages and Get Log Page (spec: base 2.0 §5.16).

use crate::opcode;
use crate::sgl::Sgl;
use crate::sqe::Sqe;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Log page identifiers that are spoken here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LogId {
    /// Supported Log Pages, 1024 bytes.
    Supported = 0x00,
    /// Error Information, 64 bytes an entry.
    Error = 0x01,
    /// SMART / Health Information, 512 bytes.
    Smart = 0x02,
    /// Firmware Slot Information, 512 bytes.
    Firmware = 0x03,
    /// Changed Namespace List, 4096 bytes.
    ChangedNamespaces = 0x04,
    /// Commands Supported and Effects, 4096 bytes.
    Effects = 0x05,
    /// Feature Identifiers Supported and Effects, 1024 bytes.
    Features = 0x12,
    /// Discovery.
    Discovery = 0x70,
}

impl LogId {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Supported,
        Self::Error,
        Self::Smart,
        Self::Firmware,
        Self::ChangedNamespaces,
        Self::Effects,
        Self::Features,
        Self::Discovery,
    ];

    /// The log with this number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|id| *id as u8 == code)
    }
}

/// Parameters of Get Log Page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetLogPage {
    /// Log page identifier.
    pub lid: u8,
    /// Log specific parameter.
    pub lsp: u8,
    /// Retain Asynchronous Event: reading does not unmask it.
    pub rae: bool,
    /// Bytes wanted.
    pub len: u64,
    /// First byte wanted.
    pub offset: u64,
    /// The offset counts entries instead of bytes.
    pub by_index: bool,
    /// Command set.
    pub csi: u8,
}

impl GetLogPage {
    /// Reads the command.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let (word10, word11) = (sqe.cdw(10), sqe.cdw(11));
        let dwords = u64::from(word10 >> 16) | u64::from(word11 & 0xffff) << 16;
        Self {
            lid: (word10 & 0xff) as u8,
            lsp: (word10 >> 8 & 0x7f) as u8,
            rae: word10 & 1 << 15 != 0,
            len: (dwords + 1) * 4,
            offset: u64::from(sqe.cdw(12)) | u64::from(sqe.cdw(13)) << 32,
            by_index: sqe.cdw(14) & 1 << 23 != 0,
            csi: (sqe.cdw(14) >> 24) as u8,
        }
    }

    /// The command.
    ///
    /// # Panics
    /// For lengths that are no positive multiple of 4 below 4 GiB.
    #[must_use]
    pub fn to_sqe(self, cid: u16, nsid: u32) -> Sqe {
        assert!(self.len > 0 && self.len.is_multiple_of(4), "{self:?}");
        let length = u32::try_from(self.len).expect("a log page is read in pieces");
        let sgl = Sgl::Transport { length };
        let mut sqe = Sqe::new(opcode::admin::GET_LOG_PAGE, cid, nsid).with_sgl(sgl);
        let dwords = length / 4 - 1;
        let head = u32::from(self.lid) | u32::from(self.lsp) << 8 | u32::from(self.rae) << 15;
        sqe.set_cdw(10, head | (dwords & 0xffff) << 16);
        sqe.set_cdw(11, dwords >> 16);
        sqe.set_cdw(12, (self.offset & 0xffff_ffff) as u32);
        sqe.set_cdw(13, (self.offset >> 32) as u32);
        sqe.set_cdw(
            14,
            u32::from(self.by_index) << 23 | u32::from(self.csi) << 24,
        );
        sqe
    }
}

/// Error Information entry, 64 bytes (spec: base 2.0 §5.16.1.2).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ErrorEntry {
    /// Number of the error since the controller was made, from 1; 0 for no entry.
    pub error_count: U64,
    /// Queue.
    pub sqid: U16,
    /// Command.
    pub cid: U16,
    /// Status field as in the CQE.
    pub status: U16,
    /// Byte and bit of the parameter to blame; FFFFh for none.
    pub parameter: U16,
    /// First block.
    pub lba: U64,
    /// Namespace.
    pub nsid: U32,
    /// Vendor log.
    pub vendor: u8,
    /// Transport type.
    pub trtype: u8,
    /// Command set.
    pub csi: u8,
    /// Opcode.
    pub opcode: u8,
    /// Command specific.
    pub specific: U64,
    /// Transport specific.
    pub transport: U16,
    /// Reserved.
    pub reserved: [u8; 22],
}

const _: () = assert!(size_of::<ErrorEntry>() == 64);

/// SMART / Health Information, 512 bytes (spec: base 2.0 §5.16.1.3).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SmartLog {
    /// Critical warnings.
    pub critical: u8,
    /// Temperature in kelvin.
    pub temperature: U16,
    /// Available spare in percent.
    pub spare: u8,
    /// Threshold of the spare in percent.
    pub spare_threshold: u8,
    /// Life used in percent.
    pub used: u8,
    /// Reserved.
    pub reserved: [u8; 26],
    /// Thousands of 512 bytes read, rounded up.
    pub data_units_read: [u8; 16],
    /// Thousands of 512 bytes written, rounded up.
    pub data_units_written: [u8; 16],
    /// Reads and compares.
    pub host_reads: [u8; 16],
    /// Writes.
    pub host_writes: [u8; 16],
    /// Minutes busy.
    pub busy: [u8; 16],
    /// Power cycles.
    pub power_cycles: [u8; 16],
    /// Hours on.
    pub power_on_hours: [u8; 16],
    /// Unsafe shutdowns.
    pub unsafe_shutdowns: [u8; 16],
    /// Media and data integrity errors.
    pub media_errors: [u8; 16],
    /// Error log entries ever.
    pub error_entries: [u8; 16],
    /// Temperatures' times and sensors.
    pub thermal: [u8; 320],
}

const _: () = assert!(size_of::<SmartLog>() == 512);

impl SmartLog {
    /// All zero.
    #[must_use]
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }
}

/// Bits of Critical Warning (spec: base 2.0 §5.16.1.3).
pub mod critical {
    /// Reliability is degraded by errors of media or inside.
    pub const DEGRADED: u8 = 1 << 2;
    /// All media take no writes.
    pub const READ_ONLY: u8 = 1 << 3;
    /// All that there are: spare, temperature, degraded, read only, memory backup, persistent memory region.
    pub const ALL: u8 = 0x3f;
}

/// Bytes of a log of 256 words: Supported Log Pages, Feature Identifiers.
pub const WORDS_BYTES: usize = 1024;

/// Word of a supported log page: LSUPP.
pub const LOG_SUPPORTED: u32 = 1;
/// Word of a supported feature: FSUPP and the scope controller.
pub const FEATURE_SUPPORTED: u32 = 1 | 1 << 21;
/// Word of a supported command: CSUPP.
pub const COMMAND_SUPPORTED: u32 = 1;
/// Word of a command: it changes blocks (LBCC).
pub const CHANGES_BLOCKS: u32 = 1 << 1;

/// Bytes of the effects log.
pub const EFFECTS_BYTES: usize = 4096;
/// Where I/O commands start in the effects log.
pub const EFFECTS_IO_OFFSET: usize = 1024;

/// Bytes of the changed namespace list.
pub const CHANGED_BYTES: usize = 4096;
/// Namespaces in that list; more give one entry FFFFFFFFh.
pub const CHANGED_MAX: usize = 1024;

/// Bytes of Firmware Slot Information.
pub const FIRMWARE_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let page = GetLogPage {
            lid: 0x70,
            lsp: 0,
            rae: true,
            len: 0x4_0000 + 1024,
            offset: 0x1_0000_0400,
            by_index: false,
            csi: 0,
        };
        let sqe = page.to_sqe(3, 0);
        assert_eq!(GetLogPage::from_sqe(&sqe), page);
        assert_eq!(sqe.as_bytes()[40..48], [0x70, 0x80, 0xff, 0, 1, 0, 0, 0]);
        assert_eq!(sqe.as_bytes()[48..56], [0, 4, 0, 0, 1, 0, 0, 0]);
    }
}
