//! The fault atlas: which fault may strike where, so that redundancy always suffices.
//!
//! A *claim* says that a range of one drive holds wrong or no content. A claim is granted only if,
//! wherever it lies, all other drives that protect that place are clean there; it ends when the
//! drive sees the range rewritten. The loss of a drive claims all of it until it is replaced and
//! made equal again.
//!
//! **Invariants**: within a mirror no two members hold claims closer than the guard distance
//! (a checksummed unit may straddle them); within a parity tier no two drives hold claims in one
//! row; a drive whose labels are claimed counts as lost, because whoever cannot read them does not
//! use it; at most one drive of a tier is lost; tiers without redundancy hold no claim at all.
//!
//! **Not here**: how faults work (`drive`), when they strike (`scenario`).

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use varve_units::{Nanos, SECTOR_BYTES};

/// How long whoever made a read that did not pass may take to read another copy: reads hang for a quarter of a second.
const HIT_REMEMBERED: Nanos = Nanos::from_secs(1);

/// How a tier protects its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// Not at all.
    Single,
    /// The same bytes at the same distance from each extent's base.
    Mirror,
    /// Full stripes with one parity strip, strips of this many bytes, row by row from the base.
    Parity {
        /// Bytes of a strip.
        strip_bytes: u64,
    },
}

impl Scheme {
    /// Of so many drives those that must fail a write for the tier to fail it: one more than it can do without.
    #[must_use]
    pub const fn refusers_min(self, drives: usize) -> usize {
        match self {
            Self::Single => 1,
            Self::Mirror => drives,
            Self::Parity { .. } => 2,
        }
    }
}

/// The part of a drive that belongs to a tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Index of the drive in the pool.
    pub drive: usize,
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl Extent {
    fn contains(&self, range: &Range<u64>) -> bool {
        self.base <= range.start && range.end <= self.base + self.bytes
    }
}

/// One tier of the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tier {
    /// How it protects its content.
    pub scheme: Scheme,
    /// One extent per drive.
    pub extents: Vec<Extent>,
}

/// A pool as the atlas sees it. Whatever lies below every extent of a drive is its label area.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Number of drives.
    pub drives: usize,
    /// Fast tier, dense tier.
    pub tiers: Vec<Tier>,
    /// Distance in bytes that claims on two members of a mirror keep: no less than the longest
    /// unit under one checksum.
    pub guard_bytes: u64,
    /// Drives that may be lost at once without losing the label quorum.
    pub losses_max: usize,
}

/// Where a range lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Label,
    Tier(usize, Extent),
}

/// The claims of a pool.
#[derive(Clone, Debug)]
pub struct Atlas {
    layout: Layout,
    /// Claimed sectors of each drive.
    claims: Vec<BTreeSet<u64>>,
    lost: Vec<bool>,
    /// Drives that are away together: nothing more is granted.
    shut_for: Option<Range<usize>>,
    /// Reads that met a claim, the newest last: who made one may be reading another copy.
    hits: VecDeque<(Nanos, usize, Range<u64>)>,
}

impl Atlas {
    /// No claims yet.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        let drives = layout.drives;
        Self {
            layout,
            claims: vec![BTreeSet::new(); drives],
            lost: vec![false; drives],
            shut_for: None,
            hits: VecDeque::new(),
        }
    }

    /// Claims `range` (bytes, whole sectors) of a drive; false if redundancy would not suffice.
    pub fn claim(&mut self, drive: usize, range: Range<u64>) -> bool {
        if !self.may_claim(drive, &range) {
            return false;
        }
        self.hold(drive, &range);
        true
    }

    /// Grants nothing from now on: these drives are away, nothing is claimed of them, and the pool may give one of them up.
    pub fn shut(&mut self, away: Range<usize>) {
        self.shut_for = Some(away);
    }

    /// Grants again what redundancy suffices for; who was away.
    pub fn open(&mut self) -> Option<Range<usize>> {
        self.shut_for.take()
    }

    /// Who is away while it grants nothing.
    #[must_use]
    pub fn shut_for(&self) -> Option<Range<usize>> {
        self.shut_for.clone()
    }

    /// Claims both ranges of a drive or none.
    pub fn claim_both(&mut self, drive: usize, first: Range<u64>, second: Range<u64>) -> bool {
        let may = self.may_claim(drive, &first) && self.may_claim(drive, &second);
        if may {
            self.hold(drive, &first);
            self.hold(drive, &second);
        }
        may
    }

    /// A read of a drive met something claimed.
    pub fn note_hit(&mut self, drive: usize, range: &Range<u64>, now: Nanos) {
        while let Some((at, ..)) = self.hits.front()
            && *at + HIT_REMEMBERED < now
        {
            self.hits.pop_front();
        }
        self.hits.push_back((now, drive, range.clone()));
    }

    /// True if a read of `range` of a drive may fail although nothing is claimed there for long: the claim would be granted,
    /// and nobody reads it because another copy did not pass a moment ago.
    #[must_use]
    pub fn may_claim_for_a_read(&self, drive: usize, range: &Range<u64>, now: Nanos) -> bool {
        let mut hits = self.hits.iter();
        let near = |(at, other, hit): &(Nanos, usize, Range<u64>)| {
            *at + HIT_REMEMBERED >= now
                && *other != drive
                && self.is_beside(drive, range, *other, hit)
        };
        self.may_claim(drive, range) && !hits.any(near)
    }

    /// True if what was hit on another drive is what protects `range`.
    fn is_beside(&self, drive: usize, range: &Range<u64>, other: usize, hit: &Range<u64>) -> bool {
        let (Some(Place::Tier(index, extent)), Some(Place::Tier(hit_in, hit_extent))) =
            (self.place(drive, range), self.place(other, hit))
        else {
            return false;
        };
        let near = self.near(self.layout.tiers[index].scheme, extent, range);
        let (start, end) = (hit.start - hit_extent.base, hit.end - hit_extent.base);
        index == hit_in && start < near.end && near.start < end
    }

    fn hold(&mut self, drive: usize, range: &Range<u64>) {
        self.lost[drive] |= self.place(drive, range) == Some(Place::Label);
        self.claims[drive].extend(sectors(range));
    }

    /// The range was rewritten: it holds what it should.
    pub fn release(&mut self, drive: usize, range: Range<u64>) {
        if self.claims[drive].is_empty() {
            return;
        }
        let span = sectors(&range);
        let held: Vec<u64> = self.claims[drive].range(span).copied().collect();
        for sector in held {
            self.claims[drive].remove(&sector);
        }
    }

    /// Claims a whole drive; false if redundancy would not suffice.
    pub fn lose(&mut self, drive: usize) -> bool {
        let may = self.may_lose(drive);
        if may {
            self.lost[drive] = true;
        }
        may
    }

    /// A lost drive was replaced and holds all it should.
    pub fn restore(&mut self, drive: usize) {
        self.lost[drive] = false;
        self.claims[drive].clear();
    }

    /// A lost drive turned out to hold all it should, but for what is claimed on it. It stays lost
    /// if its labels are claimed.
    pub fn found_whole(&mut self, drive: usize) {
        let mut claims = self.claims[drive].iter();
        let has_bad_label = claims.any(|sector| {
            let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
            self.place(drive, &range) == Some(Place::Label)
        });
        self.lost[drive] = has_bad_label;
    }

    /// True if the tier that has this place of a drive may store a write there and refuse it: nothing was promised
    /// yet of what it was to hold. Not while a drive of the tier is lost, when those that refuse may be the only
    /// ones that took the write.
    #[must_use]
    pub fn may_refuse(&self, drive: usize, range: &Range<u64>) -> bool {
        let Some(Place::Tier(index, _)) = self.place(drive, range) else {
            return false;
        };
        let mut extents = self.layout.tiers[index].extents.iter();
        self.shut_for.is_none() && extents.all(|extent| !self.lost[extent.drive])
    }

    /// True while a drive is lost.
    #[must_use]
    pub fn is_lost(&self, drive: usize) -> bool {
        self.lost[drive]
    }

    /// Claimed sectors of a drive.
    #[must_use]
    pub fn claimed_sectors(&self, drive: usize) -> usize {
        self.claims[drive].len()
    }

    /// True if some tier has redundancy.
    #[must_use]
    pub fn has_redundancy(&self) -> bool {
        let mut tiers = self.layout.tiers.iter();
        tiers.any(|tier| tier.scheme != Scheme::Single)
    }

    fn place(&self, drive: usize, range: &Range<u64>) -> Option<Place> {
        let mut base = u64::MAX;
        for (index, tier) in self.layout.tiers.iter().enumerate() {
            for extent in tier.extents.iter().filter(|extent| extent.drive == drive) {
                if extent.contains(range) {
                    return Some(Place::Tier(index, *extent));
                }
                base = base.min(extent.base);
            }
        }
        (range.end <= base && base != u64::MAX).then_some(Place::Label)
    }

    /// True if [`Atlas::claim`] would grant `range` of a drive.
    #[must_use]
    pub fn may_claim(&self, drive: usize, range: &Range<u64>) -> bool {
        assert!(range.start < range.end, "an empty claim");
        if self.lost[drive] || self.shut_for.is_some() {
            return false;
        }
        match self.place(drive, range) {
            None => false,
            Some(Place::Label) => self.may_lose(drive),
            Some(Place::Tier(index, extent)) => {
                let tier = &self.layout.tiers[index];
                tier.scheme != Scheme::Single
                    && tier
                        .extents
                        .iter()
                        .filter(|other| other.drive != drive)
                        .all(|other| self.is_clean(tier.scheme, extent, other, range))
            }
        }
    }

    /// True if `other` holds all that protects `range` of `extent`.
    fn is_clean(&self, scheme: Scheme, extent: Extent, other: &Extent, range: &Range<u64>) -> bool {
        if self.lost[other.drive] {
            return false;
        }
        let near = self.near(scheme, extent, range);
        let first = other.base + near.start;
        let last = other.base + near.end.min(other.bytes);
        first >= last || !self.has_claims(other.drive, &(first..last))
    }

    /// From the base of an extent, what of the others protects `range` of it.
    fn near(&self, scheme: Scheme, extent: Extent, range: &Range<u64>) -> Range<u64> {
        let (start, end) = (range.start - extent.base, range.end - extent.base);
        match scheme {
            Scheme::Single => 0..0,
            Scheme::Mirror => {
                let guard = self.layout.guard_bytes;
                start.saturating_sub(guard)..end + guard
            }
            Scheme::Parity { strip_bytes } => {
                start / strip_bytes * strip_bytes..end.next_multiple_of(strip_bytes)
            }
        }
    }

    fn has_claims(&self, drive: usize, range: &Range<u64>) -> bool {
        self.claims[drive].range(sectors(range)).next().is_some()
    }

    /// True if [`Atlas::lose`] would grant a drive.
    #[must_use]
    pub fn may_lose(&self, drive: usize) -> bool {
        let lost = self.lost.iter().filter(|&&lost| lost).count();
        if self.shut_for.is_some() || self.lost[drive] || lost >= self.layout.losses_max {
            return false;
        }
        self.layout
            .tiers
            .iter()
            .filter(|tier| tier.extents.iter().any(|extent| extent.drive == drive))
            .all(|tier| {
                tier.scheme != Scheme::Single
                    && tier
                        .extents
                        .iter()
                        .filter(|other| other.drive != drive)
                        .all(|other| {
                            let all = other.base..other.base + other.bytes;
                            !self.lost[other.drive] && !self.has_claims(other.drive, &all)
                        })
            })
    }
}

/// The sectors a byte range touches.
fn sectors(range: &Range<u64>) -> Range<u64> {
    range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const KIB: u64 = 1024;
    const BASE: u64 = 64 * KIB;
    const STRIP: u64 = 64 * KIB;
    const BYTES: u64 = 1024 * KIB;

    fn tier(scheme: Scheme, drives: Range<usize>) -> Tier {
        let extents = drives.map(|drive| Extent {
            drive,
            base: BASE,
            bytes: BYTES,
        });
        Tier {
            scheme,
            extents: extents.collect(),
        }
    }

    /// Drives 0 and 1 mirrored, 2 to 4 with parity.
    fn atlas() -> Atlas {
        let parity = Scheme::Parity { strip_bytes: STRIP };
        Atlas::new(Layout {
            drives: 5,
            tiers: vec![tier(Scheme::Mirror, 0..2), tier(parity, 2..5)],
            guard_bytes: 8 * KIB,
            losses_max: 2,
        })
    }

    /// The other member is out of bounds at the same place and within the guard, not beyond, and
    /// free again once the first is rewritten.
    #[test]
    fn mirror_keeps_one_clean_copy() {
        let mut atlas = atlas();
        let at = BASE + 100 * KIB;
        assert!(atlas.claim(0, at..at + 4 * KIB));
        assert!(!atlas.claim(1, at..at + 512));
        assert!(!atlas.claim(1, at + 11 * KIB..at + 12 * KIB));
        assert!(!atlas.claim(1, at - 9 * KIB..at - 7 * KIB));
        assert!(atlas.claim(1, at + 12 * KIB..at + 13 * KIB));
        atlas.release(0, at..at + 3 * KIB);
        assert!(!atlas.claim(1, at..at + 512));
        atlas.release(0, at + 3 * KIB..at + 4 * KIB);
        assert!(atlas.claim(1, at..at + 512));
    }

    /// In a parity tier a row is damaged on one drive at most.
    #[test]
    fn parity_keeps_rows() {
        let mut atlas = atlas();
        assert!(atlas.claim(2, BASE + STRIP..BASE + STRIP + 512));
        assert!(!atlas.claim(3, BASE + 2 * STRIP - 512..BASE + 2 * STRIP));
        assert!(!atlas.claim(3, BASE + 2 * STRIP - 512..BASE + 2 * STRIP + 512));
        assert!(atlas.claim(3, BASE + 2 * STRIP..BASE + 2 * STRIP + 512));
        assert!(atlas.claim(2, BASE + STRIP + KIB..BASE + STRIP + 2 * KIB));
    }

    /// A lost drive forbids everything on its peers until it is restored, and is refused while
    /// a peer is damaged.
    #[test]
    fn loss_claims_the_whole_drive() {
        let mut atlas = atlas();
        assert!(atlas.claim(1, BASE..BASE + 512));
        assert!(!atlas.lose(0));
        assert!(atlas.lose(1));
        assert!(!atlas.claim(0, BASE + 90 * KIB..BASE + 91 * KIB));
        assert!(!atlas.lose(0));
        assert!(atlas.lose(3));
        assert!(!atlas.lose(4));
        atlas.restore(1);
        assert!(atlas.claim(0, BASE..BASE + 512));
        assert_eq!(atlas.claimed_sectors(1), 0);
    }

    /// A drive with damaged labels is as good as lost.
    #[test]
    fn labels_keep_their_quorum() {
        let mut atlas = atlas();
        assert!(atlas.claim(4, 0..4096));
        assert!(atlas.is_lost(4));
        assert!(!atlas.claim(3, 0..4096));
        assert!(!atlas.claim(3, BASE + 90 * KIB..BASE + 91 * KIB));
        assert!(!atlas.lose(3));
        atlas.release(4, 0..8192);
        assert!(atlas.is_lost(4));
        assert!(atlas.lose(0));
        assert!(!atlas.claim(1, 0..4096));
        atlas.restore(4);
        assert!(!atlas.claim(3, BASE - 512..BASE + 512));
        assert!(atlas.claim(3, 4096..8192));
    }

    /// A tier refuses writes to what it protects, not to labels, and not while one of its drives is lost.
    #[test]
    fn tiers_refuse_while_they_are_whole() {
        let mut atlas = atlas();
        let range = BASE..BASE + STRIP;
        assert!(atlas.may_refuse(0, &range) && atlas.may_refuse(3, &range));
        assert!(!atlas.may_refuse(3, &(0..STRIP)));
        assert!(atlas.claim(3, range.clone()));
        assert!(atlas.may_refuse(2, &range), "a damaged place is rewritten");
        assert!(atlas.lose(0));
        assert!(!atlas.may_refuse(1, &range));
        assert!(atlas.may_refuse(2, &range));
        atlas.restore(0);
        assert!(atlas.may_refuse(1, &range));
    }

    /// A tier without redundancy is never damaged.
    #[test]
    fn single_is_left_alone() {
        let mut atlas = Atlas::new(Layout {
            drives: 1,
            tiers: vec![tier(Scheme::Single, 0..1)],
            guard_bytes: 0,
            losses_max: 1,
        });
        assert!(!atlas.claim(0, BASE..BASE + 512));
        assert!(!atlas.claim(0, 0..512));
        assert!(!atlas.lose(0));
    }

    /// Random claims and releases: no byte of a mirror and no row of a parity tier is ever
    /// damaged twice.
    #[test]
    fn random_claims_keep_the_promise() {
        for seed in 0..30 {
            let mut rng = Rng::new(seed);
            let mut atlas = atlas();
            for _ in 0..400 {
                let drive = rng.index(5);
                let start = rng.below((BASE + BYTES) / 512) * 512;
                let end = (start + rng.within(1, 64) * 512).min(BASE + BYTES);
                match rng.below(8) {
                    0 => atlas.release(drive, start..end),
                    1 if rng.chance(1, 4) => drop(atlas.lose(drive)),
                    2 if atlas.is_lost(drive) => atlas.restore(drive),
                    _ => drop(atlas.claim(drive, start..end)),
                }
                check(&atlas);
            }
        }
    }

    fn check(atlas: &Atlas) {
        let base = BASE / 512;
        let is_bad = |drive: usize, from: u64, to: u64| {
            atlas.lost[drive] || atlas.claims[drive].range(from..to).next().is_some()
        };
        for sector in base..base + BYTES / 512 {
            let bad = (0..2).filter(|&drive| is_bad(drive, sector, sector + 1));
            assert!(bad.count() <= 1, "sector {sector} of the mirror");
        }
        for row in 0..BYTES / STRIP {
            let from = base + row * STRIP / 512;
            let bad = (2..5).filter(|&drive| is_bad(drive, from, from + STRIP / 512));
            assert!(bad.count() <= 1, "row {row}");
        }
    }
}
