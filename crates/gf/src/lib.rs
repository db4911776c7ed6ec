//! Parity arithmetic: XOR over byte strings.
//!
//! [`xor_into`] and [`xor_many`] choose the widest [`Kernel`] the processor has, at run time. All
//! kernels give the bytes of [`Kernel::Scalar`], which is the reference in the differential tests.
//! The crate is `no_std`; the default feature `std` serves only to ask the processor what it can
//! do, without it the scalar kernel runs.
//!
//! **Invariants**: no kernel reads or writes outside the slices it is given; slices need no
//! alignment; the output of [`xor_many`] is written once, in one pass over all sources.
//!
//! **Not here**: which bytes belong to a stripe (`array`), codes over GF(2^8) with more than one
//! parity.

#![no_std]

#[cfg(feature = "std")]
extern crate std;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod kernel;
mod scalar;

pub use kernel::{Kernel, xor_into, xor_many};
