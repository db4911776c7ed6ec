//! Exclusive use of a file: locks that belong to the open file, not to the process.
//!
//! A lock of the process would go with the first descriptor of that file the process closes, and
//! would not keep two parts of it apart. An open file's lock goes with its last descriptor, also
//! when the process is killed.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A lock of `kind` on all of the file. Zeroes but for the kind: from the start, without an end, and
/// no process, as these locks want it.
#[expect(unsafe_code, reason = "a C structure with padding that differs")]
fn whole(kind: libc::c_int) -> libc::flock {
    // SAFETY: integers only, for which zeroes are values.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// Takes the lock. False if someone else has it.
///
/// # Errors
/// The file system has no locks, or the file is not open for writing.
#[expect(unsafe_code, reason = "a system call")]
pub(crate) fn hold(file: &File) -> io::Result<bool> {
    let lock = whole(libc::F_WRLCK);
    // SAFETY: the structure lives for the length of the call.
    let failed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if failed == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

/// Gives the lock back, also if the open file lives on for a moment: the kernel keeps it until its
/// own thread has done with the last operation, and a process just forked until it runs its program.
#[expect(unsafe_code, reason = "a system call")]
pub(crate) fn release(file: &File) {
    let lock = whole(libc::F_UNLCK);
    // SAFETY: the structure lives for the length of the call. A failure leaves it to the closing.
    let _ = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
}

/// True if someone else holds a lock on the file; nothing is taken.
///
/// # Errors
/// As [`hold`], but the file may be open for reading.
#[expect(unsafe_code, reason = "a system call")]
pub(crate) fn is_held(file: &File) -> io::Result<bool> {
    let mut lock = whole(libc::F_WRLCK);
    // SAFETY: the structure lives, and is the call's alone, for its length.
    let failed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(i32::from(lock.l_type) != libc::F_UNLCK)
}
