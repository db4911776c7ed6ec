//! What fuzzing does with a host; ordinary tests replay the corpus through the same function.

use varve_initiator::{Action, Config, ConnectionId, Event, Host, Operation};
use varve_io::{Blocks, Gather, Target};
use varve_nvme::Nqn;
use varve_units::Nanos;

/// A host with short times and one I/O queue.
pub fn host() -> Host {
    let nqn = |text| Nqn::new(text).expect("a name");
    let host = nqn("nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555");
    let mut config = Config::new(nqn("nqn.2026-11.io.varve:test"), None, host, [7; 16]);
    config.queue_entries = 8;
    Host::new(Nanos(1), config)
}

/// What the host is asked once it is ready: always the same, so that the CIDs in a corpus fit.
pub fn requests() -> Vec<Operation> {
    let data = || {
        let mut gather = Gather::new();
        gather.push_data(Blocks::zeroed(5));
        gather
    };
    let (into, fua, deallocate) = (Target::Data(Blocks::zeroed(3)), false, true);
    let (data, expected) = (data(), data());
    vec![
        Operation::Read { lba: 0, into },
        Operation::Write { lba: 8, data, fua },
        Operation::Compare {
            lba: 8,
            data: expected,
        },
        Operation::Flush,
        Operation::WriteZeroes {
            lba: 20,
            blocks: 9,
            deallocate,
            fua,
        },
        Operation::Deallocate {
            ranges: vec![(1, 2), (40, 3)],
        },
    ]
}

/// The driver of a host whose peer is bytes.
struct Play {
    host: Host,
    now: Nanos,
    opened: Vec<ConnectionId>,
    has_asked: bool,
    answered: usize,
    is_closed: bool,
}

impl Play {
    /// Does what the host wants; what it sends is thrown away.
    fn settle(&mut self) {
        loop {
            if self.host.is_ready() && !self.has_asked {
                self.has_asked = true;
                for (id, operation) in requests().into_iter().enumerate() {
                    self.host.submit(self.now, id as u64, operation);
                }
            }
            while let Some(id) = self.host.next_woken() {
                let _ = self.host.transmit(self.now, id);
            }
            while self.host.next_completion().is_some() {
                self.answered += 1;
            }
            while let Some(event) = self.host.next_event() {
                self.is_closed |= event == Event::Closed;
            }
            match self.host.next_action() {
                None => return,
                Some(Action::Connect(id)) => {
                    self.host.connected(id);
                    self.opened.push(id);
                }
                Some(Action::Close(id)) => self.host.closed(self.now, id, true),
                Some(Action::Drop(_)) => {}
            }
        }
    }

    /// Feeds a stream: a PDU at a time as far as it says where it ends, else in pieces.
    fn feed(&mut self, id: ConnectionId, mut stream: &[u8], piece: usize) {
        while !stream.is_empty() {
            let said = stream.get(4..8).and_then(|bytes| bytes.try_into().ok());
            let said = said.map_or(0, u32::from_le_bytes) as usize;
            let whole = if (8..1 << 16).contains(&said) {
                said
            } else {
                piece
            };
            let (part, rest) = stream.split_at(whole.min(stream.len()));
            stream = rest;
            for part in part.chunks(piece) {
                self.host.receive(self.now, id, part);
                self.settle();
            }
        }
    }
}

/// First byte: size of the pieces that arrive. The next two: length of the first connection's stream;
/// the rest is that of the second. True if the host got as far as its requests.
pub fn controller_stream(bytes: &[u8]) -> bool {
    let [piece, low, high, streams @ ..] = bytes else {
        return false;
    };
    let mut play = Play {
        host: host(),
        now: Nanos(1),
        opened: Vec::new(),
        has_asked: false,
        answered: 0,
        is_closed: false,
    };
    play.settle();
    let length = usize::from(u16::from_le_bytes([*low, *high]));
    let (first, second) = streams.split_at(length.min(streams.len()));
    let piece = usize::from(*piece) * 16 + 1;
    for (index, stream) in [first, second].into_iter().enumerate() {
        if let Some(id) = play.opened.get(index).copied() {
            play.feed(id, stream, piece);
        }
    }
    let was_asked = play.has_asked;
    play.host.close(play.now);
    play.settle();
    // Whatever the controller does or does not answer, it is over in bounded time.
    for _ in 0..100 {
        let Some(deadline) = play.host.deadline() else {
            break;
        };
        play.now = play.now.max(deadline);
        play.host.tick(play.now);
        play.settle();
    }
    assert!(play.is_closed && play.host.deadline().is_none());
    let asked = if play.has_asked { requests().len() } else { 0 };
    assert_eq!((play.answered, play.host.pending()), (asked, 0));
    was_asked
}
