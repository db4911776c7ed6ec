//! Placement policies against published figures, the formula and one another.

use std::sync::Arc;
use varve_lab::recovery::unwatched;
use varve_lab::waf::{
    FioLoad, FioLoadError, POLICIES, PolicyName, WafError, WafReport, WafRequest, Workload, check,
    run,
};

const LOADS: [Workload; 4] = [
    Workload::Uniform,
    Workload::Zipf(0.8),
    Workload::Zipf(0.99),
    Workload::Zipf(1.2),
];

/// A seventh of the geometry that the published figures are from.
fn request(workload: Workload, policy: PolicyName) -> WafRequest {
    WafRequest {
        workload,
        policy,
        over_provision: 20.0,
        fast_tier: 0.0,
        groups: 100,
        blocks: 300_000,
        warm_up: 2.5,
        measure: 1.5,
        ranks_per_block: 1,
        seed: 11,
    }
}

fn report(request: &WafRequest) -> WafReport {
    run(request, &unwatched()).unwrap()
}

fn waf(workload: Workload, policy: PolicyName) -> f64 {
    report(&request(workload, policy)).waf_ftl
}

/// CSAL's open-source rule under uniform and skewed loads.
#[test]
fn csal_costs_what_is_published() {
    for (load, published) in LOADS.into_iter().zip([2.70, 3.46, 4.18, 4.46]) {
        let waf = waf(load.clone(), PolicyName::CsalToday);
        let off = (waf / published - 1.0) * 100.0;
        println!("{load}: {waf:.3}, published {published}, {off:+.1} %");
        assert!(off.abs() < 5.0, "{load}: {waf}, published {published}");
    }
}

/// Where a hot tenth moves the engine writes what comes from the log and what it collects in groups of their own, without
/// a second one open: a conventional drive has nothing to copy. Mixed in one, D is a tenth more (2.09 with these numbers).
#[test]
fn a_hot_part_that_moves_lies_apart() {
    let report = report(&WafRequest {
        fast_tier: 5.0,
        groups: 200,
        warm_up: 4.0,
        measure: 4.0,
        seed: 1,
        ..request(Workload::HotCold(2.0), PolicyName::Varve)
    });
    let dense = report.dense_writes_per_host_write;
    assert!((1.7..1.98).contains(&dense), "D {dense}");
    assert_eq!(report.waf_device, Some(1.0));
}

/// One stream, greedy: the text book, from little to much over-provisioning.
#[test]
fn uniform_writes_cost_what_the_formula_says() {
    for over_provision in [7.0, 20.0, 40.0] {
        let report = report(&WafRequest {
            over_provision,
            blocks: 600_000,
            ..request(Workload::Uniform, PolicyName::Greedy1)
        });
        let (waf, theory) = (report.waf_ftl, report.waf_theory.unwrap());
        let off = (waf / theory - 1.0) * 100.0;
        println!("{over_provision} %: {waf:.3}, formula {theory:.3}, {off:+.2} %");
        assert!(
            off.abs() < 3.0,
            "{over_provision} %: {waf}, formula {theory}"
        );
    }
}

/// What is known of each policy's place: the more it knows, the less it writes; under uniform writes
/// there is nothing to know.
#[test]
fn knowing_more_costs_less_where_there_is_something_to_know() {
    use PolicyName::{CostBenefit2, Fifo1, Greedy1, Greedy2, Oracle, Sepbit};
    let order = [Greedy1, Greedy2, CostBenefit2, Sepbit, Oracle];
    let skewed = order.map(|policy| waf(Workload::Zipf(0.99), policy));
    println!("zipf 0.99: {skewed:.3?}");
    assert!(
        skewed.is_sorted_by(|more, less| *more > less * 1.03),
        "{skewed:?}"
    );
    for policy in order.into_iter().chain([Fifo1]) {
        let waf = waf(Workload::Uniform, policy);
        assert!((2.5..2.9).contains(&waf), "{policy}: {waf}");
    }
}

/// What is written in order dies in order: nothing is ever written again.
#[test]
fn sequential_writes_cost_nothing() {
    for policy in POLICIES {
        let fast_tier = if policy == PolicyName::Varve {
            10.0
        } else {
            0.0
        };
        let report = report(&WafRequest {
            fast_tier,
            warm_up: 1.0,
            measure: 1.0,
            ..request(Workload::Sequential, policy)
        });
        assert!(report.waf_ftl < 1.001, "{policy}: {}", report.waf_ftl);
    }
}

/// Of uniform writes, a log of 5 % of the volume lets `e^-0.05` through.
#[test]
fn a_log_absorbs_what_is_written_again_within_it() {
    let report = report(&WafRequest {
        fast_tier: 5.0,
        warm_up: 0.2,
        measure: 1.0,
        ..request(Workload::Uniform, PolicyName::CsalToday)
    });
    let through = report.compacted_blocks as f64 / report.host_blocks as f64;
    assert!((through - 0.951).abs() < 0.003, "{through}");
    assert_eq!(report.fast_writes_per_host_write, 1.0);
}

/// Groups of tenants apart: the sequential tenant's die as a whole.
#[test]
fn tenants_apart_cost_less() {
    let together = waf(Workload::Mixed4, PolicyName::CsalToday);
    let apart = waf(Workload::Mixed4, PolicyName::CsalPaper);
    println!("mixed4: {together:.3} together, {apart:.3} apart");
    assert!(apart < together * 0.9, "{apart} and {together}");
}

/// The writes of a job file.
fn fio(text: &str) -> Result<Workload, FioLoadError> {
    let plan = text.parse().unwrap_or_else(|error| panic!("{error}"));
    FioLoad::new("test", &plan).map(|load| Workload::Fio(Arc::new(load)))
}

/// `mixed4` is configuration 3 by another name: what the two cost differs by chance alone.
#[test]
fn configuration_3_costs_what_the_built_in_load_does() {
    let file = include_str!("../../../../workloads/000-configuration-3.fio");
    for policy in [PolicyName::CsalPaper, PolicyName::Oracle] {
        let (file, built_in) = (
            waf(fio(file).unwrap(), policy),
            waf(Workload::Mixed4, policy),
        );
        println!("{policy}: {file:.3} of the file, {built_in:.3} built in");
        assert!(
            (file / built_in - 1.0).abs() < 0.03,
            "{policy}: {file} and {built_in}"
        );
    }
}

/// Large writes lie together and die together, and with fio's map every block dies once a pass.
#[test]
fn files_cost_less_where_they_say_more() {
    let of = |options: &str| {
        let text = format!("[a]\nrw=randwrite\n{options}");
        waf(fio(&text).unwrap(), PolicyName::Greedy1)
    };
    let drawn = of("norandommap");
    let uniform = waf(Workload::Uniform, PolicyName::Greedy1);
    assert!((drawn / uniform - 1.0).abs() < 0.02, "{drawn} {uniform}");
    let (mapped, large) = (of("bs=4k"), of("norandommap\nbs=256k"));
    println!("drawn {drawn:.3}, mapped {mapped:.3}, 256 KiB {large:.3}");
    assert!(
        mapped < drawn * 0.95 && large < drawn * 0.99,
        "{mapped} {large} {drawn}"
    );
}

/// What the engine keeps free of a hundred groups is missing where its blocks die: with the eight that it
/// once kept `waf_ftl` was 3.05 here.
#[test]
fn the_engine_keeps_few_groups_free() {
    let report = report(&WafRequest {
        fast_tier: 10.0,
        groups: 100,
        blocks: 200_000,
        warm_up: 2.0,
        measure: 1.0,
        ..request(Workload::Uniform, PolicyName::Varve)
    });
    assert!((2.2..2.75).contains(&report.waf_ftl), "{report:?}");
}

/// The engine under a file: jobs have a volume each, large I/Os are one write, reads are passed over.
#[test]
fn the_engine_runs_under_a_file() {
    let text = "[a]\nrw=randrw\nrwmixread=70\nbs=64k\niodepth=3\n[b]\nrw=randwrite\nnumjobs=5\n\
                random_distribution=zipf\n[c]\nrw=randread";
    let report = report(&WafRequest {
        fast_tier: 10.0,
        groups: 50,
        blocks: 200_000,
        warm_up: 0.5,
        measure: 0.5,
        ..request(fio(text).unwrap(), PolicyName::Varve)
    });
    assert!(report.host_blocks.abs_diff(80_000) < 2_000, "{report:?}");
    // Some of what job b writes stays in the log.
    assert!(
        (1.0..1.1).contains(&report.fast_writes_per_host_write),
        "{report:?}"
    );
    let told = report.table();
    assert!(told.contains("reads are left out, of jobs: a, c"), "{told}");
}

#[test]
fn files_that_are_no_load_of_placement_are_refused() {
    let many: String = (0..9).map(|job| format!("[{job}]\nrw=write\n")).collect();
    for (text, expected) in [
        ("[a]\nrw=read", FioLoadError::NoWrites),
        (
            "[a]\nrw=write\n[b]\nstonewall\nrw=rw",
            FioLoadError::Groups(2),
        ),
        (&many, FioLoadError::Tenants(9)),
    ] {
        assert_eq!(fio(text).err(), Some(expected));
        assert!(!expected.next().is_empty());
    }
    assert!(
        fio("[a]\nrw=write\n[b]\nstonewall\n[c]\nstonewall").is_ok(),
        "the others read"
    );
    for policy in [PolicyName::Greedy1, PolicyName::Varve] {
        let asked = WafRequest {
            fast_tier: 10.0,
            ..request(fio("[a]\nrw=write\nsize=1t").unwrap(), policy)
        };
        assert!(matches!(check(&asked), Err(WafError::Area(_))), "{policy}");
        assert!(
            matches!(run(&asked, &unwatched()), Err(WafError::Area(_))),
            "{policy}"
        );
    }
}

#[test]
fn the_seed_decides_everything() {
    for policy in [PolicyName::CsalToday, PolicyName::Sepbit, PolicyName::Varve] {
        let asked = WafRequest {
            fast_tier: 10.0,
            blocks: 200_000,
            groups: 50,
            warm_up: 1.0,
            // Garbage collection comes in bursts of whole groups, of which there are fifty.
            measure: 2.0,
            ..request(Workload::Zipf(0.9), policy)
        };
        let one = report(&asked);
        assert_eq!(one, report(&asked), "{policy}");
        let seed = 12;
        let other = report(&WafRequest { seed, ..asked });
        assert_ne!(one.collected_blocks, other.collected_blocks, "{policy}");
        let off = other.dense_writes_per_host_write / one.dense_writes_per_host_write - 1.0;
        assert!(off.abs() < 0.05, "{policy}: seeds differ by {off}");
    }
}

#[test]
fn runs_that_cannot_be_are_refused() {
    let base = request(Workload::Uniform, PolicyName::Greedy1);
    let error = |request: &WafRequest| run(request, &unwatched()).err();
    type Case = (WafRequest, fn(&WafError) -> bool);
    let cases: [Case; 8] = [
        (
            WafRequest {
                over_provision: 0.0,
                ..base.clone()
            },
            |error| matches!(error, WafError::OverProvision(_)),
        ),
        (
            WafRequest {
                over_provision: f64::NAN,
                ..base.clone()
            },
            |error| matches!(error, WafError::OverProvision(_)),
        ),
        (
            WafRequest {
                fast_tier: 101.0,
                ..base.clone()
            },
            |error| matches!(error, WafError::FastTier(_)),
        ),
        (
            WafRequest {
                fast_tier: 1e-3,
                ..base.clone()
            },
            |error| matches!(error, WafError::FastTierTooSmall),
        ),
        (
            WafRequest {
                groups: 23,
                ..base.clone()
            },
            |error| matches!(error, WafError::Groups(23)),
        ),
        (
            WafRequest {
                blocks: 1000,
                ..base.clone()
            },
            |error| matches!(error, WafError::Blocks { .. }),
        ),
        (
            WafRequest {
                measure: 0.0,
                ..base.clone()
            },
            |error| matches!(error, WafError::Window),
        ),
        (
            WafRequest {
                policy: PolicyName::Varve,
                ..base.clone()
            },
            |error| matches!(error, WafError::NoFastTier),
        ),
    ];
    for (request, expected) in cases {
        let error = error(&request).expect("refused");
        assert!(expected(&error), "{request:?}: {error}");
    }
}

/// Every policy owns whole erase units of the drive below: what it costs there is not of their geometry.
#[test]
fn units_are_whole_erase_units() {
    for policy in POLICIES {
        let device = |groups| {
            let report = report(&WafRequest {
                fast_tier: 5.0,
                groups,
                warm_up: 0.5,
                measure: 0.5,
                ..request(Workload::Uniform, policy)
            });
            report.waf_device.expect("there is a drive below")
        };
        let found = device(100);
        println!("{policy}: {found}");
        assert!((1.0..1.2).contains(&found), "{policy}: {found}");
    }
}
