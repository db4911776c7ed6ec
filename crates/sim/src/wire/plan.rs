//! What a seed draws about hosts and their network.

use crate::rng::Rng;
use crate::subject::Config;
use varve_initiator::Times;
use varve_nvme::tcp::Digests;
use varve_units::Nanos;

/// Keep-alive timeout: the smallest that the target takes as it is (KAS).
const KEEP_ALIVE: Nanos = Nanos::from_secs(1);

/// How hosts reach the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Hosts, each with a name of its own.
    pub hosts: u64,
    /// I/O queues of each association.
    pub queues: u16,
    /// Entries of each.
    pub entries: u16,
    /// Digests.
    pub digests: Digests,
    /// How patient hosts are.
    pub times: Times,
    /// Host operations between faults of the network, on average.
    pub fault_distance: u64,
}

impl Plan {
    /// Draws whether and how the hosts of a seed use the network. Symbols have no bytes to be sent: of
    /// the seeds that are left, as many as make one in three of all.
    #[must_use]
    pub fn draw(rng: &Rng, config: &Config) -> Option<Self> {
        let mut rng = rng.split("wire");
        if config.is_elided || !rng.chance(6, 13) {
            return None;
        }
        let millis = |rng: &mut Rng, low, high| Nanos::from_millis(rng.magnitude(low, high));
        let backoff_first = millis(&mut rng, 1, 32);
        Some(Self {
            hosts: rng.within(1, 3),
            queues: rng.within(1, 3) as u16,
            entries: rng.magnitude(2, 64) as u16,
            digests: Digests {
                header: rng.chance(1, 3),
                data: rng.chance(1, 3),
            },
            times: Times {
                connect: millis(&mut rng, 64, 1024),
                admin: millis(&mut rng, 512, 2047),
                // Longer than commands take, or they would be repeated for ever.
                command: millis(&mut rng, 768, 2047),
                keep_alive: KEEP_ALIVE,
                close: millis(&mut rng, 16, 512),
                backoff_first,
                backoff_max: backoff_first + Nanos::from_millis(200),
                loss: Nanos::from_secs(600),
            },
            fault_distance: rng.magnitude(40, 400),
        })
    }
}
