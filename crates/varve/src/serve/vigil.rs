//! Tells on standard error what becomes of pools while they serve: drives that are lost and come back,
//! dense tiers that take no writes, pools that are full, pools that stop; and hosts, by NVMe, that something is wrong.

use crate::cli::typed;
use std::collections::BTreeMap;
use std::rc::Rc;
use varve_control::{Pools, Trouble};
use varve_io::World;
use varve_server::Namespaces;
use varve_units::Nanos;

/// Between two looks. Arbitrary: soon for whoever has to bring another drive, nothing beside other work.
const PAUSE: Nanos = Nanos::from_secs(1);

/// What is wrong with each open pool.
type Troubles = BTreeMap<String, Vec<Trouble>>;

/// Looks for as long as the server runs.
pub(super) async fn watch(world: Rc<dyn World>, pools: Rc<Pools>, namespaces: Rc<Namespaces>) {
    let mut before = Troubles::new();
    loop {
        let now = troubles(&pools);
        news(&before, &now)
            .iter()
            .for_each(|line| eprintln!("{line}"));
        before = now;
        namespaces.look();
        world.sleep(PAUSE).await;
    }
}

fn troubles(pools: &Pools) -> Troubles {
    let names = pools.open_names().into_iter();
    names
        .filter_map(|pool| pools.troubles(&pool).ok().map(|found| (pool, found)))
        .collect()
}

/// What is said of a change. Pools that were closed are not spoken of.
fn news(before: &Troubles, now: &Troubles) -> Vec<String> {
    let mut lines = Vec::new();
    for (pool, found) in now {
        let known = before.get(pool).map_or(&[][..], Vec::as_slice);
        for trouble in found.iter().filter(|trouble| !known.contains(trouble)) {
            lines.push(format!("warning: pool {pool}: {trouble}"));
            if let Some(next) = trouble.next(pool) {
                lines.push(format!("  next: {}", typed(&next)));
            }
        }
        for trouble in known.iter().filter(|trouble| !found.contains(trouble)) {
            lines.push(format!("pool {pool}: no longer so: {trouble}"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(drive: &str) -> Trouble {
        Trouble::Drive {
            drive: drive.to_owned(),
            path: Some(format!("/dev/{drive}").into()),
            state: "lost".to_owned(),
        }
    }

    /// Each change is told once, and nothing of pools that are as they were or were closed.
    #[test]
    fn what_changes_is_told_once() {
        let of = |found: &[Trouble]| Troubles::from([("p".to_owned(), found.to_vec())]);
        let (none, one) = (of(&[]), of(&[lost("fast1")]));
        let told = news(&none, &one);
        assert_eq!(told[0], "warning: pool p: drive fast1 (/dev/fast1) is lost");
        assert_eq!(told[1], "  next: varve drive replace p/fast1 NEW");
        assert_eq!(news(&Troubles::new(), &one), told);
        assert!(news(&one, &one).is_empty() && news(&one, &Troubles::new()).is_empty());
        let stopped = of(&[lost("fast1"), Trouble::Stopped("why".to_owned())]);
        let told = news(&one, &stopped);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("stopped") && told[0].contains("why"));
        assert_eq!(
            news(&one, &none),
            ["pool p: no longer so: drive fast1 (/dev/fast1) is lost"]
        );
        let drives = vec!["dense0".to_owned()];
        let away = of(&[Trouble::DenseAway { drives }]);
        let told = news(&none, &away);
        assert!(
            told[0].contains("takes no writes (errors of dense0)"),
            "{told:?}"
        );
        assert_eq!(told[1], "  next: varve pool status p");
        let over = news(&away, &none);
        assert!(over[0].contains("no longer so: the dense tier"), "{over:?}");
    }
}
