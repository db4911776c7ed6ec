//! Small drives in virtual time, to try systems on.

use super::super::station::Station;
use super::super::system::{Io, System};
use crate::draw::Random;
use std::future::Future;
use std::rc::Rc;
use varve_io::World;
use varve_media::AnySheet;
use varve_sim::executor::{Executor, Journal, Reactor};
use varve_sim::rng::Rng;
use varve_units::{BLOCK_BYTES, Nanos};

/// Two drives: fast, dense.
pub(super) type Pair = (Rc<Station>, Rc<Station>);

/// Runs a flow with drives of so many blocks, both without state; returns its end and the time that
/// took.
pub(super) fn run<F: Future<Output = T> + 'static, T: 'static>(
    (fast, dense): (u64, u64),
    flow: impl FnOnce(Rc<Reactor>, Pair) -> F,
) -> (T, Nanos) {
    let mut executor = Executor::new(Rc::new(Journal::default()), Rng::new(1), Nanos(0)).in_order();
    let reactor = executor.reactor();
    let sheet = AnySheet::named("slc-002").expect("there is this drive");
    let drive = |blocks| Station::new(&sheet, blocks * BLOCK_BYTES, &reactor);
    let drives = (drive(fast).unwrap(), drive(dense).unwrap());
    let value = executor.run(flow(reactor, drives));
    let value = value.expect("the flow ends");
    (value, executor.crash())
}

/// A zoned drive with so many zones, each of a row in two dies: 48 blocks.
pub(super) fn zoned(zones: u32, reactor: &Rc<Reactor>) -> Rc<Station> {
    let Ok(AnySheet::Zoned(mut sheet)) = AnySheet::named("zns-zn540") else {
        panic!("there is this drive");
    };
    sheet.zones.count.value = zones;
    sheet.nand.dies.value = 2;
    Station::new(&AnySheet::Zoned(sheet), 1, reactor).unwrap()
}

/// Requests at random places and of random sizes up to `blocks_max`, of which a third reads, `depth`
/// in flight.
pub(super) async fn randomly(
    reactor: &Rc<Reactor>,
    system: &Rc<dyn System>,
    (seed, requests): (u64, u64),
    (depth, blocks_max): (u64, u64),
) {
    let world: &dyn World = &**reactor;
    let flows: Vec<_> = (0..depth)
        .map(|flow| {
            let (reactor, system) = (Rc::clone(reactor), Rc::clone(system));
            let blocks = system.bytes() / BLOCK_BYTES;
            world.run(async move {
                let mut random = Random::new(seed * 1000 + flow);
                for _ in 0..requests / depth {
                    let count = 1 + random.below(blocks_max);
                    let io = Io {
                        is_read: random.below(3) == 0,
                        offset: random.below(blocks - count + 1) * BLOCK_BYTES,
                        bytes: count * BLOCK_BYTES,
                    };
                    reactor.progress();
                    Rc::clone(&system)
                        .serve(io)
                        .await
                        .expect("models do not fail");
                }
            })
        })
        .collect();
    for flow in flows {
        flow.await;
    }
}

/// One write.
pub(super) async fn write<S: System>(system: &Rc<S>, block: u64, count: u64) {
    serve(system, false, block, count).await;
}

/// One read.
pub(super) async fn read<S: System>(system: &Rc<S>, block: u64, count: u64) {
    serve(system, true, block, count).await;
}

async fn serve<S: System>(system: &Rc<S>, is_read: bool, block: u64, count: u64) {
    let io = Io {
        is_read,
        offset: block * BLOCK_BYTES,
        bytes: count * BLOCK_BYTES,
    };
    let served = Rc::clone(system).serve(io).await;
    served.expect("models do not fail");
}
