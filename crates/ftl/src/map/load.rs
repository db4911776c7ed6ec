//! A slice from its checkpoint parts, the newest first.
//!
//! A leaf is what its newest sections say: a parent found there tells that older deltas which it
//! contains are not worth a look, and a leaf that vanished has no older state at all. What is left
//! is noted beside the map, in the order of the parts; [`Map::load`] then makes each leaf once, with
//! its whole chain. So a leaf is looked up in a table of its own slice only, which stays in the
//! processor's cache, and a start makes no chain that a younger part drops.
//!
//! **Not here**: reading the parts, and which of them there are (`recovery`).

use super::chain::IndexSet;
use super::directory::{PAGE_LEAVES, PageKey, Slices};
use super::pool::NIL;
use super::{LeafKey, Map};
use alloc::vec::Vec;
use core::fmt;
use varve_format::{Delta, Parent, PartHead, SectionView, SlicePartError, view_part};
use varve_units::{Lsn, SliceId};

/// Why a payload could not be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The bytes are no payload.
    Decode(SlicePartError),
    /// The payload is of another slice, or not the changes or the whole state it should be.
    Mismatch,
    /// The payload does not come before the one loaded last, or older ones are missing.
    Order,
    /// A leaf is of another slice, or a delta is younger than the cut or too old.
    Content(LeafKey),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(_) => f.write_str("a checkpoint part could not be decoded"),
            Self::Mismatch => f.write_str("a checkpoint part is not the one that was asked for"),
            Self::Order => f.write_str("a checkpoint part does not lead to the one behind it"),
            Self::Content(key) => write!(
                f,
                "a checkpoint part contradicts itself at leaf {} of {}",
                key.leaf.0, key.volume
            ),
        }
    }
}

impl core::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Decode(error) => Some(error),
            _ => None,
        }
    }
}

/// Which payload comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// The last one of the newest cut.
    Newest,
    /// One of the same cut as this one, its number one less.
    Before(PartHead),
    /// The last one of this cut.
    Cut(Lsn),
    /// None: all that is older counts no more.
    Nothing,
}

/// Deltas of one section that count, in `SliceLoad::deltas`.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: usize,
    count: u16,
    /// The leaf's next younger run, or `NIL`.
    younger: u32,
}

/// What the parts said of a leaf so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadedLeaf {
    /// Place of the base image.
    pub(super) parent: Parent,
    /// Deltas up to this LSN count no more: the parent's `through`, or the LSN of the discard.
    floor: Lsn,
    /// The oldest run of deltas, or `NIL`.
    oldest: u32,
    /// Mapped entries of the base, or an upper bound of them.
    pub(super) mapped: u16,
    marks: u8,
}

/// A section was met.
const MET: u8 = 1;
/// The newest section says that the leaf exists.
const EXISTS: u8 = 2;
/// The parent is known.
const PARENT: u8 = 4;
/// `floor` is the LSN of a discard.
const DISCARDED: u8 = 8;
/// Older sections say nothing that counts.
const DECIDED: u8 = 16;
/// `mapped` is an upper bound.
const BOUND: u8 = 32;

impl LoadedLeaf {
    const UNKNOWN: Self = Self {
        parent: Parent::NEVER,
        floor: Lsn::ZERO,
        oldest: NIL,
        mapped: 0,
        marks: 0,
    };

    const fn is(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// True if the leaf is there.
    pub(super) const fn exists(&self) -> bool {
        self.is(EXISTS)
    }

    /// LSN of the discard that emptied the leaf, if its image is still to be cleared.
    pub(super) fn discarded(&self) -> Option<Lsn> {
        self.is(DISCARDED).then_some(self.floor)
    }
}

/// Sixteen leaves as the directory keeps them.
#[derive(Debug)]
pub(super) struct LoadedPage {
    pub(super) key: PageKey,
    pub(super) leaves: [LoadedLeaf; PAGE_LEAVES],
}

/// A slice's checkpoint parts on their way into the map, taken from the newest to the oldest.
#[derive(Debug)]
pub struct SliceLoad {
    pub(super) slice: SliceId,
    slices: Slices,
    next: Next,
    /// The newest cut.
    pub(super) cut: Lsn,
    /// Where pages are, by their hash; as long as a power of two.
    table: Vec<u32>,
    pub(super) pages: Vec<LoadedPage>,
    runs: Vec<Run>,
    deltas: Vec<Delta>,
}

impl SliceLoad {
    /// Nothing loaded yet of slice `slice` of `slices`.
    #[must_use]
    pub fn new(slice: SliceId, slices: u16) -> Self {
        Self {
            slice,
            slices: Slices::new(slices),
            next: Next::Newest,
            cut: Lsn::ZERO,
            table: alloc::vec![NIL; 16],
            pages: Vec::new(),
            runs: Vec::new(),
            deltas: Vec::new(),
        }
    }

    /// The newest cut; 0 before the first part.
    #[must_use]
    pub const fn cut(&self) -> Lsn {
        self.cut
    }

    /// Takes the next older payload: cuts from the newest on, the payloads of a cut from the last
    /// to the first. `full` tells whether it should be of the slice's whole state, behind which
    /// nothing older counts.
    ///
    /// # Errors
    /// The payload is damaged or out of order; nothing can be loaded then.
    pub fn add(&mut self, full: bool, bytes: &[u8]) -> Result<(), LoadError> {
        let (head, sections) = view_part(bytes).map_err(LoadError::Decode)?;
        if head.slice() != self.slice.0 || head.is_full() != full {
            return Err(LoadError::Mismatch);
        }
        let is_last = head.number() + 1 == head.total();
        let fits = match self.next {
            Next::Newest => is_last,
            Next::Before(after) => after.follows(&head),
            Next::Cut(cut) => is_last && head.cut() == cut,
            Next::Nothing => false,
        };
        if !fits {
            return Err(LoadError::Order);
        }
        self.cut = self.cut.max(head.cut());
        for section in sections {
            self.section(section.map_err(LoadError::Decode)?, head.cut())?;
        }
        self.next = match (head.number(), head.is_full()) {
            (0, true) => Next::Nothing,
            (0, false) => Next::Cut(head.since()),
            _ => Next::Before(head),
        };
        Ok(())
    }

    /// True if all parts were taken that count: a slice begins with its whole state, or empty.
    pub(super) fn is_whole(&self) -> bool {
        matches!(
            self.next,
            Next::Newest | Next::Nothing | Next::Cut(Lsn::ZERO)
        )
    }

    fn section(&mut self, found: SectionView<'_>, cut: Lsn) -> Result<(), LoadError> {
        let key = LeafKey {
            volume: found.volume,
            leaf: found.leaf,
        };
        let broken = LoadError::Content(key);
        let (page, at) = PageKey::place(key, self.slices);
        if page.slice != self.slice {
            return Err(broken);
        }
        let page = self.page(page);
        let leaf = &mut self.pages[page].leaves[at as usize];
        if leaf.is(DECIDED) {
            return Ok(());
        }
        let is_newest = !leaf.is(MET);
        leaf.marks |= MET;
        let Some(state) = found.state else {
            leaf.marks |= DECIDED;
            return Ok(());
        };
        if is_newest {
            leaf.marks |= EXISTS;
            leaf.mapped = state.mapped;
            leaf.marks |= if state.is_bound { BOUND } else { 0 };
        }
        let mut stated = Lsn::ZERO;
        if let Some(said) = state.parent {
            stated = said.discarded.unwrap_or(said.parent.through());
            let is_first = !leaf.is(PARENT);
            if stated > cut || !is_first && stated > leaf.floor {
                return Err(broken);
            }
            if is_first {
                (leaf.parent, leaf.floor) = (said.parent, stated);
                let discarded = said.discarded.map_or(0, |_| DISCARDED);
                leaf.marks |= PARENT | discarded;
            }
        }
        if leaf.floor >= cut {
            leaf.marks |= DECIDED;
            return Ok(());
        }
        let first = self.deltas.len();
        for delta in state.deltas() {
            let delta = delta.map_err(|_| broken)?;
            let lsn = delta.lsn_within(cut).filter(|&lsn| lsn > stated);
            let lsn = lsn
                .filter(|lsn| cut.0 - lsn.0 < super::DELTA_AGE_MAX)
                .ok_or(broken)?;
            if lsn > leaf.floor {
                self.deltas.push(delta);
            }
        }
        let count = self.deltas.len() - first;
        if count > 0 {
            let run = Run {
                first,
                count: u16::try_from(count).map_err(|_| broken)?,
                younger: leaf.oldest,
            };
            leaf.oldest = u32::try_from(self.runs.len()).map_err(|_| broken)?;
            self.runs.push(run);
        }
        Ok(())
    }

    /// The page with this key, made if there is none.
    fn page(&mut self, key: PageKey) -> usize {
        let mask = self.table.len() - 1;
        let mut at = key.home(self.table.len());
        while self.table[at] != NIL {
            let page = self.table[at] as usize;
            if self.pages[page].key == key {
                return page;
            }
            at = (at + 1) & mask;
        }
        let page = self.pages.len();
        self.table[at] = u32::try_from(page).expect("a slice has less than 2^32 pages");
        self.pages.push(LoadedPage {
            key,
            leaves: [LoadedLeaf::UNKNOWN; PAGE_LEAVES],
        });
        if self.pages.len() * 2 > self.table.len() {
            self.grow();
        }
        page
    }

    fn grow(&mut self) {
        let mask = self.table.len() * 2 - 1;
        self.table.clear();
        self.table.resize(mask + 1, NIL);
        for (number, page) in (0..).zip(&self.pages) {
            let mut at = page.key.home(self.table.len());
            while self.table[at] != NIL {
                at = (at + 1) & mask;
            }
            self.table[at] = number;
        }
    }

    /// A leaf's chain, oldest first: what its runs come to.
    pub(super) fn chain(&self, leaf: &LoadedLeaf, chain: &mut Vec<Delta>) {
        chain.clear();
        // As long as no delta touches what another one does, none supersedes another.
        let (mut seen, mut is_plain) = (IndexSet::default(), true);
        let mut next = leaf.oldest;
        while next != NIL {
            let run = self.runs[next as usize];
            let deltas = &self.deltas[run.first..run.first + usize::from(run.count)];
            for &delta in deltas {
                is_plain &= !delta.is_discard();
                if is_plain && !seen.has(delta.index()) {
                    seen.add(delta.index());
                    chain.push(delta);
                } else {
                    enter(chain, delta);
                }
            }
            next = run.younger;
        }
    }
}

/// Appends a delta to a chain; what it supersedes was reported before the cut.
fn enter(chain: &mut Vec<Delta>, delta: Delta) {
    if delta.is_discard() {
        chain.retain(|d| !(delta.index() <= d.index() && d.end() <= delta.end()));
        chain.push(delta);
        return;
    }
    let newest = chain.iter_mut().rfind(|d| d.touches(delta.index()));
    match newest {
        Some(old) if !delta.is_move() && !old.is_discard() => *old = delta,
        _ => chain.push(delta),
    }
}

impl Map {
    /// Makes the slice what its parts say. Together with what redo still drops they may overrun
    /// the delta pool; then no change finds room until merges have brought it back below its limit.
    ///
    /// # Errors
    /// Older parts are missing, or a chain is longer than any can have been. The slice is then
    /// unusable.
    ///
    /// # Panics
    /// If the slice is not here, or not empty.
    pub fn load(&mut self, load: &SliceLoad) -> Result<(), LoadError> {
        let slice = load.slice;
        let is_empty = self.leaves.of_slice(slice).next().is_none();
        assert!(self.owns(slice) && is_empty, "a slice is loaded once");
        if !load.is_whole() {
            return Err(LoadError::Order);
        }
        let (cut, mut oldest) = (load.cut, None);
        let mut deltas = core::mem::take(&mut self.scratch);
        for page in &load.pages {
            let exists = (0..).zip(&page.leaves).filter(|(_, leaf)| leaf.exists());
            let present = exists.clone().fold(0, |bits, (at, _)| bits | 1 << at);
            if present == 0 {
                continue;
            }
            let first = self.leaves.add_page(page.key, present);
            for (at, found) in exists {
                let leaf = first + at;
                load.chain(found, &mut deltas);
                if deltas.len() > 2 * super::CHAIN_MAX {
                    return Err(LoadError::Content(self.leaves.key(leaf)));
                }
                let lsns = deltas.iter().filter_map(|delta| delta.lsn_within(cut));
                oldest = lsns.chain(oldest).min();
                self.seeing(leaf, |map| {
                    let head = map.leaves.head_mut(leaf);
                    head.parent = found.parent;
                    head.chain = map.pool.fill(leaf, &deltas);
                    head.mapped = found.mapped;
                    map.leaves.set_discard(leaf, found.discarded());
                });
                self.mapped += u64::from(found.mapped);
                if found.is(BOUND) {
                    self.set_bound(leaf);
                }
            }
        }
        deltas.clear();
        self.scratch = deltas;
        let state = self.slice_mut(slice);
        (state.applied, state.cut, state.oldest) = (cut, cut, oldest);
        Ok(())
    }
}
