//! Byte streams of `hostio` as the initiator wants them.

use std::cell::RefCell;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use varve_hostio::{Endpoint, Io, Outgoing, Stream};
use varve_initiator::{ByteStream, Segment, StreamEnd, Transport};
use varve_io::Segment as Piece;
use varve_units::BLOCK;

/// Makes TCP streams to one address.
pub(crate) struct HostTransport {
    io: Io,
    endpoint: Endpoint,
    refusal: Refusal,
}

/// Why the last connection did not come about, in the system's words.
type Refusal = Rc<RefCell<Option<String>>>;

/// A TCP stream.
pub(crate) struct HostStream(Rc<Stream>);

impl HostTransport {
    /// To `address`, on a reactor.
    pub(crate) fn new(io: Io, address: SocketAddr) -> Self {
        let endpoint = Endpoint::Tcp(address);
        Self {
            io,
            endpoint,
            refusal: Refusal::default(),
        }
    }

    /// Why the last connection did not come about: who made this may want to know, and the initiator knows
    /// nothing of sockets.
    pub(crate) fn refusal(&self) -> Refusal {
        Rc::clone(&self.refusal)
    }
}

impl Transport for HostTransport {
    type Stream = HostStream;

    fn connect(&self) -> impl Future<Output = Result<HostStream, StreamEnd>> + 'static {
        let (io, endpoint) = (self.io.clone(), self.endpoint.clone());
        let refusal = self.refusal();
        async move {
            let stream = Stream::connect(io, &endpoint).await;
            let stream = stream.map_err(|error| {
                *refusal.borrow_mut() = Some(error.to_string());
                end_of(&error)
            });
            stream.map(|stream| HostStream(Rc::new(stream)))
        }
    }
}

impl ByteStream for HostStream {
    fn receive(
        &self,
        into: Vec<u8>,
    ) -> impl Future<Output = Result<(usize, Vec<u8>), StreamEnd>> + 'static {
        let stream = Rc::clone(&self.0);
        async move { stream.receive(into).await.map_err(|error| end_of(&error)) }
    }

    fn send(
        &self,
        segments: Vec<Segment>,
    ) -> impl Future<Output = Result<(), StreamEnd>> + 'static {
        let stream = Rc::clone(&self.0);
        let what = outgoing(segments);
        async move { stream.send(what).await.map_err(|error| end_of(&error)) }
    }

    fn end_sending(&self) {
        // A peer that is gone needs not be told.
        let _ = self.0.shutdown(Shutdown::Write);
    }

    fn end(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Blocks are shared with the kernel; the little that is metadata is copied.
fn outgoing(segments: Vec<Segment>) -> Outgoing {
    let mut all = Outgoing::new();
    for segment in segments {
        match segment {
            Segment::Bytes(bytes) => all.push(bytes),
            Segment::Piece(Piece::Data(blocks, within), range) => {
                let start = within.start * BLOCK;
                all.push_blocks(blocks, start + range.start..start + range.end);
            }
            Segment::Piece(Piece::Meta(sectors), range) => all.push(&sectors.bytes()[range]),
        }
    }
    all
}

/// A reset says that the peer does not know the connection; anything else that it may.
fn end_of(error: &io::Error) -> StreamEnd {
    match error.kind() {
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::ConnectionRefused
        | ErrorKind::BrokenPipe => StreamEnd::Peer,
        _ => StreamEnd::Unknown,
    }
}
