//! Job files of fio: what is read, what is refused, and what comes out of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use varve_lab::draw::Random;
use varve_lab::fio::{
    Amount, Area, AreaError, Arrivals, Directions, FioError, Io, Job, Order, Plan, Process, Rate,
    Stream,
};

const DISK: u64 = 1 << 30;

/// Name and text of every job file of the repository.
fn shipped() -> Vec<(String, String)> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let files = std::fs::read_dir(directory).expect("workloads");
    let mut files: Vec<_> = files
        .map(|file| file.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|end| end == "fio"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("text");
            let name = path.file_stem().expect("a name").to_string_lossy();
            (name.into_owned(), text)
        })
        .collect();
    files.sort();
    files
}

fn plan(text: &str) -> Plan {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The only job of a file with these options.
fn job(options: &str) -> Job {
    plan(&format!("[job]\n{}", options.replace(' ', "\n")))
        .jobs
        .remove(0)
}

fn stream(job: &Job, clone: u32, seed: u64) -> Stream {
    Stream::new(job, clone, &job.area(clone, DISK).unwrap(), 1, seed)
}

#[test]
fn shipped_files_say_what_their_documents_do() {
    let files: BTreeMap<_, _> = shipped().into_iter().collect();
    let plans: Vec<_> = files
        .iter()
        .map(|(name, text)| (name, plan(text)))
        .collect();
    assert_eq!(plans.len(), 10);
    for (name, plan) in &plans {
        for job in &plan.jobs {
            assert!(job.area(0, DISK).is_ok(), "{name}");
            let (depth, clones) = match &name[..3] {
                "000" | "002" => (128, 1),
                _ => (16, 120),
            };
            assert_eq!((job.depth, job.clones), (depth, clones), "{name}");
        }
    }
    let orders = |name: &str| -> Vec<Order> {
        plan(&files[name])
            .jobs
            .iter()
            .map(|job| job.order)
            .collect()
    };
    let uniform = Order::Uniform { is_mapped: false };
    let zipf = |theta| Order::Zipf { theta };
    assert_eq!(orders("000-configuration-1"), [uniform]);
    assert_eq!(orders("000-configuration-2"), [zipf(1.2)]);
    assert_eq!(
        orders("000-configuration-3"),
        [Order::Sequential, uniform, zipf(0.8), zipf(1.2)]
    );
    assert_eq!(orders("000-configuration-4"), [uniform]);
    assert_eq!(orders("002-reads-64k-writes-4k"), [uniform; 8]);
    for reads in [0, 30, 50, 70, 100] {
        let plan = plan(&files[&format!("004-random-16k-{reads}-{}", 100 - reads)]);
        assert_eq!(plan.jobs[0].reads_per_cent, reads);
        assert_eq!(plan.jobs[0].block_bytes.read, 16 << 10);
    }
}

#[test]
fn globals_hold_for_the_jobs_below_them() {
    let plan = plan(
        "[global]\nbs=8k\nrw=randwrite\ndirect=1\n[a]\n[global]\niodepth=4\ndirect=1\n[b]\nbs=1m\n\
         stonewall\nname=second\n[c]\nwait_for_previous=0\n",
    );
    let told: Vec<_> = plan
        .jobs
        .iter()
        .map(|job| {
            (
                &job.name[..],
                job.number,
                job.line,
                job.block_bytes.read,
                job.depth,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("a", 0, 5, 8 << 10, 1),
            ("second", 1, 9, 1 << 20, 4),
            ("c", 2, 13, 8 << 10, 4)
        ]
    );
    let groups: Vec<usize> = plan.groups().map(<[Job]>::len).collect();
    assert_eq!(groups, [1, 2]);
    let ignored: Vec<_> = plan.ignored.iter().map(|ignored| ignored.option).collect();
    assert_eq!(ignored, ["direct"]);
}

#[test]
fn options_have_the_defaults_of_fio() {
    let job = job("");
    let expected = Job {
        name: "job".to_owned(),
        number: 0,
        line: 1,
        reads_per_cent: 100,
        order: Order::Sequential,
        block_bytes: Directions {
            read: 4096,
            write: 4096,
        },
        depth: 1,
        clones: 1,
        offset: Amount::Bytes(0),
        offset_increment: Amount::Bytes(0),
        size: None,
        io_size: None,
        runtime_ns: None,
        is_time_based: false,
        ramp_ns: 0,
        rate: None,
        randseed: 0,
        is_behind_wall: false,
        ends_all: false,
        is_reported_as_group: false,
    };
    assert_eq!(job, expected);
}

#[test]
fn options_are_read() {
    let sizes = |options| job(options).block_bytes;
    assert_eq!(
        sizes("bs=8k,32k"),
        Directions {
            read: 8192,
            write: 32768
        }
    );
    assert_eq!(
        sizes("bs=,8k"),
        Directions {
            read: 4096,
            write: 8192
        }
    );
    assert_eq!(
        sizes("bs=8k,"),
        Directions {
            read: 8192,
            write: 4096
        }
    );
    assert_eq!(
        sizes("bs=8k,32k bs_is_seq_rand=1"),
        Directions {
            read: 8192,
            write: 8192
        }
    );
    assert_eq!(
        sizes("rw=randrw bs=8k,32k bs_is_seq_rand=1"),
        Directions {
            read: 32768,
            write: 32768
        }
    );
    let reads = |options| job(options).reads_per_cent;
    assert_eq!(reads("rw=rw"), 50);
    assert_eq!(reads("rw=readwrite rwmixread=0x10"), 16);
    assert_eq!(reads("rw=randrw rwmixread=70 rwmixwrite=40"), 60);
    assert_eq!(reads("rw=write rwmixread=70"), 0);
    let order = |options| job(options).order;
    assert_eq!(order("rw=randread"), Order::Uniform { is_mapped: true });
    assert_eq!(
        order("rw=randread norandommap"),
        Order::Uniform { is_mapped: false }
    );
    assert_eq!(
        order("rw=randread random_distribution=zipf"),
        Order::Zipf { theta: 1.1 }
    );
    assert_eq!(order("rw=read random_distribution=zipf"), Order::Sequential);
}

#[test]
fn times_rates_and_amounts_are_read() {
    let timed = job("runtime=2m ramp_time=5 time_based");
    assert_eq!(
        (timed.runtime_ns, timed.ramp_ns),
        (Some(120_000_000_000), 5_000_000_000)
    );
    let rate = |read, write, process| {
        let per_second = Directions { read, write };
        Some(Rate {
            per_second,
            process,
        })
    };
    assert_eq!(job("rate_iops=1k").rate, rate(1024, 0, Process::Linear));
    assert_eq!(
        job("rw=randrw rate_iops=500,200 rate_process=poisson").rate,
        rate(500, 200, Process::Poisson)
    );
    assert_eq!(job("rw=write rate_iops=500,0").rate, None);
    let sized = job("size=1g filesize=1m");
    assert_eq!(sized.size, Some(Amount::Bytes(1 << 20)));
    assert_eq!(sized.io_size, Some(Amount::Bytes(1 << 30)));
}

/// Every refusal names the line, and has a text and a next step of its own kind.
#[test]
fn what_is_not_modelled_is_refused_by_name() {
    let error = |text: &str| text.parse::<Plan>().expect_err(text);
    for (text, expected) in [
        (
            "[a]\nverify=crc32c",
            "line 2: option `verify` is not modelled, and not known to be without effect",
        ),
        (
            "[global]\n\nbsrange=1k-4k\n[a]",
            "line 3: option `bsrange` is not modelled, and not known to be without effect",
        ),
        (
            "[a]\nsize=${SIZE}",
            "line 2: the value of `size` is a variable, and a load is what its file says",
        ),
        (
            "[a]\nnumjobs=$ncpus",
            "line 2: the value of `numjobs` is a variable, and a load is what its file says",
        ),
        (
            "[a]\nrw=trim",
            "line 2: `rw` is `trim`: one of read, write, randread, randwrite, rw, readwrite, randrw",
        ),
        (
            "[a]\ntime_based",
            "line 1: job `a`: `time_based` without `runtime` has no end",
        ),
        (
            "[a]\nrw=rw\nrate_iops=5,0",
            "line 1: job `a`: `rate_iops` holds for reads or for writes only, and the job has both",
        ),
        ("global]\n", "line 1: `global]` stands in no section"),
        ("[a\n", "line 1: a section without a name in brackets"),
        ("[a]\ninclude b", "line 2: other files are not included"),
        ("[global]\nrw=read", "the file has no job"),
        ("", "the file has no job"),
        (
            "[a]\nnumjobs=4000\n[b]\nnumjobs=97",
            "4097 jobs with their clones: at most 4096",
        ),
    ] {
        assert_eq!(error(text).to_string(), expected);
        assert!(!error(text).next().is_empty());
    }
}

#[test]
fn values_that_cannot_be_are_refused() {
    for options in [
        "bs=0",
        "bs=4000",
        "bs=4k,4k,4k",
        "bs=2g",
        "iodepth=0",
        "numjobs=0",
        "size=0",
        "size=101%",
        "size=",
        "rwmixread=101",
        "random_distribution=zipf:0",
        "random_distribution=zipf:nan",
        "random_distribution=zipf:1:0.5",
        "random_distribution=pareto:1",
        "rw=randread:8",
        "runtime=1y",
        "norandommap=2",
        "rate_iops=99m",
        "rate_process=x",
        "filesize=1k-4k",
        "rw",
    ] {
        let refused = format!("[a]\n{options}").parse::<Plan>();
        let refused = refused.expect_err(options);
        assert!(
            matches!(refused, FioError::Value { line: 2, .. }),
            "{options}: {refused}"
        );
    }
    // The machine's own are without effect, variables or not.
    plan("[a]\nfilename=${DISK}\ncpus_allowed=${CPU}");
}

/// fio gives such engines depth 1, whatever the file says: figures of more would be of no run of it. The last engine
/// that is named counts, a section's before that of `[global]`.
#[test]
fn synchronous_engines_have_no_depth() {
    for engine in [
        "sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice",
    ] {
        let deep = format!("[global]\nioengine={engine}\n[a]\niodepth=2\n");
        let refused = deep.parse::<Plan>().expect_err(engine);
        assert!(
            matches!(refused, FioError::Conflict { line: 3, .. }),
            "{engine}: {refused}"
        );
        assert!(refused.to_string().contains("`iodepth`"), "{refused}");
        assert_eq!(plan(&deep.replace("=2", "=1")).groups().count(), 1);
        plan(&format!("{deep}ioengine=libaio\n"));
    }
    // Without a name it is the experiment's.
    plan("[a]\niodepth=2\n");
}

/// No text makes the parser panic, and what it accepts can be run.
#[test]
fn any_text_is_read_or_refused() {
    const PIECES: &[&str] = &[
        "[",
        "]",
        "=",
        "\n",
        "global",
        "rw",
        "bs",
        "size",
        "offset_increment",
        "4k",
        "%",
        "100",
        "18446744073709551615",
        "zipf:",
        "randrw",
        ",",
        "0x",
        "é",
        "\u{0}",
        "$",
        "#",
        ";",
        " ",
        "numjobs",
        "rate_iops",
        "runtime",
        "d",
        "p",
        "-",
        "1e9",
        "io_size",
        "[a]\n",
    ];
    let (mut random, files) = (Random::new(17), shipped());
    let mut accepted = 0;
    for round in 0..40_000 {
        let mut text = String::new();
        if round % 2 == 0 {
            (0..random.below(40))
                .for_each(|_| text += PIECES[random.below(PIECES.len() as u64) as usize]);
        } else {
            text.clone_from(&files[random.below(files.len() as u64) as usize].1);
            for _ in 0..=random.below(3) {
                let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
                let pick = |random: &mut Random| places[random.below(places.len() as u64) as usize];
                let (a, b) = (pick(&mut random), pick(&mut random));
                let end = a.max(b).min(a + random.below(8) as usize);
                let end = if text.is_char_boundary(end) { end } else { a };
                let piece = PIECES[random.below(PIECES.len() as u64) as usize];
                text.replace_range(a..end.max(a), piece);
            }
        }
        match text.parse::<Plan>() {
            Ok(plan) => {
                accepted += 1;
                plan.jobs.iter().for_each(|job| try_out(job, random.bits()));
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
    assert!(accepted > 2_000, "{accepted}");
}

fn try_out(job: &Job, seed: u64) {
    for (clone, disk) in [(0, DISK), (job.clones - 1, u64::MAX), (1, 1 << 20)] {
        let Ok(area) = job.area(clone, disk) else {
            continue;
        };
        // Beyond a drive's size the numbers of blocks are not exact in the laws.
        if area.bytes < 1 << 50 {
            let stream = Stream::new(job, clone, &area, 1, seed);
            stream.take(4).for_each(|io| check(&io, &area));
        }
        assert!(job.bytes(&area).is_some() != job.is_time_based);
        let arrivals = Arrivals::new(job, clone, seed);
        assert!(arrivals.into_iter().flatten().take(4).is_sorted());
    }
}

fn check(io: &Io, area: &Area) {
    assert!(io.offset >= area.start, "{io:?} {area:?}");
    let within = io.offset - area.start;
    assert!(
        within.is_multiple_of(io.bytes) && within + io.bytes <= area.bytes,
        "{io:?} {area:?}"
    );
}

#[test]
fn areas_are_shares_of_the_disk() {
    let at = |options: &str, clone| job(options).area(clone, 1_000_000).unwrap();
    let area = |start, bytes| Area { start, bytes };
    assert_eq!(at("", 0), area(0, 1_000_000));
    assert_eq!(
        at("offset=10%", 0),
        area(98_304, 901_696),
        "begins at a multiple of bs"
    );
    assert_eq!(at("offset=10% size=20%", 0), area(98_304, 200_000));
    assert_eq!(
        at("offset=90% size=20%", 0),
        area(897_024, 102_976),
        "cut at the end"
    );
    let job_of_clones = "size=64k offset=4k offset_increment=64k numjobs=3";
    assert_eq!(at(job_of_clones, 2), area(4096 + 2 * 65536, 65536));
    assert_eq!(
        at("offset_increment=25%", 3),
        area(3 * 249_856, 1_000_000 - 3 * 249_856)
    );
    let error = |options: &str, clone| job(options).area(clone, 1_000_000).expect_err(options);
    for options in [
        "size=1m",
        "offset=1m",
        "offset=900ki size=200ki",
        "offset_increment=16383p",
    ] {
        assert!(
            matches!(error(options, 1), AreaError::Behind { .. }),
            "{options}"
        );
    }
    for options in ["size=1k", "bs=1m", "rw=rw bs=4k,1m"] {
        let error = error(options, 0);
        assert!(matches!(error, AreaError::Small { .. }), "{options}");
        assert!(!error.next().is_empty());
    }
    assert!(
        job("rw=read bs=4k,1m").area(0, 1_000_000).is_ok(),
        "it does not write"
    );
    let far = job("offset_increment=16383p").area(5, 1_000_000);
    assert!(
        matches!(far, Err(AreaError::Behind { end: u64::MAX, .. })),
        "no overflow"
    );
    let bytes = |options: &str| job(options).bytes(&at(options, 0));
    assert_eq!(bytes(""), Some(1_000_000));
    assert_eq!(bytes("size=50%"), Some(500_000));
    assert_eq!(bytes("io_size=4m"), Some(4 << 20));
    assert_eq!(bytes("time_based runtime=1"), None);
}

#[test]
fn ios_stay_in_their_area() {
    for rw in ["read", "write", "rw", "randread", "randwrite", "randrw"] {
        for more in [
            "",
            "norandommap",
            "random_distribution=zipf:0.9",
            "bs=4k,12k",
        ] {
            let job = job(&format!("rw={rw} {more} offset=3m size=5003k"));
            let area = job.area(0, DISK).unwrap();
            let stream = Stream::new(&job, 0, &area, 3, 5);
            stream.take(5000).for_each(|io| check(&io, &area));
        }
    }
}

#[test]
fn sequential_ios_follow_one_another_and_wrap() {
    let ones = job("rw=write bs=1m offset=2m size=3m");
    let offsets: Vec<u64> = stream(&ones, 0, 1)
        .take(5)
        .map(|io| io.offset >> 20)
        .collect();
    assert_eq!(offsets, [2, 3, 4, 2, 3]);
    let mixed: Vec<Io> = stream(&job("rw=rw bs=1m size=8m"), 0, 1)
        .take(100)
        .collect();
    for is_read in [true, false] {
        let side = mixed.iter().filter(|io| io.is_read == is_read);
        let in_order = side
            .enumerate()
            .all(|(at, io)| io.offset >> 20 == at as u64 % 8);
        assert!(in_order, "reads and writes each for themselves");
    }
}

/// With the map every block comes once before one comes again; in another order each time.
#[test]
fn a_mapped_pass_covers_all() {
    let job = job("rw=randrw size=4000k");
    let offsets: Vec<u64> = stream(&job, 0, 1).take(2000).map(|io| io.offset).collect();
    let passes: Vec<_> = offsets.chunks(1000).collect();
    for pass in &passes {
        let mut pass = pass.to_vec();
        pass.sort_unstable();
        pass.dedup();
        assert_eq!(pass.len(), 1000);
    }
    assert_ne!(passes[0], passes[1]);
}

/// Frequencies against the law, for each order and mix.
#[test]
fn frequencies_are_those_of_the_law() {
    for more in [
        "norandommap",
        "",
        "random_distribution=zipf:0.8",
        "random_distribution=zipf:1.2",
    ] {
        let job = job(&format!("rw=randrw rwmixread=30 size=8000k {more}"));
        let area = job.area(0, DISK).unwrap();
        for ranks in [1, 4] {
            let mut stream = Stream::new(&job, 0, &area, ranks, 9);
            let shares: Vec<f64> = stream.write_shares().map(|(_, share)| share).collect();
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let (draws, mut reads) = (1_000_000, 0);
            let mut counts = vec![0_u32; shares.len()];
            for io in stream.by_ref().take(draws) {
                reads += u32::from(io.is_read);
                counts[(io.offset / 4096) as usize] += 1;
            }
            assert!(
                (f64::from(reads) / draws as f64 - 0.3).abs() < 0.002,
                "{reads}"
            );
            for (count, share) in counts.iter().zip(&shares) {
                let expected = share * draws as f64;
                let off = (f64::from(*count) - expected).abs();
                assert!(
                    off < 6.0 * expected.sqrt() + 1.0,
                    "{more}: {count} for {expected}"
                );
            }
        }
    }
}

#[test]
fn the_seed_decides_everything_and_clones_differ() {
    let text = "[a]\nrw=randrw\nnumjobs=2\n[b]\nrw=randrw";
    let jobs = plan(text).jobs;
    let ios = |job: &Job, clone, seed| -> Vec<Io> { stream(job, clone, seed).take(50).collect() };
    let first = ios(&jobs[0], 0, 1);
    assert_eq!(first, ios(&jobs[0], 0, 1));
    assert_ne!(first, ios(&jobs[0], 1, 1), "clones");
    assert_ne!(first, ios(&jobs[1], 0, 1), "jobs");
    assert_ne!(first, ios(&jobs[0], 0, 2), "seeds");
    let seeded = Job {
        randseed: 5,
        ..jobs[0].clone()
    };
    assert_ne!(first, ios(&seeded, 0, 1), "randseed");
    let hottest = |clone| {
        let job = job("rw=randwrite random_distribution=zipf:1.2 numjobs=2");
        let shares = stream(&job, clone, 1);
        let shares = shares.write_shares();
        shares
            .max_by(|(_, a), (_, b)| a.total_cmp(b))
            .expect("blocks")
            .0
    };
    assert_ne!(hottest(0), hottest(1), "each clone has its own hot blocks");
}

#[test]
fn arrivals_have_the_rate_of_their_job() {
    assert!(Arrivals::new(&job("rw=randread"), 0, 1).is_none());
    let linear = job("rw=randread rate_iops=3");
    let starts: Vec<u64> = Arrivals::new(&linear, 0, 1)
        .unwrap()
        .take(4)
        .map(|a| a.at_ns)
        .collect();
    assert_eq!(
        starts,
        [0, 333_333_333, 666_666_666, 1_000_000_000],
        "without drift"
    );
    let poisson = job("rw=randrw rate_iops=9000,3000 rate_process=poisson");
    let all: Vec<_> = Arrivals::new(&poisson, 0, 1)
        .unwrap()
        .take(1_200_000)
        .collect();
    assert!(all.is_sorted_by_key(|arrival| arrival.at_ns));
    let seconds = all.last().expect("arrivals").at_ns as f64 / 1e9;
    assert!((seconds - 100.0).abs() < 0.5, "{seconds}");
    for (is_read, rate) in [(true, 9000.0), (false, 3000.0)] {
        let side: Vec<u64> = all
            .iter()
            .filter(|a| a.is_read == is_read)
            .map(|a| a.at_ns)
            .collect();
        let off = side.len() as f64 / seconds / rate - 1.0;
        assert!(off.abs() < 0.006, "{off}");
        let gaps: Vec<f64> = side
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64 * rate / 1e9)
            .collect();
        for bound in [0.1, 0.5, 1.0, 2.0, 4.0] {
            let share = gaps.iter().filter(|gap| **gap > bound).count() as f64 / gaps.len() as f64;
            assert!(
                (share - (-bound).exp()).abs() < 0.003,
                "longer than {bound} means: {share}"
            );
        }
    }
    let again: Vec<_> = Arrivals::new(&poisson, 0, 1).unwrap().take(100).collect();
    assert_eq!(all[..100], again);
    assert_ne!(
        again,
        Arrivals::new(&poisson, 1, 1)
            .unwrap()
            .take(100)
            .collect::<Vec<_>>()
    );
}
