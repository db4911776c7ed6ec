//! From other threads to the control plane and back.
//!
//! A [`Caller`] puts what it asks into a queue and rings; the reactor, which sleeps in its ring,
//! wakes, does what is asked and answers.

use crate::error::ControlError;
use crate::failure::Failure;
use crate::pools::Pools;
use crate::request::{Reply, Request};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use tokio::sync::oneshot;
use varve_hostio::{Io, Stream};
use varve_io::World;

/// Rings taken at once: a bell is a byte.
const BELLS_MAX: usize = 64;

/// Requests that may wait to be taken. Arbitrary: far more than administrators and their programs
/// ask at once.
const CALLS_MAX: usize = 256;

/// What was asked, and where the answer goes.
struct Call {
    request: Request,
    answer: oneshot::Sender<Result<Reply, Failure>>,
}

/// The end that asks; any thread may have one.
#[derive(Clone)]
pub struct Caller {
    calls: SyncSender<Call>,
    bell: Arc<UnixStream>,
}

/// The end that answers, on the data reactor.
pub struct Line {
    calls: Receiver<Call>,
    bell: Stream,
}

/// A line to the control plane of the reactor whose world this is.
///
/// # Errors
/// No `io_uring`, or the system's.
pub fn line(world: &dyn World) -> io::Result<(Caller, Line)> {
    let io = Io::of(world).map_err(io::Error::other)?;
    let (near, far) = Stream::pair(io)?;
    let (sender, receiver) = sync_channel(CALLS_MAX);
    let caller = Caller {
        calls: sender,
        bell: Arc::new(far),
    };
    let line = Line {
        calls: receiver,
        bell: near,
    };
    Ok((caller, line))
}

impl Caller {
    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// What failed; also if the control plane has ended, or too many wait for it.
    pub async fn ask(&self, request: Request) -> Result<Reply, Failure> {
        let (answer, answered) = oneshot::channel();
        self.calls
            .try_send(Call { request, answer })
            .map_err(|refused| match refused {
                TrySendError::Full(_) => ControlError::Crowded(CALLS_MAX),
                TrySendError::Disconnected(_) => ControlError::Ended,
            })?;
        if (&*self.bell).write_all(&[0]).is_err() {
            return Err(ControlError::Ended.into());
        }
        match answered.await {
            Ok(answer) => answer,
            Err(_) => Err(ControlError::Ended.into()),
        }
    }
}

impl Pools {
    /// Answers what is asked over a line, until all its callers are gone. What a daemon does not do
    /// while it serves hosts, it refuses.
    pub async fn serve(self: Rc<Self>, line: Line) {
        let mut buffer = Vec::with_capacity(BELLS_MAX);
        loop {
            match line.bell.receive(buffer).await {
                Ok((0, _)) | Err(_) => return,
                Ok((_, mut rung)) => {
                    rung.clear();
                    buffer = rung;
                }
            }
            while let Ok(Call { request, answer }) = line.calls.try_recv() {
                let pools = Rc::clone(&self);
                self.world.spawn(Box::pin(async move {
                    let outcome = match &request {
                        Request::PoolCheck { pool } => {
                            let known = pools.home.registry();
                            Err(match known.map(|all| all.get(pool).is_some()) {
                                Ok(true) => ControlError::Served(pool.clone()).into(),
                                Ok(false) => ControlError::NoPool(pool.clone()).into(),
                                Err(error) => error.into(),
                            })
                        }
                        _ => pools.answer(request).await,
                    };
                    // Whoever asked may have left.
                    let _ = answer.send(outcome);
                }));
            }
        }
    }
}
