//! Several reactors, one thread each.

use crate::executor::{Executor, Stalled, origin};
use crate::hub::Hub;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Barrier};
use varve_io::{ReactorId, World};

/// Runs `count` reactors: number 0 on the calling thread, the others on threads of their own.
///
/// `seat` is called on each thread first, with that reactor's world; then `root` runs on reactor 0.
/// When it ends all reactors end, and their tasks are dropped.
///
/// # Errors
/// [`Stalled`] if nothing is ready anywhere and `root` has not ended.
///
/// # Panics
/// If `count` is 0 or a thread cannot be had, or if a reactor panicked.
pub fn run_reactors<T, Root>(
    count: u16,
    seat: impl Fn(&Rc<dyn World>) + Sync,
    root: impl FnOnce(Rc<dyn World>) -> Root,
) -> Result<T, Stalled>
where
    T: 'static,
    Root: Future<Output = T> + 'static,
{
    assert!(count > 0, "there is at least one reactor");
    let hub = Arc::new(Hub::new(count));
    let origin = origin();
    let seated = Barrier::new(usize::from(count));
    std::thread::scope(|scope| {
        for id in (1..count).map(ReactorId) {
            let (hub, seat, seated) = (Arc::clone(&hub), &seat, &seated);
            scope.spawn(move || {
                let _guard = EndAll(Arc::clone(&hub));
                let arrival = Arrival(seated);
                let executor = Executor::seated(id, hub, origin);
                seat(&executor.world());
                drop(arrival);
                // A stall is told to reactor 0 as well.
                let _ = executor.serve();
            });
        }
        let _guard = EndAll(Arc::clone(&hub));
        let arrival = Arrival(&seated);
        let executor = Executor::seated(ReactorId(0), hub, origin);
        let world = executor.world();
        seat(&world);
        drop(arrival);
        executor.run(root(world))
    })
}

/// A reactor that has been seated, or that will not be: the others wait for each.
struct Arrival<'a>(&'a Barrier);

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// One reactor that ends, well or by a panic, ends all.
struct EndAll(Arc<Hub>);

impl Drop for EndAll {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use varve_io::{Absent, Event, Key};
    use varve_units::Nanos;

    const KEY: Key = *b"test of reactors";

    /// What each reactor keeps: how far the jobs of each peer have come.
    struct Local {
        world: Rc<dyn World>,
        seen: RefCell<Vec<u64>>,
        calls: Cell<u64>,
        done: Cell<u64>,
        changed: Event,
    }

    /// The others wait for one that panics before it is seated no longer than for one that does later.
    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_reactor_that_cannot_be_seated_ends_all() {
        let seat = |world: &Rc<dyn World>| assert_ne!(world.reactor(), ReactorId(1));
        let _ = run_reactors(3, seat, |_| std::future::pending::<()>());
    }

    fn seat(world: &Rc<dyn World>) {
        let local = Local {
            world: Rc::clone(world),
            seen: RefCell::new(vec![0; usize::from(world.reactors())]),
            calls: Cell::new(0),
            done: Cell::new(0),
            changed: Event::new(),
        };
        world.desk().unwrap().keep(KEY, Rc::new(local));
    }

    fn local(world: &Rc<dyn World>) -> Rc<Local> {
        world.desk().unwrap().kept(KEY).unwrap()
    }

    /// One reactor's load: calls to all peers in turn, jobs in between, a nap now and then.
    async fn load(local: Rc<Local>, flows: u64, rounds: u64) {
        let (me, count) = (local.world.reactor(), local.world.reactors());
        let number = Rc::new(Cell::new(
            vec![0_u64; usize::from(count)].into_boxed_slice(),
        ));
        let ended: Vec<_> = (0..flows)
            .map(|flow| {
                let (here, number) = (Rc::clone(&local), Rc::clone(&number));
                local.world.run(async move {
                    for round in 0..rounds {
                        let to = ReactorId(((flow + round) % u64::from(count)) as u16);
                        let mut next = number.take();
                        next[usize::from(to.0)] += 1;
                        let mine = next[usize::from(to.0)];
                        number.set(next);
                        here.world.tell(to, KEY, move |there: Rc<Local>| {
                            let seen = &mut there.seen.borrow_mut()[usize::from(me.0)];
                            assert_eq!(*seen + 1, mine, "jobs keep their order");
                            *seen = mine;
                        });
                        let answer = here
                            .world
                            .call(to, KEY, move |there: Rc<Local>| async move {
                                there.calls.set(there.calls.get() + 1);
                                if round % 7 == 0 {
                                    there.world.yield_now().await;
                                }
                                (there.world.reactor(), round * flow)
                            });
                        assert_eq!(answer.await, Ok((to, round * flow)));
                        if round % 500 == 499 {
                            here.world.sleep(Nanos::from_micros(200)).await;
                        }
                    }
                })
            })
            .collect();
        for flow in ended {
            flow.await;
        }
    }

    /// Every job arrives once and in order, every call is answered by whom it was made to, while
    /// reactors fall asleep and are woken all the time.
    #[test]
    fn jobs_and_calls_cross_threads() {
        const COUNT: u16 = 3;
        for (flows, rounds) in [(1, 4000), (40, 2000)] {
            let outcome = run_reactors(COUNT, seat, |world| async move {
                let here = local(&world);
                for peer in (0..COUNT).map(ReactorId) {
                    world.tell(peer, KEY, move |there: Rc<Local>| {
                        let world = Rc::clone(&there.world);
                        world.spawn(Box::pin(async move {
                            load(Rc::clone(&there), flows, rounds).await;
                            there.world.tell(ReactorId(0), KEY, |first: Rc<Local>| {
                                first.done.set(first.done.get() + 1);
                                first.changed.notify();
                            });
                        }));
                    });
                }
                while here.done.get() < u64::from(COUNT) {
                    here.changed.listen().await;
                }
                let mut calls = 0;
                for peer in (0..COUNT).map(ReactorId) {
                    let count = |there: Rc<Local>| async move { there.calls.get() };
                    calls += world.call(peer, KEY, count).await.unwrap();
                }
                calls
            });
            assert_eq!(outcome, Ok(u64::from(COUNT) * flows * rounds));
        }
    }

    #[test]
    fn a_reactor_that_keeps_nothing_says_so() {
        let outcome = run_reactors(
            2,
            |_| {},
            |world| async move {
                let call = world.call(ReactorId(1), KEY, |_: Rc<Local>| async {});
                call.await
            },
        );
        assert_eq!(outcome, Ok(Err(Absent)));
    }

    /// Reactors that all wait for one another are told, whoever lay down last.
    #[test]
    fn a_stall_of_all_is_told() {
        for _ in 0..200 {
            let outcome = run_reactors(2, seat, |world| async move {
                let wait = |there: Rc<Local>| async move { there.changed.listen().await };
                world.call(ReactorId(1), KEY, wait).await
            });
            assert_eq!(outcome, Err(Stalled));
        }
    }

    /// Two reactors that wait for each other's messages use little of their processors.
    #[test]
    fn idle_reactors_sleep() {
        let outcome = run_reactors(2, seat, |world| async move {
            let before = crate::thread_cpu_time();
            world.sleep(Nanos::from_millis(50)).await;
            crate::thread_cpu_time().since(before)
        });
        assert!(outcome.unwrap() < Nanos::from_millis(10));
    }
}
