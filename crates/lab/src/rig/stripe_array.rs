//! What the engine's tier stands on: drives of which it sees one.

use super::station::Station;
use super::system::pieces;
use super::systems::rotation::Rotation;
use std::rc::Rc;
use varve_io::{Handle, Receiver};
use varve_media::ZoneShape;
use varve_media::timed::Ask;

/// Bytes of a strip of an array, unless its drives are so small that such strips do not divide what they erase at once.
///
/// # Source
/// What `varve pool create` plans for four and more data strips (`control/src/plan.rs`); pools of fewer
/// have longer ones.
pub(crate) const STRIP_BYTES: u64 = 64 << 10;

/// Drives of one tier: full stripes with rotating parity, or one drive as it is.
///
/// Time only. Blocks of the engine are symbols here, and a parity of symbols means nothing: the content is kept
/// beside, as of one drive, and what an array adds is how much goes to which drive. As in
/// `varve-array` stripes are written whole, so parity is never read; unlike there two parities are
/// possible.
pub(crate) struct StripeArray {
    drives: Vec<Rc<Station>>,
    rotation: Rotation,
    strip_bytes: u64,
}

/// A command to a drive: which one, first byte, bytes.
type Part = (usize, u64, u64);

impl StripeArray {
    /// Over drives that are all alike; so many strips of a stripe are parity.
    pub(crate) fn new(drives: Vec<Rc<Station>>, parity: usize, strip_bytes: u64) -> Rc<Self> {
        Rc::new(Self {
            rotation: Rotation::new(drives.len(), parity),
            drives,
            strip_bytes,
        })
    }

    /// Bytes of a strip.
    pub(crate) const fn strip_bytes(&self) -> u64 {
        self.strip_bytes
    }

    /// Its drives.
    pub(crate) fn drives(&self) -> &[Rc<Station>] {
        &self.drives
    }

    /// Strips of a stripe that are parity.
    pub(crate) const fn parity(&self) -> u64 {
        self.rotation.parity()
    }

    /// Bytes of data it has room for.
    pub(crate) fn bytes(&self) -> u64 {
        if self.drives.len() == 1 {
            return self.drives[0].bytes();
        }
        self.drives[0].bytes() / self.strip_bytes * self.strip_bytes * self.rotation.data()
    }

    /// Placement handles that its drives have; of zoned ones as many as zones may be active.
    pub(crate) fn handles(&self) -> u8 {
        let drive = &self.drives[0];
        let active = |shape: &ZoneShape| u8::try_from(shape.active_max).unwrap_or(u8::MAX);
        drive.zones().map_or_else(|| drive.handles(), active)
    }

    /// Starts a command on the drives it concerns; it has ended when all have. What is written is written
    /// under a placement handle.
    ///
    /// # Panics
    /// If it writes a part of a stripe that has parity, or under a handle that there is not.
    pub(crate) fn ask(
        &self,
        handle: Handle,
        ask: Ask,
        offset: u64,
        bytes: u64,
    ) -> Vec<Receiver<()>> {
        let start = |drive: &Rc<Station>, offset: u64, bytes: u64| match ask {
            Ask::Write => drive.write_under(handle.0, offset, bytes),
            _ => drive.ask(ask, offset, bytes),
        };
        if let [drive] = &self.drives[..] {
            return vec![start(drive, offset, bytes)];
        }
        if ask == Ask::Flush {
            return self.drives.iter().map(|drive| start(drive, 0, 0)).collect();
        }
        let parts = self.parts(ask != Ask::Read, offset, bytes);
        let start = |(drive, offset, bytes): Part| start(&self.drives[drive], offset, bytes);
        parts.into_iter().map(start).collect()
    }

    /// What each drive has to do. Neighbours on a drive are one command.
    fn parts(&self, with_parity: bool, offset: u64, bytes: u64) -> Vec<Part> {
        let (data, strip_bytes) = (self.rotation.data(), self.strip_bytes);
        let mut parts: Vec<Part> = Vec::new();
        let mut add = |drive: usize, offset: u64, bytes: u64| {
            let last = parts.iter_mut().rev().find(|part| part.0 == drive);
            match last {
                Some((_, first, length)) if *first + *length == offset => *length += bytes,
                _ => parts.push((drive, offset, bytes)),
            }
        };
        for (strip, within, bytes) in pieces(offset, bytes, strip_bytes) {
            let (stripe, strip) = (strip / data, strip % data);
            let height = stripe * strip_bytes;
            if with_parity && strip == 0 {
                for which in 0..self.rotation.parity() {
                    let drive = self.rotation.parity_drive(stripe, which);
                    add(drive, height, strip_bytes);
                }
            }
            let drive = self.rotation.data_drive(stripe, strip);
            add(drive, height + within, bytes);
        }
        let stripe_bytes = data * strip_bytes;
        let is_whole = offset.is_multiple_of(stripe_bytes) && bytes.is_multiple_of(stripe_bytes);
        assert!(
            is_whole || !with_parity || self.rotation.parity() == 0,
            "{offset}+{bytes} is no whole number of stripes"
        );
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_media::AnySheet;
    use varve_sim::executor::{Executor, Journal};
    use varve_sim::rng::Rng;
    use varve_units::Nanos;

    fn array(drives: usize, parity: usize) -> Rc<StripeArray> {
        let executor = Executor::new(Rc::new(Journal::default()), Rng::new(1), Nanos(0));
        let sheet = AnySheet::named("slc-002").unwrap();
        let station = |_| Station::new(&sheet, 1 << 30, &executor.reactor()).unwrap();
        StripeArray::new((0..drives).map(station).collect(), parity, STRIP_BYTES)
    }

    /// Whole stripes reach every drive with as many bytes, parity included; reads the one drive.
    #[test]
    fn stripes_are_written_whole_and_read_where_they_lie() {
        for (drives, parity) in [(8, 0), (8, 1), (8, 2), (3, 1)] {
            let array = array(drives, parity);
            let data = (drives - parity) as u64;
            drop(array.ask(
                Handle::default(),
                Ask::Write,
                5 * data * STRIP_BYTES,
                3 * data * STRIP_BYTES,
            ));
            for drive in array.drives() {
                assert_eq!(drive.traffic().written_bytes, 3 * STRIP_BYTES);
                assert_eq!(drive.traffic().writes, 1, "neighbours are one command");
            }
            drop(array.ask(
                Handle::default(),
                Ask::Read,
                5 * data * STRIP_BYTES + 4096,
                8192,
            ));
            let reads: u64 = array
                .drives()
                .iter()
                .map(|drive| drive.traffic().reads)
                .sum();
            assert_eq!(reads, 1);
        }
    }

    #[test]
    #[should_panic(expected = "no whole number of stripes")]
    fn a_part_of_a_stripe_is_not_written() {
        drop(array(8, 2).ask(Handle::default(), Ask::Write, 0, STRIP_BYTES));
    }
}
