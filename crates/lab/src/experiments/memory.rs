//! What a pool keeps in memory.

use super::{Ask, Experiment, Finding, Job, Origin, Outcome, Plot, Row};
use crate::comparators::{CSAL_PAPER, DM_ZONED, OPEN_CAS};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memory",
    title: "Memory by capacity and structure, and what a smaller or larger limit costs the fast tier",
    source: "document 002, memory: CSAL 2.12 GB, Open-CAS 1 GB, dm-zoned 20 MB",
    is_drawn: true,
    quick: None,
    is_scaled: false,
    scale_max: 64,
    jobs,
    outcome,
};

/// Exported bytes, name, how many times smaller the run is: about as small as it can be, whatever `--scale` says.
const POOLS: [(u64, &str, u64); 2] = [
    (15_360_000_000_000, "15.36 TB", 256),
    (61_440_000_000_000, "61.44 TB", 1024),
];
/// Limits of the first of these pools in bytes, beside its own: less (with the document's 2.12 GB there is no such
/// pool), and so much that most of the map is there.
const LIMITS: [u64; 3] = [2_600_000_000, 6_000_000_000, 16_000_000_000];
const PUBLISHED_GB: f64 = 2.12;
/// The same of Open-CAS and of dm-zoned.
const OPEN_CAS_GB: f64 = 1.0;
const DM_ZONED_GB: f64 = 0.02;
/// How far off a model's may be.
const TOLERANCE: f64 = 20.0;
/// Bytes of the document's fast drive, all of which is cache.
const FAST: f64 = 0.8e12;

fn jobs(ask: &Ask) -> Vec<Job> {
    let of = |(capacity, _, scale): (u64, &str, u64), dram| Job::Start {
        capacity,
        dram,
        scale,
        seed: ask.seed,
    };
    let limited = LIMITS.map(|limit| of(POOLS[0], Some(limit)));
    POOLS
        .map(|pool| of(pool, None))
        .into_iter()
        .chain(limited)
        .collect()
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let (by_size, by_limit) = findings.split_at(POOLS.len());
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    let mut rows = csal();
    rows.extend(others());
    let names = POOLS.map(|(_, name, _)| name.to_owned());
    let mut plot = Plot::bars("Memory of the engine", "GB", names.to_vec());
    for (finding, name) in by_size.iter().zip(&names) {
        let memory = &finding.start().memory;
        let row = Row::at_most(
            format!("varve, {name}, GB; at most its limit"),
            gigabytes(memory.limit()),
            gigabytes(memory.total()),
            0.0,
        );
        rows.push(row.of(Origin::Target));
        let parts = memory.structures().map(|(part, bytes)| {
            Row::beside(format!("varve, {name}, {part}, GB"), gigabytes(bytes))
        });
        rows.extend(parts);
    }
    let parts = by_size[0].start().memory.structures().map(|(part, _)| part);
    for (at, part) in parts.into_iter().enumerate() {
        let of = |finding: &Finding| gigabytes(finding.start().memory.structures()[at].1);
        plot.series(part, by_size.iter().map(of).collect());
    }
    rows.extend(
        [&by_size[..1], by_limit]
            .concat()
            .iter()
            .flat_map(|finding| {
                let start = finding.start();
                let limit = gigabytes(start.memory.limit());
                let taken = gigabytes(start.memory.total());
                [
                    Row::beside(
                        format!("varve, 15.36 TB, limit {limit:.2} GB: taken, GB"),
                        taken,
                    ),
                    Row::beside(
                        format!("varve, 15.36 TB, limit {limit:.2} GB: fast bytes a host's byte"),
                        start.fast_per_host,
                    ),
                ]
            }),
    );
    let mut outcome = Outcome::plotted("as said", rows, &NOTES, plot);
    outcome.state("csal-paper", &CSAL_PAPER.stated_memory());
    outcome.state("csal-today", &CSAL_PAPER.stated_memory());
    outcome.state("open-cas", &OPEN_CAS.stated_memory());
    outcome.state("dm-zoned", &DM_ZONED.stated_memory());
    outcome
}

/// What the metadata of the models' Open-CAS and dm-zoned come to.
fn others() -> [Row; 2] {
    let dense = POOLS[0].0 as f64;
    [
        Row::against(
            "open-cas, 0.8 TB of cache, lines' metadata, GB".to_owned(),
            OPEN_CAS_GB,
            OPEN_CAS.memory(FAST) / 1e9,
            TOLERANCE,
        ),
        Row::against(
            "dm-zoned, 15.36 TB, map and bitmaps, GB".to_owned(),
            DM_ZONED_GB,
            DM_ZONED.memory(dense) / 1e9,
            TOLERANCE,
        ),
    ]
}

/// What CSAL's documents come to.
fn csal() -> Vec<Row> {
    let memory = CSAL_PAPER.memory;
    let paper = |capacity: f64| memory.pages_bytes + memory.top_per_byte * capacity;
    let bits = |capacity: f64| capacity * (1.0 + memory.fast_per_dense) / 4096.0 / 8.0;
    let mut rows = vec![Row::made_of(
        "csal-paper, 15.36 TB, pages and top of its map, GB".to_owned(),
        PUBLISHED_GB,
        paper(POOLS[0].0 as f64) / 1e9,
    )];
    rows.extend(POOLS.map(|(capacity, name, _)| {
        let capacity = capacity as f64;
        Row::beside(
            format!("csal-today, {name}, with a bit a block, GB"),
            (paper(capacity) + bits(capacity)) / 1e9,
        )
    }));
    rows
}

const NOTES: [&str; 4] = [
    "The engine's pools are full and aged, at a fraction of their size and extrapolated: what there is a leaf or a block of grows \
     with the pool, units and buffers do not. Its limit is all it may take, 0.02 % of the capacity by default.",
    "CSAL's figures are arithmetic with its documents' volumes and have no verdict: 2 GiB of pages whatever the capacity, four bytes a block on the fast drive for the \
     rest of the map, and, in what is open source, a bit for each block of both drives. With 61 TB these 2 GiB are 3 % of the \
     map: time-map-cache shows what that costs.",
    "Open-CAS: the ten bytes that a line of 4 KiB has on the fast drive are in memory too, and those of 0.8 TB alone are more than the \
     document's 1 GB; lists and hash table come on top. By lines of 8 KiB it would be the published figure. Which lines the document had, and \
     how much of the drive was cache, it does not tell.",
    "dm-zoned: eight bytes a chunk are 0.1 MB; all else here are bitmaps, a bit a block, of which the real one keeps few and reads the others \
     when it needs them. The model keeps all and reads none, which flatters its time by what the document's 20 MB save.",
];
