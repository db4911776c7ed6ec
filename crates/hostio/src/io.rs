//! A reactor's way to the kernel, as drives and sockets have it.

use crate::hub::Hub;
use crate::ring::{Operation, Ring, Ticket, hang_bell};
use std::cell::OnceCell;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use varve_io::{Key, ReactorId, World};

/// Under which name a reactor keeps its way to the kernel.
const KEY: Key = *b"varve hostio io\0";

/// A reactor's way to the kernel; see [`Io::of`].
#[derive(Clone)]
pub struct Io(Rc<Port>);

/// Why a reactor cannot do i/o.
#[derive(Debug)]
#[non_exhaustive]
pub enum NoIo {
    /// The world is none of this crate's: simulated, say.
    NotReal,
    /// The kernel has no `io_uring`, forbids it to this process, or is older than 5.11.
    Kernel(io::Error),
}

impl fmt::Display for NoIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReal => f.write_str("this reactor does not run in the real world"),
            Self::Kernel(error) => write!(
                f,
                "io_uring is not available ({error}): it needs Linux 5.11 and \
                 kernel.io_uring_disabled = 0"
            ),
        }
    }
}

impl std::error::Error for NoIo {}

/// The ring of a reactor, made when it is first wanted: a reactor without i/o needs none.
pub(crate) struct Port {
    id: ReactorId,
    hub: Arc<Hub>,
    ring: OnceCell<Ring>,
}

impl Port {
    pub(crate) fn new(id: ReactorId, hub: Arc<Hub>) -> Rc<Self> {
        let ring = OnceCell::new();
        Rc::new(Self { id, hub, ring })
    }

    /// Lets drives and sockets of the reactor find it.
    pub(crate) fn keep(self: &Rc<Self>, world: &dyn World) {
        let desk = world.desk().expect("reactors have desks");
        desk.keep(KEY, Rc::clone(self) as Rc<dyn std::any::Any>);
    }

    pub(crate) fn ring(&self) -> Option<&Ring> {
        self.ring.get()
    }

    fn open(&self) -> io::Result<()> {
        if self.ring.get().is_some() {
            return Ok(());
        }
        let ring = Ring::new()?;
        if self.hub.reactors() > 1 {
            self.hub.hang(self.id, hang_bell(&ring)?);
        }
        let _ = self.ring.set(ring);
        Ok(())
    }
}

impl Io {
    /// The way to the kernel of the reactor whose world this is.
    ///
    /// # Errors
    /// The world is not of this crate, or the kernel has no `io_uring` for it.
    pub fn of(world: &dyn World) -> Result<Self, NoIo> {
        let port: Option<Rc<Port>> = world.desk().and_then(|desk| desk.kept(KEY));
        let port = port.ok_or(NoIo::NotReal)?;
        port.open().map_err(NoIo::Kernel)?;
        Ok(Self(port))
    }

    fn ring(&self) -> &Ring {
        self.0.ring().expect("it was opened before this was made")
    }

    pub(crate) fn start(&self, operation: Box<dyn Operation>) -> Ticket {
        self.ring().start(operation)
    }

    pub(crate) fn cancel(&self, ticket: Ticket) {
        self.ring().cancel(ticket);
    }
}
