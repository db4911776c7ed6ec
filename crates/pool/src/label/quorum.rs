//! Who decides: the voters of a table, and which sets of them are a quorum.
//!
//! The rule (engine.md U10): a change commits on a majority of the *previous* generation's voters,
//! or on exactly half of them including the one with the lowest id. Voters are the members that
//! are active or rebuilding in that previous table. Lost and removed members do not count:
//! no label is owed to them. A voter that the change itself declares lost does count, because the
//! label it may have received can be found again.
//!
//! **Invariant.** Two quorums of one set of voters share a voter: two majorities do, a majority
//! and a half do, and two halves share the lowest id. So «lowest» means lowest of *all* voters of
//! the previous table, not of those that survive; otherwise the two halves of a pool could each go
//! on alone. The price: if half of the voters with the lowest id among them fail at the same
//! instant, before the loss of either is committed, the pool stops. One after the other is fine.
//!
//! A pool of two drives, a mirror without a dense tier, has two voters: it goes on without the second
//! one and stops without the first, since the half that is left is not the one with the lowest id. No
//! rule without a third vote can do better: which of two is gone, or only out of reach, neither knows.
//! Its data are safe, and serving them again takes an accepted loss. Whoever makes such a pool is told
//! ([`rests_on_one`](crate::label::rests_on_one)).

use crate::label::member::MemberId;
use alloc::vec::Vec;

/// True if a new pool of so many drives stops when one of them, the first fast one, is lost, although its log
/// has other copies.
#[must_use]
pub const fn rests_on_one(fast: usize, dense: usize) -> bool {
    fast == 2 && dense == 0
}

/// The members that decide on the successor of a table, ordered by id.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Voters(Vec<MemberId>);

impl Voters {
    /// These members, in any order, each once.
    #[must_use]
    pub fn new(mut ids: Vec<MemberId>) -> Self {
        ids.sort_unstable();
        ids.dedup();
        Self(ids)
    }

    /// The members, ordered by id.
    #[must_use]
    pub fn ids(&self) -> &[MemberId] {
        &self.0
    }

    /// True if `id` votes.
    #[must_use]
    pub fn contains(&self, id: MemberId) -> bool {
        self.0.binary_search(&id).is_ok()
    }

    /// True if the voters for which `holds` says yes are a quorum. No voters have no quorum.
    #[must_use]
    pub fn is_quorum(&self, holds: impl Fn(MemberId) -> bool) -> bool {
        let count = self.0.iter().filter(|id| holds(**id)).count();
        let lowest = self.0.first().is_some_and(|id| holds(*id));
        count * 2 > self.0.len() || (count * 2 == self.0.len() && lowest)
    }

    /// Voters that must hold a label at least, if the lowest is not (`false`) or is among them.
    #[must_use]
    pub fn needed(&self, with_lowest: bool) -> usize {
        let half_counts = with_lowest && self.0.len().is_multiple_of(2);
        self.0.len() / 2 + usize::from(!half_counts)
    }
}
