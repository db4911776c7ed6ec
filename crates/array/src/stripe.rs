//! The stripe set: whole stripes over many drives; its addresses are data blocks only.

use crate::assemble::{AssembleError, check_member};
use crate::faults::Faults;
use crate::geometry::{Geometry, Protection};
use crate::member::{Member, MemberState};
use crate::members::Members;
use crate::membership::Membership;
use crate::restore::{self, Progress, Restore, RestoreError, Restored, Source};
use crate::set::MemberSet;
use crate::stripe_read::{Piece, pieces};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;
use varve_io::{Command, Completion, Done, Drive, DriveInfo, Gather, IoError, LeftOut, World};
use varve_units::BLOCK_BYTES;

/// An array of full stripes; layout in [`Geometry`].
///
/// *Writes* are whole stripes, any number in order. *Reads* are any blocks: copy 0 reads the
/// strip itself, copy 1 its second copy or the XOR of the other strips; while a drive that is replaced
/// is kept, copy 2 reads the strip from it, or as the XOR of it and the others. What was written narrow (`narrow`) can be
/// read in a way of its own. *Repair* of copy 0
/// rewrites the strip's blocks, of copy 1 the mirror's second copy; with parity it is refused
/// with [`IoError::Media`], because which of the other strips is wrong is not known. A *discard*
/// reaches the drives for the groups it covers as a whole.
///
/// A write that fails leaves its stripes undefined, parity included.
///
/// Payload-elided blocks are supported without protection and with mirrors, except rebuild.
pub struct StripeSet {
    pub(crate) members: Rc<Members>,
    pub(crate) geometry: Geometry,
}

impl StripeSet {
    /// Assembles a stripe set. Members' bases should be multiples of the drives' erase units,
    /// so that zones do not share them. `world` runs commits of losses, and writes that wait for
    /// a copy.
    ///
    /// # Errors
    /// If the members do not fit the geometry, or too few are live.
    pub fn new(
        geometry: Geometry,
        members: Vec<Member>,
        membership: Rc<dyn Membership>,
        world: Rc<dyn World>,
    ) -> Result<Self, AssembleError> {
        if members.len() != geometry.drives() {
            return Err(AssembleError::MemberCount {
                least: geometry.drives(),
                most: geometry.drives(),
                found: members.len(),
            });
        }
        let mut live = MemberSet::default();
        for (index, member) in members.iter().enumerate() {
            check_member(index, member, BLOCK_BYTES as u32, geometry.member_bytes())?;
            if member.state == MemberState::Live {
                live.insert(index);
            }
        }
        if !geometry.cover().holds(live, members.len()) {
            return Err(AssembleError::TooFewLive { live: live.len() });
        }
        Ok(Self {
            members: Members::new(members, geometry.cover(), membership, world),
            geometry,
        })
    }

    /// The layout.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The member that copy `copy` of the data block at byte `offset` is read from; nothing where it is
    /// the sum of all the others.
    ///
    /// # Panics
    /// If there is no such block.
    #[must_use]
    pub fn member_of(&self, offset: u64, copy: u8) -> Option<usize> {
        let direct = self.piece_of(offset).direct;
        match copy {
            0 => Some(direct),
            _ => self.geometry.partner(direct),
        }
    }

    /// Byte, on every member, of the row of blocks that the data block at byte `offset` is one of.
    ///
    /// # Panics
    /// If there is no such block.
    #[must_use]
    pub fn height_of(&self, offset: u64) -> u64 {
        self.piece_of(offset).start
    }

    fn piece_of(&self, offset: u64) -> Piece {
        let mut pieces = pieces(&self.geometry, offset, BLOCK_BYTES);
        pieces.next().expect("a block is a piece")
    }

    /// State of a member.
    #[must_use]
    pub fn state(&self, member: usize) -> MemberState {
        self.members.state(member)
    }

    /// What the drive of a member answered badly since it took its seat.
    #[must_use]
    pub fn faults(&self, member: usize) -> Faults {
        self.members.faults(member)
    }

    /// Notes a loss that was committed elsewhere: Live, Leaving or Rebuilding to Lost.
    ///
    /// # Panics
    /// If the member is lost already.
    pub fn set_lost(&self, member: usize) {
        self.members.set_lost(member);
    }

    /// Keeps the drive of a live member that is given up next, to read from while another one is
    /// filled in its place: it may hold what the others do not.
    ///
    /// # Panics
    /// If the member is not live.
    pub fn keep(&self, member: usize) {
        self.members.keep(member);
    }

    /// Gives a member up by wish: it is leaving from now on, lost when `commit`, which is to commit
    /// the loss, has ended well. To be awaited to its end: commands that miss the member wait for it.
    ///
    /// # Errors
    /// Those of `commit`. A member that the others cannot do without stays as it is.
    pub async fn give_up<E>(
        &self,
        member: usize,
        commit: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        self.members.give_up(member, commit).await
    }

    /// Lets go of a drive that was kept.
    pub fn release_kept(&self, member: usize) {
        self.members.release_former(member);
    }

    /// Checks whether a drive, used from byte `base` on, could take a seat.
    ///
    /// # Errors
    /// Why it does not fit.
    pub fn check_fit(
        &self,
        member: usize,
        drive: &Rc<dyn Drive>,
        base: u64,
    ) -> Result<(), AssembleError> {
        let candidate = Member::rebuilding(Rc::clone(drive), base);
        check_member(
            member,
            &candidate,
            BLOCK_BYTES as u32,
            self.geometry.member_bytes(),
        )
    }

    /// Bytes of each member behind its base at least.
    #[must_use]
    pub const fn member_bytes(&self) -> u64 {
        self.geometry.member_bytes()
    }

    /// True if all members but this one hold everything: it may be declared lost.
    #[must_use]
    pub fn can_spare(&self, member: usize) -> bool {
        self.members.can_spare(member)
    }

    /// True if every command that the drives of a seat were ever sent has ended there. A drive that was
    /// lost may take the seat again only then: a write that comes late would fall on what was rebuilt.
    #[must_use]
    pub fn is_drained(&self, member: usize) -> bool {
        self.members.is_drained(member)
    }

    /// Lets every rebuild that runs or begins from now on end with
    /// [`RestoreError::Interrupted`]: the array is about to be given up.
    pub fn stop_rebuilds(&self) {
        self.members.stop_copies();
    }

    /// Seats another drive: Lost to Rebuilding. From now on it receives all writes.
    ///
    /// # Errors
    /// If the drive does not fit.
    ///
    /// # Panics
    /// If the member is not lost.
    pub fn replace(
        &self,
        member: usize,
        drive: Rc<dyn Drive>,
        base: u64,
    ) -> Result<(), AssembleError> {
        self.check_fit(member, &drive, base)?;
        self.members.replace(member, drive, base);
        Ok(())
    }

    /// Restores the strips, data and parity, of a rebuilding member in the given ranges of
    /// stripes (see [`Geometry::group_stripes`]), and whatever writes were in flight when it was
    /// seated; flushes it. Writes may go on meanwhile. Not for payload-elided runs.
    ///
    /// # Errors
    /// Why the member is not complete.
    ///
    /// # Panics
    /// If the member is not rebuilding, or a range is beyond the array.
    pub async fn rebuild(
        &self,
        member: usize,
        stripes: &[Range<u64>],
        mut progress: impl FnMut(Progress),
    ) -> Result<Restored, RestoreError> {
        if self.geometry.protection() == Protection::None {
            return Err(RestoreError::Unprotected);
        }
        let strip = self.geometry.strip_bytes();
        let mut ranges = Vec::with_capacity(stripes.len());
        for range in stripes {
            assert!(
                range.start <= range.end && range.end <= self.geometry.stripes(),
                "stripes beyond the array"
            );
            ranges.push(range.start * strip..range.end * strip);
        }
        let copy = Restore {
            members: &self.members,
            member,
            lba_bytes: BLOCK_BYTES,
            source: OtherStrips { set: self, member },
        };
        copy.run(ranges, &mut progress).await
    }

    /// Rebuilding to Live.
    ///
    /// # Panics
    /// If the member is not rebuilding, or was not rebuilt.
    pub fn set_live(&self, member: usize) {
        self.members.set_live(member);
    }

    fn check(&self, offset: u64, length: u64) {
        assert!(
            offset.is_multiple_of(BLOCK_BYTES) && length.is_multiple_of(BLOCK_BYTES),
            "misaligned range {offset}+{length}"
        );
        assert!(
            offset
                .checked_add(length)
                .is_some_and(|end| end <= self.geometry.data_bytes()),
            "range {offset}+{length} beyond the end"
        );
    }

    /// Passes a discard on for the groups inside the range.
    fn discard(&self, offset: u64, length: u64) -> Completion {
        let group = self.geometry.group_bytes();
        let first = offset.div_ceil(group);
        let count = ((offset + length) / group).saturating_sub(first);
        if count == 0 {
            return Completion::ready(Ok(Done::Nothing));
        }
        let zone = self.geometry.zone_bytes();
        self.members.hint(|base| Command::Discard {
            offset: base + first * zone,
            length: count * zone,
        })
    }
}

impl Drive for StripeSet {
    fn info(&self) -> DriveInfo {
        DriveInfo {
            bytes: self.geometry.data_bytes(),
            lba_bytes: BLOCK_BYTES as u32,
            volatile_cache: self.members.has_volatile_cache(),
            copies: self.geometry.copies() + self.members.kept_ways(),
            handles: self.members.handles(),
            gap_blocks: self.members.gap_blocks(),
        }
    }

    fn submit(&self, command: Command) -> Completion {
        match command {
            Command::Read { offset, into, copy } => {
                self.check(offset, into.bytes());
                self.read(offset, into, copy)
            }
            Command::Write {
                offset,
                gather,
                handle,
            } => {
                self.check(offset, gather.bytes());
                self.write(offset, &gather, handle)
            }
            Command::Repair {
                offset,
                gather,
                copy,
            } => {
                self.check(offset, gather.bytes());
                self.repair(offset, &gather, copy)
            }
            Command::Flush => self.members.flush(),
            Command::Discard { offset, length } => {
                self.check(offset, length);
                self.discard(offset, length)
            }
        }
    }

    fn left_out(&self, offset: u64) -> Option<LeftOut> {
        self.left_out_of(offset)
    }

    fn complete(&self, before: Gather) -> Gather {
        self.with_sum(before)
    }

    fn narrow_ways(&self) -> Vec<u8> {
        self.ways_of_missing()
    }
}

/// Restores a strip from the others at its height: XOR is symmetric, so data and parity strips
/// come back the same way and a run of stripes is one run on every drive.
struct OtherStrips<'a> {
    set: &'a StripeSet,
    member: usize,
}

impl Source for OtherStrips<'_> {
    async fn read(&self, range: Range<u64>) -> Result<Gather, IoError> {
        let (members, geometry) = (&self.set.members, &self.set.geometry);
        // Before anything is sent: what is under way is to be awaited.
        if !geometry
            .others(self.member)
            .all(|other| members.is_live(other))
        {
            return Err(IoError::Gone);
        }
        let send = |other| {
            members.send(other, |base| Command::Read {
                offset: base + range.start,
                into: restore::memory(&range),
                copy: 0,
            })
        };
        let parts: Vec<_> = geometry.others(self.member).map(send).collect();
        let parts = members.join(parts).await;
        parts.iter().for_each(|part| members.note_read(part));
        let mut sum = None;
        for part in parts {
            let Done::Read(strips) = part.into_outcome()? else {
                unreachable!("a read returns its memory");
            };
            match &mut sum {
                None => sum = Some(strips),
                Some(sum) => restore::add(sum, &strips),
            }
        }
        Ok(restore::gather(sum.expect("a protected strip has others")))
    }

    /// Data blocks are found by a map that knows their checksums: nothing that lies there is taken for
    /// them.
    fn gap(&self, _: &Range<u64>) -> Option<Gather> {
        None
    }
}
