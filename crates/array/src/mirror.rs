//! The mirror: the same bytes on every member.
//!
//! Copy *c* of byte *o* is member `(c + o / 1 MiB) mod n`: copy 0 spreads reads over the members,
//! and a repair finds the member its read went to. A read of blocks across such a bound is split there, a
//! block that lies across it (blocks start at any sector) belongs to the member of its first byte;
//! by copy 1 and up its pieces avoid members that are not live, so that some copy serves every
//! read while one member lives. Sectors are read from the member of their first byte as a whole: they may be under one
//! checksum, and where one member lost a part of them another one's copy must not be mixed with it.
//!
//! A write that fails leaves its range undefined, each copy its own way. A discard is a hint, its
//! errors are ignored.
//!
//! **Invariants**: see the crate. **Not here**: making members equal after a crash (`ftl`), labels,
//! which lie below the members' bases (`pool`).

use crate::assemble::{AssembleError, check_member};
use crate::faults::Faults;
use crate::join::{Part, all, hurry};
use crate::kept_read::{KeptPiece, read_kept};
use crate::member::{Member, MemberState};
use crate::members::Members;
use crate::membership::Membership;
use crate::restore::{self, Progress, Restore, RestoreError, Restored, Source};
use crate::ribbon::Ribbon;
use crate::scatter;
use crate::set::Cover;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;
use varve_io::{
    Command, Completion, Done, Drive, DriveInfo, Gather, Handle, IoError, Sectors, Segment, Target,
    World,
};
use varve_units::{BLOCK_BYTES, PLANTS_BUGS, SECTOR, SECTOR_BYTES};

/// Most members of a mirror.
pub const MIRROR_MAX: usize = 4;

/// Bytes that are read from the same member. Arbitrary: few reads cross it, and neighbours in a
/// log spread.
const ROTATION_BYTES: u64 = 1 << 20;

/// A mirror over 1 to 4 members; see the module.
pub struct Mirror {
    members: Rc<Members>,
    bytes: u64,
    lba_bytes: u32,
    /// The planted bug: a write ends well once its first member has it.
    is_hasty: bool,
}

impl Mirror {
    /// Assembles a mirror. Its size is that of the smallest member present and its LBA size the
    /// largest, so a start without one of them may see another mirror; [`Mirror::sized`] takes
    /// what was committed instead.
    ///
    /// `world` runs commits of losses, and writes that wait for a copy.
    ///
    /// # Errors
    /// If the number of members, their sizes, bases or LBA sizes do not fit, or none is live.
    pub fn new(
        members: Vec<Member>,
        membership: Rc<dyn Membership>,
        world: Rc<dyn World>,
    ) -> Result<Self, AssembleError> {
        check_count(&members)?;
        let present = || {
            let drives = members.iter();
            drives.filter_map(|member| Some((member.drive.as_ref()?.info(), member.base)))
        };
        let lba_bytes = present().map(|(info, _)| info.lba_bytes).max();
        let lba_bytes = lba_bytes.expect("a live member has a drive");
        let bytes = present().map(|(info, base)| info.bytes.saturating_sub(base));
        let bytes = bytes.min().expect("a live member has a drive");
        let bytes = bytes - bytes % u64::from(lba_bytes);
        let bytes = bytes.max(u64::from(lba_bytes));
        Self::sized(members, bytes, lba_bytes, membership, world)
    }

    /// Assembles a mirror of `bytes` bytes from each member's base on, with LBAs of `lba_bytes`,
    /// whoever is present.
    ///
    /// # Errors
    /// As [`Mirror::new`].
    pub fn sized(
        members: Vec<Member>,
        bytes: u64,
        lba_bytes: u32,
        membership: Rc<dyn Membership>,
        world: Rc<dyn World>,
    ) -> Result<Self, AssembleError> {
        check_count(&members)?;
        for (index, member) in members.iter().enumerate() {
            check_member(index, member, lba_bytes, bytes)?;
        }
        Ok(Self {
            members: Members::new(members, Cover::Any, membership, world),
            bytes,
            lba_bytes,
            is_hasty: false,
        })
    }

    /// Plants a bug for the simulator to find: a write ends well once its first member has it,
    /// whatever becomes of the others. No effect in builds that can plant no bugs.
    #[must_use]
    pub fn with_haste(self, is_hasty: bool) -> Self {
        Self {
            is_hasty: PLANTS_BUGS && is_hasty,
            ..self
        }
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
        check_member(member, &candidate, self.lba_bytes, self.bytes)
    }

    /// Bytes of each member behind its base at least.
    #[must_use]
    pub const fn member_bytes(&self) -> u64 {
        self.bytes
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

    /// Copies byte `ranges` from the live members to a rebuilding one, and whatever writes were
    /// in flight when it was seated; flushes it. Writes may go on meanwhile; those that overlap
    /// the megabyte being copied wait for it. Not for payload-elided runs: it copies bytes.
    ///
    /// `gap` makes the sector that stands, at the mirror's sector of this number, where no member could
    /// give what is there: what is not known must not look like what was never written.
    ///
    /// # Errors
    /// Why the member is not complete.
    ///
    /// # Panics
    /// If the member is not rebuilding, or a range is misaligned or beyond the end.
    pub async fn rebuild(
        &self,
        member: usize,
        ranges: &[Range<u64>],
        gap: &dyn Fn(u64) -> Sectors,
        mut progress: impl FnMut(Progress),
    ) -> Result<Restored, RestoreError> {
        for range in ranges {
            self.check(range.start, range.end - range.start);
        }
        let copy = Restore {
            members: &self.members,
            member,
            lba_bytes: u64::from(self.lba_bytes),
            source: LiveMembers {
                members: &self.members,
                lba_bytes: u64::from(self.lba_bytes),
                gap,
            },
        };
        copy.run(ranges.to_vec(), &mut progress).await
    }

    /// Rebuilding to Live.
    ///
    /// # Panics
    /// If the member is not rebuilding, or was not rebuilt.
    pub fn set_live(&self, member: usize) {
        self.members.set_live(member);
    }

    /// The member that copy `copy` of byte `offset` is read from.
    #[must_use]
    pub fn member_of(&self, offset: u64, copy: u8) -> usize {
        let count = self.members.len();
        assert!(usize::from(copy) < count, "copy beyond the members");
        ((offset / ROTATION_BYTES % count as u64) as usize + usize::from(copy)) % count
    }

    fn check(&self, offset: u64, length: u64) {
        let lba_bytes = u64::from(self.lba_bytes);
        assert!(
            offset.is_multiple_of(lba_bytes) && length.is_multiple_of(lba_bytes),
            "misaligned range {offset}+{length}"
        );
        assert!(
            offset
                .checked_add(length)
                .is_some_and(|end| end <= self.bytes),
            "range {offset}+{length} beyond the end"
        );
    }

    fn read(&self, offset: u64, into: Target, copy: u8) -> Completion {
        let pieces: Vec<_> = pieces(offset, into.bytes(), grain_of(&into)).collect();
        if usize::from(copy) == self.members.len() {
            let kept = pieces.into_iter().map(|range| KeptPiece {
                at: range.start - offset,
                range,
                seats: (0..self.members.len()).collect(),
                addends: Vec::new(),
            });
            return read_kept(&self.members, kept.collect(), into);
        }
        let mut chosen = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            let mut member = self.member_of(piece.start, copy);
            if !self.members.is_live(member) && copy > 0 && pieces.len() > 1 {
                let mut ways =
                    (0..self.members.len()).map(|way| (member + way) % self.members.len());
                member = ways
                    .find(|&way| self.members.is_live(way))
                    .unwrap_or(member);
            }
            if !self.members.is_live(member) {
                return Completion::ready(Err(self.members.absence(member)));
            }
            chosen.push(member);
        }
        let members = Rc::clone(&self.members);
        if let [member] = chosen[..] {
            let part = read_part(&members, member, offset, into);
            return Completion::flow(async move {
                let part = members.one(part).await;
                members.note_read(&part);
                part.into_outcome()
            });
        }
        let send = |(piece, &member): (&Range<u64>, &usize)| {
            let memory = scatter::piece(&into, piece.end - piece.start);
            read_part(&members, member, piece.start, memory)
        };
        let parts: Vec<_> = pieces.iter().zip(&chosen).map(send).collect();
        Completion::flow(async move {
            let mut into = into;
            let parts = members.join(parts).await;
            parts.iter().for_each(|part| members.note_read(part));
            for (piece, part) in pieces.iter().zip(parts) {
                let Done::Read(filled) = part.into_outcome()? else {
                    unreachable!("a read returns its memory");
                };
                scatter::put(&mut into, piece.start - offset, &filled);
            }
            Ok(Done::Read(into))
        })
    }

    fn write(&self, offset: u64, gather: Gather, handle: Handle) -> Completion {
        let range = offset..offset + gather.bytes();
        let is_hasty = self.is_hasty;
        self.members.write(range, move |members| {
            let parts = members.broadcast(|_, base| Command::Write {
                offset: base + offset,
                gather: gather.clone(),
                handle,
            });
            if is_hasty {
                return hurry(&*members.world, parts);
            }
            parts
        })
    }

    fn repair(&self, offset: u64, gather: &Gather, copy: u8) -> Completion {
        let mut ribbon = Ribbon::new(gather);
        let mut repairs = Vec::new();
        for piece in pieces(offset, gather.bytes(), grain_of_all(gather)) {
            let member = self.member_of(piece.start, copy);
            if !self.members.is_live(member) {
                return Completion::ready(Err(IoError::Gone));
            }
            let mut cut = Gather::new();
            ribbon.take(piece.end - piece.start, |segment| cut.push(segment));
            repairs.push((member, piece, cut));
        }
        let start = |(member, piece, gather): (usize, Range<u64>, Gather)| {
            let offset = piece.start;
            self.members.repair(piece, member, move |members| {
                members.send(member, |base| Command::Write {
                    offset: base + offset,
                    gather,
                    handle: Handle::default(),
                })
            })
        };
        all(repairs.into_iter().map(start).collect())
    }
}

impl Drive for Mirror {
    fn info(&self) -> DriveInfo {
        DriveInfo {
            bytes: self.bytes,
            lba_bytes: self.lba_bytes,
            volatile_cache: self.members.has_volatile_cache(),
            copies: self.members.len() as u8 + self.members.kept_ways(),
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
                self.write(offset, gather, handle)
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
                self.members.hint(|base| Command::Discard {
                    offset: base + offset,
                    length,
                })
            }
        }
    }
}

/// The parts of a range that are read from one member each: cut at the first multiple of `grain`
/// from the range's start on that is not below a bound.
fn pieces(offset: u64, bytes: u64, grain: u64) -> impl Iterator<Item = Range<u64>> {
    let end = offset + bytes;
    let mut start = offset;
    core::iter::from_fn(move || {
        if start >= end {
            return None;
        }
        let bound = (start / ROTATION_BYTES + 1) * ROTATION_BYTES;
        let bound = start + (bound - start).next_multiple_of(grain);
        let piece = start..bound.min(end);
        start = piece.end;
        Some(piece)
    })
}

/// Bytes that must come from one member: a block, which has a checksum of its own, or all of what may have one together.
fn grain_of(target: &Target) -> u64 {
    match target {
        Target::Data(_) => BLOCK_BYTES,
        Target::Meta(_) => target.bytes(),
    }
}

/// As [`grain_of`].
fn grain_of_all(gather: &Gather) -> u64 {
    let is_data = |segment: &Segment| matches!(segment, Segment::Data(..));
    if gather.segments().iter().all(is_data) {
        BLOCK_BYTES
    } else {
        gather.bytes()
    }
}

fn read_part(members: &Members, member: usize, offset: u64, into: Target) -> Part {
    members.send(member, |base| Command::Read {
        offset: base + offset,
        into,
        copy: 0,
    })
}

/// Restores from any live member.
struct LiveMembers<'a> {
    members: &'a Rc<Members>,
    lba_bytes: u64,
    gap: &'a dyn Fn(u64) -> Sectors,
}

impl Source for LiveMembers<'_> {
    async fn read(&self, range: Range<u64>) -> Result<Gather, IoError> {
        let mut error = None;
        for member in 0..self.members.len() {
            if !self.members.is_live(member) {
                continue;
            }
            let memory = restore::memory(&range);
            let part = read_part(self.members, member, range.start, memory);
            let part = self.members.one(part).await;
            self.members.note_read(&part);
            match part.into_outcome() {
                Ok(Done::Read(target)) => return Ok(restore::gather(target)),
                Ok(Done::Nothing) => unreachable!("a read returns its memory"),
                // What one cannot read another may have that does not answer now: only where all have read
                // in vain is it a gap.
                Err(why) => error = Some(error.filter(|_| why == IoError::Media).unwrap_or(why)),
            }
        }
        Err(error.unwrap_or(IoError::Gone))
    }

    fn gap(&self, range: &Range<u64>) -> Option<Gather> {
        let mut gather = Gather::new();
        for start in range.clone().step_by(self.lba_bytes as usize) {
            let mut lba = Sectors::zeroed((self.lba_bytes / SECTOR_BYTES) as usize);
            let sectors = lba.bytes_mut().chunks_exact_mut(SECTOR);
            for (address, sector) in (start / SECTOR_BYTES..).zip(sectors) {
                sector.copy_from_slice((self.gap)(address).bytes());
            }
            gather.push_meta(lba);
        }
        Some(gather)
    }
}

/// As many members as a mirror may have, one of them live.
fn check_count(members: &[Member]) -> Result<(), AssembleError> {
    if members.is_empty() || members.len() > MIRROR_MAX {
        return Err(AssembleError::MemberCount {
            least: 1,
            most: MIRROR_MAX,
            found: members.len(),
        });
    }
    if members
        .iter()
        .all(|member| member.state != MemberState::Live)
    {
        return Err(AssembleError::TooFewLive { live: 0 });
    }
    Ok(())
}
