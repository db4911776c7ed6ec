//! Each invariant broken on purpose, and the error that names it.

use super::leaves::Images;
use super::snapshot::{Reference, Snapshot};
use super::{AuditError, Mapped};
use crate::common::{MemoryDrive, Pool, VOLUME_BLOCKS};
use crate::engine::Engine;
use crate::geometry::{Tier, UnitId};
use crate::map::{Base, Change, LeafKey};
use crate::shared::FIRST;
use crate::units::{UnitRestore, UnitState};
use std::rc::Rc;
use std::vec::Vec;
use varve_format::{PartPlace, block_crc, crc24};
use varve_io::BlockRef;
use varve_units::{BLOCK, Lba, LeafIndex, Lsn, Ppa, SECTOR_BYTES};

/// A pool at rest with blocks on both tiers and leaves in the log, about to be broken.
struct Bench {
    pool: Pool,
    engine: Rc<Engine>,
    snapshot: Snapshot,
}

impl Bench {
    fn new() -> Self {
        let mut drawn = (1..100).map(Self::drawn);
        let has_both = |bench: &Self| TIERS.iter().all(|tier| bench.closed(*tier).is_some());
        drawn.find(has_both).expect("blocks in closed units")
    }

    fn drawn(seed: u64) -> Self {
        let pool = Pool::new(seed, 1, 1);
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        pool.executor.block_on(async move { host.run(1_000).await });
        pool.executor.drain();
        let inner = Rc::clone(&engine);
        let snapshot = pool.executor.block_on(async move {
            let report = inner.audit().await;
            assert_eq!(report.map(|report| report.lost), Ok(0));
            let mut images = Images::default();
            images.read_all(&inner.shared, None).await.unwrap();
            Snapshot::take(&inner.shared, &images).unwrap()
        });
        Self {
            pool,
            engine,
            snapshot,
        }
    }

    fn audit(&self) -> AuditError {
        let engine = Rc::clone(&self.engine);
        let done = self
            .pool
            .executor
            .block_on(async move { engine.audit().await });
        done.expect_err("something is broken")
    }

    /// A mapped block of a closed unit of the tier.
    fn block(&self, tier: Tier) -> Reference {
        self.closed(tier).expect("asked for when it was drawn")
    }

    fn closed(&self, tier: Tier) -> Option<Reference> {
        let closed = |one: &&Reference| {
            let unit = self.engine.shared.units.unit(one.at.unit);
            one.at.unit.tier == tier && unit.state() == UnitState::Closed
        };
        self.snapshot.references.iter().find(closed).copied()
    }

    fn drive(&self, tier: Tier) -> &MemoryDrive {
        match tier {
            Tier::Fast => &self.pool.fast,
            Tier::Dense => &self.pool.dense,
        }
    }

    /// A leaf with a stored image.
    fn leaf(&self) -> (LeafKey, Base) {
        let shards = super::shards(&self.engine.shared).unwrap();
        let mut stored = shards.iter().flat_map(|shard| {
            let map = shard.map.borrow();
            let keys = map.keys().into_iter();
            let of = |key| Some((key, map.stored(key)?));
            keys.filter_map(of).collect::<Vec<_>>()
        });
        stored.next().unwrap()
    }

    fn change(&self, at: Mapped, lba: Lba, change: Change) {
        let key = LeafKey {
            volume: at.volume,
            leaf: lba.leaf(),
        };
        let shards = super::shards(&self.engine.shared).unwrap();
        let owner = &shards[usize::from(self.engine.shared.owner_of_leaf(key).0)];
        let lsn = self.engine.shared.draw_stamp();
        owner.lane.borrow_mut().observe(lsn.next());
        let (mut dead, index) = (Vec::new(), lba.index() as u16);
        let done = owner
            .map
            .borrow_mut()
            .apply(key, index, change, lsn, &mut dead);
        assert_eq!(done, Ok(()));
        owner.show_used();
    }

    fn put(&self, of: Reference, lba: Lba, ppa: Ppa, crc24: u32) {
        let class = 0;
        self.change(of.at, lba, Change::Put { ppa, crc24, class });
    }

    /// A block of the volume that is not mapped.
    fn hole(&self) -> Lba {
        let mut all = (0..VOLUME_BLOCKS).map(Lba);
        let is_mapped = |lba: &Lba| self.snapshot.references.iter().any(|r| r.at.lba == *lba);
        all.find(|lba| !is_mapped(lba)).unwrap()
    }

    fn restore(&self, unit: UnitId, change: impl FnOnce(&mut UnitRestore)) {
        let units = &self.engine.shared.units;
        let now = units.unit(unit);
        let mut restore = UnitRestore {
            state: now.state(),
            generation: now.generation(),
            stamp: now.stamp(),
            write_pointer: now.write_pointer(),
            is_resumed: now.is_resumed(),
        };
        change(&mut restore);
        units.restore(unit, &restore);
    }

    fn free_unit(&self) -> UnitId {
        self.engine.shared.control().free_list(Tier::Fast)[0]
    }
}

const TIERS: [Tier; 2] = [Tier::Fast, Tier::Dense];

#[test]
fn a_flipped_bit_in_a_block() {
    for tier in TIERS {
        let bench = Bench::new();
        let block = bench.block(tier);
        bench.drive(tier).flip(0, block.place.offset + 4095);
        let found = bench.audit();
        assert!(
            matches!(found, AuditError::BlockUnreadable { at, expected, found: Some(other) }
                if at == block.at && expected == block.crc24 && other != expected),
            "{found}"
        );
    }
}

#[test]
fn a_mapped_place_without_its_bit() {
    for tier in TIERS {
        let bench = Bench::new();
        let Reference { at, place, .. } = bench.block(tier);
        bench.engine.shared.units.bury(at.ppa, Lsn::MAX);
        let bit = place.bit;
        assert_eq!(bench.audit(), AuditError::LiveBitClear { at, bit });
    }
}

#[test]
fn a_place_referred_to_twice() {
    let bench = Bench::new();
    let block = bench.block(Tier::Dense);
    bench.put(block, bench.hole(), block.at.ppa, block.crc24);
    let found = bench.audit();
    assert!(
        matches!(found, AuditError::PlaceShared { at, other } if at.ppa == other.ppa),
        "{found}"
    );
}

#[test]
fn a_fast_place_that_overlaps_another() {
    let bench = Bench::new();
    let block = bench.block(Tier::Fast);
    let next = Ppa::fast(block.at.ppa.sectors_below_reserved() + 1);
    bench.put(block, bench.hole(), next, 0);
    let found = bench.audit();
    assert!(
        matches!(found, AuditError::PlaceShared { at, .. } if at == block.at),
        "{found}"
    );
}

#[test]
fn a_place_beyond_the_pool() {
    let bench = Bench::new();
    let block = bench.block(Tier::Dense);
    let (lba, ppa) = (bench.hole(), Ppa::dense(bench.pool.geometry.dense_blocks()));
    bench.put(block, lba, ppa, 0);
    let volume = block.at.volume;
    let expected = AuditError::NoSuchPlace { volume, lba, ppa };
    assert_eq!(bench.audit(), expected);
}

#[test]
fn a_mapped_place_in_a_unit_not_in_use() {
    for state in [UnitState::Free, UnitState::Emptied, UnitState::Retired] {
        let bench = Bench::new();
        let at = bench.block(Tier::Dense).at;
        bench.restore(at.unit, |unit| unit.state = state);
        let Err(found) = bench.snapshot.check_places(&bench.engine.shared) else {
            panic!("{state:?} is in use");
        };
        assert_eq!(found, AuditError::PlaceNotInUse { at, state });
    }
}

#[test]
fn a_mapped_place_beyond_the_write_pointer() {
    for tier in TIERS {
        let bench = Bench::new();
        let at = bench.block(tier).at;
        bench.restore(at.unit, |unit| unit.write_pointer = 1);
        let Err(found) = bench.snapshot.check_places(&bench.engine.shared) else {
            panic!("one sector holds no block");
        };
        assert!(
            matches!(found, AuditError::PlaceBeyondPointer { at: found, write_pointer: 1, .. }
                if found.unit == at.unit),
            "{found}"
        );
    }
}

#[test]
fn a_reference_older_than_its_unit() {
    let bench = Bench::new();
    let at = bench.block(Tier::Dense).at;
    bench.restore(at.unit, |unit| unit.stamp = Lsn::MAX);
    let found = bench.audit();
    assert!(
        matches!(found, AuditError::ReferenceOlderThanStamp { at: found, stamp: Lsn::MAX, .. }
            if found == at),
        "{found}"
    );
}

#[test]
fn a_p2l_that_cannot_be_read_or_names_another_block() {
    let bench = Bench::new();
    let block = bench.block(Tier::Dense);
    let stripe = block.place.bit / 64;
    let area = block.place.offset + u64::from(63 - block.place.bit % 64) * BLOCK as u64;
    bench.pool.dense.flip(0, area + 40);
    let found = bench.audit();
    let (at, unit) = (block.at, block.at.unit);
    assert_eq!(found, AuditError::P2lUnreadable { unit, stripe, at });

    let bench = Bench::new();
    let (block, hole) = (bench.block(Tier::Dense), bench.hole());
    let gone = Change::Discard {
        count: 1,
        zero: false,
    };
    bench.change(block.at, block.at.lba, gone);
    bench.put(block, hole, block.at.ppa, block.crc24);
    let found = bench.audit();
    assert!(
        matches!(found, AuditError::P2lDisagrees { at, found, .. }
            if at.lba == hole && found.lba == block.at.lba),
        "{found}"
    );
}

#[test]
fn a_block_in_the_p2l_area() {
    let bench = Bench::new();
    let block = bench.block(Tier::Dense);
    let distance = u64::from(63 - block.place.bit % 64);
    let ppa = Ppa::dense(block.at.ppa.bits() + distance);
    let offset = block.place.offset + distance * BLOCK as u64;
    let content = bench.pool.dense.peek(offset, BLOCK);
    let crc = crc24(block_crc(BlockRef::Bytes(&content)));
    bench.engine.shared.units.append(ppa);
    bench.put(block, bench.hole(), ppa, crc);
    let found = bench.audit();
    assert!(
        matches!(found, AuditError::PlaceInP2lArea { at, .. } if at.ppa == ppa),
        "{found}"
    );
}

#[test]
fn a_bound_that_is_not_the_maps() {
    let bench = Bench::new();
    let shared = &bench.engine.shared;
    let (expected, leaves) = (shared.used_upper(), shared.leaves());
    let others: u64 = super::shards(shared).unwrap()[1..]
        .iter()
        .map(|shard| shard.map.borrow().used_upper())
        .sum();
    shared.set_used(crate::shared::FIRST, expected - others + 1, leaves);
    let found = expected + 1;
    let wrong = AuditError::UsedShownWrong { expected, found };
    assert_eq!(bench.audit(), wrong);
}

#[test]
fn a_count_that_is_not_the_bits() {
    let bench = Bench::new();
    let unit = bench.block(Tier::Dense).at.unit;
    let now = bench.engine.shared.units.unit(unit);
    let expected = now.live();
    now.miscount();
    let found = expected + 1;
    let wrong = AuditError::LiveCountWrong {
        unit,
        expected,
        found,
    };
    assert_eq!(bench.audit(), wrong);
}

#[test]
fn a_free_unit_with_something_in_it() {
    let bench = Bench::new();
    let unit = bench.free_unit();
    bench.restore(unit, |free| free.write_pointer = 7);
    let expected = AuditError::FreeUnitNotEmpty {
        unit,
        live: 0,
        leaves: 0,
        write_pointer: 7,
    };
    assert_eq!(bench.audit(), expected);
}

#[test]
fn lists_that_are_not_the_states() {
    let bench = Bench::new();
    let (unit, state) = (bench.free_unit(), UnitState::Free);
    bench.engine.shared.control().add_free(unit);
    assert_eq!(bench.audit(), AuditError::ListedTwice { unit, state });

    let bench = Bench::new();
    let unit = bench.block(Tier::Dense).at.unit;
    bench.engine.shared.control().add_free(unit);
    let (expected, found) = (UnitState::Free, UnitState::Closed);
    let wrong = AuditError::ListedInState {
        unit,
        expected,
        found,
    };
    assert_eq!(bench.audit(), wrong);

    let bench = Bench::new();
    let (unit, state) = (bench.free_unit(), UnitState::Open);
    let control = bench.engine.shared.control();
    let shared = &bench.engine.shared;
    control
        .grant_chunk(shared, FIRST, (crate::lane::Rank::Ordinary, None))
        .unwrap();
    assert_eq!(bench.audit(), AuditError::ListedNowhere { unit, state });
}

#[test]
fn a_leaf_counted_where_it_is_not() {
    let bench = Bench::new();
    let unit = bench.block(Tier::Fast).at.unit;
    let now = bench.engine.shared.units.unit(unit);
    let expected = now.leaves();
    now.leaf_added();
    let found = expected + 1;
    let wrong = AuditError::LeafCountWrong {
        unit,
        expected,
        found,
    };
    assert_eq!(bench.audit(), wrong);
}

#[test]
fn a_leaf_that_is_spoilt_or_lies_nowhere() {
    let bench = Bench::new();
    let (key, base) = bench.leaf();
    bench.pool.fast.flip(0, base.sector * SECTOR_BYTES + 4600);
    let found = bench.audit();
    assert!(
        matches!(found, AuditError::LeafUnreadable { leaf, sector, found: Some(_), .. }
            if leaf == key.leaf && sector == base.sector),
        "{found}"
    );

    let bench = Bench::new();
    let (_, base) = bench.leaf();
    let unit = UnitId::chunk(bench.pool.geometry.chunk_of(base.sector));
    bench.restore(unit, |chunk| chunk.write_pointer = 8);
    let found = bench.audit();
    assert!(
        matches!(found, AuditError::LeafBeyondPointer { unit: found, write_pointer: 8, .. }
            if found == unit),
        "{found}"
    );
    bench.restore(unit, |chunk| chunk.state = UnitState::Retired);
    let found = bench.audit();
    assert!(
        matches!(found, AuditError::LeafNotInUse { unit: found, state: UnitState::Retired, .. }
            if found == unit),
        "{found}"
    );
}

#[test]
fn a_checkpoint_part_that_a_start_would_not_find() {
    let bench = Bench::new();
    let control = bench.engine.shared.control();
    let part = control.parts.borrow()[0];
    bench.pool.fast.flip(0, part.sector * SECTOR_BYTES);
    let found = bench.audit();
    assert!(
        matches!(found, AuditError::PartUnreadable { sector, .. } if sector == part.sector),
        "{found}"
    );

    let unit = bench.free_unit();
    let sector = bench.pool.geometry.chunk_start(unit.index);
    control
        .parts
        .borrow_mut()
        .push(PartPlace { sector, ..part });
    let expected = AuditError::PartNotInUse {
        checkpoint: part.checkpoint,
        sector,
        unit,
        state: UnitState::Free,
    };
    assert_eq!(bench.audit(), expected);
}

#[test]
fn a_leaf_that_does_not_exist_has_no_state() {
    let bench = Bench::new();
    let shard = &bench.engine.shared.shard();
    let (mut key, _) = bench.leaf();
    key.leaf = LeafIndex(1 << 30);
    assert!(shard.map.borrow().survey(key, None).is_err());
}
