//! Writes in time: the paper's schemes beside one another and beside the engine.

use super::{Ask, Experiment, Finding, Job, Outcome, Plot, Row};
use crate::rig::{Law, Mix, Protect, RigRequest, SystemName};

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "time-writes",
    title: "Uniform random and sequential writes of eight tenants, 4 KiB and 64 KiB, of every scheme",
    source: "document 002, uniform writes: CSAL 8.28x Open-CAS at random writes, 5.24x dm-zoned and equal \
             to the disks at sequential ones, dm-zoned about 10 MB/s at random ones (facts A)",
    is_drawn: true,
    jobs,
    outcome,
};

/// How far off a ratio may be before the report says that the model does not reproduce it.
const TOLERANCE: f64 = 20.0;
const SYSTEMS: [SystemName; 5] = [
    SystemName::HddArray,
    SystemName::DropIn,
    SystemName::CsalPaper,
    SystemName::CsalToday,
    SystemName::Varve,
];
/// Order, and bytes of a request.
const LOADS: [(Law, u64); 4] = [
    (Law::Uniform, 4 << 10),
    (Law::Uniform, 64 << 10),
    (Law::Sequential, 4 << 10),
    (Law::Sequential, 64 << 10),
];
/// Jobs, and requests of each in flight: the artifact's configuration (csal.md A.4).
const JOBS: u32 = 8;
const DEPTH: u32 = 128;
/// Over-provisioning of that configuration, its fast tier of 0.8 TB beside 15.36 TB, and its map:
/// 2 GiB of 16 in memory.
const OVER_PROVISION: f64 = 18.0;
const FAST_TIER: f64 = 5.0;
const MAP_CACHE: f64 = 12.5;
/// The document filled twice in order and then wrote everywhere once.
const PASSES: f64 = 2.0;
const REQUESTS: u64 = 200_000;

/// A system under a load of the document's shape.
pub(super) fn request(ask: &Ask, system: SystemName, mix: Mix) -> RigRequest {
    RigRequest {
        system,
        mix,
        fast: "slc-002",
        dense: "qlc-002",
        drives: system.drives(),
        protect: Protect::None,
        rmw_level: 1,
        over_provision: OVER_PROVISION,
        fast_tier: FAST_TIER,
        map_cache: MAP_CACHE,
        // In order nothing is left behind that a second pass would change.
        passes: if mix.law == Law::Sequential {
            0.2
        } else {
            PASSES
        },
        cores: 2,
        scale: ask.scale,
        requests: REQUESTS,
        seed: ask.seed,
    }
}

const fn writes(law: Law, bytes: u64) -> Mix {
    Mix {
        jobs: JOBS,
        depth: DEPTH,
        bytes,
        reads_per_cent: 0,
        law,
    }
}

fn jobs(ask: &Ask) -> Vec<Job> {
    let of =
        |system| LOADS.map(move |(law, bytes)| Job::Rig(request(ask, system, writes(law, bytes))));
    SYSTEMS.into_iter().flat_map(of).collect()
}

fn outcome(_ask: &Ask, findings: &[Finding]) -> Outcome {
    let rate = |system: SystemName, load: usize| {
        let at = SYSTEMS.iter().position(|other| *other == system);
        let at = at.expect("the system is among those measured");
        findings[at * LOADS.len() + load].rig().written_per_s() as f64 / 1e6
    };
    let names = LOADS.map(|(law, bytes)| {
        let order = if law == Law::Uniform {
            "random"
        } else {
            "in order"
        };
        format!("{order}, {} KiB", bytes >> 10)
    });
    let mut plot = Plot::bars("Writes of eight tenants", "MB a second", names.to_vec());
    for system in SYSTEMS {
        let rates = (0..LOADS.len()).map(|load| rate(system, load)).collect();
        plot.series(system.name(), rates);
    }
    let csal = SystemName::CsalPaper;
    let mut rows = vec![Row::against(
        "csal-paper by hdd-array, 4 KiB in order".to_owned(),
        1.0,
        rate(csal, 2) / rate(SystemName::HddArray, 2),
        TOLERANCE,
    )];
    for system in SYSTEMS {
        for (load, name) in names.iter().enumerate() {
            rows.push(Row::beside(
                format!("{system}, {name}, MB/s"),
                rate(system, load),
            ));
        }
    }
    Outcome {
        unit: "ratio, or as said",
        rows,
        notes: Vec::new(),
        parameters: Vec::new(),
        plots: vec![plot],
    }
}
