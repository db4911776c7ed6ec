//! What a seed presses on: each finds a class of bugs that work of all kinds, evenly mixed, seldom
//! comes upon.
//!
//! **Not here**: carrying any of it out (`run`, `scenario`, `workload`).

use crate::rng::Rng;
use crate::subject::{Config, Dense};
use crate::workload::Mood;

/// What a seed does more of than others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stress {
    /// A bit of everything.
    Even,
    /// Single reads hang in their drive while all around them is written, emptied and reused.
    LateReads,
    /// Many hosts write the same few blocks at once, and the power fails.
    Races,
    /// The power fails soon after the start, again and again: every log is short and lies in
    /// chunks that were used before.
    Restarts,
    /// Small writes everywhere: groups die in part and are collected, on drives full of faults.
    Scatter,
    /// Drives go, come back with what they held then, and are replaced.
    Losses,
    /// Volumes come and go while reads of their leaves hang.
    Deletions,
    /// Repairs hang in their drive while all around them is written, emptied and reused, and drives go. No seed draws
    /// it: it comes with the planted bug that needs it.
    LateRepairs,
}

/// Of so many seeds one presses on deletions, whatever else was drawn.
const DELETIONS_ONE_IN: u64 = 8;

impl Stress {
    const PICKED: [Self; 6] = [
        Self::Even,
        Self::LateReads,
        Self::Races,
        Self::Restarts,
        Self::Scatter,
        Self::Losses,
    ];

    /// What a seed presses on.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        let picked = rng.pick(&Self::PICKED);
        match rng.chance(1, DELETIONS_ONE_IN) {
            true => Self::Deletions,
            false => picked,
        }
    }

    /// Its name in the coverage.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Even => "stress_even",
            Self::LateReads => "stress_late_reads",
            Self::Races => "stress_races",
            Self::Restarts => "stress_restarts",
            Self::Scatter => "stress_scatter",
            Self::Losses => "stress_losses",
            Self::Deletions => "stress_deletions",
            Self::LateRepairs => "stress_late_repairs",
        }
    }

    /// What hosts are after most of the time, if it is anything special.
    #[must_use]
    pub const fn mood(self) -> Option<Mood> {
        match self {
            Self::Even | Self::Restarts | Self::Losses => None,
            Self::LateReads | Self::LateRepairs => Some(Mood::Turnover),
            Self::Races => Some(Mood::PingPong),
            Self::Scatter => Some(Mood::Scatter),
            Self::Deletions => Some(Mood::ComeAndGo),
        }
    }

    /// Makes the pool one that can be pressed on so: drives are lost only where the others suffice
    /// to vote and to tell what it held.
    pub fn shape(self, config: &mut Config) {
        if self == Self::Deletions {
            // Fewer images than leaves: merges read.
            (config.map_bytes, config.images_min) = (64 << 10, 2);
        }
        if !matches!(self, Self::Losses | Self::LateRepairs) {
            return;
        }
        config.is_elided = false;
        config.fast = 2;
        if config.dense == Dense::None {
            config.dense = Dense::Mirror;
        }
    }

    /// Fewest operations in flight at a time.
    #[must_use]
    pub const fn depth_min(self) -> u64 {
        match self {
            Self::Even | Self::Restarts | Self::Scatter | Self::Losses => 1,
            Self::LateReads | Self::Deletions => 8,
            Self::Races | Self::LateRepairs => 12,
        }
    }

    /// Most host operations between faults, on average.
    #[must_use]
    pub const fn fault_distance_max(self) -> u64 {
        match self {
            Self::Even | Self::Races | Self::Restarts => u64::MAX,
            Self::LateReads | Self::Scatter | Self::Losses | Self::Deletions => 60,
            Self::LateRepairs => 3,
        }
    }

    /// Weights of the kinds of faults in the order of [`inject`](crate::scenario::inject).
    #[must_use]
    pub const fn fault_weights(self) -> [u32; 17] {
        match self {
            Self::Even | Self::Races | Self::Restarts => {
                [5, 5, 4, 4, 1, 2, 3, 3, 1, 1, 3, 0, 5, 2, 1, 1, 2]
            }
            Self::LateReads => [1, 1, 1, 1, 1, 1, 1, 2, 18, 1, 1, 0, 2, 1, 1, 1, 1],
            Self::Losses => [3, 3, 3, 3, 2, 10, 1, 1, 1, 3, 2, 0, 3, 2, 4, 4, 2],
            Self::Scatter => [4, 14, 12, 12, 1, 2, 1, 1, 1, 1, 4, 0, 12, 4, 1, 1, 2],
            Self::Deletions => [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 18, 2, 1, 1, 1, 1],
            Self::LateRepairs => [2, 2, 1, 1, 0, 4, 0, 0, 0, 0, 0, 0, 60, 0, 1, 1, 0],
        }
    }

    /// Short lives that follow each longer one.
    #[must_use]
    pub fn short_lives(self, rng: &mut Rng) -> u64 {
        match self {
            Self::Restarts => rng.within(0, 3),
            Self::Even
            | Self::LateReads
            | Self::Races
            | Self::Scatter
            | Self::Losses
            | Self::Deletions
            | Self::LateRepairs => 0,
        }
    }
}
