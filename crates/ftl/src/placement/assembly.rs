//! A stripe as it is written: data, padding and P2L, in the order of its blocks.

use super::item::Stripe;
use super::{Layout, Stream};
use crate::config::Canary;
use crate::geometry::UnitId;
use crate::shared::Shared;
use varve_format::P2lHead;
use varve_io::{Blocks, Gather, LeftOut, Sectors};
use varve_units::{BLOCK, BLOCK_BYTES, SECTOR};

impl Shared {
    /// Data, padding and P2L of one stripe. Sets the live bits.
    pub(super) fn assemble(&self, stream: &Stream, layout: Layout, stripe: &Stripe) -> Gather {
        let geometry = *self.units.geometry();
        let open = layout.open;
        let forgotten = usize::from(self.config.is_planted(Canary::LiveBlockWithZeroBit));
        let live = (stripe.len() - forgotten) as u32;
        for run in layout.runs(&geometry, live) {
            let first = geometry.dense_ppa(open.group, run.start);
            self.units.append_run(first, run.len() as u32);
        }
        let unit = self.units.unit(UnitId::group(open.group));
        let head = P2lHead {
            epoch: self.identity.tag(self.identity.epoch),
            group: open.group,
            generation: unit.generation(),
            stripe: open.next_stripe,
            narrow: layout.narrow(&geometry),
        };
        let sectors = geometry.p2l_area_blocks() as usize * (BLOCK / SECTOR);
        let user = geometry.stripe_user_blocks() as usize;
        let write = |area: &mut [u8]| match layout.left_out {
            None => head.encode_into(user, stripe.entries(), area),
            Some(_) => head.encode_into(user, layout.entries(&geometry, stripe.entries()), area),
        };
        let area = stream.sink.area(sectors, self.world.supply(), write);
        match layout.left_out {
            None => self.gather_full(stripe, &area),
            Some(out) => self.gather_narrow(&layout, out, stripe, &area),
        }
    }

    /// A stripe of full width.
    fn gather_full(&self, stripe: &Stripe, area: &Sectors) -> Gather {
        let geometry = self.units.geometry();
        let padding = geometry.stripe_user_blocks() as usize - stripe.len();
        // With P2L areas and padding.
        let mut gather = Gather::with_capacity(stripe.pieces() + 3);
        for _ in 1..geometry.p2l_copies {
            gather.push_meta(area.clone());
        }
        stripe.push_blocks(&mut gather);
        if padding > 0 {
            gather.push_data(Blocks::new(padding, self.config.elided));
        }
        gather.push_meta(area.clone());
        gather
    }

    /// A stripe that leaves something out: zeroes, or the sum that the drive adds.
    fn gather_narrow(
        &self,
        layout: &Layout,
        out: LeftOut,
        stripe: &Stripe,
        area: &Sectors,
    ) -> Gather {
        let geometry = self.units.geometry();
        let start = layout.open.next_stripe * geometry.stripe_blocks;
        let leads = layout.narrow(geometry).is_some_and(|narrow| narrow.leads());
        let mut gather = Gather::with_capacity(stripe.pieces() + 5);
        if leads {
            gather.push_meta(area.clone());
        }
        let pad = |gather: &mut Gather, end: u32| {
            let end = u64::from(end) * BLOCK_BYTES;
            let blocks = (end - gather.bytes()) / BLOCK_BYTES;
            if blocks > 0 {
                gather.push_data(Blocks::new(blocks as usize, self.config.elided));
            }
        };
        let mut done = 0;
        for run in layout.runs(geometry, stripe.len() as u32) {
            if !run.is_empty() {
                pad(&mut gather, run.start - start);
                stripe.push_some(&mut gather, done..done + run.len());
                done += run.len();
            }
        }
        if out.is_sum && !self.config.is_planted(Canary::NarrowWithoutSum) {
            pad(&mut gather, out.first);
            let dense = self.dense.as_ref();
            return dense
                .expect("streams write to a dense tier")
                .complete(gather);
        }
        let behind = if leads { 0 } else { geometry.p2l_area_blocks() };
        pad(&mut gather, geometry.stripe_blocks - behind);
        if !leads {
            gather.push_meta(area.clone());
        }
        gather
    }
}
