//! What is to be served, checked before anything is opened.

use super::error::ServeError;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use varve_nvme::Nqn;
use varve_target::{ALL_DATA_BYTES_MAX, DATA_BYTES_MAX, Hosts};
use varve_units::Nanos;

/// Longest time the reactor looks for work before it sleeps, in microseconds. Arbitrary: many times
/// what a wake-up takes.
pub(super) const SPIN_US_MAX: u32 = 10_000;
/// Memory for the map of a pool in bytes. Arbitrary: what the smallest pools need, and many times what the
/// largest do.
pub(super) const MAP_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 40;
/// Data of all connections in bytes: at least what one of them may hold. The upper end is arbitrary.
pub(super) const DATA_BYTES: RangeInclusive<u64> = DATA_BYTES_MAX..=1 << 40;
/// That if nothing is said.
pub(crate) const DATA_BYTES_USUAL: u64 = ALL_DATA_BYTES_MAX;

/// How long a drain waits for what was taken, in seconds. Arbitrary: time for a command to drives in good order, and
/// less than anybody waits for.
pub(super) const DRAIN_S: RangeInclusive<u32> = 1..=3600;
/// That if nothing is said. Twice that and three seconds, which is the longest an end takes, are well below what
/// `deploy/varve.service` lets it take.
pub(crate) const DRAIN_USUAL: Nanos = Nanos::from_secs(20);

/// A port where hosts connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ListenerPlan {
    /// Where it listens; port 0 is any that is free.
    pub address: SocketAddr,
    /// The address hosts are told instead of that.
    pub advertise: Option<IpAddr>,
    /// The port hosts are told instead of its own.
    pub advertise_port: Option<u16>,
    /// It is meant for discovery.
    pub is_discovery: bool,
}

/// What stands behind a test namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum TestKind {
    /// Reads as zeroes, forgets what is written
    Null,
    /// Memory, gone with the process
    Ram,
}

/// A namespace without a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TestNamespace {
    pub kind: TestKind,
    pub bytes: u64,
}

/// Where the namespaces come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// One namespace without a pool.
    Test(TestNamespace),
    /// The volumes of all pools that a state directory knows.
    Pools {
        /// The usual one if `None`.
        state_dir: Option<PathBuf>,
        /// Bytes of memory for the map of each pool.
        map_bytes: Option<u64>,
        /// Pools are opened although drives are missing, as far as redundancy goes.
        degraded: bool,
    },
}

/// What is to be served.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Name of the subsystem; follows from the source if `None`.
    pub nqn: Option<String>,
    pub listeners: Vec<ListenerPlan>,
    /// Names of the hosts that may connect; anybody if there are none.
    pub hosts: Vec<String>,
    pub source: Source,
    /// Where counters are read, over HTTP.
    pub metrics: Option<SocketAddr>,
    /// How long the reactor looks for work before it sleeps.
    pub spin: Nanos,
    /// Bytes of data that all connections may hold.
    pub data_bytes: u64,
    /// How long a drain waits for what was taken; pools have as long again to be closed.
    pub drain: Nanos,
}

impl Plan {
    /// Refuses what could not be served, or not safely. The name, if one is given, and the hosts.
    ///
    /// # Errors
    /// Names that are none, addresses that hosts cannot reach, anybody from anywhere, a reactor that
    /// would hardly ever sleep.
    pub(crate) fn check(&self) -> Result<(Option<Nqn>, Hosts), ServeError> {
        let name =
            |text: &String| Nqn::new(text).map_err(|error| ServeError::Name(text.clone(), error));
        let nqn = self.nqn.as_ref().map(name).transpose()?;
        if nqn.as_ref().is_some_and(Nqn::is_discovery) {
            return Err(ServeError::DiscoveryName);
        }
        if let Some(address) = self.metrics.filter(|address| !address.ip().is_loopback()) {
            return Err(ServeError::OpenMetrics(address));
        }
        if let Source::Pools {
            map_bytes: Some(bytes),
            ..
        } = self.source
            && !MAP_BYTES.contains(&bytes)
        {
            return Err(ServeError::MapBytes(bytes));
        }
        if self.spin > Nanos::from_micros(SPIN_US_MAX.into()) {
            return Err(ServeError::Spin(self.spin));
        }
        if !DATA_BYTES.contains(&self.data_bytes) {
            return Err(ServeError::DataBytes(self.data_bytes));
        }
        let bounds = [DRAIN_S.start(), DRAIN_S.end()].map(|&s| Nanos::from_secs(s.into()));
        if !(bounds[0]..=bounds[1]).contains(&self.drain) {
            return Err(ServeError::Drain(self.drain));
        }
        let hosts: Result<BTreeSet<Nqn>, _> = self.hosts.iter().map(name).collect();
        let hosts = Some(hosts?).filter(|names| !names.is_empty());
        let hosts = hosts.map_or(Hosts::Any, Hosts::Only);
        let addresses = self.listeners.iter().map(|listener| listener.address);
        let mut taken = BTreeSet::new();
        for address in addresses.chain(self.metrics) {
            if address.port() != 0 && !taken.insert(address) {
                return Err(ServeError::Twice(address));
            }
        }
        for listener in &self.listeners {
            let ip = listener.address.ip();
            if !ip.is_loopback() && self.hosts.is_empty() {
                return Err(ServeError::Anybody(listener.address));
            }
            let told = listener.advertise.unwrap_or(ip);
            if told.is_unspecified() || listener.advertise_port == Some(0) {
                return Err(ServeError::NoAddress(listener.address));
            }
        }
        Ok((nqn, hosts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(address: &str, advertise: Option<&str>, hosts: &[&str]) -> Plan {
        Plan {
            nqn: Some("nqn.2026-11.io.varve:test".to_owned()),
            listeners: vec![ListenerPlan {
                address: address.parse().unwrap(),
                advertise: advertise.map(|text| text.parse().unwrap()),
                advertise_port: None,
                is_discovery: false,
            }],
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            source: Source::Test(TestNamespace {
                kind: TestKind::Null,
                bytes: 4096,
            }),
            metrics: None,
            spin: Nanos(0),
            data_bytes: DATA_BYTES_USUAL,
            drain: DRAIN_USUAL,
        }
    }

    #[test]
    fn what_cannot_be_served_is_refused() {
        const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1";
        assert!(plan("127.0.0.1:1", None, &[]).check().is_ok());
        assert!(plan("[::1]:1", None, &[]).check().is_ok());
        assert!(plan("192.0.2.1:1", None, &[HOST]).check().is_ok());
        assert!(
            plan("0.0.0.0:1", Some("192.0.2.1"), &[HOST])
                .check()
                .is_ok()
        );
        let nowhere = plan("192.0.2.1:1", Some("0.0.0.0"), &[HOST]).check();
        assert!(matches!(nowhere, Err(ServeError::NoAddress(_))));
        let mut twice = plan("127.0.0.1:1", None, &[]);
        twice.metrics = Some("127.0.0.1:1".parse().unwrap());
        assert!(matches!(twice.check(), Err(ServeError::Twice(_))));
        let (_, hosts) = plan("127.0.0.1:1", None, &[HOST]).check().unwrap();
        let other = Nqn::new("nqn.2014-08.org.nvmexpress:uuid:2").unwrap();
        assert!(!hosts.allow(&other));
        let refused = plan("192.0.2.1:1", None, &[]).check().unwrap_err();
        assert!(matches!(refused, ServeError::Anybody(_)), "{refused}");
        let refused = plan("0.0.0.0:1", None, &[HOST]).check().unwrap_err();
        assert!(matches!(refused, ServeError::NoAddress(_)), "{refused}");
        let mut open = plan("127.0.0.1:1", None, &[]);
        open.metrics = Some("192.0.2.1:9".parse().unwrap());
        let refused = open.check().unwrap_err();
        assert!(matches!(refused, ServeError::OpenMetrics(_)), "{refused}");
        let mut eager = plan("127.0.0.1:1", None, &[]);
        eager.spin = Nanos::from_micros(10_001);
        let refused = eager.check().unwrap_err();
        assert!(matches!(refused, ServeError::Spin(_)), "{refused}");
        eager.spin = Nanos::from_micros(10_000);
        assert!(eager.check().is_ok());
        for (bytes, is_good) in [
            (4 << 20, true),
            (1 << 40, true),
            (1 << 20, false),
            (2 << 40, false),
        ] {
            eager.data_bytes = bytes;
            assert_eq!(eager.check().is_ok(), is_good, "{bytes}");
        }
        eager.data_bytes = DATA_BYTES_USUAL;
        for (bytes, is_good) in [
            (0, false),
            (1 << 20, true),
            (1 << 40, true),
            (1 << 50, false),
        ] {
            eager.source = Source::Pools {
                state_dir: None,
                map_bytes: Some(bytes),
                degraded: false,
            };
            assert_eq!(eager.check().is_ok(), is_good, "{bytes}");
        }
        let mut ending = plan("127.0.0.1:1", None, &[]);
        for (seconds, is_good) in [(0, false), (1, true), (3600, true), (3601, false)] {
            ending.drain = Nanos::from_secs(seconds);
            assert_eq!(ending.check().is_ok(), is_good, "{seconds}");
        }
        let refused = plan("127.0.0.1:1", None, &["me"]).check().unwrap_err();
        assert!(matches!(refused, ServeError::Name(..)), "{refused}");
    }
}
