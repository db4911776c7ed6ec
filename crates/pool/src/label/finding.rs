//! What was found on the drives offered for an import.

use crate::label::member::MemberId;
use crate::label::state::{Label, PoolId};
use alloc::vec::Vec;
use varve_io::IoError;

/// What one drive's label area holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// A valid label.
    Label(Label),
    /// Readable, but neither copy is a label.
    Blank,
    /// One copy is a label, and where the other should be lies what somebody else put there: the drive is no
    /// member any more, and not to be written to.
    OtherUse {
        /// The pool it was of.
        pool: PoolId,
        /// The member it was.
        id: MemberId,
    },
    /// Neither copy is a label, and the drive failed to read at least one of them.
    Unreadable(IoError),
}

/// The findings, told apart for one pool; drives are numbered in the caller's order.
pub(crate) struct Survey<'a> {
    /// Labels of the pool.
    pub labels: Vec<(usize, &'a Label)>,
    /// Drives of other pools.
    pub foreign: Vec<(usize, PoolId)>,
    /// Drives without a label.
    pub blank: Vec<usize>,
    /// Drives that were put to another use.
    pub other_use: Vec<usize>,
    /// Drives that cannot be read.
    pub unreadable: Vec<(usize, IoError)>,
}

impl<'a> Survey<'a> {
    pub(crate) fn of(pool: PoolId, found: &'a [Finding]) -> Self {
        let mut survey = Survey {
            labels: Vec::new(),
            foreign: Vec::new(),
            blank: Vec::new(),
            other_use: Vec::new(),
            unreadable: Vec::new(),
        };
        for (drive, finding) in found.iter().enumerate() {
            match finding {
                Finding::Label(label) if label.state.pool == pool => {
                    survey.labels.push((drive, label));
                }
                Finding::Label(label) => survey.foreign.push((drive, label.state.pool)),
                Finding::Blank => survey.blank.push(drive),
                Finding::OtherUse { .. } => survey.other_use.push(drive),
                Finding::Unreadable(error) => survey.unreadable.push((drive, *error)),
            }
        }
        survey
    }
}

/// The pools that have a label among the findings, each once.
#[must_use]
pub fn pools(found: &[Finding]) -> Vec<PoolId> {
    let mut pools: Vec<_> = found
        .iter()
        .filter_map(|finding| match finding {
            Finding::Label(label) => Some(label.state.pool),
            Finding::Blank | Finding::OtherUse { .. } | Finding::Unreadable(_) => None,
        })
        .collect();
    pools.sort_unstable();
    pools.dedup();
    pools
}
