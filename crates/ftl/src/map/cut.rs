//! Cutting a slice for a checkpoint: its changes since the last cut, or all of it.

use super::Map;
use super::pool::{Chain, NIL};
use alloc::vec::Vec;
use varve_format::{Delta, PartPayload, PartWriter, SectionParent, SectionSummary, StateSummary};
use varve_units::{Lsn, SliceId};

/// Leaves whose heads and chains are fetched side by side. Arbitrary: more misses than a processor has
/// in flight, and 64 deltas of each fit its second cache many times.
const LEAVES_AHEAD: usize = 16;

/// What a cut leaves of a leaf.
enum Kept {
    /// Nothing: it has neither image nor chain.
    Nothing,
    /// Its head, and a chain whose oldest delta is this old; not told unless all was cut.
    Leaf(Option<Lsn>),
}

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
        // Leaves go, and others get their numbers.
        self.expected.clear();
        let mut writer = core::mem::take(&mut self.parts);
        let mut oldest: Option<Lsn> = None;
        for (at, &leaf) in leaves.iter().enumerate() {
            if at % LEAVES_AHEAD == 0 {
                let ahead = &leaves[at..leaves.len().min(at + LEAVES_AHEAD)];
                match full {
                    true => self.fetch(ahead),
                    false => self.fetch_newest(ahead),
                }
            }
            match self.write_section(&mut writer, leaf, full, (since, cut)) {
                Kept::Nothing => {
                    self.forget_image(leaf);
                    self.leaves.remove(leaf);
                }
                Kept::Leaf(first) => {
                    oldest = first.into_iter().chain(oldest).min();
                    let head = self.leaves.head_mut(leaf);
                    head.changed = false;
                    head.set_switched(false);
                }
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

    /// Has heads of leaves and their chains in the processor's cache. Each node names the next: the misses
    /// of one chain follow one another, those of many overlap.
    fn fetch(&self, leaves: &[u32]) {
        let mut chains = [Chain::EMPTY; LEAVES_AHEAD];
        for (chain, &leaf) in chains.iter_mut().zip(leaves) {
            *chain = self.leaves.head(leaf).chain;
            core::hint::black_box(self.leaves.slice(leaf));
        }
        self.pool.fetch(&chains);
    }

    /// [`Map::fetch`] of the two newest nodes of the chains: what came since the last cut stands there,
    /// mostly.
    fn fetch_newest(&self, leaves: &[u32]) {
        let mut nodes = [NIL; LEAVES_AHEAD];
        for (node, &leaf) in nodes.iter_mut().zip(leaves) {
            core::hint::black_box(self.leaves.slice(leaf));
            *node = self.leaves.head(leaf).chain.newest();
        }
        let nodes = &mut nodes[..leaves.len()];
        for node in &mut *nodes {
            *node = self.pool.behind(*node);
        }
        let bits = nodes
            .iter()
            .fold(0, |bits, node| bits ^ self.pool.behind(*node));
        // Reads of which nothing comes would be left out.
        core::hint::black_box(bits);
    }

    /// Writes a leaf's section from one LSN to the other; of a full cut none of a leaf that is no more.
    fn write_section(
        &mut self,
        writer: &mut PartWriter,
        leaf: u32,
        full: bool,
        (since, applied): (Lsn, Lsn),
    ) -> Kept {
        let (key, head, discarded) = self.leaves.leaf(leaf);
        let mut section = SectionSummary {
            volume: key.volume,
            leaf: key.leaf,
            state: None,
        };
        let (chain, pool) = (head.chain, &self.pool);
        if head.is_vacant() && !chain.is_held() {
            if !full {
                writer.push_with(&section, |_| {});
            }
            return Kept::Nothing;
        }
        let parent = SectionParent {
            parent: head.parent,
            discarded,
        };
        let state = |deltas| StateSummary {
            parent: (full || head.is_switched()).then_some(parent),
            mapped: head.mapped,
            is_bound: head.is_bound(),
            deltas,
        };
        let is_new = |delta: &Delta| u64::from(delta.age_at(applied)) < applied.0 - since.0;
        if full {
            section.state = Some(state(chain.len));
            let mut first = None;
            writer.push_with(&section, |room| first = pool.write_all(chain, room));
            return Kept::Leaf(self.oldest_of(chain, first, applied));
        }
        if chain.is_in_order() {
            // What stands behind one of the cut before is of it, too.
            section.state = Some(state(pool.count_newest(chain, is_new)));
            writer.push_with(&section, |room| pool.write_newest(chain, room));
        } else {
            let some = &mut self.scratch;
            pool.unroll(chain, some);
            some.retain(is_new);
            section.state = Some(state(some.len() as u16));
            writer.push_with(&section, |room| {
                let all = room.iter_mut().zip(some.iter());
                all.for_each(|(room, delta)| *room = delta.to_bytes());
            });
            some.clear();
        }
        Kept::Leaf(None)
    }

    /// LSN of the oldest delta of a chain of which `first` stands before all others.
    fn oldest_of(&self, chain: Chain, first: Option<Delta>, applied: Lsn) -> Option<Lsn> {
        let age = |delta: Delta| delta.age_at(applied);
        let oldest = match chain.is_in_order() {
            true => first.map(age),
            false => {
                let deltas = self.pool.newest_first(chain);
                deltas.map(|(_, delta)| age(delta)).max()
            }
        };
        let oldest = applied.0.checked_sub(u64::from(oldest?));
        Some(Lsn(oldest.expect("no delta is younger than its slice")))
    }
}
