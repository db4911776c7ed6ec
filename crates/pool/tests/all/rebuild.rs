//! Pools whose fast drives are gone.
//!
//! Story: a pool is filled, both fast drives go, and with new ones in their place the dense drives alone say what there
//! was. Until the labels say so nothing has changed for the old fast drives, should they come back.

use crate::common::ram::{Ram, RamDrive};
use crate::common::rig::{MIB, Rig, attach, dense_drive, fast_drive, open, run, settings};
use crate::common::{POOL, TestWorld, as_world};
use std::collections::BTreeMap;
use std::rc::Rc;
use varve_format::Name;
use varve_ftl::Draft;
use varve_io::{Blocks, Drive};
use varve_pool::label::{CreateError, ImportError, LabelStore, MemberId, MemberState};
use varve_pool::{Pool, PoolError, RebuildMap, Rebuilt};
use varve_units::{Lba, TenantId, VolumeId};

/// A pool that was used and is not in use any more, and what its blocks on the dense tier hold.
struct Past {
    rig: Rig,
    dense: BTreeMap<u64, u8>,
}

fn past(seed: u64) -> Past {
    let rig = Rig::new(3, seed);
    rig.write(seed, 900);
    let pool = Rc::clone(&rig.pool);
    let found = run(&rig.world, async move {
        pool.engine().blocks_on_dense().await.unwrap()
    });
    let content = rig.content.borrow().clone();
    let dense = found
        .iter()
        .map(|(_, lba)| (lba.0, content[&lba.0]))
        .collect();
    let pool = Rc::clone(&rig.pool);
    run(&rig.world, async move { pool.close(false).await.unwrap() });
    rig.world.drain();
    Past { rig, dense }
}

fn draft(id: VolumeId, end: varve_units::Blocks) -> Draft {
    Draft {
        name: Name::new(&format!("volume-{}", id.0)).unwrap(),
        size: end,
        tenant: TenantId(0),
        uuid: [9; 16],
        nguid: [9; 16],
    }
}

async fn rebuild(
    world: Rc<TestWorld>,
    drives: Vec<Rc<dyn Drive>>,
    fast: Vec<Rc<dyn Drive>>,
    force: bool,
) -> Result<Rebuilt, PoolError> {
    let wanted = RebuildMap {
        id: POOL,
        drives: &drives,
        fast: &fast,
        force,
        draft: &draft,
        progress: &|_| (),
    };
    Pool::rebuild(as_world(&world), wanted, settings(false)).await
}

impl Past {
    /// The rebuild from these drives onto these fast ones.
    fn rebuild(
        &self,
        drives: &[Rc<Ram>],
        fast: &[Rc<Ram>],
        force: bool,
    ) -> Result<Rebuilt, PoolError> {
        let world = &self.rig.world;
        let (drives, fast) = (attach(world, drives), attach(world, fast));
        let rebuilt = run(world, rebuild(Rc::clone(world), drives, fast, force));
        world.drain();
        rebuilt
    }

    fn dense_drives(&self) -> &[Rc<Ram>] {
        &self.rig.drives[2..]
    }

    /// Opens the pool, of which everything on the dense tier has to be there.
    fn check(&self, drives: &[Rc<Ram>]) -> Pool {
        let pool = open(&self.rig.world, drives, false).unwrap();
        let (pool, expected) = (Rc::new(pool), self.dense.clone());
        let (inner, volume) = (Rc::clone(&pool), self.rig.volume);
        run(&self.rig.world, async move {
            for (lba, byte) in expected {
                let block = inner
                    .engine()
                    .read(volume, Lba(lba), Blocks::zeroed(1))
                    .await;
                let block = block.unwrap();
                assert!(
                    block.bytes().iter().all(|found| *found == byte),
                    "block {lba}"
                );
            }
            inner.engine().audit().await.unwrap();
        });
        Rc::into_inner(pool).expect("nobody else has it")
    }
}

fn close(world: &Rc<TestWorld>, pool: Pool) {
    run(world, async move { pool.close(false).await.unwrap() });
    world.drain();
}

#[test]
fn without_its_fast_drives_a_pool_is_made_from_the_dense_ones() {
    for away in [None, Some(0), Some(2)] {
        let past = past(3);
        assert!(past.dense.len() > 100, "{}", past.dense.len());
        let mut left = past.dense_drives().to_vec();
        if let Some(away) = away {
            left.remove(away);
        }
        let fast = [fast_drive(), fast_drive()];
        let rebuilt = past.rebuild(&left, &fast, false).unwrap();
        assert_eq!(rebuilt.fast, [MemberId(5), MemberId(6)]);
        let gone: Vec<_> = away
            .map(|away| MemberId(away as u32 + 2))
            .into_iter()
            .collect();
        assert_eq!(rebuilt.away, gone);
        let [found] = rebuilt.report.volumes[..] else {
            panic!("one volume, {:?}", rebuilt.report);
        };
        assert_eq!((found.id, found.lost), (past.rig.volume, 0));
        assert!(found.mapped >= past.dense.len() as u64);
        // The old fast drives, and the dense one, come back too late.
        let all: Vec<_> = fast.iter().chain(&past.rig.drives).cloned().collect();
        let pool = past.check(&all);
        let state = pool.membership().state();
        let row = |id| state.members.get(MemberId(id)).unwrap().state;
        assert_eq!(
            (row(0), row(1)),
            (MemberState::Removed, MemberState::Removed)
        );
        assert_eq!((row(5), row(6)), (MemberState::Active, MemberState::Active));
        if let Some(away) = away {
            assert_eq!(row(away as u32 + 2), MemberState::Lost);
        }
        let [volume] = &pool.engine().volumes()[..] else {
            panic!("one volume");
        };
        assert_eq!(volume.name.as_str(), "volume-1");
        assert_eq!(pool.recovery().checkpoint, 1);
        close(&past.rig.world, pool);
        let old = open(&past.rig.world, &past.rig.drives, true);
        // Dense labels are of the new pool: its fast drives are missing.
        let is_refused = matches!(old, Err(PoolError::Import(ImportError::NoFast { .. })));
        assert!(is_refused, "{:?}", old.map(|_| ()));
    }
}

/// What a start can read is not given up for less, unless that is wanted.
#[test]
fn a_pool_that_can_be_opened_is_not_rebuilt() {
    let past = past(4);
    let fast = [fast_drive(), fast_drive()];
    let whole = past.rebuild(&past.rig.drives, &fast, false);
    let is_whole = matches!(whole, Err(PoolError::MapWhole { with_loss: false }));
    assert!(is_whole, "{whole:?}");
    // One of the mirror suffices, and dense drives that are away are another matter.
    let whole = past.rebuild(&past.rig.drives[1..], &fast, false);
    assert!(
        matches!(whole, Err(PoolError::MapWhole { .. })),
        "{whole:?}"
    );
    past.rebuild(&past.rig.drives, &fast, true).unwrap();
    let all: Vec<_> = fast.iter().chain(past.dense_drives()).cloned().collect();
    past.check(&all);
}

/// Its own fast drives, whose checkpoint nobody can read, serve as new ones.
#[test]
fn its_own_fast_drives_are_written_over() {
    let past = past(5);
    let fast = past.rig.drives[..2].to_vec();
    for drive in &fast {
        drive.spoil(MIB..20 * MIB);
    }
    assert!(open(&past.rig.world, &past.rig.drives, false).is_err());
    past.rebuild(&past.rig.drives, &fast, false).unwrap();
    past.check(&past.rig.drives);
}

/// Cut short after any step, the pool is what it was or what it is to be; the same again makes it.
#[test]
fn a_rebuild_that_is_cut_short_changes_nothing_or_all() {
    let (mut before, mut behind) = (0, 0);
    let steps = [1, 1000, 4000, 6000, 7000];
    let steps = steps.into_iter().chain((8000..12_000).step_by(500));
    for limit in steps {
        let mut past = past(6);
        let fast = [fast_drive(), fast_drive()];
        let content = |past: &Past| -> Vec<Vec<u8>> {
            let drives = past.dense_drives().iter();
            drives
                .map(|drive| drive.content(0, 8 * MIB as usize))
                .collect()
        };
        let held = content(&past);
        let world = &past.rig.world;
        let (drives, new) = (attach(world, past.dense_drives()), attach(world, &fast));
        let flow = rebuild(Rc::clone(world), drives, new, false);
        let is_over = world.run(limit, flow).is_some();
        past.rig.world.clear();
        past.rig.world = TestWorld::new(limit);
        assert!(held == content(&past), "the dense tier after {limit} steps");
        if !is_over && open(&past.rig.world, &past.rig.drives, false).is_ok() {
            before += 1;
        } else {
            behind += 1;
        }
        past.rig.world.clear();
        past.rig.world = TestWorld::new(limit + 1);
        let again = past.rebuild(past.dense_drives(), &fast, false);
        again.unwrap();
        let all: Vec<_> = fast.iter().chain(past.dense_drives()).cloned().collect();
        past.check(&all);
    }
    assert!(before > 3 && behind > 1, "{before} {behind}");
}

#[test]
fn fast_drives_that_do_not_fit_are_refused() {
    let past = past(7);
    let dense = past.dense_drives();
    let one = past.rebuild(dense, &[fast_drive()], false);
    let is_count = matches!(
        one,
        Err(PoolError::FastCount {
            wanted: 2,
            given: 1
        })
    );
    assert!(is_count, "{one:?}");
    let small = past.rebuild(dense, &[fast_drive(), dense_drive()], false);
    let is_small = matches!(small, Err(PoolError::FastUnfit { drive: 1, .. }));
    assert!(is_small, "{small:?}");
    let coarse = past.rebuild(dense, &[Ram::new(20 * MIB, 4096), fast_drive()], false);
    let is_coarse = matches!(coarse, Err(PoolError::FastUnfit { drive: 0, .. }));
    assert!(is_coarse, "{coarse:?}");
    // A dense drive of the pool is no fast one, however large.
    let taken = past.rebuild(&dense[1..], &[fast_drive(), Rc::clone(&dense[0])], false);
    assert!(taken.is_err(), "{taken:?}");
    // More are away than parity bears.
    let few = past.rebuild(&dense[1..2], &[fast_drive(), fast_drive()], false);
    let is_few = matches!(few, Err(PoolError::DenseMissing { away: 2 }));
    assert!(is_few, "{few:?}");
    let fast = [fast_drive(), fast_drive()];
    past.rebuild(dense, &fast, false).unwrap();
}

/// Drives of another pool are neither read from nor written to.
#[test]
fn drives_of_another_pool_are_no_part_of_it() {
    let past = past(9);
    let world = &past.rig.world;
    let foreign = fast_drive();
    let copy = RamDrive::attach(world, &foreign);
    let source = RamDrive::attach(world, &past.rig.drives[0]);
    run(world, async move {
        let mut label = LabelStore::open(source).await.label().unwrap();
        label.state.pool.0[0] ^= 1;
        LabelStore::open(copy).await.write(&label).await.unwrap();
    });
    let taken = past.rebuild(past.dense_drives(), &[fast_drive(), foreign], false);
    let is_taken = matches!(
        taken,
        Err(PoolError::Create(CreateError::NotBlank { drive: 1 }))
    );
    assert!(is_taken, "{taken:?}");
}
