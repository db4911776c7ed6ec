//! Choice of a kernel.

use crate::scalar;

/// One way to compute; all give the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kernel {
    /// Plain loops, the reference.
    Scalar,
    /// 32-byte vectors.
    Avx2,
    /// 64-byte vectors.
    Avx512,
}

impl Kernel {
    /// Every kernel, narrowest first.
    pub const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512];

    /// The widest kernel this processor has.
    #[must_use]
    pub fn best() -> Self {
        if Self::Avx512.is_available() {
            Self::Avx512
        } else if Self::Avx2.is_available() {
            Self::Avx2
        } else {
            Self::Scalar
        }
    }

    /// True if this processor can run the kernel.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            Self::Avx2 => has_avx2(),
            Self::Avx512 => has_avx512(),
        }
    }

    /// `acc ^= source` with this kernel.
    ///
    /// # Panics
    /// If the lengths differ or the processor cannot run the kernel.
    pub fn xor_into(self, acc: &mut [u8], source: &[u8]) {
        assert_eq!(acc.len(), source.len(), "xor of different lengths");
        self.check();
        match self {
            Self::Scalar => scalar::xor_into(acc, source),
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "calls a kernel that needs a processor feature")]
            // SAFETY: `check` has asserted that the processor has AVX2.
            Self::Avx2 => unsafe { crate::avx2::xor_into(acc, source) },
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "calls a kernel that needs a processor feature")]
            // SAFETY: `check` has asserted that the processor has AVX-512F.
            Self::Avx512 => unsafe { crate::avx512::xor_into(acc, source) },
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => unreachable!("checked above"),
        }
    }

    /// `out = XOR of sources` with this kernel, in one pass.
    ///
    /// # Shape
    /// Every source is as long as `out`; no sources give zeroes.
    ///
    /// # Panics
    /// If the lengths differ or the processor cannot run the kernel.
    pub fn xor_many(self, out: &mut [u8], sources: &[&[u8]]) {
        for source in sources {
            assert_eq!(out.len(), source.len(), "xor of different lengths");
        }
        self.check();
        match self {
            Self::Scalar => scalar::xor_many(out, sources),
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "calls a kernel that needs a processor feature")]
            // SAFETY: `check` has asserted that the processor has AVX2.
            Self::Avx2 => unsafe { crate::avx2::xor_many(out, sources) },
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "calls a kernel that needs a processor feature")]
            // SAFETY: `check` has asserted that the processor has AVX-512F.
            Self::Avx512 => unsafe { crate::avx512::xor_many(out, sources) },
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => unreachable!("checked above"),
        }
    }

    fn check(self) {
        assert!(self.is_available(), "this processor has no {self:?} kernel");
    }
}

/// `acc ^= source`, with the best kernel.
///
/// # Panics
/// If the lengths differ.
///
/// # Example
/// ```
/// let mut acc = [1, 2, 3];
/// varve_gf::xor_into(&mut acc, &[1, 1, 1]);
/// assert_eq!(acc, [0, 3, 2]);
/// ```
pub fn xor_into(acc: &mut [u8], source: &[u8]) {
    Kernel::best().xor_into(acc, source);
}

/// `out = XOR of sources`, with the best kernel, in one pass; no sources give zeroes.
///
/// # Panics
/// If a source is not as long as `out`.
pub fn xor_many(out: &mut [u8], sources: &[&[u8]]) {
    Kernel::best().xor_many(out, sources);
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
fn has_avx512() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

#[cfg(not(all(feature = "std", target_arch = "x86_64")))]
fn has_avx2() -> bool {
    false
}

#[cfg(not(all(feature = "std", target_arch = "x86_64")))]
fn has_avx512() -> bool {
    false
}
