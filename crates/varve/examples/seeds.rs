//! The varve binary.

use varve_sim::campaign::campaign;
use varve_sim::real::Real;
use varve_sim::scenario::Options;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let range = arguments.get(1).map_or("0..10", String::as_str);
    let (start, end) = range.split_once("..").expect("A..B");
    let seeds = start.parse().expect("A")..end.parse().expect("B");
    let summary = campaign(
        seeds,
        &|| Box::new(Real::new(None)),
        Options::default(),
        2,
        &|report| {
            if let Some(failure) = &report.failure {
                println!(
                    "seed {}: {} at {}",
                    report.seed, failure.what, failure.place
                );
            }
        },
    );
    println!("{summary:?}");
}
