//! What a write in place does to a stripe.

use super::rotation::Rotation;
use std::ops::Range;

/// How parity is made anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    /// All data are written: nothing has to be read.
    FullStripe,
    /// Old data and old parity are read.
    ReadModifyWrite,
    /// The data that are not written are read.
    ReconstructWrite,
}

/// Rows of a stripe in which the same strips are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Update {
    /// The stripe.
    pub(crate) stripe: u64,
    /// Bytes of each strip.
    pub(crate) rows: Range<u64>,
    /// Data strips that are written.
    pub(crate) strips: Range<u64>,
    /// How parity is made anew.
    pub(crate) method: Method,
}

impl Update {
    /// What a write of `bytes` of a stripe's data comes to.
    ///
    /// # Source
    /// Linux `drivers/md/raid5.c`, `handle_stripe_dirtying()` (6.6), nothing of the stripe in its cache:
    /// read-modify-write reads what is written and the parity, reconstruct-write what is not
    /// written; the former if `rmw_level` is 1 and it reads less, or is 2 and it does not read
    /// more.
    pub(crate) fn all_of(
        rotation: Rotation,
        chunk: u64,
        (stripe, bytes): (u64, Range<u64>),
        rmw_level: u8,
    ) -> Vec<Self> {
        // In rows between these bytes of a strip the same strips are written.
        let (begin, end) = (bytes.start % chunk, bytes.end % chunk);
        let mut cuts = [0, begin.min(end), begin.max(end), chunk];
        cuts.sort_unstable();
        let of = |rows: &[u64]| {
            let (from, to) = (rows[0], rows[1]);
            let strip = |byte: u64| byte.saturating_sub(from).div_ceil(chunk);
            let strips = strip(bytes.start)..strip(bytes.end);
            (from < to && !strips.is_empty()).then(|| Self {
                stripe,
                rows: from..to,
                method: Method::of(rotation, strips.end - strips.start, rmw_level),
                strips,
            })
        };
        cuts.windows(2).filter_map(of).collect()
    }

    /// Data strips that have to be read.
    pub(crate) fn reads_data(&self, rotation: Rotation) -> impl Iterator<Item = u64> + use<> {
        let (strips, method) = (self.strips.clone(), self.method);
        (0..rotation.data()).filter(move |strip| match method {
            Method::FullStripe => false,
            Method::ReadModifyWrite => strips.contains(strip),
            Method::ReconstructWrite => !strips.contains(strip),
        })
    }

    /// Parity strips that have to be read.
    pub(crate) fn reads_parity(&self, rotation: Rotation) -> Range<u64> {
        match self.method {
            Method::ReadModifyWrite => 0..rotation.parity(),
            Method::FullStripe | Method::ReconstructWrite => 0..0,
        }
    }
}

impl Method {
    fn of(rotation: Rotation, written: u64, rmw_level: u8) -> Self {
        let modify = written + rotation.parity();
        let reconstruct = rotation.data() - written;
        let is_modified = match rmw_level {
            0 => false,
            1 => modify < reconstruct,
            _ => modify <= reconstruct,
        };
        match reconstruct {
            0 => Self::FullStripe,
            _ if is_modified => Self::ReadModifyWrite,
            _ => Self::ReconstructWrite,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte of a write is in one update, and no other is.
    #[test]
    fn updates_are_the_bytes_of_the_write() {
        let (chunk, rotation) = (4, Rotation::new(5, 1));
        for begin in 0..16 {
            for end in begin + 1..=16 {
                let updates = Update::all_of(rotation, chunk, (7, begin..end), 1);
                let mut bytes = Vec::new();
                for update in &updates {
                    for row in update.rows.clone() {
                        bytes.extend(update.strips.clone().map(|strip| strip * chunk + row));
                    }
                }
                bytes.sort_unstable();
                assert_eq!(bytes, (begin..end).collect::<Vec<_>>(), "{updates:?}");
            }
        }
    }

    /// md's rule on eight drives: how many strips have to be written until reading the others is less.
    #[test]
    fn the_method_is_the_one_that_reads_less() {
        use Method::{FullStripe, ReadModifyWrite, ReconstructWrite};
        let methods = |parity, level| {
            let rotation = Rotation::new(8, parity);
            let of = |written| Method::of(rotation, written, level);
            (1..=rotation.data()).map(of).collect::<Vec<_>>()
        };
        let raid_6 = [
            ReadModifyWrite,
            ReconstructWrite,
            ReconstructWrite,
            ReconstructWrite,
            ReconstructWrite,
            FullStripe,
        ];
        assert_eq!(methods(2, 1), raid_6);
        assert_eq!(methods(2, 2)[1], ReadModifyWrite);
        assert_eq!(methods(2, 0)[0], ReconstructWrite);
        assert_eq!(methods(1, 1)[2], ReconstructWrite);
        assert_eq!(methods(1, 1)[1], ReadModifyWrite);
        assert_eq!(methods(1, 0)[6], FullStripe);
    }
}
