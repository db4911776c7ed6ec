//! What the tests share: a generator and the formula.

use varve_media::{Op, Shape, Ssd};

/// SplitMix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}

/// Nobody is told.
pub fn nobody(_: Op) {}

pub const IU: u32 = 65536;

/// A drive of `units` times `unit_ius` IUs of 64 KiB.
pub fn drive(units: u64, unit_ius: u64, spare_millionths: u64) -> Ssd {
    let bytes = units * unit_ius * u64::from(IU);
    let shape = Shape::new(bytes, IU, units, spare_millionths, 32, true);
    Ssd::new(shape.expect("a possible shape"))
}

/// Writes every IU once, in order.
pub fn fill(ssd: &mut Ssd) {
    let iu = u64::from(ssd.shape().iu_bytes);
    for at in 0..u64::from(ssd.shape().ius) {
        ssd.write(at * iu, iu, &mut nobody);
    }
}

/// Writes `times` the drive's IUs, whole ones, each anywhere.
pub fn overwrite(ssd: &mut Ssd, rng: &mut Rng, times: f64) {
    let (iu, ius) = (u64::from(ssd.shape().iu_bytes), u64::from(ssd.shape().ius));
    for _ in 0..(ius as f64 * times) as u64 {
        let at = rng.below(ius);
        ssd.write(at * iu, iu, &mut nobody);
    }
}

/// Uniform random writes over a log with greedy cleaning, of large erase units:
/// WAF = a / (a + W0(-a e^-a)) with the spare factor `a`.
///
/// # Source
/// Desnoyers, Analytic Models of SSD Write Performance, ACM TOS 10 (2014).
pub fn formula(a: f64) -> f64 {
    let x = -a * (-a).exp();
    // The principal branch lies between -1 and 0; bisection needs no start value.
    let (mut low, mut high) = (-1.0_f64, 0.0_f64);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if middle * middle.exp() < x {
            low = middle;
        } else {
            high = middle;
        }
    }
    a / (a + low)
}
