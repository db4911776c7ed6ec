//! Replays the corpus of `fuzz/`: what fuzzing started from and what it found. And makes the sessions it
//! starts from, so that they stay such as bring a host to its requests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use varve_initiator::{Action, ConnectionId};
use varve_nvme::Nqn;
use varve_target::{ConnectionId as TargetId, Hosts, Namespace, Operation, Subsystem, Target};
use varve_units::Nanos;

#[path = "../../../../fuzz/fuzz_targets/play/mod.rs"]
mod play;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/controller_stream")
}

fn target() -> Target<Vec<u8>> {
    let nqn = Nqn::new("nqn.2026-11.io.varve:test").expect("a name");
    let (serial, firmware) = ("VARVE0001".to_owned(), "0.1".to_owned());
    let subsystem = Subsystem::new(nqn, serial, firmware, Hosts::Any, Vec::new());
    let mut target = Target::new(subsystem);
    let namespace = Namespace {
        blocks: 512,
        nguid: [7; 16],
        uuid: [9; 16],
        is_volatile: true,
        is_thin: true,
        atomic_blocks: 512,
    };
    target.put_namespace(1, namespace).expect("a good one");
    target
}

/// What a target sends on the two connections of a session in which the host asks what it asks in
/// `play`.
fn session() -> [Vec<u8>; 2] {
    let (mut host, mut target, now) = (play::host(), target(), Nanos(1));
    let mut ids: BTreeMap<ConnectionId, TargetId> = BTreeMap::new();
    let mut streams = [Vec::new(), Vec::new()];
    let (mut has_asked, mut answers) = (false, 0);
    while answers < play::requests().len() {
        if host.is_ready() && !has_asked {
            has_asked = true;
            for (id, operation) in play::requests().into_iter().enumerate() {
                host.submit(now, id as u64, operation);
            }
        }
        while let Some(action) = host.next_action() {
            let Action::Connect(id) = action else {
                panic!("{action:?} in a good session");
            };
            ids.insert(id, target.accept(now).expect("room"));
            host.connected(id);
        }
        while let Some(id) = host.next_woken() {
            for segment in host.transmit(now, id) {
                assert_eq!(
                    target.receive(now, ids[&id], segment.as_ref()),
                    segment.as_ref().len()
                );
            }
        }
        while let Some(action) = target.next_action() {
            let data = match action.operation {
                Operation::Read { blocks, .. } => Some(vec![0; blocks as usize * 4096]),
                _ => None,
            };
            target.complete(action.connection, action.tag, Ok(data));
        }
        for (index, (id, target_id)) in ids.clone().into_iter().enumerate() {
            for segment in target.transmit(target_id) {
                streams[index].extend_from_slice(segment.as_ref());
                host.receive(now, id, segment.as_ref());
            }
        }
        answers += std::iter::from_fn(|| host.next_completion()).count();
    }
    streams
}

/// As an input.
fn input(first: &[u8], second: &[u8], piece: u8) -> Vec<u8> {
    let length = u16::try_from(first.len()).expect("a short dialogue");
    [&[piece], &length.to_le_bytes()[..], first, second].concat()
}

/// A session of today's target brings the host to its requests, cut into pieces of any size.
#[test]
fn sessions_lead_somewhere() {
    let [first, second] = session();
    for piece in [0, 1, 255] {
        assert!(
            play::controller_stream(&input(&first, &second, piece)),
            "{piece}"
        );
    }
    // A host that does not get that far proves little.
    assert!(!play::controller_stream(&input(&second, &first, 1)));
}

/// Every byte of a session, changed.
#[test]
fn sessions_with_a_wrong_byte() {
    let [first, second] = session();
    let bytes = input(&first, &second, 255);
    for at in (3..bytes.len()).filter(|at| *at < 2500 || at % 61 == 0) {
        let mut wrong = bytes.clone();
        wrong[at] ^= 1 << (at % 8);
        play::controller_stream(&wrong);
    }
}

/// Runs every file, also cut short at each of its first bytes.
#[test]
fn controller_streams() {
    let mut count = 0;
    for file in fs::read_dir(corpus()).expect("a corpus") {
        let path = file.expect("an entry").path();
        let bytes = fs::read(&path).expect("a readable file");
        println!("{}", path.display());
        play::controller_stream(&bytes);
        for end in 0..bytes.len().min(300) {
            play::controller_stream(&bytes[..end]);
        }
        count += 1;
    }
    assert!(count >= 3, "{count} files");
}
