//! Connecting to a remote namespace.

use super::{Address, HostIdentity, HostTransport};
use std::fmt;
use std::io;
use std::rc::Rc;
use varve_hostio::{Io, NoIo};
use varve_initiator::{Config, ConnectError, RemoteDrive, Times};
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
    /// There is no association with the target.
    Connect(ConnectError),
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => write!(f, "the target's address: {error}"),
            Self::NoIo(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
        }
    }
}

impl Unreachable {
    /// What the user can do about it.
    pub(crate) const fn next(&self) -> &'static str {
        match self {
            Self::Resolve(_) => "give the host's name or address as the target's machine has it",
            Self::NoIo(_) => "allow io_uring to this process (a container's seccomp profile, say)",
            Self::Connect(_) => {
                "look whether the target serves this name at this address, to this host"
            }
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
    let place = address.resolve().map_err(Unreachable::Resolve)?;
    let io = Io::of(&**world).map_err(Unreachable::NoIo)?;
    let host = HostIdentity::of_this_machine();
    let mut config = Config::new(address.nqn.clone(), address.nsid, host.nqn, host.id);
    config.digests = terms.digests;
    config.queues = terms.queues;
    config.queue_entries = terms.queue_entries();
    config.times = Times {
        loss: LOSS_TIME_MAX,
        ..Times::default()
    };
    let transport = HostTransport::new(io, place);
    let drive = RemoteDrive::connect(Rc::clone(world), transport, config).await;
    drive.map(Rc::new).map_err(Unreachable::Connect)
}
