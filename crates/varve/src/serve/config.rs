//! `varve.toml`.

use super::plan::{DATA_BYTES_USUAL, DRAIN_USUAL, ListenerPlan, Plan, Source};
use serde::Deserialize;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use varve_units::Nanos;

/// Where hosts connect if nothing else is said.
pub(crate) const IO_LISTENER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4420);
/// Where hosts ask what there is if nothing else is said.
pub(crate) const DISCOVERY_LISTENER: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8009);

/// The file as it is written; what is not known is refused.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct File {
    nqn: Option<String>,
    #[serde(default, deserialize_with = "directory")]
    state_dir: Option<PathBuf>,
    metrics: Option<SocketAddr>,
    map_bytes: Option<u64>,
    data_bytes: Option<u64>,
    drain_s: Option<u32>,
    #[serde(default)]
    spin_us: u32,
    #[serde(default)]
    degraded: bool,
    #[serde(default)]
    allowed_hosts: Vec<String>,
    #[serde(default)]
    listener: Vec<Listener>,
}

/// A path, which is not empty: that would be wherever the daemon was started.
fn directory<'text, Text>(text: Text) -> Result<Option<PathBuf>, Text::Error>
where
    Text: serde::Deserializer<'text>,
{
    let path = PathBuf::deserialize(text)?;
    match path.as_os_str().is_empty() {
        true => Err(serde::de::Error::custom("an empty path is no directory")),
        false => Ok(Some(path)),
    }
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Listener {
    address: SocketAddr,
    advertise: Option<Advertise>,
    #[serde(default)]
    discovery: bool,
}

/// An address with or without a port.
#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(untagged, expecting = "an address, or an address and a port")]
enum Advertise {
    Both(SocketAddr),
    Address(IpAddr),
}

/// Why a configuration is refused.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// It is no TOML, or says what is not known.
    Parse {
        /// The file.
        path: PathBuf,
        /// Its line, from 1 on.
        line: usize,
        /// What is wrong there.
        what: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "{} cannot be read: {error}", path.display()),
            Self::Parse { path, line, what } => {
                write!(f, "{} line {line}: {what}", path.display())
            }
        }
    }
}

impl std::error::Error for ConfigError {}

/// Reads a configuration.
///
/// # Errors
/// As [`ConfigError`] says.
pub(crate) fn read(path: &Path) -> Result<Plan, ConfigError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| ConfigError::Read(path.to_owned(), error))?;
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<Plan, ConfigError> {
    let file: File = toml::from_str(text).map_err(|error: toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        ConfigError::Parse {
            path: path.to_owned(),
            line: text[..start].matches('\n').count() + 1,
            what: error.message().to_owned(),
        }
    })?;
    let mut listeners: Vec<_> = file.listener.iter().map(Listener::plan).collect();
    if listeners.is_empty() {
        listeners = default_listeners();
    }
    Ok(Plan {
        nqn: file.nqn,
        listeners,
        hosts: file.allowed_hosts,
        source: Source::Pools {
            state_dir: file.state_dir,
            map_bytes: file.map_bytes,
            degraded: file.degraded,
        },
        metrics: file.metrics,
        spin: Nanos::from_micros(file.spin_us.into()),
        data_bytes: file.data_bytes.unwrap_or(DATA_BYTES_USUAL),
        drain: file
            .drain_s
            .map_or(DRAIN_USUAL, |s| Nanos::from_secs(s.into())),
    })
}

/// Listeners on loopback.
pub(crate) fn default_listeners() -> Vec<ListenerPlan> {
    let plan = |address, is_discovery| ListenerPlan {
        address,
        advertise: None,
        advertise_port: None,
        is_discovery,
    };
    vec![plan(IO_LISTENER, false), plan(DISCOVERY_LISTENER, true)]
}

impl Listener {
    fn plan(&self) -> ListenerPlan {
        let (advertise, advertise_port) = match self.advertise {
            None => (None, None),
            Some(Advertise::Address(ip)) => (Some(ip), None),
            Some(Advertise::Both(both)) => (Some(both.ip()), Some(both.port())),
        };
        ListenerPlan {
            address: self.address,
            advertise,
            advertise_port,
            is_discovery: self.discovery,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Plan, String> {
        parse(Path::new("varve.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn everything_can_be_said() {
        let plan = parsed(
            "nqn = 'nqn.2026-11.io.example:pool'\n\
             state_dir = '/srv/varve'\n\
             metrics = '127.0.0.1:9420'\n\
             map_bytes = 67108864\n\
             spin_us = 50\n\
             data_bytes = 8388608\n\
             drain_s = 7\n\
             degraded = true\n\
             allowed_hosts = ['nqn.2014-08.org.nvmexpress:uuid:1']\n\
             [[listener]]\n\
             address = '0.0.0.0:4420'\n\
             advertise = '192.0.2.1:14420'\n\
             [[listener]]\n\
             address = '[::1]:8009'\n\
             advertise = '2001:db8::1'\n\
             discovery = true\n",
        )
        .unwrap();
        let [io, discovery] = &plan.listeners[..] else {
            panic!("{plan:?}");
        };
        assert_eq!(io.advertise_port, Some(14420));
        assert_eq!(io.advertise, Some("192.0.2.1".parse().unwrap()));
        assert!(discovery.is_discovery && discovery.advertise_port.is_none());
        assert!(plan.check().is_ok());
        assert_eq!(plan.spin, Nanos::from_micros(50));
        assert_eq!(plan.data_bytes, 8 << 20);
        assert_eq!(plan.drain, Nanos::from_secs(7));
        assert!(matches!(
            plan.source,
            Source::Pools {
                map_bytes: Some(67_108_864),
                degraded: true,
                ..
            }
        ));
    }

    /// The file that packages ship says what is so anyway.
    #[test]
    fn the_shipped_file_says_the_defaults() {
        let shipped = include_str!("../../../../deploy/varve.toml");
        let told = parsed(shipped).unwrap();
        assert_eq!(told.listeners, default_listeners());
        let open: String = shipped
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(text) if !text.starts_with(' ') => text.to_owned() + "\n",
                _ => "\n".to_owned(),
            })
            .collect();
        let plan = parsed(&open).unwrap();
        assert_eq!(plan.listeners.len(), 2);
        assert_eq!(plan.spin, told.spin);
        assert_eq!(plan.data_bytes, told.data_bytes);
        assert_eq!(plan.drain, told.drain);
        assert!(plan.metrics.is_some() && plan.check().is_ok());
    }

    /// The longest end there may be leaves the service manager time to spare.
    #[test]
    fn an_end_takes_less_than_the_service_manager_waits() {
        let unit = include_str!("../../../../deploy/varve.service");
        let line = unit
            .lines()
            .find_map(|one| one.strip_prefix("TimeoutStopSec="));
        let waits = Nanos::from_secs(line.unwrap().parse().unwrap());
        let drain = parsed("").unwrap().drain;
        assert!(drain + drain + Nanos::from_secs(10) <= waits);
    }

    #[test]
    fn nothing_need_be_said() {
        let plan = parsed("").unwrap();
        assert_eq!(plan.listeners, default_listeners());
        assert!(plan.hosts.is_empty() && plan.metrics.is_none() && plan.nqn.is_none());
        assert_eq!(plan.spin, Nanos(0));
        assert_eq!(plan.data_bytes, 256 << 20);
    }

    #[test]
    fn what_is_not_known_is_named() {
        let table = [
            ("\nlisten = 'x'\n", "line 2: unknown field `listen`"),
            (
                "[[listener]]\naddress = '127.0.0.1:1'\nport = 3\n",
                "line 3: unknown field `port`",
            ),
            (
                "[[listener]]\ndiscovery = true\n",
                "missing field `address`",
            ),
            ("[[listener]]\naddress = '127.0.0.1'\n", "line 2: "),
            (
                "[[listener]]\naddress='127.0.0.1:1'\nadvertise='me'\n",
                "an address",
            ),
            ("metrics = 9420\n", "line 1: "),
            ("state_dir = ''\n", "an empty path is no directory"),
            ("nqn = \n", "line 1: "),
        ];
        for (text, expected) in table {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
