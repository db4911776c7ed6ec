//! Which volume has which namespace number: remembered, so that hosts find it where it was.
//!
//! **Invariant**: a number is remembered durably before it is told, so before hosts see it.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use varve_hostio::replace_file;
use varve_target::NSID_MAX;

/// Version of the file.
const SCHEMA_VERSION: u32 = 1;
/// Its name in the state directory.
const FILE: &str = "namespaces.json";

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
struct Table {
    schema_version: u32,
    /// Number by UUID, 32 hexadecimal digits.
    namespaces: BTreeMap<String, u32>,
    /// The highest number that was ever given, to volumes that are gone too.
    #[serde(default)]
    highest: u32,
}

/// The numbers of volumes.
#[derive(Debug)]
pub struct Numbers {
    path: PathBuf,
    /// As it is in the file.
    saved: Table,
    /// As it is to be.
    table: Table,
}

/// What is to be remembered; it can be saved by any thread.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    table: Table,
}

/// Why there is no number.
#[derive(Debug)]
#[non_exhaustive]
pub enum NumbersError {
    /// The file cannot be read or written.
    File(PathBuf, io::Error),
    /// The file holds something else, or is of another version.
    Damaged(PathBuf),
    /// All numbers are taken.
    Full,
    /// There can be no thread that would save them.
    NoThread(io::Error),
}

impl fmt::Display for NumbersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Damaged(path) => write!(f, "{} is not what was written there", path.display()),
            Self::NoThread(error) => write!(f, "no thread to save them: {error}"),
            Self::Full => write!(f, "all {NSID_MAX} namespace numbers are taken"),
        }
    }
}

impl std::error::Error for NumbersError {}

impl Numbers {
    /// Reads what is remembered in a state directory.
    ///
    /// # Errors
    /// The file cannot be read or is damaged.
    pub fn open(directory: &Path) -> Result<Self, NumbersError> {
        let path = directory.join(FILE);
        let table = match std::fs::read(&path) {
            Ok(text) => {
                let table = serde_json::from_slice(&text).ok().filter(is_good);
                table.ok_or_else(|| NumbersError::Damaged(path.clone()))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Table {
                schema_version: SCHEMA_VERSION,
                namespaces: BTreeMap::new(),
                highest: 0,
            },
            Err(error) => return Err(NumbersError::File(path, error)),
        };
        Ok(Self {
            path,
            saved: table.clone(),
            table,
        })
    }

    /// The number of a volume, if it is remembered durably. One that has none gets one, told once the next
    /// [draft](Self::draft) was saved. New numbers are above all that were ever given while there are such: a host
    /// that has not heard yet that a volume was deleted must not write to another.
    ///
    /// # Errors
    /// All are taken.
    pub fn of(&mut self, uuid: &[u8; 16]) -> Result<Option<u32>, NumbersError> {
        let key = key(uuid);
        if let Some(nsid) = self.table.namespaces.get(&key) {
            let saved = self.saved.namespaces.get(&key);
            return Ok(saved.filter(|saved| *saved == nsid).copied());
        }
        let is_free = |nsid: &u32| !self.table.namespaces.values().any(|taken| taken == nsid);
        // Files of earlier versions do not have it.
        let given = self.table.namespaces.values().max().copied().unwrap_or(0);
        let highest = self.table.highest.max(given);
        let nsid = (highest + 1..=NSID_MAX).next();
        let nsid = nsid.or_else(|| (1..=NSID_MAX).find(is_free));
        let nsid = nsid.ok_or(NumbersError::Full)?;
        self.table.namespaces.insert(key, nsid);
        self.table.highest = highest.max(nsid);
        Ok(None)
    }

    /// The number of a volume, if it is remembered durably; none is given.
    #[must_use]
    pub fn get(&self, uuid: &[u8; 16]) -> Option<u32> {
        self.saved.namespaces.get(&key(uuid)).copied()
    }

    /// Forgets a volume that was deleted, durably once the next draft was saved.
    pub fn forget(&mut self, uuid: &[u8; 16]) {
        if let Some(nsid) = self.table.namespaces.remove(&key(uuid)) {
            self.table.highest = self.table.highest.max(nsid);
        }
    }

    /// Forgets all volumes but these.
    pub fn keep<'a>(&mut self, uuids: impl Iterator<Item = &'a [u8; 16]>) {
        let kept: BTreeSet<String> = uuids.map(key).collect();
        self.table.namespaces.retain(|key, _| kept.contains(key));
    }

    /// What is to be saved, if something is. Drafts are saved one at a time.
    #[must_use]
    pub fn draft(&self) -> Option<Draft> {
        let is_changed = self.table != self.saved;
        is_changed.then(|| Draft {
            path: self.path.clone(),
            table: self.table.clone(),
        })
    }

    /// A draft was saved.
    pub fn saved(&mut self, draft: Draft) {
        self.saved = draft.table;
    }
}

impl Draft {
    /// Makes it durable; it waits for the file system.
    ///
    /// # Errors
    /// The file cannot be written: it is as it was.
    pub fn save(self) -> Result<Self, NumbersError> {
        let mut text = serde_json::to_vec_pretty(&self.table).expect("named fields only");
        text.push(b'\n');
        match replace_file(&self.path, &text) {
            Ok(()) => Ok(self),
            Err(error) => Err(NumbersError::File(self.path, error)),
        }
    }
}

/// A UUID as the file's key: hexadecimal digits.
fn key(uuid: &[u8; 16]) -> String {
    uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Numbers that are possible, each once.
fn is_good(table: &Table) -> bool {
    let mut numbers: Vec<u32> = table.namespaces.values().copied().collect();
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    table.schema_version == SCHEMA_VERSION
        && numbers.len() == count
        && table.highest <= NSID_MAX
        && numbers.iter().all(|nsid| (1..=NSID_MAX).contains(nsid))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let name = format!("varve-numbers-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn numbers_are_kept() {
        let directory = Directory::new("kept");
        let mut numbers = Numbers::open(&directory.0).unwrap();
        assert_eq!(given(&mut numbers, 1), 1);
        assert_eq!(given(&mut numbers, 2), 2);
        assert_eq!(given(&mut numbers, 1), 1);
        let mut again = Numbers::open(&directory.0).unwrap();
        assert!(again.draft().is_none(), "nothing is to be saved");
        assert_eq!(given(&mut again, 2), 2);
        again.forget(&[1; 16]);
        again.forget(&[1; 16]);
        assert_eq!(given(&mut again, 3), 3, "not the one just given up");
        again.forget(&[3; 16]);
        save(&mut again);
        let mut again = Numbers::open(&directory.0).unwrap();
        assert_eq!(given(&mut again, 4), 4, "nor the highest");
        let mut last = Numbers::open(&directory.0).unwrap();
        assert_eq!(last.table, again.table);
        for number in 5..=NSID_MAX {
            let mut uuid = [9; 16];
            uuid[..4].copy_from_slice(&number.to_le_bytes());
            last.table.namespaces.insert(key(&uuid), number);
        }
        assert_eq!(given(&mut last, 5), 1, "the lowest that is left");
        assert_eq!(given(&mut last, 6), 3);
        assert!(matches!(last.of(&[7; 16]), Err(NumbersError::Full)));
    }

    /// Where all are taken, those of volumes that are nowhere any more can be had again.
    #[test]
    fn what_is_not_kept_is_free() {
        let directory = Directory::new("keep");
        let mut numbers = Numbers::open(&directory.0).unwrap();
        for number in 1..=NSID_MAX {
            let mut uuid = [9; 16];
            uuid[..4].copy_from_slice(&number.to_le_bytes());
            numbers.table.namespaces.insert(key(&uuid), number);
        }
        assert!(matches!(numbers.of(&[7; 16]), Err(NumbersError::Full)));
        let mut kept = [9; 16];
        kept[..4].copy_from_slice(&1_u32.to_le_bytes());
        numbers.keep([&kept].into_iter());
        assert_eq!(given(&mut numbers, 7), 2, "the lowest that is free");
        assert_eq!(numbers.get(&kept), Some(1));
    }

    /// What was given or forgotten while a draft was saved is in the next one.
    #[test]
    fn a_number_is_told_once_it_was_saved() {
        let directory = Directory::new("drafts");
        let mut numbers = Numbers::open(&directory.0).unwrap();
        assert_eq!(numbers.of(&[1; 16]).unwrap(), None);
        let first = numbers.draft().expect("a number to be saved");
        assert_eq!(numbers.of(&[2; 16]).unwrap(), None);
        numbers.saved(first.save().unwrap());
        assert_eq!(numbers.of(&[1; 16]).unwrap(), Some(1));
        assert_eq!(numbers.of(&[2; 16]).unwrap(), None);
        // Nowhere to save it: nothing is told, and it is still to be saved.
        std::fs::create_dir(directory.0.join(format!("{FILE}.new"))).unwrap();
        let failed = numbers.draft().expect("another one").save();
        assert!(matches!(failed, Err(NumbersError::File(..))));
        assert_eq!(numbers.of(&[2; 16]).unwrap(), None);
        std::fs::remove_dir(directory.0.join(format!("{FILE}.new"))).unwrap();
        assert_eq!(given(&mut numbers, 2), 2);
    }

    fn save(numbers: &mut Numbers) {
        if let Some(draft) = numbers.draft() {
            numbers.saved(draft.save().unwrap());
        }
    }

    /// The number of a volume once it is saved.
    fn given(numbers: &mut Numbers, volume: u8) -> u32 {
        let _ = numbers.of(&[volume; 16]).unwrap();
        save(numbers);
        numbers.of(&[volume; 16]).unwrap().expect("it was saved")
    }

    #[test]
    fn what_else_is_there_is_not_believed() {
        let directory = Directory::new("damaged");
        let path = directory.0.join(FILE);
        let twice = r#"{"schema_version":1,"namespaces":{"a":1,"b":1}}"#;
        let beyond = r#"{"schema_version":1,"namespaces":{"a":1025}}"#;
        let version = r#"{"schema_version":2,"namespaces":{}}"#;
        for text in ["", "{}", twice, beyond, version] {
            std::fs::write(&path, text).unwrap();
            let refused = Numbers::open(&directory.0);
            assert!(matches!(refused, Err(NumbersError::Damaged(_))), "{text}");
        }
    }
}
