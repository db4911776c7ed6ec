//! A past: where each block of a full volume lies after uniform overwrites for ever, by a formula.
//!
//! Garbage collection that takes groups in turn leaves them with `v^age` of their blocks alive,
//! `age` from 0 (the newest group) to 1 (the next victim); `v` follows from how full the groups are
//! altogether. Which block is where is a multiplication modulo the number of blocks: it scatters
//! the blocks of a group over all leaves and those of a leaf over all groups, evenly, and can be
//! undone. So nothing of it needs memory, whatever the size of the pool.
//!
//! **Not here**: telling the engine (`recovery`).

use crate::draw::Scatter;
use std::cell::OnceCell;
use varve_format::{Entry, LeafImage, P2l, P2lEntry, Placement, block_crc, crc24};
use varve_ftl::Geometry;
use varve_io::BlockRef;
use varve_units::{
    BLOCK_BYTES, Generation, LEAF_BLOCKS, Lba, LeafIndex, Lsn, Ppa, SECTOR, SECTOR_BYTES, VolumeId,
};

/// Blocks of the order between two entries of the index: a power of two.
const HINT_SHIFT: u32 = 12;

/// The past of one volume. Groups are numbered by age, the oldest first.
pub(crate) struct Aged {
    geometry: Geometry,
    volume: VolumeId,
    scatter: Scatter,
    group_user: u64,
    stripe_user: u32,
    /// In the order of blocks, where each group begins; the end of the last one.
    starts: Vec<u64>,
    /// The group in which each run of the order begins.
    hints: Vec<u32>,
    /// Numbers and generations that the engine gave the groups.
    groups: OnceCell<Given>,
}

struct Given {
    groups: Vec<(u32, Generation)>,
    /// By number.
    ages: Vec<Option<u32>>,
}

impl Aged {
    /// A volume of `user_blocks` in `groups` groups.
    pub(crate) fn new(
        geometry: &Geometry,
        volume: VolumeId,
        user_blocks: u64,
        groups: u32,
    ) -> Self {
        let group_user =
            u64::from(geometry.group_stripes()) * u64::from(geometry.stripe_user_blocks());
        let starts = starts(user_blocks, group_user, groups);
        let mut hints = Vec::with_capacity((user_blocks >> HINT_SHIFT) as usize + 1);
        let mut group = 0;
        for run in 0..=user_blocks >> HINT_SHIFT {
            while starts[group + 1] <= run << HINT_SHIFT && group + 2 < starts.len() {
                group += 1;
            }
            hints.push(group as u32);
        }
        Self {
            geometry: *geometry,
            volume,
            scatter: Scatter::new(user_blocks),
            group_user,
            stripe_user: geometry.stripe_user_blocks(),
            starts,
            hints,
            groups: OnceCell::new(),
        }
    }

    /// Tells which groups the engine gave, the oldest first.
    pub(crate) fn place(&self, groups: Vec<(u32, Generation)>) {
        let mut ages = vec![None; self.geometry.groups as usize];
        for (age, (group, _)) in groups.iter().enumerate() {
            ages[*group as usize] = Some(age as u32);
        }
        let given = Given { groups, ages };
        assert!(self.groups.set(given).is_ok(), "groups are given once");
    }

    /// True if a block of user data of the group at `age` is alive.
    pub(crate) fn is_live(&self, age: u32, block: u32) -> bool {
        self.in_order(age, block).is_some()
    }

    /// The image of a leaf.
    pub(crate) fn image(&self, leaf: LeafIndex) -> LeafImage {
        let mut image = LeafImage::BLANK;
        let first = leaf.first().0;
        let mut at = self.scatter.of(first);
        let given = &self.given().groups;
        let group_blocks = u64::from(self.geometry.group_blocks);
        for index in 0..LEAF_BLOCKS {
            let (age, block) = self.place_of(at);
            let ppa = Ppa::dense(u64::from(given[age].0) * group_blocks + u64::from(block));
            let symbol = symbol(Lba(first + index));
            let crc = block_crc(BlockRef::Symbol(symbol));
            image.set(index as u16, Entry::new(ppa, crc24(crc)), MOVED);
            at = self.scatter.after(at);
        }
        image
    }

    /// Content of a block of the dense tier that nothing was written to.
    pub(crate) fn symbol_at(&self, block: u64) -> u64 {
        let group = (block / u64::from(self.geometry.group_blocks)) as u32;
        let within = (block % u64::from(self.geometry.group_blocks)) as u32;
        let age = self.given().ages[group as usize];
        let lba = age.and_then(|age| self.lba(age, within));
        lba.map_or(0, symbol)
    }

    /// Sectors of the P2L area of a stripe that nothing was written to, from `sector` of the dense
    /// tier on.
    pub(crate) fn read_p2l(&self, sector: u64, into: &mut [u8]) {
        let geometry = &self.geometry;
        let block = sector / (BLOCK_BYTES / SECTOR_BYTES);
        let stripe_blocks = u64::from(geometry.stripe_blocks);
        let area = u64::from(geometry.stripe_p2l_blocks());
        let (stripe, at) = (block / stripe_blocks, block % stripe_blocks);
        let group = (stripe / u64::from(geometry.group_stripes())) as u32;
        let Some(age) = self.given().ages[group as usize] else {
            return;
        };
        let stripe = (stripe % u64::from(geometry.group_stripes())) as u32;
        let Some(within) = at.checked_sub(stripe_blocks - area) else {
            return;
        };
        let bytes = self.p2l(age, stripe).encode();
        let start = within as usize * BLOCK_BYTES as usize
            + (sector % (BLOCK_BYTES / SECTOR_BYTES)) as usize * SECTOR;
        let found = bytes.get(start..).unwrap_or_default();
        let length = found.len().min(into.len());
        into[..length].copy_from_slice(&found[..length]);
    }

    fn p2l(&self, age: u32, stripe: u32) -> P2l {
        let first = stripe * self.geometry.stripe_blocks;
        let entry = |block| match self.lba(age, block) {
            Some(lba) => P2lEntry {
                volume: self.volume,
                lba,
                birth: Lsn(1),
                crc: block_crc(BlockRef::Symbol(symbol(lba))),
            },
            None => P2lEntry::PADDING,
        };
        let (group, generation) = self.given().groups[age as usize];
        let blocks = first..first + self.stripe_user;
        P2l {
            narrow: None,
            epoch: crate::recovery::identity(1).tag(1),
            group,
            generation,
            stripe,
            entries: blocks.map(entry).collect(),
        }
    }

    fn given(&self) -> &Given {
        self.groups.get().expect("groups were given")
    }

    fn lba(&self, age: u32, block: u32) -> Option<Lba> {
        let at = self.in_order(age, block)?;
        Some(Lba(self.scatter.undo(at)))
    }

    /// Where in the order the block of a group stands, if it is alive.
    fn in_order(&self, age: u32, block: u32) -> Option<u64> {
        let geometry = &self.geometry;
        let (stripe, within) = (
            block / geometry.stripe_blocks,
            block % geometry.stripe_blocks,
        );
        if within >= self.stripe_user {
            return None;
        }
        let user = u64::from(stripe) * u64::from(self.stripe_user) + u64::from(within);
        let (start, end) = (self.starts[age as usize], self.starts[age as usize + 1]);
        let live = end - start;
        let at = (user * live).div_ceil(self.group_user);
        (at < live && at * self.group_user / live == user).then_some(start + at)
    }

    /// Group and block of what stands at a place in the order.
    fn place_of(&self, at: u64) -> (usize, u32) {
        let mut age = self.hints[(at >> HINT_SHIFT) as usize] as usize;
        while self.starts[age + 1] <= at {
            age += 1;
        }
        let live = self.starts[age + 1] - self.starts[age];
        let user = ((at - self.starts[age]) * self.group_user / live) as u32;
        let (stripe, within) = (user / self.stripe_user, user % self.stripe_user);
        (age, stripe * self.geometry.stripe_blocks + within)
    }
}

const MOVED: Placement = Placement::new(Placement::UNKNOWN, true);

/// What a block held at first.
pub(crate) const fn symbol(lba: Lba) -> u64 {
    lba.0 + 1
}

/// Where each group begins if the one at age `a` (0 to 1) has `v^a` of its blocks alive.
fn starts(blocks: u64, group_user: u64, groups: u32) -> Vec<u64> {
    let share = blocks as f64 / (group_user as f64 * f64::from(groups));
    assert!(share < 1.0, "the groups hold the volume");
    // The mean of v^a is (v - 1) / ln v, which grows with v.
    let (mut low, mut high) = (1e-6, 1.0 - 1e-9);
    for _ in 0..100 {
        let v: f64 = f64::midpoint(low, high);
        if (v - 1.0) / v.ln() < share {
            low = v;
        } else {
            high = v;
        }
    }
    let v = f64::midpoint(low, high);
    // The live blocks of all groups at or above an age, as a share of all.
    let below = |age: f64| (v.powf(age) - v) / (1.0 - v);
    let mut starts: Vec<u64> = (0..=groups)
        .map(|group| {
            let age = 1.0 - f64::from(group) / f64::from(groups);
            (below(age) * blocks as f64).round() as u64
        })
        .collect();
    starts[0] = 0;
    starts[groups as usize] = blocks;
    // Rounding, or blocks that nothing is left of, must not overfill the newest groups.
    for group in (0..groups as usize).rev() {
        starts[group] = starts[group].max(starts[group + 1].saturating_sub(group_user));
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aged() -> Aged {
        let geometry = Geometry {
            chunk_bytes: 1 << 20,
            chunks: 64,
            lba_bytes: 512,
            group_blocks: 1024,
            groups: 40,
            stripe_blocks: 256,
            p2l_copies: 1,
            slices: 16,
        };
        let aged = Aged::new(&geometry, VolumeId(1), 48 * LEAF_BLOCKS, 30);
        // The engine may give any groups.
        aged.place((0..30).map(|age| (35 - age, Generation(7))).collect());
        aged
    }

    #[test]
    fn every_block_has_one_place_that_names_it() {
        let aged = aged();
        let mut live = 0;
        for leaf in 0..48 {
            let image = aged.image(LeafIndex(leaf));
            for index in 0..LEAF_BLOCKS {
                let lba = LeafIndex(leaf).first().0 + index;
                let place = image.entry(index as u16).ppa();
                let place = aged.geometry.locate(place).expect("a block has a place");
                let age = 35 - place.unit.index;
                assert!(aged.is_live(age, place.bit));
                assert_eq!(aged.lba(age, place.bit), Some(Lba(lba)));
                let block = place.offset / BLOCK_BYTES;
                assert_eq!(aged.symbol_at(block), symbol(Lba(lba)));
            }
        }
        for age in 0..30 {
            live += (0..1024).filter(|block| aged.is_live(age, *block)).count();
        }
        assert_eq!(live as u64, 48 * LEAF_BLOCKS);
    }

    #[test]
    fn old_groups_have_fewer_blocks_alive() {
        let aged = aged();
        let live: Vec<u64> = aged.starts.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(live.is_sorted(), "{live:?}");
        assert!(live[29] <= aged.group_user && live[29] > aged.group_user * 9 / 10);
    }

    #[test]
    fn stripes_tell_what_they_hold() {
        let aged = aged();
        let area = u64::from(aged.geometry.stripe_p2l_blocks());
        let group = 35 - 3;
        let block = u64::from(group) * 1024 + 2 * 256 + 256 - area;
        let mut bytes = vec![0; (area * BLOCK_BYTES) as usize];
        aged.read_p2l(block * 8, &mut bytes);
        let p2l = P2l::decode(&bytes, group, 2).expect("it is whole");
        let named = p2l
            .entries
            .iter()
            .filter(|entry| entry.volume == VolumeId(1));
        let live = (512..768).filter(|block| aged.is_live(3, *block)).count();
        assert_eq!(named.count(), live);
        assert_eq!(p2l.generation, Generation(7));
    }
}
