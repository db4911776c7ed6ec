//! Controller properties: CAP, VS, CC, CSTS, CRTO.
//!
//! spec: base 2.0 §3.1.3.

/// Offset of Controller Capabilities, 8 bytes.
pub const CAP: u32 = 0x00;
/// Offset of Version, 4 bytes.
pub const VS: u32 = 0x08;
/// Offset of Controller Configuration, 4 bytes.
pub const CC: u32 = 0x14;
/// Offset of Controller Status, 4 bytes.
pub const CSTS: u32 = 0x1c;
/// Offset of NVM Subsystem Reset, 4 bytes.
pub const NSSR: u32 = 0x20;
/// Offset of Controller Ready Timeouts, 4 bytes.
pub const CRTO: u32 = 0x68;

/// Version 2.0.
pub const VERSION_2_0: u32 = 0x0002_0000;

/// Controller Capabilities (spec: base 2.0 §3.1.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Entries of an I/O queue minus one.
    pub mqes: u16,
    /// Longest time to ready, in units of 500 ms.
    pub timeout: u8,
}

impl Capabilities {
    /// The property: NVM command set and I/O command sets in general, 4 KiB memory pages,
    /// contiguous queues, ready with media only.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        const CQR: u64 = 1 << 16;
        const CSS_NVM: u64 = 1 << 37;
        const CSS_IOCSS: u64 = 1 << 43;
        const CRMS_WITH_MEDIA: u64 = 1 << 59;
        u64::from(self.mqes)
            | CQR
            | u64::from(self.timeout) << 24
            | CSS_NVM
            | CSS_IOCSS
            | CRMS_WITH_MEDIA
    }

    /// Reads the property.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            mqes: (bits & 0xffff) as u16,
            timeout: (bits >> 24 & 0xff) as u8,
        }
    }

    /// The value of CC.CSS that gets most of what the property offers: all command sets (6), NVM
    /// (0), none (7).
    #[must_use]
    pub const fn css(bits: u64) -> u32 {
        const NVM: u64 = 1 << 37;
        const ALL: u64 = 1 << 43;
        const NONE: u64 = 1 << 44;
        if bits & ALL != 0 {
            6
        } else if bits & NONE != 0 && bits & NVM == 0 {
            7
        } else {
            0
        }
    }

    /// Bytes of the smallest memory page, MPSMIN: the unit of MDTS and WZSL.
    #[must_use]
    pub const fn page_bytes_min(bits: u64) -> u64 {
        4096 << (bits >> 48 & 15)
    }
}

/// How a host wants a controller to stop, CC.SHN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shutdown {
    /// Not at all.
    None,
    /// In good order.
    Normal,
    /// At once.
    Abrupt,
}

/// Controller Configuration (spec: base 2.0 §3.1.3.5), raw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Configuration(pub u32);

impl Configuration {
    /// Enabled, all command sets (`css` 6) or NVM only (0), entries of 64 and 16 bytes.
    #[must_use]
    pub const fn enabled(css: u32) -> Self {
        Self(1 | css << 4 | 6 << 16 | 4 << 20)
    }

    /// EN.
    #[must_use]
    pub const fn enable(self) -> bool {
        self.0 & 1 != 0
    }

    /// CSS: 0 NVM, 6 all supported, 7 admin only.
    #[must_use]
    pub const fn css(self) -> u32 {
        self.0 >> 4 & 7
    }

    /// MPS: memory page size is `2^(12 + MPS)`.
    #[must_use]
    pub const fn mps(self) -> u32 {
        self.0 >> 7 & 15
    }

    /// AMS: arbitration.
    #[must_use]
    pub const fn ams(self) -> u32 {
        self.0 >> 11 & 7
    }

    /// SHN; the reserved value counts as abrupt.
    #[must_use]
    pub const fn shutdown(self) -> Shutdown {
        match self.0 >> 14 & 3 {
            0 => Shutdown::None,
            1 => Shutdown::Normal,
            _ => Shutdown::Abrupt,
        }
    }

    /// With another SHN.
    #[must_use]
    pub const fn with_shutdown(self, shutdown: Shutdown) -> Self {
        let shn = match shutdown {
            Shutdown::None => 0,
            Shutdown::Normal => 1,
            Shutdown::Abrupt => 2,
        };
        Self(self.0 & !(3 << 14) | shn << 14)
    }

    /// IOSQES and IOCQES, exponents of 2.
    #[must_use]
    pub const fn entry_sizes(self) -> (u32, u32) {
        (self.0 >> 16 & 15, self.0 >> 20 & 15)
    }
}

/// Controller Status (spec: base 2.0 §3.1.3.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ControllerStatus {
    /// RDY.
    pub ready: bool,
    /// CFS.
    pub fatal: bool,
    /// SHST: shutdown complete.
    pub shutdown_complete: bool,
    /// SHST: shutdown going on.
    pub shutdown_busy: bool,
}

impl ControllerStatus {
    /// The property.
    #[must_use]
    pub fn to_bits(self) -> u32 {
        u32::from(self.ready)
            | u32::from(self.fatal) << 1
            | u32::from(self.shutdown_busy) << 2
            | u32::from(self.shutdown_complete) << 3
    }

    /// Reads the property.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self {
            ready: bits & 1 != 0,
            fatal: bits & 2 != 0,
            shutdown_busy: bits & 4 != 0,
            shutdown_complete: bits & 8 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let capabilities = Capabilities {
            mqes: 127,
            timeout: 30,
        };
        assert_eq!(capabilities.to_bits(), 0x0800_0820_1e01_007f);
        assert_eq!(
            Capabilities::from_bits(capabilities.to_bits()),
            capabilities
        );
        let bits = capabilities.to_bits();
        assert_eq!(
            (Capabilities::css(bits), Capabilities::css(1 << 37)),
            (6, 0)
        );
        assert_eq!(Capabilities::css(1 << 44), 7);
        assert_eq!(Capabilities::page_bytes_min(bits), 4096);
        assert_eq!(Capabilities::page_bytes_min(bits | 3 << 48), 32_768);
        let enabled = Configuration(0x0046_0061);
        assert_eq!(enabled, Configuration::enabled(6));
        assert_eq!(enabled.entry_sizes(), (6, 4));
        assert_eq!((enabled.css(), enabled.mps(), enabled.ams()), (6, 0, 0));
        let down = enabled.with_shutdown(Shutdown::Normal);
        assert_eq!((down.0, down.shutdown()), (0x0046_4061, Shutdown::Normal));
        for bits in 0..16 {
            assert_eq!(ControllerStatus::from_bits(bits).to_bits(), bits);
        }
    }
}
