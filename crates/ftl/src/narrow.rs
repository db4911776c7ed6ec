//! Narrow stripes: when what is written leaves out a strip, so that it survives the loss of one more drive, and
//! how it is read then.
//!
//! 1. A dense tier with a parity strip that lacks a drive names, for each stripe, blocks to be left out
//!    ([`Drive::left_out`]). The stripe is one like any other then, of which the missing drive's strip is zeroes.
//! 2. Nothing is narrow before two commits are durable that say that stripes may be, so that a start finds it said by
//!    whichever it goes by: it looks for P2L areas in one more place from then on.
//! 3. The P2L of a stripe says what it leaves out. Nothing else is to be kept, and a crash loses nothing of it: what a
//!    stripe says of itself is written with it.
//! 4. A block that no usual way gives is read in the way of the drive that its stripe did without. Both the P2L and the
//!    block have 32 bits of checksum, P2L names the block: no stripe is guessed to be narrow.
//!
//! Narrow stripes hold less, so they are written only while everything that is mapped would have room in them and an
//! eighth of it were left; garbage collection also keeps to full width where a victim would give back too little, or what
//! is kept for it might not do. Else stripes are of full width, without redundancy: to everybody else what a narrow stripe leaves out is
//! garbage, which is collected like any other, so no reserve depends on it.
//!
//! **Not here**: where the blocks of such a stripe lie (`placement::layout`), which strip is left out (`array`). What passes
//! the log is of full width; it goes to the log while stripes are narrow (`placement::bypass`).

use crate::areas::read_area;
use crate::engine::Engine;
use crate::geometry::{Tier, UnitId};
use crate::placement::{Layout, OpenGroup, Writer};
use crate::shared::Shared;
use crate::ways::Ways;
use core::sync::atomic::Ordering;
use varve_format::{CommitBody, P2l, block_crc, crc24};
use varve_io::{Blocks, Drive, LeftOut, NARROW_WAYS};
use varve_units::{Generation, Ppa, VolumeId};

/// Of what narrow stripes could hold one of so many blocks must be left over. Arbitrary: garbage collection moves each
/// block about four times then.
const ROOM_SHARE: u64 = 8;

impl Engine {
    /// Live blocks in stripes that bear the loss of one more drive although the dense tier lacks one: at least so many.
    #[must_use]
    pub fn narrow_blocks(&self) -> u64 {
        let shared = &self.shared;
        let of = |id: UnitId| {
            let first = shared.narrow_from(id)?;
            Some(u64::from(shared.units.unit(id).live_from(first)))
        };
        shared.units.ids(Tier::Dense).filter_map(of).sum()
    }

    /// Blocks of the dense tier that may live, but for those: what the loss of one more drive could take while one is
    /// missing.
    #[must_use]
    pub fn exposed_blocks(&self) -> u64 {
        let units = &self.shared.units;
        let live = units
            .ids(Tier::Dense)
            .map(|id| u64::from(units.unit(id).live()));
        live.sum::<u64>().saturating_sub(self.narrow_blocks())
    }

    /// True if stripes that are written from now on bear the loss of one more drive although the dense tier lacks one.
    #[must_use]
    pub fn writes_narrow(&self) -> bool {
        let out = self.shared.to_be_left_out(Writer::Compaction, 0);
        out.is_some()
    }
}

impl Shared {
    /// The first block of a group from which on all is in stripes that do without the one member that is missing now.
    fn narrow_from(&self, id: UnitId) -> Option<u32> {
        let narrow = self.units.unit(id).narrow()?;
        let missing = self.dense.as_ref()?.narrow_ways();
        let is_of_it = missing[..] == [NARROW_WAYS + narrow.member];
        is_of_it.then(|| {
            narrow
                .from
                .saturating_mul(self.units.geometry().stripe_blocks)
        })
    }

    /// True if a block bears the loss of one more drive although one is missing.
    pub(crate) fn is_narrow(&self, id: UnitId, bit: u32) -> bool {
        id.tier == Tier::Dense && self.narrow_from(id).is_some_and(|first| bit >= first)
    }

    /// Blocks of user data of the stripe that a writer puts together next.
    pub(crate) fn next_stripe_blocks(&self, writer: Writer) -> usize {
        let full = self.units.geometry().stripe_user_blocks();
        let out = self.left_out(writer, 0).map_or(0, |out| out.count);
        (full - out) as usize
    }

    /// Where a stripe of so many blocks is written: narrow if that is wanted and it fits.
    pub(crate) fn layout(&self, writer: Writer, open: OpenGroup, blocks: usize) -> Layout {
        let full = self.units.geometry().stripe_user_blocks() as usize;
        let left_out = self.left_out(writer, self.stripe_offset(open));
        let left_out = left_out.filter(|out| blocks + out.count as usize <= full);
        Layout { open, left_out }
    }

    /// What is left out of the stripe at this byte of the dense tier. Of all stripes the same number of blocks.
    fn left_out(&self, writer: Writer, offset: u64) -> Option<LeftOut> {
        let out = self.to_be_left_out(writer, offset)?;
        if !self.has_narrow.load(Ordering::Relaxed) {
            self.ask_for_narrow();
            return None;
        }
        Some(out)
    }

    /// The same, whatever commits say.
    fn to_be_left_out(&self, writer: Writer, offset: u64) -> Option<LeftOut> {
        let out = self.dense.as_ref()?.left_out(offset)?;
        self.has_narrow_room(writer, &out).then_some(out)
    }

    /// True if stripes that leave out so much leave room for all that there is, and for those who collect.
    fn has_narrow_room(&self, writer: Writer, out: &LeftOut) -> bool {
        let geometry = self.units.geometry();
        let Some(narrow) = geometry.stripe_user_blocks().checked_sub(out.count + 1) else {
            return false;
        };
        let groups = u64::from(geometry.groups - self.config.reserve.groups);
        let room = groups * u64::from(geometry.group_stripes()) * u64::from(narrow + 1);
        self.used_upper() <= room - room / ROOM_SHARE
            && self.dense_shortage().is_none()
            && (writer == Writer::Compaction || self.collects_narrow(narrow + 1))
    }

    /// The next commit is to say that stripes may be narrow.
    fn ask_for_narrow(&self) {
        let is_serving = self.is_serving.load(Ordering::SeqCst);
        if is_serving && !self.wants_narrow.swap(true, Ordering::Relaxed) {
            self.tell_control(|control, _| control.ask_checkpoint());
        }
    }

    /// A commit is durable. Stripes are narrow from the second one on that says that they may be.
    pub(crate) fn note_narrow(&self, body: &CommitBody) {
        if !body.has_narrow || self.has_narrow.load(Ordering::Relaxed) {
            return;
        }
        if self.said_narrow.swap(true, Ordering::Relaxed) {
            self.has_narrow.store(true, Ordering::Relaxed);
        } else {
            self.control().ask_checkpoint();
        }
    }

    /// What a commit says of narrow stripes.
    pub(crate) fn wants_narrow(&self) -> bool {
        self.has_narrow.load(Ordering::Relaxed) || self.wants_narrow.load(Ordering::Relaxed)
    }

    /// The P2L of a stripe that leaves out its last strip, or of a narrow one in the way of a missing member.
    pub(crate) async fn leading_p2l(
        &self,
        (group, stripe): (u32, u32),
        generation: Generation,
        ways: &mut Ways,
    ) -> Option<P2l> {
        if !self.has_narrow.load(Ordering::Relaxed) {
            return None;
        }
        let (dense, geometry) = (self.dense.as_deref()?, self.units.geometry());
        let leading = geometry.leading_place(group, stripe);
        for copy in 0..dense.info().copies {
            let at = (leading, copy);
            match read_area(dense, geometry, &self.identity, at, (group, stripe)).await {
                Ok(Some(p2l)) if p2l.generation == generation => return Some(p2l),
                Ok(_) => ways.note_mismatch(),
                Err(error) => ways.note_error(error),
            }
        }
        for way in dense.narrow_ways() {
            for place in geometry.p2l_places(group, stripe).chain([leading]) {
                let at = (place, way);
                let read = read_area(dense, geometry, &self.identity, at, (group, stripe)).await;
                let p2l = read.ok().flatten();
                if let Some(p2l) = p2l.filter(|p2l| p2l.generation == generation) {
                    return Some(p2l);
                }
            }
        }
        None
    }

    /// Some P2L of a stripe in the present use of its group.
    async fn any_p2l(&self, group: u32, stripe: u32) -> Option<P2l> {
        let (dense, geometry) = (self.dense.as_deref()?, self.units.geometry());
        let generation = self.units.unit(UnitId::group(group)).generation();
        for place in geometry.p2l_places(group, stripe) {
            for copy in 0..dense.info().copies {
                let at = (place, copy);
                let read = read_area(dense, geometry, &self.identity, at, (group, stripe)).await;
                let p2l = read.ok().flatten();
                if let Some(p2l) = p2l.filter(|p2l| p2l.generation == generation) {
                    return Some(p2l);
                }
            }
        }
        let of = (group, stripe);
        self.leading_p2l(of, generation, &mut Ways::default()).await
    }

    /// A block that no usual way gives, if it is in a narrow stripe and the way of that gives it.
    pub(crate) async fn read_narrow(&self, ppa: Ppa, crc: u32) -> Option<Blocks> {
        if !self.has_narrow.load(Ordering::Relaxed) || self.config.elided {
            return None;
        }
        let (dense, geometry) = (self.dense.as_deref()?, self.units.geometry());
        let place = geometry.locate(ppa)?;
        if place.unit.tier != Tier::Dense {
            return None;
        }
        let (stripe, at) = (
            place.bit / geometry.stripe_blocks,
            place.bit % geometry.stripe_blocks,
        );
        let p2l = self.any_p2l(place.unit.index, stripe).await?;
        let narrow = p2l.narrow?;
        let entry = p2l.entries.get(at as usize)?;
        if entry.volume == VolumeId(0) || crc24(entry.crc) != crc {
            return None;
        }
        let way = NARROW_WAYS + narrow.member;
        let read = dense.read_data(place.offset, Blocks::new(1, false), way);
        let block = read.await.ok()?;
        let is_right = block_crc(block.block(0)) == entry.crc;
        if is_right {
            self.count("narrow_reads", 1);
        }
        is_right.then_some(block)
    }
}
