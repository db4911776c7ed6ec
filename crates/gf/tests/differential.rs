//! Every kernel this processor has against the scalar reference.

use varve_gf::{Kernel, xor_into, xor_many};

/// Bytes from a seed (xorshift), so that a failure is reproducible.
fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}

/// Kernels other than the reference; tells which of them were skipped.
fn kernels() -> Vec<Kernel> {
    let (here, absent): (Vec<_>, Vec<_>) = Kernel::ALL
        .into_iter()
        .filter(|&kernel| kernel != Kernel::Scalar)
        .partition(|kernel| kernel.is_available());
    println!("tested {here:?}, skipped {absent:?}: not on this processor");
    here
}

/// Lengths around every vector and step boundary, and all small ones.
fn lengths() -> impl Iterator<Item = usize> {
    (0..=300).chain([511, 512, 513, 767, 1000, 4095, 4096, 4097, 16384 + 31])
}

#[test]
fn xor_into_equals_reference_at_all_lengths_and_alignments() {
    for kernel in kernels() {
        for length in lengths() {
            for shift in [0, 1, 7, 31] {
                let source = bytes(7 + length as u64, length + shift);
                let before = bytes(1, length + shift + 1);
                let mut expected = before.clone();
                let mut found = before.clone();
                Kernel::Scalar.xor_into(&mut expected[shift..][..length], &source[shift..]);
                kernel.xor_into(&mut found[shift..][..length], &source[shift..]);
                assert_eq!(expected, found, "{kernel:?} length {length} shift {shift}");
            }
        }
    }
}

#[test]
fn xor_many_equals_reference_for_all_numbers_of_sources() {
    for kernel in kernels() {
        for length in lengths() {
            for count in 0..=9_usize {
                let sources: Vec<_> = (0..count)
                    .map(|index| bytes(index as u64 + 3, length + index % 3))
                    .collect();
                let sources: Vec<&[u8]> = sources
                    .iter()
                    .enumerate()
                    .map(|(index, source)| &source[index % 3..])
                    .collect();
                let before = bytes(99, length + 1);
                let mut expected = before.clone();
                let mut found = before;
                Kernel::Scalar.xor_many(&mut expected[..length], &sources);
                kernel.xor_many(&mut found[..length], &sources);
                assert_eq!(
                    expected, found,
                    "{kernel:?} length {length} sources {count}"
                );
            }
        }
    }
}

/// The reference itself, against the definition written another way.
#[test]
fn reference_is_xor() {
    let sources = [bytes(1, 77), bytes(2, 77), bytes(3, 77)];
    let slices: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut out = vec![0xff; 77];
    Kernel::Scalar.xor_many(&mut out, &slices);
    for (at, &byte) in out.iter().enumerate() {
        let expected = sources.iter().fold(0, |sum, source| sum ^ source[at]);
        assert_eq!(byte, expected, "byte {at}");
    }
}

#[test]
fn a_missing_source_is_the_sum_of_the_others_and_parity() {
    let sources = [bytes(1, 5000), bytes(2, 5000), bytes(3, 5000)];
    let slices: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut parity = vec![0; 5000];
    xor_many(&mut parity, &slices);
    xor_into(&mut parity, &sources[0]);
    xor_into(&mut parity, &sources[2]);
    assert_eq!(parity, sources[1]);
}

#[test]
fn no_sources_give_zeroes() {
    let mut out = vec![1; 200];
    xor_many(&mut out, &[]);
    assert!(out.iter().all(|&byte| byte == 0));
}

#[test]
#[should_panic(expected = "xor of different lengths")]
fn different_lengths_are_refused() {
    xor_many(&mut [0; 8], &[&[0; 8], &[0; 7]]);
}
