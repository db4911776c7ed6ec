//! Memory of dropped blocks and sectors, kept by each thread for its next ones.

use std::thread::LocalKey;
use varve_io::{Block, Home, Recycler, Sector};

/// Blocks of memory kept for reuse, per thread: 64 MiB. Arbitrary: some stripes of every stream.
const SPARE_BLOCKS_MAX: usize = 16 << 10;

/// Sectors of memory kept for reuse, per thread: 8 MiB. Arbitrary: all metadata of some chunks, which a drive in
/// memory gives back at once.
const SPARE_SECTORS_MAX: usize = 16 << 10;

thread_local! {
    static STORE: Recycler = const { Recycler::new(SPARE_BLOCKS_MAX, SPARE_SECTORS_MAX) };
}

/// The stores of all threads: memory goes to the thread that drops it.
pub(crate) static SPARE: Spare = Spare(&STORE);

pub(crate) struct Spare(&'static LocalKey<Recycler>);

impl Home for Spare {
    fn take(&self, count: usize) -> Vec<Block> {
        self.0.with(|store| store.take(count))
    }

    fn give(&self, blocks: Vec<Block>) {
        // A thread that ends has no store any more: the memory is freed.
        let _ = self.0.try_with(|store| store.give(blocks));
    }

    fn take_sectors(&self, count: usize) -> Vec<Sector> {
        self.0.with(|store| store.take_sectors(count))
    }

    fn give_sectors(&self, sectors: Vec<Sector>) {
        let _ = self.0.try_with(|store| store.give_sectors(sectors));
    }
}
