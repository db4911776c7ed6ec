//! The payload of a checkpoint part: parents and chains of the leaves of one slice.
//!
//! A payload is a [`PartHead`] and sections, one per leaf: a [`SectionHead`] (8 B), then, as its
//! flags say, the volume (8 B), a [`Parent`] (16 B), the LSN of the discard (8 B), and the deltas,
//! oldest first.
//!
//! **Not here**: the checksum over the payload and its place (the checkpoint record).

use crate::delta::{DELTA_BYTES, Delta, DeltaError};
use crate::part::PartPayload;
use crate::record::{LBA_END, PART_BYTES_MAX};
use alloc::vec::Vec;
use core::fmt;
use varve_io::Supply;
use varve_units::{LEAF_BLOCKS, LeafIndex, Lsn, VolumeId};
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where the base image of a leaf is: sector (40 bits), `through` (56 bits), CRC-32C (32 bits).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Parent(U128);

const _: () = assert!(size_of::<Parent>() == 16);

impl Parent {
    const NOWHERE: u64 = (1 << 40) - 1;

    /// A leaf of which nothing was ever written.
    pub const NEVER: Self = Self(U128::new(Self::NOWHERE as u128));

    /// A leaf without image whose state up to `through` is «all absent».
    #[must_use]
    pub fn none(through: Lsn) -> Self {
        Self::with(Self::NOWHERE, through, 0)
    }

    /// The image at fast-tier sector `sector`, folded up to `through`, with checksum `crc`.
    ///
    /// # Panics
    /// If the sector has more than 40 bits.
    #[must_use]
    pub fn new(sector: u64, through: Lsn, crc: u32) -> Self {
        assert!(sector < Self::NOWHERE, "leaf sector has more than 40 bits");
        Self::with(sector, through, crc)
    }

    fn with(loc: u64, through: Lsn, crc: u32) -> Self {
        let bits = u128::from(loc) | u128::from(through.0) << 40 | u128::from(crc) << 96;
        Self(U128::new(bits))
    }

    /// Fast-tier sector of the image, if there is one.
    #[inline]
    #[must_use]
    pub fn sector(self) -> Option<u64> {
        let loc = self.0.get() as u64 & Self::NOWHERE;
        (loc != Self::NOWHERE).then_some(loc)
    }

    /// Changes up to this LSN are in the image.
    #[inline]
    #[must_use]
    pub fn through(self) -> Lsn {
        Lsn((self.0.get() >> 40) as u64 & Lsn::MAX.0)
    }

    /// CRC-32C of the image.
    #[inline]
    #[must_use]
    pub fn crc(self) -> u32 {
        (self.0.get() >> 96) as u32
    }
}

impl fmt::Debug for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} through {}", self.sector(), self.through())
    }
}

/// Head of a payload: which slice, which of how many payloads, from which cut to which.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct PartHead {
    slice: U16,
    number: U16,
    total: U16,
    full: U16,
    since: U64,
    cut: U64,
    sections: U32,
    zero: U32,
}

const _: () = assert!(size_of::<PartHead>() == 32);

impl PartHead {
    /// What a payload says at its start, not looked at closely; `None` if it is cut off.
    #[must_use]
    pub fn peek(bytes: &[u8]) -> Option<Self> {
        let (head, _) = Self::read_from_prefix(bytes).ok()?;
        Some(head)
    }

    /// The slice.
    #[must_use]
    pub fn slice(&self) -> u16 {
        self.slice.get()
    }

    /// Which payload of the slice's this is, from 0.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number.get()
    }

    /// How many payloads the slice has at this cut.
    #[must_use]
    pub fn total(&self) -> u16 {
        self.total.get()
    }

    /// True if the payloads are the slice's whole state rather than its changes.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full.get() == 1
    }

    /// The cut that a payload of changes builds upon.
    #[must_use]
    pub fn since(&self) -> Lsn {
        Lsn(self.since.get())
    }

    /// The cut this payload leads to.
    #[must_use]
    pub fn cut(&self) -> Lsn {
        Lsn(self.cut.get())
    }

    /// True if this payload comes right behind `before`, of the same cut.
    #[must_use]
    pub fn follows(&self, before: &Self) -> bool {
        let next = Self {
            number: U16::new(before.number().saturating_add(1)),
            sections: self.sections,
            ..*before
        };
        *self == next
    }
}

/// Head of one leaf's section: the leaf, its mapped entries (10 bits) with flags, its deltas. The
/// volume, 8 B, follows where it is another than the section's before, or the section is the first.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
struct SectionHead {
    leaf: U32,
    state: U16,
    deltas: U16,
}

const _: () = assert!(size_of::<SectionHead>() == 8);
const _: () = assert!(
    LBA_END / LEAF_BLOCKS <= 1 << 32,
    "leaves are numbered by 32 bits"
);

const MAPPED: u16 = (1 << 10) - 1;
const PARENT: u16 = 1 << 10;
const DISCARDED: u16 = 1 << 11;
const GONE: u16 = 1 << 12;
const VOLUME: u16 = 1 << 13;
const BOUND: u16 = 1 << 14;
const KNOWN: u16 = MAPPED | PARENT | DISCARDED | GONE | VOLUME | BOUND;

/// Section of one leaf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// Volume of the leaf.
    pub volume: VolumeId,
    /// The leaf.
    pub leaf: LeafIndex,
    /// What became of it.
    pub state: SectionState,
}

/// What a section says of its leaf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SectionState {
    /// The leaf is no more.
    Gone,
    /// The leaf changed, or is stated in full.
    Present {
        /// The parent, if it was switched since the last cut (always if stated in full).
        parent: Option<SectionParent>,
        /// Mapped entries of the base image, or an upper bound, 0..=512.
        mapped: u16,
        /// `mapped` is an upper bound: nobody has seen the image since a start.
        is_bound: bool,
        /// Deltas, oldest first.
        deltas: Vec<Delta>,
    },
}

/// A parent as a section states it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SectionParent {
    /// Place of the base image.
    pub parent: Parent,
    /// LSN of the discard that emptied the whole leaf, if the image is kept only until its live
    /// bits are cleared.
    pub discarded: Option<Lsn>,
}

/// A section, its deltas apart: how many they are.
#[derive(Clone, Copy, Debug)]
pub struct SectionSummary {
    /// Volume of the leaf.
    pub volume: VolumeId,
    /// The leaf.
    pub leaf: LeafIndex,
    /// What became of it; `None` if it is no more.
    pub state: Option<StateSummary>,
}

/// What [`SectionState::Present`] says, its deltas apart.
#[derive(Clone, Copy, Debug)]
pub struct StateSummary {
    /// The parent, if it was switched since the last cut (always if stated in full).
    pub parent: Option<SectionParent>,
    /// Mapped entries of the base image, or an upper bound, 0..=512.
    pub mapped: u16,
    /// `mapped` is an upper bound.
    pub is_bound: bool,
    /// How many deltas it has.
    pub deltas: u16,
}

impl SectionSummary {
    /// Bytes of the section behind one of the volume `before` in the same payload.
    #[inline]
    fn bytes(&self, before: Option<VolumeId>) -> usize {
        let volume = if before == Some(self.volume) { 0 } else { 8 };
        let state = self.state.map_or(0, |state| {
            let parent = state.parent.map_or(0, |stated| {
                let discarded = stated.discarded.map_or(0, |_| size_of::<U64>());
                size_of::<Parent>() + discarded
            });
            parent + usize::from(state.deltas) * DELTA_BYTES
        });
        size_of::<SectionHead>() + volume + state
    }

    /// Writes all but the deltas, behind a section of the volume `before`. Inlined: for most it is one word.
    #[inline(always)]
    fn encode(&self, before: Option<VolumeId>, out: &mut [u8]) {
        let leaf = u32::try_from(self.leaf.0).expect("leaves are numbered by 32 bits");
        let is_other = before != Some(self.volume);
        let volume = if is_other { VOLUME } else { 0 };
        let (said, parent, deltas) = match self.state {
            None => (GONE, None, 0),
            Some(state) => (
                state.mapped | if state.is_bound { BOUND } else { 0 },
                state.parent,
                state.deltas,
            ),
        };
        let discarded = parent.and_then(|stated| stated.discarded);
        let flags = if parent.is_some() { PARENT } else { 0 }
            | if discarded.is_some() { DISCARDED } else { 0 };
        let head = SectionHead {
            leaf: U32::new(leaf),
            state: U16::new(said | flags | volume),
            deltas: U16::new(deltas),
        };
        let mut rest = enter(out, &head);
        if is_other {
            rest = enter(rest, &U64::new(self.volume.0));
        }
        if let Some(stated) = parent {
            rest = enter(rest, &stated.parent);
        }
        if let Some(lsn) = discarded {
            rest = enter(rest, &U64::new(lsn.0));
        }
        assert!(rest.is_empty(), "a section is as long as it says");
    }
}

/// Writes something and tells where the rest goes.
#[inline]
fn enter<'a>(out: &'a mut [u8], what: &(impl IntoBytes + Immutable)) -> &'a mut [u8] {
    let bytes = what.as_bytes();
    let (room, rest) = out.split_at_mut(bytes.len());
    room.copy_from_slice(bytes);
    rest
}

/// Encodes the sections of one slice into payloads of at most [`PART_BYTES_MAX`] bytes; of one slice after
/// the other, in memory that stays.
#[derive(Debug, Default)]
pub struct PartWriter {
    /// Memory of the last payload; what stood there before is written over, never read.
    open: Vec<u8>,
    /// Bytes of the last payload, those of its head among them, which is not there yet; none was begun if it is empty.
    open_bytes: usize,
    open_sections: u32,
    /// The payloads before, with their sections.
    closed: Vec<(PartPayload, u32)>,
    /// Volume of the last section of the last payload.
    volume: Option<VolumeId>,
    supply: Supply,
}

impl PartWriter {
    /// Payloads are in memory of that supply from here on.
    pub fn set_supply(&mut self, supply: Supply) {
        self.supply = supply;
    }

    /// Appends a section.
    ///
    /// # Panics
    /// If it is larger than a payload.
    pub fn push(&mut self, section: &Section) {
        let (state, deltas) = match &section.state {
            SectionState::Gone => (None, &[][..]),
            SectionState::Present {
                parent,
                mapped,
                is_bound,
                deltas,
            } => {
                let count = u16::try_from(deltas.len()).expect("chain length is limited");
                let (parent, mapped, is_bound) = (*parent, *mapped, *is_bound);
                let state = StateSummary {
                    parent,
                    mapped,
                    is_bound,
                    deltas: count,
                };
                (Some(state), &deltas[..])
            }
        };
        let (volume, leaf) = (section.volume, section.leaf);
        let summary = SectionSummary {
            volume,
            leaf,
            state,
        };
        self.push_with(&summary, |room| {
            for (room, delta) in room.iter_mut().zip(deltas) {
                *room = delta.to_bytes();
            }
        });
    }

    /// Appends a section whose deltas `fill` writes, oldest first, where they are to stand.
    ///
    /// # Panics
    /// If it is larger than a payload.
    #[inline]
    pub fn push_with(
        &mut self,
        section: &SectionSummary,
        fill: impl FnOnce(&mut [[u8; DELTA_BYTES]]),
    ) {
        if self.open_bytes == 0 {
            self.begin();
        }
        let mut bytes = section.bytes(self.volume);
        if self.open_bytes + bytes > self.open.len() {
            bytes = self.make_room(section, bytes);
        }
        let deltas = section.state.map_or(0, |state| usize::from(state.deltas));
        let from = self.open_bytes;
        self.open_bytes += bytes;
        let room = &mut self.open[from..from + bytes];
        if cfg!(debug_assertions) {
            // Who leaves something out is found out by every test that looks at it.
            room.fill(0xa5);
        }
        let (head, room) = room.split_at_mut(bytes - deltas * DELTA_BYTES);
        section.encode(self.volume, head);
        fill(room.as_chunks_mut().0);
        self.volume = Some(section.volume);
        self.open_sections += 1;
    }

    fn begin(&mut self) {
        self.open_bytes = size_of::<PartHead>();
        if self.open.len() < self.open_bytes {
            self.open.resize(self.open_bytes, 0);
        }
        self.volume = None;
    }

    /// Memory for a section of so many bytes, in another payload if need be; tells its bytes there.
    #[cold]
    fn make_room(&mut self, section: &SectionSummary, mut bytes: usize) -> usize {
        if self.open_bytes + bytes > PART_BYTES_MAX {
            self.close();
            self.begin();
            bytes = section.bytes(None);
        }
        let end = self.open_bytes + bytes;
        assert!(end <= PART_BYTES_MAX, "section too large");
        if end > self.open.len() {
            let more = (2 * end).min(PART_BYTES_MAX);
            self.open.resize(more, 0);
        }
        bytes
    }

    fn close(&mut self) {
        let payload = PartPayload::new(&self.open[..self.open_bytes], self.supply);
        self.closed.push((payload, self.open_sections));
        self.open_bytes = 0;
        self.open_sections = 0;
    }

    /// The payloads; at least one, so that the cut itself is recorded. The writer is as new.
    ///
    /// # Panics
    /// If a slice takes more than 65,535 payloads.
    #[must_use]
    pub fn finish(&mut self, slice: u16, full: bool, since: Lsn, cut: Lsn) -> Vec<PartPayload> {
        if self.open_bytes == 0 {
            self.begin();
        }
        self.close();
        let total = u16::try_from(self.closed.len()).expect("payloads of a slice fit 16 bits");
        let with_head = |(number, (mut payload, sections)): (u16, (PartPayload, u32))| {
            let head = PartHead {
                slice: U16::new(slice),
                number: U16::new(number),
                total: U16::new(total),
                full: U16::new(u16::from(full)),
                since: U64::new(since.0),
                cut: U64::new(cut.0),
                sections: U32::new(sections),
                zero: U32::ZERO,
            };
            payload.set_head(head.as_bytes());
            payload
        };
        (0..).zip(self.closed.drain(..)).map(with_head).collect()
    }

    /// Bytes of memory that stay from one slice to the next.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.open.capacity()
    }
}

/// A section where it lies in a payload.
#[derive(Clone, Copy, Debug)]
pub struct SectionView<'a> {
    /// The volume of the leaf.
    pub volume: VolumeId,
    /// The leaf.
    pub leaf: LeafIndex,
    /// `None` if the leaf is gone.
    pub state: Option<StateView<'a>>,
}

/// State of a leaf where it lies in a payload: [`SectionState::Present`].
#[derive(Clone, Copy, Debug)]
pub struct StateView<'a> {
    /// The parent, if it changed since the cut before or the payload is of a full one.
    pub parent: Option<SectionParent>,
    /// Mapped entries of the effective base.
    pub mapped: u16,
    /// `mapped` is an upper bound.
    pub is_bound: bool,
    deltas: &'a [[u8; DELTA_BYTES]],
}

impl<'a> StateView<'a> {
    /// Deltas, oldest first; each is looked at as it is met.
    pub fn deltas(&self) -> impl ExactSizeIterator<Item = Result<Delta, DeltaError>> + use<'a> {
        self.deltas.iter().map(|bytes| Delta::decode(*bytes))
    }
}

/// The sections of a payload, each looked at as it is met; its deltas are not.
#[derive(Clone, Debug)]
pub struct Sections<'a> {
    number: u32,
    total: u32,
    /// Of the section before.
    volume: Option<VolumeId>,
    rest: &'a [u8],
}

impl<'a> Iterator for Sections<'a> {
    type Item = Result<SectionView<'a>, SlicePartError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.number == self.total {
            let bytes = core::mem::take(&mut self.rest).len();
            return (bytes > 0).then_some(Err(SlicePartError::Excess { bytes }));
        }
        let number = self.number;
        let Some((section, rest)) = view_section(self.volume, self.rest) else {
            // Where the next one begins nobody can tell.
            (self.number, self.rest) = (self.total, &[]);
            return Some(Err(SlicePartError::Section { number }));
        };
        (self.number, self.rest) = (number + 1, rest);
        self.volume = Some(section.volume);
        Some(Ok(section))
    }
}

/// Head and sections of a payload. Sections are looked at on the way: a start passes over most of
/// them.
///
/// # Errors
/// A head that [`PartWriter`] does not write.
pub fn view_part(bytes: &[u8]) -> Result<(PartHead, Sections<'_>), SlicePartError> {
    let (head, rest) = PartHead::read_from_prefix(bytes).map_err(|_| SlicePartError::Head)?;
    let ordered = head.number.get() < head.total.get() && head.since.get() <= head.cut.get();
    let clean = head.full.get() <= 1 && head.zero.get() == 0 && head.cut.get() <= Lsn::MAX.0;
    if !(ordered && clean) {
        return Err(SlicePartError::Head);
    }
    let total = head.sections.get();
    let sections = Sections {
        number: 0,
        total,
        volume: None,
        rest,
    };
    Ok((head, sections))
}

/// A section behind one of the volume `before`, its deltas not looked at.
fn view_section(before: Option<VolumeId>, bytes: &[u8]) -> Option<(SectionView<'_>, &[u8])> {
    let (head, mut rest) = SectionHead::read_from_prefix(bytes).ok()?;
    let (flags, mapped) = (head.state.get() & !MAPPED, head.state.get() & MAPPED);
    let mut volume = before;
    if flags & VOLUME != 0 {
        let (other, tail) = U64::read_from_prefix(rest).ok()?;
        (volume, rest) = (Some(VolumeId(other.get())), tail);
    }
    let leaf = u64::from(head.leaf.get());
    if flags & !KNOWN != 0 || mapped > 512 || leaf >= LBA_END / LEAF_BLOCKS {
        return None;
    }
    let mut section = SectionView {
        volume: volume?,
        leaf: LeafIndex(leaf),
        state: None,
    };
    if flags & GONE != 0 {
        let others = PARENT | DISCARDED | BOUND;
        let empty = head.deltas.get() == 0 && mapped == 0 && flags & others == 0;
        return empty.then_some((section, rest));
    }
    if flags & (PARENT | DISCARDED) == DISCARDED {
        return None;
    }
    let mut parent = None;
    if flags & PARENT != 0 {
        let (found, tail) = Parent::read_from_prefix(rest).ok()?;
        rest = tail;
        let mut discarded = None;
        if flags & DISCARDED != 0 {
            let (lsn, tail) = U64::read_from_prefix(rest).ok()?;
            rest = tail;
            let plausible = lsn.get() <= Lsn::MAX.0 && Lsn(lsn.get()) > found.through();
            if !plausible || found.sector().is_none() {
                return None;
            }
            discarded = Some(Lsn(lsn.get()));
        }
        parent = Some(SectionParent {
            parent: found,
            discarded,
        });
    }
    let (raw, rest) = rest.split_at_checked(usize::from(head.deltas.get()) * DELTA_BYTES)?;
    section.state = Some(StateView {
        parent,
        mapped,
        is_bound: flags & BOUND != 0,
        deltas: raw.as_chunks::<DELTA_BYTES>().0,
    });
    Some((section, rest))
}

/// Why bytes are not a payload of a checkpoint part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SlicePartError {
    /// The head is cut off or contradicts itself.
    Head,
    /// A section is cut off or has no meaning.
    Section {
        /// Which one.
        number: u32,
    },
    /// Bytes follow the last section.
    Excess {
        /// How many.
        bytes: usize,
    },
}

impl fmt::Display for SlicePartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => f.write_str("head of a slice part contradicts itself"),
            Self::Section { number } => write!(f, "section {number} of a slice part is broken"),
            Self::Excess { bytes } => write!(f, "{bytes} bytes follow a slice part"),
        }
    }
}

impl core::error::Error for SlicePartError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_part(bytes: &[u8]) -> Result<(PartHead, Vec<Section>), SlicePartError> {
        let (head, sections) = view_part(bytes)?;
        let mut owned = Vec::new();
        for view in sections {
            let view = view?;
            let state = match view.state {
                None => SectionState::Gone,
                Some(state) => SectionState::Present {
                    parent: state.parent,
                    mapped: state.mapped,
                    is_bound: state.is_bound,
                    deltas: state
                        .deltas()
                        .map(|delta| delta.expect("written"))
                        .collect(),
                },
            };
            let (volume, leaf) = (view.volume, view.leaf);
            owned.push(Section {
                volume,
                leaf,
                state,
            });
        }
        Ok((head, owned))
    }
    use crate::delta::DeltaBody;

    fn section(leaf: u64, deltas: usize) -> Section {
        let body = DeltaBody::Discard {
            count: 3,
            zero: false,
        };
        Section {
            volume: VolumeId(5),
            leaf: LeafIndex(leaf),
            state: SectionState::Present {
                parent: Some(SectionParent {
                    parent: Parent::new(77, Lsn(9), 0xdead_beef),
                    discarded: leaf.is_multiple_of(2).then_some(Lsn(12)),
                }),
                mapped: 8,
                is_bound: leaf.is_multiple_of(3),
                deltas: alloc::vec![Delta::new(1, body, Lsn(20)); deltas],
            },
        }
    }

    #[test]
    fn sections_survive_their_payloads() {
        let mut writer = PartWriter::default();
        let gone = Section {
            volume: VolumeId(1),
            leaf: LeafIndex(2),
            state: SectionState::Gone,
        };
        let all: Vec<_> = (0..4).map(|l| section(l, 8_000)).chain([gone]).collect();
        all.iter().for_each(|s| writer.push(s));
        let payloads = writer.finish(3, true, Lsn(4), Lsn(40));
        assert_eq!(payloads.len(), 2 + usize::from(payloads.len() > 2));
        let mut read = Vec::new();
        for (number, payload) in payloads.iter().enumerate() {
            assert!(payload.bytes().len() <= PART_BYTES_MAX);
            let (head, sections) = decode_part(payload.bytes()).unwrap();
            assert_eq!(usize::from(head.number()), number);
            assert_eq!(
                (head.slice(), head.is_full(), head.cut()),
                (3, true, Lsn(40))
            );
            read.extend(sections);
        }
        assert_eq!(read, all);
    }

    /// What a slice is encoded to does not depend on the slices before.
    #[test]
    fn a_writer_goes_on_as_new() {
        let payload = |writer: &mut PartWriter| {
            writer.push(&section(2, 2));
            let payloads = writer.finish(1, false, Lsn(1), Lsn(2));
            payloads[0].bytes().to_vec()
        };
        let mut used = PartWriter::default();
        (0..4).for_each(|leaf| used.push(&section(leaf, 8_000)));
        assert_eq!(used.finish(0, true, Lsn(0), Lsn(1)).len(), 2);
        let again = payload(&mut used);
        assert_eq!(again, payload(&mut PartWriter::default()));
        let empty = used.finish(2, false, Lsn(2), Lsn(2));
        assert_eq!(decode_part(empty[0].bytes()).unwrap().1, []);
    }

    #[test]
    fn every_cut_off_payload_is_refused() {
        let mut writer = PartWriter::default();
        writer.push(&section(2, 2));
        let payloads = writer.finish(0, false, Lsn(1), Lsn(2));
        let payload = payloads[0].bytes();
        assert!(decode_part(payload).is_ok());
        for len in 0..payload.len() {
            assert!(decode_part(&payload[..len]).is_err());
        }
    }
}
