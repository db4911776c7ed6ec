//! Storage systems on modelled drives in virtual time.

use std::rc::Rc;
use varve_lab::recovery::Watch;
use varve_lab::rig::{
    Bursts, Hosts, Law, Mix, Pace, Rate, RigError, RigReport, RigRequest, SystemName, check, run,
};

fn mix(law: Law, bytes: u64) -> Mix {
    Mix {
        jobs: 8,
        depth: 128,
        bytes,
        reads_per_cent: 0,
        law,
        pace: Pace::Closed,
    }
}

fn request(system: SystemName, law: Law, bytes: u64) -> RigRequest {
    RigRequest {
        system,
        hosts: Hosts::Mix(mix(law, bytes)),
        fast: "slc-002",
        dense: "qlc-002",
        over_provision: 18.0,
        fast_tier: 5.0,
        map_cache: 12.5,
        passes: 1.0,
        zipf_ranks: 1,
        cores: 2,
        scale: 8,
        requests: 30_000,
        seed: 7,
        drives: system.drives(),
        protect: varve_lab::rig::Protect::None,
        groups_per_unit: 1,
        rmw_level: 1,
    }
}

/// As small as a system can be measured.
pub(super) fn tiny(system: SystemName) -> RigRequest {
    // The caches of disks take what is less, and no seed is to be seen.
    let is_of_disks = system == SystemName::HddArray;
    RigRequest {
        scale: 32,
        passes: 0.05,
        requests: if is_of_disks { 20_000 } else { 6_000 },
        ..request(system, Law::Zipf(0.9), 16 << 10)
    }
}

fn measured(request: &RigRequest) -> RigReport {
    let watch: Watch = Rc::new(|_, _, _| ());
    run(request, &watch).unwrap_or_else(|error| panic!("{}: {error}", request.system))
}

fn millions(report: &RigReport) -> f64 {
    report.window.written_per_s() as f64 / 1e6
}

/// On one processor the engine does what one has time for, by what it is charged, and on two it does more: above drives that
/// take more than that.
#[test]
fn a_processor_is_a_limit() {
    let on = |cores| {
        let request = RigRequest {
            cores,
            drives: 4,
            ..request(SystemName::Varve, Law::Uniform, 4096)
        };
        measured(&request)
    };
    let (one, two) = (on(1), on(2));
    let (slow, fast) = (millions(&one), millions(&two));
    assert!(slow < 0.9 * fast, "{slow} and {fast} MB/s");
    let dense = one.window.dense.as_ref().unwrap().written_bytes as f64 / 4096.0;
    let seconds = one.window.virtual_ns as f64 / 1e9;
    let busy = one.window.iops() as f64 * 0.77e-6 + dense / seconds * 0.81e-6;
    assert!((0.9..1.05).contains(&busy), "busy for {busy} of a second");
}

/// The seed decides everything, of every system.
#[test]
fn two_runs_of_a_seed_are_one() {
    for system in SystemName::ALL {
        let request = tiny(system);
        let one = serde_json::to_value(measured(&request)).unwrap();
        let other = serde_json::to_value(measured(&request)).unwrap();
        assert_eq!(one, other, "{system}");
        let another = RigRequest { seed: 8, ..request };
        let another = serde_json::to_value(measured(&another)).unwrap();
        assert_ne!(one["writes"], another["writes"], "{system}");
    }
}

/// What is known of drives alone: disks write what passes under their heads (and what their caches take
/// at first), a worn drive 5.7 thousand
/// pieces a second and the hundredfold of what it is given.
#[test]
fn drives_are_as_fast_as_their_sheets_say() {
    let disks = measured(&request(SystemName::HddArray, Law::Sequential, 64 << 10));
    assert!(
        (millions(&disks) / 2080.0 - 1.0).abs() < 0.06,
        "{}",
        millions(&disks)
    );
    let worn = RigRequest {
        passes: 3.0,
        scale: 1,
        requests: 10_000,
        ..request(SystemName::DropIn, Law::Uniform, 4 << 10)
    };
    let worn = measured(&worn);
    let iops = worn.window.writes.as_ref().unwrap().iops;
    assert!((5_000..6_500).contains(&iops), "{iops}");
    assert!(
        worn.window.waf_total.unwrap() > 90.0,
        "{:?}",
        worn.window.waf_total
    );
}

/// Garbage collection keeps a dense drive busy, though each of its reads takes long: one at a time they
/// left it 55 MB/s of hosts' writes.
#[test]
fn the_engine_keeps_the_dense_drive_busy() {
    let request = RigRequest {
        scale: 4,
        passes: 2.0,
        requests: 200_000,
        map_cache: 100.0,
        ..request(SystemName::Varve, Law::Uniform, 4 << 10)
    };
    let report = measured(&request);
    let dense = report.window.dense.unwrap();
    let seconds = report.window.virtual_ns as f64 / 1e9;
    let written = dense.written_bytes as f64 / 1e6 / seconds;
    assert!(written > 0.6 * 2510.0, "{written} MB a second");
    assert!(millions(&report) > 400.0, "{}", millions(&report));
}

/// With eight tenants, and leaves that change often, victims full of leaves took the log that only they
/// could free; here the engine came to a halt within seconds.
#[test]
fn victims_full_of_leaves_leave_log_for_one_another() {
    for bytes in [16 << 10, 64 << 10] {
        let request = RigRequest {
            scale: 4,
            passes: 3.0,
            map_cache: 100.0,
            ..request(SystemName::Varve, Law::Uniform, bytes)
        };
        assert!(millions(&measured(&request)) > 200.0);
    }
}

/// What several tenants write in order is moved once and stays where it is: too few chunks in the cleaner's
/// hands had stripes padded, and groups half full, so that four dense bytes were written for one.
#[test]
fn tenants_that_write_in_order_are_hardly_copied() {
    for (jobs, bytes, requests) in [(4, 1 << 20, 2048), (8, 64 << 10, 10_000)] {
        let request = RigRequest {
            hosts: Hosts::Mix(Mix {
                jobs,
                depth: 1,
                ..mix(Law::Sequential, bytes)
            }),
            passes: 0.2,
            requests,
            scale: 4,
            map_cache: 100.0,
            ..request(SystemName::Varve, Law::Sequential, bytes)
        };
        let dense = measured(&request).window.dense.unwrap();
        let by = dense.written_per_host_byte.unwrap();
        assert!(by < 1.25, "{jobs} tenants: {by} dense bytes for one");
    }
}

/// Small pools, full to the brim, of one tenant and of many: all log was with moves that waited for groups,
/// and groups with moves that waited for log.
#[test]
fn small_and_full_pools_go_on() {
    // Jobs and depth, KiB; how much smaller, fast tier and over-provisioning in per cent; passes, seed.
    let rigs = [
        ((24, 16, 4), (32, 4.0, 7.0), (0.6, 167)),
        ((2, 16, 16), (16, 2.3, 10.0), (0.6, 261)),
        ((12, 4, 4), (16, 5.0, 10.0), (0.6, 989)),
        // What was cheapest to empty did not fit what was left of the log, which was kept for leaves.
        ((4, 1, 4), (32, 3.0, 7.0), (1.0, 58)),
        // The checkpoint that freed a chunk took all of it.
        ((24, 4, 4), (32, 3.0, 7.0), (1.0, 1312)),
        // Stripes were padded while a group was on its way back, so each victim took what it gave.
        ((4, 64, 4), (24, 4.0, 7.0), (1.0, 696)),
        // Collection began another victim with what compaction waited for.
        ((4, 4, 4), (24, 3.0, 7.0), (1.0, 1592)),
        // Groups of two stripes.
        ((1, 128, 4), (32, 4.0, 7.2), (0.6, 662)),
    ];
    for ((jobs, depth, kib), (scale, fast_tier, over_provision), (passes, seed)) in rigs {
        let bytes = kib << 10;
        let report = measured(&RigRequest {
            hosts: Hosts::Mix(Mix {
                jobs,
                depth,
                ..mix(Law::Uniform, bytes)
            }),
            scale,
            fast_tier,
            over_provision,
            passes,
            seed,
            requests: 10_000,
            ..request(SystemName::Varve, Law::Uniform, bytes)
        });
        assert!(millions(&report) > 10.0, "{}", millions(&report));
    }
}

/// As many tenants as there can be, each a volume of the engine: the last one's leaves had no name, and
/// the model panicked.
#[test]
fn sixty_four_tenants_are_served() {
    let fine = request(SystemName::Varve, Law::Uniform, 4096);
    let most = RigRequest {
        hosts: Hosts::Mix(Mix {
            jobs: 64,
            depth: 8,
            ..mix(Law::Uniform, 4096)
        }),
        requests: 4096,
        passes: 0.2,
        ..fine.clone()
    };
    let report = measured(&most);
    assert!(report.window.writes.unwrap().requests >= 4096);
    let many = RigRequest {
        hosts: Hosts::Mix(Mix {
            jobs: 65,
            ..mix(Law::Uniform, 4096)
        }),
        ..most.clone()
    };
    assert!(matches!(check(&many), Err(RigError::Limits(_))));
}

/// Before minutes of other runs have passed. Chunks for writes that long are too few there.
#[test]
fn a_pool_that_does_not_fit_is_refused_before_it_is_built() {
    let small = RigRequest {
        scale: 64,
        ..request(SystemName::Varve, Law::Uniform, 1 << 20)
    };
    let found = check(&small);
    assert!(matches!(found, Err(RigError::Pool(_))), "{found:?}");
}

/// A disk is modelled whole: where every block would have to be kept account of it is refused at once,
/// elsewhere it is as slow as it is. A drive without moving parts is as small as any other.
#[test]
fn a_disk_is_no_dense_drive_of_what_keeps_blocks() {
    let on = |system, dense| RigRequest {
        dense,
        requests: 4096,
        ..request(system, Law::Uniform, 4096)
    };
    for system in SystemName::ALL {
        let refused = matches!(
            check(&on(system, "hdd-002")),
            Err(RigError::Disk { drive: "hdd-002", system: of }) if of == system
        );
        let keeps = [
            SystemName::CsalPaper,
            SystemName::CsalToday,
            SystemName::OpenCas,
            SystemName::DmZoned,
            SystemName::Varve,
        ];
        assert_eq!(refused, keeps.contains(&system), "{system}");
    }
    let disk = measured(&on(SystemName::DropIn, "hdd-002"));
    let iops = disk.window.writes.unwrap().iops;
    // 460 as published, and what its cache takes at first.
    assert!((300..1000).contains(&iops), "{iops}");
    let optane = measured(&RigRequest {
        requests: 100_000,
        ..on(SystemName::Varve, "optane-p5800x")
    });
    assert!(optane.parameters.user_bytes < 2 << 30);
    assert!(optane.window.dense.unwrap().written_bytes > 0);
}

/// What only a drive that was made can tell is refused then.
#[test]
fn tiers_jobs_and_bursts_without_room_are_refused() {
    let small = |system, jobs, bytes| RigRequest {
        hosts: Hosts::Mix(Mix {
            jobs,
            ..mix(Law::Sequential, bytes)
        }),
        scale: 64,
        ..request(system, Law::Uniform, 4096)
    };
    let tier = RigRequest {
        fast_tier: 0.1,
        ..small(SystemName::CsalToday, 8, 4096)
    };
    let jobs = RigRequest {
        over_provision: 90.0,
        ..small(SystemName::CsalPaper, 64, 1 << 20)
    };
    // Ten times what it reads, a thousand times that in a burst.
    let bursts = Bursts {
        rate: Rate::PerCent(1000),
        factor: 1000,
        requests: 1,
    };
    let rate = RigRequest {
        hosts: Hosts::Mix(Mix {
            reads_per_cent: 100,
            pace: Pace::Bursts(bursts),
            ..mix(Law::Uniform, 4096)
        }),
        ..small(SystemName::DropIn, 8, 4096)
    };
    for (limits, why) in [
        (tier, "fast tier"),
        (jobs, "room for a request"),
        (rate, "in a burst"),
    ] {
        let watch: Watch = Rc::new(|_, _, _| ());
        let Err(RigError::Limits(what)) = run(&limits, &watch) else {
            panic!("{why} is no limit");
        };
        assert!(what.contains(why), "{what}");
    }
}

/// On drives so small that strips of 64 KiB do not divide what they erase at once an array has shorter ones, and the engine
/// writes whole stripes of those.
#[test]
fn arrays_of_small_drives_have_shorter_strips() {
    let request = RigRequest {
        dense: "tlc-p5520",
        drives: 8,
        protect: varve_lab::rig::Protect::Parity2,
        ..tiny(SystemName::Varve)
    };
    let report = measured(&request);
    let strip = &report.parameters.made_of["strip"];
    assert_eq!(strip, "60 KiB");
    let stripe = 8 * (60 << 10);
    let written = report.window.dense.unwrap().written_bytes;
    assert!(written > 0 && written.is_multiple_of(stripe), "{written}");
}

/// Whole stripes of RAID-5 go to its drives at the rate of all but one, a strip at a time in place at far less; only arrays
/// take requests that long.
#[test]
fn whole_stripes_cost_no_reads() {
    let in_order = |system, bytes| RigRequest {
        hosts: Hosts::Mix(Mix {
            jobs: 1,
            ..mix(Law::Sequential, bytes)
        }),
        drives: if system == SystemName::Raid5 { 5 } else { 1 },
        ..request(system, Law::Sequential, bytes)
    };
    let whole = measured(&in_order(SystemName::Raid5, 2 << 20));
    let (rate, dense) = (millions(&whole), whole.window.dense.unwrap());
    // Four times the 2.5 GB/s of the QLC drive.
    assert!((rate / 10_000.0 - 1.0).abs() < 0.05, "{rate} MB/s");
    assert_eq!(dense.read_bytes, 0);
    let strips = millions(&measured(&in_order(SystemName::Raid5, 512 << 10)));
    assert!(strips < rate / 2.0, "{strips} and {rate} MB/s");
    let longer = in_order(SystemName::DropIn, 2 << 20);
    let refused = check(&longer);
    let max = 1 << 20;
    assert!(matches!(refused, Err(RigError::Bytes { max: of, .. }) if of == max));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let fine = request(SystemName::Varve, Law::Uniform, 4096);
    assert!(check(&fine).is_ok());
    let odd = RigRequest {
        hosts: Hosts::Mix(Mix {
            bytes: 5000,
            ..mix(Law::Uniform, 4096)
        }),
        ..fine.clone()
    };
    assert!(matches!(
        check(&odd),
        Err(RigError::Bytes { bytes: 5000, .. })
    ));
    let zoned = RigRequest {
        dense: "zns-zn540",
        ..request(SystemName::DropIn, Law::Uniform, 4096)
    };
    assert!(matches!(check(&zoned), Err(RigError::Zoned(_))));
    for limits in [
        RigRequest {
            cores: 0,
            ..fine.clone()
        },
        RigRequest {
            over_provision: 200.0,
            ..fine.clone()
        },
        RigRequest {
            map_cache: -5.0,
            ..fine.clone()
        },
        RigRequest {
            passes: f64::NAN,
            ..fine.clone()
        },
        RigRequest {
            hosts: Hosts::Mix(Mix {
                law: Law::Zipf(f64::NAN),
                ..mix(Law::Uniform, 4096)
            }),
            ..fine.clone()
        },
        RigRequest {
            hosts: Hosts::Mix(Mix {
                jobs: 0,
                ..mix(Law::Uniform, 4096)
            }),
            ..fine.clone()
        },
        RigRequest {
            hosts: Hosts::Mix(Mix {
                depth: 5000,
                ..mix(Law::Uniform, 4096)
            }),
            ..fine.clone()
        },
    ] {
        assert!(matches!(check(&limits), Err(RigError::Limits(_))));
    }
}

/// Bursts are more than the average, have requests, and no more a second than any load may.
#[test]
fn bursts_that_make_no_sense_are_refused() {
    let fine = request(SystemName::Varve, Law::Uniform, 4096);
    for (rate, factor, requests, what) in [
        (Rate::PerCent(50), 1, 100, "once is none"),
        (Rate::PerCent(50), 4, 0, "from 1 to"),
        (Rate::PerCent(1001), 4, 1, "1000 per cent"),
        (Rate::Iops(5_000_000), 3, 1, "in a burst"),
    ] {
        let pace = Pace::Bursts(Bursts {
            rate,
            factor,
            requests,
        });
        let refused = check(&RigRequest {
            hosts: Hosts::Mix(Mix {
                pace,
                ..mix(Law::Uniform, 4096)
            }),
            ..fine.clone()
        });
        let told = refused.expect_err(what).to_string();
        assert!(told.contains(what), "{told}");
    }
}
