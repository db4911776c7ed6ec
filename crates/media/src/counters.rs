//! What a drive has done so far.

use core::sync::atomic::{AtomicU64, Ordering};

/// Sums since the drive was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes that hosts wrote.
    pub host_bytes: u64,
    /// Bytes programmed, for hosts and for garbage collection; the drive's own parity is not
    /// counted.
    pub media_bytes: u64,
    /// IUs read because a write covered them in part.
    pub rmw_reads: u64,
    /// Bytes read for that.
    pub rmw_bytes: u64,
    /// Bytes that internal garbage collection and wear levelling moved; part of `media_bytes`.
    pub gc_moved_bytes: u64,
    /// Erase units erased.
    pub erases: u64,
    /// Bytes that were mapped and are no longer, because the host deallocated them.
    pub deallocated_bytes: u64,
}

impl Counters {
    /// Bytes programmed by bytes written by hosts; `None` before the first write.
    #[must_use]
    pub fn waf_device(&self) -> Option<f64> {
        (self.host_bytes > 0).then(|| self.media_bytes as f64 / self.host_bytes as f64)
    }

    /// What was done since `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            host_bytes: self.host_bytes - before.host_bytes,
            media_bytes: self.media_bytes - before.media_bytes,
            rmw_reads: self.rmw_reads - before.rmw_reads,
            rmw_bytes: self.rmw_bytes - before.rmw_bytes,
            gc_moved_bytes: self.gc_moved_bytes - before.gc_moved_bytes,
            erases: self.erases - before.erases,
            deallocated_bytes: self.deallocated_bytes - before.deallocated_bytes,
        }
    }

    pub(crate) const fn words(&self) -> [u64; 7] {
        [
            self.host_bytes,
            self.media_bytes,
            self.rmw_reads,
            self.rmw_bytes,
            self.gc_moved_bytes,
            self.erases,
            self.deallocated_bytes,
        ]
    }

    pub(crate) const fn of(words: [u64; 7]) -> Self {
        let [
            host_bytes,
            media_bytes,
            rmw_reads,
            rmw_bytes,
            gc_moved_bytes,
            erases,
            deallocated_bytes,
        ] = words;
        Self {
            host_bytes,
            media_bytes,
            rmw_reads,
            rmw_bytes,
            gc_moved_bytes,
            erases,
            deallocated_bytes,
        }
    }

    /// The sums of several drives.
    #[must_use]
    pub const fn with(&self, other: &Self) -> Self {
        Self {
            host_bytes: self.host_bytes + other.host_bytes,
            media_bytes: self.media_bytes + other.media_bytes,
            rmw_reads: self.rmw_reads + other.rmw_reads,
            rmw_bytes: self.rmw_bytes + other.rmw_bytes,
            gc_moved_bytes: self.gc_moved_bytes + other.gc_moved_bytes,
            erases: self.erases + other.erases,
            deallocated_bytes: self.deallocated_bytes + other.deallocated_bytes,
        }
    }
}

/// A drive's [`Counters`] for readers on any thread. One writer; a reader may see one sum of a
/// command and not yet the other.
#[derive(Default, Debug)]
pub struct Meter([AtomicU64; 7]);

impl Meter {
    /// The sums now.
    #[must_use]
    pub fn read(&self) -> Counters {
        let load = |sum: usize| self.0[sum].load(Ordering::Relaxed);
        Counters::of(core::array::from_fn(load))
    }

    pub(crate) fn set(&self, counters: &Counters) {
        for (sum, value) in self.0.iter().zip(counters.words()) {
            sum.store(value, Ordering::Relaxed);
        }
    }
}
