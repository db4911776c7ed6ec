//! What uniform random writes cost at least.

/// Dense-tier writes for each block that reaches the tier, under uniform random writes, in units so
/// large that chance evens out: `a / (a + W0(-a e^-a))` with `a` physical blocks for each user block.
///
/// # Panics
/// If there are no more physical than user blocks.
///
/// # Source
/// Desnoyers: Analytic Modeling of SSD Write Performance, 2012; Xiang, Kurkoski, 2012.
#[must_use]
pub fn uniform_waf(physical_per_user: f64) -> f64 {
    assert!(
        physical_per_user > 1.0,
        "{physical_per_user} blocks for one"
    );
    // A victim's live share u satisfies u = exp(-a (1 - u)); 1 does too, so from below.
    let mut live = 0.0_f64;
    loop {
        let next = (-physical_per_user * (1.0 - live)).exp();
        if next - live < 1e-13 {
            return 1.0 / (1.0 - next);
        }
        live = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of the literature, over-provisioning in per cent of raw.
    #[test]
    fn the_formula_gives_the_published_figures() {
        let published = [
            (7.0, 7.32),
            (10.0, 5.18),
            (18.0, 2.97),
            (20.0, 2.69),
            (40.0, 1.48),
        ];
        for (per_cent, waf) in published {
            let ours = uniform_waf(1.0 / (1.0 - per_cent / 100.0));
            assert!(
                (ours / waf - 1.0_f64).abs() < 0.004,
                "{per_cent} %: {ours}, published {waf}"
            );
        }
    }
}
