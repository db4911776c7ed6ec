//! Job files of fio, and open loops, as loads of a rig.

use std::rc::Rc;
use std::sync::Arc;
use varve_lab::fio::Plan;
use varve_lab::recovery::Watch;
use varve_lab::rig::{
    Bursts, Hosts, JobFile, JobFileError, Law, Mix, Pace, Protect, Rate, RigError, RigReport,
    RigRequest, SystemName, Way, run,
};

const SECOND: u64 = 1_000_000_000;

fn file(text: &str) -> Result<JobFile, JobFileError> {
    let plan: Plan = text.parse().expect("a job file");
    JobFile::new("test", &plan)
}

fn request(system: SystemName, hosts: Hosts) -> RigRequest {
    RigRequest {
        system,
        hosts,
        fast: "slc-002",
        dense: "slc-002",
        drives: system.drives(),
        protect: Protect::None,
        groups_per_unit: 1,
        rmw_level: 1,
        over_provision: 18.0,
        fast_tier: 5.0,
        map_cache: 12.5,
        passes: 0.5,
        zipf_ranks: 1,
        cores: 2,
        scale: 8,
        requests: 1_000_000,
        seed: 7,
    }
}

/// A file on a drive that is fast enough for whatever is asked here.
fn on_a_drive(text: &str) -> Result<RigReport, RigError> {
    let file = file(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let watch: Watch = Rc::new(|_, _, _| ());
    let hosts = Hosts::Fio(Arc::new(file));
    run(&request(SystemName::DropIn, hosts), &watch)
}

fn measured(text: &str) -> RigReport {
    on_a_drive(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn requests(way: &Option<Way>) -> u64 {
    way.as_ref().map_or(0, |way| way.requests)
}

/// Within this share of what is expected.
fn is_near(found: u64, expected: u64, share: f64) -> bool {
    (found as f64 / expected as f64 - 1.0).abs() <= share
}

/// An open loop at equal distances has as many requests as the file says, of each direction, in the time
/// it says, behind the ramp; a Poisson process about as many.
#[test]
fn rates_and_times_are_kept() {
    let text = "[a]\nrw=randrw\nrate_iops=3000,1000\niodepth=64\nramp_time=1\nruntime=2\ntime_based\n\
                norandommap\n";
    let linear = measured(text).window;
    let (reads, writes) = (requests(&linear.reads), requests(&linear.writes));
    // What began just before the ramp's end may end behind it.
    assert!((6000..=6001).contains(&reads) && (2000..=2001).contains(&writes));
    assert!(is_near(linear.virtual_ns, 2 * SECOND, 0.001));
    assert!(!linear.is_cut);
    let poisson = measured(&format!("{text}rate_process=poisson")).window;
    let (reads, writes) = (requests(&poisson.reads), requests(&poisson.writes));
    assert!(
        is_near(reads, 6000, 0.05) && is_near(writes, 2000, 0.08),
        "{reads} {writes}"
    );
    assert_ne!((reads, writes), (6000, 2000));
}

/// What a job does before its window opens is not of its size, closed loop or open; a window in which nothing ends says so.
#[test]
fn a_ramp_takes_nothing_of_a_size() {
    let text = "[a]\nrw=write\nbs=64k\nsize=1m\nramp_time=100ms\n";
    for (extra, under_way) in [("", 1), ("iodepth=8", 8), ("rate_iops=1000", 1)] {
        let report = measured(&format!("{text}{extra}"));
        let writes = requests(&report.window.writes);
        // What began just before the ramp's end may end behind it.
        assert!((16..=16 + under_way).contains(&writes), "{extra}: {writes}");
        assert!(!report.window.is_empty && report.window.virtual_ns > 0);
    }
    let late = measured(
        "[late]\nrw=read\nrate_iops=1\nruntime=100ms\nramp_time=100ms\n[b]\nstonewall\nrw=read\nio_size=4k",
    );
    assert!(late.earlier[0].is_empty && !late.window.is_empty);
    assert!(late.table().contains("no request ended in the window"));
    let beside = measured(
        "[late]\nrw=read\nrate_iops=1\nruntime=100ms\nramp_time=100ms\n[b]\nrw=read\nio_size=4k\nramp_time=100ms",
    );
    assert!(!beside.window.is_empty);
    assert!(beside.table().contains("no request of late ended"));
}

/// A closed loop mixes as it is told to, ends when it is told to, and is as fast as its depth and its
/// clones allow: a read of this drive takes the same whoever asks.
#[test]
fn closed_loops_have_their_mix_and_depth() {
    let text = |extra: &str| format!("[a]\nrw=randread\nruntime=50ms\ntime_based\n{extra}");
    let mixed = measured(&text("rw=randrw\nrwmixread=70\niodepth=8")).window;
    let (reads, writes) = (requests(&mixed.reads), requests(&mixed.writes));
    let share = reads as f64 / (reads + writes) as f64;
    assert!((share - 0.7).abs() < 0.01, "{share} of {}", reads + writes);
    assert!(is_near(mixed.virtual_ns, SECOND / 20, 0.01));
    let one = requests(&measured(&text("")).window.reads);
    for more in ["iodepth=8", "numjobs=8", "iodepth=4\nnumjobs=2"] {
        let eight = requests(&measured(&text(more)).window.reads);
        // Now and then two of them want one die.
        assert!(is_near(eight, 8 * one, 0.15), "{more}: {eight} of {one}");
    }
}

/// A job ends when it has done its amount; one with `exitall` ends the others, of which each has figures of
/// its own; a group begins when the one before has ended.
#[test]
fn jobs_end_and_groups_follow() {
    let report = measured(
        "[first]\nrw=write\nbs=64k\nio_size=6400k\n[beside]\nrw=randread\nruntime=1000d\ntime_based\n\
         [ends]\nrw=write\nio_size=40k\nrate_iops=100\nexitall\n[second]\nstonewall\nrw=read\nio_size=4m\n",
    );
    let [earlier] = &report.earlier[..] else {
        panic!("{} groups before the last", report.earlier.len());
    };
    let of = |name: &str| {
        let found = earlier.jobs.iter().find(|job| job.name == name);
        found.expect(name)
    };
    assert_eq!(requests(&of("first").writes), 100);
    assert_eq!(requests(&of("ends").writes), 10);
    // Ten requests, a hundredth of a second apart.
    assert!(
        is_near(earlier.virtual_ns, 90_000_000, 0.02),
        "{}",
        earlier.virtual_ns
    );
    assert!(requests(&of("beside").reads) > 1000);
    assert!(of("first").virtual_ns < of("beside").virtual_ns);
    let last = &report.window;
    assert_eq!((requests(&last.reads), requests(&last.writes)), (1024, 0));
    assert_eq!(last.jobs.len(), 1);
}

/// Jobs that would never end are cut, and the report tells so.
#[test]
fn what_does_not_end_is_cut() {
    let endless = file("[a]\nrw=randread\nruntime=1000d\ntime_based\n").unwrap();
    let request = RigRequest {
        requests: 5000,
        ..request(SystemName::DropIn, Hosts::Fio(Arc::new(endless)))
    };
    let watch: Watch = Rc::new(|_, _, _| ());
    let window = run(&request, &watch).unwrap().window;
    assert!(window.is_cut);
    assert_eq!(requests(&window.reads), 5000);
}

/// Of the engine, whose volumes are the jobs' disks: what the file writes reaches them, and seeds decide
/// everything.
#[test]
fn the_engine_serves_files() {
    let text = "[global]\nbs=16k\niodepth=4\nruntime=1\ntime_based\nsize=50%\n[a]\nrw=randwrite\n\
                random_distribution=zipf:1.2\n[b]\nrw=randrw\nrate_iops=2000,500\nrate_process=poisson\n";
    let run = |seed| {
        let hosts = Hosts::Fio(Arc::new(file(text).unwrap()));
        let request = RigRequest {
            seed,
            dense: "qlc-002",
            scale: 32,
            ..request(SystemName::Varve, hosts)
        };
        let watch: Watch = Rc::new(|_, _, _| ());
        run(&request, &watch).unwrap_or_else(|error| panic!("{error}"))
    };
    let one = run(3);
    let jobs = &one.window.jobs;
    assert!(requests(&jobs[0].writes) > 1000 && jobs[0].reads.is_none());
    assert!(is_near(requests(&jobs[1].reads), 2000, 0.1));
    assert!(is_near(requests(&jobs[1].writes), 500, 0.2));
    let json = |report: &RigReport| serde_json::to_string(report).unwrap();
    assert_eq!(json(&one), json(&run(3)));
    assert_ne!(json(&one.clone()), json(&run(4)));
}

/// A share of what a closed loop did is kept, and waits less than the closed loop does at its depth.
#[test]
fn a_share_of_the_rate_is_kept() {
    let mix = Mix {
        jobs: 4,
        depth: 64,
        bytes: 4096,
        reads_per_cent: 100,
        law: Law::Uniform,
        pace: Pace::Open(Rate::PerCent(50)),
    };
    let request = RigRequest {
        requests: 100_000,
        ..request(SystemName::DropIn, Hosts::Mix(mix))
    };
    let watch: Watch = Rc::new(|_, _, _| ());
    let report = run(&request, &watch).unwrap();
    let (closed, open) = (&report.earlier[0], &report.window);
    assert_eq!(open.offered_iops, Some(closed.iops() / 2));
    assert!(
        is_near(open.iops(), closed.iops() / 2, 0.02),
        "{}",
        open.iops()
    );
    let p99 = |way: &Option<Way>| way.as_ref().unwrap().latency.p99_ns.unwrap();
    assert!(2 * p99(&open.reads) < p99(&closed.reads));
}

/// What was under way when the closed loop's window closed belongs to none: of its requests there are as many as were asked
/// for, however many more end while it drains.
#[test]
fn a_window_that_is_drained_counts_what_ended_in_it() {
    let mix = Mix {
        jobs: 64,
        depth: 128,
        bytes: 4096,
        reads_per_cent: 100,
        law: Law::Uniform,
        pace: Pace::Open(Rate::PerCent(50)),
    };
    let request = RigRequest {
        requests: 4_096,
        ..request(SystemName::DropIn, Hosts::Mix(mix))
    };
    let watch: Watch = Rc::new(|_, _, _| ());
    let report = run(&request, &watch).unwrap();
    let reads = report.earlier[0].reads.as_ref().unwrap();
    assert_eq!(reads.requests, 4_096);
}

/// Bursts keep the rate on average; requests of one that is more than the drive can do wait for one another,
/// those of the same rate without bursts do not.
#[test]
fn bursts_keep_the_mean_and_wait() {
    let of = |seed, pace| {
        let mix = Mix {
            jobs: 4,
            depth: 64,
            bytes: 4096,
            reads_per_cent: 100,
            law: Law::Uniform,
            pace,
        };
        let request = RigRequest {
            requests: 200_000,
            seed,
            ..request(SystemName::DropIn, Hosts::Mix(mix))
        };
        let watch: Watch = Rc::new(|_, _, _| ());
        run(&request, &watch).unwrap_or_else(|error| panic!("{error}"))
    };
    let rate = Rate::PerCent(40);
    let bursts = |requests| {
        Pace::Bursts(Bursts {
            rate,
            factor: 5,
            requests,
        })
    };
    let even = of(7, Pace::Open(rate));
    // Four hundred bursts: the mean is known within some per cent.
    let small = of(7, bursts(500));
    let large = of(7, bursts(5000));
    let offered = small.window.offered_iops.expect("an open loop");
    assert_eq!(even.window.offered_iops, Some(offered));
    assert!(is_near(small.window.iops(), offered, 0.15), "{small:?}");
    assert_eq!(even.window.bursts, None);
    let count = |report: &RigReport| report.window.bursts.expect("bursts");
    assert!(is_near(count(&small), 400, 0.2), "{}", count(&small));
    assert!((20..=60).contains(&count(&large)), "{}", count(&large));
    let reads = |report: &RigReport| report.window.reads.clone().expect("reads");
    let p99 = |report| reads(report).latency.p99_ns.unwrap();
    // Half of a burst at twice what can be done waits until the drive has caught up.
    assert!(p99(&small) > 3 * p99(&even), "{}", p99(&small));
    assert!(p99(&large) > 3 * p99(&small), "{}", p99(&large));
    let within = |report| reads(report).within_2_ms_per_cent;
    assert!(within(&even) > 99.9 && within(&large) < within(&small));
    let json = |report: &RigReport| serde_json::to_string(report).unwrap();
    assert_eq!(json(&small), json(&of(7, bursts(500))));
    assert_ne!(json(&small), json(&of(8, bursts(500))));
    assert!(
        json(&small)
            .contains(r#""pace":{"bursts":{"rate":{"per-cent":40},"factor":5,"requests":500}}"#)
    );
    assert!(json(&even).contains(r#""pace":{"per-cent":40}"#));
}

#[test]
fn what_a_rig_cannot_do_is_refused_with_its_line() {
    let many: String = (0..65).map(|job| format!("[j{job}]\nrw=read\n")).collect();
    for (text, error) in [
        (
            "[a]\nrw=write\n[b]\nbs=6k",
            "line 3: job `b`: in time `bs` is a multiple of 4k, at most 1m",
        ),
        (
            "[a]\nrw=randrw\nbs=4k,2m",
            "line 1: job `a`: in time `bs` is a multiple of 4k, at most 1m",
        ),
        (
            "[a]\noffset=1k",
            "line 1: job `a`: in time `offset` is a multiple of 4k",
        ),
        (
            "[a]\nnumjobs=2\noffset_increment=6k",
            "line 1: job `a`: in time `offset_increment` is a multiple of 4k",
        ),
        (
            "[a]\nrw=read\n[b]\nramp_time=3\nrw=read",
            "line 3: job `b`: in time `ramp_time` is the same for all jobs that run side by side",
        ),
        (
            &many,
            "line 129: 65 jobs run side by side, each a tenant: at most 64",
        ),
        (
            "[a]\niodepth=60000\nnumjobs=2",
            "line 1: 120000 I/Os in flight of jobs side by side: at most 65536",
        ),
    ] {
        assert_eq!(file(text).unwrap_err().to_string(), error);
    }
    // A write of half a block is none of a job that only reads.
    assert!(file("[a]\nrw=randread\nbs=4k,2k").is_ok());
    // What comes after a wall has a ramp of its own.
    assert!(file("[a]\nrw=read\n[b]\nstonewall\nramp_time=3\nrw=read").is_ok());
    let large = on_a_drive("[a]\nrw=read\nsize=100t");
    assert!(matches!(large, Err(RigError::Area(_))), "{large:?}");
}
