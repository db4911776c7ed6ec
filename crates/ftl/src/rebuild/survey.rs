//! The first look at all P2L areas: which generation each group is of, how far it was written, which leaves
//! there are.
//!
//! Of a group only stripes of its newest generation count: what lies behind them is of an earlier use, and garbage
//! collection would not believe it either. A start goes on with an open group at the first stripe that the log does not
//! name, under a higher epoch. So of these stripes one whose epoch is lower than that of one before it was never named:
//! a start was to write it again, and did not get that far.

use super::leaf_set::LeafSet;
use super::reader::{Reader, Want};
use super::{RebuildError, RebuildPhase, RebuildProgress, RebuildReport};
use crate::map::LeafKey;
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_format::P2l;
use varve_units::{Generation, Lsn, VolumeId};

/// What is known of a group.
#[derive(Clone, Copy, Default)]
pub(super) struct GroupFacts {
    pub(super) generation: Generation,
    /// Stripes up to the last one that counts.
    pub(super) stripes: u32,
    /// Those of them that count.
    pub(super) readable: u32,
    /// Copies of the P2L of a stripe are of several uses or starts.
    pub(super) is_mixed: bool,
    /// A stripe behind these cannot be read.
    is_damaged: bool,
}

/// The newest copy of one P2L area, without its blocks.
#[derive(Clone, Copy)]
struct Head {
    stripe: u32,
    generation: Generation,
    epoch: u32,
}

impl Head {
    const fn of(p2l: &P2l) -> Self {
        Self {
            stripe: p2l.stripe,
            generation: p2l.generation,
            epoch: p2l.epoch,
        }
    }
}

/// Tells of stripes, from the first one of a group on, which count.
#[derive(Clone, Copy, Default)]
pub(super) struct Line {
    /// The highest epoch so far.
    epoch: u32,
}

impl Line {
    /// True if a stripe of the group's generation counts.
    pub(super) const fn takes(&mut self, epoch: u32) -> bool {
        let counts = epoch >= self.epoch;
        if counts {
            self.epoch = epoch;
        }
        counts
    }
}

/// What the first look found.
pub(super) struct Survey {
    pub(super) groups: Vec<GroupFacts>,
    /// Leaves that blocks were found of; perhaps none of these counts.
    pub(super) leaves: LeafSet,
    pub(super) newest_birth: Lsn,
    pub(super) newest_generation: Generation,
    /// Some stripes are narrow.
    pub(super) has_narrow: bool,
}

impl Survey {
    pub(super) async fn take(
        reader: &Rc<Reader>,
        progress: &dyn Fn(RebuildProgress),
    ) -> Result<Self, RebuildError> {
        let geometry = reader.geometry;
        let mut survey = Self {
            groups: Vec::new(),
            leaves: LeafSet::default(),
            newest_birth: Lsn::ZERO,
            newest_generation: Generation(0),
            has_narrow: false,
        };
        let stripes = geometry.group_stripes();
        let all = (0..geometry.groups)
            .flat_map(|group| (0..stripes).map(move |stripe| (group, stripe, Want::Newest)));
        let mut readings = reader.read_ahead(all);
        let mut told = Told::new(progress, RebuildPhase::Survey);
        told.total = u64::from(geometry.groups) * u64::from(stripes);
        for _ in 0..geometry.groups {
            let (mut heads, mut is_mixed, mut damaged) = (Vec::new(), false, Vec::new());
            for _ in 0..stripes {
                let reading = readings.next().await?;
                let reading = reading.expect("a reading of every stripe");
                is_mixed |= reading.is_mixed;
                match &reading.p2l {
                    Some(p2l) => {
                        heads.push(Head::of(p2l));
                        survey.note_entries(p2l);
                    }
                    None if reading.is_damaged => damaged.push(reading.stripe),
                    None => {}
                }
                told.step();
            }
            let mut facts = facts(&heads);
            facts.is_mixed = is_mixed;
            facts.is_damaged = damaged.iter().any(|stripe| *stripe >= facts.stripes);
            survey.groups.push(facts);
        }
        Ok(survey)
    }

    fn note_entries(&mut self, p2l: &P2l) {
        self.newest_generation = self.newest_generation.max(p2l.generation);
        self.has_narrow |= p2l.narrow.is_some();
        let mut last = None;
        for entry in p2l.entries.iter().filter(|one| one.volume != VolumeId(0)) {
            self.newest_birth = self.newest_birth.max(entry.birth);
            let key = LeafKey {
                volume: entry.volume,
                leaf: entry.lba.leaf(),
            };
            if last != Some(key) {
                self.leaves.insert(key);
                last = Some(key);
            }
        }
    }

    /// Stripes that are to be read again in each pass, with which copy.
    pub(super) fn stripes(&self) -> impl Iterator<Item = (u32, u32, Want)> {
        (0..).zip(&self.groups).flat_map(move |(group, facts)| {
            let want = match facts.is_mixed {
                true => Want::Newest,
                false => Want::Of(facts.generation),
            };
            (0..facts.stripes).map(move |stripe| (group, stripe, want))
        })
    }

    pub(super) fn count(&self) -> u64 {
        let stripes = self.groups.iter().map(|facts| u64::from(facts.stripes));
        stripes.sum()
    }

    pub(super) fn report(&self) -> RebuildReport {
        let unreadable = |facts: &GroupFacts| {
            u64::from(facts.stripes - facts.readable) + u64::from(facts.is_damaged)
        };
        let groups = (0..).zip(&self.groups);
        let groups = groups.filter(|(_, facts)| unreadable(facts) > 0);
        RebuildReport {
            stripes: self.groups.iter().map(|one| u64::from(one.readable)).sum(),
            stripes_unreadable: self.groups.iter().map(unreadable).sum(),
            groups_unreadable: groups.map(|(group, _)| group).collect(),
            passes: 1,
            ..RebuildReport::default()
        }
    }
}

/// What the heads of a group's stripes, in order, say of it.
fn facts(heads: &[Head]) -> GroupFacts {
    let Some(generation) = heads.iter().map(|head| head.generation).max() else {
        return GroupFacts::default();
    };
    let (mut line, mut facts) = (Line::default(), GroupFacts::default());
    facts.generation = generation;
    for head in heads {
        if head.generation == generation && line.takes(head.epoch) {
            facts.readable += 1;
            facts.stripes = head.stripe + 1;
        }
    }
    facts
}

/// Tells how far a phase is, now and then.
pub(super) struct Told<'a> {
    progress: &'a dyn Fn(RebuildProgress),
    phase: RebuildPhase,
    done: u64,
    pub(super) total: u64,
}

/// Stripes between two tellings. Arbitrary: often enough for whoever watches.
const TELL: u64 = 64;

impl<'a> Told<'a> {
    pub(super) fn new(progress: &'a dyn Fn(RebuildProgress), phase: RebuildPhase) -> Self {
        Self {
            progress,
            phase,
            done: 0,
            total: 0,
        }
    }

    pub(super) fn step(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(TELL) || self.done == self.total {
            (self.progress)(RebuildProgress {
                phase: self.phase,
                done: self.done,
                total: self.total.max(self.done),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(found: &[Option<(u32, u32)>]) -> Vec<Head> {
        let stripes = (0..).zip(found);
        let heads = stripes.filter_map(|(stripe, found)| {
            let (generation, epoch) = (*found)?;
            let generation = Generation(generation);
            Some(Head {
                stripe,
                generation,
                epoch,
            })
        });
        heads.collect()
    }

    /// What was found of a group, and what that comes to.
    type Case = (&'static [Option<(u32, u32)>], u32, u32);

    /// Generation and epoch of each stripe, the stripes up to the last one that counts, and those that do.
    #[test]
    fn what_counts_of_a_group() {
        let cases: &[Case] = &[
            (&[None, None], 0, 0),
            (&[Some((3, 5)), Some((3, 5)), None], 2, 2),
            // What an earlier use left counts no more, in between or behind.
            (
                &[Some((3, 5)), Some((2, 4)), Some((3, 5)), Some((2, 4))],
                3,
                2,
            ),
            // A start went on; what lay behind it was never named.
            (
                &[Some((3, 5)), Some((3, 7)), Some((3, 5)), Some((3, 6))],
                2,
                2,
            ),
            // It went on twice.
            (&[Some((3, 5)), Some((3, 6)), Some((3, 7))], 3, 3),
            (&[Some((3, 5)), None, Some((3, 7))], 3, 2),
        ];
        for (found, stripes, readable) in cases {
            let facts = facts(&heads(found));
            assert_eq!(
                (facts.stripes, facts.readable),
                (*stripes, *readable),
                "{found:?}"
            );
        }
    }
}
