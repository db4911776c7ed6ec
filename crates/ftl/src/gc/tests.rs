//! What the P2L of a stripe is taken from.

use crate::common::Pool;
use crate::engine::Engine;
use crate::geometry::{Tier, UnitId};
use crate::units::{UnitRestore, UnitState};
use crate::ways::Ways;
use std::rc::Rc;
use std::vec::Vec;
use varve_format::P2lEntry;

/// A pool at rest, and a closed group of it.
fn rig(p2l_copies: u32) -> (Pool, Rc<Engine>, UnitId) {
    let pool = Pool::new(7, p2l_copies, 2);
    let engine = pool.create();
    let mut host = pool.host(&engine, 1);
    pool.executor.block_on(async move { host.run(600).await });
    pool.executor.drain();
    let units = &engine.shared.units;
    let mut groups = units.ids(Tier::Dense);
    let closed = groups.find(|id| units.unit(*id).state() == UnitState::Closed);
    let closed = closed.expect("a closed group");
    (pool, engine, closed)
}

fn read(pool: &Pool, engine: &Rc<Engine>, group: UnitId) -> Result<Vec<P2lEntry>, Ways> {
    let inner = Rc::clone(engine);
    let read = async move { inner.shared.read_p2l(group.index, 0).await };
    pool.executor.block_on(read)
}

/// The only way to read is given up, and another one comes with that, as of a drive that is kept while another takes its
/// place: it is asked, in the same try or in the next.
#[test]
fn a_way_that_comes_meanwhile_is_asked() {
    for p2l_copies in [1, 2] {
        for late in 1..=4 {
            let (pool, engine, group) = rig(p2l_copies);
            let expected = read(&pool, &engine, group).expect("a P2L");
            pool.dense.lost.set(Some(0));
            pool.dense.lost_alone.set(late);
            let found = read(&pool, &engine, group);
            let is_late = late >= 3 && p2l_copies == 1;
            assert_eq!(found.is_err(), is_late, "{late} reads of {p2l_copies}");
            assert!(found.is_err() || found.ok() == Some(expected));
        }
    }
}

/// In a group that a start went on with a drive that is away may hold what was written there last: nothing else is taken
/// for it. One that was given up is not waited for.
#[test]
fn a_copy_that_is_away_may_be_newer() {
    let (pool, engine, group) = rig(1);
    let expected = read(&pool, &engine, group).expect("a P2L");
    let unit = engine.shared.units.unit(group);
    let restore = UnitRestore {
        state: unit.state(),
        generation: unit.generation(),
        stamp: unit.stamp(),
        write_pointer: unit.write_pointer(),
        is_resumed: true,
    };
    engine.shared.units.restore(group, &restore);
    for copy in [0, 1] {
        pool.dense.away.set(Some(copy));
        let ways = read(&pool, &engine, group).expect_err("it may be another one");
        assert!(!ways.is_lost());
        pool.dense.away.set(None);
        assert!(read(&pool, &engine, group).ok() == Some(expected.clone()));
        pool.dense.lost.set(Some(copy));
        assert!(read(&pool, &engine, group).ok() == Some(expected.clone()));
        pool.dense.lost.set(None);
    }
}

/// What an earlier use of a group left of a P2L is intact, and names blocks that have moved since: it is not believed.
#[test]
fn a_p2l_of_an_earlier_use_is_not_believed() {
    let (pool, engine, group) = rig(1);
    read(&pool, &engine, group).expect("a P2L");
    let unit = engine.shared.units.unit(group);
    for is_resumed in [false, true] {
        let restore = UnitRestore {
            state: unit.state(),
            generation: unit.generation().next(),
            stamp: unit.stamp(),
            write_pointer: unit.write_pointer(),
            is_resumed,
        };
        engine.shared.units.restore(group, &restore);
        let ways = read(&pool, &engine, group).err();
        assert!(ways.is_some_and(Ways::is_lost), "it is of another use");
    }
}
