//! Lists that Identify gives: namespaces, descriptors, command sets.

use crate::IDENTIFY_BYTES;
use alloc::vec;
use alloc::vec::Vec;

/// Namespaces one list holds.
pub const LIST_MAX: usize = IDENTIFY_BYTES / 4;

/// Up to 1024 ids as a list (CNS 02h, 07h; spec: base 2.0 §5.17.2.2).
#[must_use]
pub fn namespace_list(ids: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(IDENTIFY_BYTES);
    for id in ids.take(LIST_MAX) {
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes.resize(IDENTIFY_BYTES, 0);
    bytes
}

/// The ids of a list, up to the first zero.
#[must_use]
pub fn read_namespace_list(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.as_chunks::<4>().0.iter();
    let ids = words.map(|word| u32::from_le_bytes(*word));
    ids.take_while(|id| *id != 0).collect()
}

/// One identifier of a namespace (CNS 03h; spec: base 2.0 §5.17.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Descriptor {
    /// NIDT 1.
    Eui64([u8; 8]),
    /// NIDT 2.
    Nguid([u8; 16]),
    /// NIDT 3.
    Uuid([u8; 16]),
    /// NIDT 4: the command set.
    Csi(u8),
}

impl Descriptor {
    fn parts(&self) -> (u8, &[u8]) {
        match self {
            Self::Eui64(id) => (1, id),
            Self::Nguid(id) => (2, id),
            Self::Uuid(id) => (3, id),
            Self::Csi(csi) => (4, core::slice::from_ref(csi)),
        }
    }
}

/// Identifiers as the list.
///
/// # Panics
/// If they do not fit.
#[must_use]
pub fn descriptors(all: &[Descriptor]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(IDENTIFY_BYTES);
    for descriptor in all {
        let (kind, id) = descriptor.parts();
        bytes.extend_from_slice(&[kind, id.len() as u8, 0, 0]);
        bytes.extend_from_slice(id);
    }
    assert!(bytes.len() <= IDENTIFY_BYTES, "too many descriptors");
    bytes.resize(IDENTIFY_BYTES, 0);
    bytes
}

/// Identifiers of a list; unknown ones are skipped, the list ends where it makes no sense.
#[must_use]
pub fn read_descriptors(bytes: &[u8]) -> Vec<Descriptor> {
    let mut all = Vec::new();
    let mut rest = bytes;
    while let [kind, len, _, _, tail @ ..] = rest {
        if *kind == 0 || *len == 0 {
            break;
        }
        let Some((id, tail)) = tail.split_at_checked(usize::from(*len)) else {
            break;
        };
        rest = tail;
        let descriptor = match (*kind, id) {
            (1, _) => id.try_into().ok().map(Descriptor::Eui64),
            (2, _) => id.try_into().ok().map(Descriptor::Nguid),
            (3, _) => id.try_into().ok().map(Descriptor::Uuid),
            (4, [csi]) => Some(Descriptor::Csi(*csi)),
            _ => None,
        };
        all.extend(descriptor);
    }
    all
}

/// The combinations of command sets (CNS 1Ch; spec: base 2.0 §5.17.2.21): NVM alone.
#[must_use]
pub fn command_sets() -> Vec<u8> {
    let mut bytes = vec![0; IDENTIFY_BYTES];
    bytes[0] = 1;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let bytes = namespace_list([1, 0x0203_0405].into_iter());
        assert_eq!(bytes[..9], [1, 0, 0, 0, 5, 4, 3, 2, 0]);
        assert_eq!(read_namespace_list(&bytes), [1, 0x0203_0405]);
        let long = namespace_list(1..5000);
        assert_eq!(long.len(), IDENTIFY_BYTES);
        assert_eq!(read_namespace_list(&long).len(), 1024);
    }

    #[test]
    fn identifiers() {
        let all = [
            Descriptor::Nguid([7; 16]),
            Descriptor::Uuid([9; 16]),
            Descriptor::Eui64([1; 8]),
            Descriptor::Csi(0),
        ];
        let bytes = descriptors(&all);
        assert_eq!(bytes[..5], [2, 16, 0, 0, 7]);
        assert_eq!(read_descriptors(&bytes), all);
        assert!(read_descriptors(&[2, 16, 0, 0, 1]).is_empty());
    }
}
