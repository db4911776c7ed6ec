//! Loops against a server whose queue theory knows.

use super::cpu::Cpu;
use super::load::Load;
use super::mix::{Law, Mix};
use super::pace::Pace;
use super::round::{Measured, Span};
use super::station::Station;
use super::system::{Flow, Io, Role, System};
use super::worker::{Source, Starts, Worker};
use crate::draw::{Poisson, Random};
use crate::recovery::unwatched;
use std::rc::Rc;
use varve_io::World;
use varve_sim::executor::{Executor, Journal};
use varve_sim::rng::Rng;
use varve_units::Nanos;

/// What the server takes for a request.
const SERVICE: Nanos = Nanos(100_000);

/// So many servers with one queue, nothing else.
struct Servers(Rc<Cpu>);

impl System for Servers {
    fn bytes(&self) -> u64 {
        1 << 30
    }

    fn serve(self: Rc<Self>, _io: Io) -> Flow {
        Box::pin(async move {
            self.0.work(SERVICE).await;
            Ok(())
        })
    }

    fn drives(&self) -> Vec<(Role, Rc<Station>)> {
        Vec::new()
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// One job at this share of what one server can do, with so many requests in flight at most, on so many
/// servers, for so long after a tenth of that.
fn measured(share: f64, depth: u32, servers: usize, window: Nanos) -> Measured {
    let mut executor = Executor::new(Rc::new(Journal::default()), Rng::new(1), Nanos(0)).in_order();
    let reactor = executor.reactor();
    let world = Rc::clone(&reactor) as Rc<dyn World>;
    let cpu = Cpu::new(world, servers);
    cpu.start();
    let load = Rc::new(Load {
        system: Rc::new(Servers(cpu)),
        reactor,
        watch: unwatched(),
    });
    let mix = Mix {
        jobs: 1,
        depth,
        bytes: 4096,
        reads_per_cent: 30,
        law: Law::Uniform,
        pace: Pace::Closed,
    };
    let places = mix.places(1 << 30, 1, 5).remove(0);
    let closed = Worker::new((0, 0, depth), Source::Places(places), None, None);
    let starts = Starts::Poisson(Poisson::new(SERVICE.0 as f64 / share, Random::new(7)));
    let workers = [Rc::new(closed.opened(starts, window))];
    let span = Span::Timed {
        ramp: Nanos(window.0 / 10),
        requests: u64::MAX,
    };
    let run = async move { load.measure(&workers, 1, span, true).await };
    let measured = executor.run(run).expect("it ends").expect("nothing fails");
    executor.crash();
    measured
}

fn latencies(measured: &Measured) -> Vec<u64> {
    measured.seen[0].latencies_ns.concat()
}

fn mean_ns(measured: &Measured) -> f64 {
    let all = latencies(measured);
    all.iter().sum::<u64>() as f64 / all.len() as f64
}

/// Poisson arrivals at one server that takes always as long wait for `share / (2 (1 - share))` of its
/// time on average (Pollaczek and Khinchine), and come as often as asked.
#[test]
fn waiting_times_are_those_of_theory() {
    for share in [0.5, 0.8, 0.9] {
        let measured = measured(share, 10_000, 1, Nanos::from_secs(60));
        let expected = SERVICE.0 as f64 * (1.0 + share / (2.0 * (1.0 - share)));
        let off = mean_ns(&measured) / expected - 1.0;
        assert!(off.abs() < 0.05, "{share}: {off}");
        let seen = &measured.seen[0];
        let requests: u64 = seen.requests.iter().sum();
        let kept = requests as f64 / (60e9 / SERVICE.0 as f64 * share);
        assert!((kept - 1.0).abs() < 0.01, "{share}: {kept}");
        let reads = seen.requests[0] as f64 / requests as f64;
        assert!((reads - 0.3).abs() < 0.01, "{reads}");
    }
}

/// Who waits for the host's own depth began when it was meant to: one in flight at eight servers waits
/// as eight in flight at one.
#[test]
fn waiting_for_the_depth_counts() {
    let at_host = measured(0.8, 1, 8, Nanos::from_secs(20));
    let at_server = measured(0.8, 10_000, 1, Nanos::from_secs(20));
    assert_eq!(latencies(&at_host).len(), latencies(&at_server).len());
    // But for nanoseconds, in which flows take turns.
    let ratio = mean_ns(&at_host) / mean_ns(&at_server);
    assert!((ratio - 1.0).abs() < 0.001, "{ratio}");
}

/// Twice as much as can be done is done at the rate that can be, and waits longer and longer.
#[test]
fn too_much_is_told_as_such() {
    let window = Nanos::from_secs(10);
    let measured = measured(2.0, 64, 1, window);
    let seen = &measured.seen[0];
    let requests: u64 = seen.requests.iter().sum();
    let rate = requests as f64 / seen.span.0 as f64 * SERVICE.0 as f64;
    assert!((rate - 1.0).abs() < 0.001, "{rate}");
    // What is meant to begin last, at 11 s, waits until all of 22 s of work is done.
    let longest = *latencies(&measured).iter().max().expect("something ended");
    assert!((longest as f64 / 11e9 - 1.0).abs() < 0.02, "{longest}");
}
