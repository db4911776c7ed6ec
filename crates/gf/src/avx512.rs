//! The AVX-512 kernel: 64-byte vectors, four at a time.

#![expect(unsafe_code, reason = "vector loads and stores go through pointers")]

use crate::scalar;
use core::arch::x86_64::{__m512i, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_xor_si512};

/// Bytes of one vector.
const LANE: usize = 64;
/// Bytes of one step: four vectors stay in registers while the sources are added up.
const STEP: usize = 4 * LANE;

type Step = [__m512i; 4];

/// `acc ^= source`; the slices are equally long.
#[target_feature(enable = "avx512f")]
pub fn xor_into(acc: &mut [u8], source: &[u8]) {
    let whole = acc.len() - acc.len() % STEP;
    for at in (0..whole).step_by(STEP) {
        let mut sum = load(&acc[at..at + STEP]);
        add(&mut sum, load(&source[at..at + STEP]));
        store(&mut acc[at..at + STEP], sum);
    }
    scalar::xor_into(&mut acc[whole..], &source[whole..]);
}

/// `out = XOR of sources`; every source is as long as `out`, no sources give zeroes.
#[target_feature(enable = "avx512f")]
pub fn xor_many(out: &mut [u8], sources: &[&[u8]]) {
    let Some((first, rest)) = sources.split_first() else {
        out.fill(0);
        return;
    };
    let whole = out.len() - out.len() % STEP;
    for at in (0..whole).step_by(STEP) {
        let mut sum = load(&first[at..at + STEP]);
        for source in rest {
            add(&mut sum, load(&source[at..at + STEP]));
        }
        store(&mut out[at..at + STEP], sum);
    }
    out[whole..].copy_from_slice(&first[whole..]);
    for source in rest {
        scalar::xor_into(&mut out[whole..], &source[whole..]);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(from: &[u8]) -> Step {
    assert!(from.len() == STEP);
    let from = from.as_ptr();
    // SAFETY: the slice has STEP bytes, so the four vectors lie inside it; the load is unaligned.
    // Justification: one pass with the sums in registers; plain loops store after every source.
    unsafe {
        [
            _mm512_loadu_si512(from.cast()),
            _mm512_loadu_si512(from.add(LANE).cast()),
            _mm512_loadu_si512(from.add(2 * LANE).cast()),
            _mm512_loadu_si512(from.add(3 * LANE).cast()),
        ]
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(into: &mut [u8], sum: Step) {
    assert!(into.len() == STEP);
    let into = into.as_mut_ptr();
    // SAFETY: the slice has STEP bytes and is borrowed mutably, so the four vectors lie inside it
    // and nothing else refers to them; the store is unaligned.
    unsafe {
        _mm512_storeu_si512(into.cast(), sum[0]);
        _mm512_storeu_si512(into.add(LANE).cast(), sum[1]);
        _mm512_storeu_si512(into.add(2 * LANE).cast(), sum[2]);
        _mm512_storeu_si512(into.add(3 * LANE).cast(), sum[3]);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(sum: &mut Step, other: Step) {
    for (into, from) in sum.iter_mut().zip(other) {
        *into = _mm512_xor_si512(*into, from);
    }
}
