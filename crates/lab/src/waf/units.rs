//! Units of a dense tier: what is written in order and emptied as a whole.
//!
//! Columns rather than records: victims are found by a scan over one or two of them.

use std::collections::VecDeque;

/// In [`Units::closed_live`], a unit that is not closed.
const NOT_CLOSED: u32 = u32::MAX;

/// State of all units.
pub(crate) struct Units {
    blocks: u32,
    live: Vec<u32>,
    /// Live blocks of closed units, more than any has for others.
    closed_live: Vec<u32>,
    opened_at: Vec<u64>,
    closed_at: Vec<u64>,
    /// How often each was opened.
    openings: Vec<u32>,
    stream: Vec<u8>,
    /// In the order in which they were emptied.
    free: VecDeque<u32>,
}

impl Units {
    /// `count` empty units of `blocks` blocks.
    pub(crate) fn new(count: u32, blocks: u32) -> Self {
        let count = count as usize;
        Self {
            blocks,
            live: vec![0; count],
            closed_live: vec![NOT_CLOSED; count],
            opened_at: vec![0; count],
            closed_at: vec![0; count],
            openings: vec![0; count],
            stream: vec![0; count],
            free: (0..count as u32).collect(),
        }
    }

    /// Blocks of a unit.
    pub(crate) const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// How many units there are.
    pub(crate) const fn count(&self) -> usize {
        self.live.len()
    }

    /// How many are empty and unused.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Opens the unit that has been free for longest.
    pub(crate) fn open(&mut self, stream: usize, now: u64) -> Option<u32> {
        let unit = self.free.pop_front()?;
        let at = unit as usize;
        self.opened_at[at] = now;
        self.openings[at] += 1;
        self.stream[at] = u8::try_from(stream).expect("streams are few");
        Some(unit)
    }

    /// A block was written to an open unit.
    pub(crate) fn add(&mut self, unit: u32) {
        self.live[unit as usize] += 1;
    }

    /// A block died.
    pub(crate) fn kill(&mut self, unit: u32) {
        let at = unit as usize;
        self.live[at] -= 1;
        if self.closed_live[at] != NOT_CLOSED {
            self.closed_live[at] -= 1;
        }
    }

    /// An open unit is full.
    pub(crate) fn close(&mut self, unit: u32, now: u64) {
        let at = unit as usize;
        self.closed_live[at] = self.live[at];
        self.closed_at[at] = now;
    }

    /// A closed unit is being emptied: it is no victim any more.
    pub(crate) fn take(&mut self, unit: u32) {
        assert!(
            self.is_closed(unit),
            "unit {unit} is emptied and not closed"
        );
        self.closed_live[unit as usize] = NOT_CLOSED;
    }

    /// A unit that was taken holds nothing that lives.
    pub(crate) fn release(&mut self, unit: u32) {
        assert_eq!(
            self.live[unit as usize], 0,
            "unit {unit} is released with live blocks"
        );
        self.free.push_back(unit);
    }

    /// Live blocks.
    pub(crate) fn live(&self, unit: u32) -> u32 {
        self.live[unit as usize]
    }

    /// True if a unit is full and nobody empties it.
    pub(crate) fn is_closed(&self, unit: u32) -> bool {
        self.closed_live[unit as usize] != NOT_CLOSED
    }

    /// When it was opened, in host writes.
    pub(crate) fn opened_at(&self, unit: u32) -> u64 {
        self.opened_at[unit as usize]
    }

    /// How often it was opened.
    pub(crate) fn openings(&self, unit: u32) -> u32 {
        self.openings[unit as usize]
    }

    /// Whose it is, or was when it was closed.
    pub(crate) fn stream(&self, unit: u32) -> usize {
        self.stream[unit as usize].into()
    }

    /// The closed unit with the fewest live blocks.
    pub(crate) fn emptiest(&self) -> Option<u32> {
        let fewest = self.closed_live.iter().copied().min()?;
        let at = self.closed_live.iter().position(|live| *live == fewest)?;
        (fewest != NOT_CLOSED).then_some(at as u32)
    }

    /// The closed unit whose emptying gains most: free share by live share, times age since closing.
    ///
    /// # Source
    /// Rosenblum, Ousterhout: The Design and Implementation of a Log-Structured File System, 1992.
    pub(crate) fn best_by_cost_and_benefit(&self, now: u64) -> Option<u32> {
        let all = f64::from(self.blocks);
        let mut best = None;
        for (at, &live) in self.closed_live.iter().enumerate() {
            if live == NOT_CLOSED {
                continue;
            }
            let live = f64::from(live);
            let age = (now - self.closed_at[at] + 1) as f64;
            let gain = (all - live) / (live + all * 1e-3) * age;
            if best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, at as u32));
            }
        }
        best.map(|(_, unit)| unit)
    }
}
