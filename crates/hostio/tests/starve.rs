//! I/O goes on beside flows that never let a reactor rest.

use std::rc::Rc;
use varve_hostio::{Executor, Io, aside};
use varve_io::{ReactorId, World};
use varve_units::Nanos;

/// Work on a thread ends by i/o, whatever goes on beside it.
fn beside(what: impl FnOnce(&Rc<dyn World>)) {
    let executor = Executor::new();
    let world = executor.world();
    what(&world);
    let io = Io::of(&*world).expect("there is a ring");
    let done = executor.run(async move { aside(io, || 5).await.expect("it is done") });
    assert_eq!(done, Ok(5));
}

#[test]
fn timers_that_fire_in_every_turn() {
    beside(|world| {
        let clock = Rc::clone(world);
        world.spawn(Box::pin(async move {
            loop {
                clock.sleep(Nanos(0)).await;
            }
        }));
    });
}

#[test]
fn timers_of_many() {
    beside(|world| {
        for _ in 0..2000 {
            let clock = Rc::clone(world);
            world.spawn(Box::pin(async move {
                loop {
                    clock.sleep(Nanos::from_micros(50)).await;
                }
            }));
        }
    });
}

#[test]
fn yields_that_never_end() {
    beside(|world| {
        let clock = Rc::clone(world);
        world.spawn(Box::pin(async move {
            loop {
                clock.yield_now().await;
            }
        }));
    });
}

#[test]
fn calls_of_itself() {
    const KEY: [u8; 16] = *b"starve of a test";
    beside(|world| {
        let desk = world.desk().expect("real reactors have one");
        desk.keep(KEY, Rc::new(7_u32));
        let clock = Rc::clone(world);
        world.spawn(Box::pin(async move {
            loop {
                let answer = clock.call(ReactorId(0), KEY, |seven: Rc<u32>| async move { *seven });
                assert_eq!(answer.await, Ok(7));
            }
        }));
    });
}
