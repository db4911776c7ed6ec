//! What of a request need not be sent again, whatever is lost: ranges in order that do not touch.
//!
//! Parts of it are in flight at a time, so answers leave gaps; they close as the others come. What a
//! lost association left behind are gaps too.
//!
//! **Not here**: which answers count (`requests`).

use alloc::vec::Vec;
use core::ops::Range;

/// Ranges of a request, counted as its parts are.
#[derive(Default)]
pub(crate) struct Kept {
    runs: Vec<Range<u64>>,
}

impl Kept {
    /// Adds a part.
    ///
    /// # Panics
    /// If some of it is there: a part is answered once.
    pub fn add(&mut self, part: Range<u64>) {
        let behind = self.runs.partition_point(|run| run.end < part.start);
        let joined = self.runs[behind..].iter();
        let joined = joined.take_while(|run| run.start <= part.end).count();
        let joined = behind..behind + joined;
        let mut grown = part.clone();
        for run in &self.runs[joined.clone()] {
            let is_beside = run.end <= part.start || part.end <= run.start;
            assert!(is_beside, "{part:?} and {run:?} are both kept");
            grown = grown.start.min(run.start)..grown.end.max(run.end);
        }
        self.runs.splice(joined, [grown]);
    }

    /// The first gap that begins at `at` or behind it and before `end`.
    pub fn gap(&self, at: u64, end: u64) -> Option<Range<u64>> {
        let behind = self.runs.partition_point(|run| run.end <= at);
        let mut runs = self.runs[behind..].iter();
        let mut next = runs.next();
        let mut start = at;
        if let Some(run) = next
            && run.start <= at
        {
            // The next one does not touch it.
            start = run.end;
            next = runs.next();
        }
        let stop = next.map_or(end, |run| run.start.min(end));
        (start < stop).then_some(start..stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of one block in every order that leaves a gap somewhere, against a row of marks.
    #[test]
    fn gaps_are_what_was_not_added() {
        const END: u64 = 6;
        for order in 0..720_u64 {
            let mut left: Vec<u64> = (0..END).collect();
            let (mut kept, mut marks, mut choice) = (Kept::default(), [false; 6], order);
            while !left.is_empty() {
                let block = left.remove((choice % left.len() as u64) as usize);
                choice /= left.len() as u64 + 1;
                kept.add(block..block + 1);
                marks[block as usize] = true;
                for at in 0..=END {
                    let is_free = |block: &u64| !marks[*block as usize];
                    let start = (at..END).find(is_free);
                    let expected = start.map(|start| {
                        let end = (start..END).find(|block| marks[*block as usize]);
                        start..end.unwrap_or(END)
                    });
                    assert_eq!(kept.gap(at, END), expected, "{marks:?} from {at}");
                }
            }
            assert_eq!(kept.runs.len(), 1);
        }
    }

    #[test]
    #[should_panic(expected = "are both kept")]
    fn nothing_is_kept_twice() {
        let mut kept = Kept::default();
        kept.add(0..4);
        kept.add(3..5);
    }
}
