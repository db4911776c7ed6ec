//! What is served: one subsystem with its namespaces, and where it listens.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use core::fmt;
use core::net::SocketAddr;
use varve_nvme::Nqn;

/// Highest namespace id (NN). Arbitrary.
pub const NSID_MAX: u32 = 1024;

/// Who may connect.
#[derive(Clone, Debug)]
pub enum Hosts {
    /// Anybody.
    Any,
    /// These only.
    Only(BTreeSet<Nqn>),
}

impl Hosts {
    /// True if `host` may connect.
    #[must_use]
    pub fn allow(&self, host: &Nqn) -> bool {
        match self {
            Self::Any => true,
            Self::Only(names) => names.contains(host),
        }
    }
}

/// A volume as hosts see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Namespace {
    /// Size in blocks of 4 KiB.
    pub blocks: u64,
    /// Identifier that never changes; not zero.
    pub nguid: [u8; 16],
    /// The same as UUID; not zero.
    pub uuid: [u8; 16],
    /// True if an answered write is lost with power until it is flushed.
    pub is_volatile: bool,
    /// True if it may be larger than what is behind it.
    pub is_thin: bool,
    /// A write that crosses no multiple of this many blocks is atomic, over a loss of power too;
    /// 0 if only single blocks are.
    pub atomic_blocks: u16,
}

/// Where hosts reach the target, as told to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listener {
    /// Address and port hosts are to use.
    pub advertise: SocketAddr,
    /// True if it is meant for discovery.
    pub is_discovery: bool,
}

/// One subsystem.
#[derive(Clone, Debug)]
pub struct Subsystem {
    /// Its name.
    pub nqn: Nqn,
    /// Serial number, printable ASCII, at most 20 characters.
    pub serial: String,
    /// Firmware revision, printable ASCII, at most 8 characters.
    pub firmware: String,
    /// Who may connect.
    pub hosts: Hosts,
    /// Where it listens.
    pub listeners: alloc::vec::Vec<Listener>,
    /// Namespaces by id, 1 to 1024.
    pub(crate) namespaces: BTreeMap<u32, Namespace>,
}

/// Why a namespace is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NamespaceError {
    /// Ids go from 1 to 1024.
    BadId(u32),
    /// It has no blocks.
    Empty,
    /// NGUID or UUID is zero.
    NoIdentifier,
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadId(id) => write!(f, "namespace id {id} is not in 1 to {NSID_MAX}"),
            Self::Empty => f.write_str("a namespace needs blocks"),
            Self::NoIdentifier => f.write_str("a namespace needs nguid and uuid"),
        }
    }
}

impl core::error::Error for NamespaceError {}

impl Namespace {
    /// Checks what hosts would not accept.
    pub(crate) fn check(&self, nsid: u32) -> Result<(), NamespaceError> {
        if nsid == 0 || nsid > NSID_MAX {
            return Err(NamespaceError::BadId(nsid));
        }
        if self.blocks == 0 {
            return Err(NamespaceError::Empty);
        }
        if self.nguid == [0; 16] || self.uuid == [0; 16] {
            return Err(NamespaceError::NoIdentifier);
        }
        Ok(())
    }
}

impl Subsystem {
    /// A subsystem without namespaces.
    #[must_use]
    pub fn new(
        nqn: Nqn,
        serial: String,
        firmware: String,
        hosts: Hosts,
        listeners: alloc::vec::Vec<Listener>,
    ) -> Self {
        let namespaces = BTreeMap::new();
        Self {
            nqn,
            serial,
            firmware,
            hosts,
            listeners,
            namespaces,
        }
    }

    /// True if any namespace needs flushes.
    pub(crate) fn is_volatile(&self) -> bool {
        self.namespaces
            .values()
            .any(|namespace| namespace.is_volatile)
    }
}
