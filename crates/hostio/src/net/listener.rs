//! Accepts streams.

use super::Endpoint;
use super::stream::Stream;
use crate::call::Call;
use crate::io::Io;
use crate::ring::{Next, Operation};
use io_uring::{opcode, squeue, types};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::ptr;
use std::rc::Rc;
use varve_io::Sender;

/// A socket that others connect to.
pub struct Listener {
    io: Io,
    socket: Rc<OwnedFd>,
    endpoint: Endpoint,
}

impl Listener {
    /// Listens. Port 0 is any that is free: see [`Listener::endpoint`].
    ///
    /// # Errors
    /// The system's: the port is taken, the path exists.
    pub fn bind(io: Io, endpoint: &Endpoint) -> io::Result<Self> {
        let (socket, endpoint) = match endpoint {
            Endpoint::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                let bound = Endpoint::Tcp(listener.local_addr()?);
                (OwnedFd::from(listener), bound)
            }
            Endpoint::Unix(path) => (
                OwnedFd::from(UnixListener::bind(path)?),
                Endpoint::Unix(path.clone()),
            ),
        };
        let socket = Rc::new(socket);
        Ok(Self {
            io,
            socket,
            endpoint,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The next stream.
    ///
    /// # Errors
    /// The system's; those of one peer (it went away before it was accepted) are passed over.
    pub async fn accept(&self) -> io::Result<Stream> {
        loop {
            let socket = Rc::clone(&self.socket);
            let accepted = Call::start(&self.io, |sender| Accept { socket, sender }).await;
            let is_passing = |error: &io::Error| {
                let number = error.raw_os_error();
                // Those that `accept(2)` passes on from the new socket.
                let passing = [
                    libc::EINTR,
                    libc::EAGAIN,
                    libc::ECONNABORTED,
                    libc::EPROTO,
                    libc::ENETDOWN,
                    libc::EHOSTDOWN,
                    libc::EHOSTUNREACH,
                    libc::ENETUNREACH,
                ];
                number.is_some_and(|number| passing.contains(&number))
            };
            match accepted {
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
                Ok(socket) => return Stream::of(self.io.clone(), socket, &self.endpoint),
            }
        }
    }
}

struct Accept {
    socket: Rc<OwnedFd>,
    sender: Sender<io::Result<OwnedFd>>,
}

// SAFETY: names no memory; `socket` keeps the descriptor open.
#[expect(unsafe_code, reason = "the kernel works on the descriptor")]
unsafe impl Operation for Accept {
    fn entry(&mut self) -> squeue::Entry {
        let socket = types::Fd(self.socket.as_raw_fd());
        opcode::Accept::new(socket, ptr::null_mut(), ptr::null_mut())
            .flags(libc::SOCK_CLOEXEC)
            .build()
    }

    fn end(self: Box<Self>, result: i32) -> Next {
        self.sender.send(if result < 0 {
            Err(io::Error::from_raw_os_error(-result))
        } else {
            // SAFETY: the kernel has just made it for this call. If nobody waits any more it is
            // closed with the answer.
            Ok(unsafe { OwnedFd::from_raw_fd(result) })
        });
        Next::Over
    }
}
