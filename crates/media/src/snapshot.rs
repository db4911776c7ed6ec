//! A drive's state as bytes, for programs that end while their drives go on.
//!
//! Little-endian: magic, shape, sums, number of victims so far; erases and state of each erase unit;
//! fill of the open ones; the victim and why; IUs that wait; place of each IU; FNV-1a of all that.
//! With placement handles (second magic) also: handles and isolation behind the shape, sums of each
//! handle behind those of the drive, the owner of each erase unit, the handle of each IU that waits.

use crate::buffer::Slot;
use crate::counters::Counters;
use crate::erase::{EraseUnits, State};
use crate::gc::Victim;
use crate::op::{Place, Why};
use crate::placement::{HandleCounters, Isolation, SHARED};
use crate::shape::Shape;
use crate::ssd::{Open, Ssd};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

const MAGIC: &[u8] = b"VSSD0001";
const MAGIC_PLACED: &[u8] = b"VSSD0002";
/// Fill of an open unit that does not exist.
const NONE: u32 = u32::MAX;

/// Why bytes are no snapshot of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Not a snapshot, or one that is damaged or cut short.
    Damaged,
    /// A snapshot of a drive of another shape.
    Shape,
    /// What it says cannot be.
    Impossible,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Damaged => "the snapshot is damaged",
            Self::Shape => "the snapshot is of a drive of another shape",
            Self::Impossible => "the snapshot is of no possible drive",
        })
    }
}

impl core::error::Error for SnapshotError {}

impl Ssd {
    /// The drive's state: 4 bytes per IU and little more.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let is_placed = is_placed(self.shape());
        let mut bytes = magic(self.shape()).to_vec();
        let mut add = |part: &[u8]| bytes.extend_from_slice(part);
        let words = shape_words(self.shape()).into_iter();
        let words = words.chain(self.counters().words());
        let handles = self.handles.iter().filter(|_| is_placed);
        let words = words.chain(handles.flat_map(handle_words));
        words.for_each(|word| add(&word.to_le_bytes()));
        add(&self.victims.to_le_bytes());
        for unit in 0..self.shape().units {
            let state = match self.units.state(unit) {
                State::Free => 0,
                State::Closed => 1,
                State::Open => self.open_index(unit) + 2,
            };
            add(&self.units.erases()[unit as usize].to_le_bytes());
            add(&state.to_le_bytes());
            if is_placed {
                add(&[self.units.owner(unit)]);
            }
        }
        for open in &self.open {
            let next = open.as_ref().map_or(NONE, |open| open.next);
            add(&next.to_le_bytes());
        }
        let victim = self.victim.as_ref();
        let victim = victim.map_or((NONE, NONE), |victim| (victim.unit, victim.why as u32));
        add(&victim.0.to_le_bytes());
        add(&victim.1.to_le_bytes());
        let slots = self.buffer.slots();
        add(&(slots.len() as u32).to_le_bytes());
        for slot in slots {
            add(&slot.iu.to_le_bytes());
            add(&slot.written.to_le_bytes());
            if is_placed {
                add(&[slot.handle]);
            }
        }
        for iu in 0..self.shape().ius {
            let place = self.map.place(iu).map_or(NONE, |place| place.0);
            add(&place.to_le_bytes());
        }
        let check = fnv(&bytes);
        bytes.extend_from_slice(&check.to_le_bytes());
        bytes
    }

    /// The drive of a shape in the state that was saved.
    ///
    /// # Errors
    /// If the bytes are not what [`Ssd::save`] gave for a drive of this shape.
    pub fn restore(shape: Shape, bytes: &[u8]) -> Result<Self, SnapshotError> {
        let (body, check) = bytes
            .split_last_chunk::<8>()
            .ok_or(SnapshotError::Damaged)?;
        if fnv(body) != u64::from_le_bytes(*check) {
            return Err(SnapshotError::Damaged);
        }
        let rest = body.strip_prefix(MAGIC);
        let rest = rest.or_else(|| body.strip_prefix(MAGIC_PLACED));
        let rest = rest.ok_or(SnapshotError::Damaged)?;
        if !body.starts_with(magic(&shape)) {
            return Err(SnapshotError::Shape);
        }
        let mut reader = Reader(rest);
        for expected in shape_words(&shape) {
            if reader.u64()? != expected {
                return Err(SnapshotError::Shape);
            }
        }
        let mut ssd = Self::new(shape);
        ssd.counters = Counters::of(reader.words()?);
        if is_placed(&shape) {
            for handle in &mut ssd.handles {
                *handle = handle_of(reader.words()?);
            }
        } else {
            ssd.handles = vec![handle_of([
                ssd.counters.host_bytes,
                ssd.counters.media_bytes,
                ssd.counters.gc_moved_bytes,
            ])];
        }
        ssd.victims = reader.u64()?;
        restore_units(&mut ssd, &mut reader)?;
        let victim = (reader.u32()?, reader.u32()?);
        restore_buffer(&mut ssd, &mut reader)?;
        restore_map(&mut ssd, &mut reader)?;
        restore_victim(&mut ssd, victim)?;
        if reader.0.is_empty() {
            Ok(ssd)
        } else {
            Err(SnapshotError::Damaged)
        }
    }

    /// Which of the open units this one is.
    fn open_index(&self, unit: u32) -> u32 {
        let is_it = |open: &Option<Open>| open.as_ref().is_some_and(|open| open.unit == unit);
        let found = self.open.iter().position(is_it);
        found.expect("an open unit is known") as u32
    }
}

fn restore_units(ssd: &mut Ssd, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
    let mut states = Vec::new();
    let placement = ssd.shape.placement;
    let (mut erases, mut owners) = (Vec::new(), Vec::new());
    let mut open = vec![None; placement.slots()];
    for unit in 0..ssd.shape().units {
        erases.push(reader.u32()?);
        let state = reader.u32()?;
        states.push(match state {
            0 => State::Free,
            1 => State::Closed,
            _ => {
                let open = open.get_mut(state as usize - 2);
                let before = open.ok_or(SnapshotError::Impossible)?.replace(unit);
                if before.is_some() {
                    return Err(SnapshotError::Impossible);
                }
                State::Open
            }
        });
        owners.push(restore_owner(ssd, reader, state)?);
    }
    for (unit, open) in open.into_iter().zip(&mut ssd.open) {
        let next = reader.u32()?;
        *open = match unit {
            Some(unit) if next > 0 && next < ssd.shape.unit_ius => Some(Open { unit, next }),
            None if next == NONE => None,
            _ => return Err(SnapshotError::Impossible),
        };
    }
    ssd.units = EraseUnits::of(states, erases, owners);
    Ok(())
}

fn restore_buffer(ssd: &mut Ssd, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
    for _ in 0..reader.u32()? {
        let (iu, written) = (reader.u32()?, reader.u128()?);
        let handle = if is_placed(&ssd.shape) {
            reader.u8()?
        } else {
            0
        };
        let slot = Slot {
            iu,
            written,
            handle,
            at: 0,
        };
        let is_known = iu < ssd.shape.ius && handle < ssd.shape.placement.handles;
        if !is_known || !ssd.buffer.put(slot) {
            return Err(SnapshotError::Impossible);
        }
    }
    Ok(())
}

fn restore_map(ssd: &mut Ssd, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
    let unit_ius = ssd.shape.unit_ius;
    let mut fill = vec![0; ssd.shape.units as usize];
    for (unit, fill) in (0..).zip(&mut fill) {
        *fill = match ssd.units.state(unit) {
            State::Free => 0,
            State::Closed => unit_ius,
            State::Open => {
                let open = ssd.open[ssd.open_index(unit) as usize].as_ref();
                open.map_or(0, |open| open.next)
            }
        };
    }
    for iu in 0..ssd.shape.ius {
        let place = reader.u32()?;
        if place == NONE {
            continue;
        }
        let fill = fill.get((place / unit_ius) as usize);
        let is_filled = fill.is_some_and(|fill| place % unit_ius < *fill);
        if !is_filled || ssd.map.live_iu(Place(place)).is_some() {
            return Err(SnapshotError::Impossible);
        }
        ssd.map.set(iu, Place(place));
    }
    Ok(())
}

/// The victim, chosen once more; and whether collection can go on from here.
fn restore_victim(ssd: &mut Ssd, (unit, why): (u32, u32)) -> Result<(), SnapshotError> {
    let (map, units, unit_ius) = (&ssd.map, &ssd.units, ssd.shape.unit_ius);
    if unit != NONE {
        let why = match why {
            1 => Why::Gc,
            2 => Why::Wear,
            _ => return Err(SnapshotError::Impossible),
        };
        if unit >= ssd.shape.units || units.state(unit) != State::Closed {
            return Err(SnapshotError::Impossible);
        }
        ssd.victim = Some(Victim::new(unit, why, map.live(unit), unit_ius));
    }
    let fits = |victim: &Victim| {
        let slot = ssd
            .shape
            .placement
            .slot(victim.why, units.owner(victim.unit));
        let open = ssd.open[slot].as_ref();
        map.live(victim.unit) <= open.map_or(0, |open| unit_ius - open.next)
    };
    let can_go_on = units.free() > 0 || ssd.victim.as_ref().is_some_and(fits);
    can_go_on.then_some(()).ok_or(SnapshotError::Impossible)
}

/// Whose data a unit in this state holds.
fn restore_owner(ssd: &Ssd, reader: &mut Reader<'_>, state: u32) -> Result<u8, SnapshotError> {
    let placement = ssd.shape.placement;
    let owner = if is_placed(&ssd.shape) {
        reader.u8()?
    } else {
        0
    };
    let is_shared = placement.isolation == Isolation::Initially && owner == SHARED;
    let is_possible = match state {
        0 => true,
        1 => owner < placement.handles || is_shared,
        open => owner == placement.owner(open as usize - 2),
    };
    is_possible
        .then_some(owner)
        .ok_or(SnapshotError::Impossible)
}

fn is_placed(shape: &Shape) -> bool {
    shape.placement.handles > 1
}

fn magic(shape: &Shape) -> &'static [u8] {
    if is_placed(shape) {
        MAGIC_PLACED
    } else {
        MAGIC
    }
}

const fn handle_words(handle: &HandleCounters) -> [u64; 3] {
    [handle.host_bytes, handle.media_bytes, handle.moved_bytes]
}

const fn handle_of([host_bytes, media_bytes, moved_bytes]: [u64; 3]) -> HandleCounters {
    HandleCounters {
        host_bytes,
        media_bytes,
        moved_bytes,
    }
}

fn shape_words(shape: &Shape) -> Vec<u64> {
    let mut words = vec![
        shape.bytes,
        shape.iu_bytes.into(),
        shape.ius.into(),
        shape.units.into(),
        shape.unit_ius.into(),
        shape.merge_slots.into(),
        shape.is_protected.into(),
    ];
    if is_placed(shape) {
        let is_persistent = shape.placement.isolation == Isolation::Persistently;
        words.extend([u64::from(shape.placement.handles), is_persistent.into()]);
    }
    words
}

fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Takes numbers from the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let (first, rest) = self.0.split_first_chunk().ok_or(SnapshotError::Damaged)?;
        self.0 = rest;
        Ok(*first)
    }

    fn u8(&mut self) -> Result<u8, SnapshotError> {
        self.take().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, SnapshotError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, SnapshotError> {
        self.take().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Result<u128, SnapshotError> {
        self.take().map(u128::from_le_bytes)
    }

    fn words<const N: usize>(&mut self) -> Result<[u64; N], SnapshotError> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.u64()?;
        }
        Ok(words)
    }
}
