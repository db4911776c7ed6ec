//! Where a clone of a job works.

use super::job::{Amount, Job};
use std::fmt;

/// A run of bytes of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// Its first byte.
    pub start: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Why a job cannot work on a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AreaError {
    /// It ends behind the disk's end.
    Behind {
        /// Name of the job.
        job: String,
        /// Number of the clone.
        clone: u32,
        /// Where its area ends, in bytes.
        end: u64,
        /// Length of the disk, in bytes.
        disk: u64,
    },
    /// No I/O of the job fits.
    Small {
        /// Name of the job.
        job: String,
        /// Number of the clone.
        clone: u32,
        /// Length of its area, in bytes.
        bytes: u64,
    },
}

impl AreaError {
    /// What would help.
    #[must_use]
    pub const fn next(&self) -> &'static str {
        match self {
            Self::Behind { .. } => "give size and offset in per cent, or a larger disk",
            Self::Small { .. } => "give a smaller bs, a larger size, or a larger disk",
        }
    }
}

impl fmt::Display for AreaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind {
                job,
                clone,
                end,
                disk,
            } => write!(
                f,
                "clone {clone} of job `{job}` works up to byte {end} of a disk of {disk}"
            ),
            Self::Small { job, clone, bytes } => write!(
                f,
                "clone {clone} of job `{job}` has {bytes} bytes to work on, less than an I/O"
            ),
        }
    }
}

impl std::error::Error for AreaError {}

impl Job {
    /// Where a clone works on a disk of so many bytes. What is given in per cent is of the whole
    /// disk, begins at a multiple of the smallest I/O, and is cut at the disk's end.
    ///
    /// # Errors
    /// If that is not within the disk, or no I/O fits.
    pub fn area(&self, clone: u32, disk: u64) -> Result<Area, AreaError> {
        let behind = |end: Option<u64>| AreaError::Behind {
            job: self.name.clone(),
            clone,
            end: end.unwrap_or(u64::MAX),
            disk,
        };
        let step = self.start_of(self.offset_increment, disk);
        let start = step
            .checked_mul(clone.into())
            .and_then(|step| step.checked_add(self.start_of(self.offset, disk)));
        let start = start
            .filter(|start| *start < disk)
            .ok_or_else(|| behind(start))?;
        let left = disk - start;
        let bytes = match self.size {
            None => left,
            Some(Amount::PerCent(share)) => share_of(disk, share).min(left),
            Some(Amount::Bytes(bytes)) if bytes > left => {
                return Err(behind(start.checked_add(bytes)));
            }
            Some(Amount::Bytes(bytes)) => bytes,
        };
        let of = |is_read| {
            if self.has(is_read) {
                self.block_bytes.of(is_read)
            } else {
                0
            }
        };
        if bytes < of(true).max(of(false)) {
            return Err(AreaError::Small {
                job: self.name.clone(),
                clone,
                bytes,
            });
        }
        Ok(Area { start, bytes })
    }

    /// Bytes that a clone reads and writes before it ends; `None` if only time ends it.
    #[must_use]
    pub fn bytes(&self, area: &Area) -> Option<u64> {
        if self.is_time_based {
            return None;
        }
        Some(match self.io_size {
            None => area.bytes,
            Some(Amount::Bytes(bytes)) => bytes,
            Some(Amount::PerCent(share)) => share_of(area.bytes, share),
        })
    }

    fn start_of(&self, amount: Amount, disk: u64) -> u64 {
        match amount {
            Amount::Bytes(bytes) => bytes,
            Amount::PerCent(share) => {
                let at = share_of(disk, share);
                at - at % self.block_bytes_min()
            }
        }
    }
}

fn share_of(whole: u64, per_cent: u8) -> u64 {
    (u128::from(whole) * u128::from(per_cent) / 100) as u64
}
