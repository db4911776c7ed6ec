//! Hosts that reach the pool over NVMe/TCP: the initiator, the target and the server that serve real
//! hosts, joined by a network in virtual time.
//!
//! The hosts are a machine of their own. It outlives every crash of the pool: commands that were not
//! answered are sent again when the target is back, and the checkers know that they may take effect more
//! than once until they are answered.
//!
//! Reading order: `pipe` (one direction of a connection), `connection` (its two ends), [`network`]
//! (connecting, faults), [`fabric`] (hosts and what they are connected to), [`subject`] (a life of the
//! pool behind its target).
//!
//! **Not here**: what hosts do and what they may be answered (`host`, `checker`); NVMe.

pub mod canary;
pub mod fabric;
pub mod network;
pub mod subject;

mod connection;
mod cuts;
mod pipe;
mod plan;

pub use canary::WireCanary;
pub use cuts::Cuts;
pub use fabric::{Fabric, Place};
pub use plan::Plan;

/// Features of the network and of what goes over it that a campaign must have seen.
pub const FEATURES: [&str; 19] = [
    "host_over_wire",
    "nvme_cache_lost",
    "nvme_connect",
    "nvme_cut",
    "nvme_digests",
    "nvme_expiry",
    "nvme_lost",
    "nvme_outlived_crash",
    "nvme_path_failure",
    "nvme_queues",
    "nvme_reconnect",
    "nvme_refused",
    "nvme_remains",
    "nvme_repeat",
    "nvme_reset",
    "nvme_stall",
    "nvme_stall_long",
    "nvme_unreachable",
    "nvme_verify",
];
