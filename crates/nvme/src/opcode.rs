//! Opcodes that are spoken here.
//!
//! spec: base 2.0 §5 (admin), nvm 1.0 §3 (I/O), base 2.0 §6 (fabrics).

/// Admin commands.
pub mod admin {
    /// Get Log Page.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Identify.
    pub const IDENTIFY: u8 = 0x06;
    /// Abort.
    pub const ABORT: u8 = 0x08;
    /// Set Features.
    pub const SET_FEATURES: u8 = 0x09;
    /// Get Features.
    pub const GET_FEATURES: u8 = 0x0a;
    /// Asynchronous Event Request.
    pub const ASYNC_EVENT: u8 = 0x0c;
    /// Keep Alive.
    pub const KEEP_ALIVE: u8 = 0x18;
}

/// Commands of the NVM command set.
pub mod io {
    /// Flush.
    pub const FLUSH: u8 = 0x00;
    /// Write.
    pub const WRITE: u8 = 0x01;
    /// Read.
    pub const READ: u8 = 0x02;
    /// Compare.
    pub const COMPARE: u8 = 0x05;
    /// Write Zeroes.
    pub const WRITE_ZEROES: u8 = 0x08;
    /// Dataset Management.
    pub const DATASET_MANAGEMENT: u8 = 0x09;
}

/// All fabrics commands; which one stands in [`crate::fabrics::FabricsType`].
pub const FABRICS: u8 = 0x7f;

/// Which way a command's data goes, bits 1:0 of its opcode (spec: base 2.0 §3.3.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// No data.
    None,
    /// Host to controller.
    ToController,
    /// Controller to host.
    ToHost,
    /// Both.
    Both,
}

/// Direction that an opcode, or a fabrics command's type, says.
#[must_use]
pub const fn direction(code: u8) -> Direction {
    match code & 3 {
        0 => Direction::None,
        1 => Direction::ToController,
        2 => Direction::ToHost,
        _ => Direction::Both,
    }
}
