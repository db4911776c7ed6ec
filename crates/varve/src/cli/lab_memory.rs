//! Whether this machine has the memory that `varve lab recovery` takes.

use varve_lab::plan::{Plan, PlanRequest};
use varve_lab::recovery::{Request, memory_needed};

/// Why a run is not begun, and what can be done: nothing if what is `available` suffices, in bytes.
pub(super) fn refusal(
    pool: &PlanRequest,
    request: &Request,
    available: u64,
) -> Option<(String, String)> {
    let needed = |scale| {
        let pool = PlanRequest { scale, ..*pool };
        let plan = Plan::new(&pool).ok()?;
        Some(memory_needed(&plan, request))
    };
    let here = needed(pool.scale).filter(|needed| *needed > available)?;
    let tb = pool.capacity as f64 / 1e12;
    let what = format!(
        "{tb:.2} TB at --scale {} would take about {} of memory for what the modelled drives hold, and {} are available",
        pool.scale,
        gigabytes(here),
        gigabytes(available)
    );
    let scales = std::iter::successors(pool.scale.checked_mul(2), |scale| scale.checked_mul(2));
    let scales = scales.map_while(|scale| Some((scale, needed(scale)?)));
    let fits = scales.into_iter().find(|(_, needed)| *needed <= available);
    let next = match fits {
        Some((scale, needed)) => {
            format!(
                "give --scale {scale}, which takes about {}",
                gigabytes(needed)
            )
        }
        None => "give a smaller --capacity, or end what else takes memory".to_owned(),
    };
    Some((what, next))
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_lab::recovery::Fill;

    const POOL: PlanRequest = PlanRequest {
        capacity: 15_360_000_000_000,
        dram: None,
        scale: 1,
        over_provision: 20,
        fast_per_cent: 3,
    };
    const REQUEST: Request = Request {
        seed: 1,
        depth: 64,
        fill: Fill::Past,
        overwrites: 0.0,
        turns: 0,
        bandwidth: 13_000_000_000,
    };

    fn told(scale: u64, available: u64) -> Option<(String, String)> {
        refusal(&PlanRequest { scale, ..POOL }, &REQUEST, available)
    }

    /// Which pool, how much it would take and how much there is; then the least scale that fits, which is not refused.
    #[test]
    fn a_refusal_says_what_would_do() {
        let (what, next) = told(1, 24_000_000_000).expect("it is too large");
        assert!(
            what.starts_with("15.36 TB at --scale 1 would take about "),
            "{what}"
        );
        assert!(what.ends_with(", and 24.0 GB are available"), "{what}");
        assert!(
            next.starts_with("give --scale 4, which takes about "),
            "{next}"
        );
        assert_eq!(told(4, 24_000_000_000), None);
        assert!(told(2, 24_000_000_000).is_some());
    }

    /// Where no scale fits, none is named.
    #[test]
    fn what_cannot_be_helped_by_a_scale_is_said() {
        let (_, next) = told(1, 1_000_000).expect("it is too large");
        assert!(next.starts_with("give a smaller --capacity"), "{next}");
    }
}
