//! The laboratory's commands, as a user runs them.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn run(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    let output = command.args(line.split(' ')).output();
    output.expect("the binary runs")
}

fn document(line: &str) -> Value {
    let output = run(line);
    let text = String::from_utf8(output.stdout).expect("text");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"))
}

const SMALL: &str = "lab waf --workload zipf:0.9 --policy varve --pages 100000 --groups 50 \
                     --over-provision 25 --fast-tier 12 --warm-up 0.5 --measure 0.5 --json";

/// Apart from how long it took, a run is what its seed and parameters make it.
#[test]
fn a_run_comes_out_the_same_again() {
    let without_time = |line: &str| {
        let mut document = document(line);
        let took = document["elapsed_s"].take();
        assert!(took.as_f64().is_some_and(|took| took > 0.0), "{took}");
        document
    };
    let line = SMALL.split_whitespace().collect::<Vec<_>>().join(" ");
    let one = without_time(&line);
    assert_eq!(one.to_string(), without_time(&line).to_string());
    assert_ne!(
        one.to_string(),
        without_time(&(line + " --seed 9")).to_string()
    );
    for field in [
        "waf_ftl",
        "dense_writes_per_host_write",
        "fast_writes_per_host_write",
        "waf_device",
        "flash_writes_per_host_write",
        "waf_total",
    ] {
        assert!(
            one[field].as_f64().is_some_and(|value| value > 0.0),
            "{field}: {one}"
        );
    }
    assert!(
        one["host_blocks"]
            .as_u64()
            .is_some_and(|blocks| blocks > 30_000)
    );
    assert_eq!(one["parameters"]["policy"], "varve");
    assert_eq!(one["parameters"]["workload"], "zipf:0.9");
}

#[test]
fn every_experiment_is_listed_and_nothing_else_runs() {
    let list = document("lab list --json");
    let names: Vec<&str> = list["experiments"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|listed| listed["name"].as_str())
        .collect();
    for name in [
        "waf-formula",
        "drive-table",
        "time-skew",
        "time-reads",
        "time-mixed",
        "time-map-cache",
        "time-latency",
        "time-bursts",
    ] {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
    let none = run("lab run waf-nothing --json");
    assert_eq!(none.status.code(), Some(3));
    let drawn = run("lab run drive-table --plot /tmp/none.svg --json");
    assert_eq!(drawn.status.code(), Some(2), "refused before it runs");
    let nowhere = run("lab all --html /proc/nowhere --json");
    assert_eq!(nowhere.status.code(), Some(4), "refused before it runs");
    let small = run("lab all --scale 32 --rough --json");
    assert_eq!(small.status.code(), Some(2), "refused before anything runs");
    let large = run("lab run waf-formula --scale 64 --rough --json");
    assert_eq!(
        large.status.code(),
        Some(2),
        "2,000 units of 16 blocks are the fewest"
    );
}

/// An experiment is run no smaller than its figures bear, whatever is asked for, and says so.
#[test]
fn an_experiment_is_run_no_smaller_than_its_figures_bear() {
    let listed = document("lab list --json");
    let experiments = listed["experiments"].as_array().expect("a list");
    let of = |name: &str| experiments.iter().find(|one| one["name"] == name);
    let bounded = of("waf-formula").expect("it is there")["scale_max"].clone();
    let ran = run("lab run waf-formula --scale 64 --json");
    assert_eq!(ran.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(document["scale"], bounded);
    let told = String::from_utf8_lossy(&ran.stderr);
    let line = format!("waf-formula: run at --scale {bounded}; ");
    assert!(told.contains(&line) && told.contains("--rough"), "{told}");
}

/// The figures hold at an eighth of the size, and the picture shows them.
#[test]
fn an_experiment_tells_figures_and_draws_them() {
    let file =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lab-{}.svg", std::process::id()));
    let line = format!(
        "lab run waf-formula --scale 8 --rough --seed 5 --json --plot {}",
        file.display()
    );
    let ran = document(&line);
    let rows = ran["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 7);
    for row in rows {
        let off = row["off_per_cent"].as_f64().expect("a comparison");
        // Units of 125 blocks profit from chance, where little is spare.
        assert!(off.abs() < 6.0, "{row}");
    }
    let svg = std::fs::read_to_string(&file).expect("the picture");
    assert!(svg.starts_with("<svg") && svg.contains("greedy-1") && svg.contains("seed 5"));
    std::fs::remove_file(&file).expect("the picture goes");
}

/// A job file is a load; one that is not tells why, and how to go on.
#[test]
fn a_job_file_is_a_load() {
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let small = "--policy csal-today --pages 100000 --groups 24 --warm-up 0.2 --measure 0.2 --json";
    let line = |file: &Path| format!("lab waf --workload fio:{} {small}", file.display());
    let file = workloads.join("004-random-16k-70-30.fio");
    let ran = document(&line(&file));
    let parameters = &ran["parameters"];
    let name = format!("fio:{}", file.display());
    assert_eq!(parameters["workload"].as_str(), Some(&name[..]));
    let notes = parameters["notes"].as_array().expect("notes");
    assert_eq!(notes[0], "reads are left out, of jobs: random-16k-70-30");

    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let bad = directory.join(format!("lab-{}.fio", std::process::id()));
    let refused = |text: &str, exit: i32, error: &str| {
        std::fs::write(&bad, text).expect("a file");
        let output = run(&line(&bad));
        assert_eq!(output.status.code(), Some(exit), "{text}");
        let told: Value = serde_json::from_slice(&output.stdout).expect("one document");
        let expected = format!("{}: {error}", bad.display());
        assert_eq!(told["error"].as_str(), Some(&expected[..]));
        assert!(told["next"].as_str().is_some_and(|next| !next.is_empty()));
    };
    let option = "line 3: option `verify` is not modelled, and not known to be without effect";
    refused("[a]\nrw=write\nverify=md5", 2, option);
    refused(
        "[a]\nrw=read",
        2,
        "no job writes, and placement is about writes",
    );
    std::fs::remove_file(&bad).expect("the file goes");
    assert_eq!(
        run(&line(&bad)).status.code(),
        Some(3),
        "a file that is not there"
    );
    assert_eq!(run(&line(Path::new(""))).status.code(), Some(2), "no file");
}

/// The same files are loads in time; what cannot be done in time, or is said twice, is refused.
#[test]
fn a_job_file_is_a_load_in_time() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = directory.join(format!("lab-rig-{}.fio", std::process::id()));
    let text = "[a]\nrw=randrw\nrate_iops=4000,1000\nrate_process=poisson\niodepth=32\nruntime=1\n";
    std::fs::write(&file, text).expect("a file");
    let line = format!(
        "lab rig csal-paper --workload fio:{} --scale 32 --json",
        file.display()
    );
    let without_time = || {
        let mut ran = document(&line);
        ran["elapsed_s"].take();
        ran
    };
    let ran = without_time();
    let iops = |way: &str| ran[way]["iops"].as_f64().expect("a rate");
    assert!((iops("reads") / 4000.0 - 1.0).abs() < 0.1, "{ran}");
    assert!((iops("writes") / 1000.0 - 1.0).abs() < 0.2, "{ran}");
    assert_eq!(ran["jobs"][0]["name"], "a");
    assert_eq!(ran.to_string(), without_time().to_string());

    assert_eq!(run(&format!("{line} --rw randread")).status.code(), Some(2));
    assert_eq!(run(&format!("{line} --rate-iops 5")).status.code(), Some(2));
    std::fs::write(&file, "[a]\nrw=write\nbs=512").expect("a file");
    let refused = run(&line);
    assert_eq!(refused.status.code(), Some(2));
    let told: Value = serde_json::from_slice(&refused.stdout).expect("one document");
    let error = "line 1: job `a`: in time `bs` is a multiple of 4k, at most 1m";
    let expected = format!("{}: {error}", file.display());
    assert_eq!(told["error"].as_str(), Some(&expected[..]));
    std::fs::remove_file(&file).expect("the file goes");
    let slow = "lab rig drop-in --rw randread --rate-iops 0 --json";
    assert_eq!(run(slow).status.code(), Some(2), "no rate");
}

/// Bursts need a rate that they keep on average, and the report says what came.
#[test]
fn bursts_are_of_an_open_loop() {
    let line = "lab rig drop-in --rw randread --dense slc-002 --scale 16 --requests 40000 --json";
    let ran = document(&format!("{line} --rate-iops 200000 --bursts 4:1000"));
    assert_eq!(ran["offered_iops"], 200_000);
    assert!(
        (20..=60).contains(&ran["bursts"].as_u64().expect("bursts")),
        "{ran}"
    );
    for refused in [
        "--bursts 4:1000",
        "--rate-iops 5 --bursts 4",
        "--rate-iops 5 --bursts 1:1000",
        "--rate-iops 9000000 --bursts 2:1000",
    ] {
        let output = run(&format!("{line} {refused}"));
        assert_eq!(output.status.code(), Some(2), "{refused}");
    }
}

/// A run that is refused leaves nothing where its picture was to be, and what was there before as it was.
#[test]
fn a_refused_run_leaves_no_picture() {
    let name = format!("lab-refused-{}.svg", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let line = format!(
        "lab run waf-isolation --scale 16 --rough --plot {}",
        path.display()
    );
    assert_eq!(run(&line).status.code(), Some(2), "it is too small");
    assert!(!path.exists());
    let image = line.replace(".svg", ".png");
    let refused = run(&image);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains(".svg"));
    std::fs::write(&path, "kept").expect("a file");
    assert_eq!(run(&line).status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&path).expect("it"), "kept");
    std::fs::remove_file(&path).expect("it is there");
}

/// Which experiments have a picture is known before one is asked for.
#[test]
fn the_list_tells_what_is_drawn() {
    let listed = document("lab list --json");
    let drawn = |name: &str| {
        let all = listed["experiments"].as_array().expect("a list");
        let one = all.iter().find(|one| one["name"] == name);
        one.expect("it")["is_drawn"].as_bool()
    };
    assert_eq!(drawn("waf-formula"), Some(true));
    assert_eq!(drawn("waf-scale"), Some(false));
}

/// What would change nothing is refused by its name, and a report does not tell it.
#[test]
fn options_that_change_nothing_are_refused() {
    for (line, named) in [
        ("hdd-array --rw randread --dense qlc-002", "--dense"),
        (
            "drop-in --rw randread --over-provision 20",
            "--over-provision",
        ),
        ("open-cas --rw randread --map-cache 20", "--map-cache"),
        ("dm-zoned --rw randread --cores 4", "--cores"),
        ("raid-0 --rw randread --fast slc-002", "--fast "),
        ("raid-10 --rw randread --fast-tier 7", "--fast-tier"),
        (
            "csal-paper --rw randread --groups-per-unit 2",
            "--groups-per-unit",
        ),
        ("drop-in --rw randread --protect parity1", "--protect"),
        ("varve --rw randread --rmw-level 1", "--rmw-level"),
        ("varve --rw randwrite --reads 50", "--reads"),
        ("varve --rw randwrite --requests 2000", "4096 requests"),
    ] {
        let output = run(&format!("lab rig {line} --json"));
        assert_eq!(output.status.code(), Some(2), "{line}");
        let told: Value = serde_json::from_slice(&output.stdout).expect("one document");
        let error = told["error"].as_str().expect("an error");
        assert!(error.contains(named), "{line}: {error}");
    }
    let ran = document("lab rig hdd-array --rw randread --requests 4096 --json");
    let asked = &ran["parameters"]["request"];
    assert_eq!(asked["dense"], "hdd-002", "{asked}");
    for absent in [
        "fast",
        "over_provision",
        "map_cache",
        "cores",
        "rmw_level",
        "protect",
    ] {
        assert!(asked.get(absent).is_none(), "{absent}: {asked}");
    }
}
