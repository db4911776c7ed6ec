//! Large zeroed memory, taken from the system when it is first used.

use crate::stream::{self, PAGE};
use std::mem::ManuallyDrop;
use std::ptr;

/// Alignment of a piece, and the size of a huge page.
const ALIGN: usize = 2 << 20;

/// `MADV_HUGEPAGE` of `linux/mman.h`.
const MADV_HUGEPAGE: i32 = 14;

/// Zeroed memory, aligned to 2 MiB, in huge pages where the system has them; read and written by
/// several threads at once, as the memory of a device is.
pub struct Piece {
    /// What was allocated, for the drop; touched through `start` alone while the piece lives.
    memory: (*mut u8, usize),
    start: *mut u8,
    length: usize,
}

// SAFETY: the memory belongs to the piece, and nothing but `read` and `write` touches it.
#[expect(unsafe_code, reason = "raw memory is not `Send` by itself")]
unsafe impl Send for Piece {}
// SAFETY: `read` and `write` copy bytes without making references to the piece's memory. Copies of
// one range that overlap in time have no defined content, as with a device (`io::Drive`); the
// engine never believes bytes whose checksum or generation does not fit.
#[expect(unsafe_code, reason = "a device's memory is shared")]
unsafe impl Sync for Piece {}

impl Piece {
    /// `length` bytes of zeroes. The system backs them page by page when they are touched.
    #[must_use]
    pub fn zeroed(length: usize) -> Self {
        let mut memory = ManuallyDrop::new(vec![0; length + ALIGN]);
        let offset = memory.as_ptr().align_offset(ALIGN);
        advise_huge(&mut memory[offset..offset + length]);
        Self {
            memory: (memory.as_mut_ptr(), memory.capacity()),
            start: memory.as_mut_ptr().wrapping_add(offset),
            length,
        }
    }

    /// Copies the bytes from `at` on. Those behind them are likely to be read next if `goes_on`.
    ///
    /// # Panics
    /// If they do not lie inside.
    #[expect(unsafe_code, reason = "memory that other threads may write")]
    pub fn read(&self, at: usize, into: &mut [u8], goes_on: bool) {
        assert!(
            at <= self.length && into.len() <= self.length - at,
            "inside the piece"
        );
        let start = self.start.wrapping_add(at).cast_const();
        let end = if goes_on { usize::MAX } else { into.len() };
        let (pages, rest) = into.as_chunks_mut::<PAGE>();
        for (index, page) in pages.iter_mut().enumerate() {
            let from = start.wrapping_add(index * PAGE);
            // Processors fetch ahead by themselves only within a page.
            let next = ((index + 1) * PAGE < end).then(|| from.wrapping_add(PAGE));
            // SAFETY: source within the allocation by the assertion.
            unsafe { stream::page(from, page, next) }
        }
        let from = start.wrapping_add(pages.len() * PAGE);
        // SAFETY: source within the allocation by the assertion, target a live slice of its own.
        unsafe { ptr::copy_nonoverlapping(from, rest.as_mut_ptr(), rest.len()) }
    }

    /// Replaces the bytes from `at` on, past the processor's cache: nobody reads them soon, and
    /// what is in use stays in it.
    ///
    /// # Panics
    /// If they do not lie inside.
    #[expect(unsafe_code, reason = "memory that other threads may read")]
    pub fn write(&self, at: usize, from: &[u8]) {
        assert!(
            at <= self.length && from.len() <= self.length - at,
            "inside the piece"
        );
        // SAFETY: target within the allocation by the assertion, source a live slice of its own.
        unsafe { stream::copy(self.start.add(at), from) }
    }
}

impl Drop for Piece {
    #[expect(unsafe_code, reason = "the counterpart of `zeroed`")]
    fn drop(&mut self) {
        let (start, capacity) = self.memory;
        // SAFETY: pointer and capacity are those of the vector `zeroed` took apart; no length,
        // because bytes need no drop.
        drop(unsafe { Vec::from_raw_parts(start, 0, capacity) });
    }
}

#[expect(unsafe_code, reason = "a system call")]
mod sys {
    // SAFETY: as `sys/mman.h` declares it: `int madvise(void *, size_t, int)`.
    unsafe extern "C" {
        pub(super) fn madvise(start: *mut u8, length: usize, advice: i32) -> i32;
    }
}

/// Asks for huge pages: random access to gigabytes in small pages is bound by the TLB.
#[expect(unsafe_code, reason = "see `sys`")]
fn advise_huge(memory: &mut [u8]) {
    // SAFETY: the range is the caller's own; this advice changes no content. A refusal (no huge
    // pages in this kernel) leaves small pages, which is as correct.
    let _ = unsafe { sys::madvise(memory.as_mut_ptr(), memory.len(), MADV_HUGEPAGE) };
}
