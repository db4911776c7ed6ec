//! The wrapper: forwards everything, counts what writes cost.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use varve_io::{
    Blocks, Command, Completion, Done, Drive, DriveInfo, Gather, Handle, IoError, Outcome, Sectors,
    Target,
};
use varve_media::{Isolation, Modelled, Placement, Shape, Ssd};

/// Notes what it is asked; every second write fails.
#[derive(Default)]
struct Recorder {
    seen: RefCell<Vec<String>>,
}

impl Drive for Recorder {
    fn info(&self) -> DriveInfo {
        DriveInfo {
            bytes: 1 << 30,
            lba_bytes: 512,
            volatile_cache: true,
            copies: 1,
            handles: 1,
            gap_blocks: 0,
        }
    }

    fn submit(&self, command: Command) -> Completion {
        let mut seen = self.seen.borrow_mut();
        let (text, outcome) = match command {
            Command::Read { offset, into, copy } => {
                (format!("read {offset} {copy}"), Ok(Done::Read(into)))
            }
            Command::Write { offset, gather, .. } => {
                let text = format!("write {offset} {}", gather.bytes());
                (text, Err(IoError::Media))
            }
            Command::Repair { offset, copy, .. } => {
                (format!("repair {offset} {copy}"), Ok(Done::Nothing))
            }
            Command::Flush => ("flush".to_owned(), Ok(Done::Nothing)),
            Command::Discard { offset, length } => {
                (format!("discard {offset} {length}"), Ok(Done::Nothing))
            }
        };
        seen.push(text);
        Completion::ready(outcome)
    }
}

fn end(mut completion: Completion) -> Outcome {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::Pin::new(&mut completion).poll(&mut context) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("the recorder ends at once"),
    }
}

fn gather(blocks: usize) -> Gather {
    let mut gather = Gather::new();
    gather.push_data(Blocks::zeroed(blocks));
    gather
}

#[test]
fn commands_are_forwarded_and_counted() {
    let shape = Shape::new(1 << 30, 65536, 60, 1_100_000, 32, true).expect("a possible shape");
    let recorder = Rc::new(Recorder::default());
    let drive = Modelled::new(Rc::clone(&recorder), Ssd::new(shape));
    let meter = drive.meter();
    assert_eq!(drive.info(), recorder.info());
    let written = drive.submit(Command::Write {
        offset: 65536,
        gather: gather(32),
        handle: Handle::default(),
    });
    assert!(matches!(end(written), Err(IoError::Media)));
    let mut meta = Gather::new();
    meta.push_meta(Sectors::zeroed(2));
    let commands = [
        Command::Write {
            offset: 512,
            gather: meta,
            handle: Handle::default(),
        },
        Command::Repair {
            offset: 0,
            gather: gather(1),
            copy: 1,
        },
        Command::Flush,
        Command::Discard {
            offset: 65536,
            length: 65536,
        },
        Command::Read {
            offset: 0,
            into: Target::Data(Blocks::zeroed(1)),
            copy: 0,
        },
    ];
    for command in commands {
        drop(end(drive.submit(command)));
    }
    let expected = [
        "write 65536 131072",
        "write 512 1024",
        "repair 0 1",
        "flush",
        "discard 65536 65536",
        "read 0 0",
    ];
    assert_eq!(*recorder.seen.borrow(), expected);
    let sums = std::thread::scope(|scope| {
        let reader = scope.spawn(move || meter.read());
        reader.join().expect("a reader")
    });
    assert_eq!(sums.host_bytes, 131_072 + 1024 + 4096);
    assert_eq!(sums.media_bytes, 131_072);
    assert_eq!(sums.deallocated_bytes, 65536);
    assert_eq!(sums, *drive.ssd().counters());
    assert_eq!(drive.ssd().waiting(), 1);
}

/// A write under a handle that the model has not counts for its last one.
#[test]
fn writes_are_counted_under_their_handles() {
    let shape = Shape::new(1 << 30, 4096, 60, 1_300_000, 32, true).expect("a possible shape");
    let placement = Placement {
        handles: 4,
        isolation: Isolation::Initially,
    };
    let shape = shape.with_placement(placement).expect("room for four");
    let drive = Modelled::new(Recorder::default(), Ssd::new(shape));
    assert_eq!(drive.info().handles, 4);
    for (at, handle) in [0, 2, 2, 9].into_iter().enumerate() {
        let write = Command::Write {
            offset: at as u64 * 8192,
            gather: gather(2),
            handle: Handle(handle),
        };
        drop(end(drive.submit(write)));
    }
    let ssd = drive.ssd();
    let bytes = ssd.handles().iter().map(|handle| handle.host_bytes);
    assert_eq!(bytes.collect::<Vec<_>>(), [8192, 0, 16384, 8192]);
}

#[test]
#[should_panic(expected = "a model of")]
fn a_model_is_as_large_as_its_drive() {
    let shape = Shape::new(1 << 29, 65536, 60, 1_100_000, 32, true).expect("a possible shape");
    drop(Modelled::new(Recorder::default(), Ssd::new(shape)));
}
