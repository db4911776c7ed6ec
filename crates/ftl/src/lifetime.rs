//! How long blocks live: a class for each, learnt from when they were overwritten.
//!
//! A class is an octave of the time between two writes of a block: class [`TURN`] stands for one turn of the log (what is
//! written while its oldest chunk waits to be emptied), each class below for half as much, each above for twice as much.
//! A block's class follows what happens to it by a step or two each time, so one write that comes early or late tells
//! little; a gap that is long tells more than one that is short.
//!
//! Ages are those of the chunk or group in which a block lies, in LSNs, as of the last time a chunk was opened
//! ([`Lifetimes::refresh`]): they are worked out when they are asked for, since that is for few of many units. Classes
//! stand in the map's leaves (`Placement`); a block that is written while its leaf is not at hand is [`UNTOLD`] until the
//! leaf is. Those of what lies in the log are kept here too, half a byte each: who empties a chunk reads no leaves.
//!
//! **Not here**: what is done about it (`retention`).
//!
//! **Invariants**: a class is a hint. Nothing that is right or wrong depends on one; a start forgets all but what
//! leaves, and records of what was kept, say.

use crate::geometry::{BLOCK_SECTORS, Geometry, Tier, UnitId};
use crate::units::UnitTable;
use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU8, AtomicU64};
use varve_format::Placement;
use varve_units::{Lsn, Ppa};
use zerocopy::FromZeros;

/// Classes of blocks that have one.
pub(crate) const CLASSES: u8 = 15;
/// A block without a class.
pub(crate) const UNTOLD: u8 = Placement::UNTOLD;
/// Class of what is overwritten once in a turn of the log.
const TURN: u32 = 8;
/// Class of a block that was not there before.
const UNKNOWN: u8 = Placement::UNKNOWN;
/// Weight of the chunk that was emptied last: one of so many. Arbitrary.
const SMOOTHING: u64 = 16;

/// The class of a block that was overwritten at an age of class `age`.
const fn overwritten(class: u8, age: u8) -> u8 {
    if class >= CLASSES {
        return age;
    }
    match age as i8 - class as i8 {
        3.. => age - 1,
        1.. => class + 1,
        0 => class,
        -3..=-1 => class - 1,
        _ => class - 2,
    }
}

/// The class of a block that has lived to an age of class `age`, and goes on living elsewhere.
const fn survived(class: u8, age: u8) -> u8 {
    if age >= class + 2 { age } else { class }
}

/// The class of `age` if the log's turn is `turn`: the nearest octave.
#[inline]
fn class_of(age: u64, turn: u64) -> u8 {
    // 16 bits behind the point, and half an octave so that what follows rounds.
    const HALF: u64 = 92_682;
    // More LSNs than a log ever has, and the product fits.
    const MOST: u64 = 1 << 47;
    let (age, turn) = (age.min(MOST) * HALF, turn.max(1));
    if age < turn {
        return 0;
    }
    // The logarithm of the whole quotient, without the division.
    let most = age.ilog2() - turn.ilog2();
    let log = most - u32::from(turn << most > age);
    (log + TURN).saturating_sub(16).min(u32::from(CLASSES) - 1) as u8
}

/// Ages of all chunks and groups, and the classes of what lies in the log.
pub(crate) struct Lifetimes {
    geometry: Geometry,
    /// Stamps of chunks and groups when ages were last looked at.
    chunks: Box<[AtomicU64]>,
    groups: Box<[AtomicU64]>,
    /// What ages are counted up to.
    seen_at: AtomicU64,
    /// The turn by which they are classes; 0 if no age is known.
    seen_turn: AtomicU64,
    /// LSNs from the opening of a chunk until it is emptied, on average; 0 if none was.
    turn: AtomicU64,
    /// Of each block of the log its class and one, two to a byte: zero is untold, as memory nobody has touched.
    classes: Box<[AtomicU8]>,
}

impl Lifetimes {
    /// Of the units of a pool; nothing is known yet.
    ///
    /// # Panics
    /// If there is no memory.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let stamps = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        let bytes = geometry.fast_sectors() / BLOCK_SECTORS / 2;
        // Zeroed by the allocator: a large pool takes its pages when they are first written.
        let classes = <[AtomicU8]>::new_box_zeroed_with_elems(bytes as usize);
        Self {
            geometry: *geometry,
            chunks: stamps(geometry.chunks),
            groups: stamps(geometry.groups),
            seen_at: AtomicU64::new(0),
            seen_turn: AtomicU64::new(0),
            turn: AtomicU64::new(0),
            classes: classes.expect("memory for classes"),
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        let stamps = self.chunks.len() + self.groups.len();
        (stamps * size_of::<AtomicU64>() + self.classes.len()) as u64
    }

    fn stamp(&self, unit: UnitId) -> &AtomicU64 {
        match unit.tier {
            Tier::Fast => &self.chunks[unit.index as usize],
            Tier::Dense => &self.groups[unit.index as usize],
        }
    }

    /// Age of the block at a place as a class; `None` if it is not known, or the place is none.
    #[inline]
    fn age(&self, ppa: Ppa) -> Option<u8> {
        let unit = self.geometry.unit_of(ppa)?;
        // Relaxed, as all here: hints, and no other memory depends on them.
        let turn = self.seen_turn.load(Relaxed);
        if turn == 0 {
            return None;
        }
        let (now, stamp) = (self.seen_at.load(Relaxed), self.stamp(unit).load(Relaxed));
        Some(class_of(now.saturating_sub(stamp), turn))
    }

    /// The byte and the place in it of a block of the log.
    #[inline]
    fn nibble(&self, ppa: Ppa) -> Option<(&AtomicU8, u32)> {
        if !ppa.is_place() || ppa.bits() < self.geometry.dense_blocks() {
            return None;
        }
        let block = ppa.sectors_below_reserved() / BLOCK_SECTORS;
        let byte = self.classes.get((block / 2) as usize)?;
        Some((byte, (block % 2) as u32 * 4))
    }

    /// The class of what lies at a place of the log; `None` if nobody knows.
    pub(crate) fn class_at(&self, ppa: Ppa) -> Option<u8> {
        let (byte, shift) = self.nibble(ppa)?;
        (byte.load(Relaxed) >> shift & 15).checked_sub(1)
    }

    /// What lies at a place has this class. Of two reactors that tell so of neighbours at once one may not be heard.
    #[inline]
    fn note(&self, ppa: Ppa, class: u8) {
        if let Some((byte, shift)) = self.nibble(ppa) {
            let others = byte.load(Relaxed) & !(15 << shift);
            let told = if class < CLASSES { class + 1 } else { 0 };
            byte.store(others | told << shift, Relaxed);
        }
    }

    /// State of a block that a host writes to `new`, over what is known to have been there: nothing if that is
    /// no place.
    #[inline]
    pub(crate) fn put(&self, new: Ppa, (old, was): (Ppa, Placement)) -> Placement {
        let class = match self.age(old) {
            Some(age) => overwritten(was.class(), age),
            None if old.is_place() => was.class(),
            None => UNKNOWN,
        };
        self.note(new, class);
        Placement::new(class, false)
    }

    /// The same where it is not known what was there.
    #[inline]
    pub(crate) fn put_blind(&self, new: Ppa) -> Placement {
        self.note(new, UNTOLD);
        Placement::new(UNTOLD, false)
    }

    /// State of a block that was written blindly, and perhaps moved since: now it is known what was there before it.
    pub(crate) fn tell(&self, put: (Ppa, Placement), before: (Ppa, Placement)) -> Placement {
        let (ppa, placement) = put;
        if placement.class() != UNTOLD {
            return placement;
        }
        let told = self.put(ppa, before);
        Placement::new(told.class(), placement.is_moved())
    }

    /// State of a block that was moved from its place to `new`; `class` is what its record says, if that is one.
    #[inline]
    pub(crate) fn moved(&self, new: Ppa, (old, was): (Ppa, Placement), class: u8) -> Placement {
        let class = match class {
            ..CLASSES => class,
            _ => {
                let age = self.age(old);
                age.map_or(was.class(), |age| survived(was.class(), age))
            }
        };
        self.note(new, class);
        Placement::new(class, true)
    }

    /// The same where it is not known what was there.
    pub(crate) fn moved_blind(&self, new: Ppa, class: u8) -> Placement {
        self.note(new, class);
        Placement::new(class, true)
    }

    /// The class of a block that was written at `birth` and is about to be moved.
    pub(crate) fn aged(&self, class: u8, now: Lsn, birth: Lsn) -> u8 {
        let age = now.0.saturating_sub(birth.0);
        match self.turn.load(Relaxed) {
            0 => class,
            turn => survived(class, class_of(age, turn)),
        }
    }

    /// The birth of the oldest blocks that came from the log to a group that was opened at `opened`, as far as age tells: less
    /// than two turns of that. One that stayed there for long is taken for one that was collected. `None` if no turn is known.
    pub(crate) fn oldest_of_log(&self, opened: Lsn) -> Option<Lsn> {
        let turn = self.turn.load(Relaxed);
        (turn > 0).then(|| Lsn(opened.0.saturating_sub(2 * turn - 1)))
    }

    /// A chunk that was opened at `opened` is emptied.
    pub(crate) fn note_turn(&self, now: Lsn, opened: Lsn) {
        let newest = now.0.saturating_sub(opened.0).max(1);
        let turn = match self.turn.load(Relaxed) {
            0 => newest,
            turn => turn - turn / SMOOTHING + newest / SMOOTHING,
        };
        self.turn.store(turn.max(1), Relaxed);
    }

    /// Ages are those at `now` from here on: a chunk was opened.
    pub(crate) fn refresh(&self, units: &UnitTable, now: Lsn) {
        let turn = self.turn.load(Relaxed);
        if turn == 0 {
            return;
        }
        let stamp = |unit| self.stamp(unit).store(units.unit(unit).stamp().0, Relaxed);
        units.restamped.take(stamp);
        self.seen_at.store(now.0, Relaxed);
        self.seen_turn.store(turn, Relaxed);
    }
}

impl fmt::Debug for Lifetimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "lifetimes of {} units",
            self.chunks.len() + self.groups.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::SMALL;

    /// A turn is class 8, each octave one more or less, rounded at half of one.
    #[test]
    fn classes_are_octaves_of_a_turn() {
        let classes = |ages: &[u64]| -> alloc::vec::Vec<u8> {
            ages.iter().map(|age| class_of(*age, 1000)).collect()
        };
        assert_eq!(classes(&[1000, 700, 720, 1400, 1430]), [8, 7, 8, 8, 9]);
        assert_eq!(
            classes(&[0, 1, 4, 250, 4000, u64::MAX]),
            [0, 0, 0, 6, 10, 14]
        );
        assert_eq!(class_of(5, 0), class_of(5, 1));
        let divided = |age: u64, turn: u64| {
            let log = (age * 92_682 / turn).checked_ilog2();
            log.map_or(0, |log| (log + TURN).saturating_sub(16).min(14))
        };
        for turn in 1..200 {
            let ages = (0..300).chain((0..30).map(|octave| turn << octave));
            for age in ages {
                let (found, wanted) = (class_of(age, turn), divided(age, turn));
                assert_eq!(u32::from(found), wanted, "{age} of {turn}");
            }
        }
    }

    /// Whatever its class was, a block that is overwritten at one age again and again comes to that class.
    #[test]
    fn classes_follow_what_happens() {
        for class in 0..CLASSES {
            for age in 0..CLASSES {
                let mut now = class;
                for _ in 0..CLASSES {
                    now = overwritten(now, age);
                    assert!(now < CLASSES);
                }
                assert_eq!(now, age, "from {class}");
                assert!(survived(class, age) < CLASSES);
            }
        }
        assert_eq!(overwritten(UNKNOWN, 4), 9, "one early write");
        assert_eq!(overwritten(4, 11), 10, "one late one");
        assert_eq!((survived(5, 6), survived(5, 8)), (5, 8));
        assert_eq!(survived(UNTOLD, 14), UNTOLD);
    }

    /// A block of the log has the class that was told last of its place, its neighbours theirs; a place elsewhere has
    /// none.
    #[test]
    fn places_of_the_log_have_classes() {
        let lifetimes = Lifetimes::new(&SMALL);
        // Blocks lie behind heads of batches, at any sector.
        let places = [9, 17, 25, 33].map(Ppa::fast);
        let classes = || places.map(|ppa| lifetimes.class_at(ppa));
        assert_eq!(classes(), [None; 4]);
        let (blank, was) = (Placement::default(), Placement::new(3, false));
        assert_eq!(
            lifetimes.put(places[1], (Ppa::ABSENT, blank)).class(),
            UNKNOWN
        );
        assert_eq!(
            lifetimes.put(places[2], (places[0], was)).class(),
            3,
            "no age is known"
        );
        let blind = lifetimes.put_blind(places[3]);
        assert_eq!(classes(), [None, Some(UNKNOWN), Some(3), None]);
        let told = lifetimes.tell((places[3], blind), (Ppa::dense(7), was));
        assert_eq!((told.class(), told.is_moved()), (3, false));
        assert_eq!(classes()[3], Some(3));
        assert_eq!(
            lifetimes.tell((places[3], told), (Ppa::dense(7), blank)),
            told
        );
        let moved = lifetimes.moved(Ppa::dense(8), (places[3], told), UNTOLD);
        assert_eq!((moved.class(), moved.is_moved()), (3, true));
        let moved = lifetimes.moved(Ppa::dense(8), (places[3], told), 9);
        assert_eq!(moved.class(), 9, "who moved it knew better");
        assert_eq!(lifetimes.class_at(Ppa::dense(8)), None);
        lifetimes.put_blind(places[2]);
        assert_eq!(classes(), [None, Some(UNKNOWN), None, Some(3)]);
    }

    /// What is younger than two turns when its group is opened came from the log.
    #[test]
    fn what_is_young_is_of_the_log() {
        let lifetimes = Lifetimes::new(&SMALL);
        let oldest = || lifetimes.oldest_of_log(Lsn(10_000));
        assert_eq!(oldest(), None, "no turn is known");
        lifetimes.note_turn(Lsn(5_000), Lsn(4_000));
        assert_eq!(oldest(), Some(Lsn(8_001)));
        assert_eq!(lifetimes.oldest_of_log(Lsn(1_000)), Some(Lsn::ZERO));
    }

    /// A block that is kept again and again without being written gets older by all of its life.
    #[test]
    fn what_is_kept_grows_old() {
        let lifetimes = Lifetimes::new(&SMALL);
        assert_eq!(lifetimes.aged(7, Lsn(5_000), Lsn(0)), 7, "no turn is known");
        (0..100).for_each(|_| lifetimes.note_turn(Lsn(5_000), Lsn(4_000)));
        let after = |turns: u64| lifetimes.aged(7, Lsn(10_000 + turns * 1_000), Lsn(10_000));
        assert_eq!([1, 2, 4, 8].map(after), [7, 9, 10, 11]);
        (0..100).for_each(|_| lifetimes.note_turn(Lsn(5_000), Lsn(3_000)));
        assert_eq!([2, 4, 8].map(after), [7, 9, 10]);
    }
}
