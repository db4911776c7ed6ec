//! Who is woken by an event, and how often.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use varve_io::{Event, Listen};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A flow that counts its wake-ups.
fn flow() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (Arc::clone(&count), Waker::from(count))
}

fn poll(listen: Pin<&mut Listen<'_>>, waker: &Waker) -> Poll<()> {
    listen.poll(&mut Context::from_waker(waker))
}

#[test]
fn each_listener_is_woken_once() {
    let event = Event::new();
    let flows: Vec<_> = (0..100).map(|_| flow()).collect();
    let mut listening: Vec<_> = flows.iter().map(|_| Box::pin(event.listen())).collect();
    for _ in 0..3 {
        for (listen, (_, waker)) in listening.iter_mut().zip(&flows) {
            assert_eq!(poll(listen.as_mut(), waker), Poll::Pending);
        }
    }
    // One that listens no more, and one that another flow goes on with.
    drop(listening.remove(40));
    let (other, waker) = flow();
    assert_eq!(poll(listening[7].as_mut(), &waker), Poll::Pending);
    event.notify();
    event.notify();
    let woken = |at: usize| flows[at].0.0.load(Ordering::Relaxed);
    let expected = |at: usize| usize::from(at != 40 && at != 7);
    assert!((0..100).all(|at| woken(at) == expected(at)));
    assert_eq!(other.0.load(Ordering::Relaxed), 1);
    for listen in &mut listening {
        assert_eq!(poll(listen.as_mut(), &waker), Poll::Ready(()));
    }
}

/// A flow that waits for something else too listens again and again: nothing of that stays.
#[test]
fn who_listens_over_and_over_leaves_nothing() {
    let event = Event::new();
    let (mine, waker) = flow();
    let (count, other) = flow();
    let mut patient = pin!(event.listen());
    assert_eq!(poll(patient.as_mut(), &other), Poll::Pending);
    for _ in 0..1000 {
        let mut listen = pin!(event.listen());
        assert_eq!(poll(listen.as_mut(), &waker), Poll::Pending);
    }
    assert_eq!(Arc::strong_count(&mine), 2, "the waker here and its flow");
    event.notify();
    assert_eq!(mine.0.load(Ordering::Relaxed), 0);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    // Before anybody has asked: what is notified afterwards counts.
    let mut late = pin!(event.listen());
    event.notify();
    assert_eq!(poll(late.as_mut(), &waker), Poll::Ready(()));
}
