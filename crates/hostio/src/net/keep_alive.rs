//! Notices peers that are gone without a word: TCP's own keep alive.
//!
//! A peer that lost its power, or a network that drops what it carried, leaves a connection open for
//! ever on the side that has nothing to send. After half a minute without a byte the kernel asks, and
//! ends the connection if nothing comes back.
//!
//! **Not here**: what was sent and not acknowledged; the kernel sends that again for minutes and then
//! gives up by itself.

use std::io;
use std::mem;
use std::os::fd::AsRawFd;

/// Seconds of silence before the peer is asked, between two questions, and how many stay unanswered:
/// a peer that is gone is noticed after a minute. Arbitrary; the kernel's own are two hours and more.
const SILENCE: libc::c_int = 30;
const PAUSE: libc::c_int = 10;
const QUESTIONS: libc::c_int = 3;

/// What is set: level, option, value.
pub(super) const OPTIONS: [(libc::c_int, libc::c_int, libc::c_int); 4] = [
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, SILENCE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, PAUSE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, QUESTIONS),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
];

/// Has the kernel watch the peer of a TCP socket.
///
/// # Errors
/// The system's.
pub(super) fn watch(socket: &impl AsRawFd) -> io::Result<()> {
    for (level, option, value) in OPTIONS {
        set(socket, level, option, value)?;
    }
    Ok(())
}

#[expect(unsafe_code, reason = "a system call")]
fn set(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = mem::size_of_val(&value) as libc::socklen_t;
    let pointer = (&raw const value).cast();
    // SAFETY: the kernel reads `length` bytes at `value`, which outlives the call.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, pointer, length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
