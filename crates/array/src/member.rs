//! One member as the array is given it, and its states.

use alloc::rc::Rc;
use core::fmt;
use varve_io::Drive;

/// State of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// Holds everything, takes writes, serves reads.
    Live,
    /// Failed a command, or its drive is away; its loss is not committed yet. Takes no commands.
    Leaving,
    /// Its loss is committed.
    Lost,
    /// Takes all writes, serves no reads, old content is being copied to it.
    Rebuilding,
}

impl fmt::Display for MemberState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live => "live",
            Self::Leaving => "leaving",
            Self::Lost => "lost",
            Self::Rebuilding => "rebuilding",
        })
    }
}

/// One member for an array to be assembled from.
pub struct Member {
    pub(crate) drive: Option<Rc<dyn Drive>>,
    pub(crate) base: u64,
    pub(crate) state: MemberState,
}

impl Member {
    /// A member that holds everything; the array uses `drive` from byte `base` on.
    #[must_use]
    pub fn live(drive: Rc<dyn Drive>, base: u64) -> Self {
        let state = MemberState::Live;
        Self {
            drive: Some(drive),
            base,
            state,
        }
    }

    /// A member whose rebuild had not ended; it starts again.
    #[must_use]
    pub fn rebuilding(drive: Rc<dyn Drive>, base: u64) -> Self {
        let state = MemberState::Rebuilding;
        Self {
            drive: Some(drive),
            base,
            state,
        }
    }

    /// A member that should be here by the committed member table, and whose drive is away. It is
    /// leaving: the first command that misses it has its loss committed before it ends well. Until
    /// then nothing is said of it, and it may be back at another start.
    #[must_use]
    pub fn away() -> Self {
        Self {
            drive: None,
            base: 0,
            state: MemberState::Leaving,
        }
    }

    /// A member that is lost, as the committed member table says.
    #[must_use]
    pub fn lost() -> Self {
        Self {
            drive: None,
            base: 0,
            state: MemberState::Lost,
        }
    }
}
