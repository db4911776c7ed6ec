//! Cutting a slice for a checkpoint: its changes since the last cut, or all of it.

use super::Map;
use super::pool::Chain;
use alloc::vec::Vec;
use varve_format::{Delta, PartPayload, Section, SectionParent, SectionState};
use varve_units::{Lsn, SliceId};

/// Leaves whose heads and chains are fetched side by side. Arbitrary: more misses than a processor has
/// in flight, and 64 deltas of each fit its second cache many times.
const LEAVES_AHEAD: usize = 16;
/// Nodes of a chain that what came since the last cut stands in, mostly.
const NODES_SINCE: usize = 2;

impl Map {
    /// Payloads of the slice's checkpoint parts, each at most 256 KiB, and the cut's LSN.
    ///
    /// `full`: all leaves rather than those changed since the last cut. Leaves without image and
    /// chain vanish here, unless one is being merged: its leaf record may follow, and must then
    /// find how far it counts no more.
    ///
    /// # Panics
    /// If the slice is not here.
    pub fn cut(&mut self, slice: SliceId, full: bool) -> (Vec<PartPayload>, Lsn) {
        let state = self.slice_mut(slice);
        let (since, cut) = (state.cut, state.applied);
        let mut leaves = core::mem::take(&mut state.changed);
        if full {
            leaves.clear();
            let all = self.leaves.of_slice(slice);
            all.for_each(|leaf| leaves.push(leaf));
        }
        let mut writer = core::mem::take(&mut self.parts);
        let mut oldest: Option<Lsn> = None;
        for (at, &leaf) in leaves.iter().enumerate() {
            if at % LEAVES_AHEAD == 0 {
                let ahead = &leaves[at..leaves.len().min(at + LEAVES_AHEAD)];
                self.fetch(ahead, if full { usize::MAX } else { NODES_SINCE });
            }
            let buffer = core::mem::take(&mut self.scratch);
            let (section, first) = self.section(leaf, full, (since, cut), buffer);
            let vanishes = section.state == SectionState::Gone;
            if !(full && vanishes) {
                writer.push(&section);
            }
            if let SectionState::Present { mut deltas, .. } = section.state {
                deltas.clear();
                self.scratch = deltas;
            }
            if let Some(first) = first {
                oldest = Some(oldest.map_or(first, |oldest| oldest.min(first)));
            }
            if vanishes {
                self.forget_image(leaf);
                self.leaves.remove(leaf);
            } else {
                let head = self.leaves.head_mut(leaf);
                head.changed = false;
                head.set_switched(false);
            }
        }
        let state = self.slice_mut(slice);
        state.cut = cut;
        if full {
            state.oldest = oldest;
        }
        let payloads = writer.finish(slice.0, full, since, cut);
        self.parts = writer;
        if !full {
            leaves.clear();
            self.slice_mut(slice).changed = leaves;
        }
        (payloads, cut)
    }

    /// Has heads of leaves, and the first `nodes` nodes of their chains, in the processor's cache. Each node
    /// names the next: the misses of one chain follow one another, those of many overlap.
    fn fetch(&self, leaves: &[u32], nodes: usize) {
        let mut chains = [Chain::EMPTY; LEAVES_AHEAD];
        for (chain, &leaf) in chains.iter_mut().zip(leaves) {
            *chain = self.leaves.head(leaf).chain;
            core::hint::black_box(self.leaves.slice(leaf));
        }
        self.pool.fetch(&chains, nodes);
    }

    /// A leaf's section from one LSN to the other, its deltas in `deltas`, and the LSN of the oldest of
    /// them.
    fn section(
        &self,
        leaf: u32,
        full: bool,
        (since, applied): (Lsn, Lsn),
        mut deltas: Vec<Delta>,
    ) -> (Section, Option<Lsn>) {
        let key = self.leaves.key(leaf);
        let head = self.leaves.head(leaf);
        let (volume, index) = (key.volume, key.leaf);
        if head.is_vacant() && !self.is_held(leaf) {
            let state = SectionState::Gone;
            return (
                Section {
                    volume,
                    leaf: index,
                    state,
                },
                None,
            );
        }
        let discarded = self.leaves.discard(leaf);
        let parent = SectionParent {
            parent: head.parent,
            discarded,
        };
        let is_new = |delta: &Delta| u64::from(delta.age_at(applied)) < applied.0 - since.0;
        if full || !head.chain.is_in_order() {
            self.pool.unroll(head.chain, &mut deltas);
            if !full {
                deltas.retain(is_new);
            }
        } else {
            // What stands behind one of the cut before is of it, too.
            self.pool.unroll_newest(head.chain, is_new, &mut deltas);
        }
        let age = |delta: &Delta| delta.age_at(applied);
        let oldest_age = if head.chain.is_in_order() {
            deltas.first().map(age)
        } else {
            deltas.iter().map(age).max()
        };
        let oldest = oldest_age.map(|age| {
            let oldest = applied.0.checked_sub(u64::from(age));
            Lsn(oldest.expect("no delta is younger than its slice"))
        });
        let state = SectionState::Present {
            parent: (full || head.is_switched()).then_some(parent),
            mapped: head.mapped,
            is_bound: head.is_bound(),
            deltas,
        };
        (
            Section {
                volume,
                leaf: index,
                state,
            },
            oldest,
        )
    }
}
