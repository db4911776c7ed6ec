//! Wakes a reactor that waits in its ring, from any thread.

use super::{Next, Operation};
use io_uring::{opcode, squeue, types};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// An event counter of the kernel that the ring reads from all the time.
pub(crate) struct Bell(OwnedFd);

impl Bell {
    #[expect(unsafe_code, reason = "system calls")]
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no memory is passed.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Ends the present wait of the reactor, or its next one.
    ///
    /// # Panics
    /// If the kernel refuses: the descriptor is ours, and the counter is read long before it could
    /// be full.
    #[expect(unsafe_code, reason = "a system call")]
    pub(crate) fn ring(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: eight bytes that live for the length of the call.
        let written = unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        assert!(written == 8, "an event counter takes another one");
    }
}

/// What a bell has counted, where the kernel writes it.
pub(crate) type Count = Box<[u8; 8]>;

impl Bell {
    /// What the kernel is asked by whoever waits in a ring for this bell to ring; it ends at once if it has rung since
    /// the last time. Bell and count are the operation's.
    pub(crate) fn listening(&self, count: &mut Count) -> squeue::Entry {
        let descriptor = types::Fd(self.0.as_raw_fd());
        opcode::Read::new(descriptor, count.as_mut_ptr(), 8).build()
    }
}

/// Reads the counter, again and again.
struct Listening {
    bell: Arc<Bell>,
    count: Count,
}

pub(super) fn listen(bell: Arc<Bell>) -> Box<dyn Operation> {
    let count = Box::new([0; 8]);
    Box::new(Listening { bell, count })
}

// SAFETY: the eight bytes are the operation's own, on the heap; so is a share of the descriptor.
#[expect(unsafe_code, reason = "the kernel writes to the operation's memory")]
unsafe impl Operation for Listening {
    fn entry(&mut self) -> squeue::Entry {
        self.bell.listening(&mut self.count)
    }

    fn end(self: Box<Self>, _result: i32) -> Next {
        // Whatever the kernel said: a bell that is not listened to any more loses wake-ups.
        Next::Again(self)
    }
}
