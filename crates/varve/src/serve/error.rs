//! Why nothing is served.

use super::config::ConfigError;
use super::plan::{DATA_BYTES, DRAIN_S, MAP_BYTES, SPIN_US_MAX};
use super::test_namespace::RAM_BYTES_MAX;
use crate::cli::{ALLOW_IO, Exit, NO_IO};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use varve_control::ControlError;
use varve_hostio::NoIo;
use varve_nvme::nqn::NqnError;
use varve_server::NumbersError;
use varve_target::NamespaceError;
use varve_units::Nanos;

/// Why nothing is served (any more).
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum ServeError {
    /// A name is none.
    Name(String, NqnError),
    /// The subsystem is called as discovery is.
    DiscoveryName,
    /// A listener that others than this machine reach, and any host allowed.
    Anybody(SocketAddr),
    /// A listener on all addresses, and none to be told to hosts.
    NoAddress(SocketAddr),
    /// Counters that others than this machine could read.
    OpenMetrics(SocketAddr),
    /// The reactor would look for work for longer than makes sense.
    Spin(Nanos),
    /// More memory for a map than any machine has, or less than any pool needs.
    MapBytes(u64),
    /// More data of hosts than any machine has memory for, or less than one of them may have.
    DataBytes(u64),
    /// A drain that nobody could wait for, or that waits for nothing.
    Drain(Nanos),
    /// A test namespace in memory larger than any machine has memory for.
    RamBytes(u64),
    /// The configuration is none.
    Config(ConfigError),
    /// Nothing can be sent or received.
    Io(NoIo),
    /// Two listeners have one address.
    Twice(SocketAddr),
    /// A port cannot be had.
    Bind(SocketAddr, io::Error),
    /// Signals cannot be had.
    Signals(io::Error),
    /// A random identifier cannot be had.
    Identity(io::Error),
    /// Hosts would not accept a namespace.
    Namespace(NamespaceError),
    /// What answers commands or tells counters cannot be started.
    Thread(io::Error),
    /// Commands cannot come in.
    Socket(PathBuf, io::Error),
    /// The numbers of namespaces are not known.
    Numbers(NumbersError),
    /// The state directory or its pools.
    Control(ControlError),
    /// Every flow waits for another one: a programmer's error.
    Stalled,
}

impl ServeError {
    /// How the process ends.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Name(..)
            | Self::DiscoveryName
            | Self::Spin(_)
            | Self::MapBytes(_)
            | Self::DataBytes(_)
            | Self::Drain(_)
            | Self::RamBytes(_)
            | Self::Twice(_)
            | Self::Namespace(_)
            | Self::Config(ConfigError::Parse { .. }) => Exit::Usage,
            Self::Config(ConfigError::Read(_, error))
                if error.kind() == io::ErrorKind::NotFound =>
            {
                Exit::NotFound
            }
            Self::Bind(_, error) if error.kind() == io::ErrorKind::AddrInUse => Exit::Conflict,
            Self::Config(ConfigError::Read(..))
            | Self::Anybody(_)
            | Self::NoAddress(_)
            | Self::OpenMetrics(_)
            | Self::Io(_)
            | Self::Bind(..)
            | Self::Signals(_)
            | Self::Numbers(_)
            | Self::Thread(_)
            | Self::Socket(..)
            | Self::Identity(_) => Exit::Refused,
            Self::Control(error) => error.exit(),
            Self::Stalled => Exit::Failed,
        }
    }

    /// A stable word for programs.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Name(..) => "bad-nqn",
            Self::DiscoveryName => "discovery-nqn",
            Self::Anybody(_) => "no-hosts-named",
            Self::NoAddress(_) => "no-address",
            Self::OpenMetrics(_) => "not-loopback",
            Self::Spin(_) => "bad-spin",
            Self::MapBytes(_) => "bad-map-bytes",
            Self::DataBytes(_) => "bad-data-bytes",
            Self::Drain(_) => "bad-drain",
            Self::RamBytes(_) => "bad-size",
            Self::Config(ConfigError::Read(..)) => "no-configuration",
            Self::Config(ConfigError::Parse { .. }) => "bad-configuration",
            Self::Io(_) => NO_IO,
            Self::Twice(_) => "address-twice",
            Self::Bind(_, error) => bind_code(error),
            Self::Signals(_) => "no-signals",
            Self::Identity(_) => "no-chance",
            Self::Namespace(_) => "bad-namespace",
            Self::Thread(_) => "no-thread",
            Self::Socket(..) => "no-socket",
            Self::Numbers(_) => "namespace-numbers",
            Self::Control(error) => error.code(),
            Self::Stalled => "stalled",
        }
    }

    /// What to do about it, in the words of where it was said: options, or a configuration.
    pub(crate) fn next(&self, is_configured: bool) -> String {
        if is_configured && let Some(next) = self.next_in_file() {
            return next.to_owned();
        }
        let next = match self {
            Self::Control(error) => return error.next(),
            Self::Name(..) => "a name looks like nqn.2026-11.com.example:pool",
            Self::DiscoveryName => "give the subsystem a name of its own with --nqn",
            Self::MapBytes(_) => "leave it out: a pool takes what suits its drives",
            Self::DataBytes(_) => "leave it out: 256 MiB suit most",
            Self::Drain(_) => "leave it out: 20 suit most",
            Self::RamBytes(_) => "give a smaller --size; a null namespace takes no memory",
            Self::Spin(_) => "50 are a good start, 0 to sleep at once",
            Self::Anybody(_) => {
                "name the hosts with --allow-host NQN (on a host: cat /etc/nvme/hostnqn)"
            }
            Self::NoAddress(_) => "give the address that hosts use with --advertise",
            Self::Twice(_) => "give each listener a port of its own (0 is any that is free)",
            Self::Bind(_, error) => bind_next(error),
            Self::OpenMetrics(_) => {
                "listen on loopback and have a collector on this machine read them"
            }
            Self::Config(_) => {
                "correct it, or leave --config out to serve the usual state directory"
            }
            Self::Numbers(NumbersError::NoThread(_)) | Self::Thread(_) | Self::Signals(_) => {
                "raise what limits open files and threads (ulimit -n, ulimit -u; LimitNOFILE= and TasksMax= of a service)"
            }
            Self::Numbers(_) => {
                "restore the file from a copy, or delete it: hosts may find volumes under other numbers then"
            }
            Self::Io(_) => ALLOW_IO,
            Self::Socket(_, error) if error.kind() == io::ErrorKind::AddrInUse => {
                "end the daemon that answers there, or serve another state directory"
            }
            Self::Socket(..) => {
                "see that its directory has room and that this user may write to it, or serve another state directory"
            }
            Self::Identity(_) => "see that this user can read /dev/urandom",
            Self::Namespace(_) => "give a --size of at least 4096 bytes",
            Self::Stalled => "report this as a bug, with what was printed",
        };
        next.to_owned()
    }

    /// What to write into a configuration, where options that say the same do not go with it.
    const fn next_in_file(&self) -> Option<&'static str> {
        match self {
            Self::DiscoveryName => {
                Some("give the subsystem a name of its own: nqn = \"NQN\" in the configuration")
            }
            Self::Anybody(_) => Some(
                "name the hosts in the configuration: allowed_hosts = [\"NQN\"] (on a host: cat \
                 /etc/nvme/hostnqn)",
            ),
            Self::NoAddress(_) => Some(
                "give the address that hosts use in the configuration: advertise = \"ADDRESS\" of that \
                 [[listener]]",
            ),
            _ => None,
        }
    }
}

/// What keeps a port from being had, for programs.
pub(crate) fn bind_code(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "port-in-use",
        io::ErrorKind::PermissionDenied => "port-denied",
        _ => "no-such-address",
    }
}

/// What to do about a port that cannot be had.
fn bind_next(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "see who has it with `ss -ltnp`, or listen on another port (0 is any that is free)"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need CAP_NET_BIND_SERVICE; use another one"
        }
        _ => "see the addresses of this machine with `ip address`",
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(text, error) => write!(f, "`{text}` is no NVMe name: {error}"),
            Self::DiscoveryName => f.write_str("that name belongs to discovery"),
            Self::Anybody(address) => write!(
                f,
                "{address} can be reached from other machines, and any host would be let in"
            ),
            Self::NoAddress(address) => {
                write!(f, "{address} is no address that hosts could connect to")
            }
            Self::OpenMetrics(address) => {
                write!(f, "counters at {address} could be read by other machines")
            }
            Self::Spin(span) => write!(
                f,
                "the reactor cannot look for work for {} us: {SPIN_US_MAX} at most",
                span.0 / 1000
            ),
            Self::MapBytes(bytes) => write!(
                f,
                "map_bytes = {bytes}: from {} to {}",
                MAP_BYTES.start(),
                MAP_BYTES.end()
            ),
            Self::DataBytes(bytes) => write!(
                f,
                "data_bytes = {bytes}: from {} to {}",
                DATA_BYTES.start(),
                DATA_BYTES.end()
            ),
            Self::Drain(span) => write!(
                f,
                "drain_s = {}: from {} to {}",
                span.0 / Nanos::from_secs(1).0,
                DRAIN_S.start(),
                DRAIN_S.end()
            ),
            Self::RamBytes(bytes) => write!(
                f,
                "a namespace of {bytes} bytes in memory: {RAM_BYTES_MAX} at most"
            ),
            Self::Config(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::Twice(address) => write!(f, "two listeners have the address {address}"),
            Self::Bind(address, error) if error.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "cannot listen on {address}: another process does")
            }
            Self::Bind(address, error) => write!(f, "cannot listen on {address}: {error}"),
            Self::Signals(error) => write!(f, "signals cannot be taken over: {error}"),
            Self::Identity(error) => write!(f, "no random numbers: {error}"),
            Self::Namespace(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "what answers commands cannot be started: {error}"),
            Self::Socket(path, error) => {
                write!(
                    f,
                    "cannot listen for commands at {}: {error}",
                    path.display()
                )
            }
            Self::Numbers(error) => error.fmt(f),
            Self::Control(error) => error.fmt(f),
            Self::Stalled => f.write_str("the server waits for nothing any more"),
        }
    }
}

impl std::error::Error for ServeError {}

impl From<ControlError> for ServeError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::{Ipv4Addr, SocketAddrV4};

    const PLACE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 80));

    fn system(kind: io::ErrorKind) -> io::Error {
        kind.into()
    }

    /// Why nothing is served. (`next` and `code` match each by its name: one that is added lacks neither.)
    fn all() -> Vec<ServeError> {
        let denied = || system(io::ErrorKind::PermissionDenied);
        let name = varve_nvme::nqn::Nqn::new("x").expect_err("no name");
        let path = PathBuf::from("/x");
        let parse = ConfigError::Parse {
            path: path.clone(),
            line: 1,
            what: "x".to_owned(),
        };
        vec![
            ServeError::Name("x".to_owned(), name),
            ServeError::DiscoveryName,
            ServeError::Anybody(PLACE),
            ServeError::NoAddress(PLACE),
            ServeError::OpenMetrics(PLACE),
            ServeError::Spin(Nanos(1)),
            ServeError::MapBytes(1),
            ServeError::DataBytes(1),
            ServeError::Drain(Nanos(1)),
            ServeError::RamBytes(1),
            ServeError::Config(ConfigError::Read(path.clone(), denied())),
            ServeError::Config(parse),
            ServeError::Io(NoIo::Kernel(denied())),
            ServeError::Twice(PLACE),
            ServeError::Bind(PLACE, system(io::ErrorKind::AddrInUse)),
            ServeError::Bind(PLACE, denied()),
            ServeError::Bind(PLACE, system(io::ErrorKind::AddrNotAvailable)),
            ServeError::Signals(denied()),
            ServeError::Identity(denied()),
            ServeError::Namespace(NamespaceError::Empty),
            ServeError::Thread(denied()),
            ServeError::Socket(path.clone(), denied()),
            ServeError::Numbers(NumbersError::Full),
            ServeError::Control(ControlError::Ended),
            ServeError::Stalled,
        ]
    }

    /// Each has something to do and a word of its own, which is no class.
    #[test]
    fn all_have_a_next_step_and_a_word() {
        let mut words = BTreeSet::new();
        for error in all() {
            for is_configured in [false, true] {
                assert!(!error.next(is_configured).is_empty(), "{error}");
            }
            let word = error.code();
            assert!(words.insert(word), "{word} twice");
            assert_ne!(word, error.exit().word(), "{error}");
        }
    }

    /// Where io_uring is forbidden the next step says so, as that of all other commands.
    #[test]
    fn no_io_uring_is_answered() {
        let error = ServeError::Io(NoIo::Kernel(system(io::ErrorKind::PermissionDenied)));
        assert!(error.next(false).contains("io_uring"));
        assert_eq!(error.code(), ControlError::from(NoIo::NotReal).code());
    }
}
