//! The delta pool: chains of deltas in 64-byte nodes, and buckets of chains by length.
//!
//! A chain is a list of nodes, newest first; every node but the newest is full, so a chain is
//! described by its newest node and its length. The newest node also links the chain into the
//! bucket of its node count, unless the chain is *held* (its leaf is being merged). It stays the
//! newest while the chain grows (a full one is copied to a node behind it), and the buckets of
//! long chains are wide, so that few appends touch the neighbours in a bucket.
//!
//! **Invariants**: a node is free or in exactly one chain, and the oldest of a chain has none behind
//! it; a chain with deltas is held or in exactly one bucket; one that holds a discard is marked so, one
//! that holds a delta without a place, and one that is not in the order of its LSNs.
//! **Not here**: what deltas mean.

use super::slab::Slab;
use super::{CHAIN_MAX, MapFull};
use alloc::vec::Vec;
use varve_format::{DELTA_BYTES, Delta};

/// Deltas of one node.
pub(crate) const NODE_DELTAS: usize = 3;
/// Buckets; longer chains share the last one. Arbitrary: 750 deltas are far beyond a merge.
const BUCKETS: usize = 70;
/// Nodes from which on a bucket is of `WIDE` node counts. Of these one begins at 22 nodes: the
/// engine merges at 64 deltas, which no chain of 21 nodes has and all of 22 nodes have.
const WIDE_FROM: usize = 10;
const WIDE: usize = 4;
const _: () = assert!((22 - WIDE_FROM).is_multiple_of(WIDE));
/// Dropped chains whose nodes are made free side by side. Arbitrary: misses that a processor has in flight
/// at once.
const CHAINS_FREED: usize = 16;
/// No node, no leaf.
pub(super) const NIL: u32 = u32::MAX;
/// In `Node::before`: the chain is in no bucket.
const HELD: u32 = u32::MAX - 1;

#[derive(Clone, Debug)]
struct Node {
    deltas: [Delta; NODE_DELTAS],
    /// Next older node of the chain.
    next: u32,
    leaf: u32,
    /// Neighbours in the bucket; of newest nodes only.
    before: u32,
    after: u32,
}

const _: () = assert!(size_of::<Node>() == 64);

/// A leaf's chain: its newest node and how many deltas it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Chain {
    head: u32,
    pub(super) len: u16,
    marks: Marks,
    /// Deltas appended since superseded ones were last dropped; stays at 255.
    pub(super) fresh: u8,
}

/// What is known of a chain without a walk over it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Marks(u8);

/// With the image cached a chain is deduplicated after so many appends at least, half of what it has when
/// it is merged, and where it is longer, as a large pool of deltas lets it be, after a quarter of what it
/// has: so an append takes its part of a walk over four deltas, however long the chain is. Arbitrary.
const COMPACT_EACH: u16 = 32;
const COMPACT_SHARE: u16 = 4;
/// And only from so many deltas on: just before the 64 at which it would be merged. Each walk over a
/// chain is a cache miss for each of its nodes.
const COMPACT_FROM: u16 = 60;

/// In no bucket: its leaf is being merged.
const IN_MERGE: u8 = 1;
/// It may hold a discard.
const HOLED: u8 = 2;
/// Some delta may be younger than one that stands behind it.
const MIXED: u8 = 4;
/// Some delta may bring no place.
const BARREN: u8 = 8;

impl Chain {
    pub(super) const EMPTY: Self = Self {
        head: NIL,
        len: 0,
        marks: Marks(0),
        fresh: 0,
    };

    /// In no bucket: its leaf is being merged.
    pub(super) const fn is_held(self) -> bool {
        self.marks.0 & IN_MERGE != 0
    }

    /// True if deltas that others supersede should be dropped, where the image is cached: it may hold
    /// such, which an append leaves where they are.
    pub(super) fn wants_compacting(self) -> bool {
        // Most have no such number.
        if u16::from(self.fresh) < COMPACT_EACH {
            return false;
        }
        // `fresh` tells no more than its largest number.
        let each = (self.len / COMPACT_SHARE).clamp(COMPACT_EACH, u8::MAX.into());
        u16::from(self.fresh) >= each && self.len >= COMPACT_FROM
    }

    /// True if it may hold a discard. False as long as none was appended since it was last empty or
    /// rewritten.
    pub(super) const fn may_have_discards(self) -> bool {
        self.marks.0 & HOLED != 0
    }

    /// True if every delta is known to be no younger than those that stand behind it.
    pub(super) const fn is_in_order(self) -> bool {
        self.marks.0 & MIXED == 0
    }

    /// True if every delta is known to bring a place, and to be no younger than those that stand behind it.
    pub(super) const fn is_plain(self) -> bool {
        self.marks.0 & (HOLED | MIXED | BARREN) == 0
    }

    /// Its newest node, or [`NIL`].
    pub(super) const fn newest(self) -> u32 {
        if self.len > 0 { self.head } else { NIL }
    }

    /// True if the next delta takes a node: there is none, or the newest has all that it can hold.
    const fn is_full(self) -> bool {
        (self.len as usize).is_multiple_of(NODE_DELTAS)
    }

    const fn mark(&mut self, mark: u8, is_set: bool) {
        self.marks.0 = self.marks.0 & !mark | if is_set { mark } else { 0 };
    }

    /// Marks it as what these, all of its deltas, oldest first, make it.
    fn mark_as(&mut self, deltas: &[Delta]) {
        self.mark(HOLED, deltas.iter().any(|delta| delta.is_discard()));
        self.mark(BARREN, !deltas.iter().all(|delta| delta.brings_place()));
        let is_mixed = |pair: &[Delta]| pair[1].is_older_than(pair[0]);
        self.mark(MIXED, deltas.windows(2).any(is_mixed));
    }

    /// Marks it as what one more delta makes it, which comes behind `newest`, or is the first.
    #[inline]
    fn note(&mut self, delta: Delta, newest: Option<Delta>) {
        if newest.is_none() {
            self.mark(HOLED | MIXED | BARREN, false);
        }
        if !delta.brings_place() {
            self.mark(BARREN, true);
            if delta.is_discard() {
                self.mark(HOLED, true);
            }
        }
        if newest.is_some_and(|newest| delta.is_older_than(newest)) {
            self.mark(MIXED, true);
        }
    }
}

/// Deltas that bring a place.
fn places(deltas: &[Delta]) -> u64 {
    deltas
        .iter()
        .map(|delta| u64::from(delta.brings_place()))
        .sum()
}

/// Where a delta is, to replace it in place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    node: u32,
    at: usize,
}

/// All deltas of a shard.
#[derive(Debug)]
pub(super) struct DeltaPool {
    nodes: Slab<Node, 256>,
    nodes_max: usize,
    /// The limit does not count for now.
    pub(super) is_lifted: bool,
    /// Free nodes: who takes one need not read it.
    free: Vec<u32>,
    /// Newest nodes of chains that were dropped as a whole; the nodes behind them are as free, and not in
    /// `free` yet.
    dropped: Vec<u32>,
    free_count: usize,
    buckets: Vec<u32>,
    top: usize,
    deltas: u64,
    places: u64,
}

impl DeltaPool {
    pub(super) fn new(nodes_max: usize) -> Self {
        assert!(
            nodes_max < HELD as usize,
            "delta nodes are numbered by 32 bits"
        );
        Self {
            nodes: Slab::new(),
            nodes_max,
            is_lifted: false,
            free: Vec::new(),
            dropped: Vec::new(),
            free_count: 0,
            buckets: alloc::vec![NIL; BUCKETS],
            top: 0,
            deltas: 0,
            places: 0,
        }
    }

    /// Nodes that can still be taken; 0 also while a load has overrun the limit.
    pub(super) fn room(&self) -> usize {
        if self.is_lifted {
            return usize::MAX;
        }
        self.nodes_max.saturating_sub(self.used())
    }

    /// True if a chain can take one more delta without more nodes than there may be.
    pub(super) fn has_room_for_one(&self, chain: Chain) -> bool {
        !chain.is_full() || self.room() > 0
    }

    /// Whether a chain has room for so many more deltas.
    pub(super) fn admits(&self, chain: Chain, deltas: usize) -> Result<(), MapFull> {
        if usize::from(chain.len) + deltas > CHAIN_MAX {
            Err(MapFull::Chain)
        } else if Self::need(chain, deltas) > self.room() {
            Err(MapFull::Deltas)
        } else {
            Ok(())
        }
    }

    /// Nodes that `deltas` more deltas would take from the pool.
    pub(super) fn need(chain: Chain, deltas: usize) -> usize {
        let len = usize::from(chain.len);
        (len + deltas).div_ceil(NODE_DELTAS) - len.div_ceil(NODE_DELTAS)
    }

    /// Deltas in all chains.
    pub(super) const fn deltas(&self) -> u64 {
        self.deltas
    }

    /// Deltas in all chains that bring a place.
    pub(super) const fn places(&self) -> u64 {
        self.places
    }

    pub(super) fn bytes(&self) -> usize {
        let numbers = self.buckets.capacity() + self.free.capacity() + self.dropped.capacity();
        self.nodes.bytes() + numbers * size_of::<u32>()
    }

    /// Nodes in use.
    pub(super) fn used(&self) -> usize {
        self.nodes.len() - self.free_count
    }

    /// Appends the newest delta of a chain. Whoever must keep to the limit has asked
    /// [`DeltaPool::room`]: a load may not fail for want of it. Inlined: a call costs as much as what it
    /// does. Neither chain nor delta is handed on by reference: both stay in registers, and what is written
    /// in parts is not read as a whole at once, for which a processor waits.
    #[inline(always)]
    pub(super) fn push(&mut self, leaf: u32, chain: &mut Chain, delta: Delta) {
        chain.fresh = chain.fresh.saturating_add(1);
        self.deltas += 1;
        self.places += u64::from(delta.brings_place());
        // Else the node count, and so the bucket, stays.
        if chain.is_full() {
            chain.head = self.make_room(leaf, *chain);
        }
        let fill = usize::from(chain.len) % NODE_DELTAS;
        let held = &mut self.nodes[chain.head].deltas;
        let before = match chain.len {
            0 => None,
            // What was copied to a node behind it still stands there.
            _ => Some(held[(fill + NODE_DELTAS - 1) % NODE_DELTAS]),
        };
        chain.note(delta, before);
        held[fill] = delta;
        chain.len += 1;
    }

    /// Has the newest node of a chain all of whose nodes are full take a delta: what it holds goes to a node
    /// behind it. Tells which it is, and puts it in the bucket of one node more.
    #[inline(never)]
    fn make_room(&mut self, leaf: u32, chain: Chain) -> u32 {
        let nodes = usize::from(chain.len) / NODE_DELTAS;
        let bucket = Self::bucket_of(nodes + 1);
        let relinks = !chain.is_held() && Self::bucket_of(nodes) != bucket;
        if chain.len == 0 {
            let head = self.take(leaf, [Delta::FILLER; NODE_DELTAS], NIL);
            if relinks {
                self.link_in(head, bucket);
            }
            return head;
        }
        if relinks {
            self.unlink(chain);
        }
        let newest = &self.nodes[chain.head];
        let (full, next) = (newest.deltas, newest.next);
        self.nodes[chain.head].next = self.take(leaf, full, next);
        if relinks {
            self.link_in(chain.head, bucket);
        }
        chain.head
    }

    /// Makes the chain of a leaf that has none: `deltas`, oldest first. As [`DeltaPool::push`] it
    /// asks for no room.
    pub(super) fn fill(&mut self, leaf: u32, deltas: &[Delta]) -> Chain {
        let mut chain = Chain::EMPTY;
        for some in deltas.chunks(NODE_DELTAS) {
            let mut held = [Delta::FILLER; NODE_DELTAS];
            held[..some.len()].copy_from_slice(some);
            chain.head = self.take(leaf, held, chain.head);
        }
        chain.len = u16::try_from(deltas.len()).expect("chain length is limited");
        chain.mark_as(deltas);
        self.deltas += deltas.len() as u64;
        self.places += places(deltas);
        if chain.len > 0 {
            self.link(chain);
        }
        chain
    }

    /// The nodes of a chain, newest first, with their deltas, oldest first.
    #[inline]
    pub(super) fn nodes(&self, chain: Chain) -> impl Iterator<Item = (u32, &[Delta])> {
        let mut node = chain.head;
        let mut left = usize::from(chain.len);
        // All but the newest are full.
        let mut count = (left + NODE_DELTAS - 1) % NODE_DELTAS + 1;
        core::iter::from_fn(move || {
            left = left.checked_sub(count)?;
            let (this, held) = (node, &self.nodes[node]);
            let deltas = &held.deltas[..count];
            (node, count) = (held.next, NODE_DELTAS);
            Some((this, deltas))
        })
    }

    /// The deltas of a chain, newest first.
    pub(super) fn newest_first(&self, chain: Chain) -> impl Iterator<Item = (Slot, Delta)> {
        self.nodes(chain).flat_map(|(node, deltas)| {
            let newest_first = deltas.iter().enumerate().rev();
            newest_first.map(move |(at, delta)| (Slot { node, at }, *delta))
        })
    }

    /// The deltas of a chain, oldest first, behind what is in `into` already.
    pub(super) fn unroll(&self, chain: Chain, into: &mut Vec<Delta>) {
        let start = into.len();
        into.resize(start + usize::from(chain.len), Delta::FILLER);
        let (full, newest) = into[start..].as_chunks_mut::<NODE_DELTAS>();
        let mut node = chain.head;
        if !newest.is_empty() {
            let held = &self.nodes[node];
            newest.copy_from_slice(&held.deltas[..newest.len()]);
            node = held.next;
        }
        for deltas in full.iter_mut().rev() {
            let held = &self.nodes[node];
            (*deltas, node) = (held.deltas, held.next);
        }
    }

    /// The newest deltas of a chain up to the first that `wanted` does not hold for, oldest first,
    /// behind what is in `into` already.
    pub(super) fn unroll_newest(
        &self,
        chain: Chain,
        wanted: impl Fn(&Delta) -> bool,
        into: &mut Vec<Delta>,
    ) {
        let start = into.len();
        'chain: for (_, deltas) in self.nodes(chain) {
            for delta in deltas.iter().rev() {
                if !wanted(delta) {
                    break 'chain;
                }
                into.push(*delta);
            }
        }
        into[start..].reverse();
    }

    /// How many deltas of a chain stand before the first, from the newest on, that `wanted` does not hold
    /// for.
    pub(super) fn count_newest(&self, chain: Chain, wanted: impl Fn(&Delta) -> bool) -> u16 {
        let mut count = 0;
        for (_, deltas) in self.nodes(chain) {
            for delta in deltas.iter().rev() {
                if !wanted(delta) {
                    return count;
                }
                count += 1;
            }
        }
        count
    }

    /// Writes the newest deltas of a chain, as many as there is room for, oldest first.
    pub(super) fn write_newest(&self, chain: Chain, room: &mut [[u8; DELTA_BYTES]]) {
        let mut left = room.iter_mut().rev();
        for (_, deltas) in self.nodes(chain) {
            for delta in deltas.iter().rev() {
                let Some(room) = left.next() else {
                    return;
                };
                *room = delta.to_bytes();
            }
        }
    }

    /// Writes all deltas of a chain, oldest first; tells the first of them.
    pub(super) fn write_all(&self, chain: Chain, room: &mut [[u8; DELTA_BYTES]]) -> Option<Delta> {
        let (full, newest) = room.as_chunks_mut::<NODE_DELTAS>();
        let (mut node, mut first) = (chain.head, None);
        if !newest.is_empty() {
            let held = &self.nodes[node];
            let some = newest.iter_mut().zip(&held.deltas);
            some.for_each(|(room, delta)| *room = delta.to_bytes());
            (node, first) = (held.next, Some(held.deltas[0]));
        }
        for room in full.iter_mut().rev() {
            let held = &self.nodes[node];
            *room = held.deltas.map(Delta::to_bytes);
            (node, first) = (held.next, Some(held.deltas[0]));
        }
        first
    }

    /// Deltas of a chain that bring a place, besides those in `kept`, which are of it.
    pub(super) fn places_beyond(&self, chain: Chain, kept: &[Delta]) -> u64 {
        let all: u64 = self.nodes(chain).map(|(_, some)| places(some)).sum();
        all - places(kept)
    }

    /// Replaces one delta of a chain in place by a younger one, both puts or moves.
    pub(super) fn set(&mut self, chain: &mut Chain, slot: Slot, delta: Delta) {
        let newest = (usize::from(chain.len) + NODE_DELTAS - 1) % NODE_DELTAS;
        let old = core::mem::replace(&mut self.nodes[slot.node].deltas[slot.at], delta);
        if slot.node != chain.head || slot.at != newest || delta.is_older_than(old) {
            chain.mark(MIXED, true);
        }
        if !delta.brings_place() {
            chain.mark(BARREN, true);
        }
        self.places = self.places - places(&[old]) + places(&[delta]);
    }

    /// Replaces a chain by `deltas`, oldest first, no more of them than before, in the order they had
    /// there and discards only where there were some. Of those that are gone `places` brought one.
    pub(super) fn replace(&mut self, chain: &mut Chain, deltas: &[Delta], places: u64) {
        let before = usize::from(chain.len);
        assert!(deltas.len() <= before, "a chain is only ever shortened");
        if before == 0 {
            return;
        }
        self.unlink(*chain);
        self.places -= places;
        self.deltas -= (before - deltas.len()) as u64;
        let kept = deltas.len().div_ceil(NODE_DELTAS);
        for _ in kept..before.div_ceil(NODE_DELTAS) {
            let next = self.nodes[chain.head].next;
            self.give(chain.head);
            chain.head = next;
        }
        let mut node = chain.head;
        let (full, newest) = deltas.as_chunks::<NODE_DELTAS>();
        if !newest.is_empty() {
            let held = &mut self.nodes[node];
            held.deltas[..newest.len()].copy_from_slice(newest);
            node = held.next;
        }
        for deltas in full.iter().rev() {
            let held = &mut self.nodes[node];
            held.deltas = *deltas;
            node = held.next;
        }
        chain.len = deltas.len() as u16;
        if !chain.is_plain() {
            chain.mark_as(deltas);
        }
        if chain.len > 0 {
            // The node that is the newest now was none, perhaps.
            self.nodes[chain.head].before = HELD;
            if !chain.is_held() {
                self.link(*chain);
            }
        }
    }

    /// Drops all deltas of a chain that [is plain](Chain::is_plain). Its nodes are not looked at: each
    /// would be a cache miss that waits for the one before.
    pub(super) fn drop_plain(&mut self, chain: &mut Chain) {
        assert!(chain.is_plain(), "each delta brings a place");
        if chain.len == 0 {
            return;
        }
        self.unlink(*chain);
        self.dropped.push(chain.head);
        self.free_count += usize::from(chain.len).div_ceil(NODE_DELTAS);
        self.deltas -= u64::from(chain.len);
        self.places -= u64::from(chain.len);
        (chain.head, chain.len) = (NIL, 0);
    }

    /// Takes a chain out of its bucket, or puts it back.
    pub(super) fn hold(&mut self, chain: &mut Chain, held: bool) {
        if chain.len > 0 {
            self.unlink(*chain);
            if !held {
                self.link(*chain);
            }
        }
        chain.mark(IN_MERGE, held);
    }

    /// The node behind another, if both are any; reads it into the processor's cache.
    #[inline]
    pub(super) fn behind(&self, node: u32) -> u32 {
        match node {
            NIL => NIL,
            _ => self.nodes[node].next,
        }
    }

    /// Has the nodes of chains in the processor's cache.
    pub(super) fn fetch<const CHAINS: usize>(&self, chains: &[Chain; CHAINS]) {
        let (mut nodes, mut left) = ([NIL; CHAINS], [0; CHAINS]);
        let mut open = 0;
        for chain in chains.iter().filter(|chain| chain.len > 0) {
            nodes[open] = chain.head;
            left[open] = usize::from(chain.len).div_ceil(NODE_DELTAS);
            open += 1;
        }
        while let Some(rounds) = left[..open].iter().copied().min() {
            for _ in 0..rounds {
                for node in &mut nodes[..open] {
                    *node = self.nodes[*node].next;
                }
            }
            let before = core::mem::take(&mut open);
            for at in 0..before {
                if left[at] > rounds {
                    (nodes[open], left[open]) = (nodes[at], left[at] - rounds);
                    open += 1;
                }
            }
        }
        // Reads of which nothing comes would be left out.
        core::hint::black_box(nodes);
    }

    /// The leaf of a chain in the bucket of the longest, held ones apart.
    pub(super) fn fullest(&mut self) -> Option<u32> {
        while self.top > 0 && self.buckets[self.top] == NIL {
            self.top -= 1;
        }
        let node = self.buckets[self.top];
        (node != NIL).then(|| self.nodes[node].leaf)
    }

    /// No chain is longer, held ones apart; `None` if that is not known.
    pub(super) const fn length_bound(&self) -> Option<usize> {
        match self.top.checked_sub(WIDE_FROM) {
            None => Some(self.top * NODE_DELTAS),
            Some(_) if self.top == BUCKETS - 1 => None,
            Some(more) => Some((WIDE_FROM + more * WIDE + WIDE - 1) * NODE_DELTAS),
        }
    }

    /// The leaf of one of the longest chains that `wanted` holds for.
    pub(super) fn fullest_where(&self, wanted: impl Fn(u32) -> bool) -> Option<u32> {
        for bucket in (1..=self.top).rev() {
            let mut node = self.buckets[bucket];
            while node != NIL {
                let leaf = self.nodes[node].leaf;
                if wanted(leaf) {
                    return Some(leaf);
                }
                node = self.nodes[node].after;
            }
        }
        None
    }

    fn bucket(chain: Chain) -> usize {
        Self::bucket_of(usize::from(chain.len).div_ceil(NODE_DELTAS))
    }

    /// The bucket of chains of so many nodes.
    fn bucket_of(nodes: usize) -> usize {
        match nodes.checked_sub(WIDE_FROM) {
            None => nodes,
            Some(more) => (WIDE_FROM + more / WIDE).min(BUCKETS - 1),
        }
    }

    fn link(&mut self, chain: Chain) {
        self.link_in(chain.head, Self::bucket(chain));
    }

    /// Puts a chain in a bucket, by its newest node.
    fn link_in(&mut self, head: u32, bucket: usize) {
        let first = self.buckets[bucket];
        let node = &mut self.nodes[head];
        (node.before, node.after) = (NIL, first);
        if first != NIL {
            self.nodes[first].before = head;
        }
        self.buckets[bucket] = head;
        self.top = self.top.max(bucket);
    }

    fn unlink(&mut self, chain: Chain) {
        let node = &mut self.nodes[chain.head];
        let (before, after) = (node.before, node.after);
        if before == HELD {
            return;
        }
        node.before = HELD;
        if before == NIL {
            self.buckets[Self::bucket(chain)] = after;
        } else {
            self.nodes[before].after = after;
        }
        if after != NIL {
            self.nodes[after].before = before;
        }
    }

    /// A node for these deltas, with `next` behind it.
    fn take(&mut self, leaf: u32, deltas: [Delta; NODE_DELTAS], next: u32) -> u32 {
        if self.free.is_empty() && !self.dropped.is_empty() {
            self.free_dropped();
        }
        let Some(number) = self.free.pop() else {
            return self.nodes.push(Node {
                deltas,
                next,
                leaf,
                before: HELD,
                after: NIL,
            });
        };
        // Each field where it belongs: a whole one would be put together elsewhere and copied, which waits for it.
        let node = &mut self.nodes[number];
        node.deltas = deltas;
        (node.next, node.leaf) = (next, leaf);
        (node.before, node.after) = (HELD, NIL);
        self.free_count -= 1;
        number
    }

    /// Makes the nodes of some chains that were dropped as a whole the free ones, of which there are none.
    /// They are walked side by side: each node names the next, so the misses of one chain follow one
    /// another, those of several overlap.
    fn free_dropped(&mut self) {
        let mut nodes = [NIL; CHAINS_FREED];
        for node in &mut nodes {
            *node = self.dropped.pop().unwrap_or(NIL);
        }
        while nodes.iter().any(|node| *node != NIL) {
            for node in &mut nodes {
                if *node != NIL {
                    self.free.push(*node);
                    *node = self.nodes[*node].next;
                }
            }
        }
    }

    fn give(&mut self, node: u32) {
        self.nodes[node].leaf = NIL;
        self.free.push(node);
        self.free_count += 1;
    }

    /// Panics unless every node is free or in exactly one of `chains`, given as
    /// `(leaf, chain)`, and buckets hold exactly the chains that are not held.
    pub(super) fn check(&self, chains: impl Iterator<Item = (u32, Chain)>) {
        let mut seen = alloc::vec![false; self.nodes.len()];
        let mut mark = |node: u32| {
            assert!(!seen[node as usize], "a node is in two lists");
            seen[node as usize] = true;
        };
        let (mut deltas, mut places, mut linked) = (0, 0, 0);
        for (leaf, chain) in chains {
            let mut younger: Option<Delta> = None;
            for (slot, delta) in self.newest_first(chain) {
                assert!(
                    chain.may_have_discards() || !delta.is_discard(),
                    "a chain with a discard is marked"
                );
                assert!(
                    !chain.is_in_order() || younger.is_none_or(|next| !next.is_older_than(delta)),
                    "a chain that is not in order is marked"
                );
                assert!(
                    !chain.is_plain() || delta.brings_place(),
                    "a chain with a delta that brings no place is marked"
                );
                younger = Some(delta);
                if slot.at == 0 {
                    mark(slot.node);
                    assert_eq!(self.nodes[slot.node].leaf, leaf, "a node knows its leaf");
                }
                deltas += 1;
                places += u64::from(delta.brings_place());
            }
            if chain.len > 0 {
                let before = self.nodes[chain.head].before;
                assert_eq!(
                    before == HELD,
                    chain.is_held(),
                    "only held chains are in no bucket"
                );
                linked += usize::from(!chain.is_held());
                let is_within = |most| usize::from(chain.len) <= most;
                assert!(
                    chain.is_held() || self.length_bound().is_none_or(is_within),
                    "no chain is longer than is said"
                );
            }
        }
        self.free.iter().for_each(|free| mark(*free));
        for mut free in self.dropped.iter().copied() {
            while free != NIL {
                mark(free);
                free = self.nodes[free].next;
            }
        }
        assert!(seen.iter().all(|&s| s), "a node is in no list");
        assert_eq!(
            (deltas, places),
            (self.deltas, self.places),
            "delta counts agree"
        );
        for (bucket, &first) in self.buckets.iter().enumerate() {
            let mut node = first;
            while node != NIL {
                assert!(bucket <= self.top, "no bucket above the top is in use");
                linked = linked.checked_sub(1).expect("a chain is in one bucket");
                node = self.nodes[node].after;
            }
        }
        assert_eq!(linked, 0, "each chain is in a bucket");
    }
}
