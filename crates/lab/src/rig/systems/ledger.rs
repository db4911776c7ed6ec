//! Which write of a block each place holds: what a model must never mix up.

/// Where a block can lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// A block of the fast drive.
    Fast(u64),
    /// A block of the dense drive.
    Dense(u64),
}

/// Every write has a number, and every place the number of the write it holds.
///
/// Places are noted when their command is sent or has ended; requests for one block must exclude
/// each other meanwhile.
pub(crate) struct Ledger {
    writes: u32,
    /// By block of the volume.
    newest: Vec<u32>,
    fast: Vec<u32>,
    dense: Vec<u32>,
}

impl Ledger {
    /// Nothing is written: a volume and two drives of so many blocks.
    pub(crate) fn new(volume: u64, fast: u64, dense: u64) -> Self {
        Self {
            writes: 0,
            newest: vec![0; volume as usize],
            fast: vec![0; fast as usize],
            dense: vec![0; dense as usize],
        }
    }

    /// A host has written a block to a place.
    pub(crate) fn write(&mut self, block: u64, to: Place) {
        self.writes += 1;
        self.newest[block as usize] = self.writes;
        let number = self.writes;
        *self.of(to) = number;
    }

    /// What one place holds the other holds now as well.
    pub(crate) fn copy(&mut self, from: Place, to: Place) {
        let number = *self.of(from);
        *self.of(to) = number;
    }

    /// True if a place holds what was written to a block last.
    pub(crate) fn is_newest(&self, block: u64, at: Place) -> bool {
        let number = match at {
            Place::Fast(at) => self.fast[at as usize],
            Place::Dense(at) => self.dense[at as usize],
        };
        self.newest[block as usize] == number
    }

    /// True if nothing was ever written to a block.
    #[cfg(test)]
    pub(crate) fn is_unwritten(&self, block: u64) -> bool {
        self.newest[block as usize] == 0
    }

    fn of(&mut self, place: Place) -> &mut u32 {
        match place {
            Place::Fast(at) => &mut self.fast[at as usize],
            Place::Dense(at) => &mut self.dense[at as usize],
        }
    }
}
