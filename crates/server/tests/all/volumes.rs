//! Volumes of a pool as hosts see them: they come, grow, go, and are found again after a crash.

use crate::common::{MIB, Scratch, new_pool, new_volume};
use crate::scripted::{Host, NQN, pattern, write_sqe};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use varve_control::{Config, Home, Pools};
use varve_hostio::{Endpoint, Executor, Io, Listener};
use varve_io::World;
use varve_nvme::opcode::io as opcodes;
use varve_nvme::sqe::BlockRange;
use varve_nvme::{Nqn, Sgl, Sqe};
use varve_server::{Namespaces, Numbers, Server};
use varve_target::{Hosts, NSID_MAX, Subsystem};
use varve_units::{BLOCK, Nanos};

struct Bench {
    world: Rc<dyn World>,
    io: Io,
    to: SocketAddr,
    server: Server,
    pools: Rc<Pools>,
    namespaces: Rc<Namespaces>,
}

/// Runs a flow with a daemon's parts; what still runs at its end is dropped, as in a crash.
fn session<Flow: Future<Output = ()> + 'static>(
    home: &Path,
    flow: impl FnOnce(Bench) -> Flow + 'static,
) {
    let executor = Executor::new();
    let world = executor.world();
    let io = Io::of(&*world).unwrap();
    let nqn = Nqn::new(NQN).unwrap();
    let (serial, firmware) = ("TEST".to_owned(), "0".to_owned());
    let subsystem = Subsystem::new(nqn, serial, firmware, Hosts::Any, Vec::new());
    let server = Server::new(Rc::clone(&world), subsystem);
    let any = Endpoint::Tcp("127.0.0.1:0".parse().unwrap());
    let listener = Listener::bind(io.clone(), &any).unwrap();
    let Endpoint::Tcp(to) = server.listen(listener) else {
        panic!("a TCP listener");
    };
    let home = Home::open(home).unwrap();
    let numbers = Numbers::open(home.directory()).unwrap();
    let pools = Pools::new(Rc::clone(&world), home, Config::default()).unwrap();
    let namespaces = Namespaces::new(
        (Rc::clone(&world), io.clone()),
        server.clone(),
        Rc::clone(&pools),
        numbers,
    );
    let run = async move {
        let watch = pools.watch();
        for (_, outcome) in pools.open_all().await {
            outcome.unwrap();
        }
        namespaces.settle(|unserved| panic!("{unserved}")).await;
        let following = Rc::clone(&namespaces).follow(watch, |unserved| panic!("{unserved}"));
        world.spawn(Box::pin(following));
        let bench = Bench {
            world,
            io,
            to,
            server,
            pools,
            namespaces,
        };
        flow(bench).await;
    };
    executor.run(run).unwrap();
}

/// Volumes that were deleted while no daemon ran keep their numbers until all are taken, no longer.
#[test]
fn numbers_of_volumes_that_are_nowhere_are_given_again() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let wanted = new_pool(&scratch, "tank");
    let number = |nsid: u32| format!("\"{nsid:032x}\":{nsid}");
    let all: Vec<_> = (1..=NSID_MAX).map(number).collect();
    let table = format!(
        "{{\"schema_version\":1,\"namespaces\":{{{}}}}}",
        all.join(",")
    );
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("namespaces.json"), table).unwrap();
    session(&home, move |bench| async move {
        bench.pools.create_pool(&wanted).await.unwrap();
        let volume = new_volume("tank", "a", 16);
        bench.pools.create_volume(&volume).await.unwrap();
        let shown = bench.namespaces.shown();
        assert_eq!(shown.keys().collect::<Vec<_>>(), [&1]);
        bench.pools.close_all().await;
    });
}

/// Every volume is a namespace with a number of its own, and hosts are told of each change.
#[test]
fn hosts_follow_the_volumes() {
    let scratch = Scratch::new();
    let wanted = new_pool(&scratch, "tank");
    session(&scratch.path("home"), move |bench| async move {
        let pools = &bench.pools;
        pools.create_pool(&wanted).await.unwrap();
        let mut admin = Host::admin(&bench.io, bench.to, 1, 0, false).await;
        admin.enable_events().await;

        admin.ask_for_event().await;
        pools
            .create_volume(&new_volume("tank", "a", 16))
            .await
            .unwrap();
        assert_eq!(admin.changed_namespaces().await, [1]);
        admin.ask_for_event().await;
        pools
            .create_volume(&new_volume("tank", "b", 32))
            .await
            .unwrap();
        assert_eq!(admin.changed_namespaces().await, [2]);
        let size = |data: &[u8]| u64::from_le_bytes(data[..8].try_into().unwrap());
        assert_eq!(size(&admin.identify(0, 2).await.data), 32 * MIB / 4096);

        let mut queue = admin.queue(&bench.io, bench.to, 1, 1).await;
        let last = 16 * MIB / 4096 - 1;
        assert_eq!(queue.write(last, &pattern(5, BLOCK)).await, 0);
        assert_eq!(queue.write(last + 1, &pattern(6, BLOCK)).await, 0x080);
        admin.ask_for_event().await;
        pools
            .resize_volume("tank", "a", 20 * MIB, false)
            .await
            .unwrap();
        assert_eq!(admin.changed_namespaces().await, [1]);
        assert_eq!(size(&admin.identify(0, 1).await.data), 20 * MIB / 4096);
        assert_eq!(queue.write(last + 1, &pattern(6, BLOCK)).await, 0);
        assert!(queue.read(last, 1).await.data == pattern(5, BLOCK));

        admin.ask_for_event().await;
        pools.delete_volume("tank", "a", true).await.unwrap();
        assert_eq!(admin.changed_namespaces().await, [1]);
        assert_eq!(queue.read(0, 1).await.status, 0x00b);
        admin.ask_for_event().await;
        pools
            .create_volume(&new_volume("tank", "c", 4))
            .await
            .unwrap();
        assert_eq!(admin.changed_namespaces().await, [3], "a number of its own");
        admin.ask_for_event().await;
        pools.close("tank", false).await.unwrap();
        assert_eq!(admin.changed_namespaces().await, [2, 3]);
        assert!(bench.namespaces.shown().is_empty());
        admin.ask_for_event().await;
        pools.open("tank").await.unwrap();
        assert_eq!(admin.changed_namespaces().await, [2, 3], "as before");
        bench.server.drain().await;
        pools.close_all().await;
    });
}

/// All the commands of blocks, on a real volume.
#[test]
fn commands_do_what_they_say() {
    let scratch = Scratch::new();
    let wanted = new_pool(&scratch, "tank");
    session(&scratch.path("home"), move |bench| async move {
        bench.pools.create_pool(&wanted).await.unwrap();
        let volume = new_volume("tank", "a", 16);
        bench.pools.create_volume(&volume).await.unwrap();
        let admin = Host::admin(&bench.io, bench.to, 1, 0, true).await;
        let mut queue = admin.queue(&bench.io, bench.to, 1, 1).await;
        // Over the border of a leaf, by R2T.
        let data = pattern(3, 128 * BLOCK);
        assert_eq!(queue.write(450, &data).await, 0);
        assert!(queue.read(450, 128).await.data == data);
        let mut zeroes = Sqe::new(opcodes::WRITE_ZEROES, 0, 1);
        zeroes.set_range(BlockRange {
            slba: 451,
            count: 2,
        });
        zeroes.set_fua();
        assert_eq!(queue.command(zeroes, &[]).await.status, 0);
        let mut ranges = Vec::new();
        for (lba, count) in [(455_u64, 1_u32), (500, 30)] {
            ranges.extend_from_slice(&[0; 4]);
            ranges.extend_from_slice(&count.to_le_bytes());
            ranges.extend_from_slice(&lba.to_le_bytes());
        }
        let length = ranges.len() as u32;
        let mut discard = Sqe::new(opcodes::DATASET_MANAGEMENT, 0, 1)
            .with_sgl(Sgl::InCapsule { offset: 0, length });
        discard.set_cdw(10, 1);
        discard.set_cdw(11, 4);
        assert_eq!(queue.command(discard, &ranges).await.status, 0);
        let mut expected = data.clone();
        for (lba, count) in [(451, 2), (455, 1), (500, 30)] {
            expected[(lba - 450) * BLOCK..][..count * BLOCK].fill(0);
        }
        assert!(queue.read(450, 128).await.data == expected);
        assert_eq!(queue.flush().await, 0);
        let mut compare = Sqe::new(opcodes::COMPARE, 0, 1).with_sgl(Sgl::InCapsule {
            offset: 0,
            length: BLOCK as u32,
        });
        compare.set_range(BlockRange {
            slba: 450,
            count: 1,
        });
        assert_eq!(queue.command(compare, &expected[..BLOCK]).await.status, 0);
        assert_eq!(queue.command(compare, &[1; BLOCK]).await.status, 0x285);
        drop((queue, admin));
        bench.server.drain().await;
        bench.pools.close_all().await;
    });
}

/// What was acknowledged before a flush is there after a crash under load; hosts find everything under
/// the same names and numbers.
#[test]
fn a_crash_keeps_names_and_content() {
    const BLOCKS: u64 = 16 * MIB / 4096;
    let scratch = Scratch::new();
    let wanted = new_pool(&scratch, "tank");
    let home = scratch.path("home");
    let before = Rc::new(RefCell::new(Vec::new()));
    let found = Rc::clone(&before);
    session(&home, move |bench| async move {
        bench.pools.create_pool(&wanted).await.unwrap();
        for name in ["a", "b"] {
            let volume = new_volume("tank", name, 16);
            bench.pools.create_volume(&volume).await.unwrap();
        }
        bench.pools.delete_volume("tank", "a", true).await.unwrap();
        let mut admin = Host::admin(&bench.io, bench.to, 1, 0, false).await;
        let (names, size) = (admin.identify(3, 2).await, admin.identify(0, 2).await);
        found.borrow_mut().extend([names.data, size.data]);
        let mut queue = admin.queue(&bench.io, bench.to, 1, 1).await;
        queue.nsid = 2;
        for lba in (0..BLOCKS).step_by(16) {
            assert_eq!(queue.write(lba, &pattern(lba, 16 * BLOCK)).await, 0);
        }
        assert_eq!(queue.flush().await, 0);
        // Ends with a queue full of writes of the same content.
        let mut bytes = Vec::new();
        for at in 0..100 {
            let lba = at * 16;
            let content = &pattern(lba, 16 * BLOCK)[..BLOCK];
            let mut sqe = write_sqe(lba, BLOCK);
            sqe.nsid.set(2);
            queue.capsule(sqe, content, &mut bytes);
        }
        queue.send(&bytes).await;
        bench.world.sleep(Nanos::from_millis(1)).await;
    });
    session(&home, move |bench| async move {
        let mut admin = Host::admin(&bench.io, bench.to, 1, 0, false).await;
        assert!(admin.identify(3, 2).await.data == before.borrow()[0]);
        assert!(admin.identify(0, 2).await.data == before.borrow()[1]);
        let mut queue = admin.queue(&bench.io, bench.to, 1, 1).await;
        assert_eq!(queue.read(0, 1).await.status, 0x00b, "namespace 1 is gone");
        queue.nsid = 2;
        for lba in (0..BLOCKS).step_by(16) {
            let answer = queue.read(lba, 16).await;
            assert!(answer.data == pattern(lba, 16 * BLOCK), "lba {lba}");
        }
        drop((queue, admin));
        bench.server.drain().await;
        for (_, closed) in bench.pools.close_all().await {
            closed.unwrap();
        }
    });
}
