//! Storage systems on a modelled zoned drive, in virtual time.

use std::rc::Rc;
use varve_lab::recovery::Watch;
use varve_lab::rig::{
    Hosts, Law, Mix, Pace, Protect, RigError, RigReport, RigRequest, SystemName, ZonedError, check,
    run,
};

const ZNS: &str = "zns-zn540";

fn request(system: SystemName, jobs: u32) -> RigRequest {
    RigRequest {
        system,
        hosts: Hosts::Mix(Mix {
            jobs,
            depth: 128,
            bytes: 4096,
            reads_per_cent: 0,
            law: Law::Uniform,
            pace: Pace::Closed,
        }),
        fast: "slc-002",
        dense: ZNS,
        over_provision: 18.0,
        fast_tier: 5.0,
        map_cache: 12.5,
        passes: 1.0,
        zipf_ranks: 1,
        cores: 2,
        scale: 8,
        requests: 200_000,
        seed: 7,
        drives: system.drives(),
        protect: Protect::None,
        groups_per_unit: 1,
        rmw_level: 1,
    }
}

fn measured(request: &RigRequest) -> RigReport {
    let watch: Watch = Rc::new(|_, _, _| ());
    run(request, &watch).unwrap_or_else(|error| panic!("{}: {error}", request.system))
}

/// Nothing is moved behind the host's back: what the flash programs is what it was sent, and it is kept
/// busy. Returns what that was for each byte of hosts.
fn programs_what_it_is_sent(system: SystemName) -> f64 {
    let request = RigRequest {
        passes: 0.5,
        requests: 100_000,
        ..request(system, 4)
    };
    let zones = measured(&request);
    let dense = zones.window.dense.unwrap();
    let device = dense.waf_device.unwrap();
    assert!((device - 1.0).abs() < 0.001, "{system}: {device}");
    let seconds = zones.window.virtual_ns as f64 / 1e9;
    let written = dense.written_bytes as f64 / 1e9 / seconds;
    assert!((0.9..1.25).contains(&written), "{system}: {written} GB/s");
    dense.written_per_host_byte.unwrap()
}

/// What it has to move it moves itself, as on a conventional drive; under uniform writes that finds its erase units
/// empty too, since bands are whole IUs and large enough that those written beside one another die beside one
/// another. With 72 bands to a group, of 33 blocks here, it programmed more than three times what it was sent.
#[test]
fn csal_programs_what_it_sends() {
    let zones = programs_what_it_is_sent(SystemName::CsalPaper);
    let conventional = RigRequest {
        dense: "qlc-002",
        passes: 0.5,
        requests: 100_000,
        ..request(SystemName::CsalPaper, 4)
    };
    let conventional = measured(&conventional).window.dense.unwrap();
    let by = zones / conventional.written_per_host_byte.unwrap();
    assert!((0.8..1.25).contains(&by), "{by}");
    let device = conventional.waf_device.unwrap();
    assert!(device < 1.03, "{device}");
}

/// A handle for each stream, bands as long as reclaim units: the drive finds its units empty.
#[test]
fn csal_has_a_handle_for_each_stream() {
    let request = RigRequest {
        dense: "fdp-pm9d3a",
        passes: 0.5,
        requests: 100_000,
        ..request(SystemName::CsalPaper, 4)
    };
    let report = measured(&request);
    let device = report.window.dense.unwrap().waf_device.unwrap();
    assert!(device < 1.05, "{device}");
    assert_eq!(report.parameters.made_of["handles"], "5");
}

/// A handle for each tenant's writers, groups as long as reclaim units: what one drive that knows of no
/// handles has to move, because streams mix in its erase units, is not there.
#[test]
fn the_engine_has_a_handle_for_each_stream() {
    for (drives, scale) in [(1, 8), (1, 5), (2, 8)] {
        let request = RigRequest {
            dense: "fdp-pm9d3a",
            drives,
            scale,
            passes: 1.0,
            requests: 100_000,
            ..request(SystemName::Varve, 4)
        };
        let report = measured(&request);
        let device = report.window.dense.unwrap().waf_device.unwrap();
        assert!(device < 1.03, "{drives} drives at {scale}: {device}");
        assert_eq!(report.parameters.made_of["handles"], "8");
    }
}

/// A group is a zone, its discard a reset.
#[test]
fn the_engine_programs_what_it_sends() {
    let moved = programs_what_it_is_sent(SystemName::Varve);
    assert!(moved > 1.5, "{moved}: groups are emptied and written again");
}

/// A group is a zone of each drive, of one more with parity: what is written beyond the data is parity
/// and nothing else.
#[test]
fn a_group_is_a_zone_of_every_drive() {
    let over = |drives, protect| {
        let request = RigRequest {
            drives,
            protect,
            passes: 0.1,
            requests: 30_000,
            ..request(SystemName::Varve, 4)
        };
        let dense = measured(&request).window.dense.unwrap();
        let device = dense.waf_device.unwrap();
        assert!((device - 1.0).abs() < 0.01, "{drives} drives: {device}");
        dense.written_per_host_byte.unwrap()
    };
    let (two, three) = (over(2, Protect::None), over(3, Protect::Parity1));
    // 2+1 strips where there were 2, on as many bytes for data.
    let by = three / two;
    assert!((by / 1.5 - 1.0).abs() < 0.05, "{by}");
}

/// The seed decides everything.
#[test]
fn two_runs_of_a_seed_are_one() {
    for system in SystemName::ALL {
        let request = RigRequest {
            passes: 0.05,
            requests: 6_000,
            ..request(system, 4)
        };
        if check(&request).is_err() {
            continue;
        }
        let one = serde_json::to_value(measured(&request)).unwrap();
        let other = serde_json::to_value(measured(&request)).unwrap();
        assert_eq!(one, other, "{system}");
    }
}

/// Who writes anywhere is refused, and says so; so is a zoned drive as the fast one.
#[test]
fn who_writes_anywhere_is_refused() {
    for system in SystemName::ALL {
        let refused = match check(&request(system, 4)) {
            Ok(()) => false,
            Err(RigError::Zoned(ZonedError::System { drive, system: of })) => {
                assert_eq!((drive, of), (ZNS, system));
                true
            }
            Err(error) => panic!("{system}: {error}"),
        };
        let writes_zones = [
            SystemName::CsalPaper,
            SystemName::DmZoned,
            SystemName::Varve,
        ];
        assert_eq!(refused, !writes_zones.contains(&system), "{system}");
    }
    let fast = RigRequest {
        fast: ZNS,
        ..request(SystemName::CsalPaper, 4)
    };
    let refused = RigError::Zoned(ZonedError::Fast(ZNS));
    assert_eq!(check(&fast).unwrap_err().to_string(), refused.to_string());
}

/// Zones that may be active are 14. CSAL has one for each tenant and one for garbage collection: 13 tenants.
/// The tenants of the engine share streams where there are too few zones.
#[test]
fn no_more_tenants_than_zones_may_be_active() {
    let watch: Watch = Rc::new(|_, _, _| ());
    let short = |system, jobs| RigRequest {
        passes: 0.0,
        requests: 4_096,
        ..request(system, jobs)
    };
    measured(&short(SystemName::CsalPaper, 13));
    let most = short(SystemName::CsalPaper, 14);
    let refused = run(&most, &watch).map(drop).unwrap_err();
    let is_active = |error: &RigError| matches!(error, RigError::Zoned(ZonedError::Active { drive: ZNS, open, active_max: 14 }) if *open > 14);
    assert!(is_active(&refused), "{refused}");
    measured(&short(SystemName::Varve, 16));
}
