//! What came of a load, of one generator or of several together.

/// An operation that failed, or returned what it must not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failed {
    /// In words.
    pub(crate) what: String,
    /// What the user can do about it.
    pub(crate) next: &'static str,
}

/// What came of a load.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tally {
    /// Operations that failed or returned what they must not.
    pub(crate) failures: u64,
    /// The first of them.
    pub(crate) first: Option<Failed>,
    /// Blocks that were compared with what was written.
    pub(crate) checked: u64,
    /// Blocks of unchecked reads that were looked at.
    pub(crate) sampled: u64,
    /// Of these the zeroes: as a rule nothing was ever written there, and no drive was asked.
    pub(crate) zeroes: u64,
}

impl Tally {
    /// Adds what came of another generator's part.
    pub(crate) fn add(&mut self, other: Self) {
        self.failures += other.failures;
        self.first = self.first.take().or(other.first);
        self.checked += other.checked;
        self.sampled += other.sampled;
        self.zeroes += other.zeroes;
    }
}
