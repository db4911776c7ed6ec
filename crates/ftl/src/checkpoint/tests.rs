//! What the rest of the engine does while a checkpoint is being taken.

use super::settle;
use crate::common::{Pool, VOLUME_BLOCKS};
use crate::engine::Engine;
use crate::geometry::{Tier, UnitId};
use crate::units::UnitState;
use std::rc::Rc;
use std::vec::Vec;
use varve_format::{PartKind, PartPayload};
use varve_io::{Supply, World};
use varve_units::{Lba, SECTOR_BYTES, SliceId, VolumeId};

/// The cleaner must not empty a chunk with parts of a checkpoint that is being taken: nothing frees
/// it before they leave the window, and as room to come it would keep others from being emptied.
#[test]
fn a_chunk_with_parts_of_the_running_checkpoint_is_no_victim() {
    let pool = Pool::new(17, 1, 1);
    let engine = pool.create();
    let mut host = pool.host(&engine, 1);
    pool.executor.block_on(async move { host.run(60).await });
    pool.executor.drain();
    let shared = Rc::clone(&engine.shared);
    let number = shared.control().checkpoint.get() + 1;
    let payload = PartPayload::new(&[7; 64], Supply::default());
    let part = shared.append_part(number, PartKind::SliceDelta, SliceId(0), 0, payload);
    let settled = pool
        .executor
        .block_on(async move { settle([part].into()).await });
    let sector = settled.expect("a running engine")[0].sector;
    let chunk = UnitId::chunk(shared.units.geometry().chunk_of(sector));
    let shard = shared.shard();
    assert_eq!(shard.lane.borrow().open_chunk(), Some(chunk.index));
    shard.lane.borrow_mut().close_chunk();
    shard.hand_back_closed();
    assert_eq!(shared.control().checkpoint.get() + 1, number);
    assert!(!shared.can_empty(chunk), "parts of a running checkpoint");
    // Checkpoints without that part commit, in other chunks, until none of the window lies here.
    for _ in 0..=shared.config.window {
        let inner: Rc<Engine> = Rc::clone(&engine);
        let taken = pool
            .executor
            .block_on(async move { inner.shared.take_checkpoint().await });
        taken.expect("a checkpoint");
    }
    // The cleaner may have it in hand by now.
    let holds_parts = shared.control().holds_parts(chunk.index);
    assert!(!holds_parts, "no part that a start would read");
}

/// A chunk that a repair keeps is called free by the first checkpoint that would have freed it, and by every later one:
/// a start gets it back, and does not look for a header of the stamp that its use ended with.
#[test]
fn a_chunk_that_a_repair_keeps_comes_back() {
    let pool = Pool::new(17, 1, 1);
    let engine = pool.create();
    let mut host = pool.host(&engine, 1);
    pool.executor.block_on(async move { host.run(200).await });
    let inner = Rc::clone(&engine);
    let discarded = pool
        .executor
        .block_on(async move { inner.discard(VolumeId(1), Lba(0), VOLUME_BLOCKS).await });
    discarded.expect("a running engine");
    pool.executor.drain();
    let shared = Rc::clone(&engine.shared);
    let is_bare = |id: &UnitId| shared.can_empty(*id) && shared.units.unit(*id).leaves() == 0;
    let chunk = shared
        .units
        .ids(Tier::Fast)
        .find(|id| is_bare(id) && shared.is_bare(*id))
        .expect("a chunk that holds nothing");
    let unit = shared.units.unit(chunk);
    let generation = unit.generation();
    assert!(unit.try_pin(generation));
    shared.control().emptied(&shared, chunk);
    for _ in 0..3 {
        let inner: Rc<Engine> = Rc::clone(&engine);
        let taken = pool
            .executor
            .block_on(async move { inner.shared.take_checkpoint().await });
        taken.expect("a checkpoint");
        assert_eq!(
            (unit.state(), unit.generation()),
            (UnitState::Emptied, generation)
        );
    }
    drop((engine, shared));
    pool.executor.drain();
    let again = pool.open(2);
    let unit = again.shared.units.unit(chunk);
    assert_ne!(
        unit.generation(),
        generation,
        "what was read there before is gone"
    );
    assert_eq!((unit.live(), unit.leaves()), (0, 0), "{:?}", unit.state());
}

/// Units that were emptied are free in the turn in which a commit that calls them so is flushed, not before: a start
/// would take them for what they were, and find something else there.
#[test]
fn nothing_is_free_before_its_commit_is_durable() {
    for seed in 1..=4 {
        let pool = Pool::new(seed, 1, 1);
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let shared = Rc::clone(&engine.shared);
        let (control, units) = (shared.control(), &shared.units);
        let ids: Vec<UnitId> = [Tier::Fast, Tier::Dense]
            .into_iter()
            .flat_map(|tier| units.ids(tier))
            .collect();
        let look = || -> Vec<UnitState> {
            let states = ids.iter().map(|id| units.unit(*id).state());
            states.collect()
        };
        let world = Rc::clone(&pool.executor) as Rc<dyn World>;
        let mut running = world.run(async move { host.run(600).await });
        let (mut before, mut number, mut freed) = (look(), control.checkpoint.get(), 0);
        while running.try_take().is_none() {
            assert!(pool.executor.turn(), "seed {seed}: hosts wait for nothing");
            let (now, newest) = (look(), control.checkpoint.get());
            let pairs = before.iter().zip(&now);
            let is_freed = |(before, now): &(&UnitState, &UnitState)| {
                (**before, **now) == (UnitState::Emptied, UnitState::Free)
            };
            let count = pairs.filter(is_freed).count();
            if count > 0 {
                assert!(newest > number, "seed {seed}: free without a commit");
                let commit = control.commit.get().expect("it was committed");
                let is_durable = !pool.fast.is_unflushed(commit.sector * SECTOR_BYTES);
                assert!(is_durable, "seed {seed}: free before it is flushed");
            }
            freed += count;
            (before, number) = (now, newest);
        }
        assert!(freed > 10, "seed {seed}: {freed} units");
    }
}

/// Lane 0 opens no chunk from a commit's sealing until it is flushed: else a chunk of another name would be its newest.
#[test]
fn a_commit_holds_lane_0_until_it_is_durable() {
    for seed in 1..=4 {
        let pool = Pool::new(seed, 1, 1);
        let engine = pool.create();
        let mut host = pool.host(&engine, 1);
        let shared = Rc::clone(&engine.shared);
        let (control, shard) = (shared.control(), shared.shard());
        let world = Rc::clone(&pool.executor) as Rc<dyn World>;
        let mut running = world.run(async move { host.run(600).await });
        let (mut number, mut released) = (control.checkpoint.get(), 0);
        while running.try_take().is_none() {
            let was_held = shard.lane.borrow().holds();
            assert!(pool.executor.turn(), "seed {seed}: hosts wait for nothing");
            if was_held && !shard.lane.borrow().holds() {
                assert!(control.checkpoint.get() > number, "seed {seed}: too early");
                let commit = control.commit.get().expect("it was committed");
                assert!(!pool.fast.is_unflushed(commit.sector * SECTOR_BYTES));
                number = control.checkpoint.get();
                released += 1;
            }
        }
        assert!(released > 5, "seed {seed}: {released} commits");
    }
}
