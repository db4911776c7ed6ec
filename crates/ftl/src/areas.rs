//! P2L areas on the dense tier: where those of a stripe lie, and what one copy of one says.
//!
//! **Not here**: which copy counts (`gc`, `rebuild`).

use crate::geometry::Geometry;
use crate::shared::Identity;
use varve_format::{Narrow, P2l};
use varve_io::{Drive, IoError, NARROW_WAYS, Sectors};
use varve_units::{BLOCK, BLOCK_BYTES, SECTOR};

impl Geometry {
    /// Blocks of the dense tier where the P2L areas of a stripe begin, the usual one first.
    pub(crate) fn p2l_places(&self, group: u32, stripe: u32) -> impl Iterator<Item = u64> + use<> {
        let area = self.p2l_area_blocks();
        let start = u64::from(group) * u64::from(self.group_blocks)
            + u64::from(stripe) * u64::from(self.stripe_blocks);
        let last = start + u64::from(self.stripe_blocks - area);
        let leading = (self.p2l_copies == 2).then_some(start);
        core::iter::once(last).chain(leading)
    }

    /// Where the P2L area of a stripe lies that leaves out its last strip, and nothing else is.
    pub(crate) fn leading_place(&self, group: u32, stripe: u32) -> u64 {
        u64::from(group) * u64::from(self.group_blocks)
            + u64::from(stripe) * u64::from(self.stripe_blocks)
    }

    /// Blocks of the dense tier where the P2L areas of a stripe of this width begin.
    pub(crate) fn areas_of(
        &self,
        (group, stripe): (u32, u32),
        narrow: Option<Narrow>,
    ) -> impl Iterator<Item = u64> + use<> {
        let leads = narrow.is_some_and(|narrow| narrow.leads());
        let leading = leads.then(|| self.leading_place(group, stripe));
        let usual = self.p2l_places(group, stripe).filter(move |_| !leads);
        leading.into_iter().chain(usual)
    }

    /// First block of user data of a stripe, counted from its group's start.
    pub(crate) const fn stripe_first_user_block(&self, stripe: u32) -> u32 {
        stripe * self.stripe_blocks + self.p2l_area_blocks() * (self.p2l_copies - 1)
    }

    /// Blocks of one P2L area.
    pub(crate) const fn p2l_area_blocks(&self) -> u32 {
        self.stripe_p2l_blocks() / self.p2l_copies
    }
}

/// One copy of the P2L area at block `place`, with its plain epoch; `None` if it is that of no use of this stripe in
/// this pool. What an older pool on the same drives left is intact, too. So may be what a host wrote: a narrow stripe says
/// of itself where its area is to lie, and in which way it is to be read.
///
/// # Errors
/// The drive's.
pub(crate) async fn read_area(
    dense: &dyn Drive,
    geometry: &Geometry,
    identity: &Identity,
    (place, copy): (u64, u8),
    (group, stripe): (u32, u32),
) -> Result<Option<P2l>, IoError> {
    let user = geometry.stripe_user_blocks() as usize;
    let used = P2l::blocks_for(user) * BLOCK;
    let into = Sectors::zeroed(geometry.p2l_area_blocks() as usize * BLOCK / SECTOR);
    let sectors = dense.read_meta(place * BLOCK_BYTES, into, copy).await?;
    let p2l = P2l::decode(&sectors.bytes()[..used], group, stripe).ok();
    let is_leading = geometry.p2l_copies == 1 && place == geometry.leading_place(group, stripe);
    Ok(p2l.and_then(|p2l| {
        let epoch = identity.epoch_of(p2l.epoch)?;
        let leads = p2l.narrow.is_some_and(|narrow| narrow.leads());
        let member = p2l.narrow.map(|narrow| NARROW_WAYS + narrow.member);
        let is_its_way = copy < NARROW_WAYS || member == Some(copy);
        let is_right = p2l.entries.len() == user && leads == is_leading && is_its_way;
        is_right.then_some(P2l { epoch, ..p2l })
    }))
}
