//! Leaf images of the fast tier, by leaf: most of what lies in the log are images that were
//! superseded long ago, and no start will ask for them.
//!
//! The newest image of each leaf is kept, and superseded ones until two further checkpoints have
//! committed. An image that is written during a start may be worth nothing: one that redo meets later in
//! the log holds more. What it was to supersede is kept until the leaf is written once more. Whoever reads
//! an older one whole is told so loudly: the model would have lied otherwise. (A start that looks for a header in what an older use of a chunk left behind finds
//! zeroes: an image is no header either.)

use std::collections::{BTreeMap, VecDeque};
use varve_units::{LeafIndex, VolumeId};

/// Commits after which a superseded image is forgotten.
const COMMITS_KEPT: u64 = 2;

/// Bits of a leaf's index in its name: a volume of 128 TiB.
const INDEX_BITS: u32 = 26;
/// Volumes that the bits left can tell apart: as many as a rig has tenants at most.
const VOLUMES: u64 = 1 << (u32::BITS - INDEX_BITS);

/// Volume and index of a leaf. Volumes count from 1, and here from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LeafName(pub(super) u32);

impl LeafName {
    /// The name of a leaf.
    ///
    /// # Panics
    /// If a pool of the laboratory has more than 64 volumes, or one of more than 128 TiB.
    pub(super) fn new(volume: VolumeId, leaf: LeafIndex) -> Self {
        let (volume, index) = (volume.0, leaf.0);
        assert!((1..=VOLUMES).contains(&volume) && index < 1 << INDEX_BITS);
        Self(((volume - 1) << INDEX_BITS | index) as u32)
    }

    const fn volume(self) -> usize {
        (self.0 >> INDEX_BITS) as usize
    }

    /// The index in its volume.
    pub(super) const fn index(self) -> LeafIndex {
        LeafIndex((self.0 & ((1 << INDEX_BITS) - 1)) as u64)
    }
}

#[derive(Default)]
struct Newest {
    sector: u64,
    packed: Box<[u8]>,
}

/// Leaf images.
#[derive(Default)]
pub(super) struct Leaves {
    /// By volume and index.
    newest: Vec<Vec<Newest>>,
    /// Which leaf the image at a sector is of, and superseded images by sector.
    old: BTreeMap<u64, Box<[u8]>>,
    /// Superseded images in order: commits seen then, sector.
    order: VecDeque<(u64, u64)>,
    commits: u64,
    is_starting: bool,
    /// By leaf, the sectors of images that one written during a start was to supersede.
    rivals: BTreeMap<u32, Vec<u64>>,
    bytes: usize,
}

impl Leaves {
    /// Keeps an image, packed.
    pub(super) fn write(&mut self, leaf: LeafName, sector: u64, packed: &[u8]) {
        let (volume, index) = (leaf.volume(), leaf.index().0 as usize);
        if volume >= self.newest.len() {
            self.newest.resize_with(volume + 1, Vec::new);
        }
        let newest = &mut self.newest[volume];
        if index >= newest.len() {
            newest.resize_with(index + 1, Newest::default);
        }
        self.bytes += packed.len();
        let new = Newest {
            sector,
            packed: packed.into(),
        };
        let old = std::mem::replace(&mut newest[index], new);
        if !old.packed.is_empty() {
            let rivals = self.rivals.entry(leaf.0).or_default();
            rivals.push(old.sector);
            if !self.is_starting {
                let commits = self.commits;
                self.order
                    .extend(rivals.drain(..).map(|sector| (commits, sector)));
                self.rivals.remove(&leaf.0);
            }
            if let Some(older) = self.old.insert(old.sector, old.packed) {
                self.bytes -= older.len();
            }
        }
    }

    /// A checkpoint has committed.
    pub(super) fn committed(&mut self) {
        self.commits += 1;
        while let Some(&(at, sector)) = self.order.front()
            && at + COMMITS_KEPT < self.commits
        {
            self.order.pop_front();
            if let Some(gone) = self.old.remove(&sector) {
                self.bytes -= gone.len();
            }
        }
    }

    /// A start begins or has ended.
    pub(super) fn set_starting(&mut self, is_starting: bool) {
        self.is_starting = is_starting;
    }

    /// The image of a leaf at a sector; `None` if it was superseded long ago.
    pub(super) fn read(&self, leaf: LeafName, sector: u64) -> Option<&[u8]> {
        let of_volume = self.newest.get(leaf.volume());
        let newest = of_volume.and_then(|leaves| leaves.get(leaf.index().0 as usize));
        match newest.filter(|newest| newest.sector == sector) {
            Some(newest) => Some(&newest.packed),
            None => self.old.get(&sector).map(|packed| &**packed),
        }
    }

    /// Bytes of memory, roughly.
    pub(super) fn bytes(&self) -> usize {
        let leaves: usize = self.newest.iter().map(Vec::capacity).sum();
        self.bytes + leaves * (size_of::<Newest>() + 16) + self.old.len() * 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and the last volume and leaf that there can be have names of their own.
    #[test]
    fn names_tell_all_leaves_apart() {
        let last = LeafIndex((1 << INDEX_BITS) - 1);
        let names = [1, 2, VOLUMES - 1, VOLUMES]
            .map(|volume| [LeafIndex(0), last].map(|leaf| LeafName::new(VolumeId(volume), leaf)));
        for (at, name) in names.iter().flatten().enumerate() {
            let same = names.iter().flatten().filter(|other| *other == name);
            assert_eq!(same.count(), 1, "{at}");
            assert_eq!(name.index(), if at % 2 == 0 { LeafIndex(0) } else { last });
        }
        assert_eq!(names[3][0].volume(), 63);
    }

    /// Whichever of the two counts, for as long as nothing else was written.
    #[test]
    fn what_a_start_wrote_supersedes_nothing_yet() {
        let mut leaves = Leaves::default();
        let leaf = LeafName::new(VolumeId(1), LeafIndex(3));
        leaves.write(leaf, 100, &[1]);
        leaves.set_starting(true);
        leaves.write(leaf, 200, &[2]);
        leaves.set_starting(false);
        for _ in 0..9 {
            leaves.committed();
        }
        assert_eq!(leaves.read(leaf, 100), Some(&[1][..]));
        assert_eq!(leaves.read(leaf, 200), Some(&[2][..]));
        leaves.write(leaf, 300, &[3]);
        for _ in 0..3 {
            assert_eq!(leaves.read(leaf, 100), Some(&[1][..]));
            leaves.committed();
        }
        let left = [100, 200, 300].map(|sector| leaves.read(leaf, sector));
        assert_eq!(left, [None, None, Some(&[3][..])]);
    }

    #[test]
    fn a_superseded_image_is_kept_for_two_commits() {
        let mut leaves = Leaves::default();
        let leaf = LeafName::new(VolumeId(1), LeafIndex(3));
        let other = LeafName::new(VolumeId(2), LeafIndex(3));
        leaves.write(other, 50, &[7]);
        leaves.write(leaf, 100, &[1]);
        leaves.write(leaf, 200, &[2]);
        assert_eq!(leaves.read(leaf, 100), Some(&[1][..]));
        leaves.committed();
        leaves.committed();
        assert_eq!(leaves.read(leaf, 100), Some(&[1][..]));
        leaves.committed();
        assert_eq!(leaves.read(leaf, 100), None);
        assert_eq!(leaves.read(leaf, 200), Some(&[2][..]));
        assert_eq!(leaves.read(other, 50), Some(&[7][..]));
        assert!(leaves.old.is_empty() && leaves.order.is_empty());
    }
}
