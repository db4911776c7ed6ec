//! Which paths belong to which pool, remembered between commands.
//!
//! **Invariant**: what it says is a hint; the labels on the drives decide.

use crate::random;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use varve_pool::label::PoolId;

/// Version of the file.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// One pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its identity, 32 hexadecimal digits.
    pub id: String,
    /// Its drives.
    pub paths: Vec<PathBuf>,
    /// It is being destroyed: some of its drives may have no label any more, the others are to lose theirs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub destroying: bool,
    /// Drives that take the place of others, by the name of the place: begun, and not known to have ended.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replacing: BTreeMap<String, PathBuf>,
}

impl Entry {
    /// A pool of which nothing else is known.
    pub(crate) fn new(id: PoolId) -> Self {
        Self {
            name: String::new(),
            id: random::hex(&id.0),
            paths: Vec::new(),
            destroying: false,
            replacing: BTreeMap::new(),
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// All pools this machine knows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Registry {
    pub(crate) schema_version: u32,
    /// The pools, by name.
    pub pools: Vec<Entry>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            pools: Vec::new(),
        }
    }
}

impl Registry {
    /// The pool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.pools.iter().find(|entry| entry.name == name)
    }

    /// Adds a pool, or replaces what is known of it.
    pub fn put(&mut self, entry: Entry) {
        self.pools.retain(|other| other.id != entry.id);
        self.pools.push(entry);
        self.pools.sort_by(|one, other| one.name.cmp(&other.name));
    }

    /// Forgets a pool.
    pub fn remove(&mut self, id: &str) {
        self.pools.retain(|entry| entry.id != id);
    }
}
