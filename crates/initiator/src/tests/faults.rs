//! What goes wrong: silence, refusals, lost caches, damaged bytes.

use super::net::{BLOCK, DISK_BLOCKS, Net, config, content, gather, read};
use crate::{Config, Event, Failure, Loss, Operation, QUIET_MARGIN, Times};
use varve_nvme::tcp::Digests;
use varve_target::TRANSFER_BYTES_MAX;
use varve_units::Nanos;

fn write(seed: u64, fua: bool) -> Operation {
    Operation::Write {
        lba: 0,
        data: gather(seed, 0, 1),
        fua,
    }
}

fn ready(seed: u64) -> Net {
    let mut net = Net::new(seed, config());
    net.ready();
    net
}

fn is_lost(event: &Event) -> bool {
    matches!(event, Event::Lost { .. })
}

/// Cuts all connections under a write that the target has in hand; how long until it is answered.
fn wait_after_secret_loss(net: &mut Net) -> Nanos {
    net.is_held = true;
    let now = net.now;
    net.host.submit(now, 1, write(1, true));
    while net.orders.is_empty() {
        assert!(net.step());
    }
    let before = net.now;
    // The I/O queue's connection, or the admin queue's: all of them are lost either way.
    while net.cut(true) {}
    net.is_held = false;
    net.until("a completion", |net| !net.completions.is_empty());
    net.now.since(before)
}

/// A write that is on its way over a connection the target takes for alive is not sent again before
/// the target has noticed.
#[test]
fn a_secret_loss_is_waited_for() {
    let mut net = ready(1);
    let waited = wait_after_secret_loss(&mut net);
    let quiet = config().times.keep_alive + config().times.keep_alive + QUIET_MARGIN;
    assert!(waited >= quiet, "{waited}");
    assert!(net.disk[..BLOCK] == content(1, 0));
}

/// The target runs a longer timeout than it was asked for: what it rounds up to is waited for.
#[test]
fn a_timeout_is_waited_for_as_the_target_rounds_it() {
    let times = Times {
        keep_alive: Nanos::from_millis(300),
        ..Times::default()
    };
    let mut net = Net::new(8, Config { times, ..config() });
    net.ready();
    let waited = wait_after_secret_loss(&mut net);
    // The target's KAS is a second.
    let quiet = Nanos::from_secs(2) + QUIET_MARGIN;
    assert!(waited >= quiet, "{waited}");
}

/// Where nothing was changed there is nothing to wait for but the first attempt.
#[test]
fn a_loss_without_writes_is_made_good_at_once() {
    let mut net = ready(2);
    net.is_held = true;
    let now = net.now;
    net.host.submit(now, 1, read(0, 1));
    while net.orders.is_empty() {
        assert!(net.step());
    }
    let before = net.now;
    while net.cut(true) {}
    net.is_held = false;
    net.until("a completion", |net| !net.completions.is_empty());
    let waited = net.now.since(before);
    assert!(waited <= Nanos::from_millis(200), "{waited}");
}

/// A write of two commands, one of which is refused, is not over while the other may still land: its
/// caller might write there again, or let another host do so.
#[test]
fn a_refusal_is_told_when_nothing_of_its_request_is_under_way() {
    for is_secret in [false, true] {
        let mut net = ready(7);
        net.is_held = true;
        // The second command begins behind the end; the first waits for the disk.
        let lba = DISK_BLOCKS - u64::from(TRANSFER_BYTES_MAX) / BLOCK as u64;
        let data = gather(1, lba, (DISK_BLOCKS - lba) as usize + 1);
        let write = Operation::Write {
            lba,
            data,
            fua: true,
        };
        net.host.submit(net.now, 1, write);
        while net.step() {}
        assert_eq!((net.orders.len(), net.completions.len()), (1, 0));
        while net.cut(is_secret) {}
        let end = net.now + Nanos::from_secs(20);
        while net.now < end {
            if !net.step() {
                net.wait(Nanos::from_secs(1));
            }
            assert!(net.completions.is_empty(), "told too early");
        }
        net.is_held = false;
        net.until("a completion", |net| !net.completions.is_empty());
        assert!(net.orders.is_empty(), "told too early");
        let result = net.completions[0].result;
        assert!(matches!(result, Err(Failure::Status(_))), "{result:?}");
    }
}

#[test]
fn a_flush_does_not_vouch_for_a_cache_that_may_be_gone() {
    let mut net = ready(3);
    assert_eq!(net.run(write(1, false)).result, Ok(()));
    assert!(net.cut(false));
    net.until("a loss", |net| net.events.iter().any(is_lost));
    net.ready();
    // Whoever wrote is told, however many ask, and whatever is written meanwhile.
    assert_eq!(net.run(Operation::Flush).result, Err(Failure::CacheLost));
    assert_eq!(net.run(write(4, false)).result, Ok(()));
    assert_eq!(net.run(Operation::Flush).result, Err(Failure::CacheLost));
    net.host.accept_loss();
    assert_eq!(net.run(Operation::Flush).result, Ok(()));
    // A write that was flushed, and one that needed none.
    assert_eq!(net.run(write(2, false)).result, Ok(()));
    assert_eq!(net.run(Operation::Flush).result, Ok(()));
    assert_eq!(net.run(write(3, true)).result, Ok(()));
    net.events.clear();
    assert!(net.cut(false));
    net.until("a loss", |net| net.events.iter().any(is_lost));
    net.ready();
    assert_eq!(net.run(Operation::Flush).result, Ok(()));
}

#[test]
fn a_flush_in_flight_fails_with_its_cache() {
    let mut net = ready(4);
    assert_eq!(net.run(write(1, false)).result, Ok(()));
    net.is_held = true;
    let now = net.now;
    for id in [1, 2] {
        net.host.submit(now, id, Operation::Flush);
    }
    while net.orders.len() < 2 {
        assert!(net.step());
    }
    assert!(net.cut(false));
    net.is_held = false;
    net.until("completions", |net| net.completions.len() == 2);
    for one in &net.completions {
        assert_eq!(one.result, Err(Failure::CacheLost));
    }
    net.host.accept_loss();
    assert_eq!(net.run(Operation::Flush).result, Ok(()));
}

/// What is written after a loss, and not flushed, is as little vouched for after the next one.
#[test]
fn a_second_loss_is_told_like_the_first() {
    let mut net = ready(3);
    for _ in 0..2 {
        assert_eq!(net.run(write(1, false)).result, Ok(()));
        net.events.clear();
        assert!(net.cut(false));
        net.until("a loss", |net| net.events.iter().any(is_lost));
        net.ready();
        assert_eq!(net.run(write(2, false)).result, Ok(()));
        net.host.accept_loss();
    }
    assert!(net.cut(false));
    net.ready();
    assert_eq!(net.run(Operation::Flush).result, Err(Failure::CacheLost));
}

/// What is to be sent again while every slot is taken is no reason to wake: it goes out when a slot
/// comes free. A caller that ticks at deadlines would spin, and hear no answer.
#[test]
fn a_retry_without_a_free_slot_waits_for_one() {
    let queue_entries = 2;
    let mut net = Net::new(
        11,
        Config {
            queue_entries,
            ..config()
        },
    );
    net.ready();
    net.is_held = true;
    for id in [1, 2] {
        net.host.submit(net.now, id, read(id, 1));
    }
    while net.step() {}
    let refused = net.orders.remove(0);
    net.put_off(&refused);
    while net.step() {}
    assert_eq!(net.orders.len(), 1, "the slot is the other one's");
    // Longer than a refused command waits.
    net.now = net.now + Nanos::from_millis(300);
    net.host.tick(net.now);
    let deadline = net.host.deadline().expect("an answer is due");
    assert!(deadline > net.now, "{deadline} is not after {}", net.now);
    net.is_held = false;
    net.until("both", |net| net.completions.len() == 2);
    assert!(net.completions.iter().all(|one| one.result.is_ok()));
}

#[test]
fn a_backend_that_is_silent_is_given_up() {
    let times = Times {
        command: Nanos::from_secs(3),
        loss: Nanos::from_secs(20),
        ..Times::default()
    };
    let mut net = Net::new(5, Config { times, ..config() });
    net.ready();
    net.is_held = true;
    let now = net.now;
    net.host.submit(now, 1, read(0, 1));
    net.until("a loss", |net| net.events.iter().any(is_lost));
    let waited = net.now.since(now);
    assert!(
        waited >= times.command && waited < Nanos::from_secs(4),
        "{waited}"
    );
    let (loss, is_final) = (Loss::Timeout, false);
    assert_eq!(net.events.last(), Some(&Event::Lost { loss, is_final }));
}

#[test]
fn a_target_that_does_not_come_back_is_given_up() {
    let times = Times {
        loss: Nanos::from_secs(30),
        ..Times::default()
    };
    let mut net = Net::new(6, Config { times, ..config() });
    net.ready();
    let now = net.now;
    net.is_down = true;
    net.host.submit(now, 1, read(0, 1));
    assert!(net.cut(false));
    net.until("a completion", |net| !net.completions.is_empty());
    assert_eq!(net.completions[0].result, Err(Failure::Gone));
    let waited = net.now.since(now);
    assert!(
        waited >= times.loss && waited < Nanos::from_secs(42),
        "{waited}"
    );
    let attempts = net.events.iter().filter(|event| is_lost(event)).count();
    // 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10 s apart.
    assert!((8..=10).contains(&attempts), "{attempts}");
    assert!(matches!(
        net.events.last(),
        Some(Event::Lost { is_final: true, .. })
    ));
}

#[test]
fn a_first_attempt_tells_why_it_failed() {
    let mut config = config();
    config.subsystem = varve_nvme::Nqn::new("nqn.2026-11.io.varve:other").expect("a name");
    let mut net = Net::new(7, config);
    net.until("a loss", |net| !net.events.is_empty());
    let Event::Lost {
        loss: Loss::Command { what, status },
        is_final: true,
    } = &net.events[0]
    else {
        panic!("{:?}", net.events);
    };
    assert_eq!(
        (*what, status.code()),
        ("connecting the admin queue", 0x182)
    );
    let mut config = super::net::config();
    config.purpose = crate::Purpose::Namespace(Some(5));
    let mut net = Net::new(8, config);
    net.until("a loss", |net| !net.events.is_empty());
    let (loss, is_final) = (Loss::NoNamespace, true);
    assert_eq!(net.events, [Event::Lost { loss, is_final }]);
}

#[test]
fn another_namespace_under_the_same_name_is_refused() {
    let mut net = ready(9);
    net.target.remove_namespace(1);
    let mut other = super::net::namespace(DISK_BLOCKS);
    other.uuid = [10; 16];
    let put = net.target.put_namespace(1, other);
    put.expect("a good namespace");
    net.until("a loss", |net| net.events.iter().any(is_lost));
    let (loss, is_final) = (Loss::OtherNamespace, true);
    assert_eq!(net.events.last(), Some(&Event::Lost { loss, is_final }));
    assert_eq!(net.run(read(0, 1)).result, Err(Failure::Gone));
}

/// Who asked for that does not wait for a namespace that the controller takes away; anybody else does.
#[test]
fn a_namespace_that_is_taken_away_ends_it_where_that_was_asked_for() {
    for ends in [true, false] {
        let mut config = config();
        config.ends_with_namespace = ends;
        let mut net = Net::new(13, config);
        net.ready();
        net.target.remove_namespace(1);
        net.until("a loss", |net| net.events.iter().any(is_lost));
        let (loss, is_final) = (Loss::NoNamespace, ends);
        assert_eq!(net.events.last(), Some(&Event::Lost { loss, is_final }));
        if ends {
            assert_eq!(net.run(read(0, 1)).result, Err(Failure::Gone));
        }
    }
}

/// A host that took the first namespace there was stays with it when there are others later.
#[test]
fn the_namespace_that_was_taken_is_asked_for_again() {
    let mut net = Net::new(12, config());
    net.target.remove_namespace(1);
    let mut second = super::net::namespace(DISK_BLOCKS);
    (second.uuid, second.nguid) = ([10; 16], [10; 16]);
    net.target.put_namespace(2, second).expect("a good one");
    net.ready();
    let taken = *net.host.namespace().expect("it is ready");
    assert_eq!(taken.nsid, 2);
    let first = super::net::namespace(DISK_BLOCKS);
    net.target.put_namespace(1, first).expect("a good one");
    assert!(net.cut(false));
    net.until("a loss", |net| net.events.iter().any(is_lost));
    net.ready();
    assert_eq!(net.host.namespace(), Some(&taken));
}

/// With digests every damaged byte is noticed: data is asked for again, anything else ends the
/// connection, and both are made good.
#[test]
fn damaged_bytes_with_digests() {
    let mut net = Net::new(
        10,
        Config {
            digests: Digests {
                header: true,
                data: true,
            },
            ..config()
        },
    );
    net.ready();
    for seed in 1..60 {
        assert_eq!(net.run(write(seed, true)).result, Ok(()));
        let now = net.now;
        net.host.submit(now, 1, read(0, 1));
        // One in three hits the header of the data.
        let at = net.random.next() as usize;
        let at = if seed % 3 == 0 { at % 28 } else { at };
        while !net.damage(at) {
            assert!(net.step());
        }
        net.until("a completion", |net| !net.completions.is_empty());
        let done = net.completions.remove(0);
        assert_eq!(done.result, Ok(()));
        assert!(Net::bytes(done) == content(seed, 0), "read {seed}");
        net.ready();
    }
    assert!(net.events.iter().any(is_lost), "no header was hit");
}

/// Without digests damage may go unnoticed, but nothing panics and nothing hangs.
#[test]
fn damaged_bytes_without_digests() {
    for seed in 0..60 {
        let mut net = Net::new(seed, config());
        let mut hits = 0;
        for step in 0..4000 {
            if step % 37 == 36 && net.random.below(6) == 0 {
                let at = net.random.next() as usize;
                hits += u32::from(net.damage(at));
            }
            if net.host.is_ready() && net.host.pending() < 4 {
                let (now, lba) = (net.now, net.random.below(8));
                net.host.submit(now, 1, read(lba, 3));
            }
            if !net.step() {
                net.wait(Nanos::from_millis(100));
            }
        }
        assert!(hits > 3, "{hits} bytes damaged");
    }
}
