//! What a label says.

use crate::label::generation::TableGeneration;
use crate::label::member::MemberId;
use crate::label::table::MemberTable;
use core::fmt;
use varve_format::{Geometry, Name};

/// Identity of a pool: 16 random bytes, drawn at creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PoolId(pub [u8; 16]);

/// Identity of the machine (or process) that uses a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Owner(pub [u8; 16]);

impl Owner {
    /// Nobody: the pool was released and anyone may import it.
    pub const NOBODY: Self = Self([0; 16]);
}

fn hex(bytes: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pool ")?;
        hex(&self.0, f)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("owner ")?;
        hex(&self.0, f)
    }
}

/// What all labels of one generation say alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabelState {
    /// The pool.
    pub pool: PoolId,
    /// Its name.
    pub name: Name,
    /// Version of the member table.
    pub generation: TableGeneration,
    /// Highest epoch claimed on this drive; at least the generation's own.
    pub epoch: u32,
    /// Who used the pool last.
    pub owner: Owner,
    /// Raised now and then while the pool is in use.
    pub heartbeat: u64,
    /// True if the pool was shut down in order and nothing was written since.
    pub clean: bool,
    /// True until the pool's creation has ended: it never served, and another creation on the same
    /// drives may begin anew.
    pub unfinished: bool,
    /// The pool's fixed numbers, carried unread.
    pub geometry: Geometry,
    /// All drives.
    pub members: MemberTable,
}

impl LabelState {
    /// True if this label proves that its member table was committed.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.members.is_settled(self.generation)
    }

    /// True if another owner may still use the pool: it did last, and has not shut it down.
    pub(crate) fn may_be_in_use(&self, by_other_than: Owner) -> bool {
        self.owner != by_other_than && self.owner != Owner::NOBODY && !self.clean
    }
}

/// One drive's label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The drive it is on.
    pub own: MemberId,
    /// What it says.
    pub state: LabelState,
}
