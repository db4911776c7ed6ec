//! What hosts are to know of what is behind all namespaces.

use varve_nvme::log::critical;

/// Critical warnings of the SMART / Health log (spec: base 2.0 §5.16.1.3).
///
/// **Not here**: spare, temperature, volatile memory and persistent memory regions, of which nobody tells anything; what
/// keeps a drive from being reliable.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Warnings {
    /// What hosts wrote is less safe than it should be, or some of it is lost.
    pub is_degraded: bool,
    /// No namespace takes writes.
    pub is_read_only: bool,
}

impl Warnings {
    /// The byte of the log.
    #[must_use]
    pub const fn bits(self) -> u8 {
        let degraded = if self.is_degraded {
            critical::DEGRADED
        } else {
            0
        };
        let read_only = if self.is_read_only {
            critical::READ_ONLY
        } else {
            0
        };
        degraded | read_only
    }

    /// What is set here and was not before.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            is_degraded: self.is_degraded && !before.is_degraded,
            is_read_only: self.is_read_only && !before.is_read_only,
        }
    }
}
