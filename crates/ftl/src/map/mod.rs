//! The map of one shard, logical block to physical place, as a pure data structure.
//!
//! A leaf is its *parent* (where the base image stands in the log, and the LSN `through` which it
//! is folded), its *chain* (16-byte deltas of everything since), and perhaps a cached *image*
//! (base folded with chain: the present state). The chain is the only dirty state; images are
//! evicted without I/O. A merge writes the image to the log, switches the parent, drops the
//! prefix of the chain that it contains.
//!
//! **Invariants**
//! 1. For any T from the parent's `through` on: the state at T plus the chain's deltas younger
//!    than T is the present state. So a delta may only be replaced by a younger one that decides
//!    its index whatever came before, and two conditional moves are never joined.
//! 2. With the image cached the chain holds no conditional move, and all superseded places of
//!    base and chain have been reported dead.
//! 3. A conditional move is in a chain only if nothing before it decides its index there and the
//!    effective base is not known to be empty, save if a merge emptied it while the move came in.
//! 4. Deltas that touch the same index stand in the chain in LSN order.
//! 5. `floor`, the LSN up to which records and leaf images count no more, is the parent's
//!    `through`, or the LSN of the discard if the leaf is `discarded`.
//!
//! A leaf discarded as a whole while its image is not cached keeps its old parent (the checksum
//! of the image covers the old `through`) and is marked `discarded` by the LSN of that discard,
//! held in an array of its page. If the image is cached all its places are reported at once
//! and the parent goes at once. Whether a leaf was zeroed or deallocated makes no difference.
//!
//! **Not here**: I/O, the log, live bits (reports go out as [`Dead`]), when to merge.
//!
//! # Source
//! engine.md U2, U3, U8; ADR engine-shape 3, 6, 7, 8, 11.

mod ahead;
mod apply;
mod cache;
mod chain;
mod cut;
mod directory;
mod discard;
mod fold;
mod head;
mod invariants;
mod load;
mod lookup;
mod lost;
mod memory;
mod merge;
mod pool;
mod range;
mod slab;
mod slice;
mod survey;
mod usage;

pub use discard::LeafCursor;
pub use load::{LoadError, SliceLoad};
pub use lookup::{Live, Lookup};
pub use memory::MapMemory;
pub use merge::{Merge, NeedsImage};
pub use survey::Survey;

use crate::lifetime::Lifetimes;
use ahead::Expected;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cache::ImageCache;
use core::fmt;
use directory::Directory;
use pool::DeltaPool;
pub(crate) use pool::NODE_DELTAS;
use slice::Slice;
use varve_format::{Delta, PartWriter};
use varve_io::Supply;
use varve_units::{LeafIndex, Lsn, Ppa, SliceId, VolumeId};

/// Deltas a chain may have: a leaf's section must fit a checkpoint part. Far beyond a merge.
pub const CHAIN_MAX: usize = 4096;
/// LSNs between a delta and its slice's newest record: half of what its 32 bits can tell.
pub const DELTA_AGE_MAX: u64 = 1 << 31;

/// Age in LSNs at which a chain is to be merged at the latest: half of what the map tells apart, so
/// that there is time.
pub const CHAIN_AGE_MAX: u64 = DELTA_AGE_MAX / 2;

/// Which leaf.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeafKey {
    /// The volume.
    pub volume: VolumeId,
    /// The leaf in it.
    pub leaf: LeafIndex,
}

/// What the map may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapLimits {
    /// Nodes of 64 B, three deltas each.
    pub delta_nodes: usize,
    /// Cached images of 4608 B, at least one.
    pub images: usize,
    /// Leaves that exist.
    pub leaves_max: usize,
}

/// The block at `ppa` is dead. The reference that it just lost was in force at LSN `since`.
///
/// `since` lies between the LSN at which the reference was made and the one at which it died: a
/// delta's own LSN, the `through` of a base image, or, if the image was cached, the slice's
/// applied LSN just before. So the use of a unit with a greater stamp has ended since:
/// ignore the report. Reports may be repeated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Dead {
    /// The place.
    pub ppa: Ppa,
    /// LSN of the reference.
    pub since: Lsn,
}

/// A change of one leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The block at the index is at `ppa` now (or `Ppa::LOST`).
    Put {
        /// Its place.
        ppa: Ppa,
        /// Low 24 bits of its CRC-32C.
        crc24: u32,
        /// Lifetime class, 0..16.
        class: u8,
    },
    /// The block at the index was moved, if it is still at `old`. Its checksum stays.
    Move {
        /// Where it was.
        old: Ppa,
        /// Where it is (or `Ppa::LOST`).
        new: Ppa,
        /// Lifetime class, 0..16.
        class: u8,
    },
    /// A run of blocks from the index on reads as zeroes.
    Discard {
        /// Length, 1..=512.
        count: u16,
        /// Written as zeroes rather than deallocated.
        zero: bool,
    },
}

/// A change found no room; nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MapFull {
    /// No delta node is free: merge the fullest leaf.
    Deltas,
    /// The leaf's own chain is at [`CHAIN_MAX`]: merge this leaf.
    Chain,
    /// No further leaf may exist: capacity is exceeded.
    Leaves,
}

impl fmt::Display for MapFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deltas => "the delta pool is full",
            Self::Chain => "the chain of the leaf is full",
            Self::Leaves => "the map has as many leaves as it may",
        })
    }
}

impl core::error::Error for MapFull {}

/// Where a leaf's image stands in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Base {
    /// Fast-tier sector of the 4608 B payload.
    pub sector: u64,
    /// Its CRC-32C, seeded with volume, leaf and `through`.
    pub crc: u32,
    /// Changes up to this LSN are in it.
    pub through: Lsn,
}

/// The leaf's base is no longer the one that was read: look again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stale;

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the leaf has another base by now")
    }
}

impl core::error::Error for Stale {}

/// A merge in progress.
#[derive(Clone, Copy, Debug)]
struct Merging {
    through: Lsn,
    mapped: u16,
    empty: bool,
}

/// The map of one shard.
#[derive(Debug)]
pub struct Map {
    limits: MapLimits,
    leaves: Directory,
    pool: DeltaPool,
    cache: ImageCache,
    slices: Vec<Option<Slice>>,
    merging: BTreeMap<u32, Merging>,
    /// Leaves declared lost whose base is not replaced yet.
    lost: BTreeSet<u32>,
    /// Sum of `mapped` over all leaves.
    mapped: u64,
    /// Leaves of which `mapped` is an upper bound.
    bounds: usize,
    /// Leaves that are blind.
    blind: usize,
    /// Where the walk over them goes on.
    bounds_at: u32,
    /// Deltas on their way from one form of a chain to another; empty between calls.
    scratch: Vec<Delta>,
    /// Writes the parts of a cut; empty between calls.
    parts: PartWriter,
    /// Leaves found before changes ask for them.
    expected: Expected,
    /// What is known of how long blocks live; without it classes are what records say.
    lifetimes: Option<Arc<Lifetimes>>,
    /// Memory of what it has written.
    supply: Supply,
    /// False where a bug is planted.
    is_strict: bool,
}

impl Map {
    /// A map without slices, in a pool of `slices_total` of them.
    ///
    /// # Panics
    /// If there are no slices, or no room for an image.
    #[must_use]
    pub fn new(limits: MapLimits, slices_total: u16) -> Self {
        Self {
            limits,
            leaves: Directory::new(slices_total),
            pool: DeltaPool::new(limits.delta_nodes),
            cache: ImageCache::new(limits.images),
            slices: (0..slices_total).map(|_| None).collect(),
            merging: BTreeMap::new(),
            lost: BTreeSet::new(),
            mapped: 0,
            bounds: 0,
            blind: 0,
            bounds_at: 0,
            scratch: Vec::new(),
            parts: PartWriter::default(),
            expected: Expected::default(),
            lifetimes: None,
            supply: Supply::default(),
            is_strict: true,
        }
    }

    /// What a planted bug breaks must be seen by the checkers outside: the assertions that would see it first keep still.
    pub(crate) const fn keep_still(&mut self) {
        self.is_strict = false;
    }

    /// False where a bug is planted.
    pub(crate) const fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// Images and parts that are written have memory of that supply from here on.
    pub(crate) fn set_supply(&mut self, supply: Supply) {
        self.supply = supply;
        self.parts.set_supply(supply);
    }

    /// From here on blocks have classes by what happens to them.
    pub(crate) fn learn_lifetimes(&mut self, lifetimes: Arc<Lifetimes>) {
        self.lifetimes = Some(lifetimes);
    }

    /// Takes on a slice, empty.
    ///
    /// # Panics
    /// If it is here already or beyond the pool's slices.
    pub fn add_slice(&mut self, slice: SliceId) {
        let place = &mut self.slices[usize::from(slice.0)];
        assert!(place.is_none(), "{slice} is here already");
        *place = Some(Slice::default());
    }

    /// True if the slice is here.
    #[must_use]
    pub fn owns(&self, slice: SliceId) -> bool {
        matches!(self.slices.get(usize::from(slice.0)), Some(Some(_)))
    }

    /// The slice of a leaf: `(leaf + volume) mod slices`.
    #[must_use]
    pub fn slice_of(&self, key: LeafKey) -> SliceId {
        self.leaves.slice_of(key)
    }

    /// LSN of the newest record applied to a slice.
    ///
    /// # Panics
    /// If the slice is not here.
    #[must_use]
    pub fn applied(&self, slice: SliceId) -> Lsn {
        self.slice(slice).applied
    }

    /// A lower bound of the LSNs in the slice's chains, exact after a full cut or a load. `None`
    /// if they are empty.
    ///
    /// The engine merges in time: [`Map::apply`] panics if a record is [`DELTA_AGE_MAX`] beyond.
    ///
    /// # Panics
    /// If the slice is not here.
    #[must_use]
    pub fn oldest(&self, slice: SliceId) -> Option<Lsn> {
        self.slice(slice).oldest
    }

    /// [`Map::oldest`] made exact, by a walk over the slice's chains.
    ///
    /// # Panics
    /// If the slice is not here.
    pub fn refresh_oldest(&mut self, slice: SliceId) -> Option<Lsn> {
        let mut oldest: Option<Lsn> = None;
        for leaf in self.leaves.of_slice(slice) {
            let chain = self.leaves.head(leaf).chain;
            let lsns = self
                .pool
                .newest_first(chain)
                .map(|(_, delta)| self.lsn(leaf, delta));
            oldest = oldest.into_iter().chain(lsns).min();
        }
        self.slice_mut(slice).oldest = oldest;
        oldest
    }

    /// Leaves that exist, those included that became empty since the last cut.
    #[must_use]
    pub fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// Upper bound of the mapped blocks: mapped entries of base images, and put and move deltas.
    #[must_use]
    pub fn used_upper(&self) -> u64 {
        self.mapped + self.pool.places()
    }

    fn slice(&self, slice: SliceId) -> &Slice {
        let place = self
            .slices
            .get(usize::from(slice.0))
            .and_then(Option::as_ref);
        place.unwrap_or_else(|| panic!("{slice} is not here"))
    }

    fn slice_mut(&mut self, slice: SliceId) -> &mut Slice {
        let place = self
            .slices
            .get_mut(usize::from(slice.0))
            .and_then(Option::as_mut);
        place.unwrap_or_else(|| panic!("{slice} is not here"))
    }

    /// The LSN up to which records and leaf images count no more for this leaf.
    fn floor(&self, leaf: u32) -> Lsn {
        self.leaves.head_and_floor(leaf).1
    }

    /// True if entries not in the chain are known to be absent: no base, or discarded.
    fn is_bare(&self, leaf: u32) -> bool {
        let none = self.leaves.head(leaf).parent.sector().is_none();
        none || self.leaves.discard(leaf).is_some()
    }

    fn lsn(&self, leaf: u32, delta: Delta) -> Lsn {
        let applied = self.slice(self.leaves.slice(leaf)).applied;
        delta
            .lsn_within(applied)
            .expect("no delta is younger than its slice")
    }

    /// Notes that the leaf differs from the last cut.
    fn touch(&mut self, leaf: u32) {
        let head = self.leaves.head_mut(leaf);
        if !head.changed {
            head.changed = true;
            let slice = self.leaves.slice(leaf);
            self.slice_mut(slice).changed.push(leaf);
        }
    }

    fn set_mapped(&mut self, leaf: u32, mapped: u16) {
        let head = self.leaves.head_mut(leaf);
        self.mapped = self.mapped - u64::from(head.mapped) + u64::from(mapped);
        head.mapped = mapped;
        head.set_full(false);
        if head.is_bound() {
            head.set_bound(false);
            self.bounds -= 1;
        }
    }

    /// What was set last is an upper bound.
    fn set_bound(&mut self, leaf: u32) {
        self.leaves.head_mut(leaf).set_bound(true);
        self.bounds += 1;
    }

    /// [`Map::set_mapped`] by who has seen the image.
    fn set_counted(&mut self, leaf: u32, mapped: u16) {
        self.set_mapped(leaf, mapped);
        let full = usize::from(mapped) == varve_format::LEAF_ENTRIES;
        self.leaves.head_mut(leaf).set_full(full);
    }

    fn forget_image(&mut self, leaf: u32) {
        if let Some(slot) = self.leaves.head(leaf).image() {
            self.seeing(leaf, |map| map.leaves.head_mut(leaf).image = pool::NIL);
            self.cache.remove(slot);
        }
    }

    /// True if a leaf names places that no change of it would report: its image is not here, or not yet cleared.
    fn is_blind(&self, leaf: u32) -> bool {
        let head = self.leaves.head(leaf);
        let is_stored = head.parent.sector().is_some();
        (is_stored && head.image().is_none()) || self.leaves.discard(leaf).is_some()
    }

    /// Changes what is known of a leaf, and counts it anew.
    fn seeing(&mut self, leaf: u32, change: impl FnOnce(&mut Self)) {
        self.blind -= usize::from(self.is_blind(leaf));
        change(self);
        self.blind += usize::from(self.is_blind(leaf));
    }

    /// True if whatever lost its reference was reported: no leaf names places that are not seen here.
    #[must_use]
    pub const fn sees_all(&self) -> bool {
        self.blind == 0
    }

    /// Switches the parent: it is the whole state up to its `through`.
    fn set_parent(&mut self, leaf: u32, parent: varve_format::Parent, mapped: u16) {
        self.seeing(leaf, |map| {
            let head = map.leaves.head_mut(leaf);
            head.parent = parent;
            head.set_switched(true);
            map.leaves.set_discard(leaf, None);
        });
        self.lost.remove(&leaf);
        self.set_mapped(leaf, mapped);
        self.touch(leaf);
    }
}

/// Reports the end of a reference, if it was one.
fn report(dead: &mut Vec<Dead>, ppa: Ppa, since: Lsn) {
    if ppa.is_place() {
        dead.push(Dead { ppa, since });
    }
}
