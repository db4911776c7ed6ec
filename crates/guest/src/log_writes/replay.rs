//! Brings a drive into the states it may be left in by a loss of power, one after another.

use super::{Action, Entry, Log, LogError};
use std::io::{Read, Seek, SeekFrom, Write};

/// Bytes copied at once; a multiple of every size of sectors.
const COPY_BYTES: usize = 64 * 1_024;

/// A part is drawn in front of one in so many points that change something: in front of most, there is but one write.
const PARTS_IN: u64 = 4;

/// Counts what a replay did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Entries that were read.
    pub entries: u64,
    /// States with all of the log up to a flush or FUA that were tried.
    pub points: u64,
    /// Flushes behind which the drive holds what it did at the last state tried, with no mark in between: not tried again.
    pub repeats: u64,
    /// States at a flush or FUA that were not drawn.
    pub passed_over: u64,
    /// States with a drawn part of what came behind one that were tried.
    pub parts: u64,
}

/// A replay of a log onto a drive.
pub struct Replay<R, W> {
    /// The log.
    pub log: Log<R>,
    /// The drive, or a file in its place, as it was when the log began.
    pub drive: W,
    /// States are tried from the mark with this text on; from the beginning if there is none.
    pub from: Option<String>,
    /// Where chance begins; without it, no parts are drawn, and every state is tried.
    pub seed: Option<u64>,
    /// With chance, one state in so many is tried: of a long log each would take too long.
    pub one_in: u64,
}

impl<R: Read + Seek, W: Write + Seek> Replay<R, W> {
    /// Replays all; `attempt` is called for each state, with the text of the last mark before it.
    /// The drive must not have changed when it returns.
    ///
    /// A part of an interval between two points is what a drive may hold if the power fails
    /// before the second: of each write all, nothing, or some sectors. It is followed by the whole
    /// interval, which covers all that the part has changed.
    ///
    /// # Errors
    /// If the log or the drive fails, or with the error of `attempt`.
    pub fn run<E: From<LogError>>(
        mut self,
        attempt: &mut dyn FnMut(&str) -> Result<(), E>,
    ) -> Result<Tally, E> {
        let mut tally = Tally::default();
        let mut chance = self.seed.map(Chance);
        let mut on = self.from.is_none();
        let mut mark = String::new();
        let mut interval: Vec<Entry> = Vec::new();
        let mut is_tried = false;
        while let Some(entry) = self.log.next_entry()? {
            tally.entries += 1;
            if let Action::Mark(text) = &entry.action {
                // What is logged in front of a mark had completed, and is no part of a later
                // interval's choice: the mark says that it is safe.
                on |= self.from.as_ref() == Some(text);
                mark.clone_from(text);
                is_tried = false;
                continue;
            }
            let is_point = entry.is_point;
            is_tried &= entry.len_bytes == 0;
            interval.push(entry);
            if !is_point {
                continue;
            }
            if is_tried {
                tally.repeats += 1;
                interval.clear();
                continue;
            }
            let is_drawn = chance
                .as_mut()
                .is_none_or(|chance| chance.next().is_multiple_of(self.one_in));
            let is_wanted = on && is_drawn;
            tally.passed_over += u64::from(on && !is_drawn);
            if is_wanted
                && let Some(chance) = &mut chance
                && chance.next().is_multiple_of(PARTS_IN)
            {
                for entry in &interval {
                    self.apply_part(entry, chance)?;
                }
                self.settle()?;
                attempt(&mark)?;
                tally.parts += 1;
            }
            for entry in interval.drain(..) {
                self.apply(&entry, 0..entry.len_bytes)?;
            }
            if is_wanted {
                self.settle()?;
                attempt(&mark)?;
                tally.points += 1;
                is_tried = true;
            }
        }
        Ok(tally)
    }

    fn apply_part(&mut self, entry: &Entry, chance: &mut Chance) -> Result<(), LogError> {
        match chance.next() % 4 {
            0 => Ok(()),
            1 => {
                let sector = self.log.sector_bytes();
                for at in (0..entry.len_bytes).step_by(usize::try_from(sector).expect("4096")) {
                    if chance.next().is_multiple_of(2) {
                        self.apply(entry, at..at + sector)?;
                    }
                }
                Ok(())
            }
            _ => self.apply(entry, 0..entry.len_bytes),
        }
    }

    /// Does to the drive what `entry` did, within `range` bytes of it.
    fn apply(&mut self, entry: &Entry, range: std::ops::Range<u64>) -> Result<(), LogError> {
        let mut buffer = [0; COPY_BYTES];
        self.drive
            .seek(SeekFrom::Start(entry.place_bytes + range.start))?;
        let mut at = range.start;
        while at < range.end {
            let len = usize::try_from(range.end - at)
                .unwrap_or(COPY_BYTES)
                .min(COPY_BYTES);
            let buffer = &mut buffer[..len];
            match entry.action {
                Action::Write => self.log.read_data(entry, at, buffer)?,
                // A drive may return anything for what was discarded; ours return zeroes.
                Action::Discard => buffer.fill(0),
                Action::Mark(_) => unreachable!("a mark does nothing to the drive"),
            }
            self.drive.write_all(buffer)?;
            at += len as u64;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), LogError> {
        Ok(self.drive.flush()?)
    }
}

/// Numbers drawn from a seed (splitmix64, by S. Vigna).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SECTOR, log};
    use super::super::{FLUSH, FUA, MARK};
    use super::*;
    use std::cell::RefCell;
    use std::io::{self, Cursor};
    use std::rc::Rc;

    /// A drive that the attempts can look at.
    #[derive(Clone)]
    struct Shared(Rc<RefCell<Cursor<Vec<u8>>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Shared {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.borrow_mut().seek(to)
        }
    }

    /// The states of a replay: last mark and first byte of each sector.
    fn states(bytes: Vec<u8>, from: Option<&str>, seed: Option<u64>) -> (Tally, Vec<String>) {
        drawn_states(bytes, from, seed, 1)
    }

    fn drawn_states(
        bytes: Vec<u8>,
        from: Option<&str>,
        seed: Option<u64>,
        one_in: u64,
    ) -> (Tally, Vec<String>) {
        let drive = Shared(Rc::new(RefCell::new(Cursor::new(vec![0; 4 * SECTOR]))));
        let replay = Replay {
            log: Log::open(Cursor::new(bytes)).unwrap(),
            drive: drive.clone(),
            from: from.map(str::to_owned),
            seed,
            one_in,
        };
        let mut states = Vec::new();
        let tally = replay.run::<LogError>(&mut |mark| {
            let drive = drive.0.borrow();
            let firsts = drive.get_ref().iter().step_by(SECTOR);
            let firsts: Vec<_> = firsts.map(u8::to_string).collect();
            states.push(format!("{mark}:{}", firsts.join("")));
            Ok(())
        });
        (tally.unwrap(), states)
    }

    fn example() -> Vec<u8> {
        let sector = |value| [value; SECTOR];
        log(&[
            (0, 0, &sector(1)),
            (1, FUA, &sector(2)),
            (0, MARK, b"a"),
            (2, 0, &sector(3)),
            (0, 0, &sector(4)),
            (0, FLUSH, &[]),
            (3, 0, &sector(5)),
        ])
    }

    #[test]
    fn states_are_those_of_flush_and_fua() {
        let (tally, found) = states(example(), None, None);
        assert_eq!(found, [":1200", "a:4230"]);
        assert_eq!((tally.entries, tally.points, tally.parts), (7, 2, 0));
        assert_eq!(states(example(), Some("a"), None).1, ["a:4230"]);
        assert_eq!(states(example(), Some("b"), None).0.points, 0);
    }

    /// A flush after which the drive is as it was is one state with the flush before, unless a mark asks for more of it.
    #[test]
    fn a_flush_of_nothing_is_no_state_of_its_own() {
        let bytes = log(&[
            (0, 0, &[1; SECTOR]),
            (0, FLUSH, &[]),
            (0, FLUSH, &[]),
            (0, MARK, b"a"),
            (0, FLUSH, &[]),
            (0, FLUSH, &[]),
            (1, FUA, &[2; SECTOR]),
            (0, FLUSH, &[]),
        ]);
        for seed in [None, Some(1), Some(2), Some(3)] {
            let (tally, found) = states(bytes.clone(), None, seed);
            let parts = tally.parts as usize;
            assert_eq!((tally.points, tally.repeats), (3, 3));
            assert_eq!(found.len(), 3 + parts);
            assert_eq!(found.last().map(String::as_str), Some("a:1200"));
            assert!(found.contains(&":1000".to_owned()) && found.contains(&"a:1000".to_owned()));
        }
        assert_eq!(states(bytes, Some("a"), None).1, ["a:1000", "a:1200"]);
    }

    /// What is not drawn is done all the same, and told.
    #[test]
    fn one_state_in_some_is_tried() {
        let mut tried = 0;
        for seed in 0..64 {
            let (tally, found) = drawn_states(example(), None, Some(seed), 3);
            assert_eq!(tally.points + tally.passed_over, 2);
            assert_eq!(tally.points + tally.parts, found.len() as u64);
            let is_whole = |state: &String| [":1200", "a:4230"].contains(&&**state);
            assert!(found.last().is_none_or(is_whole), "{found:?}");
            tried += tally.points;
        }
        assert!((25..60).contains(&tried), "{tried} of 128");
    }

    #[test]
    fn parts_are_drawn_from_what_is_not_safe_yet() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..256 {
            let (tally, mut found) = states(example(), Some("a"), Some(seed));
            assert_eq!(
                found.pop().as_deref(),
                Some("a:4230"),
                "the whole covers the part"
            );
            assert_eq!(tally.parts, found.len() as u64);
            seen.extend(found);
        }
        let seen: Vec<_> = seen.iter().map(String::as_str).collect();
        assert_eq!(seen, ["a:1200", "a:1230", "a:4200", "a:4230"]);
    }
}
