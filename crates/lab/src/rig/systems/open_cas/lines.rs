//! Lines of a cache: which block each holds, and in which order they were used.

use std::collections::VecDeque;

const NONE: u32 = u32::MAX;
const CLEAN: usize = 0;
const DIRTY: usize = 1;

#[derive(Clone, Copy)]
struct Line {
    /// [`NONE`] if it is free.
    block: u32,
    is_dirty: bool,
    newer: u32,
    older: u32,
}

#[derive(Clone, Copy)]
struct List {
    newest: u32,
    oldest: u32,
    lines: u64,
}

/// Lines of 4 KiB.
pub(super) struct Lines {
    lines: Vec<Line>,
    /// By block, the line that holds it.
    of_block: Vec<u32>,
    free: VecDeque<u32>,
    lists: [List; 2],
}

impl Lines {
    /// So many free lines for a volume of so many blocks.
    pub(super) fn new(lines: u64, blocks: u64) -> Self {
        let count = u32::try_from(lines).expect("lines have numbers of 32 bits");
        let free = Line {
            block: NONE,
            is_dirty: false,
            newer: NONE,
            older: NONE,
        };
        let empty = List {
            newest: NONE,
            oldest: NONE,
            lines: 0,
        };
        Self {
            lines: vec![free; count as usize],
            of_block: vec![NONE; blocks as usize],
            free: (0..count).collect(),
            lists: [empty; 2],
        }
    }

    /// The line that holds a block.
    pub(super) fn find(&self, block: u64) -> Option<u32> {
        let line = self.of_block[block as usize];
        (line != NONE).then_some(line)
    }

    /// Lines that hold nothing.
    pub(super) fn free(&self) -> u64 {
        self.free.len() as u64
    }

    /// Lines the dense drive does not have the content of.
    #[cfg(test)]
    pub(super) const fn dirty(&self) -> u64 {
        self.lists[DIRTY].lines
    }

    /// True if the dense drive does not have what a line holds.
    pub(super) fn is_dirty(&self, line: u32) -> bool {
        self.lines[line as usize].is_dirty
    }

    /// A line was used.
    pub(super) fn touch(&mut self, line: u32) {
        self.unlink(line);
        self.link(line);
    }

    /// Says whether the dense drive has what a line holds; true if that is news.
    pub(super) fn mark(&mut self, line: u32, is_dirty: bool) -> bool {
        if self.is_dirty(line) == is_dirty {
            return false;
        }
        self.unlink(line);
        self.lines[line as usize].is_dirty = is_dirty;
        self.link(line);
        true
    }

    /// A line for a block that has none: a free one, or else the one behind the last if that is
    /// clean, or else the clean one that was used longest ago; of those that `may_go`. None if there
    /// is none.
    pub(super) fn claim(
        &mut self,
        block: u64,
        last: Option<u32>,
        may_go: impl Fn(u64) -> bool,
    ) -> Option<u32> {
        assert!(self.find(block).is_none(), "a block has one line");
        let line = match self.free.pop_front() {
            Some(line) => line,
            None => {
                let line = self.victim(last, may_go)?;
                self.release(line);
                self.free.pop_back()?
            }
        };
        self.lines[line as usize].block = block as u32;
        self.of_block[block as usize] = line;
        self.link(line);
        Some(line)
    }

    fn victim(&self, last: Option<u32>, may_go: impl Fn(u64) -> bool) -> Option<u32> {
        let may = |line: u32| {
            let Line {
                block, is_dirty, ..
            } = self.lines[line as usize];
            block != NONE && !is_dirty && may_go(block.into())
        };
        let behind = last.map(|last| last + 1);
        let behind = behind.filter(|line| (*line as usize) < self.lines.len() && may(*line));
        behind.or_else(|| self.oldest_of(CLEAN).find(|line| may(*line)))
    }

    /// Lines that were written, those used longest ago first, with their blocks.
    pub(super) fn oldest_dirty(&self) -> impl Iterator<Item = (u32, u64)> {
        self.oldest_of(DIRTY)
            .map(|line| (line, self.lines[line as usize].block.into()))
    }

    fn oldest_of(&self, list: usize) -> impl Iterator<Item = u32> {
        let mut at = self.lists[list].oldest;
        std::iter::from_fn(move || {
            let line = at;
            (line != NONE).then(|| {
                at = self.lines[line as usize].newer;
                line
            })
        })
    }

    /// Makes a line free; what it held is lost.
    pub(super) fn release(&mut self, line: u32) {
        self.unlink(line);
        let held = &mut self.lines[line as usize];
        self.of_block[held.block as usize] = NONE;
        (held.block, held.is_dirty) = (NONE, false);
        self.free.push_back(line);
    }

    fn list_of(&mut self, line: u32) -> &mut List {
        let dirty = self.is_dirty(line);
        &mut self.lists[if dirty { DIRTY } else { CLEAN }]
    }

    fn unlink(&mut self, line: u32) {
        let Line { newer, older, .. } = self.lines[line as usize];
        match newer {
            NONE => self.list_of(line).newest = older,
            newer => self.lines[newer as usize].older = older,
        }
        match older {
            NONE => self.list_of(line).oldest = newer,
            older => self.lines[older as usize].newer = newer,
        }
        self.list_of(line).lines -= 1;
    }

    fn link(&mut self, line: u32) {
        let list = self.list_of(line);
        let before = std::mem::replace(&mut list.newest, line);
        list.lines += 1;
        if before == NONE {
            list.oldest = line;
        } else {
            self.lines[before as usize].newer = line;
        }
        let held = &mut self.lines[line as usize];
        (held.newer, held.older) = (NONE, before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_lines_go_oldest_first_and_dirty_ones_never() {
        let mut lines = Lines::new(3, 10);
        let of = [0, 1, 2].map(|block| lines.claim(block, None, |_| true).unwrap());
        assert_eq!(of, [0, 1, 2]);
        assert!(lines.mark(of[0], true) && !lines.mark(of[0], true));
        lines.touch(of[1]);
        // Two is the clean one that was used longest ago, but must stay; one goes.
        assert_eq!(lines.claim(7, None, |block| block != 2), Some(1));
        assert_eq!((lines.find(1), lines.find(7)), (None, Some(1)));
        assert!(lines.mark(1, true) && lines.mark(2, true));
        assert_eq!(lines.claim(8, None, |_| true), None, "nothing is clean");
        let dirty: Vec<_> = lines.oldest_dirty().collect();
        assert_eq!(dirty, [(0, 0), (1, 7), (2, 2)]);
        assert!(lines.mark(0, false));
        assert_eq!(lines.claim(8, None, |_| true), Some(0));
        lines.release(2);
        assert_eq!((lines.free(), lines.dirty()), (1, 1));
    }

    #[test]
    fn the_line_behind_the_last_comes_first() {
        let mut lines = Lines::new(4, 10);
        for block in 0..4 {
            lines.claim(block, None, |_| true).unwrap();
        }
        assert_eq!(lines.claim(5, Some(2), |_| true), Some(3));
        assert_eq!(lines.claim(6, Some(3), |_| true), Some(0));
    }
}
