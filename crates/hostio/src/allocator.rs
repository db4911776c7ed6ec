//! What the process's allocator does with memory that was freed.

use libmimalloc_sys::{mi_option_set, mi_option_t};

/// `mi_option_purge_delay` of `mimalloc.h`, version 3: the milliseconds after which memory that was freed goes back to
/// the system, below zero for never. The binding does not name it; the test holds its number to what it is by default.
const PURGE_DELAY: mi_option_t = 15;

/// Memory that is freed stays the process's, to be used again: for programs that end when their work is done. Under
/// an engine's load memory goes back and is zeroed anew all the time, a twentieth of what the laboratory takes. What
/// serves hosts for months gives back what a busy hour took.
///
/// Of no effect where mimalloc is not the allocator.
#[expect(unsafe_code, reason = "an option of the allocator, which is C")]
pub fn keep_freed_memory() {
    // SAFETY: options are set at any time by any thread (they are atomic), and this one changes no memory in use.
    unsafe { mi_option_set(PURGE_DELAY, -1) }
}

#[cfg(test)]
mod tests {
    use super::{PURGE_DELAY, keep_freed_memory};
    use libmimalloc_sys::mi_option_get;

    #[test]
    #[expect(unsafe_code, reason = "an option of the allocator, which is C")]
    fn the_option_is_the_one_that_is_meant() {
        // SAFETY: as in `keep_freed_memory`.
        let value = || unsafe { mi_option_get(PURGE_DELAY) };
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
            assert_eq!(value(), 1000, "the default of `src/options.c`");
        }
        keep_freed_memory();
        assert_eq!(value(), -1);
    }
}
