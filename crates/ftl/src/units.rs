//! Chunks and groups as every shard sees them: state, generation, stamp, live bitmap.
//!
//! Shared by all shards, atomics only. State changes are made by the control actor alone.
//!
//! **Orderings.** Bits and counts are changed by read-modify-write, so no change of another reactor
//! is lost, whatever else is in the word; a reactor counts what it changed itself. A bit is cleared by
//! one that has heard of the block, hence after it was set and counted: the count never falls below
//! nothing. `Acquire` and `Release` make what was done to a unit before its word seen with the word;
//! between looks at a bit and at the count nothing is promised, and nobody needs it.
//!
//! **Invariants**
//! - A live bit is trusted one way: 0 = certainly dead, 1 = perhaps live (engine.md 2).
//! - Bits go 0 to 1 at append only, 1 to 0 by a report of death that is not older than the stamp.
//! - The generation is raised (release) before a unit is reset; a reader that sees the same
//!   generation (acquire) before and after a device read has read the bytes it meant (U5).

mod masks;
mod restamped;

use crate::geometry::{Geometry, Place, Tier, UnitId};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
use masks::user_masks;
use restamped::Restamped;
use varve_format::NarrowGroup;
use varve_io::ReactorId;
use varve_units::{Generation, Lsn, Ppa};
use zerocopy::FromZeros;

/// State of a chunk or group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum UnitState {
    /// May be opened.
    Free = 0,
    /// Being appended to.
    Open = 1,
    /// Full or sealed; a candidate for cleaning.
    Closed = 2,
    /// Being cleaned.
    Cleaning = 3,
    /// Nothing in it is needed once the next checkpoint has committed.
    Emptied = 4,
    /// Taken out of use after a media error.
    Retired = 5,
}

impl UnitState {
    const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Free,
            1 => Self::Open,
            2 => Self::Closed,
            3 => Self::Cleaning,
            4 => Self::Emptied,
            _ => Self::Retired,
        }
    }

    /// True if a unit may go from here to `next`.
    const fn leads_to(self, next: Self) -> bool {
        match self {
            Self::Free => matches!(next, Self::Open),
            Self::Open => matches!(next, Self::Closed),
            Self::Closed => matches!(next, Self::Cleaning | Self::Emptied),
            Self::Cleaning => matches!(next, Self::Closed | Self::Emptied),
            Self::Emptied => matches!(next, Self::Free | Self::Retired),
            Self::Retired => false,
        }
    }
}

/// Pins of a unit whose generation is being raised.
const FREEING: u32 = u32::MAX;

/// One chunk or group, on a cache line of its own: reactors that write neighbours do not meet.
#[repr(align(64))]
pub struct Unit {
    state: AtomicU8,
    /// Who appends to it, plus one; 0 for nobody of this start.
    home: AtomicU16,
    generation: AtomicU32,
    /// LSN drawn when the unit was opened, or when its use ended; references made earlier belong to an earlier
    /// use.
    stamp: AtomicU64,
    /// Sectors (chunk) or data blocks (group) appended so far.
    write_pointer: AtomicU32,
    live: AtomicU32,
    /// Leaves of the map whose newest image lies here.
    leaves: AtomicU32,
    /// Repairs in flight; a unit with any is not freed, and one that is being freed ([`FREEING`]) gets none.
    pins: AtomicU32,
    /// Blocks appended whose move records are not applied yet; a unit with any is no victim.
    arriving: AtomicU32,
    /// Bits or write pointer differ from what the newest checkpoint that dumped them has.
    changed: AtomicBool,
    /// No checkpoint has dumped it since it was closed: a start would have to take all that was appended
    /// for live.
    undumped: AtomicBool,
    /// Some of its bits may be of blocks whose death was reported before a start and will not be
    /// reported again.
    doubtful: AtomicBool,
    /// A start went on with it: stripes may have been written twice in this generation.
    resumed: AtomicBool,
    /// The member without which its last stripes were written, plus one, and the first of them: see [`narrow_word`].
    narrow: AtomicU32,
    bits: Box<[AtomicU64]>,
}

impl Unit {
    fn new(blocks: u32) -> Self {
        let words = blocks.div_ceil(64) as usize;
        // Zeroed by the allocator: a large pool takes its pages when they are first written.
        let bits = <[AtomicU64]>::new_box_zeroed_with_elems(words);
        Self {
            state: AtomicU8::new(UnitState::Free as u8),
            home: AtomicU16::new(0),
            generation: AtomicU32::new(0),
            stamp: AtomicU64::new(0),
            write_pointer: AtomicU32::new(0),
            live: AtomicU32::new(0),
            leaves: AtomicU32::new(0),
            pins: AtomicU32::new(0),
            arriving: AtomicU32::new(0),
            changed: AtomicBool::new(false),
            undumped: AtomicBool::new(false),
            doubtful: AtomicBool::new(false),
            resumed: AtomicBool::new(false),
            narrow: AtomicU32::new(0),
            bits: bits.expect("memory for live bits within their limits"),
        }
    }

    /// Its state.
    pub fn state(&self) -> UnitState {
        UnitState::from_code(self.state.load(Ordering::Acquire))
    }

    /// The reactor that appends or appended to it, if that was since the start: most of what it
    /// holds is of slices of that one.
    pub fn home(&self) -> Option<ReactorId> {
        self.home
            .load(Ordering::Relaxed)
            .checked_sub(1)
            .map(ReactorId)
    }

    /// Sets who appends to it. Relaxed: a hint where work is done best.
    pub fn set_home(&self, reactor: ReactorId) {
        self.home.store(reactor.0 + 1, Ordering::Relaxed);
    }

    /// Its generation, acquired.
    pub fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::Acquire))
    }

    /// Its stamp.
    #[inline]
    pub fn stamp(&self) -> Lsn {
        Lsn(self.stamp.load(Ordering::Acquire))
    }

    /// Sectors (chunk) or data blocks (group) appended so far.
    pub fn write_pointer(&self) -> u32 {
        self.write_pointer.load(Ordering::Acquire)
    }

    /// Blocks perhaps live.
    pub fn live(&self) -> u32 {
        self.live.load(Ordering::Acquire)
    }

    /// Leaves of the map whose newest image lies here.
    pub fn leaves(&self) -> u32 {
        self.leaves.load(Ordering::Acquire)
    }

    /// A leaf was written here and is the newest of its kind.
    pub fn leaf_added(&self) {
        self.leaves.fetch_add(1, Ordering::AcqRel);
    }

    /// A leaf here was replaced or dropped.
    pub fn leaf_gone(&self) {
        let before = self.leaves.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "more leaves gone from a chunk than were added");
    }

    /// True if block `bit` is perhaps live.
    #[inline]
    pub fn is_set(&self, bit: u32) -> bool {
        let word = self.bits[(bit / 64) as usize].load(Ordering::Acquire);
        word >> (bit % 64) & 1 == 1
    }

    /// The bitmap's words, in runs of `most`, each word read when it is taken.
    pub fn runs_of_words(
        &self,
        most: usize,
    ) -> impl Iterator<Item = impl ExactSizeIterator<Item = u64>> {
        let read = |word: &AtomicU64| word.load(Ordering::Acquire);
        self.bits.chunks(most).map(move |run| run.iter().map(read))
    }

    /// The bitmap's words.
    pub fn words(&self) -> Vec<u64> {
        self.runs_of_words(usize::MAX).flatten().collect()
    }

    /// A repair in flight keeps the unit from being freed. False if it is, or was, since it had this generation: what
    /// was to be repaired is gone.
    pub fn try_pin(&self, generation: Generation) -> bool {
        let one_more = |pins| (pins != FREEING).then(|| pins + 1);
        let pinned = self
            .pins
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        if pinned.is_err() {
            return false;
        }
        // From here on nobody raises it.
        let is_same = self.generation() == generation;
        if !is_same {
            self.unpin();
        }
        is_same
    }

    /// The repair has ended.
    pub fn unpin(&self) {
        let before = self.pins.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "unpinned more often than pinned");
        // Before the caller looks whether it was emptied: see `Control::emptied`.
        fence(Ordering::SeqCst);
    }

    /// Moves to this unit are on their way.
    pub fn expect_moves(&self, count: u32) {
        self.arriving.fetch_add(count, Ordering::AcqRel);
    }

    /// Moves to this unit were applied, or never will be.
    pub fn moves_arrived(&self, count: u32) {
        let before = self.arriving.fetch_sub(count, Ordering::AcqRel);
        assert!(before >= count, "more moves arrived than were expected");
    }

    /// True while moves to this unit are on their way: the map does not name its blocks yet.
    pub fn is_awaiting_moves(&self) -> bool {
        self.arriving.load(Ordering::Acquire) > 0
    }

    /// True while a repair is in flight.
    pub fn is_pinned(&self) -> bool {
        !matches!(self.pins.load(Ordering::Acquire), 0 | FREEING)
    }

    /// True if the unit differs from its last dump; a dump begins now.
    pub fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    /// True while the unit is open, and once when it has been closed: it is to be dumped, whoever's turn
    /// it is.
    pub fn take_undumped(&self) -> bool {
        match self.state() {
            UnitState::Open => self.undumped.load(Ordering::Acquire),
            _ => self.undumped.swap(false, Ordering::AcqRel),
        }
    }

    /// True if dead blocks may keep their bits for as long as the unit is in use: only the map can
    /// tell.
    pub fn is_doubtful(&self) -> bool {
        self.doubtful.load(Ordering::Acquire)
    }

    /// True if a start went on with this group: a stripe that lost its moves in a crash was written
    /// again in the same generation.
    pub fn is_resumed(&self) -> bool {
        self.resumed.load(Ordering::Acquire)
    }

    /// Its last stripes, if all of them are narrow without one and the same member. Nothing depends on it but what is
    /// told of the pool.
    pub(crate) fn narrow(&self) -> Option<NarrowGroup> {
        let word = self.narrow.load(Ordering::Relaxed);
        let member = (word >> NARROW_FROM_BITS).checked_sub(1)? as u8;
        let from = word & ((1 << NARROW_FROM_BITS) - 1);
        Some(NarrowGroup { member, from })
    }

    /// A stripe was written: narrow without this member, or of full width.
    pub(crate) fn note_width(&self, stripe: u32, member: Option<u8>) {
        let before = self.narrow();
        if before.map(|narrow| narrow.member) != member {
            let narrow = member.map(|member| NarrowGroup {
                member,
                from: stripe,
            });
            self.restore_narrow(narrow);
        }
    }

    /// Sets what [`Unit::narrow`] tells.
    pub(crate) fn restore_narrow(&self, narrow: Option<NarrowGroup>) {
        self.narrow.store(narrow_word(narrow), Ordering::Relaxed);
    }

    /// Blocks perhaps live from one on.
    pub(crate) fn live_from(&self, first: u32) -> u32 {
        let words = (0..).zip(&self.bits).skip((first / 64) as usize);
        let counts = words.map(|(at, word)| {
            let before = low_bits(first.saturating_sub(at * 64));
            (word.load(Ordering::Relaxed) & !before).count_ones()
        });
        counts.sum()
    }

    /// The bits are to be dumped once the unit is closed.
    pub(crate) fn note_undumped(&self) {
        self.undumped.store(true, Ordering::Release);
    }

    #[inline]
    fn note_changed(&self) {
        self.changed.store(true, Ordering::Release);
    }

    /// Counts one block too many, for tests of the audit.
    #[cfg(test)]
    pub(crate) fn miscount(&self) {
        self.live.fetch_add(1, Ordering::AcqRel);
    }

    fn set_run(&self, run: Range<u32>) {
        let mut at = run.start;
        while at < run.end {
            let end = run.end.min(at / 64 * 64 + 64);
            let mask = (u64::MAX >> (64 - (end - at))) << (at % 64);
            let before = self.bits[(at / 64) as usize].fetch_or(mask, Ordering::AcqRel);
            let fresh = (mask & !before).count_ones();
            self.live.fetch_add(fresh, Ordering::AcqRel);
            at = end;
        }
    }

    fn set(&self, bit: u32) {
        let mask = 1 << (bit % 64);
        let before = self.bits[(bit / 64) as usize].fetch_or(mask, Ordering::AcqRel);
        if before & mask == 0 {
            self.live.fetch_add(1, Ordering::AcqRel);
            self.note_changed();
        }
    }

    /// Clears a bit; true if it was set. Whoever calls this counts.
    #[inline]
    fn clear(&self, bit: u32, is_alone: bool) -> bool {
        let (word, mask) = (&self.bits[(bit / 64) as usize], 1 << (bit % 64));
        let before = if is_alone {
            let before = word.load(Ordering::Relaxed);
            word.store(before & !mask, Ordering::Relaxed);
            before
        } else {
            word.fetch_and(!mask, Ordering::AcqRel)
        };
        before & mask != 0
    }

    /// Counts bits that were cleared.
    #[inline]
    fn note_cleared(&self, count: u32, is_alone: bool) {
        if count == 0 {
            return;
        }
        if is_alone {
            let left = self.live.load(Ordering::Relaxed) - count;
            self.live.store(left, Ordering::Relaxed);
        } else {
            self.live.fetch_sub(count, Ordering::AcqRel);
        }
        self.note_changed();
    }

    /// Before the engine runs, so that nobody else changes the word. Whoever calls this counts.
    fn restore_word(&self, word: u32, value: u64) -> u64 {
        let word = &self.bits[word as usize];
        let before = word.load(Ordering::Relaxed);
        word.store(value, Ordering::Release);
        before
    }

    fn clear_all(&self) {
        for word in &self.bits {
            // Memory that nothing was ever written to stays untouched.
            if word.load(Ordering::Acquire) != 0 {
                word.store(0, Ordering::Release);
            }
        }
        self.live.store(0, Ordering::Release);
    }
}

/// All chunks and groups of a pool.
pub struct UnitTable {
    geometry: Geometry,
    chunks: Vec<Unit>,
    groups: Vec<Unit>,
    /// User data of the words of a group, from its first on, until they repeat themselves.
    masks: Vec<u64>,
    /// Units whose stamps changed.
    pub(crate) restamped: Restamped,
    /// One reactor changes all this: deaths, several to each write, need no locked instructions, each of which would
    /// wait for the cache miss of the one before.
    is_alone: bool,
}

/// A unit as a checkpoint or a header describes it.
#[derive(Clone, Copy, Debug)]
pub struct UnitRestore {
    /// Its state.
    pub state: UnitState,
    /// Its generation.
    pub generation: Generation,
    /// Its stamp.
    pub stamp: Lsn,
    /// Its write pointer.
    pub write_pointer: u32,
    /// A start went on with it.
    pub is_resumed: bool,
}

impl UnitTable {
    /// All units free, generation 0.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            chunks: (0..geometry.chunks)
                .map(|_| Unit::new(geometry.chunk_blocks()))
                .collect(),
            groups: (0..geometry.groups)
                .map(|_| Unit::new(geometry.group_blocks))
                .collect(),
            masks: user_masks(&geometry),
            restamped: Restamped::new(&geometry),
            is_alone: false,
        }
    }

    /// Of a pool of so many reactors.
    #[must_use]
    pub(crate) fn shared_by(self, reactors: u16) -> Self {
        Self {
            is_alone: reactors == 1,
            ..self
        }
    }

    /// The pool's geometry.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// One unit.
    ///
    /// # Panics
    /// If there is no such unit.
    #[inline]
    #[must_use]
    pub fn unit(&self, id: UnitId) -> &Unit {
        match id.tier {
            Tier::Fast => &self.chunks[id.index as usize],
            Tier::Dense => &self.groups[id.index as usize],
        }
    }

    /// Bytes of a tier's live bits.
    #[must_use]
    pub fn bitmap_bytes(&self, tier: Tier) -> u64 {
        let (units, blocks) = match tier {
            Tier::Fast => (self.geometry.chunks, self.geometry.chunk_blocks()),
            Tier::Dense => (self.geometry.groups, self.geometry.group_blocks),
        };
        u64::from(units) * u64::from(blocks.div_ceil(64)) * size_of::<u64>() as u64
    }

    /// Every unit of a tier.
    pub fn ids(&self, tier: Tier) -> impl Iterator<Item = UnitId> + use<> {
        let count = match tier {
            Tier::Fast => self.geometry.chunks,
            Tier::Dense => self.geometry.groups,
        };
        (0..count).map(move |index| UnitId { tier, index })
    }

    /// Moves a unit to another state.
    ///
    /// # Panics
    /// If the state machine has no such step.
    pub fn transition(&self, id: UnitId, next: UnitState) {
        let unit = self.unit(id);
        let now = unit.state();
        assert!(
            now.leads_to(next),
            "{id:?} cannot go from {now:?} to {next:?}"
        );
        unit.state.store(next as u8, Ordering::Release);
    }

    /// Opens a free unit for appending: stamp set, nothing appended.
    pub fn open(&self, id: UnitId, stamp: Lsn) {
        self.transition(id, UnitState::Open);
        let unit = self.unit(id);
        assert_eq!(unit.live(), 0, "{id:?} opened with live bits");
        unit.stamp.store(stamp.0, Ordering::Release);
        self.restamped.note(id);
        unit.write_pointer.store(0, Ordering::Release);
        unit.note_undumped();
    }

    /// An emptied unit gets the stamp of what comes after: deaths that are reported from now on are of the use
    /// that ends, and change nothing.
    pub fn end_use(&self, id: UnitId, stamp: Lsn) {
        let unit = self.unit(id);
        assert_eq!(unit.state(), UnitState::Emptied, "{id} is in use");
        let before = unit.stamp.swap(stamp.0, Ordering::AcqRel);
        self.restamped.note(id);
        assert!(before <= stamp.0, "the stamp of {id} went back");
    }

    /// Frees an emptied unit: the generation is raised first, so that readers who looked up a
    /// place in it before look again. False if a repair in flight keeps it.
    #[must_use]
    pub fn try_free(&self, id: UnitId) -> bool {
        let unit = self.unit(id);
        let begun = unit
            .pins
            .compare_exchange(0, FREEING, Ordering::AcqRel, Ordering::Acquire);
        if begun.is_err() {
            return false;
        }
        assert_eq!(unit.leaves(), 0, "{id:?} freed with live leaves");
        unit.generation.fetch_add(1, Ordering::AcqRel);
        self.transition(id, UnitState::Free);
        unit.clear_all();
        unit.write_pointer.store(0, Ordering::Release);
        unit.doubtful.store(false, Ordering::Release);
        unit.resumed.store(false, Ordering::Release);
        unit.narrow.store(0, Ordering::Relaxed);
        unit.pins.store(0, Ordering::Release);
        true
    }

    /// Advances a write pointer.
    ///
    /// # Panics
    /// If it would go back.
    pub fn advance(&self, id: UnitId, write_pointer: u32) {
        let before = self
            .unit(id)
            .write_pointer
            .swap(write_pointer, Ordering::AcqRel);
        assert!(before <= write_pointer, "write pointer of {id:?} went back");
        self.unit(id).note_changed();
    }

    /// Pulls a write pointer back over batches that failed and were written elsewhere.
    pub fn truncate(&self, id: UnitId, write_pointer: u32) {
        self.unit(id)
            .write_pointer
            .fetch_min(write_pointer, Ordering::AcqRel);
    }

    /// Marks an appended block perhaps live.
    pub fn append(&self, ppa: Ppa) {
        let place = self
            .geometry
            .locate(ppa)
            .expect("an appended block has a place");
        self.unit(place.unit).set(place.bit);
    }

    /// Marks a block perhaps live that a record of the redo range names (recovery), if it lies in the
    /// fast tier: everything that was appended to a group is, anyway.
    pub fn append_again(&self, ppa: Ppa) {
        if let Some(place) = self.geometry.locate(ppa)
            && place.unit.tier == Tier::Fast
        {
            self.unit(place.unit).set(place.bit);
        }
    }

    /// Marks `count` appended blocks that lie behind one another in one unit perhaps live.
    ///
    /// # Panics
    /// If they do not.
    pub fn append_run(&self, first: Ppa, count: u32) {
        let place = self
            .geometry
            .locate(first)
            .expect("an appended block has a place");
        self.unit(place.unit).set_run(place.bit..place.bit + count);
    }

    /// Marks a place dead whose last reference, made at `since`, is gone. Ignored if the unit was opened, or its use
    /// ended, later than that: the reference belonged to an earlier use (ADR 6).
    pub fn bury(&self, ppa: Ppa, since: Lsn) {
        self.bury_each([(ppa, since)]);
    }

    /// [`UnitTable::bury`] for many. Those of one unit often follow one another: it is located once,
    /// and counts once what it lost.
    ///
    /// Nobody frees it between a look at its stamp and what is cleared and counted for it. A checkpoint that is to
    /// free a unit ends its use ([`UnitTable::end_use`]) before it calls every reactor. What a reactor reports before it
    /// answers has ended by then; what it reports later is older than the stamp.
    pub fn bury_each(&self, dead: impl IntoIterator<Item = (Ppa, Lsn)>) {
        let (mut unit, mut cleared) = (self.unit(UnitId::chunk(0)), 0);
        let (mut id, mut places) = (UnitId::chunk(0), 0..0);
        for (ppa, since) in dead {
            if !places.contains(&ppa.bits()) {
                let Some(found) = self.geometry.unit_of(ppa) else {
                    continue;
                };
                unit.note_cleared(cleared, self.is_alone);
                (id, cleared) = (found, 0);
                (unit, places) = (self.unit(id), self.geometry.places(id));
            }
            if unit.stamp() <= since {
                let bit = self.geometry.bit_in(id, ppa);
                cleared += u32::from(unit.clear(bit, self.is_alone));
            }
        }
        unit.note_cleared(cleared, self.is_alone);
    }

    /// True if a reference made at `since` belongs to the unit's present use.
    #[must_use]
    pub fn is_current(&self, place: &Place, since: Lsn) -> bool {
        self.unit(place.unit).stamp() <= since
    }

    /// Places are no longer known whose death nobody will report.
    pub fn doubt_all(&self) {
        for unit in self.chunks.iter().chain(&self.groups) {
            if unit.state() != UnitState::Free {
                unit.doubtful.store(true, Ordering::Release);
            }
        }
    }

    /// Clears the live bits of a unit that are not in `words`: the map names no more of it.
    ///
    /// # Panics
    /// If the words are not as many as the unit's.
    pub fn keep(&self, id: UnitId, words: &[u64]) {
        let unit = self.unit(id);
        assert_eq!(unit.bits.len(), words.len(), "bits of {id}");
        for (word, kept) in unit.bits.iter().zip(words) {
            let before = word.fetch_and(*kept, Ordering::AcqRel);
            let gone = (before & !kept).count_ones();
            unit.live.fetch_sub(gone, Ordering::AcqRel);
        }
        unit.note_changed();
    }

    /// Says whether a unit may hold dead blocks whose death nobody will report.
    pub fn set_doubtful(&self, id: UnitId, is_doubtful: bool) {
        self.unit(id).doubtful.store(is_doubtful, Ordering::Release);
    }

    /// Raises the generation of a free unit (recovery).
    pub fn renew(&self, id: UnitId) {
        assert_eq!(self.unit(id).state(), UnitState::Free, "{id} is not free");
        self.unit(id).generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Sets a unit to what a checkpoint or a header says (recovery). Bits follow separately.
    pub fn restore(&self, id: UnitId, from: &UnitRestore) {
        let unit = self.unit(id);
        unit.state.store(from.state as u8, Ordering::Release);
        unit.generation.store(from.generation.0, Ordering::Release);
        unit.stamp.store(from.stamp.0, Ordering::Release);
        self.restamped.note(id);
        unit.write_pointer
            .store(from.write_pointer, Ordering::Release);
        unit.resumed.store(from.is_resumed, Ordering::Release);
        unit.restore_narrow(None);
    }

    /// Goes on appending to a group that was open when the engine ended (recovery).
    ///
    /// # Panics
    /// If it is not open.
    pub fn resume(&self, id: UnitId) {
        assert_eq!(self.unit(id).state(), UnitState::Open, "{id} is not open");
        self.unit(id).resumed.store(true, Ordering::Release);
    }

    /// Marks everything below a unit's write pointer perhaps live (recovery), until dumps say more.
    pub fn assume_live(&self, id: UnitId) {
        let unit = self.unit(id);
        unit.clear_all();
        unit.note_changed();
        unit.doubtful.store(true, Ordering::Release);
        self.restore_words(id, 0, core::iter::repeat(u64::MAX));
    }

    /// Loads a run of words of a dumped bitmap (recovery): bits below `known` as dumped, all others
    /// up to the unit's write pointer as perhaps live. `known` is in bits.
    pub fn restore_run(&self, id: UnitId, first_word: u32, words: &[u64], known: u32) {
        let words = (first_word..).zip(words).map(|(word, &dumped)| {
            let unknown = !low_bits(known.saturating_sub(word * 64));
            dumped | unknown
        });
        self.restore_words(id, first_word, words);
    }

    /// Bits of blocks that end at a unit's write pointer or before.
    fn appended_bits(&self, id: UnitId) -> u32 {
        let pointer = self.unit(id).write_pointer();
        match id.tier {
            Tier::Fast => pointer / crate::geometry::BLOCK_SECTORS as u32,
            Tier::Dense => pointer,
        }
    }

    /// Sets words of live bits, as far as they lie below the write pointer and name user data.
    fn restore_words(&self, id: UnitId, first_word: u32, words: impl Iterator<Item = u64>) {
        let (unit, appended) = (self.unit(id), self.appended_bits(id));
        let all = [u64::MAX];
        let masks = match id.tier {
            Tier::Fast => &all[..],
            Tier::Dense => &self.masks,
        };
        let skipped = first_word as usize % masks.len();
        let masks = masks.iter().cycle().skip(skipped);
        let (mut live, mut before) = (0, 0);
        for ((word, value), mask) in (first_word..appended.div_ceil(64)).zip(words).zip(masks) {
            let value = value & mask & low_bits(appended - word * 64);
            live += value.count_ones();
            before += unit.restore_word(word, value).count_ones();
        }
        unit.live.fetch_add(live, Ordering::AcqRel);
        unit.live.fetch_sub(before, Ordering::AcqRel);
    }
}

/// Bits of a word of [`Unit::narrow`] that number the stripe.
const NARROW_FROM_BITS: u32 = 24;

/// What a unit keeps of its narrow stripes; nothing of those whose number is beyond its bits.
fn narrow_word(narrow: Option<NarrowGroup>) -> u32 {
    let known = narrow.filter(|narrow| narrow.from < 1 << NARROW_FROM_BITS);
    known.map_or(0, |narrow| {
        (u32::from(narrow.member) + 1) << NARROW_FROM_BITS | narrow.from
    })
}

/// The `count` lowest bits.
const fn low_bits(count: u32) -> u64 {
    if count >= 64 {
        u64::MAX
    } else {
        (1 << count) - 1
    }
}

#[cfg(test)]
mod tests;
