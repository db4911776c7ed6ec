//! Drives that are replaced, rot or are gone, and what commands do about it.

use super::*;

#[test]
fn a_drive_that_was_replaced_is_free_and_a_rotten_one_is_found() {
    let place = Place::new();
    place.tank();
    place.ok(&["volume", "create", "tank/v", "10M"]);
    place.ok(&["drive", "replace", "tank/dense1", "n1:128M", "--give-up"]);
    let other = [
        "pool", "create", "other", "--fast", "o:64M", "--dense", "d1",
    ];
    place.refused(4, "--overwrite", &other);
    place.ok(&[&other[..], &["--overwrite"]].concat());
    assert!(place.ok(&["pool", "list"]).contains("other"));
    // Every part of the newest checkpoint lies on both fast drives: rot one of them.
    let path = place.0.join("f1");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1 << 20..]
        .iter_mut()
        .step_by(512)
        .for_each(|byte| *byte ^= 1);
    std::fs::write(&path, bytes).unwrap();
    let check = place.run(&["check", "tank", "--json"]);
    let found: Value = serde_json::from_str(&check.out).unwrap();
    // The start has written a whole checkpoint anew on both; what it needed was on the other drive.
    assert_eq!(found["broken"], Value::Null, "{found}");
    assert_eq!(found["lost_blocks"], 0);
    assert_eq!(check.code, i32::from(found["agrees"] == false), "{found}");
    assert_eq!(
        place.json(&["volume", "list", "tank"])["volumes"][0]["volume"],
        "v"
    );
}

#[test]
fn a_lost_drive_is_replaced_by_commands() {
    let place = Place::new();
    place.tank();
    place.ok(&["volume", "create", "tank/v", "10M"]);
    std::fs::remove_file(place.0.join("d1")).unwrap();
    place.refused(4, "--degraded", &["volume", "list"]);
    let status = place.run(&["pool", "status", "tank", "--check"]);
    assert_eq!(status.code, 6, "{status:?}");
    assert_eq!(
        place.json(&["pool", "status", "tank"])["health"],
        "degraded"
    );
    let replaced = place.json(&["drive", "replace", "tank/dense1", "n1:128M", "--give-up"]);
    assert_eq!(
        (&replaced["kind"], &replaced["state"]),
        (&"Job".into(), &"done".into())
    );
    let status = place.run(&["pool", "status", "tank", "--check"]);
    assert_eq!(status.code, 0, "{status:?}");
    assert!(status.out.contains("/n1"), "{status:?}");
    place.ok(&["check", "tank"]);
    let again = ["pool", "create", "other", "--fast", "o:64M", "--dense"];
    place.refused(4, "varve pool destroy", &[&again[..], &["n1"]].concat());
    // The old registry is not needed.
    std::fs::remove_file(place.0.join("state/registry.json")).unwrap();
    place.ok(&["pool", "import", "f0", "f1", "d0", "n1", "d2"]);
    assert_eq!(place.json(&["volume", "list"])["volumes"][0]["volume"], "v");
    // What the state directory holds is damaged: told, not believed.
    std::fs::write(place.0.join("state/registry.json"), "{").unwrap();
    place.refused(1, "move", &["pool", "list"]);
}

/// A check says by volume and byte what is lost, as a table and as JSON.
#[test]
fn what_is_lost_is_named() {
    let place = Place::new();
    let create = [
        "pool", "create", "p", "--fast", "f:64M", "--dense", "d:256M",
    ];
    place.ok(&[&create[..], &["--protect", "none"]].concat());
    place.ok(&["volume", "create", "p/v", "100M"]);
    // More than the fast tier holds. So short a run is no measurement, and that is told as a failure.
    let fill = "bench pool:p/v --rw write --bs 128k --size 96m --verify --runtime 1";
    let filled = place.run(&fill.split(' ').collect::<Vec<_>>());
    assert!(
        filled.out.contains("errors                       0"),
        "{filled:?}"
    );
    // Wherever blocks are alive now: that is a matter of time. Labels stay.
    let path = place.0.join("d");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8 << 20..248 << 20]
        .iter_mut()
        .step_by(64 << 10)
        .for_each(|byte| *byte ^= 1);
    std::fs::write(&path, bytes).unwrap();
    let check = place.run(&["check", "p", "--json"]);
    assert_eq!(check.code, 1, "{check:?}");
    let found: Value = serde_json::from_str(&check.out).unwrap();
    assert_eq!(found["losses"][0]["volume"], "v", "{found}");
    let (offset, blocks) = (
        &found["losses"][0]["offset_bytes"],
        &found["unreadable_blocks"],
    );
    assert!(blocks.as_u64().unwrap() > 1, "{found}");
    let check = place.run(&["check", "p"]);
    assert_eq!(check.code, 1, "{check:?}");
    let line = format!("bytes from byte {offset} on");
    assert!(check.out.contains(&line), "{check:?}");
    assert!(
        check
            .err
            .contains(&format!("{blocks} blocks cannot be read")),
        "{check:?}"
    );
    assert!(check.err.contains("next:  "), "{check:?}");
    let scrub = place.run(&["pool", "scrub", "p"]);
    assert_eq!(scrub.code, 1, "{scrub:?}");
    assert!(scrub.out.contains(&line), "{scrub:?}");
    assert!(scrub.err.contains("blocks cannot be read"), "{scrub:?}");
    assert!(scrub.err.contains("next:  write what"), "{scrub:?}");
    let scrub = place.run(&["pool", "scrub", "p", "--no-limit", "--json"]);
    assert_eq!(scrub.code, 1, "{scrub:?}");
    let job: Value = serde_json::from_str(&scrub.out).unwrap();
    assert_eq!(job["scrub"]["losses"], found["losses"], "{job}");
    assert_eq!(job["scrub"]["unreadable_blocks"], *blocks);
}

/// A drive that rots is right again after a scrub, which says so; bad options are told.
#[test]
fn a_scrub_mends_a_rotten_drive() {
    let place = Place::new();
    place.tank();
    place.ok(&["volume", "create", "tank/v", "100M"]);
    let fill = "bench pool:tank/v --rw write --bs 128k --size 96m --verify --runtime 1";
    place.run(&fill.split(' ').collect::<Vec<_>>());
    let path = place.0.join("d1");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1 << 20..]
        .iter_mut()
        .step_by(40 << 10)
        .for_each(|byte| *byte ^= 1);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(place.run(&["check", "tank"]).code, 1);
    let scrub = place.ok(&["pool", "scrub", "tank", "--limit", "1GB"]);
    assert!(
        scrub.contains("were wrong and were written again"),
        "{scrub}"
    );
    assert!(scrub.contains("nothing is wrong now"), "{scrub}");
    place.ok(&["check", "tank"]);
    let job = place.json(&["pool", "scrub", "tank"]);
    assert_eq!(
        (&job["kind"], &job["does"]),
        (&"Job".into(), &"scrub".into())
    );
    assert_eq!(
        (&job["state"], &job["scrub"]["mended_copies"]),
        (&"done".into(), &0.into())
    );
    place.refused(3, "varve pool", &["pool", "scrub", "none"]);
    place.refused(2, "", &["pool", "scrub", "tank", "--limit", "fast"]);
    place.refused(2, "", &["pool", "scrub", "tank", "--limit", "1M", "--stop"]);
    let stopped = place.run(&["pool", "scrub", "tank", "--stop"]);
    assert!(stopped.err.contains("is not being scrubbed"), "{stopped:?}");
}

/// Both fast drives are gone: a map is made from the dense ones, and the pool is used again. What it was called is said
/// by whoever knows.
#[test]
fn a_pool_without_its_fast_drives_is_made_anew() {
    let place = Place::new();
    let create = "pool create p --fast f0:64M f1:64M --dense d0:128M d1:128M d2:128M";
    place.ok(&create.split(' ').collect::<Vec<_>>());
    place.ok(&["volume", "create", "p/v", "100M"]);
    let fill = "bench pool:p/v --rw write --bs 128k --size 96m --verify --runtime 1";
    let filled = place.run(&fill.split(' ').collect::<Vec<_>>());
    assert!(
        filled.out.contains("errors                       0"),
        "{filled:?}"
    );
    let rebuild = ["check", "p", "--rebuild", "--fast", "g0:64M", "g1:64M"];
    place.refused(4, "varve pool import", &rebuild);
    for name in ["f0", "f1"] {
        std::fs::remove_file(place.0.join(name)).unwrap();
    }
    place.refused(4, "--rebuild", &["check", "p"]);
    let found = place.json(&[&rebuild[..], &["--volume", "1=db:100M"]].concat());
    assert_eq!(found["kind"], "PoolRebuild", "{found}");
    assert_eq!(found["volumes"][0]["volume"], "db", "{found}");
    assert!(found["mapped_blocks"].as_u64().unwrap() > 1000, "{found}");
    let checked = place.json(&["check", "p"]);
    assert_eq!(checked["agrees"], true, "{checked}");
    let volumes = place.json(&["volume", "list", "p"]);
    assert_eq!(volumes["volumes"][0]["volume"], "db", "{volumes}");
    assert_eq!(volumes["volumes"][0]["bytes"], 100 << 20, "{volumes}");
    // Hosts find it as any other volume.
    let again = fill.replace("p/v", "p/db") + " --overwrite";
    let again = place.run(&again.split(' ').collect::<Vec<_>>());
    assert!(
        again.out.contains("errors                       0"),
        "{again:?}"
    );
    assert_eq!(place.json(&["check", "p"])["agrees"], true);
}
