//! The discovery log (spec: base 2.0 §5.16.1.23).

use crate::nqn::{NQN_FIELD, Nqn, NqnError};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// TRTYPE of TCP.
pub const TRTYPE_TCP: u8 = 3;
/// ADRFAM of IPv4.
pub const ADRFAM_IPV4: u8 = 1;
/// ADRFAM of IPv6.
pub const ADRFAM_IPV6: u8 = 2;
/// EFLAGS: this discovery controller keeps connections with keep alive (EPCSD).
pub const PERSISTENT: u16 = 1 << 1;

/// What an entry leads to, SUBTYPE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Subtype {
    /// Another discovery subsystem.
    Referral = 1,
    /// A subsystem with namespaces.
    Nvm = 2,
    /// The discovery subsystem that gives this log.
    Current = 3,
}

/// Header of the log, 1024 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct DiscoveryHeader {
    /// Rises with each change.
    pub genctr: U64,
    /// Entries.
    pub numrec: U64,
    /// Record format, 0.
    pub recfmt: U16,
    /// Reserved.
    pub reserved: [u8; 1006],
}

/// Entry of the log, 1024 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
#[allow(
    missing_docs,
    reason = "the fields carry the specification's names, in its order"
)]
pub struct DiscoveryEntry {
    pub trtype: u8,
    pub adrfam: u8,
    pub subtype: u8,
    pub treq: u8,
    pub portid: U16,
    pub cntlid: U16,
    pub asqsz: U16,
    pub eflags: U16,
    pub reserved_12: [u8; 20],
    pub trsvcid: [u8; 32],
    pub reserved_64: [u8; 192],
    pub subnqn: [u8; NQN_FIELD],
    pub traddr: [u8; 256],
    pub tsas: [u8; 256],
}

const _: () = assert!(size_of::<DiscoveryHeader>() == 1024);
const _: () = assert!(size_of::<DiscoveryEntry>() == 1024);

/// TREQ: secure channel not required, and the target can do without SQ flow control.
const TREQ: u8 = 2 | 1 << 2;

/// What an entry says, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// What it leads to.
    pub subtype: Subtype,
    /// The subsystem.
    pub subsystem: Nqn,
    /// Its address.
    pub address: SocketAddr,
    /// Port id.
    pub portid: u16,
}

/// Why an entry is of no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EntryError {
    /// Not TCP.
    Transport,
    /// Not an IP address with a port.
    Address,
    /// An unknown subtype.
    Subtype,
    /// A bad name.
    Name(NqnError),
}

impl DiscoveryHeader {
    /// Of `count` entries.
    #[must_use]
    pub fn new(generation: u64, count: u64) -> Self {
        let mut header = Self::new_zeroed();
        header.genctr = U64::new(generation);
        header.numrec = U64::new(count);
        header
    }
}

impl DiscoveryEntry {
    /// An entry for TCP without TLS whose controllers are dynamic.
    #[must_use]
    pub fn new(found: &Found, queue_size: u16, eflags: u16) -> Self {
        let mut entry = Self::new_zeroed();
        entry.trtype = TRTYPE_TCP;
        entry.adrfam = match found.address.ip() {
            IpAddr::V4(_) => ADRFAM_IPV4,
            IpAddr::V6(_) => ADRFAM_IPV6,
        };
        entry.subtype = found.subtype as u8;
        entry.treq = TREQ;
        entry.portid = U16::new(found.portid);
        entry.cntlid = U16::new(crate::fabrics::CNTLID_DYNAMIC);
        entry.asqsz = U16::new(queue_size);
        entry.eflags = U16::new(eflags);
        pad(&mut entry.trsvcid, &found.address.port().to_string());
        entry.subnqn = found.subsystem.to_field();
        pad(&mut entry.traddr, &found.address.ip().to_string());
        entry
    }
}

impl TryFrom<&DiscoveryEntry> for Found {
    type Error = EntryError;

    fn try_from(entry: &DiscoveryEntry) -> Result<Self, EntryError> {
        if entry.trtype != TRTYPE_TCP {
            return Err(EntryError::Transport);
        }
        let subtype = match entry.subtype {
            1 => Subtype::Referral,
            2 => Subtype::Nvm,
            3 => Subtype::Current,
            _ => return Err(EntryError::Subtype),
        };
        let ip = text(&entry.traddr).and_then(|text| text.parse::<IpAddr>().ok());
        let port = text(&entry.trsvcid).and_then(|text| text.parse::<u16>().ok());
        let (Some(ip), Some(port)) = (ip, port) else {
            return Err(EntryError::Address);
        };
        Ok(Self {
            subtype,
            subsystem: Nqn::from_field(&entry.subnqn).map_err(EntryError::Name)?,
            address: SocketAddr::new(ip, port),
            portid: entry.portid.get(),
        })
    }
}

/// Header and entries of a log as far as they came.
#[must_use]
pub fn read_log(bytes: &[u8]) -> Option<(DiscoveryHeader, Vec<DiscoveryEntry>)> {
    let (header, rest) = DiscoveryHeader::read_from_prefix(bytes).ok()?;
    let whole = rest.as_chunks::<1024>().0.iter();
    let count = usize::try_from(header.numrec.get()).unwrap_or(usize::MAX);
    let entries = whole.take(count);
    let entries = entries.filter_map(|bytes| DiscoveryEntry::read_from_bytes(bytes).ok());
    Some((header, entries.collect()))
}

/// Text into a field padded with spaces, as these two fields are defined.
fn pad(field: &mut [u8], text: &str) {
    field.fill(b' ');
    field[..text.len()].copy_from_slice(text.as_bytes());
}

/// Text of a field padded with spaces or zeroes.
fn text(field: &[u8]) -> Option<String> {
    let text = core::str::from_utf8(field).ok()?;
    Some(text.trim_end_matches([' ', '\0']).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for address in ["127.0.0.1:4420", "[fe80::1]:8009"] {
            let found = Found {
                subtype: Subtype::Nvm,
                subsystem: Nqn::new("nqn.2026-11.io.varve:a").expect("a name"),
                address: address.parse().expect("an address"),
                portid: 1,
            };
            let entry = DiscoveryEntry::new(&found, 32, 0);
            assert_eq!(Found::try_from(&entry), Ok(found));
            let mut log = DiscoveryHeader::new(5, 9).as_bytes().to_vec();
            log.extend_from_slice(entry.as_bytes());
            log.extend_from_slice(&entry.as_bytes()[..1000]);
            let (header, entries) = read_log(&log).expect("a header");
            assert_eq!((header.genctr.get(), entries), (5, alloc::vec![entry]));
            let mut bad = entry;
            bad.trtype = 1;
            assert_eq!(Found::try_from(&bad), Err(EntryError::Transport));
        }
    }
}
