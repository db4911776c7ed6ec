//! Blocks on their way to a stripe, and their order in what a stripe is made of and told in.
//!
//! Content and who waits are the same for many blocks that follow one another: they are kept once for each
//! such run.

use crate::geometry::Geometry;
use crate::progress::{Party, Progress};
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;
use varve_format::{KeepItem, MoveItem, P2lEntry};
use varve_io::{Blocks, Gather, Segment};
use varve_units::{Lba, Lsn, Ppa, SliceId, VolumeId};

/// A verified block on its way.
#[derive(Clone, Copy)]
pub(crate) struct Item {
    pub(crate) volume: VolumeId,
    pub(crate) lba: Lba,
    pub(crate) old: Ppa,
    pub(crate) birth: Lsn,
    pub(crate) crc: u32,
    /// Which block of its run's memory it is.
    pub(crate) at: u32,
    pub(crate) class: u8,
}

impl Item {
    /// What the P2L of its stripe says of it.
    const fn entry(&self) -> P2lEntry {
        P2lEntry {
            volume: self.volume,
            lba: self.lba,
            birth: self.birth,
            crc: self.crc,
        }
    }

    /// What the record says of it by which it stays in the log.
    pub(crate) const fn kept(&self) -> KeepItem {
        KeepItem {
            lba: self.lba,
            old: self.old,
            class: self.class,
            birth: self.birth,
            crc: self.crc,
        }
    }

    /// What the record of its move says of it.
    pub(super) const fn moved_to(&self, new: Ppa) -> MoveItem {
        MoveItem {
            lba: self.lba,
            old: self.old,
            new,
            class: self.class,
        }
    }
}

/// So many blocks that follow one another, lie in the same memory and leave the same unit.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) count: usize,
    pub(super) blocks: Rc<Blocks>,
    pub(super) progress: Rc<Progress>,
}

/// Blocks that wait at a stream, in order. **Invariant**: the runs are as long as the items are many, and none
/// is empty.
#[derive(Default)]
pub(super) struct Queue {
    items: VecDeque<Item>,
    runs: VecDeque<Run>,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds items of the same memory, of which `progress` is told.
    pub(super) fn push(
        &mut self,
        items: impl ExactSizeIterator<Item = Item>,
        blocks: &Rc<Blocks>,
        progress: &Rc<Progress>,
    ) {
        let count = items.len();
        if count > 0 {
            self.items.extend(items);
            self.runs.push_back(Run {
                count,
                blocks: Rc::clone(blocks),
                progress: Rc::clone(progress),
            });
        }
    }

    /// Adds what waited elsewhere.
    pub(super) fn append(&mut self, mut other: Self) {
        self.items.append(&mut other.items);
        self.runs.append(&mut other.runs);
    }

    /// Takes the first ones, so many.
    pub(super) fn take(&mut self, count: usize) -> Stripe {
        let (front, behind) = self.items.as_slices();
        let in_front = count.min(front.len());
        let mut items = Vec::with_capacity(count);
        items.extend_from_slice(&front[..in_front]);
        items.extend_from_slice(&behind[..count - in_front]);
        self.items.drain(..count);
        let mut runs = Vec::new();
        let mut left = count;
        while left > 0 {
            let first = self.runs.front_mut().expect("a run for every item");
            if first.count > left {
                first.count -= left;
                let run = first.clone();
                runs.push(Run { count: left, ..run });
                break;
            }
            left -= first.count;
            runs.extend(self.runs.pop_front());
        }
        Stripe { items, runs }
    }

    /// Takes all of them.
    pub(super) fn take_all(&mut self) -> Stripe {
        self.take(self.len())
    }
}

/// Blocks of one stripe, in order.
pub(super) struct Stripe {
    pub(super) items: Vec<Item>,
    runs: Vec<Run>,
}

impl Stripe {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Pieces of a write that its blocks are at least.
    pub(super) fn pieces(&self) -> usize {
        self.runs.len()
    }

    /// What its P2L says of its blocks.
    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = P2lEntry> {
        self.items.iter().map(Item::entry)
    }

    /// Its items, run by run.
    pub(super) fn by_run(&self) -> impl Iterator<Item = (&Run, &[Item])> {
        let mut left = &self.items[..];
        self.runs.iter().map(move |run| {
            let (items, behind) = left.split_at(run.count);
            left = behind;
            (run, items)
        })
    }

    /// Adds its blocks to a write, in one piece what was read in one.
    pub(super) fn push_blocks(&self, gather: &mut Gather) {
        for (run, items) in self.by_run() {
            for pieces in items.chunk_by(|one, next| one.at + 1 == next.at) {
                let first = pieces[0].at as usize;
                let blocks = Rc::clone(&run.blocks);
                gather.push(Segment::Data(blocks, first..first + pieces.len()));
            }
        }
    }

    /// [`Stripe::push_blocks`] of some of its blocks.
    pub(super) fn push_some(&self, gather: &mut Gather, some: Range<usize>) {
        let mut first = 0;
        for (run, items) in self.by_run() {
            let from = some.start.clamp(first, first + items.len()) - first;
            let to = some.end.clamp(first, first + items.len()) - first;
            for item in &items[from..to] {
                let at = item.at as usize;
                gather.push_blocks(&run.blocks, &(at..at + 1));
            }
            first += items.len();
        }
    }

    /// Its blocks will not be moved.
    pub(super) fn fail(self) {
        for run in self.runs {
            run.progress.done(run.count, false);
        }
    }

    /// Its blocks, slice by slice and in its order.
    pub(super) fn by_slice(&self, geometry: &Geometry) -> Vec<Turn> {
        let turns = (0..).zip(&self.items).map(|(index, item)| Turn {
            slice: geometry.slice_of(item.volume, item.lba.leaf()),
            index,
        });
        let turns: Vec<Turn> = turns.collect();
        // Slices are few: each block is put where those of the slices before it end.
        let mut ends = alloc::vec![0_u32; usize::from(geometry.slices) + 1];
        for turn in &turns {
            ends[usize::from(turn.slice.0) + 1] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        let mut sorted = alloc::vec![Turn::default(); turns.len()];
        for turn in turns {
            let place = &mut ends[usize::from(turn.slice.0)];
            sorted[*place as usize] = turn;
            *place += 1;
        }
        sorted
    }

    /// What its blocks leave, from the first ones on: each unit's progress, and where its blocks end.
    pub(super) fn left(&self) -> Left {
        let mut units: Vec<(Rc<Progress>, usize)> = Vec::new();
        let mut end = 0;
        for run in &self.runs {
            end += run.count;
            match units.last_mut() {
                Some((last, to)) if Rc::ptr_eq(last, &run.progress) => *to = end,
                _ => units.push((Rc::clone(&run.progress), end)),
            }
        }
        Left(units)
    }
}

/// The units that blocks of a stripe leave.
pub(super) struct Left(Vec<(Rc<Progress>, usize)>);

impl Left {
    /// What waits for a record of these blocks, which are in the order of the stripe.
    pub(super) fn party(&self, turns: &[Turn]) -> Party {
        if let [(progress, _)] = &self.0[..] {
            return Party::of(progress, turns.len());
        }
        let mut units = self.0.iter();
        let mut unit = units.next().expect("a stripe has blocks");
        let progress = turns.iter().map(|turn| {
            while turn.index() >= unit.1 {
                unit = units.next().expect("each block leaves a unit");
            }
            &unit.0
        });
        Party::of_each(progress)
    }
}

/// A block of a stripe among those that move.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    slice: SliceId,
    index: u32,
}

impl Turn {
    /// Of the block.
    pub(super) const fn slice(self) -> SliceId {
        self.slice
    }

    /// Of the block in its stripe.
    pub(super) const fn index(self) -> usize {
        self.index as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::SMALL;

    /// Item `number`, of the leaf of that number.
    fn item(number: u32) -> Item {
        Item {
            volume: VolumeId(1),
            lba: Lba(u64::from(number) * 512),
            old: Ppa::ABSENT,
            birth: Lsn(number.into()),
            crc: 0,
            at: number,
            class: 0,
        }
    }

    fn blocks() -> Rc<Blocks> {
        Rc::new(Blocks::elided(64))
    }

    fn numbers(stripe: &Stripe) -> Vec<u64> {
        stripe.items.iter().map(|item| item.birth.0).collect()
    }

    /// Runs are cut where stripes end, whatever lies where.
    #[test]
    fn stripes_take_what_is_first() {
        let progress: [Rc<Progress>; 2] = core::array::from_fn(|_| Rc::default());
        let mut queue = Queue::default();
        queue.push((0..0).map(item), &blocks(), &progress[0]);
        queue.push((0..5).map(item), &blocks(), &progress[0]);
        queue.push((5..7).map(item), &blocks(), &progress[0]);
        queue.push((7..12).map(item), &blocks(), &progress[1]);
        let (first, second) = (queue.take(3), queue.take(5));
        assert_eq!(numbers(&first), [0, 1, 2]);
        assert_eq!(numbers(&second), [3, 4, 5, 6, 7]);
        let lengths = |stripe: &Stripe| -> Vec<usize> {
            let runs = stripe.by_run();
            runs.map(|(run, items)| {
                assert_eq!(run.count, items.len());
                run.count
            })
            .collect()
        };
        assert_eq!(lengths(&first), [3]);
        assert_eq!(lengths(&second), [2, 2, 1]);
        let mut last = Queue::default();
        last.append(queue);
        assert_eq!(numbers(&last.take_all()), [8, 9, 10, 11]);
        assert!(last.is_empty());
    }

    #[test]
    fn slices_follow_one_another() {
        let geometry = Geometry { slices: 3, ..SMALL };
        let mut queue = Queue::default();
        let all = [5, 2, 8, 0, 1, 4, 7].into_iter().map(item);
        queue.push(all, &blocks(), &Rc::default());
        let turns = queue.take_all().by_slice(&geometry);
        let found: Vec<_> = turns
            .iter()
            .map(|turn| (turn.slice.0, turn.index))
            .collect();
        // Volume 1: leaf 2 is the first slice's.
        let expected = [(0, 0), (0, 1), (0, 2), (1, 3), (2, 4), (2, 5), (2, 6)];
        assert_eq!(found, expected);
    }

    /// Each unit is told of its own blocks, wherever they are in the stripe.
    #[test]
    fn units_hear_of_their_blocks() {
        let progress: [Rc<Progress>; 2] = core::array::from_fn(|_| Rc::default());
        let mut queue = Queue::default();
        for (count, unit) in [(2, 0), (3, 1), (1, 0)] {
            queue.push((0..count).map(item), &blocks(), &progress[unit]);
            progress[unit].add(count as usize);
        }
        let turn = |index| Turn {
            slice: SliceId(0),
            index,
        };
        let left = queue.take_all().left();
        let parties = [
            left.party(&[turn(1), turn(3), turn(5)]),
            left.party(&[turn(0), turn(2), turn(4)]),
        ];
        assert_eq!(parties.each_ref().map(Party::count), [3, 3]);
        parties.iter().for_each(|party| party.done(true));
        let outstanding = progress.each_ref().map(|one| one.outstanding());
        assert_eq!(outstanding, [0, 0]);
    }
}
