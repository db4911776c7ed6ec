//! Reader of what the kernel's dm-log-writes has recorded of a drive.
//!
//! The log begins with a head in sector 0. Behind it come entries, each a sector with the entry
//! and, if it is a mark, its text, followed by the data that was written. A write that nobody had
//! flushed when it completed is logged with the flush that made it safe. So what stands in front
//! of an entry with flush or FUA, and that entry, is what the drive must hold once the entry has
//! completed; of what comes later it may hold any part.
//!
//! Source: the kernel's `drivers/md/dm-log-writes.c` and
//! `Documentation/admin-guide/device-mapper/log-writes.rst`. All numbers are little-endian; places
//! and lengths count sectors of the size the head states.

mod replay;

pub use replay::{Replay, Tally};

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

const MAGIC: u64 = 0x6a_7366_7773_6872;
const VERSION: u64 = 1;
/// Bytes of an entry in front of a mark's text.
const ENTRY_BYTES: usize = 32;
/// Largest sector a drive has here.
const SECTOR_BYTES_MAX: u32 = 4_096;

const FLUSH: u64 = 1;
const FUA: u64 = 1 << 1;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;
const METADATA: u64 = 1 << 4;

/// What a log cannot be, or why it cannot be read.
#[derive(Debug)]
pub enum LogError {
    /// Reading or writing failed.
    Io(io::Error),
    /// The first sector is no head of a log.
    NoLog,
    /// The head states a size of sectors that no drive has.
    SectorBytes(u32),
    /// An entry that means nothing.
    Entry {
        /// Its number, from 0.
        index: u64,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::NoLog => write!(f, "there is no log of dm-log-writes"),
            Self::SectorBytes(bytes) => write!(f, "the log states sectors of {bytes} bytes"),
            Self::Entry { index, why } => write!(f, "entry {index} of the log: {why}"),
        }
    }
}

impl std::error::Error for LogError {}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What was done to the drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Data was written, or nothing at all if the length is 0 (a bare flush).
    Write,
    /// The range was discarded.
    Discard,
    /// The user put a mark into the log.
    Mark(String),
}

/// One entry of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its number, from 0.
    pub index: u64,
    /// What was done.
    pub action: Action,
    /// Whether all before it, and it, is safe once it has completed.
    pub is_point: bool,
    /// Where on the drive, in bytes.
    pub place_bytes: u64,
    /// How much of the drive, in bytes.
    pub len_bytes: u64,
    /// Where in the log its data begin, in bytes.
    data_bytes: u64,
}

/// A log that is being read.
pub struct Log<R> {
    source: R,
    sector_bytes: u64,
    entries: u64,
    next: u64,
    place: u64,
}

impl<R: Read + Seek> Log<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(mut source: R) -> Result<Self, LogError> {
        source.seek(SeekFrom::Start(0))?;
        let mut head = [0; 28];
        source.read_exact(&mut head)?;
        if number(&head, 0) != MAGIC || number(&head, 1) != VERSION {
            return Err(LogError::NoLog);
        }
        let sector_bytes = u32::from_le_bytes([head[24], head[25], head[26], head[27]]);
        if !sector_bytes.is_power_of_two() || !(512..=SECTOR_BYTES_MAX).contains(&sector_bytes) {
            return Err(LogError::SectorBytes(sector_bytes));
        }
        Ok(Self {
            source,
            sector_bytes: sector_bytes.into(),
            entries: number(&head, 2),
            next: 0,
            place: sector_bytes.into(),
        })
    }

    /// The size of sectors in bytes.
    pub fn sector_bytes(&self) -> u64 {
        self.sector_bytes
    }

    /// The next entry; none at the end.
    ///
    /// # Errors
    /// If it cannot be read, or means nothing.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, LogError> {
        if self.next == self.entries {
            return Ok(None);
        }
        let index = self.next;
        let wrong = |why| LogError::Entry { index, why };
        self.source.seek(SeekFrom::Start(self.place))?;
        let mut sector = [0; SECTOR_BYTES_MAX as usize];
        let sector = &mut sector[..usize::try_from(self.sector_bytes).expect("4096 at most")];
        self.source.read_exact(sector)?;
        let bytes = |sectors: u64| {
            sectors
                .checked_mul(self.sector_bytes)
                .ok_or(wrong("its place is beyond any drive"))
        };
        let (place_bytes, len_bytes) = (bytes(number(sector, 0))?, bytes(number(sector, 1))?);
        let flags = number(sector, 2);
        if flags & !(FLUSH | FUA | DISCARD | MARK | METADATA) != 0 {
            return Err(wrong("unknown flags"));
        }
        let action = if flags & MARK != 0 {
            let len = usize::try_from(number(sector, 3)).unwrap_or(usize::MAX);
            let text = sector[ENTRY_BYTES..]
                .get(..len)
                .ok_or(wrong("the mark is too long"))?;
            Action::Mark(
                String::from_utf8_lossy(text)
                    .trim_end_matches('\0')
                    .to_owned(),
            )
        } else if flags & DISCARD != 0 {
            Action::Discard
        } else {
            Action::Write
        };
        let data_bytes = self.place + self.sector_bytes;
        let logged = if action == Action::Write {
            len_bytes
        } else {
            0
        };
        let end = |place: u64, len: u64| place.checked_add(len);
        self.place = end(data_bytes, logged).ok_or(wrong("its data are beyond any log"))?;
        end(place_bytes, len_bytes).ok_or(wrong("its end is beyond any drive"))?;
        self.next += 1;
        Ok(Some(Entry {
            index,
            action,
            is_point: flags & (FLUSH | FUA) != 0,
            place_bytes,
            len_bytes,
            data_bytes,
        }))
    }

    /// Reads what `entry` wrote, from `offset` bytes into it.
    ///
    /// # Errors
    /// If reading fails.
    ///
    /// # Panics
    /// If the entry did not write so much.
    pub fn read_data(&mut self, entry: &Entry, offset: u64, out: &mut [u8]) -> io::Result<()> {
        assert!(entry.action == Action::Write && offset + out.len() as u64 <= entry.len_bytes);
        self.source
            .seek(SeekFrom::Start(entry.data_bytes + offset))?;
        self.source.read_exact(out)
    }
}

/// The little-endian number `at` places of eight bytes into `bytes`.
fn number(bytes: &[u8], at: usize) -> u64 {
    let part = &bytes[8 * at..8 * (at + 1)];
    u64::from_le_bytes(part.try_into().expect("eight bytes"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Cursor;

    pub const SECTOR: usize = 512;

    /// Builds a log; entries are (sector, flags, data or the text of a mark).
    pub fn log(entries: &[(u64, u64, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; SECTOR];
        let words = [MAGIC, VERSION, entries.len() as u64, SECTOR as u64];
        bytes[..32].copy_from_slice(&words.map(u64::to_le_bytes).concat());
        for (sector, flags, data) in entries {
            let mark = flags & MARK != 0;
            let sectors = if mark { 0 } else { data.len() / SECTOR };
            let len = if mark { data.len() } else { 0 };
            let words = [*sector, sectors as u64, *flags, len as u64];
            let start = bytes.len();
            bytes.extend(words.map(u64::to_le_bytes).concat());
            if mark {
                bytes.extend(*data);
            }
            bytes.resize(start + SECTOR, 0);
            if flags & (MARK | DISCARD) == 0 {
                bytes.extend(*data);
            }
        }
        bytes
    }

    #[test]
    fn entries_are_read() {
        let data = [7; 2 * SECTOR];
        let bytes = log(&[
            (3, 0, &data),
            (0, FLUSH, &[]),
            (1, DISCARD, &[0; SECTOR]),
            (0, MARK, b"five"),
            (9, FUA | METADATA, &[1; SECTOR]),
        ]);
        let mut log = Log::open(Cursor::new(bytes)).unwrap();
        let first = log.next_entry().unwrap().unwrap();
        assert_eq!(
            (first.place_bytes, first.len_bytes, first.is_point),
            (1_536, 1_024, false)
        );
        let mut read = [0; 512];
        log.read_data(&first, 512, &mut read).unwrap();
        assert_eq!(read, data[..512]);
        let second = log.next_entry().unwrap().unwrap();
        assert_eq!(
            (second.action, second.len_bytes, second.is_point),
            (Action::Write, 0, true)
        );
        assert_eq!(log.next_entry().unwrap().unwrap().action, Action::Discard);
        let mark = log.next_entry().unwrap().unwrap();
        assert_eq!(
            (mark.action, mark.is_point),
            (Action::Mark("five".to_owned()), false)
        );
        assert!(log.next_entry().unwrap().unwrap().is_point);
        assert_eq!(log.next_entry().unwrap(), None);
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let good = log(&[(0, MARK, b"x")]);
        for (at, value) in [(0, 9), (8, 9), (24, 3), (512 + 16, 0xff), (512 + 24, 0xff)] {
            let mut bytes = good.clone();
            bytes[at] = value;
            bytes[at + 1] = value;
            let read = Log::open(Cursor::new(bytes)).and_then(|mut log| log.next_entry());
            assert!(read.is_err(), "{at}");
        }
        let far = log(&[(u64::MAX / 2, 0, &[0; SECTOR])]);
        assert!(Log::open(Cursor::new(far)).unwrap().next_entry().is_err());
        assert!(Log::open(Cursor::new(&good[..20])).is_err());
        let short = Log::open(Cursor::new(&good[..600])).unwrap().next_entry();
        assert!(matches!(short, Err(LogError::Io(_))));
    }
}
