//! What connections are made of: byte streams, whatever carries them.
//!
//! Sockets are one kind; the simulator's network is another. Futures are boxed: a call of the kernel, or
//! a turn of the network, dwarfs what that costs.

use crate::store::Content;
use std::future::Future;
use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use varve_hostio::{Listener, Outgoing, Stream};
use varve_target::Segment;

/// A call under way; it does not borrow the stream.
pub type Call<T> = Pin<Box<dyn Future<Output = io::Result<T>>>>;

/// A connected byte stream. One call per direction is in flight at a time, to its end; dropping the
/// stream ends both directions.
pub trait ByteStream {
    /// Receives what is there, or waits for some, behind what `into` holds, as far as its capacity
    /// goes. Gives the buffer back with the count, 0 if the peer has ended its side.
    ///
    /// # Errors
    /// How the stream failed; the buffer is lost.
    fn receive(&self, into: Vec<u8>) -> Call<(usize, Vec<u8>)>;

    /// Sends all segments in order; ends when they were taken.
    ///
    /// # Errors
    /// How the stream failed; how much was sent is not known then.
    fn send(&self, what: Vec<Segment<Content>>) -> Call<()>;

    /// Ends the sending direction; what was sent before still arrives.
    ///
    /// # Errors
    /// The peer has gone already, say.
    fn end_sending(&self) -> io::Result<()>;
}

/// Where byte streams of hosts come in.
pub trait Acceptor {
    /// The next stream.
    ///
    /// # Errors
    /// What is wrong here; a peer that went away before it was accepted is passed over.
    fn accept(&self) -> Call<Box<dyn ByteStream>>;
}

/// A socket.
struct Socket(Rc<Stream>);

impl ByteStream for Socket {
    fn receive(&self, into: Vec<u8>) -> Call<(usize, Vec<u8>)> {
        let stream = Rc::clone(&self.0);
        Box::pin(async move { stream.receive(into).await })
    }

    fn send(&self, what: Vec<Segment<Content>>) -> Call<()> {
        let (stream, what) = (Rc::clone(&self.0), outgoing(what));
        Box::pin(async move { stream.send(what).await })
    }

    fn end_sending(&self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }
}

/// Content is shared with the kernel, not copied.
fn outgoing(segments: Vec<Segment<Content>>) -> Outgoing {
    let mut what = Outgoing::new();
    for segment in segments {
        match segment {
            Segment::Bytes(bytes) => what.push(bytes),
            Segment::Data(content) => {
                let (blocks, bytes) = content.into_parts();
                what.push_blocks(blocks, bytes);
            }
        }
    }
    what
}

/// A listening socket.
pub(crate) struct Sockets(pub Rc<Listener>);

impl Acceptor for Sockets {
    fn accept(&self) -> Call<Box<dyn ByteStream>> {
        let listener = Rc::clone(&self.0);
        Box::pin(async move {
            let stream = listener.accept().await?;
            Ok(Box::new(Socket(Rc::new(stream))) as Box<dyn ByteStream>)
        })
    }
}
