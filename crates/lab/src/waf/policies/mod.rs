//! The comparators: one file each, with its source.

mod csal_paper;
mod csal_today;
mod oracle;
mod sepbit;
mod streams;

use super::policy;
use crate::comparators::{CSAL, TEXT_BOOK};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A placement policy by name.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The project's own: the real engine.
    Varve,
    /// CSAL as open-sourced in SPDK.
    CsalToday,
    /// CSAL as its paper describes it: zones by tenant, a zone of its own for relocated data.
    CsalPaper,
    /// One stream, the unit with the fewest live blocks.
    #[serde(rename = "greedy-1")]
    Greedy1,
    /// One stream, the oldest unit.
    #[serde(rename = "fifo-1")]
    Fifo1,
    /// A stream for hosts and one for garbage collection, the unit with the fewest live blocks.
    #[serde(rename = "greedy-2")]
    Greedy2,
    /// The same streams, cost-benefit.
    #[serde(rename = "cost-benefit-2")]
    CostBenefit2,
    /// Six classes by inferred time of death, cost-benefit.
    Sepbit,
    /// Twelve classes by the true rate of each block, cost-benefit: nobody has that.
    Oracle,
}

/// All of them.
pub const POLICIES: [Policy; 9] = [
    Policy::Varve,
    Policy::CsalToday,
    Policy::CsalPaper,
    Policy::Greedy1,
    Policy::Fifo1,
    Policy::Greedy2,
    Policy::CostBenefit2,
    Policy::Sepbit,
    Policy::Oracle,
];

impl Policy {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Varve => "varve",
            Self::CsalToday => "csal-today",
            Self::CsalPaper => "csal-paper",
            Self::Greedy1 => "greedy-1",
            Self::Fifo1 => "fifo-1",
            Self::Greedy2 => "greedy-2",
            Self::CostBenefit2 => "cost-benefit-2",
            Self::Sepbit => "sepbit",
            Self::Oracle => "oracle",
        }
    }

    /// Units of each group.
    pub(crate) const fn units_per_group(self, groups: u32) -> u32 {
        match self {
            Self::Varve => 1,
            Self::CsalToday | Self::CsalPaper => CSAL.group_bands,
            Self::Greedy1
            | Self::Fifo1
            | Self::Greedy2
            | Self::CostBenefit2
            | Self::Sepbit
            | Self::Oracle => TEXT_BOOK.units.div_ceil(groups),
        }
    }

    /// The comparator, for a volume of `blocks` blocks with `tenants` tenants, on units of which a group has
    /// `group`; `None` for the engine, which is no model.
    pub(crate) fn model(
        self,
        blocks: u64,
        tenants: usize,
        group: u32,
    ) -> Option<Box<dyn policy::Policy>> {
        use streams::{Rule, Streams};
        Some(match self {
            Self::Varve => return None,
            Self::CsalToday => Box::new(csal_today::CsalToday::new(group)),
            Self::CsalPaper => Box::new(csal_paper::CsalPaper::new(tenants)),
            Self::Greedy1 => Box::new(Streams::one(Rule::Greedy)),
            Self::Fifo1 => Box::new(Streams::one(Rule::Fifo)),
            Self::Greedy2 => Box::new(Streams::two(Rule::Greedy)),
            Self::CostBenefit2 => Box::new(Streams::two(Rule::CostBenefit)),
            Self::Sepbit => Box::new(sepbit::SepBit::new(blocks)),
            Self::Oracle => Box::new(oracle::Oracle::new(blocks)),
        })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = POLICIES.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| {
            let names = POLICIES.map(Self::name);
            format!("one of {}", names.join(", "))
        })
    }
}
