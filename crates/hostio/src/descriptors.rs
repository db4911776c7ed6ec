//! How many files and sockets this process may have open.

use std::io;

/// Asks the kernel for as many descriptors as it grants without privileges: the soft limit is a shell's
/// usual 1024, which a few hundred connections use up, and nothing here minds large ones (`select`
/// would). Returns how many there may be, or may still be if it is left as it is.
///
/// # Errors
/// The kernel tells no limit.
#[expect(
    unsafe_code,
    reason = "system calls: std has no limits of a process. Without them connections take the descriptors that \
              drives and administrators need"
)]
pub fn raise_descriptors() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: getrlimit(2) writes one `rlimit`, to which the pointer is valid and exclusive.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: setrlimit(2) reads one `rlimit`, to which the pointer is valid. Lower limits of the system
    // (`fs.nr_open`) may refuse it, which changes nothing.
    let refused = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0;
    Ok(if refused { before } else { limit.rlim_max })
}

/// Descriptors that this process has open now.
///
/// # Errors
/// `/proc` is not there.
pub fn open_descriptors() -> io::Result<u64> {
    // The listing itself has one.
    let listed = std::fs::read_dir("/proc/self/fd")?.count() as u64;
    Ok(listed.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_counted_and_there_may_be_more() {
        let before = open_descriptors().unwrap();
        let files: Vec<_> = (0..40)
            .map(|_| std::fs::File::open("/dev/null").unwrap())
            .collect();
        // Other tests open and close theirs meanwhile.
        assert!(open_descriptors().unwrap() + 20 > before + files.len() as u64);
        let most = raise_descriptors().unwrap();
        assert!(most > open_descriptors().unwrap());
        assert_eq!(raise_descriptors().unwrap(), most);
    }
}
