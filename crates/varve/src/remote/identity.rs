//! Who this host is to targets: a name and an identifier that stay the same from run to run.
//!
//! The name that nvme-cli keeps in `/etc/nvme` is used if there is one, so that a target that lets
//! this machine's kernel in lets this in as well. Else both are made from the machine's id.

use std::fs;
use varve_nvme::Nqn;

/// Where nvme-cli keeps them.
const HOSTNQN: &str = "/etc/nvme/hostnqn";
const HOSTID: &str = "/etc/nvme/hostid";
/// Where the system keeps its id, 32 hexadecimal digits.
const MACHINE_ID: &str = "/etc/machine-id";
/// Identifier of a machine without any: such machines look alike.
const NAMELESS: [u8; 16] = *b"varve nameless!!";

/// Name and identifier of this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HostIdentity {
    pub(crate) nqn: Nqn,
    pub(crate) id: [u8; 16],
}

impl HostIdentity {
    /// Those of this machine.
    pub(crate) fn of_this_machine() -> Self {
        let line = |path| fs::read_to_string(path).ok();
        Self::from_texts(line(HOSTNQN), line(HOSTID), line(MACHINE_ID))
    }

    fn from_texts(nqn: Option<String>, id: Option<String>, machine: Option<String>) -> Self {
        let nqn = nqn.and_then(|text| Nqn::new(text.trim()).ok());
        let id = id.and_then(|text| parse_hex(text.trim()));
        let own = machine.and_then(|text| parse_hex(text.trim())).map(as_uuid);
        // nvme-cli's name contains the identifier it belongs to: they go together.
        let id = match &nqn {
            Some(_) => id.or(own),
            None => own,
        };
        let id = id.unwrap_or(NAMELESS);
        let nqn = nqn.unwrap_or_else(|| {
            let name = format!("nqn.2014-08.org.nvmexpress:uuid:{}", uuid_text(&id));
            Nqn::new(&name).expect("a name made of a uuid")
        });
        Self { nqn, id }
    }
}

/// 16 bytes of hexadecimal digits, dashes left out; not all zero.
fn parse_hex(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|digit| *digit != '-')
        .map(|digit| digit.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    let pairs = digits.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.0.iter().map(|[high, low]| high << 4 | low).collect();
    let id: [u8; 16] = bytes.try_into().ok().filter(|_| pairs.1.is_empty())?;
    (id != [0; 16]).then_some(id)
}

/// A UUID of version 8 from a machine's id, which is not to be told to others as it is
/// (machine-id(5)): every byte is changed in a way of our own.
fn as_uuid(id: [u8; 16]) -> [u8; 16] {
    let mut state = 0x7661_7276_6520_6e76_u64;
    let mut uuid = id;
    for _ in 0..4 {
        for byte in &mut uuid {
            state = (state ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            state ^= state >> 29;
            *byte = (state >> 32) as u8;
        }
    }
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

fn uuid_text(id: &[u8; 16]) -> String {
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let cuts = [0..8, 8..12, 12..16, 16..20, 20..32];
    cuts.map(|cut| digits[cut].to_owned()).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_name_comes_first() {
        let uuid = "11111111-2222-3333-4444-555555555555";
        let nqn = format!("nqn.2014-08.org.nvmexpress:uuid:{uuid}");
        let machine = || Some("0123456789abcdef0123456789abcdef\n".to_owned());
        let line = |text: &str| Some(format!("{text}\n"));
        let both = HostIdentity::from_texts(line(&nqn), line(uuid), machine());
        assert_eq!(
            (both.nqn.as_str(), both.id[..5].to_vec()),
            (nqn.as_str(), vec![0x11, 0x11, 0x11, 0x11, 0x22])
        );
        let own = HostIdentity::from_texts(None, line(uuid), machine());
        assert_ne!(own.id, both.id);
        assert!(own.nqn.as_str().ends_with(&uuid_text(&own.id)));
        assert_eq!(own, HostIdentity::from_texts(line("bad"), None, machine()));
        assert_eq!(HostIdentity::from_texts(None, None, None).id, NAMELESS);
    }

    #[test]
    fn the_machines_id_is_not_told() {
        let id = parse_hex("0123456789abcdef0123456789abcdef").unwrap();
        let uuid = as_uuid(id);
        assert!(id.iter().zip(&uuid).filter(|(a, b)| a == b).count() < 4);
        assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (8, 2));
        assert_eq!(parse_hex(&uuid_text(&uuid)), Some(uuid));
        for bad in ["", "0123", "00000000000000000000000000000000", "xy"] {
            assert_eq!(parse_hex(bad), None, "{bad}");
        }
    }
}
