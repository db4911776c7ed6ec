//! Copies past the processor's cache, for data that nobody reads soon.
//!
//! A store that goes through the cache first reads the line it will overwrite, and pushes out what
//! is in use: a block to cold memory costs 530 to 700 ns that way, 300 ns past it (Xeon, shared).

use std::ptr;

/// Bytes of one line; shorter tails and unaligned heads are copied through the cache.
const LINE: usize = 64;

/// Copies `from` to memory at `into`, past the cache. By pointer, because other threads may read
/// what is there meanwhile, as they may a device's memory. This thread sees the copy at once;
/// before another one is told of it: [`fence`].
///
/// # Safety
/// `from.len()` bytes at `into` are valid for writes and do not overlap `from`.
#[expect(unsafe_code, reason = "memory that other threads may read")]
pub(crate) unsafe fn copy(into: *mut u8, from: &[u8]) {
    let head = into.align_offset(LINE).min(from.len());
    let (head, rest) = from.split_at(head);
    let (whole, tail) = rest.split_at(rest.len() / LINE * LINE);
    // SAFETY: the three parts lie one behind the other in the caller's range.
    unsafe {
        ptr::copy_nonoverlapping(head.as_ptr(), into, head.len());
        let into = into.add(head.len());
        lines(into, whole);
        ptr::copy_nonoverlapping(tail.as_ptr(), into.add(whole.len()), tail.len());
    }
}

/// Lines that [`begin`] fetches: until they are used the processor has seen where the rest lies.
const BEGINNING: usize = 8;

/// Has the beginning of a page fetched into the cache, to be copied after the one before it. A copy of
/// a page that is in no cache costs a fifth less that way (560 and 450 ns, Zen 4, shared). Any
/// address will do; where there is no memory nothing happens.
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the instruction is no safe function")
)]
pub(crate) fn begin(page: *const u8) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..BEGINNING {
        let line = page.wrapping_add(line * LINE);
        // SAFETY: a hint, which reads nothing the program can see and never faults.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = page.wrapping_add(BEGINNING * LINE);
}

/// Bytes of a page, which [`page`] copies.
pub(crate) const PAGE: usize = 4096;

/// Copies a page that is in no cache, and has the next one, at `next` if there is one, fetched meanwhile, line for
/// line. libc's copy of that size is one instruction, which nothing overlaps: with a block's checksum after it that
/// takes 352 ns, this 301 (Zen 5, shared).
///
/// # Safety
/// [`PAGE`] bytes at `from` are valid for reads.
#[expect(unsafe_code, reason = "memory that other threads may write")]
pub(crate) unsafe fn page(from: *const u8, into: &mut [u8; PAGE], next: Option<*const u8>) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has AVX-512F; the rest is the caller's promise.
        return unsafe { x86::page(from, into, next.unwrap_or(from)) };
    }
    if let Some(next) = next {
        begin(next);
    }
    // SAFETY: the caller's promise; the target is a live array of its own.
    unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), PAGE) }
}

/// Orders the copies before whatever this thread writes next: without it another thread could be
/// told of them before it can see them. Waits for them, so once a command, not once a block.
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the instruction is no safe function")
)]
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Whole lines; as [`copy`] else.
#[cfg(not(target_arch = "x86_64"))]
#[expect(unsafe_code, reason = "memory that other threads may read")]
unsafe fn lines(into: *mut u8, from: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) }
}

/// Whole lines to memory that is aligned to them; as [`copy`] else.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions the processor is asked for first")]
unsafe fn lines(into: *mut u8, from: &[u8]) {
    if from.is_empty() {
        return;
    }
    assert!(into.cast::<x86::Line>().is_aligned(), "lines are aligned");
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has AVX-512F; the rest is the caller's promise.
        unsafe { x86::wide(into, from) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { x86::narrow(into, from) }
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "vector loads and stores go through pointers")]
mod x86 {
    use super::{LINE, PAGE};
    use std::arch::x86_64::{
        __m128i, __m512i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_stream_si128,
        _mm512_loadu_si512, _mm512_storeu_si512, _mm512_stream_si512,
    };

    /// What memory for whole lines is aligned to.
    #[repr(align(64))]
    pub(super) struct Line(#[expect(dead_code, reason = "only its alignment counts")] [u8; LINE]);

    /// Lines loaded before any is stored: the loads overlap.
    const STEP: usize = 4;

    /// # Safety
    /// As [`super::lines`], on a processor with AVX-512F.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn wide(into: *mut u8, from: &[u8]) {
        let (steps, lines) = from.as_chunks::<{ STEP * LINE }>();
        for (index, from) in steps.iter().enumerate() {
            let from = from.as_ptr();
            // SAFETY: both have four lines, and the stores are aligned because `into` is and all
            // are whole lines. Justification: no stable safe form of such stores.
            unsafe {
                let into = into.add(index * STEP * LINE);
                let load =
                    |at: usize| -> __m512i { _mm512_loadu_si512(from.add(at * LINE).cast()) };
                let four = [load(0), load(1), load(2), load(3)];
                for (at, line) in four.into_iter().enumerate() {
                    _mm512_stream_si512(into.add(at * LINE).cast(), line);
                }
            }
        }
        // SAFETY: what is left lies behind the steps.
        unsafe { narrow(into.add(steps.len() * STEP * LINE), lines) }
    }

    /// # Safety
    /// As [`super::page`], on a processor with AVX-512F. `next` may be any address.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn page(from: *const u8, into: &mut [u8; PAGE], next: *const u8) {
        for (index, into) in into
            .as_chunks_mut::<{ STEP * LINE }>()
            .0
            .iter_mut()
            .enumerate()
        {
            let at = index * STEP * LINE;
            let (next, into) = (next.wrapping_add(at), into.as_mut_ptr());
            // SAFETY: both have four lines here; what is fetched is a hint, which never faults. Justification: no
            // safe form of the hint, and no other copy leaves room for it.
            unsafe {
                let from = from.add(at);
                let load =
                    |at: usize| -> __m512i { _mm512_loadu_si512(from.add(at * LINE).cast()) };
                let four = [load(0), load(1), load(2), load(3)];
                for (at, line) in four.into_iter().enumerate() {
                    _mm512_storeu_si512(into.add(at * LINE).cast(), line);
                    _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(at * LINE).cast());
                }
            }
        }
    }

    /// With what every x86-64 has.
    ///
    /// # Safety
    /// As [`super::lines`].
    pub(super) unsafe fn narrow(into: *mut u8, from: &[u8]) {
        for (index, from) in from.as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: both have 16 bytes, and the store is aligned because `into` is.
            unsafe {
                let into: *mut __m128i = into.add(index * 16).cast();
                _mm_stream_si128(into, _mm_loadu_si128(from.as_ptr().cast()));
            }
        }
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "memory by pointer")]
mod tests {
    use super::*;

    #[test]
    fn copies_every_byte_and_no_other() {
        let from: Vec<u8> = (0..20_000_u32).map(|at| (at * 7 + 3) as u8 | 1).collect();
        for (start, length) in [(0, 0), (1, 62), (0, 64), (3, 300), (64, 4096), (17, 19_000)] {
            for offset in [0, 5] {
                let mut into = vec![0; 20_100];
                let target = into[offset..offset + length].as_mut_ptr();
                // SAFETY: the slice has that many bytes.
                unsafe { copy(target, &from[start..start + length]) }
                assert_eq!(into[offset..offset + length], from[start..start + length]);
                assert!(into[..offset].iter().all(|&byte| byte == 0));
                assert!(into[offset + length..].iter().all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn copies_a_page_whatever_comes_next() {
        let from: Vec<u8> = (0..3 * PAGE).map(|at| (at * 7 + at / 256) as u8).collect();
        for start in [0, 5, PAGE] {
            for next in [None, Some(from.as_ptr_range().end), Some(ptr::null())] {
                let mut into = [0; PAGE];
                // SAFETY: the vector has a page and more behind each of these places.
                unsafe { page(from[start..].as_ptr(), &mut into, next) }
                assert_eq!(into, from[start..start + PAGE]);
            }
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn what_every_processor_has_copies_the_same() {
        let from: Vec<u8> = (0..4096_u32).map(|at| (at * 31) as u8).collect();
        let mut into = vec![0; 4096 + LINE];
        let head = into.as_ptr().align_offset(LINE);
        let target = into[head..head + 4096].as_mut_ptr();
        // SAFETY: the slice is aligned and has that many bytes.
        unsafe { x86::narrow(target, &from) }
        assert_eq!(into[head..head + 4096], from);
    }
}
