//! Memory that a run of [`recovery`](crate::recovery) takes of the machine it runs on, reckoned before it starts.
//!
//! What grows with a run is what the modelled drives hold: batches of the log, as many as the fast tier has room for, and of
//! each block that was written what its leaf and its stripe say otherwise than before. The engine has its limit of memory, and at
//! the start a second one beside what is left of the first.
//!
//! # Source
//! Peaks of resident memory of `varve lab recovery` on 29 November, in MiB: 15.36 TB at 1/512, 1/256, 1/128 and 1/64 took 259, 403, 735
//! and 1,305, 1 TB at a quarter 1,364, 122.88 TB at 1/1024 847; 15.36 TB at 1/256 took 429 with a limit of 6 GB, 528 with 16, 821 with a fast tier of
//! 10 %, 1,095 with one overwrite before the window, 1,022 filled by writes, 273 with nothing in it. What is reckoned was within 10 % of these, 17 %
//! below that of 122.88 TB, a third above the 363 of 40 % over-provisioning, where less is moved, and a quarter above the 1,257 of four overwrites. No whole pool was run to its end: one of 15.36 TB had
//! 15.7 GB of modelled drives at 84 % of its warm-up (docs/figures.md), where 1/128 had 175 MB, times 128 22.4 GB. So the whole may take a third less.

use crate::plan::Plan;
use crate::recovery::{Fill, Request, warm_up_writes, window_writes};
use varve_units::BLOCK_BYTES;

/// Bytes that a process has before anything grows.
const BASE: f64 = 140e6;
/// Engines' memory, by their limit.
const ENGINES: f64 = 2.5;
/// Bytes of a block of the fast tier: of batches of short writes, most of it header.
const FAST_BLOCK: f64 = 235.0;
/// Bytes of a block of the volume that hosts wrote again: of its leaf's image, and of the stripes it lies in.
const WRITTEN_AGAIN: f64 = 90.0;
/// Bytes of one that was written in order and not again.
const FILLED: f64 = 47.0;

/// Bytes of memory that a run takes at its height, about.
#[must_use]
pub fn memory_needed(plan: &Plan, request: &Request) -> u64 {
    let user = plan.user_blocks as f64;
    let fast = plan.fast_bytes() as f64 / BLOCK_BYTES as f64;
    let writes = warm_up_writes(plan, request) + window_writes(plan, request);
    // Of blocks that are drawn at random so many are drawn at all.
    let again = 1.0 - (-(writes as f64) / user).exp();
    let of_blocks = match request.fill {
        Fill::Past => WRITTEN_AGAIN * again,
        Fill::Written => FILLED + (WRITTEN_AGAIN - FILLED) * again,
        // Before a pool is full nothing is collected: the first block of a leaf is one of few.
        Fill::Nothing => WRITTEN_AGAIN * again * again,
    };
    let bytes = BASE + ENGINES * plan.dram as f64 + FAST_BLOCK * fast + of_blocks * user;
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanRequest;

    const TB: u64 = 1_000_000_000_000;

    fn needed(change: impl FnOnce(&mut PlanRequest, &mut Request)) -> f64 {
        let mut pool = PlanRequest {
            capacity: 15 * TB + 360_000_000_000,
            dram: None,
            scale: 256,
            over_provision: 20,
            fast_per_cent: 3,
        };
        let mut request = Request {
            seed: 1,
            depth: 64,
            fill: Fill::Past,
            overwrites: 0.0,
            turns: 0,
            bandwidth: 13_000_000_000,
        };
        change(&mut pool, &mut request);
        let plan = Plan::new(&pool).expect("there is such a pool");
        memory_needed(&plan, &request) as f64 / f64::from(1 << 20)
    }

    /// Peaks that were measured, in MiB, by what was asked for.
    #[test]
    fn what_is_reckoned_is_what_was_measured() {
        type Change = fn(&mut PlanRequest, &mut Request);
        let measured: [(f64, Change); 15] = [
            (403.0, |_, _| ()),
            (259.0, |pool, _| pool.scale = 512),
            (735.0, |pool, _| pool.scale = 128),
            (1305.0, |pool, _| pool.scale = 64),
            (414.0, |pool, _| {
                (pool.capacity, pool.scale) = (61_440_000_000_000, 1024);
            }),
            (847.0, |pool, _| {
                (pool.capacity, pool.scale) = (122_880_000_000_000, 1024);
            }),
            (429.0, |pool, _| pool.dram = Some(6_000_000_000)),
            (528.0, |pool, _| pool.dram = Some(16_000_000_000)),
            (821.0, |pool, _| pool.fast_per_cent = 10),
            (1095.0, |_, request| request.overwrites = 1.0),
            (1022.0, |_, request| request.fill = Fill::Written),
            (273.0, |_, request| request.fill = Fill::Nothing),
            (496.0, |pool, request| {
                (pool.scale, request.fill) = (128, Fill::Nothing);
            }),
            (1994.0, |pool, request| {
                (pool.scale, request.fill) = (128, Fill::Written);
            }),
            (1364.0, |pool, _| {
                (pool.capacity, pool.scale) = (1_000_000_000_000, 4);
            }),
        ];
        for (at, (measured, change)) in measured.into_iter().enumerate() {
            let off = needed(change) / measured - 1.0;
            assert!(off.abs() < 0.18, "number {at}: {off:+.3} of {measured} MiB");
        }
        let less: [(f64, Change); 2] = [
            (363.0, |pool, _| pool.over_provision = 40),
            (1257.0, |_, request| request.overwrites = 4.0),
        ];
        for (measured, change) in less {
            let off = needed(change) / measured - 1.0;
            assert!((0.0..0.4).contains(&off), "{off:+.3} of {measured} MiB");
        }
    }

    /// The whole pool takes what few machines have.
    #[test]
    fn a_whole_pool_takes_tens_of_gigabytes() {
        let whole = needed(|pool, _| pool.scale = 1) / 1024.0;
        assert!((60.0..85.0).contains(&whole), "{whole} GiB");
    }
}
