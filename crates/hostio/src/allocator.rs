//! The process's allocator, mimalloc, and what it does with memory that was freed.

use core::alloc::{GlobalAlloc, Layout};
use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_option_set, mi_option_t, mi_realloc,
    mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};

/// `mi_option_purge_delay` of `mimalloc.h`, version 3: the milliseconds after which memory that was freed goes back to
/// the system, below zero for never. The binding does not name it; the test holds its number to what it is by default.
const PURGE_DELAY: mi_option_t = 15;

/// All that mimalloc gives is aligned to a word, whatever was asked for.
const WORD: usize = size_of::<usize>();

/// mimalloc, asked for nothing that it gives anyway: its way for memory of a certain alignment is twice as long as the
/// plain one, and nearly all that a program asks for is aligned to a word or less.
pub struct Allocator;

#[expect(unsafe_code, reason = "an allocator, which is C")]
// SAFETY: each call is mimalloc's own, with what it wants: sizes and alignments of a layout are never zero and never
// overflow, alignments are powers of two. The plain ones give memory aligned to a word at least. What any of them gave any
// of them takes back.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let memory = unsafe {
            match layout.align() <= WORD {
                true => mi_malloc(layout.size()),
                false => mi_malloc_aligned(layout.size(), layout.align()),
            }
        };
        memory.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let memory = unsafe {
            match layout.align() <= WORD {
                true => mi_zalloc(layout.size()),
                false => mi_zalloc_aligned(layout.size(), layout.align()),
            }
        };
        memory.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, _: Layout) {
        // SAFETY: the caller's memory is of one of the others, and nobody has it any more.
        unsafe { mi_free(memory.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as for `dealloc`; the new memory as above.
        let memory = unsafe {
            match layout.align() <= WORD {
                true => mi_realloc(memory.cast(), size),
                false => mi_realloc_aligned(memory.cast(), size, layout.align()),
            }
        };
        memory.cast()
    }
}

/// Memory that is freed stays the process's, to be used again: for programs that end when their work is done. Under
/// an engine's load memory goes back and is zeroed anew all the time, a twentieth of what the laboratory takes. What
/// serves hosts for months gives back what a busy hour took.
///
/// Of no effect where mimalloc is not the allocator ([`Allocator`]).
#[expect(unsafe_code, reason = "an option of the allocator, which is C")]
pub fn keep_freed_memory() {
    // SAFETY: options are set at any time by any thread (they are atomic), and this one changes no memory in use.
    unsafe { mi_option_set(PURGE_DELAY, -1) }
}

#[cfg(test)]
mod tests {
    use super::{Allocator, PURGE_DELAY, keep_freed_memory};
    use core::alloc::{GlobalAlloc, Layout};
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

    /// Memory is as long, as aligned and as zeroed as it was asked for, whatever sizes and alignments come after one another.
    #[test]
    #[expect(unsafe_code, reason = "an allocator, which is C")]
    fn memory_is_as_it_was_asked_for() {
        for align in (0..14).map(|bits| 1 << bits) {
            for size in [1, 7, 8, 9, 24, 100, 1000, 1025, 5000, 70_000] {
                let layout = Layout::from_size_align(size, align).expect("sizes are small");
                // SAFETY: layouts are not empty; memory is written within them, and freed once.
                unsafe {
                    let zeroed = Allocator.alloc_zeroed(layout);
                    let filled = Allocator.alloc(layout);
                    assert_eq!((zeroed as usize | filled as usize) % align, 0);
                    filled.write_bytes(7, size);
                    assert!((0..size).all(|at| zeroed.add(at).read() == 0));
                    let longer = Allocator.realloc(filled, layout, 2 * size);
                    assert_eq!(longer as usize % align, 0);
                    assert!((0..size).all(|at| longer.add(at).read() == 7));
                    let layout_longer = Layout::from_size_align(2 * size, align).expect("small");
                    Allocator.dealloc(longer, layout_longer);
                    Allocator.dealloc(zeroed, layout);
                }
            }
        }
    }
}
