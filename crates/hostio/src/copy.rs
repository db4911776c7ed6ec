//! Copies that leave the cache alone.
//!
//! A drive in memory is written and not read again soon: non-temporal stores save reading the
//! lines that are about to be overwritten, and keep the map in the cache.

/// Bytes per step of the non-temporal loop.
const STEP: usize = 64;

/// Copies `from` to `into`, past the cache where the processor and the alignment allow it.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn copy_past_cache(into: &mut [u8], from: &[u8]) {
    assert_eq!(into.len(), from.len(), "source and target of a copy");
    #[cfg(target_arch = "x86_64")]
    if into.len().is_multiple_of(STEP) && into.as_ptr().addr().is_multiple_of(STEP) {
        stream(into, from);
        return;
    }
    into.copy_from_slice(from);
}

#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "non-temporal stores are intrinsics; gain measured in the crate's bench notes"
)]
fn stream(into: &mut [u8], from: &[u8]) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    for (into, from) in into.chunks_exact_mut(STEP).zip(from.chunks_exact(STEP)) {
        let target: *mut __m128i = into.as_mut_ptr().cast();
        let source: *const __m128i = from.as_ptr().cast();
        // SAFETY: both pieces are 64 bytes long, `into` is 64-byte aligned (the caller looked)
        // and exclusive; SSE2 is part of x86-64.
        unsafe {
            let lines = [0, 1, 2, 3].map(|line| _mm_loadu_si128(source.add(line)));
            for (line, value) in lines.into_iter().enumerate() {
                _mm_stream_si128(target.add(line), value);
            }
        }
    }
    // SAFETY: no operands; SSE is part of x86-64. Orders the stores above before any later one.
    unsafe { _mm_sfence() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_alignment_copies_all_bytes() {
        let from: Vec<u8> = (0..1024_u32).map(|index| (index * 7 + 3) as u8).collect();
        for start in 0..65 {
            for length in [0, 1, 63, 64, 65, 128, 512, 900] {
                let mut into = vec![0; 1024];
                copy_past_cache(
                    &mut into[start..start + length],
                    &from[start..start + length],
                );
                assert_eq!(into[start..start + length], from[start..start + length]);
                assert!(
                    into[..start]
                        .iter()
                        .chain(&into[start + length..])
                        .all(|&b| b == 0)
                );
            }
        }
    }
}
