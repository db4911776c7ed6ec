//! A job while its options are read.

use super::error::{FioError, shown};
use super::job::{Amount, Directions, Job, Order, Process, Rate};
use super::section::Section;

/// Bytes of an I/O, if nothing is said.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// What `rw` says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mix {
    Reads,
    Writes,
    Both,
}

/// What `random_distribution` says.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Law {
    Uniform,
    Zipf(f64),
}

/// Options as they stand, those of `[global]` at first.
#[derive(Clone)]
pub(super) struct Draft {
    pub(super) name: Option<String>,
    pub(super) mix: Mix,
    pub(super) is_random: bool,
    pub(super) law: Law,
    pub(super) is_mapped: bool,
    pub(super) mixed_reads: u8,
    pub(super) block_bytes: Directions,
    pub(super) is_block_by_order: bool,
    pub(super) depth: u32,
    /// Its engine does one I/O at a time.
    pub(super) is_synchronous: bool,
    pub(super) clones: u32,
    pub(super) offset: Amount,
    pub(super) offset_increment: Amount,
    pub(super) size: Option<Amount>,
    pub(super) filesize: Option<Amount>,
    pub(super) io_size: Option<Amount>,
    pub(super) runtime_ns: Option<u64>,
    pub(super) is_time_based: bool,
    pub(super) ramp_ns: u64,
    pub(super) rates: Directions,
    pub(super) process: Process,
    pub(super) randseed: u64,
    pub(super) is_behind_wall: bool,
    pub(super) ends_all: bool,
    pub(super) is_reported_as_group: bool,
}

impl Default for Draft {
    /// fio's defaults.
    fn default() -> Self {
        Self {
            name: None,
            mix: Mix::Reads,
            is_random: false,
            law: Law::Uniform,
            is_mapped: true,
            mixed_reads: 50,
            block_bytes: Directions {
                read: BLOCK_BYTES,
                write: BLOCK_BYTES,
            },
            is_block_by_order: false,
            depth: 1,
            is_synchronous: false,
            clones: 1,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            size: None,
            filesize: None,
            io_size: None,
            runtime_ns: None,
            is_time_based: false,
            ramp_ns: 0,
            rates: Directions { read: 0, write: 0 },
            process: Process::Linear,
            randseed: 0,
            is_behind_wall: false,
            ends_all: false,
            is_reported_as_group: false,
        }
    }
}

impl Draft {
    /// The job of a section that has been read.
    pub(super) fn job(self, section: &Section<'_>, number: u32) -> Result<Job, FioError> {
        let name = self.name.clone();
        let name = name.unwrap_or_else(|| shown(section.name));
        let conflict = |why| {
            let (line, job) = (section.line, name.clone());
            Err(FioError::Conflict { line, job, why })
        };
        if self.is_time_based && self.runtime_ns.is_none() {
            return conflict("`time_based` without `runtime` has no end");
        }
        if self.is_synchronous && self.depth > 1 {
            return conflict(
                "`iodepth` above 1 with an `ioengine` that does one I/O at a time: fio runs it at 1; take libaio or io_uring, or leave out `iodepth`",
            );
        }
        let rate = match self.rate() {
            Ok(rate) => rate,
            Err(why) => return conflict(why),
        };
        Ok(Job {
            number,
            line: section.line,
            reads_per_cent: self.reads_per_cent(),
            order: self.order(),
            block_bytes: self.block_bytes(),
            depth: self.depth,
            clones: self.clones,
            offset: self.offset,
            offset_increment: self.offset_increment,
            size: self.filesize.or(self.size),
            // Without `filesize` it is how long the area is in the end.
            io_size: self
                .io_size
                .or(self.size.filter(|_| self.filesize.is_some())),
            runtime_ns: self.runtime_ns,
            is_time_based: self.is_time_based,
            ramp_ns: self.ramp_ns,
            rate,
            randseed: self.randseed,
            is_behind_wall: self.is_behind_wall,
            ends_all: self.ends_all,
            is_reported_as_group: self.is_reported_as_group,
            name,
        })
    }

    const fn reads_per_cent(&self) -> u8 {
        match self.mix {
            Mix::Reads => 100,
            Mix::Writes => 0,
            Mix::Both => self.mixed_reads,
        }
    }

    const fn order(&self) -> Order {
        match (self.is_random, self.law) {
            (false, _) => Order::Sequential,
            (true, Law::Uniform) => Order::Uniform {
                is_mapped: self.is_mapped,
            },
            // fio has no map then, whatever the file says.
            (true, Law::Zipf(theta)) => Order::Zipf { theta },
        }
    }

    const fn block_bytes(&self) -> Directions {
        if !self.is_block_by_order {
            return self.block_bytes;
        }
        let bytes = if self.is_random {
            self.block_bytes.write
        } else {
            self.block_bytes.read
        };
        Directions {
            read: bytes,
            write: bytes,
        }
    }

    fn rate(&self) -> Result<Option<Rate>, &'static str> {
        let reads = self.reads_per_cent();
        let per_second = Directions {
            read: if reads > 0 { self.rates.read } else { 0 },
            write: if reads < 100 { self.rates.write } else { 0 },
        };
        if per_second.read == 0 && per_second.write == 0 {
            return Ok(None);
        }
        let is_mixed = 0 < reads && reads < 100;
        if is_mixed && (per_second.read == 0 || per_second.write == 0) {
            return Err("`rate_iops` holds for reads or for writes only, and the job has both");
        }
        Ok(Some(Rate {
            per_second,
            process: self.process,
        }))
    }
}
