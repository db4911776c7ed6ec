//! Streams that begin together get out of step: otherwise those that are written alike would open a group
//! each at the same time for ever, and stand still together until garbage collection has made as many.
//!
//! So a stream that begins lends its first stripes, a part of a group that follows from its number, to
//! another one that has a group open. Their blocks lie together until they are overwritten or moved; no
//! group is closed before it is full, which zones would not bear.
//!
//! It says nothing about what is right. A start that goes on with open groups finds them out of step.

use crate::geometry::Tier;
use crate::placement::{Stream, StreamId, Writer};
use crate::shared::Shared;
use crate::units::UnitState;
use alloc::rc::Rc;

impl Shared {
    /// Stripes that a new stream lends.
    pub(crate) fn stripes_to_lend(&self, id: StreamId) -> u32 {
        let is_gone_on_with = |unit| {
            let unit = self.units.unit(unit);
            unit.is_resumed() && unit.state() == UnitState::Open
        };
        if id.writer != Writer::Compaction || self.units.ids(Tier::Dense).any(is_gone_on_with) {
            return 0;
        }
        let before = self.streams.of_compaction().len() as u32;
        part(before, self.units.geometry().group_stripes())
    }

    /// The stream that the next stripe of this one goes to, if not to its own group.
    pub(crate) fn lends_to(&self, stream: &Stream) -> Option<Rc<Stream>> {
        let left = stream.lent().get().checked_sub(1)?;
        stream.lent().set(left);
        let others = self.streams.of_compaction().into_iter();
        let mut others = others.filter(|other| other.lent().get() == 0 && other.open().is_some());
        let other = others.next();
        if other.is_none() {
            stream.lent().set(0);
        }
        other
    }
}

/// As far from all before it as may be, whatever their number: a half of `whole`, a quarter, three
/// quarters, an eighth (van der Corput's sequence).
fn part(number: u32, whole: u32) -> u32 {
    let part = (u64::from(number.reverse_bits()) * u64::from(whole)) >> u32::BITS;
    part as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_begin_apart() {
        let parts: alloc::vec::Vec<_> = (0..8).map(|number| part(number, 64)).collect();
        assert_eq!(parts, [0, 32, 16, 48, 8, 40, 24, 56]);
        assert_eq!((part(5, 1), part(3, 4)), (0, 3));
    }
}
