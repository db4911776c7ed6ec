//! RAID-0 as md does it.

use super::super::station::Station;
use super::super::system::{Flow, Io, Role, System, pieces};
use super::CHUNK_BYTES;
use std::rc::Rc;
use varve_media::timed::Ask;

/// Chunks in turn on all drives.
///
/// # Source
/// Linux `drivers/md/raid0.c`, drives of one size (from memory). Its work costs no processor here.
pub(crate) struct Raid0 {
    drives: Vec<Rc<Station>>,
    /// Chunks of each drive.
    chunks: u64,
}

impl Raid0 {
    /// Over drives that are all alike.
    pub(crate) fn new(drives: Vec<Rc<Station>>) -> Rc<Self> {
        let chunks = drives[0].bytes() / CHUNK_BYTES;
        Rc::new(Self { drives, chunks })
    }
}

impl System for Raid0 {
    fn bytes(&self) -> u64 {
        self.chunks * self.drives.len() as u64 * CHUNK_BYTES
    }

    fn serve(self: Rc<Self>, io: Io) -> Flow {
        let ask = if io.is_read { Ask::Read } else { Ask::Write };
        let drives = self.drives.len() as u64;
        let started: Vec<_> = pieces(io.offset, io.bytes, CHUNK_BYTES)
            .map(|(chunk, within, bytes)| {
                let offset = chunk / drives * CHUNK_BYTES + within;
                self.drives[(chunk % drives) as usize].ask(ask, offset, bytes)
            })
            .collect();
        Box::pin(async move {
            for part in started {
                part.await;
            }
            Ok(())
        })
    }

    fn drives(&self) -> Vec<(Role, Rc<Station>)> {
        let of = |drive| (Role::Dense, Rc::clone(drive));
        self.drives.iter().map(of).collect()
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        super::array_parameters(&self.drives)
    }
}
