//! What the map costs per operation: `cargo run --release -p varve-ftl --example map_cost`.
//!
//! 2048 leaves (1 Mi blocks, 4 GiB) are mapped in one shard of 256 slices. Each row is the median
//! of rounds; leaves are merged at 64 deltas or when the pool is short, as the engine does it, and
//! the time of merges (no I/O) is told apart.

#![expect(
    clippy::disallowed_methods,
    reason = "what is measured here is the time of the machine"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};
use varve_format::LeafImage;
use varve_ftl::map::{Change, Dead, LeafKey, Lookup, Map, MapLimits, NeedsImage};
use varve_units::{LeafIndex, Lsn, Ppa, SliceId, VolumeId};

const LEAVES: u64 = 2048;
const BLOCKS: u64 = LEAVES * 512;
const SLICES: u16 = 256;
/// Length at which the engine merges a chain (`limits.rs`).
const MERGE_AT: usize = 64;
const ROUNDS: usize = 9;
const OPS: usize = 200_000;
const BATCH: usize = 64;

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// Like zipf with exponent near 1: the logarithm of the rank is uniform.
    fn skewed(&mut self) -> u64 {
        let uniform = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        let rank = (BLOCKS as f64).powf(uniform) as u64 - 1;
        // Hot blocks are spread over all leaves.
        rank.min(BLOCKS - 1).wrapping_mul(0x9e37_79b1) % BLOCKS
    }
}

struct Bench {
    map: Map,
    rng: Rng,
    lsn: u64,
    place: u64,
    dead: Vec<Dead>,
    died: usize,
    images: Vec<LeafImage>,
    merging: Duration,
    merges: usize,
}

fn key(leaf: u64) -> LeafKey {
    LeafKey {
        volume: VolumeId(1),
        leaf: LeafIndex(leaf),
    }
}

impl Bench {
    fn new(images: usize, delta_nodes: usize) -> Self {
        let limits = MapLimits {
            delta_nodes,
            images,
            leaves_max: LEAVES as usize,
        };
        let mut map = Map::new(limits, SLICES);
        (0..SLICES).for_each(|slice| map.add_slice(SliceId(slice)));
        let mut bench = Self {
            map,
            rng: Rng(1),
            lsn: 0,
            place: 0,
            dead: Vec::new(),
            died: 0,
            images: vec![LeafImage::BLANK; LEAVES as usize],
            merging: Duration::ZERO,
            merges: 0,
        };
        for leaf in 0..LEAVES {
            for index in 0..512 {
                bench.put(leaf * 512 + index);
            }
            bench.merge(key(leaf));
        }
        bench.merging = Duration::ZERO;
        bench.merges = 0;
        bench
    }

    fn put(&mut self, block: u64) {
        self.lsn += 1;
        self.place += 1;
        let change = Change::Put {
            ppa: Ppa::dense(self.place % (1 << 30)),
            crc24: self.lsn as u32 & 0xff_ffff,
            class: 3,
        };
        let (leaf, index) = (key(block / 512), (block % 512) as u16);
        let lsn = Lsn(self.lsn);
        self.map
            .apply(leaf, index, change, lsn, &mut self.dead)
            .expect("room was made");
        self.died += self.dead.len();
        self.dead.clear();
    }

    fn touch(&self, batch: &[u64]) {
        let place = |block: &u64| (key(block / 512), (block % 512) as u16);
        self.map.prefetch(batch.iter().map(place));
    }

    fn install(&mut self, key: LeafKey) {
        match self.map.base(key) {
            Some(base) => {
                let image = self.images[key.leaf.0 as usize].clone();
                self.map.install(key, base, Box::new(image), &mut self.dead)
            }
            None => self.map.install_blank(key, &mut self.dead),
        }
        .expect("the base is as told");
        self.died += self.dead.len();
        self.dead.clear();
    }

    fn merge(&mut self, key: LeafKey) {
        let merge = loop {
            match self.map.begin_merge(key) {
                Ok(merge) => break merge,
                Err(NeedsImage::Discarded(_)) => unreachable!("nothing is discarded"),
                Err(_) => self.install(key),
            }
        };
        let leaf = key.leaf.0;
        let image = LeafImage::decode(merge.image.bytes()).expect("the map made it");
        self.images[leaf as usize] = *image;
        self.map.finish_merge(key, leaf * 16, 7, merge.through);
        self.merges += 1;
    }

    /// After each batch, as the engine does it.
    fn make_room(&mut self) {
        let begun = Instant::now();
        let before = self.merges;
        while let Some(key) = self.map.fullest() {
            if self.map.chain_len(key) < MERGE_AT && self.map.room() >= 2 * BATCH {
                break;
            }
            self.merge(key);
        }
        if self.merges > before {
            self.merging += begun.elapsed();
        }
    }

    /// Nanoseconds per put, its share of merges apart: (put, merges).
    fn puts(&mut self, skewed: bool, touch: bool) -> (f64, f64) {
        self.merging = Duration::ZERO;
        let blocks: Vec<u64> = (0..OPS)
            .map(|_| {
                if skewed {
                    self.rng.skewed()
                } else {
                    self.rng.below(BLOCKS)
                }
            })
            .collect();
        let begun = Instant::now();
        for batch in blocks.chunks(BATCH) {
            if touch {
                self.touch(batch);
            }
            for &block in batch {
                self.put(block);
            }
            self.make_room();
        }
        let all = begun.elapsed();
        let per = |time: Duration| time.as_nanos() as f64 / OPS as f64;
        (per(all - self.merging), per(self.merging))
    }

    /// Nanoseconds per look-up, over `span` blocks.
    fn lookups(&mut self, span: u64, touch: bool) -> f64 {
        let blocks: Vec<u64> = (0..OPS).map(|_| self.rng.below(span)).collect();
        let begun = Instant::now();
        for batch in blocks.chunks(BATCH) {
            if touch {
                self.touch(batch);
            }
            for &block in batch {
                let found = self.map.lookup(key(block / 512), (block % 512) as u16);
                assert!(black_box(found) != Lookup::Lost);
            }
        }
        begun.elapsed().as_nanos() as f64 / OPS as f64
    }

    /// Nanoseconds per changed leaf of a cut of every slice.
    fn cuts(&mut self) -> f64 {
        let begun = Instant::now();
        for slice in 0..SLICES {
            black_box(self.map.cut(SliceId(slice), false));
        }
        begun.elapsed().as_nanos() as f64 / LEAVES as f64
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn row(name: &str, images: usize, nodes: usize, skewed: bool) {
    let mut bench = Bench::new(images, nodes);
    bench.puts(skewed, false);
    let (mut plain, mut merges, mut touched) = (Vec::new(), Vec::new(), Vec::new());
    let (mut hot, mut cold, mut ahead, mut cut) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (put, merge) = bench.puts(skewed, false);
        plain.push(put);
        merges.push(merge);
        touched.push(bench.puts(skewed, true).0);
        bench.lookups(512, false);
        hot.push(bench.lookups(512, false));
        cold.push(bench.lookups(BLOCKS, false));
        ahead.push(bench.lookups(BLOCKS, true));
        bench.cuts();
        bench.puts(skewed, false);
        cut.push(bench.cuts());
    }
    let chain = bench.map.deltas() as f64 / LEAVES as f64;
    println!(
        "{name:<28} {:>7.0} {:>7.0} {:>7.0} {:>7.0} {:>7.0} {:>7.0} {:>7.0} {chain:>6.1}",
        median(plain),
        median(touched),
        median(merges),
        median(hot),
        median(cold),
        median(ahead),
        median(cut),
    );
    assert!(bench.died > 0, "overwritten places are reported");
}

fn main() {
    println!(
        "{:<28} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6}",
        "ns per", "put", "touched", "merges", "hot", "lookup", "touched", "cut", "chain"
    );
    let (all, few) = (LEAVES as usize, LEAVES as usize * 6 / 100);
    // 64 deltas a leaf never fill the first pool; 7 a leaf is the default split of the budget.
    let (roomy, tight) = (LEAVES as usize * 30, LEAVES as usize * 4);
    row("uniform, all images", all, roomy, false);
    row("uniform, all, small pool", all, tight, false);
    row("uniform, 6 % images", few, tight, false);
    row("skewed, all images", all, roomy, true);
    row("skewed, 6 % images", few, tight, true);
}
