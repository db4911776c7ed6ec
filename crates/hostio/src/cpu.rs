//! CPU time of the calling thread.

use varve_units::Nanos;

/// `struct timespec` of 64-bit Linux.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// `CLOCK_THREAD_CPUTIME_ID` of `linux/time.h`.
const CLOCK_THREAD_CPUTIME_ID: i32 = 3;

const _: () = assert!(
    usize::BITS == 64,
    "the layout of timespec is that of 64 bits"
);

#[expect(
    unsafe_code,
    reason = "a system call; /proc counts in ticks or not at all in a guest"
)]
mod sys {
    // SAFETY: as `time.h` declares it: `int clock_gettime(clockid_t, struct timespec *)`.
    unsafe extern "C" {
        pub(super) fn clock_gettime(clock: i32, into: *mut super::Timespec) -> i32;
    }
}

/// CPU time the calling thread has used, user and system.
///
/// # Panics
/// If the kernel has no such clock (older than 2.6.12).
#[must_use]
#[expect(unsafe_code, reason = "see `sys`")]
pub fn thread_cpu_time() -> Nanos {
    let mut time = Timespec {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: `time` is a valid, exclusive `timespec` for the length of the call.
    let failed = unsafe { sys::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert!(failed == 0, "the thread's CPU clock exists");
    Nanos(time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_cpu_time() {
        let before = thread_cpu_time();
        let mut sum = 0_u64;
        while thread_cpu_time() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(thread_cpu_time() > before);
    }
}
