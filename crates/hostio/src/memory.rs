//! Large zeroed memory, taken from the system when it is first used.

/// Alignment of a piece, and the size of a huge page.
const ALIGN: usize = 2 << 20;

/// `MADV_HUGEPAGE` of `linux/mman.h`.
const MADV_HUGEPAGE: i32 = 14;

/// Zeroed memory, aligned to 2 MiB, in huge pages where the system has them.
pub(crate) struct Piece {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Piece {
    /// `length` bytes of zeroes. The system backs them page by page when they are touched.
    pub(crate) fn zeroed(length: usize) -> Self {
        let mut memory = vec![0; length + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN);
        advise_huge(&mut memory[start..start + length]);
        Self {
            memory,
            start,
            length,
        }
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    /// All bytes, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
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
