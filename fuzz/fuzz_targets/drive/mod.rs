//! What fuzzing does with its bytes; ordinary tests replay the corpora through the same functions.

#![allow(dead_code, reason = "each user drives one of them")]

use varve_nvme::tcp::{DataDigest, Decoder, Digests, Limits, Side};
use varve_nvme::{Nqn, discovery, identify};
use varve_target::{
    Completion, ConnectionId, Hosts, Listener, Namespace, Operation, Subsystem, Target,
};
use varve_units::Nanos;

const BLOCK: usize = 4096;
const NSID: u32 = 1;
const BLOCKS: u64 = 512;

fn target() -> Target<Vec<u8>> {
    let listener = Listener {
        advertise: "192.0.2.1:4420".parse().expect("an address"),
        is_discovery: false,
    };
    let nqn = Nqn::new("nqn.2026-11.io.varve:test").expect("a name");
    let (serial, firmware) = ("VARVE0001".to_owned(), "0.1".to_owned());
    let subsystem = Subsystem::new(nqn, serial, firmware, Hosts::Any, vec![listener]);
    let mut target = Target::new(subsystem);
    let namespace = Namespace {
        blocks: BLOCKS,
        nguid: [7; 16],
        uuid: [9; 16],
        is_volatile: true,
        is_thin: true,
        atomic_blocks: 512,
    };
    target.put_namespace(NSID, namespace).expect("a good one");
    target
}

/// What the target asks for lies inside the namespace, whatever the host sent.
fn perform(nsid: Option<u32>, operation: &Operation) -> Completion<Vec<u8>> {
    let inside = |lba: u64, blocks: u32| {
        assert_eq!(nsid, Some(NSID));
        assert!(
            blocks > 0 && lba + u64::from(blocks) <= BLOCKS,
            "{operation:?}"
        );
    };
    match operation {
        Operation::Read { lba, blocks } => {
            inside(*lba, *blocks);
            return Ok(Some(vec![0; *blocks as usize * BLOCK]));
        }
        Operation::Write { lba, data, .. } => {
            assert_eq!(data.len() % BLOCK, 0);
            inside(*lba, (data.len() / BLOCK) as u32);
        }
        Operation::WriteZeroes { lba, blocks, .. } => inside(*lba, *blocks),
        Operation::Deallocate { ranges } => {
            ranges
                .iter()
                .for_each(|(lba, blocks)| inside(*lba, *blocks));
        }
        Operation::Flush => assert!(nsid.is_none_or(|nsid| nsid == NSID)),
    }
    Ok(None)
}

fn run(target: &mut Target<Vec<u8>>) {
    while let Some(action) = target.next_action() {
        let result = perform(action.nsid, &action.operation);
        target.complete(action.connection, action.tag, result);
    }
}

/// Feeds all bytes; what comes back is thrown away.
fn feed(target: &mut Target<Vec<u8>>, id: ConnectionId, bytes: &[u8], piece: usize) {
    for part in bytes.chunks(piece) {
        let mut rest = part;
        while !rest.is_empty() {
            let taken = target.receive(Nanos(1), id, rest);
            rest = &rest[taken..];
            run(target);
            let sent = target.transmit(id);
            assert!(taken > 0 || !sent.is_empty(), "neither takes nor sends");
        }
    }
}

/// First byte: size of the pieces that arrive. Second: where the rest is split into the streams of
/// two connections, in 256ths.
pub fn host_stream(bytes: &[u8]) {
    let [piece, split, streams @ ..] = bytes else {
        return;
    };
    let mut target = target();
    let piece = usize::from(*piece) * 16 + 1;
    let (first, second) = streams.split_at(streams.len() * usize::from(*split) / 256);
    let ids = [first, second].map(|stream| {
        let id = target.accept(Nanos(1)).expect("room");
        feed(&mut target, id, stream, piece);
        id
    });
    let late = Nanos::from_secs(3600);
    target.tick(late, late);
    for id in ids {
        let _ = target.transmit(id);
        target.closed(id);
    }
    assert_eq!(target.controllers(), 0, "all was given back");
}

/// First byte: bit 0 the sender, bits 1 and 2 the digests, the rest the size of pieces.
pub fn pdu_decoder(bytes: &[u8]) {
    let [head, stream @ ..] = bytes else { return };
    let sender = if head & 1 == 0 {
        Side::Host
    } else {
        Side::Controller
    };
    let limits = Limits {
        capsule_data_max: 8192,
        data_max: 65_536,
        pda: 0,
    };
    let mut decoder = Decoder::new(sender, limits);
    decoder.set_digests(Digests::from_bits(head >> 1 & 3));
    'stream: for part in stream.chunks(usize::from(head >> 3) * 8 + 1) {
        let mut rest = part;
        while !rest.is_empty() {
            let Ok(progress) = decoder.feed(rest) else {
                break 'stream;
            };
            assert!(progress.taken > 0, "progress");
            rest = &rest[progress.taken..];
            if let Some(pdu) = progress.pdu {
                assert_eq!(pdu.header.kind().sender(), sender);
                assert!(pdu.data.len() <= 65_536);
                assert!(!pdu.data.is_empty() || pdu.digest == DataDigest::Absent);
            }
        }
    }
    let _ = discovery::read_log(stream);
    assert!(identify::read_namespace_list(stream).len() <= stream.len() / 4);
    assert!(identify::read_descriptors(stream).len() <= stream.len() / 4);
}
