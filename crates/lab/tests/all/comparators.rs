//! What is compared with states by which values, and whose these are.

use super::rig::tiny;
use varve_lab::comparators::{Stated, Value};
use varve_lab::experiments::{Ask, EXPERIMENTS, Job};
use varve_lab::recovery::unwatched;
use varve_lab::rig::{self, SystemName};
use varve_lab::waf::{self, POLICIES, WafRequest, Workload};

/// The engine, which is nobody's model.
const ENGINE: &str = "varve";

/// A comparator states something, each thing once, and whose it is.
fn check(what: &str, name: &str, stated: &[Stated]) {
    assert!(!stated.is_empty(), "{what}: {name} states nothing");
    for (at, parameter) in stated.iter().enumerate() {
        let is_twin = |other: &Stated| other.name == parameter.name;
        assert!(
            !stated[..at].iter().any(is_twin),
            "{what}: {name}: {parameter:?} twice"
        );
        let source = parameter.source.as_deref().unwrap_or_default();
        let is_told = name == ENGINE || source.len() > 5;
        assert!(is_told, "{what}: {name}: {parameter:?} has no source");
        assert_ne!(
            parameter.value,
            Value::Words(String::new()),
            "{what}: {name}"
        );
    }
}

/// Every comparator of every job of every experiment, and the engine.
#[test]
fn every_job_states_its_parameters() {
    let mut systems = Vec::new();
    for experiment in EXPERIMENTS {
        for job in (experiment.jobs)(&Ask { seed: 5, scale: 1 }) {
            let stated = job
                .stated()
                .unwrap_or_else(|error| panic!("{}: {error}", experiment.name));
            match stated {
                Some((name, stated)) => {
                    check(experiment.name, name, &stated);
                    systems.push(name);
                }
                // The sheet of a drive has its own sources (`varve lab drive`).
                None => assert!(
                    matches!(job, Job::Drive { .. }),
                    "{}: {job:?}",
                    experiment.name
                ),
            }
        }
    }
    let all = SystemName::ALL.map(SystemName::name);
    let policies = POLICIES.map(waf::PolicyName::name);
    for name in all.iter().chain(&policies) {
        assert!(systems.contains(name), "{name} is in no experiment");
    }
}

/// The report of a run has what its job stated, of the engine also what its pool is made of.
#[test]
fn reports_print_what_was_stated() {
    for policy in POLICIES {
        let request = WafRequest {
            workload: Workload::Uniform,
            policy,
            over_provision: 30.0,
            fast_tier: 20.0,
            groups: 24,
            blocks: 60_000,
            warm_up: 0.0,
            measure: 0.01,
            ranks_per_block: 1,
            seed: 1,
        };
        let report =
            waf::run(&request, &unwatched()).unwrap_or_else(|error| panic!("{policy}: {error}"));
        let document = serde_json::to_value(&report).expect("a document");
        is_printed(
            policy.name(),
            &Job::Waf(request),
            &document,
            &report.table(),
        );
    }
    for system in SystemName::ALL {
        let request = tiny(system);
        let report =
            rig::run(&request, &unwatched()).unwrap_or_else(|error| panic!("{system}: {error}"));
        let document = serde_json::to_value(&report).expect("a document");
        is_printed(
            system.name(),
            &Job::Rig(request),
            &document,
            &report.table(),
        );
    }
}

fn is_printed(name: &str, job: &Job, document: &serde_json::Value, table: &str) {
    let (of, stated) = job.stated().expect("it can be").expect("it is compared");
    assert_eq!(of, name);
    let printed = document["parameters"]["stated"].as_array().expect("a list");
    for parameter in &stated {
        let expected = serde_json::to_value(parameter).expect("a document");
        assert!(printed.contains(&expected), "{name}: {parameter:?}");
        assert!(
            table.contains(parameter.name),
            "{name}: {parameter:?}: {table}"
        );
        let source = parameter.source.as_deref().unwrap_or_default();
        assert!(table.contains(source), "{name}: {parameter:?}: {table}");
    }
    let has = |what: &str| printed.iter().any(|parameter| parameter["name"] == what);
    let of_pool = ["chunk", "groups", "stripe"];
    assert!(
        name != ENGINE || of_pool.into_iter().all(has),
        "{printed:?}"
    );
}
