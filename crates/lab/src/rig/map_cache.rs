//! Pages of a map of which only some are in memory: least recently used go first.

use crate::comparators::CSAL;

/// Blocks whose places a page holds.
const PAGE_BLOCKS: u64 = CSAL.page_bytes / CSAL.entry_bytes;

/// The page that names a block.
pub(crate) const fn page_of(block: u64) -> u64 {
    block / PAGE_BLOCKS
}

/// What a look-up takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lookup {
    /// The page has to be read.
    pub(crate) reads: bool,
    /// A page that was changed has to be written first.
    pub(crate) writes: bool,
}

/// Pages in memory.
pub(crate) struct MapCache {
    capacity: usize,
    /// By page, its node.
    pages: Vec<usize>,
    nodes: Vec<Node>,
    newest: usize,
    oldest: usize,
}

#[derive(Clone, Copy)]
struct Node {
    page: u64,
    is_dirty: bool,
    newer: usize,
    older: usize,
}

const NONE: usize = usize::MAX;

impl MapCache {
    /// A cache of this share of the pages of a volume, one at least.
    pub(crate) fn new(blocks: u64, per_cent: f64) -> Self {
        let pages = blocks.div_ceil(PAGE_BLOCKS);
        Self {
            capacity: ((pages as f64 * per_cent / 100.0) as usize).max(1),
            pages: vec![NONE; pages as usize],
            nodes: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Looks places of a page up, to change some if `changes`.
    pub(crate) fn look_up(&mut self, page: u64, changes: bool) -> Lookup {
        let at = self.pages[page as usize];
        if at != NONE {
            self.unlink(at);
            self.link(at);
            self.nodes[at].is_dirty |= changes;
            return Lookup {
                reads: false,
                writes: false,
            };
        }
        let node = Node {
            page,
            is_dirty: changes,
            newer: NONE,
            older: NONE,
        };
        let (at, writes) = if self.nodes.len() < self.capacity {
            self.nodes.push(node);
            (self.nodes.len() - 1, false)
        } else {
            let at = self.oldest;
            self.unlink(at);
            let old = std::mem::replace(&mut self.nodes[at], node);
            self.pages[old.page as usize] = NONE;
            (at, old.is_dirty)
        };
        self.pages[page as usize] = at;
        self.link(at);
        Lookup {
            reads: true,
            writes,
        }
    }

    fn unlink(&mut self, at: usize) {
        let Node { newer, older, .. } = self.nodes[at];
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older].newer = newer,
        }
    }

    fn link(&mut self, at: usize) {
        (self.nodes[at].newer, self.nodes[at].older) = (NONE, self.newest);
        match self.newest {
            NONE => self.oldest = at,
            newest => self.nodes[newest].newer = at,
        }
        self.newest = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Random;
    use std::collections::VecDeque;

    /// Against a list that is searched.
    #[test]
    fn the_least_recently_used_goes_first() {
        let blocks = 40 * PAGE_BLOCKS;
        let mut cache = MapCache::new(blocks, 25.0);
        let mut list: VecDeque<(u64, bool)> = VecDeque::new();
        let mut random = Random::new(3);
        let mut missed = 0;
        for _ in 0..20_000 {
            let (block, changes) = (random.below(blocks), random.below(2) == 0);
            let page = block / PAGE_BLOCKS;
            let found = list.iter().position(|(held, _)| *held == page);
            let expected = match found {
                Some(at) => {
                    let (_, dirty) = list.remove(at).unwrap();
                    list.push_front((page, dirty | changes));
                    (false, false)
                }
                None => {
                    let gone = if list.len() == 10 {
                        list.pop_back()
                    } else {
                        None
                    };
                    list.push_front((page, changes));
                    (true, gone.is_some_and(|(_, dirty)| dirty))
                }
            };
            let found = cache.look_up(page, changes);
            assert_eq!((found.reads, found.writes), expected);
            missed += u32::from(found.reads);
        }
        // A quarter of the pages is there.
        assert!((14_600..15_400).contains(&missed), "{missed}");
    }
}
