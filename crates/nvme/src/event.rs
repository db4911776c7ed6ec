//! Asynchronous events (spec: base 2.0 §5.2).

use crate::log::critical;

/// AEC bits: a bit of Critical Warning became set (spec: base 2.0 §5.27.1.8). OAES has none for them: every controller
/// with the log has these events.
pub const CRITICAL_WARNINGS: u32 = critical::ALL as u32;
/// AEC and OAES bit: a namespace's attributes changed.
pub const NAMESPACE_ATTRIBUTE: u32 = 1 << 8;
/// AEC and OAES bit: the discovery log changed.
pub const DISCOVERY_LOG: u32 = 1 << 31;

/// Events that are given here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Notice {
    /// Type 1, information 00h, log 02h: reliability of the subsystem is not what it was.
    Reliability,
    /// Type 2, information 00h, log 04h.
    NamespaceAttribute,
    /// Type 2, information F0h, log 70h.
    DiscoveryLog,
}

impl Notice {
    /// Result of the request that reports it.
    #[must_use]
    pub fn result(self) -> u32 {
        let (kind, information, log) = match self {
            Self::Reliability => (1, 0x00, 0x02),
            Self::NamespaceAttribute => (2, 0x00, 0x04),
            Self::DiscoveryLog => (2, 0xf0, 0x70),
        };
        kind | information << 8 | log << 16
    }

    /// What a result reports, if it is one of these.
    #[must_use]
    pub fn from_result(result: u32) -> Option<Self> {
        let all = [
            Self::Reliability,
            Self::NamespaceAttribute,
            Self::DiscoveryLog,
        ];
        let known = |notice: &Self| notice.result() == result & 0x00ff_ff07;
        all.into_iter().find(known)
    }

    /// Its bits in AEC, and in OAES if it is of type 2.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Reliability => (critical::DEGRADED | critical::READ_ONLY) as u32,
            Self::NamespaceAttribute => NAMESPACE_ATTRIBUTE,
            Self::DiscoveryLog => DISCOVERY_LOG,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        assert_eq!(Notice::Reliability.result(), 0x0002_0001);
        assert_eq!(Notice::Reliability.bits(), 0b1100);
        assert_eq!(Notice::NamespaceAttribute.result(), 0x0004_0002);
        assert_eq!(Notice::DiscoveryLog.result(), 0x0070_f002);
        assert_eq!(Notice::from_result(0x0070_f002), Some(Notice::DiscoveryLog));
        assert_eq!(Notice::from_result(0x0002_0001), Some(Notice::Reliability));
        assert_eq!(Notice::from_result(0x0001_0001), None);
    }
}
