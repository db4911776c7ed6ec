//! The planted bugs: what the simulator must find to be believed.
//!
//! Each is one condition where the engine, the mirror or the pool does the right thing. They take
//! effect in builds that can plant bugs only (`varve_units::PLANTS_BUGS`).

/// Bugs planted on purpose: each must be found by the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// A write to the mirror completes with its first member.
    AckBeforeSecondMirror,
    /// Moves to a stripe are logged before the stripe is flushed, and may free what they came from.
    FreeBeforeFlush,
    /// Units are free when a checkpoint begins, before its commit is flushed.
    FreeBeforeCommit,
    /// A group is discarded when it is emptied, before the commit that frees it.
    DiscardBeforeCommit,
    /// Redo applies a move whatever its predecessor is.
    UnconditionalMove,
    /// A deallocate changes the map and is not logged.
    DiscardNotLogged,
    /// A leaf record claims one LSN more than it holds.
    LeafThroughOffByOne,
    /// Recovery takes batches of an older epoch for its own.
    OldEpochAccepted,
    /// A member declared lost is used as if it were whole.
    StaleMemberAccepted,
    /// A read does not compare the unit's generation, nor look a second time at the map.
    GenerationIgnored,
    /// Garbage collection takes live bits and P2L at their word: it asks neither the P2L for its
    /// generation, nor the map, nor a checksum.
    P2lUnverified,
    /// The live bit of the last block of a stripe is not set.
    LiveBlockWithZeroBit,
    /// Batches change the map in the order in which their writes complete.
    CompletionOrder,
    /// Of two versions of a block the one in the unit opened last wins.
    PublishedConflictRule,
    /// A start leaves what was not flushed on the copies that have it.
    TailNotEqualised,
    /// A repair pins nothing.
    RepairUnpinned,
    /// Where the map is rebuilt, the lowest birth of a block wins.
    LowestBirthWins,
    /// A scrub takes what it reads for right, and makes parity fit it.
    ScrubTrustsData,
    /// A narrow stripe whose parity is on the missing drive gets no sum.
    NarrowWithoutSum,
}

impl Canary {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::AckBeforeSecondMirror,
        Self::FreeBeforeFlush,
        Self::FreeBeforeCommit,
        Self::DiscardBeforeCommit,
        Self::UnconditionalMove,
        Self::DiscardNotLogged,
        Self::LeafThroughOffByOne,
        Self::OldEpochAccepted,
        Self::StaleMemberAccepted,
        Self::GenerationIgnored,
        Self::P2lUnverified,
        Self::LiveBlockWithZeroBit,
        Self::CompletionOrder,
        Self::PublishedConflictRule,
        Self::TailNotEqualised,
        Self::RepairUnpinned,
        Self::LowestBirthWins,
        Self::ScrubTrustsData,
        Self::NarrowWithoutSum,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AckBeforeSecondMirror => "ack-before-second-mirror",
            Self::FreeBeforeFlush => "free-before-flush",
            Self::FreeBeforeCommit => "free-before-commit",
            Self::DiscardBeforeCommit => "discard-before-commit",
            Self::UnconditionalMove => "unconditional-move",
            Self::DiscardNotLogged => "discard-not-logged",
            Self::LeafThroughOffByOne => "leaf-through-off-by-one",
            Self::OldEpochAccepted => "old-epoch-accepted",
            Self::StaleMemberAccepted => "stale-member-accepted",
            Self::GenerationIgnored => "generation-ignored",
            Self::P2lUnverified => "p2l-unverified",
            Self::LiveBlockWithZeroBit => "live-block-with-zero-bit",
            Self::CompletionOrder => "completion-order",
            Self::PublishedConflictRule => "published-conflict-rule",
            Self::TailNotEqualised => "tail-not-equalised",
            Self::RepairUnpinned => "repair-unpinned",
            Self::LowestBirthWins => "lowest-birth-wins",
            Self::ScrubTrustsData => "scrub-trusts-data",
            Self::NarrowWithoutSum => "narrow-without-sum",
        }
    }

    /// What is wrong with it, in words.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::AckBeforeSecondMirror => "a write to the mirror completes with its first member",
            Self::FreeBeforeFlush => {
                "moves to a stripe are logged before the stripe is flushed, and may free what they came from"
            }
            Self::FreeBeforeCommit => {
                "units are free when a checkpoint begins, before its commit is flushed"
            }
            Self::DiscardBeforeCommit => {
                "a group is discarded when it is emptied, before the commit that frees it"
            }
            Self::UnconditionalMove => "redo applies a move whatever its predecessor is",
            Self::DiscardNotLogged => "a deallocate changes the map and is not logged",
            Self::LeafThroughOffByOne => "a leaf record claims one LSN more than it holds",
            Self::OldEpochAccepted => "recovery takes batches of an older epoch for its own",
            Self::StaleMemberAccepted => "a member declared lost is used as if it were whole",
            Self::GenerationIgnored => {
                "a read compares neither the unit's generation nor the map when the device is done"
            }
            Self::P2lUnverified => {
                "garbage collection takes live bits and P2L at their word, and asks no generation, no map, no checksum"
            }
            Self::LiveBlockWithZeroBit => "the live bit of the last block of a stripe is not set",
            Self::CompletionOrder => {
                "batches change the map in the order in which their writes complete"
            }
            Self::PublishedConflictRule => {
                "of two versions of a block the one in the unit opened last wins"
            }
            Self::TailNotEqualised => {
                "a start leaves what was not flushed on the copies that have it"
            }
            Self::RepairUnpinned => {
                "a repair pins nothing: its unit may be freed, and used again, before it is written"
            }
            Self::LowestBirthWins => "where the map is rebuilt, the lowest birth of a block wins",
            Self::ScrubTrustsData => {
                "a scrub takes what it reads for right, compares no checksum, and makes parity fit it"
            }
            Self::NarrowWithoutSum => {
                "a narrow stripe whose parity would be on the missing drive gets no sum: it does not bear another loss"
            }
        }
    }
}
