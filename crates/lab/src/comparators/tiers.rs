//! What every model without time stands on.

use super::stated::Stated;

/// Parameters of the tiers below policies.
pub(crate) struct Tiers {
    /// Chunks of a fast tier.
    pub(crate) chunks: u32,
    /// How many times the user data of the drive below fit into its flash, in millionths.
    pub(crate) spare_millionths: u64,
    /// IUs written in part that can wait there for their rest: none ever does.
    pub(crate) merge_slots: u32,
}

pub(crate) const TIERS: Tiers = Tiers {
    chunks: 100,
    spare_millionths: 1_078_000,
    merge_slots: 32,
};

impl Tiers {
    /// Of a run, whether it has a fast tier or not.
    pub(super) fn stated(&self, has_fast: bool) -> Vec<Stated> {
        let Self {
            chunks: _,
            spare_millionths,
            merge_slots,
        } = *self;
        let mut stated = vec![
            Stated::of(
                "flash of the drive below, by its user data",
                format!("{}", spare_millionths as f64 / 1e6),
                "sheet of the D5-P5316 (varve lab drive qlc-p5316), fitted to its random writes",
            ),
            Stated::of(
                "IUs of the drive below that wait for their rest",
                merge_slots,
                "chosen: an IU is a block, so none ever does",
            ),
        ];
        if has_fast {
            stated.push(self.stated_log());
        }
        stated
    }

    /// Of the fast tier of a model.
    pub(super) fn stated_log(&self) -> Stated {
        Stated::of(
            "chunks of the fast tier",
            self.chunks,
            "chosen: as many as in the simulation that figures are compared with",
        )
    }
}
