//! Whether the dense tier takes what is written to it, for who looks after a pool. Nothing is changed here.
//!
//! **Not here**: what is done about it (`placement`, `shortage`).

use crate::engine::Engine;
use crate::shortage::Shortage;
use core::sync::atomic::Ordering;
use varve_units::LEAF_BLOCKS;

/// What is known of a dense tier that refuses stripes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DenseOutage {
    /// Streams whose last stripe was refused; each writes it again until it is taken.
    pub streams: u64,
    /// It lasts so long that hosts are refused where they would wait.
    pub refuses_hosts: bool,
    /// There is no room beneath it.
    pub is_full: bool,
    /// What hosts write next has no room in the log: it waits for the tier, or is refused.
    pub holds_hosts: bool,
}

impl Engine {
    /// How the dense tier refuses stripes now, if it does; of the streams of reactors that share the caller's thread.
    #[must_use]
    pub fn dense_outage(&self) -> Option<DenseOutage> {
        let shared = &self.shared;
        let everyone = shared.everyone();
        let everyone = everyone.unwrap_or_else(|| alloc::vec![shared.rc()]);
        let mut streams = 0;
        for one in everyone {
            one.streams
                .each(|stream| streams += u64::from(stream.is_refused()));
        }
        let shortage = shared.dense_shortage();
        (streams > 0 || shortage.is_some()).then(|| DenseOutage {
            streams,
            refuses_hosts: shortage.is_some(),
            is_full: shortage == Some(Shortage::Full),
            holds_hosts: shared.waiters.load(Ordering::SeqCst) > 0
                || shared.log_room() <= LEAF_BLOCKS,
        })
    }
}
