//! Narrow stripes: what is written while a member is missing and survives the loss of one more.
//!
//! A stripe is *narrow* if the strip of the missing member is all zeroes. It is a stripe like any other: parity is the
//! XOR of all data strips, whoever is missing or comes back meanwhile, and a drive that is filled anew gets the zeroes
//! by the usual sum. Where the missing member would hold data, the caller leaves that strip empty. Where it would hold
//! parity, the last data strip takes the XOR of the others, so that parity is zero.
//!
//! ```text
//!   parity, data 3, 4 drives, the second one missing
//!   d0    d1   d2   d3
//!   A0    0    A2   P      stripe 0: strip 1 left out
//!   B1    0    P    B0     stripe 1: strip 2
//!   C0+C1 0    C0   C1     stripe 2: parity is zero
//!   P     0    D1   D2     stripe 3: strip 0
//! ```
//!
//! So any one of the other members can be missed, too: its strip is the XOR of the rest, without the zeroes. Nothing
//! here remembers which stripes are narrow: who reads in such a way knows, and of which member, or verifies what it gets.

use crate::geometry::{Content, Protection};
use crate::member::MemberState;
use crate::parity;
use crate::ribbon::Ribbon;
use crate::set::MEMBERS_MAX;
use crate::stripe::StripeSet;
use alloc::vec::Vec;
use varve_io::{Gather, LeftOut, NARROW_WAYS, Segment};
use varve_units::BLOCK_BYTES;

const _: () = assert!(
    NARROW_WAYS as usize + MEMBERS_MAX <= u8::MAX as usize + 1,
    "each member has a way"
);

impl StripeSet {
    /// The member that a way takes for zeroes, if the way is that of a member of a set with parity.
    pub(crate) fn bare_member(&self, copy: u8) -> Option<usize> {
        let member = usize::from(copy.checked_sub(NARROW_WAYS)?);
        (self.has_parity() && member < self.geometry.drives()).then_some(member)
    }

    /// As [`varve_io::Drive::left_out`]: something while one member takes no writes and all others are whole.
    pub(crate) fn left_out_of(&self, offset: u64) -> Option<LeftOut> {
        let member = self.missing_member()?;
        let geometry = &self.geometry;
        let stripe = geometry.place(offset / BLOCK_BYTES).stripe;
        let count = (geometry.strip_bytes() / BLOCK_BYTES) as u32;
        let (strip, is_sum) = match geometry.content(stripe, member) {
            Content::Data(strip) => (strip, false),
            Content::Parity => (geometry.data_strips() - 1, true),
        };
        Some(LeftOut {
            member: member as u8,
            first: strip as u32 * count,
            count,
            is_sum,
        })
    }

    /// The only member that is not whole, if it takes no writes.
    fn missing_member(&self) -> Option<usize> {
        if !self.has_parity() {
            return None;
        }
        let (live, written) = (self.members.live(), self.members.written());
        let count = self.geometry.drives();
        if live.len() + 1 != count || written.len() + 1 != count {
            return None;
        }
        (0..count).find(|&member| !written.contains(member))
    }

    /// As [`varve_io::Drive::narrow_ways`].
    pub(crate) fn ways_of_missing(&self) -> Vec<u8> {
        if !self.has_parity() {
            return Vec::new();
        }
        let is_missing = |member: &usize| self.members.state(*member) != MemberState::Live;
        let missing = (0..self.geometry.drives()).filter(is_missing);
        missing.map(|member| NARROW_WAYS + member as u8).collect()
    }

    /// As [`varve_io::Drive::complete`].
    pub(crate) fn with_sum(&self, mut before: Gather) -> Gather {
        let strip = self.geometry.strip_bytes();
        let strips = self.geometry.data_strips() - 1;
        assert!(self.has_parity(), "a sum without parity");
        assert_eq!(
            before.bytes(),
            strip * strips as u64,
            "all strips but the last"
        );
        let mut ribbon = Ribbon::new(&before);
        let cut = |_| {
            let mut cut: Vec<Segment> = Vec::new();
            ribbon.take(strip, |segment| cut.push(segment));
            cut
        };
        let cuts: Vec<_> = (0..strips).map(cut).collect();
        let count = (strip / BLOCK_BYTES) as usize;
        let mut sum = self.members.world.blocks(count, false);
        parity::compute(sum.bytes_mut(), &cuts);
        before.push_data(sum);
        before
    }

    fn has_parity(&self) -> bool {
        matches!(self.geometry.protection(), Protection::Parity { .. })
    }
}
