//! A process that is asked to end, with reactors on several threads, is told and not killed.

use std::process::Command;
use std::rc::Rc;
use varve_hostio::{Io, Signal, Signals, run_reactors};
use varve_io::World;
use varve_units::Nanos;

/// Has another process ask this one.
fn ask(signal: &str) {
    let process = std::process::id().to_string();
    // The shell has one of its own, kill(1) need not be there.
    let command = ["-c", r#"kill "$0" "$1""#, signal, &process];
    let status = Command::new("sh").args(command).status();
    assert!(status.expect("a shell").success());
}

fn main() {
    let taken = |world: &Rc<dyn World>| {
        // Every thread has them blocked this way, whoever starts first.
        let io = Io::of(&**world).expect("io_uring");
        drop(Signals::take(io).expect("signals"));
    };
    let outcome = run_reactors(3, taken, |world| async move {
        let io = Io::of(&*world).expect("io_uring");
        let signals = Signals::take(io).expect("signals");
        let mut seen = Vec::new();
        for signal in ["-TERM", "-INT", "-TERM"] {
            let waking = world.sleep(Nanos::from_millis(10));
            let asking = world.run(async move {
                waking.await;
                ask(signal);
            });
            seen.push(signals.next().await.expect("a signal"));
            asking.await;
        }
        seen
    });
    let expected = vec![Signal::Terminate, Signal::Interrupt, Signal::Terminate];
    assert_eq!(outcome, Ok(expected));
    println!("terminate: ok");
}
