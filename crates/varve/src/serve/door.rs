//! Lets few in, and nobody for long: connections to a port that answers short questions.
//!
//! Half a request, a peer that is gone, or one that reads nothing would keep a file descriptor for
//! ever, and hosts would lack it.

use axum::serve::Listener;
use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// Connections at a time; further ones wait. Arbitrary.
pub(super) const GUESTS_MAX: usize = 16;
/// How long one lasts at most, question and answer together. Arbitrary.
const STAY_MAX: Duration = Duration::from_secs(5);

/// A listener whose connections are few and short.
pub(super) struct Door {
    listener: TcpListener,
    seats: Arc<Semaphore>,
}

impl Door {
    pub(super) fn new(listener: TcpListener) -> Self {
        let seats = Arc::new(Semaphore::new(GUESTS_MAX));
        Self { listener, seats }
    }
}

impl Listener for Door {
    type Io = Guest;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guest, SocketAddr) {
        let seat = Arc::clone(&self.seats).acquire_owned().await;
        let seat = seat.expect("seats are never closed");
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let guest = Guest {
            stream,
            leaves: Box::pin(sleep(STAY_MAX)),
            _seat: seat,
        };
        (guest, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that fails when its time is over.
pub(super) struct Guest {
    stream: TcpStream,
    leaves: Pin<Box<Sleep>>,
    _seat: OwnedSemaphorePermit,
}

impl Guest {
    /// The stream, unless its time is over. Whoever waits for it is woken then.
    fn stream(&mut self, context: &mut Context<'_>) -> io::Result<Pin<&mut TcpStream>> {
        match self.leaves.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(Pin::new(&mut self.stream)),
        }
    }
}

impl AsyncRead for Guest {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream(context)?.poll_read(context, into)
    }
}

impl AsyncWrite for Guest {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream(context)?.poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(context)?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(context)?.poll_shutdown(context)
    }
}
