//! A host and a target that behave, over pipes that cut bytes anywhere.

use super::net::{BLOCK, DISK_BLOCKS, Net, config, content, gather, namespace, read};
use crate::{Event, Failure, Host, Operation, Purpose};
use std::vec;
use std::vec::Vec;
use varve_nvme::tcp::Digests;
use varve_units::Nanos;

const BOTH: Digests = Digests {
    header: true,
    data: true,
};

fn net(seed: u64, digests: Digests, queues: u16) -> Net {
    let mut net = Net::new(
        seed,
        crate::Config {
            digests,
            queues,
            ..config()
        },
    );
    net.ready();
    net
}

#[test]
fn the_namespace_is_what_the_target_serves() {
    let net = net(1, Digests::default(), 2);
    let info = net.host.namespace().expect("a namespace");
    assert_eq!(
        (info.nsid, info.blocks, info.block_bytes),
        (1, DISK_BLOCKS, 4096)
    );
    assert!(info.is_volatile && info.has_deallocate && !info.is_read_only);
    assert_eq!(info.identity.uuid, Some([9; 16]));
    assert_eq!(info.identity.nguid, Some([7; 16]));
    assert_eq!(net.events, [Event::Ready(*info)]);
    assert_eq!(net.host.queues(), Some((2, 127)));
}

/// Sizes around what goes into a capsule, what one command takes, and what takes several.
#[test]
fn what_is_written_is_read() {
    for (seed, digests) in [(1, Digests::default()), (2, BOTH)] {
        let mut net = net(seed, digests, 1);
        for blocks in [1, 2, 3, 16, 127, 128, 129, 300] {
            let seed = blocks as u64;
            let (data, fua) = (gather(seed, 5, blocks), blocks == 3);
            let done = net.run(Operation::Write { lba: 5, data, fua });
            assert_eq!(done.result, Ok(()));
            let found = Net::bytes(net.run(read(5, blocks)));
            let expected: Vec<u8> = (5..5 + seed).flat_map(|lba| content(seed, lba)).collect();
            assert!(found == expected, "{blocks} blocks");
            assert!(net.disk[5 * BLOCK..(5 + blocks) * BLOCK] == expected);
        }
    }
}

#[test]
fn every_kind_of_command() {
    let mut net = net(3, BOTH, 2);
    let write = |lba, blocks| Operation::Write {
        lba,
        data: gather(9, lba, blocks),
        fua: false,
    };
    assert_eq!(net.run(write(0, 200)).result, Ok(()));
    assert_eq!(net.run(Operation::Flush).result, Ok(()));
    let compare = |seed, blocks| Operation::Compare {
        lba: 0,
        data: gather(seed, 0, blocks),
    };
    assert_eq!(net.run(compare(9, 200)).result, Ok(()));
    let Err(Failure::Status(field)) = net.run(compare(8, 1)).result else {
        panic!("other data compare equal");
    };
    assert_eq!(field.code(), 0x285);
    let (deallocate, fua) = (true, true);
    let zeroes = Operation::WriteZeroes {
        lba: 10,
        blocks: 150,
        deallocate,
        fua,
    };
    assert_eq!(net.run(zeroes).result, Ok(()));
    assert!(
        net.disk[10 * BLOCK..160 * BLOCK]
            .iter()
            .all(|byte| *byte == 0)
    );
    assert!(net.disk[9 * BLOCK..10 * BLOCK] == content(9, 9));
    assert!(net.disk[160 * BLOCK..161 * BLOCK] == content(9, 160));
    // More ranges than one command has.
    let ranges: Vec<_> = (0..400).map(|at| (at * 2, 1)).collect();
    assert_eq!(net.run(Operation::Deallocate { ranges }).result, Ok(()));
    assert!(net.disk[2 * BLOCK..3 * BLOCK].iter().all(|byte| *byte == 0));
    assert!(net.disk[3 * BLOCK..4 * BLOCK] == content(9, 3));
    let beyond = net.run(read(DISK_BLOCKS - 1, 2));
    let Err(Failure::Status(field)) = beyond.result else {
        panic!("read beyond the end");
    };
    assert_eq!(field.code(), 0x80);
    assert_eq!(net.run(read(0, 0)).result, Ok(()));
}

/// Requests of a campaign.
const REQUESTS: usize = 200;

/// Random requests on ranges that do not overlap while in flight, against a model.
/// Gives the number of connections that were ended.
fn campaign(seed: u64, digests: Digests, queues: u16, is_rough: bool) -> u64 {
    let mut net = Net::new(
        seed,
        crate::Config {
            digests,
            queues,
            queue_entries: 2 + (seed % 9) as u16,
            times: super::net::brisk(),
            ..config()
        },
    );
    net.ready();
    let mut model = vec![0; DISK_BLOCKS as usize];
    let mut flying: Vec<Option<(u64, usize, Option<u64>)>> = Vec::new();
    let mut cuts = 0;
    let mut is_losing = false;
    let mut steps = 0;
    while flying.len() < REQUESTS || flying.iter().any(Option::is_some) {
        steps += 1;
        if flying.len() < REQUESTS && net.host.pending() < 12 && net.random.below(4) == 0 {
            submit(&mut net, &mut flying);
        }
        if is_rough && steps % 200 == 0 && flying.len() < REQUESTS {
            let is_secret = net.random.below(2) == 0;
            cuts += u64::from(net.cut(is_secret));
            // A network that fails does so for all connections.
            while is_secret && net.cut(true) {}
            is_losing = true;
        }
        if !net.step() {
            net.wait(Nanos::from_millis(700));
        }
        for done in core::mem::take(&mut net.completions) {
            let (lba, blocks, new) = flying[done.id as usize].take().expect("completed once");
            match done.result {
                Ok(()) => {}
                Err(Failure::CacheLost) if blocks == 0 && is_losing => {
                    net.host.accept_loss();
                    continue;
                }
                Err(failure) => panic!("seed {seed}: {failure} of {lba}+{blocks}"),
            }
            let range = lba as usize..lba as usize + blocks;
            if let Some(new) = new {
                model[range].fill(new);
            } else if blocks > 0 {
                let expected = range.flat_map(|lba| content(model[lba], lba as u64));
                let expected: Vec<u8> = expected.collect();
                assert!(Net::bytes(done) == expected, "seed {seed}: {lba}+{blocks}");
            }
        }
    }
    let disk = (0..DISK_BLOCKS).flat_map(|lba| content(model[lba as usize], lba));
    assert!(disk.eq(net.disk.iter().copied()), "seed {seed}: the disk");
    cuts
}

/// A request nobody else's range overlaps.
fn submit(net: &mut Net, flying: &mut Vec<Option<(u64, usize, Option<u64>)>>) {
    let id = flying.len() as u64;
    let blocks = match net.random.below(4) {
        0 => 1 + net.random.below(200) as usize,
        _ => 1 + net.random.below(4) as usize,
    };
    let lba = net.random.below(DISK_BLOCKS - blocks as u64 + 1);
    let overlaps = |(other, count, _): &(u64, usize, Option<u64>)| {
        *other < lba + blocks as u64 && lba < *other + *count as u64
    };
    if flying.iter().flatten().any(overlaps) {
        return;
    }
    let fua = net.random.below(3) == 0;
    let (operation, entry) = match net.random.below(8) {
        0 => (Operation::Flush, (0, 0, None)),
        1 => {
            let (deallocate, blocks64) = (fua, blocks as u64);
            let zeroes = Operation::WriteZeroes {
                lba,
                blocks: blocks64,
                deallocate,
                fua,
            };
            (zeroes, (lba, blocks, Some(0)))
        }
        2..5 => {
            let data = gather(id + 1, lba, blocks);
            let write = Operation::Write { lba, data, fua };
            (write, (lba, blocks, Some(id + 1)))
        }
        _ => (read(lba, blocks), (lba, blocks, None)),
    };
    flying.push(Some(entry));
    let now = net.now;
    net.host.submit(now, id, operation);
}

#[test]
fn random_requests_against_a_model() {
    for seed in 0..12 {
        let digests = Digests::from_bits((seed % 4) as u8);
        campaign(seed, digests, 1 + (seed % 3) as u16, false);
    }
}

/// Connections end at any moment, half of them without the target knowing: what it still finds in
/// its pipe must not overwrite what was written later.
#[test]
fn random_requests_while_connections_end() {
    let campaign = |seed| {
        let digests = Digests::from_bits((seed % 4) as u8);
        campaign(seed, digests, 1 + (seed % 3) as u16, true)
    };
    let cuts: u64 = (100..124).map(campaign).sum();
    assert!(cuts > 100, "{cuts} faults");
}

#[test]
fn the_association_lives_without_requests() {
    let mut net = net(4, Digests::default(), 1);
    let end = net.now + Nanos::from_secs(60);
    net.until("a minute", |net| net.now >= end);
    assert_eq!(net.events.len(), 1, "{:?}", net.events);
    assert_eq!(net.run(read(0, 1)).result, Ok(()));
}

#[test]
fn another_size_is_told() {
    let mut net = net(5, Digests::default(), 1);
    for blocks in [2000, 3000] {
        let put = net.target.put_namespace(1, namespace(blocks));
        put.expect("a good namespace");
        net.until("an event", |net| {
            net.host.namespace().expect("a namespace").blocks == blocks
        });
    }
    assert_eq!(net.events.len(), 3, "{:?}", net.events);
}

#[test]
fn an_orderly_end() {
    let mut net = net(6, BOTH, 3);
    assert_eq!(net.target.controllers(), 1);
    let write = Operation::Write {
        lba: 0,
        data: gather(1, 0, 1),
        fua: false,
    };
    assert_eq!(net.run(write).result, Ok(()));
    let now = net.now;
    net.host.close(now);
    net.until("the end", |net| net.events.last() == Some(&Event::Closed));
    assert_eq!(net.target.controllers(), 0);
    net.host.submit(now, 7, read(0, 1));
    let refused = net.host.next_completion().expect("an answer");
    assert_eq!(refused.result, Err(Failure::Gone));
    assert_eq!(net.host.deadline(), None);
}

#[test]
fn discovery() {
    let mut config = config();
    config.purpose = Purpose::Discovery;
    let mut net = Net::new(7, config);
    net.ready();
    let log = |net: &Net| match net.events.last() {
        Some(Event::Log(found)) => found.clone(),
        other => panic!("{other:?}"),
    };
    let found = log(&net);
    let subsystem = super::net::config().subsystem;
    assert!(
        found.iter().any(|one| one.subsystem == subsystem),
        "{found:?}"
    );
    net.target.set_listeners(Vec::new());
    net.until("another log", |net| net.events.len() > 1);
    assert!(log(&net).len() < found.len());
}

#[test]
#[should_panic(expected = "requests follow Event::Ready")]
fn requests_wait_for_the_namespace() {
    let mut host = Host::new(Nanos(0), config());
    host.submit(Nanos(0), 1, read(0, 1));
}
