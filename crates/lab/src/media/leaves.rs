//! Leaf images of the fast tier, by leaf: most of what lies in the log are images that were
//! superseded long ago, and no start will ask for them.
//!
//! The newest image of each leaf is kept, and superseded ones until two further checkpoints have
//! committed. Whoever reads an older one whole is told so loudly: the model would have lied
//! otherwise. (A start that looks for a header in what an older use of a chunk left behind finds
//! zeroes: an image is no header either.)

use std::collections::{BTreeMap, VecDeque};

/// Commits after which a superseded image is forgotten.
const COMMITS_KEPT: u64 = 2;

#[derive(Default)]
struct Newest {
    sector: u64,
    packed: Box<[u8]>,
}

/// Leaf images of one volume.
#[derive(Default)]
pub(super) struct Leaves {
    newest: Vec<Newest>,
    /// Which leaf the image at a sector is of, and superseded images by sector.
    old: BTreeMap<u64, Box<[u8]>>,
    /// Superseded images in order: commits seen then, sector.
    order: VecDeque<(u64, u64)>,
    commits: u64,
    bytes: usize,
}

impl Leaves {
    /// Keeps an image, packed.
    pub(super) fn write(&mut self, leaf: u64, sector: u64, packed: &[u8]) {
        let index = usize::try_from(leaf).expect("leaves fit memory");
        if index >= self.newest.len() {
            self.newest.resize_with(index + 1, Newest::default);
        }
        self.bytes += packed.len();
        let new = Newest {
            sector,
            packed: packed.into(),
        };
        let old = std::mem::replace(&mut self.newest[index], new);
        if !old.packed.is_empty() {
            self.order.push_back((self.commits, old.sector));
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

    /// The image of a leaf at a sector; `None` if it was superseded long ago.
    pub(super) fn read(&self, leaf: u64, sector: u64) -> Option<&[u8]> {
        let newest = self.newest.get(leaf as usize);
        match newest.filter(|newest| newest.sector == sector) {
            Some(newest) => Some(&newest.packed),
            None => self.old.get(&sector).map(|packed| &**packed),
        }
    }

    /// Bytes of memory, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.newest.capacity() * (size_of::<Newest>() + 16) + self.old.len() * 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superseded_image_is_kept_for_two_commits() {
        let mut leaves = Leaves::default();
        leaves.write(3, 100, &[1]);
        leaves.write(3, 200, &[2]);
        assert_eq!(leaves.read(3, 100), Some(&[1][..]));
        leaves.committed();
        leaves.committed();
        assert_eq!(leaves.read(3, 100), Some(&[1][..]));
        leaves.committed();
        assert_eq!(leaves.read(3, 100), None);
        assert_eq!(leaves.read(3, 200), Some(&[2][..]));
        assert!(leaves.old.is_empty() && leaves.order.is_empty());
    }
}
