//! Streams: what is sent arrives, and whoever goes away is noticed.

use crate::common::{Random, Scratch};
use std::cell::Cell;
use std::io::{ErrorKind, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::rc::Rc;
use varve_hostio::{
    Disk, DiskOptions, Endpoint, Executor, FileDrive, Io, Listener, Outgoing, Stream,
    thread_cpu_time,
};
use varve_io::{Blocks, Drive, Gather, Segment, World};
use varve_units::Nanos;

/// Runs a flow with the two ends of a stream, over TCP (both versions) and a unix socket.
fn over_all(flow: impl AsyncFn(Rc<dyn World>, Stream, Stream) + Copy + 'static) {
    let scratch = Scratch::new();
    for endpoint in [
        Endpoint::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        Endpoint::Tcp(SocketAddr::from((Ipv6Addr::LOCALHOST, 0))),
        Endpoint::Unix(scratch.path("s")),
    ] {
        let executor = Executor::new();
        let world = executor.world();
        let io = Io::of(&*world).unwrap();
        let listener = match Listener::bind(io.clone(), &endpoint) {
            Ok(listener) => listener,
            Err(error) => {
                // A machine without IPv6.
                assert!(
                    matches!(endpoint, Endpoint::Tcp(SocketAddr::V6(_))),
                    "{error}"
                );
                println!("skipped: {endpoint}: {error}");
                continue;
            }
        };
        let run = async move {
            let there = listener.endpoint().clone();
            let connect = world.run(async move { Stream::connect(io, &there).await });
            let accepted = listener.accept().await.unwrap();
            let connected = connect.await.unwrap();
            drop(listener);
            flow(world, accepted, connected).await;
        };
        executor.run(run).unwrap();
    }
}

async fn receive_all(world: &dyn World, stream: &Stream, pause: bool) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let (count, buffer) = stream.receive(Vec::with_capacity(64 << 10)).await.unwrap();
        assert_eq!(count, buffer.len());
        if count == 0 {
            return all;
        }
        all.extend_from_slice(&buffer);
        if pause && all.len().is_multiple_of(7) {
            world.sleep(Nanos::from_micros(200)).await;
        }
    }
}

/// Headers and blocks, many more pieces and bytes than one call and the socket take, to a peer that
/// is slow.
#[test]
fn what_is_sent_arrives_in_order() {
    over_all(async |world, here, there| {
        let mut random = Random(1);
        let mut blocks = Blocks::zeroed(700);
        random.fill(blocks.bytes_mut());
        let blocks = Rc::new(blocks);
        let (mut what, mut expected) = (Outgoing::new(), Vec::new());
        for index in 0..700_usize {
            let mut header = vec![0; 1 + random.below(99) as usize];
            random.fill(&mut header);
            expected.extend_from_slice(&header);
            what.push(header);
            let start = index * 4096 + random.below(4000) as usize;
            let range = start..(index + 1) * 4096;
            expected.extend_from_slice(&blocks.bytes()[range.clone()]);
            what.push_blocks(Rc::clone(&blocks), range);
        }
        assert_eq!(what.len(), expected.len());
        let sending = world.run(async move {
            here.send(Outgoing::new()).await.unwrap();
            here.send(what).await.unwrap();
            here.shutdown(Shutdown::Write).unwrap();
            here
        });
        let all = receive_all(&*world, &there, true).await;
        assert!(all == expected);
        drop(sending.await);
    });
}

/// Both ways at once, through one reactor.
#[test]
fn both_directions_run_at_once() {
    over_all(async |world, here, there| {
        let (here, there) = (Rc::new(here), Rc::new(there));
        let ends = [Rc::clone(&here), Rc::clone(&there)];
        let sends: Vec<_> = ends
            .into_iter()
            .map(|stream| {
                world.run(async move {
                    for round in 0..200_u8 {
                        let mut what = Outgoing::new();
                        what.push(vec![round; 10_000]);
                        stream.send(what).await.unwrap();
                    }
                    stream.shutdown(Shutdown::Write).unwrap();
                })
            })
            .collect();
        let other = Rc::clone(&world);
        let receiving = world.run(async move { receive_all(&*other, &here, false).await.len() });
        let count = receive_all(&*world, &there, false).await.len();
        assert_eq!((count, receiving.await), (2_000_000, 2_000_000));
        for send in sends {
            send.await;
        }
    });
}

/// A stream that is dropped ends for its peer, also while a receive of its own is in flight.
#[test]
fn a_dropped_stream_ends_for_its_peer() {
    over_all(async |world, here, there| {
        let here = Rc::new(here);
        let other = Rc::clone(&here);
        let waiting = world.run(async move { other.receive(Vec::with_capacity(10)).await.is_ok() });
        world.sleep(Nanos::from_millis(2)).await;
        here.shutdown(Shutdown::Both).unwrap();
        assert!(waiting.await);
        drop(here);
        let (count, _) = there.receive(Vec::with_capacity(10)).await.unwrap();
        assert_eq!(count, 0);
        // The first may still be taken; a peer that has gone answers it with a reset.
        let mut last = Ok(());
        for _ in 0..3 {
            let mut what = Outgoing::new();
            what.push(vec![0; 100]);
            last = there.send(what).await;
            world.sleep(Nanos::from_millis(2)).await;
        }
        let kind = last.unwrap_err().kind();
        assert!(
            matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
            "{kind}"
        );
    });
}

/// A receive that nobody waits for any more is taken back.
#[test]
fn a_dropped_receive_is_cancelled() {
    over_all(async |world, here, there| {
        let mut receive = Box::pin(here.receive(Vec::with_capacity(10)));
        let begun = std::future::poll_fn(|context| {
            let is_pending = receive.as_mut().poll(context).is_pending();
            std::task::Poll::Ready(is_pending)
        });
        assert!(begun.await);
        drop(receive);
        world.sleep(Nanos::from_millis(2)).await;
        drop(here);
        let (count, _) = there.receive(Vec::with_capacity(10)).await.unwrap();
        assert_eq!(count, 0);
    });
}

#[test]
fn nobody_there_is_an_error() {
    let executor = Executor::new();
    let world = executor.world();
    let io = Io::of(&*world).unwrap();
    let any = Endpoint::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let listener = Listener::bind(io.clone(), &any).unwrap();
    let endpoint = listener.endpoint().clone();
    let twice = Listener::bind(io.clone(), &endpoint);
    assert_eq!(
        twice.err().map(|error| error.kind()),
        Some(ErrorKind::AddrInUse)
    );
    drop(listener);
    let outcome = executor.run(async move { Stream::connect(io, &endpoint).await.err() });
    let kind = outcome.unwrap().unwrap().kind();
    assert_eq!(kind, ErrorKind::ConnectionRefused);
}

#[test]
fn a_path_too_long_for_a_socket_is_refused() {
    let executor = Executor::new();
    let io = Io::of(&*executor.world()).unwrap();
    let endpoint = Endpoint::Unix("x".repeat(200).into());
    let outcome = executor.run(async move { Stream::connect(io, &endpoint).await.err() });
    assert_eq!(outcome.unwrap().unwrap().kind(), ErrorKind::InvalidInput);
}

/// Streams, drives and timers share one wait; with nothing to do none of them uses the processor.
#[test]
fn idle_streams_cost_nothing() {
    over_all(async |world, here, there| {
        let receiving = world.run(async move {
            let received = here.receive(Vec::with_capacity(10)).await.unwrap();
            (received.0, here)
        });
        world.sleep(Nanos::from_millis(1)).await;
        let before = thread_cpu_time();
        world.sleep(Nanos::from_millis(300)).await;
        let used = thread_cpu_time().since(before);
        assert!(used < Nanos::from_millis(30), "{used:?}");
        let mut what = Outgoing::new();
        what.push(*b"hello");
        there.send(what).await.unwrap();
        assert_eq!(receiving.await.0, 5);
    });
}

/// What is received goes to a drive and comes back from it, all on one ring.
#[test]
fn streams_and_drives_share_a_ring() {
    over_all(async |world, here, there| {
        let scratch = Scratch::new();
        let disk = Disk::create(&scratch.path("d"), 4 << 20, &DiskOptions::default()).unwrap();
        let io = Io::of(&*world).unwrap();
        let drive: Rc<dyn Drive> = Rc::new(FileDrive::new(io, disk));
        let echo = world.run(async move {
            for index in 0..200_u64 {
                let mut buffer = Vec::with_capacity(4096);
                while buffer.len() < 4096 {
                    buffer = here.receive(buffer).await.unwrap().1;
                }
                let mut block = Blocks::zeroed(1);
                block.bytes_mut().copy_from_slice(&buffer);
                let mut gather = Gather::new();
                gather.push(Segment::Data(Rc::new(block), 0..1));
                drive.write(index * 4096, gather).await.unwrap();
                let found = drive.read_data(index * 4096, Blocks::zeroed(1), 0).await;
                let mut what = Outgoing::new();
                what.push_blocks(Rc::new(found.unwrap()), 0..4096);
                here.send(what).await.unwrap();
            }
        });
        for index in 0..200_u64 {
            let mut sent = vec![0; 4096];
            Random(index).fill(&mut sent);
            let mut what = Outgoing::new();
            what.push(sent.clone());
            there.send(what).await.unwrap();
            let mut buffer = Vec::with_capacity(4096);
            while buffer.len() < 4096 {
                buffer = there.receive(buffer).await.unwrap().1;
            }
            assert!(buffer == sent, "{index}");
        }
        echo.await;
    });
}

/// Another thread wakes a reactor that sleeps in its ring.
#[test]
fn another_thread_reaches_a_reactor() {
    let executor = Executor::new();
    let world = executor.world();
    let (near, mut far) = Stream::pair(Io::of(&*world).unwrap()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for byte in 0..100_u8 {
                std::io::Write::write_all(&mut far, &[byte]).unwrap();
            }
        });
        let flow = async move { receive_all(&*world, &near, false).await };
        let expected: Vec<u8> = (0..100).collect();
        assert_eq!(executor.run(flow).unwrap(), expected);
    });
}

/// A reactor that looks for work before it sleeps hears the same, and does sleep when nothing comes.
#[test]
fn a_reactor_that_spins_sleeps_in_the_end() {
    let executor = Executor::new();
    executor.spin(Nanos::from_millis(1));
    let world = executor.world();
    let (near, mut far) = Stream::pair(Io::of(&*world).unwrap()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut byte = [0];
            for _ in 0..100 {
                std::io::Read::read_exact(&mut far, &mut byte).unwrap();
                std::io::Write::write_all(&mut far, &byte).unwrap();
            }
        });
        let flow = async move {
            for byte in 0..100_u8 {
                let mut what = Outgoing::new();
                what.push([byte]);
                near.send(what).await.unwrap();
                let (_, received) = near.receive(Vec::with_capacity(1)).await.unwrap();
                assert_eq!(received, [byte]);
            }
            let before = thread_cpu_time();
            world.sleep(Nanos::from_millis(300)).await;
            thread_cpu_time().since(before)
        };
        let used = executor.run(flow).unwrap();
        assert!(used < Nanos::from_millis(100), "{used:?}");
    });
}

/// What lies in a socket is received by its flow before a look at the outside ends, however busy the
/// reactor is with itself.
#[test]
fn a_look_at_the_outside_finds_what_lies_there() {
    for is_busy in [false, true] {
        let executor = Executor::new();
        let world = executor.world();
        let root = async move {
            let (near, far) = Stream::pair(Io::of(&*world).unwrap()).unwrap();
            let received = Rc::new(Cell::new(0));
            let count = Rc::clone(&received);
            world.spawn(Box::pin(async move {
                let mut buffer = Vec::with_capacity(1);
                while let Ok((1, mut full)) = near.receive(buffer).await {
                    count.set(count.get() + 1);
                    full.clear();
                    buffer = full;
                }
            }));
            if is_busy {
                let inner = Rc::clone(&world);
                world.spawn(Box::pin(async move {
                    loop {
                        inner.yield_now().await;
                    }
                }));
            }
            // The flow waits from here on.
            world.yield_now().await;
            for sent in 1..=100 {
                (&far).write_all(&[0]).unwrap();
                world.catch_up().await;
                assert_eq!(received.get(), sent);
            }
        };
        executor.run(root).unwrap();
    }
}
