//! What a host is told: whom to connect to, with what, and how patient it is.

use varve_nvme::Nqn;
use varve_nvme::tcp::Digests;
use varve_units::Nanos;

/// [`Config::resends_max`] if nothing else is said. As Linux (`nvme_core.max_retries`).
const RESENDS_MAX: u32 = 5;

/// What the association is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// I/O to a namespace; if none is named, to the one that is the first when it first connects.
    Namespace(Option<u32>),
    /// The discovery log, kept up to date.
    Discovery,
}

/// How patient a host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// Until a byte stream is there.
    pub connect: Nanos,
    /// Until a command of the admin queue is answered.
    pub admin: Nanos,
    /// Until a command of an I/O queue is answered; the association ends otherwise.
    pub command: Nanos,
    /// Keep-alive timeout told to the controller; if that has keep alive, one goes out at half of it.
    /// 0 for none.
    pub keep_alive: Nanos,
    /// Until the peer has closed a connection this side gave up.
    pub close: Nanos,
    /// Before the first attempt after a loss; doubled with each further one.
    pub backoff_first: Nanos,
    /// The longest such wait.
    pub backoff_max: Nanos,
    /// Without an association for so long, commands fail and nothing is tried any more.
    pub loss: Nanos,
}

impl Default for Times {
    /// What Linux has: 30 s a command, 600 s until the controller counts as lost; keep alive 5 s.
    fn default() -> Self {
        Self {
            connect: Nanos::from_secs(10),
            admin: Nanos::from_secs(10),
            command: Nanos::from_secs(30),
            keep_alive: Nanos::from_secs(5),
            close: Nanos::from_secs(5),
            backoff_first: Nanos::from_millis(100),
            backoff_max: Nanos::from_secs(10),
            loss: Nanos::from_secs(600),
        }
    }
}

/// What a host is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The subsystem; ignored for discovery.
    pub subsystem: Nqn,
    /// This host's name.
    pub host: Nqn,
    /// This host's identifier, not zero.
    pub hostid: [u8; 16],
    /// What for.
    pub purpose: Purpose,
    /// Digests; a controller that does without is not used.
    pub digests: Digests,
    /// I/O queues wanted, at least 1; the controller may give fewer.
    pub queues: u16,
    /// Entries of each; the controller may have fewer.
    pub queue_entries: u16,
    /// How patient it is.
    pub times: Times,
    /// How often a request is sent again because its association was lost while the controller had it
    /// in hand, since some of it was last answered for good; after that it fails. Attempts to connect
    /// do not count.
    pub resends_max: u32,
    /// A namespace that the controller takes away while it is in use does not come back: requests fail at once. Else
    /// it is waited for, as for a target that is gone.
    pub ends_with_namespace: bool,
}

impl Config {
    /// For I/O with a namespace: one queue of 128 entries, no digests, 5 resends.
    #[must_use]
    pub fn new(subsystem: Nqn, nsid: Option<u32>, host: Nqn, hostid: [u8; 16]) -> Self {
        Self {
            subsystem,
            host,
            hostid,
            purpose: Purpose::Namespace(nsid),
            digests: Digests::default(),
            queues: 1,
            queue_entries: 128,
            times: Times::default(),
            resends_max: RESENDS_MAX,
            ends_with_namespace: false,
        }
    }

    /// For the discovery log.
    #[must_use]
    pub fn discovery(host: Nqn, hostid: [u8; 16]) -> Self {
        Self {
            purpose: Purpose::Discovery,
            ..Self::new(Nqn::discovery(), None, host, hostid)
        }
    }

    /// The subsystem that Connect names.
    pub(crate) fn connect_to(&self) -> Nqn {
        match self.purpose {
            Purpose::Namespace(_) => self.subsystem.clone(),
            Purpose::Discovery => Nqn::discovery(),
        }
    }
}
