//! Which blocks stay in the log when their chunk is emptied (design.md 4.3).
//!
//! A block that its host soon overwrites costs the dense tier nothing if it waits for that in the log: it is
//! appended again at the head. The room it takes there others lack: the log turns faster, and more of what hosts
//! write outlives it. So a class of blocks ([`crate::lifetime`]) stays where more of it dies in the turn that it is
//! given than the same room saves elsewhere, and by a margin: for what it costs to write it to the log, beside
//! what a compacted block costs with all that collection adds to it.
//!
//! All that is measured, and nothing is assumed of what classes mean: a few of every class stay on trial, and of those that
//! stayed the chunks tell what became of them. What room saves elsewhere is what hosts write that outlives the log,
//! times the share of that which one more turn would have let die. A load without skew, or whose hot blocks
//! change before the classes do, so keeps no more than what is on trial.
//!
//! **Not here**: how a block goes back to the log, and whether there is room (`keeps`).
//!
//! **Invariants**: half of the blocks that a chunk has room for leave the log, whatever is hot.

use crate::candidate::Candidate;
use crate::geometry::UnitId;
use crate::lifetime::UNTOLD;
use crate::shared::Shared;

use core::cell::RefCell;
use varve_format::Brought;

/// Classes, and one of blocks that have none.
const CLASSES: usize = UNTOLD as usize + 1;
/// What a write to the log costs of one to the dense tier, in thousandths: less by wear and bandwidth, more by the processor's
/// time. Arbitrary.
const LOG_COST: u64 = 350;
/// Blocks of a class that must have stayed before its share means something. Arbitrary.
const TELLING: u64 = 32;
/// Classes below this are tried often: their blocks are overwritten within a few turns of the log, if at all.
const TRIED_OFTEN: u8 = 10;
/// Of so many blocks one is on trial, of those classes and of the others. Powers of two; arbitrary.
const TRIAL_OFTEN: u64 = 16;
const TRIAL_SELDOM: u64 = 128;
/// What became of blocks is remembered for so many turns of a small log, up to so many blocks that hosts write: 1 GiB, of
/// the share of each reactor that places. A class that is worth keeping by little has to be told from one that is not, and
/// in one turn of it too few blocks are on trial for that. Arbitrary.
const TURNS_REMEMBERED: u64 = 16;
const REMEMBERED: u64 = 1 << 18;
/// Of so many blocks of a chunk one may stay.
const STAY_SHARE: usize = 2;

/// Blocks that were written to the dense tier.
#[derive(Clone, Copy, Default)]
struct Moved {
    compacted: u64,
    collected: u64,
}

/// What was found in one victim.
#[derive(Default)]
pub(crate) struct Census {
    /// Moved since the start.
    moved: Moved,
    /// Blocks that hosts wrote there.
    written: u64,
    /// Those that are alive, by class.
    outlived: [u64; CLASSES],
    /// Blocks that stayed in the log once, by the class they stayed for.
    kept: [u64; CLASSES],
    /// Those that are alive.
    alive: [u64; CLASSES],
}

impl Census {
    /// Of a chunk: what its batches brought.
    pub(crate) fn of(brought: &Brought) -> Self {
        let mut census = Self::default();
        for block in &brought.blocks {
            match block.is_kept {
                true => census.kept[class(block.class)] += 1,
                false => census.written += 1,
            }
        }
        census
    }

    /// These of them are alive.
    fn note_alive(&mut self, candidates: &[Candidate]) {
        for one in candidates {
            match one.kept_for {
                Some(class_then) => self.alive[class(class_then)] += 1,
                None => self.outlived[class(one.class)] += 1,
            }
        }
    }
}

/// What became of blocks that stayed: the last turn of the log or turns of a small one, older ones weigh less.
#[derive(Default)]
pub(crate) struct Retention(RefCell<Learnt>);

#[derive(Default)]
struct Learnt {
    /// All that was moved when the last victim was looked at.
    before: Moved,
    moved: Moved,
    written: u64,
    outlived: [u64; CLASSES],
    kept: [u64; CLASSES],
    died: [u64; CLASSES],
}

impl Learnt {
    /// Adds a census, and forgets half of what is known for each `span` of blocks that hosts write.
    fn add(&mut self, census: &Census, span: u64) {
        self.moved.compacted += census.moved.compacted - self.before.compacted;
        self.moved.collected += census.moved.collected - self.before.collected;
        self.before = census.moved;
        self.written += census.written;
        for at in 0..CLASSES {
            self.outlived[at] += census.outlived[at];
            self.kept[at] += census.kept[at];
            self.died[at] += census.kept[at].saturating_sub(census.alive[at]);
        }
        if self.written > span {
            let Moved {
                compacted,
                collected,
            } = &mut self.moved;
            let sums = [&mut self.written, compacted, collected];
            sums.into_iter().for_each(|count| *count /= 2);
            let all = [&mut self.outlived, &mut self.kept, &mut self.died];
            all.into_iter().flatten().for_each(|count| *count /= 2);
        }
    }

    /// Of a thousand blocks of a class that stayed, those that died before they were looked at again.
    fn dying(&self, class: usize) -> Option<u64> {
        let is_telling = self.kept[class] >= TELLING;
        is_telling.then(|| self.died[class] * 1000 / self.kept[class])
    }

    /// Blocks that die for each thousand that others are given room for.
    fn dying_elsewhere(&self) -> u64 {
        let dying = |at| self.outlived[at] * self.dying(at).unwrap_or(0);
        (0..CLASSES).map(dying).sum::<u64>() / self.written.max(1)
    }

    /// Of a thousand blocks those that must die for what it costs to write all of them to the log again.
    fn margin(&self) -> u64 {
        let Moved {
            compacted,
            collected,
        } = self.moved;
        LOG_COST * (compacted + 1) / (compacted + collected + 1)
    }

    /// Which classes stay.
    fn staying(&self) -> [bool; CLASSES] {
        let least = self.dying_elsewhere() + self.margin();
        core::array::from_fn(|class| self.dying(class).is_some_and(|dying| dying > least))
    }
}

impl Retention {
    /// Learns from a victim, and says which of its candidates are to stay. What became of `span` blocks of hosts is
    /// remembered, a chunk has `chunk` of them.
    fn choose(
        &self,
        mut census: Census,
        candidates: &mut [Candidate],
        (span, chunk): (u64, usize),
    ) {
        census.note_alive(candidates);
        let mut learnt = self.0.borrow_mut();
        learnt.add(&census, span);
        let staying = learnt.staying();
        let stays = |one: &&mut Candidate| staying[class(one.class)] || is_on_trial(one);
        let chosen = candidates.iter_mut().filter(stays);
        chosen
            .take(chunk / STAY_SHARE)
            .for_each(|one| one.stays = true);
    }
}

impl Shared {
    /// Says which blocks of a victim are to stay in the log.
    pub(crate) fn choose_who_stays(
        &self,
        victim: UnitId,
        mut census: Census,
        candidates: &mut [Candidate],
    ) {
        let (now, lifetimes) = (self.clock(), &self.lifetimes);
        lifetimes.note_turn(now, self.units.unit(victim).stamp());
        for one in &mut *candidates {
            let class = lifetimes.class_at(one.ppa).or(one.kept_for);
            one.class = class.map_or(UNTOLD, |class| lifetimes.aged(class, now, one.birth));
        }
        census.moved = Moved {
            compacted: self.tally.sum("compacted_blocks"),
            collected: self.tally.sum("gc_blocks"),
        };
        let geometry = self.units.geometry();
        let blocks = geometry.chunk_blocks();
        // Each reactor that places empties its share of the log.
        let log = u64::from(blocks) * u64::from(geometry.chunks) / u64::from(self.placers());
        let span = log.max(REMEMBERED.min(TURNS_REMEMBERED * log));
        let sizes = (span, blocks as usize);
        self.retention.choose(census, candidates, sizes);
    }

    /// So many blocks of a victim went to the dense tier.
    pub(crate) fn note_survivors(&self, count: usize) {
        let blocks = self.units.geometry().chunk_blocks();
        self.tell_control(move |control, _| control.survivors.note(count as u32, blocks));
    }
}

/// As an index: what is on media may be anything.
const fn class(class: u8) -> usize {
    class as usize % CLASSES
}

/// True if a block stays whatever is known of its class; another time another one.
fn is_on_trial(candidate: &Candidate) -> bool {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = (candidate.birth.0 ^ candidate.ppa.bits().wrapping_mul(ODD)).wrapping_mul(ODD);
    let one_of = match candidate.class < TRIED_OFTEN {
        true => TRIAL_OFTEN,
        false => TRIAL_SELDOM,
    };
    (mixed >> 32).is_multiple_of(one_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use varve_units::{Lba, Lsn, Ppa, VolumeId};

    const CHUNK: usize = 256;
    const LOG: u64 = 64 * 256;
    const HOT: u8 = 6;
    const COLD: u8 = 11;

    /// Blocks of a class that outlived their chunk; what stayed before did so for it.
    fn blocks(count: usize, class: u8, kept_for: Option<u8>) -> Vec<Candidate> {
        let one = |number: usize| Candidate {
            volume: VolumeId(1),
            lba: Lba(number as u64),
            ppa: Ppa::fast(8 * number as u64),
            birth: Lsn(number as u64),
            crc: 0,
            class,
            kept_for,
            stays: false,
        };
        (0..count).map(one).collect()
    }

    fn staying(candidates: &[Candidate], class: u8) -> usize {
        let stay = |one: &&Candidate| one.class == class && one.stays;
        candidates.iter().filter(stay).count()
    }

    /// One chunk of 256 blocks that hosts wrote, of which 40 hot and 100 cold ones are alive, and of 64 of each class that
    /// stayed before so many of a hundred have died.
    fn chunk(dying_hot: usize, dying_cold: usize) -> (Census, Vec<Candidate>) {
        let mut census = Census {
            written: CHUNK as u64,
            ..Census::default()
        };
        census.kept[class(HOT)] = 100;
        census.kept[class(COLD)] = 100;
        let mut candidates = blocks(40, HOT, None);
        candidates.extend(blocks(100, COLD, None));
        candidates.extend(blocks(100 - dying_hot, HOT, Some(HOT)));
        candidates.extend(blocks(100 - dying_cold, COLD, Some(COLD)));
        (census, candidates)
    }

    /// After so many chunks of which `dying` of a hundred blocks die, hot and cold ones, and with so many that are collected
    /// for each hundred that are compacted: what has learnt that, and how many of each class stay of the last.
    fn after(chunks: u64, dying: (usize, usize), collected: u64) -> (Retention, usize, usize) {
        let retention = Retention::default();
        let stay = go_on(&retention, 0..chunks, dying, collected);
        (retention, stay.0, stay.1)
    }

    fn go_on(
        retention: &Retention,
        chunks: core::ops::Range<u64>,
        dying: (usize, usize),
        collected: u64,
    ) -> (usize, usize) {
        let mut last = Vec::new();
        for round in chunks {
            let (mut census, mut candidates) = chunk(dying.0, dying.1);
            census.moved = Moved {
                compacted: 100 * round,
                collected: collected * round,
            };
            retention.choose(census, &mut candidates, (LOG, CHUNK));
            last = candidates;
        }
        (staying(&last, HOT), staying(&last, COLD))
    }

    #[test]
    fn what_dies_soon_stays() {
        let (_, hot, cold) = after(300, (60, 5), 150);
        assert_eq!(hot, 80, "all of them");
        assert!(cold < 10, "{cold} on trial");
    }

    /// Where all live alike nothing stays but on trial, whether they live long or not.
    #[test]
    fn where_nothing_is_hotter_nothing_stays() {
        for dying in [0, 5, 30] {
            let (_, hot, cold) = after(300, (dying, dying), 150);
            assert!(
                (1..20).contains(&hot) && cold < 10,
                "{dying}: {hot}, {cold}"
            );
        }
    }

    /// The more collection adds to what is compacted, the sooner a block stays.
    #[test]
    fn what_collection_adds_counts() {
        let staying = |collected| after(300, (40, 5), collected).1;
        assert_eq!(staying(200), 100, "all of them");
        assert!(staying(0) < 20);
    }

    /// A class that has cooled down leaves, though it stayed before.
    #[test]
    fn what_has_cooled_down_leaves() {
        let (retention, hot, _) = after(300, (60, 5), 150);
        assert_eq!(hot, 80);
        let (hot, _) = go_on(&retention, 300..600, (8, 5), 150);
        assert!(hot < 30, "{hot}");
    }

    /// However much is hot, half of a chunk is won.
    #[test]
    fn half_of_a_chunk_leaves() {
        let (retention, ..) = after(300, (60, 5), 150);
        let mut candidates = blocks(200, HOT, None);
        let census = Census {
            moved: retention.0.borrow().before,
            ..Census::default()
        };
        retention.choose(census, &mut candidates, (LOG, CHUNK));
        assert_eq!(staying(&candidates, HOT), CHUNK / 2);
    }

    /// Nobody is on trial for ever: what is kept is drawn anew with each place.
    #[test]
    fn trials_are_drawn_anew() {
        let mut candidates = blocks(10_000, COLD, None);
        let tried = |candidates: &[Candidate]| -> Vec<u64> {
            let tried = candidates.iter().filter(|one| is_on_trial(one));
            tried.map(|one| one.lba.0).collect()
        };
        let first = tried(&candidates);
        candidates
            .iter_mut()
            .for_each(|one| one.ppa = Ppa::fast((1 << 20) + one.lba.0 * 8));
        let second = tried(&candidates);
        let both = first.iter().filter(|one| second.contains(one)).count();
        assert!((40..160).contains(&first.len()) && (40..160).contains(&second.len()));
        assert!(both < 10, "{both} of {} again", first.len());
        candidates.iter_mut().for_each(|one| one.class = HOT);
        assert!(
            (400..900).contains(&tried(&candidates).len()),
            "hot ones are tried often"
        );
    }
}
