//! One connection's flow: receives, has the target take it, sends what the target answers.
//!
//! Both directions are one flow, so that a wake-up gives the kernel the next receive and the
//! answers to the last one together.

use crate::server::Core;
use crate::stream::{ByteStream, Call};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use varve_ftl::Recall;
use varve_io::Receiver;
use varve_target::ConnectionId;
use varve_units::Nanos;

/// Bytes received at once by a new connection. Arbitrary: admin queues need no more.
const RECEIVE_BYTES_MIN: usize = 16 << 10;
/// Bytes received at once by a connection that had more to give. Arbitrary: 32 writes of 4 KiB and
/// their headers twice over.
const RECEIVE_BYTES_MAX: usize = 256 << 10;
/// Data that is received where it belongs, if this much of it is missing. Arbitrary: what follows it
/// comes with a receive of its own.
const LENT_BYTES_MIN: usize = 32 << 10;
/// How long a connection that ends may take to be sent its last answers and to notice. Arbitrary.
pub(crate) const LINGER: Nanos = Nanos::from_secs(1);

/// A connection as the server sees it.
pub(crate) struct Line {
    pub id: ConnectionId,
    /// Absent while its flow runs.
    waker: RefCell<Option<Waker>>,
    is_woken: Cell<bool>,
    /// Recalled when nobody will be told of them any more.
    pub recall: Recall,
}

impl Line {
    pub fn new(id: ConnectionId) -> Rc<Self> {
        Rc::new(Self {
            id,
            waker: RefCell::default(),
            is_woken: Cell::new(false),
            recall: Recall::default(),
        })
    }

    /// There is something to do for the connection's flow.
    pub fn wake(&self) {
        self.is_woken.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

type Receiving = Call<(usize, Vec<u8>)>;

enum Input {
    /// The kernel has the buffer.
    Receiving(Receiving),
    /// The kernel has the data that the target is waiting for; the buffer, empty, for what follows.
    Lent {
        receiving: Receiving,
        buffer: Vec<u8>,
    },
    /// Received; the target has taken the first `taken` bytes.
    Received { buffer: Vec<u8>, taken: usize },
}

/// The connection has ended.
struct Over;

/// The flow; it ends when the connection has.
pub(crate) struct Flow {
    core: Rc<Core>,
    line: Rc<Line>,
    stream: Box<dyn ByteStream>,
    input: Input,
    sending: Option<Call<()>>,
    /// Runs from the moment when the connection is to end.
    linger: Option<Receiver<()>>,
    is_shut: bool,
}

impl Flow {
    pub fn new(core: Rc<Core>, line: Rc<Line>, stream: Box<dyn ByteStream>) -> Self {
        let input = Input::Received {
            buffer: Vec::with_capacity(RECEIVE_BYTES_MIN),
            taken: 0,
        };
        Self {
            core,
            line,
            stream,
            input,
            sending: None,
            linger: None,
            is_shut: false,
        }
    }

    /// Does what can be done now. True if it is worth another look.
    fn advance(&mut self, context: &mut Context<'_>) -> Result<bool, Over> {
        let has_received = self.receive(context)?;
        let has_fed = self.feed();
        let has_sent = self.send(context)?;
        self.end(context)?;
        Ok(has_received || has_fed || has_sent)
    }

    fn receive(&mut self, context: &mut Context<'_>) -> Result<bool, Over> {
        if let Input::Received { buffer, taken } = &mut self.input {
            if *taken < buffer.len() {
                return Ok(false);
            }
            // Who may not connect, or has not yet, gets no more memory for it.
            let may_grow = self.core.is_connected(self.line.id);
            let buffer = next_buffer(std::mem::take(buffer), may_grow);
            let lends =
                !self.core.is_draining() && self.core.missing(self.line.id) >= LENT_BYTES_MIN;
            self.input = if lends {
                let receiving = self.stream.receive(self.core.lend(self.line.id));
                Input::Lent { receiving, buffer }
            } else {
                Input::Receiving(self.stream.receive(buffer))
            };
        }
        let (Input::Receiving(receiving) | Input::Lent { receiving, .. }) = &mut self.input else {
            return Ok(false);
        };
        let received = match receiving.as_mut().poll(context) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Ok((0, _)) | Err(_)) => return Err(Over),
            Poll::Ready(Ok((_, received))) => received,
        };
        let buffer = match &mut self.input {
            Input::Lent { buffer, .. } => {
                let mut buffer = std::mem::take(buffer);
                let surplus = self.core.give_back(self.line.id, received);
                buffer.extend_from_slice(&surplus);
                buffer
            }
            _ => received,
        };
        self.input = Input::Received { buffer, taken: 0 };
        Ok(true)
    }

    /// Gives the target what was received, as much as it takes.
    fn feed(&mut self) -> bool {
        let Input::Received { buffer, taken } = &mut self.input else {
            return false;
        };
        let rest = &buffer[*taken..];
        if rest.is_empty() {
            return false;
        }
        let count = if self.core.is_draining() {
            rest.len()
        } else {
            self.core.receive(self.line.id, rest)
        };
        *taken += count;
        count > 0
    }

    /// Sends, in the target's batches.
    fn send(&mut self, context: &mut Context<'_>) -> Result<bool, Over> {
        let mut has_sent = false;
        loop {
            if let Some(sending) = &mut self.sending {
                match sending.as_mut().poll(context) {
                    Poll::Pending => return Ok(has_sent),
                    Poll::Ready(Err(_)) => return Err(Over),
                    Poll::Ready(Ok(())) => self.sending = None,
                }
                has_sent = true;
            }
            let what = self.core.transmit(self.line.id);
            if what.is_empty() {
                return Ok(has_sent);
            }
            self.sending = Some(self.stream.send(what));
        }
    }

    /// A connection that is to end: the host is told, after the last answer, and has a moment to read
    /// it. Closing at once would reset the connection and could take the answer away.
    fn end(&mut self, context: &mut Context<'_>) -> Result<(), Over> {
        // All together: with its admin queue an association ends, and the answers that its other queues wait for.
        let is_drained = self.core.is_draining() && self.core.in_flight() == 0;
        let is_closing = self.core.is_closing(self.line.id);
        if !is_drained && !is_closing {
            return Ok(());
        }
        if is_closing && !self.line.recall.is_recalled() {
            self.line.recall.recall();
        }
        let core = &self.core;
        let linger = self.linger.get_or_insert_with(|| core.world.sleep(LINGER));
        if Pin::new(linger).poll(context).is_ready() {
            return Err(Over);
        }
        if self.sending.is_none() && !self.is_shut {
            self.is_shut = true;
            if self.stream.end_sending().is_err() {
                return Err(Over);
            }
        }
        Ok(())
    }
}

impl Future for Flow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // What this flow does to itself wakes it by the mark alone.
        self.line.waker.take();
        let mut has_rested = false;
        loop {
            self.line.is_woken.set(false);
            match self.advance(context) {
                Ok(true) => has_rested = false,
                Ok(false) if !self.line.is_woken.get() => break,
                Ok(false) if !has_rested => has_rested = true,
                // Woken again without having moved: what it waits for may be the reactor's to do.
                Ok(false) => {
                    context.waker().wake_by_ref();
                    break;
                }
                Err(Over) => return Poll::Ready(()),
            }
        }
        self.line.waker.replace(Some(context.waker().clone()));
        Poll::Pending
    }
}

/// The buffer again, empty; a larger one if it was full and `may_grow`.
fn next_buffer(mut buffer: Vec<u8>, may_grow: bool) -> Vec<u8> {
    let capacity = buffer.capacity();
    if may_grow && buffer.len() == capacity && capacity < RECEIVE_BYTES_MAX {
        return Vec::with_capacity((capacity * 4).min(RECEIVE_BYTES_MAX));
    }
    buffer.clear();
    buffer
}
