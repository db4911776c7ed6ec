//! The planted bugs of target, server and initiator: what shows that their checkers would speak.
//!
//! Like those of the engine they take effect in builds that can plant bugs only.

/// A bug between hosts and the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireCanary {
    /// The target lets a host's new I/O queues in while commands of its lost association are still
    /// being executed.
    QueueBeforeRemains,
    /// The server answers a write when it begins.
    AnswerBeforeWrite,
    /// The initiator sends again at once, although its old connection may still be read.
    NoQuietTime,
    /// The initiator's flush succeeds although answered writes may have gone with their cache.
    FlushVouchesForLost,
}

impl WireCanary {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::QueueBeforeRemains,
        Self::AnswerBeforeWrite,
        Self::NoQuietTime,
        Self::FlushVouchesForLost,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueBeforeRemains => "queue-before-remains",
            Self::AnswerBeforeWrite => "answer-before-write",
            Self::NoQuietTime => "no-quiet-time",
            Self::FlushVouchesForLost => "flush-vouches-for-lost",
        }
    }

    /// What is wrong with it, in words.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::QueueBeforeRemains => {
                "new I/O queues of a host are let in while its old commands are being executed"
            }
            Self::AnswerBeforeWrite => "the server answers a write when it begins",
            Self::NoQuietTime => {
                "the initiator sends again while its old connection may still be read"
            }
            Self::FlushVouchesForLost => {
                "a flush succeeds after the target's cache was lost with answered writes"
            }
        }
    }
}
