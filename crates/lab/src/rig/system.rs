//! What stands between hosts and drives.

use super::station::Station;
use crate::comparators::Stated;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// What a host asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Io {
    /// Read or write.
    pub(crate) is_read: bool,
    /// First byte, a multiple of 4 KiB.
    pub(crate) offset: u64,
    /// Bytes, a multiple of 4 KiB.
    pub(crate) bytes: u64,
}

/// A request on its way; it ends when the host is told.
pub(crate) type Flow = Pin<Box<dyn Future<Output = Result<(), SystemError>>>>;

/// Why a system failed a request. None of the models does; the engine may.
pub(crate) type SystemError = varve_ftl::EngineError;

/// What a drive is there for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Role {
    /// Takes writes first.
    Fast,
    /// Keeps the data.
    Dense,
}

/// A storage system.
pub(crate) trait System {
    /// Bytes hosts can address.
    fn bytes(&self) -> u64;

    /// Serves a request.
    fn serve(self: Rc<Self>, io: Io) -> Flow;

    /// Its drives.
    fn drives(&self) -> Vec<(Role, Rc<Station>)>;

    /// What it is made of, in words: the report prints it.
    fn parameters(&self) -> Vec<(&'static str, String)>;

    /// What it goes by that is known only once it is built, beside what its comparator states.
    fn stated(&self) -> Vec<Stated> {
        Vec::new()
    }

    /// What its software has counted so far, by name; what never happened is left out.
    fn counters(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }

    /// How things stand in its software: told where a run comes to a halt.
    fn gauges(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }

    /// From here on everything takes time.
    fn start(&self) {
        for (_, station) in self.drives() {
            station.start();
        }
    }
}

/// Parts of `offset..offset + bytes` between multiples of `piece`: number of the piece, offset in
/// it, bytes.
pub(crate) fn pieces(offset: u64, bytes: u64, piece: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let end = offset + bytes;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let within = at % piece;
        let length = (piece - within).min(end - at);
        let part = (at / piece, within, length);
        at += length;
        Some(part)
    })
}
