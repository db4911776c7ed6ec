//! Which drive of an array holds which strip of a stripe.

/// Left-symmetric rotation: parity moves one drive down from stripe to stripe, data follow it
/// cyclically, so that reading in order visits all drives in turn.
///
/// # Source
/// Linux `drivers/md/raid5.c`, `raid5_compute_sector()`, `ALGORITHM_LEFT_SYMMETRIC` of levels 5 and 6
/// (6.6); the same as `varve-array`'s with one parity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rotation {
    drives: u64,
    parity: u64,
}

impl Rotation {
    /// Stripes over `drives` drives, `parity` strips of each are parity.
    ///
    /// # Panics
    /// If no strip is left for data.
    pub(crate) fn new(drives: usize, parity: usize) -> Self {
        assert!(parity < drives, "a stripe has data");
        Self {
            drives: drives as u64,
            parity: parity as u64,
        }
    }

    /// Data strips of a stripe.
    pub(crate) const fn data(&self) -> u64 {
        self.drives - self.parity
    }

    /// Parity strips of a stripe.
    pub(crate) const fn parity(&self) -> u64 {
        self.parity
    }

    /// The drive of a data strip.
    pub(crate) const fn data_drive(&self, stripe: u64, strip: u64) -> usize {
        ((self.first(stripe) + self.parity + strip) % self.drives) as usize
    }

    /// The drive of a parity strip.
    pub(crate) const fn parity_drive(&self, stripe: u64, which: u64) -> usize {
        ((self.first(stripe) + which) % self.drives) as usize
    }

    /// The drive of the first parity strip, or of the first data strip if there is no parity.
    const fn first(&self, stripe: u64) -> u64 {
        if self.parity == 0 {
            return 0;
        }
        self.drives - 1 - stripe % self.drives
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every drive holds one strip of each stripe, and as much parity as any other.
    #[test]
    fn strips_of_a_stripe_are_on_all_drives() {
        for (drives, parity) in [(1, 0), (8, 0), (3, 1), (8, 1), (4, 2), (8, 2)] {
            let rotation = Rotation::new(drives, parity);
            let mut held = vec![0; drives];
            for stripe in 0..drives as u64 {
                let data = (0..rotation.data()).map(|strip| rotation.data_drive(stripe, strip));
                let parities = 0..rotation.parity();
                let parity = parities.map(|which| rotation.parity_drive(stripe, which));
                parity.clone().for_each(|drive| held[drive] += 1);
                let mut all: Vec<usize> = data.chain(parity).collect();
                all.sort_unstable();
                assert_eq!(all, (0..drives).collect::<Vec<_>>());
            }
            assert!(held.iter().all(|count| *count == parity));
        }
    }

    /// The picture of RAID-6 in md's order: P on the last drive, Q behind it, then data.
    #[test]
    fn the_first_stripes_are_those_of_md() {
        let rotation = Rotation::new(4, 2);
        let places = |stripe| {
            let parity = [0, 1].map(|which| rotation.parity_drive(stripe, which));
            (
                parity,
                [0, 1].map(|strip| rotation.data_drive(stripe, strip)),
            )
        };
        assert_eq!(places(0), ([3, 0], [1, 2]));
        assert_eq!(places(1), ([2, 3], [0, 1]));
    }
}
