//! Why an array cannot be assembled.

use crate::member::Member;
use core::fmt;
use varve_units::BLOCK_BYTES;

/// Members do not fit the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AssembleError {
    /// The array wants another number of members.
    MemberCount {
        /// Fewest members.
        least: usize,
        /// Most members.
        most: usize,
        /// Members given.
        found: usize,
    },
    /// Too few live members to hold everything.
    TooFewLive {
        /// Live members given.
        live: usize,
    },
    /// A member is smaller than its part of the array.
    TooSmall {
        /// Which member.
        member: usize,
        /// Bytes it has from its base on.
        bytes: u64,
        /// Bytes the array needs there.
        needed: u64,
    },
    /// A member's base is not a multiple of the array's LBA size.
    Misaligned {
        /// Which member.
        member: usize,
        /// Its base in bytes.
        base: u64,
    },
    /// A member's LBA size is not 512 or 4096 bytes, or larger than the array's.
    LbaSize {
        /// Which member.
        member: usize,
        /// Its LBA size in bytes.
        lba_bytes: u32,
    },
}

impl fmt::Display for AssembleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MemberCount { least, most, found } => {
                write!(f, "{found} members where {least} to {most} are due")
            }
            Self::TooFewLive { live } => {
                write!(f, "{live} live members do not hold everything")
            }
            Self::TooSmall {
                member,
                bytes,
                needed,
            } => write!(f, "member {member} has {bytes} bytes, {needed} are needed"),
            Self::Misaligned { member, base } => {
                write!(f, "member {member} starts at misaligned byte {base}")
            }
            Self::LbaSize { member, lba_bytes } => {
                write!(
                    f,
                    "member {member} has an unfit LBA size of {lba_bytes} bytes"
                )
            }
        }
    }
}

impl core::error::Error for AssembleError {}

/// Checks one member against the array's LBA size and the bytes it needs from each.
pub(crate) fn check_member(
    index: usize,
    member: &Member,
    lba_bytes: u32,
    needed: u64,
) -> Result<(), AssembleError> {
    let Some(drive) = &member.drive else {
        return Ok(());
    };
    let info = drive.info();
    if !matches!(info.lba_bytes, 512 | 4096) || info.lba_bytes > lba_bytes {
        return Err(AssembleError::LbaSize {
            member: index,
            lba_bytes: info.lba_bytes,
        });
    }
    if !member.base.is_multiple_of(u64::from(lba_bytes)) {
        return Err(AssembleError::Misaligned {
            member: index,
            base: member.base,
        });
    }
    let bytes = info.bytes.saturating_sub(member.base);
    if bytes < needed {
        return Err(AssembleError::TooSmall {
            member: index,
            bytes,
            needed,
        });
    }
    Ok(())
}

const _: () = assert!(BLOCK_BYTES == 4096, "the largest LBA is one block");
