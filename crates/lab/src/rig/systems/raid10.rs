//! RAID-10 as md does it: two copies of each chunk, on drives beside one another.

use super::super::station::Station;
use super::super::system::{Flow, Io, Role, System, pieces};
use super::CHUNK_BYTES;
use crate::comparators::MD;
use std::cell::Cell;
use std::rc::Rc;

const COPIES: u64 = MD.copies;

/// Two copies of each chunk.
///
/// # Source
/// Linux `drivers/md/raid10.c`: layout `n2` (`__raid10_find_phys()`, from memory), drives that do not
/// rotate are read where fewest requests are pending, the first of equals (`read_balance()`, as
/// changed by "md/raid10: improve raid10 random read performance", 2019). Its work costs no
/// processor here.
pub(crate) struct Raid10 {
    drives: Vec<Rc<Station>>,
    pending: Vec<Cell<u32>>,
    /// Chunks of each drive.
    chunks: u64,
}

impl Raid10 {
    /// Over drives that are all alike.
    pub(crate) fn new(drives: Vec<Rc<Station>>) -> Rc<Self> {
        let chunks = drives[0].bytes() / CHUNK_BYTES;
        let pending = drives.iter().map(|_| Cell::new(0)).collect();
        Rc::new(Self {
            drives,
            pending,
            chunks,
        })
    }

    /// Where the copies of a chunk lie: drive, and chunk of it.
    fn places(&self, chunk: u64) -> [(usize, u64); COPIES as usize] {
        let drives = self.drives.len() as u64;
        std::array::from_fn(|copy| {
            let place = chunk * COPIES + copy as u64;
            ((place % drives) as usize, place / drives)
        })
    }

    fn begin(
        &self,
        is_read: bool,
        drive: usize,
        offset: u64,
        bytes: u64,
    ) -> varve_io::Receiver<()> {
        let pending = &self.pending[drive];
        pending.set(pending.get() + 1);
        let station = &self.drives[drive];
        if is_read {
            station.read(offset, bytes)
        } else {
            station.write(offset, bytes)
        }
    }
}

impl System for Raid10 {
    fn bytes(&self) -> u64 {
        self.chunks * self.drives.len() as u64 / COPIES * CHUNK_BYTES
    }

    fn serve(self: Rc<Self>, io: Io) -> Flow {
        let mut started = Vec::new();
        for (chunk, within, bytes) in pieces(io.offset, io.bytes, CHUNK_BYTES) {
            let mut places = self.places(chunk);
            // Stable: of equals the first.
            places.sort_by_key(|(drive, _)| {
                if io.is_read {
                    self.pending[*drive].get()
                } else {
                    0
                }
            });
            let copies = if io.is_read { 1 } else { places.len() };
            for (drive, row) in &places[..copies] {
                let offset = row * CHUNK_BYTES + within;
                started.push((*drive, self.begin(io.is_read, *drive, offset, bytes)));
            }
        }
        Box::pin(async move {
            for (drive, part) in started {
                part.await;
                let pending = &self.pending[drive];
                pending.set(pending.get() - 1);
            }
            Ok(())
        })
    }

    fn drives(&self) -> Vec<(Role, Rc<Station>)> {
        let of = |drive| (Role::Dense, Rc::clone(drive));
        self.drives.iter().map(of).collect()
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = super::array_parameters(&self.drives);
        parameters.push(("layout", "near, 2 copies".to_owned()));
        parameters
    }
}
