//! A simulated drive as one life of the pool sees it: commands, latencies, answers.

use super::state::{GONE_NS, Kind, State, Trace};
use crate::cache::Body;
use crate::executor::Reactor;
use crate::fingerprint::{Action, hash_bytes};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use varve_io::{
    Blocks, Command, Completion, Done, Drive, DriveInfo, Gather, IoError, Outcome, Segment, Sender,
    World,
};
use varve_units::Nanos;

pub(super) struct Attached {
    pub(super) state: Rc<RefCell<State>>,
    pub(super) incarnation: u64,
    pub(super) reactor: Rc<Reactor>,
}

impl Attached {
    /// Ends a command: trace, action hash, answer.
    fn end(state: &mut State, reactor: &Reactor, mut trace: Trace, outcome: &Outcome) {
        trace.at = reactor.now();
        trace.outcome = match outcome {
            Ok(_) => "ok",
            Err(IoError::Media) => "media error",
            Err(IoError::Gone) => "gone",
            Err(IoError::NoSpace) => "no space",
            Err(IoError::Timeout) => "timeout",
            Err(IoError::ReadOnly) => "read-only",
            Err(_) => "error",
        };
        let code = u64::from(outcome.is_ok());
        let drive = state.index as u64;
        let particulars = [drive, trace.offset, trace.length, code];
        reactor.journal().add(Action::Complete, &particulars);
        state.record(trace);
    }

    /// Ends a command after its latency with what `outcome` gives then.
    fn later(
        &self,
        at: Nanos,
        trace: Trace,
        sender: Sender<Outcome>,
        outcome: impl FnOnce(&mut State) -> Outcome + 'static,
    ) {
        let (state, reactor) = (Rc::clone(&self.state), Rc::clone(&self.reactor));
        let incarnation = self.incarnation;
        self.reactor.at(at, move || {
            let outcome = {
                let state = &mut *state.borrow_mut();
                let outcome = if state.is_gone || state.incarnation != incarnation {
                    Err(IoError::Gone)
                } else {
                    outcome(state)
                };
                Self::end(state, &reactor, trace, &outcome);
                outcome
            };
            match trace.kind {
                "write" | "repair" => reactor.wrote(),
                "flush" => reactor.flushed(),
                _ => {}
            }
            sender.send(outcome);
        });
    }

    fn write(&self, now: Nanos, trace: Trace, body: Body, sender: Sender<Outcome>) {
        let (id, visible, complete) = {
            let state = &mut *self.state.borrow_mut();
            let id = state.next;
            state.next += 1;
            let range = trace.offset..trace.offset + trace.length;
            if trace.kind == "write" {
                state.note_label(trace.offset, None);
                state.note_sent(now, id, &range);
            }
            let span = state.write_latency(now, &body);
            state.cache.begin(id, trace.offset, body);
            (id, state.rng.within(0, span), span)
        };
        let state = Rc::clone(&self.state);
        // The later timer of the two is also the later one to fire if both are due at once.
        self.reactor.at(now + Nanos(visible), move || {
            let state = &mut *state.borrow_mut();
            if state.is_gone {
                let _ = state.cache.show(id);
            } else {
                state.show(id);
            }
        });
        let ends = now + Nanos(complete);
        let is_write = trace.kind == "write";
        self.later(ends, trace, sender, move |state| {
            if is_write {
                state.note_label(trace.offset, Some(ends));
            }
            state.finish_write(id)
        });
    }

    fn is_gone(&self) -> bool {
        let state = self.state.borrow();
        state.is_gone || state.incarnation != self.incarnation
    }

    fn check(&self, command: &Command, offset: u64, length: u64) {
        let spec = self.state.borrow().spec;
        match command {
            Command::Flush => return,
            Command::Write { handle, .. } => {
                assert!(handle.0 < spec.handles, "no such placement handle");
            }
            _ => {}
        }
        let lba = u64::from(spec.lba_bytes);
        assert!(length > 0, "an empty command");
        assert!(
            offset.is_multiple_of(lba) && length.is_multiple_of(lba),
            "misaligned command: {offset:#x}+{length:#x} on {lba} byte blocks"
        );
        assert!(
            offset
                .checked_add(length)
                .is_some_and(|end| end <= spec.bytes),
            "command beyond the end: {offset:#x}+{length:#x} of {:#x}",
            spec.bytes
        );
    }
}

/// Hash of what a gather holds: all of the metadata, the head of each block.
fn hash_gather(gather: &Gather) -> u64 {
    let mut hash = 0_u64;
    for segment in gather.segments() {
        let part = match segment {
            Segment::Meta(sectors) => hash_bytes(sectors.bytes()),
            Segment::Data(blocks, range) => hash_data(blocks, range),
        };
        hash = crate::fingerprint::mix(hash ^ part);
    }
    hash
}

fn hash_data(blocks: &Blocks, range: &Range<usize>) -> u64 {
    range.clone().fold(0, |hash, index| {
        let part = match blocks.block(index) {
            varve_io::BlockRef::Bytes(bytes) => hash_bytes(&bytes[..64]),
            varve_io::BlockRef::Symbol(symbol) => symbol,
        };
        crate::fingerprint::mix(hash ^ part)
    })
}

/// Name, offset, length and content hash of a command.
fn describe(command: &Command) -> (&'static str, u64, u64, u64) {
    match command {
        Command::Read { offset, into, copy } => ("read", *offset, into.bytes(), u64::from(*copy)),
        Command::Write { offset, gather, .. } => {
            ("write", *offset, gather.bytes(), hash_gather(gather))
        }
        Command::Repair { offset, gather, .. } => {
            ("repair", *offset, gather.bytes(), hash_gather(gather))
        }
        Command::Flush => ("flush", 0, 0, 0),
        Command::Discard { offset, length } => ("discard", *offset, *length, 0),
    }
}

impl Attached {
    /// Does what a drive that answers is sent.
    fn carry_out(&self, command: Command, now: Nanos, trace: Trace, sender: Sender<Outcome>) {
        let refusal = self.state.borrow().refusal(now, &command);
        if let Some(refusal) = refusal {
            self.refuse(now, trace, sender, (refusal.name(), refusal.error));
            return;
        }
        match command {
            Command::Read { offset, into, .. } => {
                let span = self.state.borrow_mut().read_latency(now, &into);
                let ends = now + Nanos(span);
                self.later(ends, trace, sender, move |state| {
                    state.read(ends, offset, into)
                });
            }
            Command::Write { .. } | Command::Repair { .. } | Command::Discard { .. }
                if self.state.borrow().ailments.is_read_only =>
            {
                self.refuse(now, trace, sender, ("read_only", IoError::ReadOnly));
            }
            Command::Write { offset, gather, .. } | Command::Repair { offset, gather, .. } => {
                if let Some(laps) = &self.state.borrow().laps {
                    laps.borrow_mut().note(offset, &gather);
                }
                self.write(now, trace, Body::Gather(gather), sender);
            }
            Command::Discard { length, .. } => {
                let taken = self.state.borrow_mut().take_hint(length);
                if let Some(body) = taken {
                    self.write(now, trace, body, sender);
                } else {
                    let span = self.state.borrow_mut().latency(now, Kind::Write);
                    let nothing = |_: &mut State| Ok(Done::Nothing);
                    self.later(now + Nanos(span), trace, sender, nothing);
                }
            }
            Command::Flush => self.flush(now, trace, sender),
        }
    }

    /// A command that is refused after the time that a write would take.
    fn refuse(
        &self,
        now: Nanos,
        trace: Trace,
        sender: Sender<Outcome>,
        (name, error): (&'static str, IoError),
    ) {
        let span = self.state.borrow_mut().latency(now, Kind::Write);
        self.later(now + Nanos(span), trace, sender, move |state| {
            state.count(name);
            Err(error)
        });
    }

    fn flush(&self, now: Nanos, trace: Trace, sender: Sender<Outcome>) {
        let (span, mark, (id, error)) = {
            let mut state = self.state.borrow_mut();
            let span = state.latency(now, Kind::Flush);
            (span, state.cache.mark(), state.begin_flush(now))
        };
        self.later(now + Nanos(span), trace, sender, move |state| {
            if let Some(error) = error.or_else(|| state.refused_flush(id)) {
                return Err(error);
            }
            state.flushed(mark);
            Ok(Done::Nothing)
        });
    }
}

impl Drive for Attached {
    fn info(&self) -> DriveInfo {
        let spec = self.state.borrow().spec;
        DriveInfo {
            bytes: spec.bytes,
            lba_bytes: spec.lba_bytes,
            volatile_cache: spec.volatile_cache,
            copies: 1,
            handles: spec.handles,
            gap_blocks: spec.gap_blocks,
        }
    }

    fn submit(&self, command: Command) -> Completion {
        let (sender, completion) = Completion::waiting();
        if self.reactor.is_dead() {
            return completion;
        }
        let (kind, offset, length, content) = describe(&command);
        self.check(&command, offset, length);
        if let Some(what) = self.state.borrow().trespass(&command) {
            self.reactor.journal().fail(what.to_owned());
        }
        let now = self.reactor.now();
        let drive = self.state.borrow().index as u64;
        let word = u64::from(kind.as_bytes()[0]);
        let particulars = [drive, word, offset, length, content];
        self.reactor.journal().add(Action::Submit, &particulars);
        let trace = Trace {
            at: now,
            kind,
            offset,
            length,
            outcome: "",
        };
        if self.is_gone() {
            let gone = |_: &mut State| Err(IoError::Gone);
            self.later(now + Nanos(GONE_NS), trace, sender, gone);
            return completion;
        }
        self.carry_out(command, now, trace, sender);
        completion
    }
}
