//! Connecting to a remote namespace.

use super::{Address, HostIdentity, HostTransport, discovery};
use crate::cli::{ALLOW_IO, Exit, NO_IO};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use varve_hostio::{Io, NoIo};
use varve_initiator::{Config, ConnectError, Loss, RemoteDrive, Times};
use varve_io::World;
use varve_nvme::tcp::Digests;
use varve_units::Nanos;

/// Without an association for so long, a namespace is given up. Arbitrary: enough for a target that is
/// started again.
const LOSS_TIME_MAX: Nanos = Nanos::from_secs(30);

/// A remote namespace over real sockets.
pub(crate) type Remote = RemoteDrive<HostTransport>;

/// How a namespace is to be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// I/O queues.
    pub(crate) queues: u16,
    /// Commands in flight on each.
    pub(crate) depth: u32,
    /// Digests.
    pub(crate) digests: Digests,
}

impl Terms {
    /// Entries of each queue.
    pub(crate) fn queue_entries(&self) -> u16 {
        let most = u32::from(varve_initiator::QUEUE_ENTRIES_MAX);
        (self.depth + 1).clamp(2, most) as u16
    }
}

/// Why a namespace cannot be used.
#[derive(Debug)]
pub(crate) enum Unreachable {
    /// The target's name is not known.
    Resolve(io::Error),
    /// This process can do no i/o.
    NoIo(NoIo),
    /// There is no connection to the target; why, as far as the system said.
    NotConnected {
        /// Where it should be.
        place: SocketAddr,
        /// The system's reason.
        why: Option<String>,
    },
    /// That is where the target answers questions about where it does I/O.
    Discovery {
        /// What was given.
        place: SocketAddr,
        /// What to use in its place.
        next: String,
    },
    /// The subsystem has no such namespace.
    NoNamespace(Address),
    /// The namespace was taken away while it was used.
    Deleted(Address),
    /// There is no association with the target.
    Connect(ConnectError),
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => write!(f, "the target's address: {error}"),
            Self::NoIo(error) => error.fmt(f),
            Self::NotConnected { place, why } => {
                write!(f, "no connection to {place}")?;
                why.iter().try_for_each(|why| write!(f, ": {why}"))
            }
            Self::Discovery { place, .. } => {
                write!(f, "{place} is a port for discovery, not for I/O")
            }
            Self::NoNamespace(Address { nqn, nsid, .. }) => match nsid {
                Some(nsid) => write!(f, "subsystem {nqn} has no namespace {nsid}"),
                None => write!(f, "subsystem {nqn} has no namespace"),
            },
            Self::Deleted(Address { nqn, .. }) => {
                write!(
                    f,
                    "the namespace of subsystem {nqn} was deleted or withdrawn while it was used"
                )
            }
            Self::Connect(error) => error.fmt(f),
        }
    }
}

impl Unreachable {
    /// What the user can do about it.
    pub(crate) fn next(&self) -> &str {
        match self {
            Self::Resolve(_) => "give the host's name or address as the target's machine has it",
            Self::NoIo(_) => ALLOW_IO,
            Self::NotConnected { .. } => {
                "look whether the target runs, and give the address and port that it listens on for I/O"
            }
            Self::Discovery { next, .. } => next,
            Self::NoNamespace(Address { nsid: Some(_), .. }) => {
                "give ?nsid=N a number that `varve serve` tells, or leave it out for the first namespace"
            }
            Self::Deleted(_) => "see what is left where the target runs: varve volume list",
            Self::NoNamespace(_) => "make a volume where the target runs: varve volume create",
            Self::Connect(_) => {
                "look whether the target serves this name at this address, to this host"
            }
        }
    }
}

impl Unreachable {
    /// A stable word for programs.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Resolve(_) => "no-such-host",
            Self::NoIo(_) => NO_IO,
            Self::NotConnected { .. } => "no-connection",
            Self::Discovery { .. } => "discovery-port",
            Self::NoNamespace(_) => "no-namespace",
            Self::Deleted(_) => "namespace-gone",
            Self::Connect(_) => "no-association",
        }
    }

    /// How a process ends by it.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::NoNamespace(_) | Self::Deleted(_) | Self::Resolve(_) => Exit::NotFound,
            Self::NoIo(_) => Exit::Refused,
            Self::Discovery { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}

/// Connects to a namespace.
///
/// # Errors
/// As [`Unreachable`] says.
pub(crate) async fn connect(
    world: &Rc<dyn World>,
    address: &Address,
    terms: Terms,
) -> Result<Rc<Remote>, Unreachable> {
    let places = address.resolve().map_err(Unreachable::Resolve)?;
    let io = Io::of(&**world).map_err(Unreachable::NoIo)?;
    let mut first = None;
    for place in places {
        match connect_at(world, &io, address, place, terms).await {
            Err(error @ Unreachable::NotConnected { .. }) => first = first.or(Some(error)),
            outcome => return outcome,
        }
    }
    Err(first.expect("a name stands for an address"))
}

async fn connect_at(
    world: &Rc<dyn World>,
    io: &Io,
    address: &Address,
    place: SocketAddr,
    terms: Terms,
) -> Result<Rc<Remote>, Unreachable> {
    let host = HostIdentity::of_this_machine();
    let mut config = Config::new(address.nqn.clone(), address.nsid, host.nqn, host.id);
    config.digests = terms.digests;
    config.queues = terms.queues;
    config.queue_entries = terms.queue_entries();
    config.ends_with_namespace = true;
    config.times = Times {
        loss: LOSS_TIME_MAX,
        ..Times::default()
    };
    let transport = HostTransport::new(io.clone(), place);
    let refusal = transport.refusal();
    let drive = match RemoteDrive::connect(Rc::clone(world), transport, config).await {
        Ok(drive) => Rc::new(drive),
        Err(error) => {
            let next = match &error.0 {
                // What a target says that has no such subsystem on this port.
                Loss::Command { .. } => discovery::instead(world, io.clone(), place, address).await,
                _ => None,
            };
            return Err(match (error.0, next) {
                (_, Some(next)) => Unreachable::Discovery { place, next },
                (Loss::NotConnected, None) => Unreachable::NotConnected {
                    place,
                    why: refusal.take(),
                },
                (Loss::NoNamespace, None) => Unreachable::NoNamespace(address.clone()),
                (loss, None) => Unreachable::Connect(ConnectError(loss)),
            });
        }
    };
    if address.is_at_port_for_io() {
        return Ok(drive);
    }
    match discovery::instead(world, io.clone(), place, address).await {
        Some(next) => {
            drive.close().await;
            Err(Unreachable::Discovery { place, next })
        }
        None => Ok(drive),
    }
}
