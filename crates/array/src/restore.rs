//! Copying old content to a rebuilding member.
//!
//! Range by range: hold it (later writes wait), let the writes in flight end, take the content
//! from the drive that was there before, else from the other members, write it, release. What cannot be
//! read is narrowed down to single LBAs and reported; a mirror has a gap there then. Content is not verified here: reads above are.

use crate::join::Part;
use crate::member::MemberState;
use crate::members::Members;
use crate::scatter;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use varve_io::{Blocks, Command, Done, Gather, Handle, IoError, Sectors, Target};
use varve_units::{BLOCK_BYTES, SECTOR_BYTES};

/// Bytes of a member copied at once and held meanwhile. Arbitrary: long enough for a drive's
/// bandwidth, short enough that a held write hardly notices.
pub(crate) const STEP_BYTES: u64 = 1 << 20;

/// Unreadable ranges after which a copy gives up: its source is broken as a whole. Arbitrary.
const UNREADABLE_MAX: usize = 1024;
/// Unreadable bytes after which it does: a source that fails every read, because of its cable say, gives few
/// ranges, and long ones. Arbitrary: many times what a drive within its data sheet cannot read.
const UNREADABLE_BYTES_MAX: u64 = 1 << 20;

/// How far a copy has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Bytes of the member dealt with.
    pub done: u64,
    /// Bytes of the member to deal with.
    pub total: u64,
}

/// What a copy did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// Bytes written to the member.
    pub bytes: u64,
    /// Byte ranges of the member, from its base, that no other member could give. A mirror has gaps
    /// there; a strip of a stripe set holds whatever it held.
    pub unreadable: Vec<Range<u64>>,
}

/// Why a copy ended early. The member is not complete and must not be set live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// The array has no redundancy to restore from.
    Unprotected,
    /// The other members cannot give the content any more.
    Source(IoError),
    /// More cannot be read than a drive loses in places: its source is broken as a whole, and may be whole
    /// again.
    Unreadable,
    /// The rebuilding member failed; its loss is being committed.
    Target(IoError),
    /// The member left the rebuilding state meanwhile, or all copies were told to stop.
    Interrupted,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unprotected => "no redundancy to restore from",
            Self::Source(_) => "the other members failed",
            Self::Unreadable => "the other members cannot be read in too many places",
            Self::Target(_) => "the rebuilding member failed",
            Self::Interrupted => "the member is no longer being rebuilt",
        })
    }
}

impl core::error::Error for RestoreError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Source(why) | Self::Target(why) => Some(why),
            Self::Unprotected | Self::Unreadable | Self::Interrupted => None,
        }
    }
}

/// Where restored content comes from.
pub(crate) trait Source {
    /// The content of the member range, which is a multiple of the array's LBA size.
    async fn read(&self, range: Range<u64>) -> Result<Gather, IoError>;

    /// What stands where nobody can give the content of the range, if anything is to.
    fn gap(&self, range: &Range<u64>) -> Option<Gather>;
}

/// How much of a range a drive that is kept holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holding {
    All,
    Part,
    Nothing,
}

/// One copy to one member.
pub(crate) struct Restore<'a, S> {
    pub(crate) members: &'a Rc<Members>,
    pub(crate) member: usize,
    /// Smallest range worth trying alone: the array's LBA size.
    pub(crate) lba_bytes: u64,
    pub(crate) source: S,
}

impl<S: Source> Restore<'_, S> {
    /// Copies `ranges` and what the member missed, then flushes the member.
    ///
    /// # Panics
    /// If the member is not rebuilding.
    pub(crate) async fn run(
        self,
        mut ranges: Vec<Range<u64>>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Restored, RestoreError> {
        let state = self.members.state(self.member);
        assert!(
            state == MemberState::Rebuilding,
            "member {} is {state}, not rebuilding",
            self.member
        );
        let incarnation = self.members.incarnation(self.member);
        self.members.begin_filling(self.member);
        ranges.extend(self.members.missed(self.member));
        let total = ranges.iter().map(|range| range.end - range.start).sum();
        let mut done = 0;
        let mut restored = Restored::default();
        for range in ranges {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min(start + STEP_BYTES);
                self.step(start..end, incarnation, &mut restored).await?;
                done += end - start;
                start = end;
                progress(Progress { done, total });
                self.members.world.yield_now().await;
            }
        }
        self.check(incarnation)?;
        let part = self.members.send(self.member, |_| Command::Flush);
        self.ended(part, incarnation).await?;
        self.members.clear_missed(self.member);
        Ok(restored)
    }

    /// Copies one held range.
    async fn step(
        &self,
        range: Range<u64>,
        incarnation: u32,
        restored: &mut Restored,
    ) -> Result<(), RestoreError> {
        let _hold = self.members.flights.hold(range.clone());
        self.members.flights.drained(&range).await;
        match self.read(range.clone()).await {
            Ok(gather) => {
                restored.bytes += gather.bytes();
                self.put(range, gather, incarnation).await
            }
            Err(IoError::Media) => self.narrow(range, incarnation, restored).await,
            Err(why) => Err(RestoreError::Source(why)),
        }
    }

    /// Copies a range that is not readable as a whole, LBA by LBA.
    async fn narrow(
        &self,
        range: Range<u64>,
        incarnation: u32,
        restored: &mut Restored,
    ) -> Result<(), RestoreError> {
        for start in range.clone().step_by(self.lba_bytes as usize) {
            let one = start..start + self.lba_bytes;
            let read = match self.read(one.clone()).await {
                Err(_) => self.source.read(one.clone()).await,
                read => read,
            };
            match read {
                Ok(gather) => {
                    restored.bytes += gather.bytes();
                    self.put(one, gather, incarnation).await?;
                }
                Err(IoError::Media) => {
                    note_unreadable(&mut restored.unreadable, one.clone())?;
                    if let Some(gap) = self.source.gap(&one) {
                        self.put(one, gap, incarnation).await?;
                    }
                }
                Err(why) => return Err(RestoreError::Source(why)),
            }
        }
        Ok(())
    }

    /// By the drive that sat there before, if it holds the range: there may be what no other has. Where it
    /// holds a part, or cannot be read, that is to be narrowed down.
    async fn read(&self, range: Range<u64>) -> Result<Gather, IoError> {
        match self.members.former_holding(self.member, &range) {
            Holding::Nothing => self.source.read(range).await,
            Holding::Part => Err(IoError::Media),
            Holding::All => {
                let into = memory(&range);
                match self.members.read_former(self.member, &range, into).await {
                    Err(IoError::Gone) => {
                        self.members.release_former(self.member);
                        self.source.read(range).await
                    }
                    Err(_) => Err(IoError::Media),
                    Ok(Done::Read(target)) => Ok(gather(target)),
                    Ok(Done::Nothing) => unreachable!("a read returns its memory"),
                }
            }
        }
    }

    async fn put(
        &self,
        range: Range<u64>,
        gather: Gather,
        incarnation: u32,
    ) -> Result<(), RestoreError> {
        self.check(incarnation)?;
        let bytes = range.end - range.start;
        assert_eq!(gather.bytes(), bytes, "a source gives what was asked");
        let part = self.members.send(self.member, |base| Command::Write {
            offset: base + range.start,
            gather,
            handle: Handle::default(),
        });
        self.ended(part, incarnation).await
    }

    async fn ended(&self, part: Part, incarnation: u32) -> Result<(), RestoreError> {
        if let Some(why) = self.members.one(part).await.error() {
            self.members.fail(self.member, incarnation, why);
            return Err(RestoreError::Target(why));
        }
        self.check(incarnation)
    }

    /// The same drive is still rebuilding.
    fn check(&self, incarnation: u32) -> Result<(), RestoreError> {
        let is_same = self.members.incarnation(self.member) == incarnation;
        let is_rebuilding = self.members.state(self.member) == MemberState::Rebuilding;
        if is_same && is_rebuilding && !self.members.is_stopping() {
            Ok(())
        } else {
            Err(RestoreError::Interrupted)
        }
    }
}

/// Adds a range to the list, joined to the last one if it follows it.
fn note_unreadable(list: &mut Vec<Range<u64>>, range: Range<u64>) -> Result<(), RestoreError> {
    let bytes: u64 = list.iter().map(|range| range.end - range.start).sum();
    if bytes + (range.end - range.start) > UNREADABLE_BYTES_MAX {
        return Err(RestoreError::Unreadable);
    }
    if let Some(last) = list.last_mut()
        && last.end == range.start
    {
        last.end = range.end;
        return Ok(());
    }
    if list.len() == UNREADABLE_MAX {
        return Err(RestoreError::Unreadable);
    }
    list.push(range);
    Ok(())
}

/// Memory for the bytes of a member range: blocks where it consists of them, else sectors.
pub(crate) fn memory(range: &Range<u64>) -> Target {
    let bytes = range.end - range.start;
    if bytes.is_multiple_of(BLOCK_BYTES) {
        Target::Data(Blocks::zeroed((bytes / BLOCK_BYTES) as usize))
    } else {
        Target::Meta(Sectors::zeroed((bytes / SECTOR_BYTES) as usize))
    }
}

/// The gather that writes a target's memory back.
pub(crate) fn gather(target: Target) -> Gather {
    let mut gather = Gather::new();
    match target {
        Target::Data(blocks) => gather.push_data(blocks),
        Target::Meta(sectors) => gather.push_meta(sectors),
    }
    gather
}

/// `into ^= other`, both of the same length.
pub(crate) fn add(into: &mut Target, other: &Target) {
    varve_gf::xor_into(scatter::bytes_mut(into), scatter::bytes(other));
}
