//! Whether a port is one for discovery, and where its log says that a subsystem is served.
//!
//! A target may take I/O on such a port as well, as ours does; others refuse it with a status that says nothing of
//! ports. So the discovery log is asked, where there is one.

use super::{Address, HostIdentity, HostTransport};
use std::net::SocketAddr;
use std::rc::Rc;
use varve_hostio::Io;
use varve_initiator::{Config, Times, discover};
use varve_io::World;
use varve_nvme::discovery::{Found, Subtype};
use varve_units::Nanos;

/// How long each step of reading the log may take. Arbitrary: it is a look beside.
const PATIENCE: Nanos = Nanos::from_secs(2);

/// What to use in place of `address`, if `place`, where that leads, is meant for discovery alone. `None` also if there
/// is no log, or it names no subsystem: it tells a host what it may use, so it says nothing of I/O then.
pub(super) async fn instead(
    world: &Rc<dyn World>,
    io: Io,
    place: SocketAddr,
    address: &Address,
) -> Option<String> {
    let host = HostIdentity::of_this_machine();
    let config = Config {
        times: Times {
            connect: PATIENCE,
            admin: PATIENCE,
            close: PATIENCE,
            keep_alive: Nanos(0),
            ..Times::default()
        },
        ..Config::discovery(host.nqn, host.id)
    };
    let transport = HostTransport::new(io, place);
    let log = discover(Rc::clone(world), transport, config).await.ok()?;
    match is_for_discovery(&log, place) {
        true => advice(&log, place, address),
        false => None,
    }
}

/// By the port alone: addresses in a log are those that the target knows of.
fn is_for_discovery(log: &[Found], place: SocketAddr) -> bool {
    let leads_here = |subtype| {
        let is_it = move |found: &&Found| found.subtype == subtype;
        let mut all = log.iter().filter(is_it);
        all.any(|found| found.address.port() == place.port())
    };
    leads_here(Subtype::Current) && !leads_here(Subtype::Nvm)
}

fn advice(log: &[Found], place: SocketAddr, address: &Address) -> Option<String> {
    let all = || log.iter().filter(|found| found.subtype == Subtype::Nvm);
    let wanted = || all().filter(|found| found.subsystem == address.nqn);
    let near = wanted().find(|found| found.address.ip() == place.ip());
    if let Some(found) = near.or_else(|| wanted().next()) {
        return Some(format!(
            "give the port for I/O: {}",
            address.at(found.address)
        ));
    }
    let found = all().next()?;
    let (nqn, address, other) = (&address.nqn, found.address, &found.subsystem);
    Some(format!(
        "its log has no subsystem {nqn}; it has nvme+tcp://{address}/{other}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_nvme::Nqn;

    const NQN: &str = "nqn.2026-11.io.varve:test";

    fn found(subtype: Subtype, nqn: &str, address: &str) -> Found {
        Found {
            subtype,
            subsystem: Nqn::new(nqn).expect("a name"),
            address: address.parse().expect("an address"),
            portid: 0,
        }
    }

    #[test]
    fn what_a_log_says_of_a_port() {
        let place: SocketAddr = "127.0.0.1:8009".parse().expect("an address");
        let text = format!("nvme+tcp://127.0.0.1:8009/{NQN}?nsid=2");
        let address: Address = text.parse().expect("an address");
        let log = found(
            Subtype::Current,
            varve_nvme::nqn::DISCOVERY_NQN,
            "127.0.0.1:8009",
        );
        let other = found(Subtype::Nvm, "nqn.2026-11.io.varve:other", "10.0.0.1:4420");
        let far = found(Subtype::Nvm, NQN, "10.0.0.1:4420");
        let near = found(Subtype::Nvm, NQN, "127.0.0.1:4421");
        let here = found(Subtype::Nvm, NQN, "127.0.0.1:8009");
        assert!(!is_for_discovery(&[], place), "no log, no judgement");
        assert!(!is_for_discovery(&[log.clone(), here], place), "I/O too");
        assert!(is_for_discovery(&[log.clone(), far.clone()], place));
        let told = advice(&[log.clone(), other.clone(), far, near], place, &address);
        let expected = format!("give the port for I/O: nvme+tcp://127.0.0.1:4421/{NQN}?nsid=2");
        assert_eq!(told, Some(expected));
        let told = advice(&[log.clone(), other], place, &address).expect("another one");
        assert!(
            told.contains("nvme+tcp://10.0.0.1:4420/nqn.2026-11.io.varve:other"),
            "{told}"
        );
        assert_eq!(
            advice(&[log], place, &address),
            None,
            "hidden from this host"
        );
    }
}
