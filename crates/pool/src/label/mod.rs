//! Labels: which drives are a pool, which of them count, and who decides.
//!
//! Each drive carries the full member table. A change of the table is a new generation of the
//! label; it is committed when a quorum of the table before it has it durably, and only then may
//! anything be acknowledged that depends on it (a degraded write above all).
//!
//! 1. [`LabelStore`] reads and writes the two copies of one drive.
//! 2. [`choose`] decides what the labels found on some drives mean.
//! 3. [`Membership`] starts an epoch on that and commits changes until shutdown.
//! 4. Where other machines may reach the drives, a [`Fence`] ends the session as soon as labels are found that another one
//!    wrote.
//!
//! **Invariants.** Committed tables form one line, never two; an import adopts the end of it or
//! refuses; a member declared lost in it is not used before it was rebuilt. The argument is in
//! [`choose`]'s module, the quorum in [`Voters`]'s.
//!
//! **Not here**: data, rebuilding, exclusive opening of drives.
//!
//! # Source
//! engine.md U10; design.md 4.2 (Mirror), 4.8.

mod change;
mod choose;
mod codec;
mod commit;
mod cover;
mod create;
mod fence;
mod finding;
mod generation;
mod import;
mod look;
mod member;
mod membership;
mod other_use;
mod quorum;
mod rebuild;
mod session;
mod state;
mod store;
mod table;

pub use change::{Change, ChangeError, TableError};
pub use choose::{Terms, choose};
pub use commit::{CommitError, Committed, Failed};
pub use cover::is_covered;
pub(crate) use cover::{dense_drives, uncovered};
pub use create::{CreateError, create};
pub(crate) use fence::Known;
pub use fence::{Fence, Taken};
pub use finding::{Finding, pools};
pub use generation::TableGeneration;
pub use import::{Import, ImportError, Loss, Present, Stale};
pub(crate) use look::watch;
pub use member::{Member, MemberId, MemberState, Role};
pub use membership::Membership;
pub(crate) use membership::first_proposal;
pub use other_use::is_other_use;
pub use quorum::{Voters, rests_on_one};
pub(crate) use rebuild::{Remains, remains};
pub use state::{Label, LabelState, Owner, PoolId};
pub use store::{LABEL_OFFSETS, LabelStore, RESERVED_BYTES};
pub use table::{MEMBERS_MAX, MemberTable};
