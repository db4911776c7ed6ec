//! The bugs a checker must find.

/// What a broken reference pool does wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Bug {
    /// A flush is acknowledged without making anything durable.
    AcknowledgesEarly,
    /// A crash loses an old unflushed write and keeps a newer one of the same leaf.
    KeepsNewerOnly,
    /// A crash keeps half a record.
    TearsRecords,
    /// A read while writes are in flight may return what was overwritten.
    ServesStale,
    /// A read may return the neighbour's block.
    ServesNeighbour,
    /// A discard is not logged: the data are back after a crash.
    ForgetsDiscard,
    /// A new volume shows what a deleted one held.
    ResurrectsData,
    /// A deleted volume is back after a crash.
    ResurrectsVolume,
    /// A volume created before a crash is missing.
    LosesVolume,
    /// Of two writes of one block the one acknowledged first may win.
    SwapsWrites,
    /// A crash may drop a write that was flushed.
    DropsFlushed,
    /// An operation may never end.
    Hangs,
    /// A write may be refused though there is space.
    RefusesWrites,
    /// The space in use is reported wrong.
    MiscountsSpace,
    /// A flush may fail for no reason.
    FailsFlush,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::AcknowledgesEarly,
        Self::KeepsNewerOnly,
        Self::TearsRecords,
        Self::ServesStale,
        Self::ServesNeighbour,
        Self::ForgetsDiscard,
        Self::ResurrectsData,
        Self::ResurrectsVolume,
        Self::LosesVolume,
        Self::SwapsWrites,
        Self::DropsFlushed,
        Self::Hangs,
        Self::RefusesWrites,
        Self::MiscountsSpace,
        Self::FailsFlush,
    ];
}
