//! What the kernel's error numbers mean for a drive.

use io_uring::types::Timespec;
use varve_io::IoError;

/// The error of a failed transfer.
pub(super) const fn error_of(number: i32) -> IoError {
    match number {
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => IoError::NoSpace,
        libc::EROFS | libc::EPERM | libc::EACCES => IoError::ReadOnly,
        libc::ENODEV
        | libc::ENXIO
        | libc::ESHUTDOWN
        | libc::ESTALE
        | libc::ENOLINK
        | libc::ECANCELED
        | libc::EBADF => IoError::Gone,
        // The drive was not even asked, or asked no more, for longer than is waited for.
        libc::ETIMEDOUT | libc::ETIME | libc::ENOMEM | libc::EAGAIN | libc::EINTR => {
            IoError::Timeout
        }
        // EIO, EREMOTEIO, EILSEQ (protection information), ENODATA (medium error), EBADE, and what no
        // drive should say: this range failed, another need not.
        _ => IoError::Media,
    }
}

/// The error of a failed flush. What it was to make durable may be lost, wherever it lies, and a
/// second flush that succeeds proves nothing: the drive is not to be relied on any more.
pub(super) const fn flush_error_of(number: i32) -> IoError {
    match error_of(number) {
        IoError::Media | IoError::Timeout => IoError::Gone,
        error => error,
    }
}

/// True if the kernel wants to be asked again.
pub(super) const fn is_passing(number: i32) -> bool {
    matches!(number, libc::EINTR | libc::EAGAIN)
}

/// Times the kernel is asked again because of [`is_passing`] before the command fails. Arbitrary:
/// the ring itself waits where it must, so a second answer of this kind is rare.
pub(super) const RETRIES_MAX: u32 = 100;

/// True if the kernel has no memory for it now, which says nothing of the drive. Not for flushes: a failed one may
/// have taken with it what the kernel tells once.
pub(super) const fn wants_memory(number: i32) -> bool {
    number == libc::ENOMEM
}

/// How long, and how often, a transfer waits for memory: 30 s in all, as long as the kernel itself waits for a disk.
/// Drives and whole pools are given up for what comes after.
pub(super) static MEMORY_PAUSE: Timespec = Timespec::new().nsec(10_000_000);
pub(super) const MEMORY_TRIES_MAX: u32 = 3000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_system_is_no_media_error() {
        assert_eq!(error_of(libc::ENOSPC), IoError::NoSpace);
        assert_eq!(error_of(libc::EIO), IoError::Media);
        assert_eq!(error_of(libc::ENODEV), IoError::Gone);
        assert_eq!(error_of(libc::ENOMEM), IoError::Timeout);
    }

    #[test]
    fn a_failed_flush_condemns_the_drive() {
        assert_eq!(flush_error_of(libc::EIO), IoError::Gone);
        assert_eq!(flush_error_of(libc::ENOMEM), IoError::Gone);
        assert_eq!(flush_error_of(libc::ENOSPC), IoError::NoSpace);
    }
}
