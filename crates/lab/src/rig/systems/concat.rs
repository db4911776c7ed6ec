//! Drives one behind the other, each with a part of the addresses: a disk for every tenant, or one
//! drive as it is.

use super::super::station::Station;
use super::super::system::{Flow, Io, Role, System, pieces};
use crate::comparators::DROP_IN;
use std::rc::Rc;
use varve_media::timed::Ask;

/// Drives one behind the other.
pub(crate) struct Concat {
    drives: Vec<Rc<Station>>,
    /// Bytes of each that are used.
    each: u64,
}

impl Concat {
    /// Over drives that are all alike.
    pub(crate) fn new(drives: Vec<Rc<Station>>) -> Rc<Self> {
        let each = drives[0].bytes() / DROP_IN.whole_bytes * DROP_IN.whole_bytes;
        Rc::new(Self { drives, each })
    }
}

impl System for Concat {
    fn bytes(&self) -> u64 {
        self.each * self.drives.len() as u64
    }

    fn serve(self: Rc<Self>, io: Io) -> Flow {
        let ask = if io.is_read { Ask::Read } else { Ask::Write };
        let started: Vec<_> = pieces(io.offset, io.bytes, self.each)
            .map(|(drive, offset, bytes)| self.drives[drive as usize].ask(ask, offset, bytes))
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
        let drives = format!("{} of {}", self.drives.len(), self.drives[0].name());
        vec![("drives", drives)]
    }
}
