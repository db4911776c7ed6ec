//! A real pool made anew from its dense drives.

use super::pool_id;
use crate::subject::{Config, Outcome, SubjectError};
use std::collections::BTreeMap;
use std::rc::Rc;
use varve_format::Name;
use varve_ftl::{Draft, RebuildError};
use varve_io::{Drive, World};
use varve_pool::{Pool, PoolError, RebuildMap, Settings};
use varve_units::{Blocks, TenantId, VolumeId};

/// Rebuilds the map on the fast ones of these drives; what it did, by feature. A pool that can be opened already needs
/// nothing; one that is full with what came back has no room.
pub(super) async fn rebuild(
    world: Rc<dyn World>,
    drives: Vec<Rc<dyn Drive>>,
    (config, settings): (Config, Settings),
    is_verbose: bool,
) -> Outcome<BTreeMap<&'static str, u64>> {
    let wanted = RebuildMap {
        id: pool_id(&config),
        drives: &drives,
        fast: &drives[..config.fast],
        force: false,
        draft: &draft,
        progress: &|_| (),
    };
    let rebuilt = Pool::rebuild(world, wanted, settings).await;
    if is_verbose {
        eprintln!("rebuild: {rebuilt:?}");
    }
    match rebuilt {
        Ok(rebuilt) => {
            let report = rebuilt.report;
            Ok(BTreeMap::from([
                ("map_rebuilt_evacuated", report.groups_evacuated),
                ("map_rebuilt_passed_over", report.passed_over),
                ("map_rebuilt_verified", report.verified),
                ("map_rebuilt_gave_way", report.gave_way),
            ]))
        }
        Err(PoolError::MapWhole { .. }) => Ok(BTreeMap::new()),
        Err(PoolError::Rebuild(
            RebuildError::NoRoom { .. }
            | RebuildError::NoGroups { .. }
            | RebuildError::TooManyLeaves { .. },
        )) => Err(SubjectError::CapacityExceeded),
        Err(_) => Err(SubjectError::Unusable),
    }
}

fn draft(id: VolumeId, end: Blocks) -> Draft {
    Draft {
        name: Name::new(&format!("volume-{}", id.0)).expect("a name"),
        size: end,
        tenant: TenantId(0),
        uuid: [7; 16],
        nguid: [7; 16],
    }
}
