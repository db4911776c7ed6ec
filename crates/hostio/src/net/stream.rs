//! A connected byte stream.

use super::Endpoint;
use super::address::Address;
use super::keep_alive;
use super::outgoing::Outgoing;
use crate::call::Call;
use crate::io::Io;
use crate::ring::{Next, Operation};
use crate::vectors::{Vectors, piece};
use io_uring::{opcode, squeue, types};
use std::cell::Cell;
use std::io;
use std::mem;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use varve_io::Sender;

/// A connected socket, on the ring of one reactor. Dropping it ends the connection both ways, and
/// with it the calls in flight.
pub struct Stream {
    io: Io,
    socket: Rc<OwnedFd>,
    is_sending: Cell<bool>,
    is_receiving: Cell<bool>,
}

/// Marks a direction as taken. A call that is dropped before its end leaves it so: nobody knows how
/// much of it was done.
fn take(direction: &Cell<bool>, what: &str) {
    assert!(!direction.replace(true), "one {what} at a time, to its end");
}

impl Stream {
    pub(super) fn of(io: Io, socket: OwnedFd, endpoint: &Endpoint) -> io::Result<Self> {
        let socket = match endpoint {
            Endpoint::Tcp(_) => {
                // An answer is sent whole: nothing is gained by waiting for more of it.
                let stream = TcpStream::from(socket);
                stream.set_nodelay(true)?;
                keep_alive::watch(&stream)?;
                OwnedFd::from(stream)
            }
            Endpoint::Unix(_) => socket,
        };
        Ok(Self {
            io,
            socket: Rc::new(socket),
            is_sending: Cell::new(false),
            is_receiving: Cell::new(false),
        })
    }

    /// Connects.
    ///
    /// # Errors
    /// The system's.
    pub async fn connect(io: Io, endpoint: &Endpoint) -> io::Result<Self> {
        let address = Address::of(endpoint)?;
        let stream = Self::of(io, new_socket(endpoint)?, endpoint)?;
        let socket = Rc::clone(&stream.socket);
        let make = |sender| Connect {
            socket,
            address,
            sender,
        };
        Call::start(&stream.io, make).await?;
        Ok(stream)
    }

    /// A stream whose other end is the caller's, for another thread to reach this reactor by.
    ///
    /// # Errors
    /// The system's.
    pub fn pair(io: Io) -> io::Result<(Self, UnixStream)> {
        let (near, far) = UnixStream::pair()?;
        let nowhere = Endpoint::Unix(std::path::PathBuf::new());
        Ok((Self::of(io, near.into(), &nowhere)?, far))
    }

    /// Receives what is there, or waits for some, behind what `into` holds, as far as its capacity
    /// goes. Gives the buffer back with the count, 0 if the peer has ended its side.
    ///
    /// # Errors
    /// The system's; the buffer is lost.
    ///
    /// # Panics
    /// If the buffer is full, or another receive is in flight or was dropped before its end.
    pub async fn receive(&self, into: Vec<u8>) -> io::Result<(usize, Vec<u8>)> {
        assert!(into.len() < into.capacity(), "room to receive into");
        take(&self.is_receiving, "receive");
        let socket = Rc::clone(&self.socket);
        let make = |sender| Receive {
            socket,
            into,
            sender,
        };
        let outcome = Call::start(&self.io, make).await;
        self.is_receiving.set(false);
        outcome
    }

    /// Sends all pieces in order; ends when the system has taken them.
    ///
    /// # Errors
    /// The system's; how much was sent is not known then.
    ///
    /// # Panics
    /// If another send is in flight or was dropped before its end.
    pub async fn send(&self, what: Outgoing) -> io::Result<()> {
        if what.is_empty() {
            return Ok(());
        }
        take(&self.is_sending, "send");
        let socket = Rc::clone(&self.socket);
        let make = |sender| Send::new(socket, what, sender);
        let outcome = Call::start(&self.io, make).await;
        self.is_sending.set(false);
        outcome
    }

    /// Ends one direction or both. What was sent before still arrives.
    ///
    /// # Errors
    /// The system's: the peer has gone already, say.
    #[expect(unsafe_code, reason = "a system call")]
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => libc::SHUT_RD,
            Shutdown::Write => libc::SHUT_WR,
            Shutdown::Both => libc::SHUT_RDWR,
        };
        // SAFETY: no memory is passed.
        match unsafe { libc::shutdown(self.socket.as_raw_fd(), how) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // A call in flight has a share of the descriptor: without this the peer would not be told.
        let _ = self.shutdown(Shutdown::Both);
    }
}

#[expect(unsafe_code, reason = "a system call")]
fn new_socket(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    let family = match endpoint {
        Endpoint::Tcp(address) if address.is_ipv4() => libc::AF_INET,
        Endpoint::Tcp(_) => libc::AF_INET6,
        Endpoint::Unix(_) => libc::AF_UNIX,
    };
    // SAFETY: no memory is passed.
    let socket = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

struct Connect {
    socket: Rc<OwnedFd>,
    address: Address,
    sender: Sender<io::Result<()>>,
}

// SAFETY: the address is on the heap and the operation's own; `socket` keeps the descriptor open.
#[expect(unsafe_code, reason = "the kernel reads the operation's memory")]
unsafe impl Operation for Connect {
    fn entry(&mut self) -> squeue::Entry {
        let socket = types::Fd(self.socket.as_raw_fd());
        opcode::Connect::new(socket, self.address.pointer(), self.address.length()).build()
    }

    fn end(self: Box<Self>, result: i32) -> Next {
        self.sender.send(match result {
            result if result < 0 => Err(io::Error::from_raw_os_error(-result)),
            _ => Ok(()),
        });
        Next::Over
    }
}

struct Receive {
    socket: Rc<OwnedFd>,
    into: Vec<u8>,
    sender: Sender<io::Result<(usize, Vec<u8>)>>,
}

// SAFETY: the room behind the vector's content is on the heap and the operation's own; `socket` keeps
// the descriptor open.
#[expect(unsafe_code, reason = "the kernel writes to the operation's memory")]
unsafe impl Operation for Receive {
    fn entry(&mut self) -> squeue::Entry {
        let room = self.into.spare_capacity_mut();
        let length = room.len().min(1 << 30) as u32;
        let socket = types::Fd(self.socket.as_raw_fd());
        opcode::Recv::new(socket, room.as_mut_ptr().cast(), length).build()
    }

    fn end(mut self: Box<Self>, result: i32) -> Next {
        if is_passing(result) {
            return Next::Again(self);
        }
        let answer = if result < 0 {
            Err(io::Error::from_raw_os_error(-result))
        } else {
            let count = result as usize;
            let length = self.into.len() + count;
            assert!(length <= self.into.capacity(), "no more than there is room");
            // SAFETY: the kernel has filled `count` bytes behind the content.
            unsafe { self.into.set_len(length) };
            Ok((count, self.into))
        };
        self.sender.send(answer);
        Next::Over
    }
}

/// A send until all is taken.
struct Send {
    socket: Rc<OwnedFd>,
    vectors: Vectors,
    left: usize,
    header: Box<libc::msghdr>,
    #[expect(dead_code, reason = "kept for the kernel, which has its address")]
    what: Outgoing,
    sender: Sender<io::Result<()>>,
}

impl Send {
    #[expect(unsafe_code, reason = "a C structure with padding that differs")]
    fn new(socket: Rc<OwnedFd>, what: Outgoing, sender: Sender<io::Result<()>>) -> Self {
        let pieces = what
            .slices()
            .map(|bytes| piece(bytes.as_ptr(), bytes.len()));
        Self {
            socket,
            vectors: Vectors::new(pieces.collect()),
            left: what.len(),
            // SAFETY: integers and pointers, for which zeroes are values.
            header: Box::new(unsafe { mem::zeroed() }),
            what,
            sender,
        }
    }
}

// SAFETY: header, list of pieces and pieces are on the heap, the operation's own or shared with those
// who do not change them; `socket` keeps the descriptor open.
#[expect(unsafe_code, reason = "the kernel reads the operation's memory")]
unsafe impl Operation for Send {
    fn entry(&mut self) -> squeue::Entry {
        let pieces = self.vectors.pieces();
        self.header.msg_iov = pieces.as_ptr().cast_mut();
        self.header.msg_iovlen = pieces.len() as _;
        let socket = types::Fd(self.socket.as_raw_fd());
        // All of it in one go: the ring waits for room in the socket itself.
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        opcode::SendMsg::new(socket, &raw const *self.header)
            .flags(flags as u32)
            .build()
    }

    fn end(mut self: Box<Self>, result: i32) -> Next {
        if is_passing(result) {
            return Next::Again(self);
        }
        let answer = if result < 0 {
            Err(io::Error::from_raw_os_error(-result))
        } else {
            let sent = (result as usize).min(self.left);
            self.left -= sent;
            self.vectors.advance(sent);
            if self.left > 0 {
                return Next::Again(self);
            }
            Ok(())
        };
        self.sender.send(answer);
        Next::Over
    }
}

fn is_passing(result: i32) -> bool {
    matches!(-result, libc::EINTR | libc::EAGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Executor, Listener};

    #[expect(unsafe_code, reason = "a system call")]
    fn option(socket: &OwnedFd, level: libc::c_int, option: libc::c_int) -> libc::c_int {
        let mut value: libc::c_int = -1;
        let mut length = mem::size_of_val(&value) as libc::socklen_t;
        let pointer = (&raw mut value).cast();
        let socket = socket.as_raw_fd();
        // SAFETY: the kernel writes `length` bytes at most to `value`.
        let done = unsafe { libc::getsockopt(socket, level, option, pointer, &raw mut length) };
        assert_eq!(done, 0);
        value
    }

    /// Both ends of a TCP connection notice a peer that is gone without a word.
    #[test]
    fn peers_are_watched() {
        let executor = Executor::new();
        let world = executor.world();
        let io = Io::of(&*world).expect("a ring");
        let any = Endpoint::Tcp("127.0.0.1:0".parse().expect("an address"));
        let listener = Listener::bind(io.clone(), &any).expect("a port");
        let run = async move {
            let there = listener.endpoint().clone();
            let connect = world.run(async move { Stream::connect(io, &there).await });
            let accepted = listener.accept().await.expect("a stream");
            for stream in [accepted, connect.await.expect("a stream")] {
                for (level, name, value) in keep_alive::OPTIONS {
                    assert_eq!(option(&stream.socket, level, name), value, "{level} {name}");
                }
            }
        };
        executor.run(run).expect("it ends");
    }
}
