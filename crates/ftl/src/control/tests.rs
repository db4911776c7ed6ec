//! Units in states that only drives bring about which lose more than redundancy promises.

use crate::common::{Pool, VOLUME_BLOCKS};
use crate::geometry::Tier;
use crate::units::UnitState;
use alloc::vec::Vec;

/// Every unit that holds something could not be emptied. When hosts have deallocated all of it the units are used
/// again: without them there is no room for what is written next.
#[test]
fn a_stuck_unit_is_emptied_when_all_in_it_has_died() {
    let pool = Pool::new(31, 1, 1);
    let engine = pool.create();
    let mut host = pool.host(&engine, 1);
    let mut host = pool.executor.block_on(async move {
        host.run(900).await;
        host
    });
    pool.executor.drain();
    let (units, control) = (&engine.shared.units, engine.shared.control());
    let is_full = |id: &_| {
        let unit = units.unit(*id);
        unit.state() == UnitState::Closed && unit.live() > 0
    };
    let all = units.ids(Tier::Fast).chain(units.ids(Tier::Dense));
    let stuck: Vec<_> = all.filter(is_full).collect();
    assert!(stuck.len() > 3, "{} of 31 units", stuck.len());
    for unit in &stuck {
        control.set_stuck(*unit);
        assert!(control.is_stuck(&engine.shared, *unit));
    }
    let host = pool.executor.block_on(async move {
        for from in (0..VOLUME_BLOCKS).step_by(512) {
            host.discard(from, 512.min(VOLUME_BLOCKS - from)).await;
        }
        host.run(2500).await;
        host
    });
    pool.executor.drain();
    let is_free = |unit: &&_| !control.is_stuck(&engine.shared, **unit);
    let freed = stuck.iter().filter(is_free).count();
    assert!(freed > stuck.len() / 2, "{freed} of {}", stuck.len());
    let verified = pool.executor.block_on(async move { host.verify().await });
    verified.expect("every block is there");
}
