//! A set of members, and which sets hold everything.

/// Most members of an array: a bit each, and no more than a label's member table has.
pub(crate) const MEMBERS_MAX: usize = 100;

/// A set of members by index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MemberSet(u128);

impl MemberSet {
    pub(crate) fn insert(&mut self, member: usize) {
        assert!(member < MEMBERS_MAX, "member index beyond its limit");
        self.0 |= 1 << member;
    }

    pub(crate) fn contains(self, member: usize) -> bool {
        self.0 >> member & 1 == 1
    }

    pub(crate) fn without(self, member: usize) -> Self {
        Self(self.0 & !(1 << member))
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }
}

/// Which members must be there for everything to be readable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cover {
    /// Any one (mirror).
    Any,
    /// All (no protection).
    All,
    /// One of each pair 2p, 2p + 1.
    Pairs,
    /// All but one (one parity).
    AllButOne,
}

impl Cover {
    /// True if `set`, of `members` in all, holds everything.
    pub(crate) fn holds(self, set: MemberSet, members: usize) -> bool {
        match self {
            Self::Any => set.len() >= 1,
            Self::All => set.len() == members,
            Self::Pairs => (0..members)
                .step_by(2)
                .all(|first| set.contains(first) || set.contains(first + 1)),
            Self::AllButOne => set.len() + 1 >= members,
        }
    }
}
