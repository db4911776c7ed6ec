//! Asynchronous events (spec: base 2.0 §5.2).

/// AEC and OAES bit: a namespace's attributes changed.
pub const NAMESPACE_ATTRIBUTE: u32 = 1 << 8;
/// AEC and OAES bit: the discovery log changed.
pub const DISCOVERY_LOG: u32 = 1 << 31;

/// Notices that are given here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Notice {
    /// Type 2, information 00h, log 04h.
    NamespaceAttribute,
    /// Type 2, information F0h, log 70h.
    DiscoveryLog,
}

impl Notice {
    /// Result of the request that reports it.
    #[must_use]
    pub fn result(self) -> u32 {
        let (information, log) = match self {
            Self::NamespaceAttribute => (0x00, 0x04),
            Self::DiscoveryLog => (0xf0, 0x70),
        };
        2 | information << 8 | log << 16
    }

    /// What a result reports, if it is one of these.
    #[must_use]
    pub fn from_result(result: u32) -> Option<Self> {
        let all = [Self::NamespaceAttribute, Self::DiscoveryLog];
        let known = |notice: &Self| notice.result() == result & 0x00ff_ff07;
        all.into_iter().find(known)
    }

    /// Its bit in OAES and AEC.
    #[must_use]
    pub const fn bit(self) -> u32 {
        match self {
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
        assert_eq!(Notice::NamespaceAttribute.result(), 0x0004_0002);
        assert_eq!(Notice::DiscoveryLog.result(), 0x0070_f002);
        assert_eq!(Notice::from_result(0x0070_f002), Some(Notice::DiscoveryLog));
        assert_eq!(Notice::from_result(0x0001_0001), None);
    }
}
