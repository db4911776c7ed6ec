//! Loading a slice from checkpoint parts, oldest first.

use super::chain::IndexSet;
use super::{LeafKey, Map};
use alloc::vec::Vec;
use core::fmt;
use varve_format::{Delta, PartHead, SectionView, SlicePartError, view_part};
use varve_units::{Lsn, SliceId};

/// Why a payload could not be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The bytes are no payload.
    Decode(SlicePartError),
    /// The payload is of another slice, kind or cut than the caller says.
    Mismatch,
    /// The payload does not continue what was loaded before.
    Order,
    /// A leaf is of another slice, or a delta is younger than the cut or too old.
    Content(LeafKey),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(_) => f.write_str("a checkpoint part could not be decoded"),
            Self::Mismatch => f.write_str("a checkpoint part is not the one that was asked for"),
            Self::Order => f.write_str("a checkpoint part does not continue the one before"),
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

impl Map {
    /// Loads one payload of the slice's cut `cut`: cuts oldest first, beginning with a full one
    /// (or with an empty slice's first), the payloads of a cut in order.
    ///
    /// Older parts hold deltas that younger ones drop, so a load may overrun the delta pool; then
    /// no change finds room until merges have brought it back below its limit. It may overrun the
    /// limit of leaves too: one slice's new leaf may be loaded before the part of another slice
    /// that drops one.
    ///
    /// # Errors
    /// The payload is damaged or out of order. The slice is then unusable.
    ///
    /// # Panics
    /// If the slice is not here.
    pub fn load(
        &mut self,
        slice: SliceId,
        full: bool,
        bytes: &[u8],
        cut: Lsn,
    ) -> Result<(), LoadError> {
        let (head, sections) = view_part(bytes).map_err(LoadError::Decode)?;
        if head.slice() != slice.0 || head.is_full() != full || head.cut() != cut {
            return Err(LoadError::Mismatch);
        }
        self.expect_part(slice, &head)?;
        for section in sections {
            self.load_section(slice, section, cut)?;
        }
        let state = self.slice_mut(slice);
        let next = head.number() + 1;
        state.loading = (next < head.total()).then_some((cut, next, head.total()));
        if state.loading.is_none() {
            state.cut = cut;
        }
        for leaf in core::mem::take(&mut self.slice_mut(slice).changed) {
            let loaded = self.leaves.head_mut(leaf);
            loaded.changed = false;
            loaded.set_switched(false);
        }
        Ok(())
    }

    /// Checks that a payload comes next; the first one of a full cut empties the slice.
    fn expect_part(&mut self, slice: SliceId, head: &PartHead) -> Result<(), LoadError> {
        let state = self.slice(slice);
        let expected = (head.cut(), head.number(), head.total());
        let fits = match state.loading {
            Some(next) => next == expected,
            None => head.number() == 0 && (head.is_full() || head.since() == state.cut),
        };
        if !fits {
            return Err(LoadError::Order);
        }
        if head.number() == 0 && head.is_full() {
            let leaves: Vec<u32> = self.leaves.of_slice(slice).collect();
            leaves.into_iter().for_each(|leaf| self.unload(leaf));
            self.slice_mut(slice).oldest = None;
        }
        self.slice_mut(slice).applied = head.cut();
        Ok(())
    }

    /// Forgets a leaf altogether.
    fn unload(&mut self, leaf: u32) {
        assert!(!self.is_held(leaf), "nothing is merged while loading");
        self.prune(leaf, None, |_, _| true);
        self.forget_image(leaf);
        self.set_mapped(leaf, 0);
        self.leaves.remove(leaf);
    }

    fn load_section(
        &mut self,
        slice: SliceId,
        found: SectionView<'_>,
        cut: Lsn,
    ) -> Result<(), LoadError> {
        let key = LeafKey {
            volume: found.volume,
            leaf: found.leaf,
        };
        let broken = LoadError::Content(key);
        if self.slice_of(key) != slice {
            return Err(broken);
        }
        let Some(state) = found.state else {
            if let Some(leaf) = self.leaves.find(key) {
                self.unload(leaf);
            }
            return Ok(());
        };
        let leaf = self.leaves.ensure(key);
        self.forget_image(leaf);
        if let Some(stated) = state.parent {
            let floor = stated.discarded.unwrap_or(stated.parent.through());
            if floor > cut || floor < self.floor(leaf) {
                return Err(broken);
            }
            self.set_parent(leaf, stated.parent, state.mapped);
            self.leaves.set_discard(leaf, stated.discarded);
            self.prune(leaf, None, |_, lsn| lsn <= floor);
        }
        self.set_mapped(leaf, state.mapped);
        let deltas = state.deltas();
        let chain = usize::from(self.leaves.head(leaf).chain.len);
        if chain + deltas.len() > 2 * super::CHAIN_MAX {
            return Err(broken);
        }
        // In an empty chain a new index supersedes nothing.
        let (mut seen, mut is_plain) = (IndexSet::default(), chain == 0);
        for delta in deltas {
            let lsn = delta.lsn_within(cut).filter(|&lsn| lsn > self.floor(leaf));
            let lsn = lsn
                .filter(|lsn| cut.0 - lsn.0 < super::DELTA_AGE_MAX)
                .ok_or(broken)?;
            is_plain &= !delta.is_discard();
            if is_plain && !seen.has(delta.index()) {
                seen.add(delta.index());
                self.push(leaf, delta, lsn);
            } else {
                self.load_delta(leaf, delta, lsn);
            }
        }
        Ok(())
    }

    /// Appends a delta of a part; what it supersedes was reported before the cut.
    fn load_delta(&mut self, leaf: u32, delta: Delta, lsn: Lsn) {
        if delta.is_discard() {
            let covers = |d: Delta, _| delta.index() <= d.index() && d.end() <= delta.end();
            self.prune(leaf, None, covers);
            self.push(leaf, delta, lsn);
        } else if delta.is_move() {
            self.push(leaf, delta, lsn);
        } else {
            self.enter(leaf, delta, lsn);
        }
    }
}
