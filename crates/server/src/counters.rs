//! What a server did, for those who watch it.

use varve_target::Operation;
use varve_units::BLOCK;

/// Counters since the start, and numbers of things as they are now.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused because there were too many, or that could not be accepted.
    pub refused: u64,
    /// Connections now.
    pub connections: u64,
    /// Controllers now.
    pub controllers: u64,
    /// Bytes of data that connections hold now, of commands and of answers being sent.
    pub data_bytes: u64,
    /// How often a connection had to wait because all of them held as much as they may.
    pub data_waits: u64,
    /// Critical Warning of the SMART log as hosts read it now.
    pub critical_warning: u64,
    /// Reads begun.
    pub reads: u64,
    /// Bytes of reads begun.
    pub read_bytes: u64,
    /// Writes begun.
    pub writes: u64,
    /// Bytes of writes begun.
    pub written_bytes: u64,
    /// Flushes begun.
    pub flushes: u64,
    /// Deallocations and writes of zeroes begun.
    pub discards: u64,
    /// Operations that failed.
    pub failures: u64,
    /// Operations now in the hands of stores.
    pub in_flight: u64,
    /// Operations that ended when their connection was gone.
    pub orphaned: u64,
}

impl Counters {
    /// An operation begins.
    pub(crate) fn begin(&mut self, operation: &Operation) {
        match operation {
            Operation::Read { blocks, .. } => {
                self.reads += 1;
                self.read_bytes += u64::from(*blocks) * BLOCK as u64;
            }
            Operation::Write { data, .. } => {
                self.writes += 1;
                self.written_bytes += data.len() as u64;
            }
            Operation::Flush => self.flushes += 1,
            Operation::WriteZeroes { .. } | Operation::Deallocate { .. } => self.discards += 1,
        }
    }
}
