//! Which volume has which namespace number: remembered, so that hosts find it where it was.
//!
//! **Invariant**: a number is remembered durably before hosts see it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
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
}

impl fmt::Display for NumbersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Damaged(path) => write!(f, "{} is not what was written there", path.display()),
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
        Ok(Self { path, table })
    }

    /// The number of a volume; it gets one if it has none. New numbers are above all that were ever given while
    /// there are such: a host that has not heard yet that a volume was deleted must not write to another.
    ///
    /// # Errors
    /// All are taken, or the file cannot be written.
    pub fn of(&mut self, uuid: &[u8; 16]) -> Result<u32, NumbersError> {
        let key = key(uuid);
        if let Some(nsid) = self.table.namespaces.get(&key) {
            return Ok(*nsid);
        }
        let is_free = |nsid: &u32| !self.table.namespaces.values().any(|taken| taken == nsid);
        // Files of earlier versions do not have it.
        let given = self.table.namespaces.values().max().copied().unwrap_or(0);
        let highest = self.table.highest.max(given);
        let nsid = (highest + 1..=NSID_MAX).next();
        let nsid = nsid.or_else(|| (1..=NSID_MAX).find(is_free));
        let nsid = nsid.ok_or(NumbersError::Full)?;
        let mut table = self.table.clone();
        table.namespaces.insert(key, nsid);
        table.highest = highest.max(nsid);
        self.replace(table)?;
        Ok(nsid)
    }

    /// Forgets a volume that was deleted; gives the number that it had.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn forget(&mut self, uuid: &[u8; 16]) -> Result<Option<u32>, NumbersError> {
        let mut table = self.table.clone();
        let nsid = table.namespaces.remove(&key(uuid));
        if let Some(nsid) = nsid {
            table.highest = table.highest.max(nsid);
            self.replace(table)?;
        }
        Ok(nsid)
    }

    /// Replaces the file as a whole or not at all.
    fn replace(&mut self, table: Table) -> Result<(), NumbersError> {
        let draft = self.path.with_extension("new");
        let mut text = serde_json::to_vec_pretty(&table).expect("named fields only");
        text.push(b'\n');
        let write = || {
            let mut file = File::create(&draft)?;
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&draft, &self.path)?;
            let directory = self.path.parent().unwrap_or(Path::new("."));
            File::open(directory)?.sync_all()
        };
        write().map_err(|error| NumbersError::File(self.path.clone(), error))?;
        self.table = table;
        Ok(())
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
        assert_eq!(numbers.of(&[1; 16]).unwrap(), 1);
        assert_eq!(numbers.of(&[2; 16]).unwrap(), 2);
        assert_eq!(numbers.of(&[1; 16]).unwrap(), 1);
        let mut again = Numbers::open(&directory.0).unwrap();
        assert_eq!(again.of(&[2; 16]).unwrap(), 2);
        assert_eq!(again.forget(&[1; 16]).unwrap(), Some(1));
        assert_eq!(again.forget(&[1; 16]).unwrap(), None);
        assert_eq!(again.of(&[3; 16]).unwrap(), 3, "not the one just given up");
        assert_eq!(again.forget(&[3; 16]).unwrap(), Some(3));
        let mut again = Numbers::open(&directory.0).unwrap();
        assert_eq!(again.of(&[4; 16]).unwrap(), 4, "nor the highest");
        let mut last = Numbers::open(&directory.0).unwrap();
        assert_eq!(last.table, again.table);
        for number in 5..=NSID_MAX {
            let mut uuid = [9; 16];
            uuid[..4].copy_from_slice(&number.to_le_bytes());
            last.table.namespaces.insert(key(&uuid), number);
        }
        assert_eq!(last.of(&[5; 16]).unwrap(), 1, "the lowest that is left");
        assert_eq!(last.of(&[6; 16]).unwrap(), 3);
        assert!(matches!(last.of(&[7; 16]), Err(NumbersError::Full)));
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
