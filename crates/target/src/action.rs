//! What the target asks of who holds the blocks, and what comes back.

use crate::connection::ConnectionId;
use alloc::vec::Vec;
use varve_io::IoError;
use varve_nvme::Status;

/// Names a command at the backend, together with its connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Tag(pub u16);

/// A command to be executed. It is answered exactly once, by [`crate::Target::complete`], also
/// after its connection is gone.
#[derive(Debug, PartialEq, Eq)]
pub struct Action {
    /// Where it came from.
    pub connection: ConnectionId,
    /// Its tag there.
    pub tag: Tag,
    /// The namespace; `None` for a flush of all.
    pub nsid: Option<u32>,
    /// What to do.
    pub operation: Operation,
}

/// What to do. Blocks have 4 KiB and lie inside the namespace as it was when the command came.
#[derive(Debug, PartialEq, Eq)]
pub enum Operation {
    /// Give the content of blocks.
    Read {
        /// First block.
        lba: u64,
        /// Number of blocks.
        blocks: u32,
    },
    /// Store blocks.
    Write {
        /// First block.
        lba: u64,
        /// Content, whole blocks.
        data: Vec<u8>,
        /// Durable before it is answered.
        fua: bool,
    },
    /// Make durable what was answered.
    Flush,
    /// Blocks read as zeroes from now on.
    WriteZeroes {
        /// First block.
        lba: u64,
        /// Number of blocks.
        blocks: u32,
        /// Durable before it is answered.
        fua: bool,
    },
    /// The host does not need these blocks any more: first block and number.
    Deallocate {
        /// Ranges, none empty.
        ranges: Vec<(u64, u32)>,
    },
}

/// What became of an action: data of a read, nothing else, or why not.
pub type Completion<D> = Result<Option<D>, Failure>;

/// Why the backend did not do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The blocks cannot be read any more.
    Unreadable,
    /// Writing failed.
    WriteFault,
    /// No space left.
    NoSpace,
    /// The namespace or a block of it is gone.
    OutOfRange,
    /// The namespace is gone.
    NoNamespace,
    /// Writes are refused.
    ReadOnly,
    /// Not now; the same command may succeed later.
    NotReady,
    /// Something that it needs does not answer; the same command may succeed later.
    Interrupted,
    /// The engine has stopped.
    Stopped,
    /// Its connection ended before it was done, and it was not.
    Recalled,
}

impl Failure {
    /// The status a host sees.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Unreadable => Status::UnrecoveredRead,
            Self::WriteFault => Status::WriteFault,
            Self::NoSpace => Status::CapacityExceeded,
            Self::OutOfRange => Status::LbaOutOfRange,
            Self::NoNamespace => Status::InvalidNamespace,
            Self::ReadOnly => Status::WriteProtected,
            Self::NotReady => Status::NamespaceNotReady,
            Self::Interrupted => Status::CommandInterrupted,
            Self::Stopped => Status::InternalError,
            Self::Recalled => Status::AbortQueueDeleted,
        }
    }

    /// Failure of a read or of another command because a drive failed.
    #[must_use]
    pub const fn of_drive(error: IoError, is_read: bool) -> Self {
        match error {
            IoError::NoSpace => Self::NoSpace,
            IoError::ReadOnly => Self::ReadOnly,
            IoError::Gone | IoError::Timeout => Self::NotReady,
            _ if is_read => Self::Unreadable,
            _ => Self::WriteFault,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_as_hosts_see_them() {
        let table = [
            (Failure::Unreadable, 0x281, true),
            (Failure::WriteFault, 0x280, true),
            (Failure::NoSpace, 0x081, true),
            (Failure::OutOfRange, 0x080, true),
            (Failure::NoNamespace, 0x00b, true),
            (Failure::ReadOnly, 0x020, true),
            (Failure::NotReady, 0x082, false),
            (Failure::Interrupted, 0x021, false),
            (Failure::Stopped, 0x006, false),
        ];
        for (failure, code, is_final) in table {
            let field = failure.status().field();
            assert_eq!(
                (field.code(), field.is_final()),
                (code, is_final),
                "{failure:?}"
            );
        }
        assert_eq!(Failure::of_drive(IoError::Media, true), Failure::Unreadable);
        assert_eq!(
            Failure::of_drive(IoError::Media, false),
            Failure::WriteFault
        );
        assert_eq!(Failure::of_drive(IoError::Gone, false), Failure::NotReady);
    }
}
