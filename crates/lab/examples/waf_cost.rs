//! What a host write costs the engine with payloads elided: `waf_cost [LOAD] [PAGES] [WARM_UP] [MEASURE]`.
//!
//! The run of `varve lab waf --policy varve` (over-provisioning 20 %, fast tier 5 %, 200 groups), apart from the
//! command line: small enough to be built again and again, and to be counted by `callgrind`, which a busy machine
//! does not disturb. Prints the report and CPU time for each write, the fill's among them.

use varve_lab::recovery::unwatched;
use varve_lab::waf::{PolicyName, WafRequest, Workload, run};

/// As the binary has it: allocations are a part of what is measured.
#[global_allocator]
static ALLOCATOR: varve_hostio::Allocator = varve_hostio::Allocator;

/// CPU time of the process in seconds.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("procfs");
    let ns = stat.split(' ').next().expect("three numbers");
    ns.parse::<u64>().expect("nanoseconds") as f64 * 1e-9
}

fn main() {
    varve_hostio::keep_freed_memory();
    varve_format::make_checksums_symbolic();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: f64| {
        arguments
            .get(at)
            .map_or(usual, |text| text.parse().expect("a number"))
    };
    let load = arguments.first().map_or("uniform", String::as_str);
    let request = WafRequest {
        workload: load.parse::<Workload>().expect("a load"),
        policy: PolicyName::Varve,
        over_provision: 20.0,
        fast_tier: 5.0,
        groups: 200,
        blocks: number(1, 2_000_000.0) as u64,
        warm_up: number(2, 4.0),
        measure: number(3, 4.0),
        ranks_per_block: 1,
        seed: 1,
    };
    let begun = cpu_s();
    let report = run(&request, &unwatched()).expect("the run ends well");
    let seconds = cpu_s() - begun;
    let user = report.host_blocks as f64 / request.measure;
    let writes = user * (1.0 + request.warm_up + request.measure);
    println!("{}", report.table());
    println!(
        "{seconds:.2} s of CPU, {:.0} ns a write",
        seconds / writes * 1e9
    );
}
