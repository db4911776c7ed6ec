//! How a command ended: status code type and status code as one enum.
//!
//! spec: base 2.0 §3.3.3.2; fabrics codes §6 (Connect), path codes §3.3.3.2.4.

/// Do Not Retry, in the status field as a CQE carries it without the phase bit.
const DO_NOT_RETRY: u16 = 1 << 14;
/// More information is in the error log.
const MORE: u16 = 1 << 13;
/// Command Retry Delay.
const RETRY_DELAY: u16 = 3 << 11;
/// After the first of the controller's times.
const RETRY_DELAY_FIRST: u16 = 1 << 11;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// Status of a command. The value is `SCT << 8 | SC`.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u16)]
        pub enum Status {
            $($(#[$doc])* $name = $code,)*
        }

        impl Status {
            /// All that are named here.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

statuses! {
    /// The command did what it says.
    Success = 0x000,
    /// No such command.
    InvalidOpcode = 0x001,
    /// A field has a value it may not have.
    InvalidField = 0x002,
    /// The command identifier is in use.
    CommandIdConflict = 0x003,
    /// Data could not be transferred.
    DataTransferError = 0x004,
    /// Power is failing.
    PowerLoss = 0x005,
    /// The controller failed.
    InternalError = 0x006,
    /// An Abort command asked for this.
    AbortRequested = 0x007,
    /// The queue is deleted.
    AbortQueueDeleted = 0x008,
    /// The other command of a fused pair failed.
    FusedFail = 0x009,
    /// The other command of a fused pair is missing.
    FusedMissing = 0x00a,
    /// No such namespace, or a bad format of it.
    InvalidNamespace = 0x00b,
    /// Command out of sequence.
    SequenceError = 0x00c,
    /// An SGL segment descriptor is wrong.
    InvalidSglSegment = 0x00d,
    /// The number of SGL descriptors is wrong.
    InvalidSglCount = 0x00e,
    /// The length of data and the SGL's do not agree.
    InvalidSglLength = 0x00f,
    /// A type of SGL descriptor that is not supported here.
    InvalidSglType = 0x011,
    /// The SGL's offset lies outside of the capsule.
    InvalidSglOffset = 0x016,
    /// The host's identifier has another format.
    HostIdInconsistent = 0x018,
    /// The keep-alive timer expired.
    KeepAliveExpired = 0x019,
    /// The keep-alive timeout asked for is not supported.
    KeepAliveInvalid = 0x01a,
    /// The namespace is write protected.
    WriteProtected = 0x020,
    /// Interrupted; may be retried.
    CommandInterrupted = 0x021,
    /// The transport failed; may be retried.
    TransientTransport = 0x022,
    /// Blocks outside of the namespace.
    LbaOutOfRange = 0x080,
    /// The namespace has no space left.
    CapacityExceeded = 0x081,
    /// The namespace cannot be reached now.
    NamespaceNotReady = 0x082,
    /// A reservation of another host is in the way.
    ReservationConflict = 0x083,
    /// Too many AERs outstanding.
    AsyncLimitExceeded = 0x105,
    /// More Abort commands than ACL allows.
    AbortLimitExceeded = 0x103,
    /// No such log page.
    InvalidLogPage = 0x109,
    /// The feature cannot be saved.
    FeatureNotSaveable = 0x10d,
    /// The feature cannot be changed.
    FeatureNotChangeable = 0x10e,
    /// The feature belongs to the controller, not to a namespace.
    FeatureNotPerNamespace = 0x10f,
    /// Get Log Page: the log of this command set is not there.
    CommandSetUnsupported = 0x129,
    /// This combination of command sets is not supported.
    CommandSetRejected = 0x12b,
    /// Identify: no such I/O command set.
    InvalidCommandSet = 0x12c,
    /// Connect: this record format is not supported.
    ConnectIncompatible = 0x180,
    /// Connect: the controller is in use by another host or of another association.
    ConnectBusy = 0x181,
    /// Connect: a parameter is wrong; the result says which.
    ConnectInvalid = 0x182,
    /// Connect: read the discovery log again.
    ConnectRestart = 0x183,
    /// Connect: this host may not.
    ConnectHost = 0x184,
    /// Disconnect: not a queue of the kind asked for.
    InvalidQueueType = 0x185,
    /// The discovery log changed while it was read.
    DiscoverRestart = 0x190,
    /// The host has to authenticate first.
    AuthenticationRequired = 0x191,
    /// A write failed on the media.
    WriteFault = 0x280,
    /// Blocks cannot be read any more.
    UnrecoveredRead = 0x281,
    /// Compare found a difference.
    CompareFailure = 0x285,
    /// Access denied.
    AccessDenied = 0x286,
    /// The block was deallocated and may not be read.
    DeallocatedRead = 0x287,
    /// The path failed inside the controller.
    InternalPath = 0x300,
    /// The namespace is never to be reached on this path again.
    PathPersistentLoss = 0x301,
    /// The namespace cannot be reached on this path now.
    PathInaccessible = 0x302,
    /// The path is changing its state.
    PathTransition = 0x303,
    /// The path to the controller failed.
    ControllerPath = 0x360,
    /// The host's side of the path failed.
    HostPath = 0x370,
    /// The host gave the command up.
    HostAborted = 0x371,
}

/// The status field of a CQE, phase bit left out: raw, as a peer sent it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatusField(u16);

impl StatusField {
    /// From bits 15:1 of the CQE's last word.
    #[must_use]
    pub const fn from_cqe(word: u16) -> Self {
        Self(word >> 1)
    }

    /// The CQE's last word, phase bit 0 as fabrics has it.
    #[must_use]
    pub const fn to_cqe(self) -> u16 {
        self.0 << 1
    }

    /// True for success.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.code() == 0
    }

    /// `SCT << 8 | SC`.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0 & 0x07ff
    }

    /// True if the same command would fail again.
    #[must_use]
    pub const fn is_final(self) -> bool {
        self.0 & DO_NOT_RETRY != 0
    }

    /// The same, but the command may be sent again.
    #[must_use]
    pub const fn retryable(self) -> Self {
        Self(self.0 & !DO_NOT_RETRY)
    }

    /// The same, to be sent again after the first of the times that the controller tells (CRDT1). Only for hosts that said
    /// that they keep to it (spec: base 2.0 §3.3.3.2.1, CRD; §5.27.1.18, ACRE).
    #[must_use]
    pub const fn delayed(self) -> Self {
        Self(self.0 & !RETRY_DELAY | RETRY_DELAY_FIRST)
    }

    /// CRD: after which of the controller's times to try again, 0 for at once.
    #[must_use]
    pub const fn retry_delay(self) -> u8 {
        ((self.0 & RETRY_DELAY) >> 11) as u8
    }

    /// True if the error log has more.
    #[must_use]
    pub const fn has_more(self) -> bool {
        self.0 & MORE != 0
    }

    /// Its name, if it has one here.
    #[must_use]
    pub fn status(self) -> Option<Status> {
        let all = Status::ALL.iter().copied();
        all.into_iter().find(|status| *status as u16 == self.code())
    }
}

impl Status {
    /// As a status field. Do Not Retry is set where the same command would fail again.
    #[must_use]
    pub const fn field(self) -> StatusField {
        let retry = if self.is_final() { DO_NOT_RETRY } else { 0 };
        StatusField(self as u16 | retry)
    }

    /// True if the same command sent again would fail again.
    ///
    /// Retrying helps against the transport, a path, an
    /// internal error and a busy controller; nothing else.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(
            self,
            Self::Success
                | Self::DataTransferError
                | Self::PowerLoss
                | Self::InternalError
                | Self::AbortRequested
                | Self::AbortQueueDeleted
                | Self::FusedFail
                | Self::KeepAliveExpired
                | Self::CommandInterrupted
                | Self::TransientTransport
                | Self::NamespaceNotReady
                | Self::ConnectBusy
                | Self::ConnectRestart
                | Self::DiscoverRestart
                | Self::InternalPath
                | Self::PathPersistentLoss
                | Self::PathInaccessible
                | Self::PathTransition
                | Self::ControllerPath
                | Self::HostPath
                | Self::HostAborted
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_there_and_back() {
        for status in Status::ALL {
            let field = StatusField::from_cqe(status.field().to_cqe());
            assert_eq!(field.status(), Some(*status));
            assert_eq!(field.is_final(), status.is_final());
            assert_eq!(field.is_success(), *status == Status::Success);
        }
        // Invalid Field with Do Not Retry: 0x4002 as Linux prints it, 0x8004 on the wire.
        assert_eq!(Status::InvalidField.field().to_cqe(), 0x8004);
        assert_eq!(Status::InvalidField.field().retryable().to_cqe(), 4);
        assert_eq!(StatusField::from_cqe(0xffff).status(), None);
        // Command Interrupted, first delay: CRD is bits 29:28 of the entry's last word (spec: base 2.0 §3.3.3.2.1).
        let field = Status::CommandInterrupted.field();
        assert_eq!((field.retry_delay(), field.delayed().retry_delay()), (0, 1));
        assert_eq!(
            u32::from(field.delayed().to_cqe()) << 16,
            1 << 28 | 0x21 << 17
        );
        assert_eq!(field.delayed().code(), field.code());
    }
}
