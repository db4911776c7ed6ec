//! How a loss becomes a fact.

use varve_io::{Completion, IoError};

/// Commits changes of an array's member table where a later start will find them (`pool`: a
/// quorum of labels).
pub trait Membership {
    /// Commits that `member` no longer holds everything the array holds. The array awaits this
    /// before any command that missed the member may complete successfully; if it fails, those
    /// commands fail and the next one asks again.
    fn lost(&self, member: usize, why: IoError) -> Completion;
}
