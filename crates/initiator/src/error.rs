//! Why an association ended, and why a command failed.

use core::fmt;
use varve_io::IoError;
use varve_nvme::Status;
use varve_nvme::status::StatusField;
use varve_nvme::tcp::FatalError;

/// Why an association ended or did not come about.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Loss {
    /// No byte stream could be had.
    NotConnected,
    /// The peer closed a connection, or the network did.
    Closed,
    /// The peer sent what it may not.
    Protocol(FatalError),
    /// The peer says this side sent what it may not: FES and FEI.
    Terminated {
        /// Fatal Error Status.
        status: u16,
        /// Fatal Error Information.
        detail: u32,
    },
    /// The controller does without digests that were asked for.
    NoDigests,
    /// A byte stream, command or Keep Alive took too long.
    Timeout,
    /// A command that is needed at start failed.
    Command {
        /// What it was to do.
        what: &'static str,
        /// How it ended.
        status: StatusField,
    },
    /// An I/O queue could not be connected. The association may have ended meanwhile, so another one
    /// may have better luck, whatever the status says.
    IoQueue(StatusField),
    /// The answer to a command that is needed at start came without all its data.
    ShortData {
        /// What it was to do.
        what: &'static str,
    },
    /// The controller says it failed.
    FatalController,
    /// The controller did not become ready in the time it says it needs.
    NotReady,
    /// There is no such namespace.
    NoNamespace,
    /// The namespace has blocks of another size than 512 or 4096 bytes, or metadata.
    Format,
    /// Under the same name there is another namespace than before.
    OtherNamespace,
    /// The discovery log makes no sense or changes all the time.
    BadLog,
}

impl Loss {
    /// True if trying again cannot help.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Command { status, .. } => status.is_final(),
            Self::NoDigests | Self::NoNamespace | Self::Format | Self::OtherNamespace => true,
            _ => false,
        }
    }
}

impl Loss {
    /// True if the controller says that there is no such namespace (any more).
    #[must_use]
    pub fn is_no_namespace(&self) -> bool {
        match self {
            Self::NoNamespace => true,
            Self::Command { status, .. } => status.status() == Some(Status::InvalidNamespace),
            _ => false,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected => f.write_str("no connection to the target"),
            Self::Closed => f.write_str("the target closed the connection"),
            Self::Protocol(error) => write!(f, "the target broke the protocol: {error}"),
            Self::Terminated { status, detail } => {
                write!(
                    f,
                    "the target ended the connection: status {status}, {detail:#x}"
                )
            }
            Self::NoDigests => f.write_str("the target does without the digests asked for"),
            Self::Timeout => f.write_str("the target did not answer in time"),
            Self::Command { what, status } => match status.status() {
                Some(status) => write!(f, "{what} failed: {status:?}"),
                None => write!(f, "{what} failed: status {:#x}", status.code()),
            },
            Self::IoQueue(status) => {
                write!(
                    f,
                    "connecting an I/O queue failed: status {:#x}",
                    status.code()
                )
            }
            Self::ShortData { what } => write!(f, "{what} gave less data than asked for"),
            Self::FatalController => f.write_str("the controller says it failed"),
            Self::NotReady => f.write_str("the controller did not become ready"),
            Self::NoNamespace => f.write_str("the subsystem has no such namespace"),
            Self::Format => f.write_str("blocks are of 512 or 4096 bytes without metadata"),
            Self::OtherNamespace => f.write_str("there is another namespace under this name now"),
            Self::BadLog => f.write_str("the discovery log cannot be read"),
        }
    }
}

impl core::error::Error for Loss {}

/// Why a command failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The controller's status.
    Status(StatusField),
    /// Data was damaged on the way, each time.
    Digest,
    /// The controller says success, but not all data came.
    ShortData,
    /// There is no association any more and none will be tried.
    Gone,
    /// It was not answered, however often it was sent: each time the association was lost before. What
    /// was sent cannot land any more; whether it has, nobody knows.
    Unanswered,
    /// Writes that were answered may be lost: the association ended before they were flushed, and
    /// nobody knows whether the volatile cache they were in has survived. Told by every flush until
    /// [`crate::Host::accept_loss`].
    CacheLost,
    /// The controller has no such command.
    Unsupported,
}

impl Failure {
    /// As a drive says it.
    #[must_use]
    pub fn io_error(self) -> IoError {
        let status = match self {
            Self::Status(field) => field.status(),
            Self::Gone | Self::Unanswered | Self::CacheLost => return IoError::Gone,
            Self::Digest | Self::ShortData | Self::Unsupported => return IoError::Media,
        };
        match status {
            Some(Status::CapacityExceeded) => IoError::NoSpace,
            Some(Status::WriteProtected) => IoError::ReadOnly,
            Some(Status::InvalidNamespace | Status::PathPersistentLoss | Status::AccessDenied) => {
                IoError::Gone
            }
            Some(
                Status::NamespaceNotReady
                | Status::CommandInterrupted
                | Status::TransientTransport
                | Status::PathInaccessible
                | Status::PathTransition
                | Status::InternalPath
                | Status::ControllerPath,
            ) => IoError::Timeout,
            _ => IoError::Media,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(field) => match field.status() {
                Some(status) => write!(f, "the controller answered {status:?}"),
                None => write!(f, "the controller answered status {:#x}", field.code()),
            },
            Self::Digest => f.write_str("data was damaged on the way"),
            Self::ShortData => f.write_str("the controller gave less data than asked for"),
            Self::Gone => f.write_str("the controller is lost"),
            Self::Unanswered => {
                f.write_str("the controller did not answer, however often it was asked")
            }
            Self::CacheLost => f.write_str("writes may be lost: they were not flushed in time"),
            Self::Unsupported => f.write_str("the controller has no such command"),
        }
    }
}

impl core::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::string::ToString;

    #[test]
    fn failures_as_drives_say_them() {
        let table = [
            (Status::CapacityExceeded, IoError::NoSpace),
            (Status::WriteProtected, IoError::ReadOnly),
            (Status::InvalidNamespace, IoError::Gone),
            (Status::NamespaceNotReady, IoError::Timeout),
            (Status::UnrecoveredRead, IoError::Media),
            (Status::LbaOutOfRange, IoError::Media),
        ];
        for (status, error) in table {
            assert_eq!(Failure::Status(status.field()).io_error(), error);
        }
        assert_eq!(Failure::CacheLost.io_error(), IoError::Gone);
        assert_eq!(Failure::Unanswered.io_error(), IoError::Gone);
    }

    #[test]
    fn no_two_say_the_same() {
        let status = Status::InvalidField.field();
        let losses = [
            Loss::NotConnected,
            Loss::Closed,
            Loss::Terminated {
                status: 1,
                detail: 2,
            },
            Loss::NoDigests,
            Loss::Timeout,
            Loss::Command { what: "x", status },
            Loss::IoQueue(status),
            Loss::ShortData { what: "x" },
            Loss::FatalController,
            Loss::NotReady,
            Loss::NoNamespace,
            Loss::Format,
            Loss::OtherNamespace,
            Loss::BadLog,
        ];
        let failures = [
            Failure::Status(status),
            Failure::Digest,
            Failure::ShortData,
            Failure::Gone,
            Failure::Unanswered,
            Failure::CacheLost,
            Failure::Unsupported,
        ];
        let texts = losses.iter().map(ToString::to_string);
        let texts: BTreeSet<_> = texts
            .chain(failures.iter().map(ToString::to_string))
            .collect();
        assert_eq!(texts.len(), losses.len() + failures.len());
    }
}
