//! The engine, which is no model: what it was given, and what it is charged.

use super::processor::PROCESSOR;
use super::stated::{Stated, bytes, micros, per_cent};
use crate::plan::Plan;
use crate::rig::RigRequest;
use crate::waf::WafRequest;
use varve_ftl::{Config, Geometry};
use varve_units::{BLOCK_BYTES, Nanos};

/// What the engine's work costs a processor.
///
/// # Source
/// `varve bench ram:` on one core of a Zen 5, alone, in the half hour in which `csal-today`'s was measured there, verification
/// on, the load's own work included (docs/figures.md): random 4 KiB writes 0.91 us at D 0.17, 1.12 at 0.35, 1.42 at 0.90, 1.85
/// at 1.38, 2.70 at 2.33, by a line 0.77 a write and 0.81 a dense block; reads 0.66. Of writes of 64 KiB and 128 KiB, which
/// take 14.4 us at D 0.89, 32.0 at 2.31 and 29.1 in order through the log, each further block costs 0.1 beside that.
pub(crate) struct Engine {
    /// A write.
    pub(crate) write: Nanos,
    /// A read.
    pub(crate) read: Nanos,
    /// Each block behind the first of a command.
    pub(crate) further_block: Nanos,
    /// A block that is written to the dense tier.
    pub(crate) dense_block: Nanos,
    /// A block that stays in the log: it is read, checked, copied and mapped as one that is moved, without parity.
    pub(crate) stayed_block: Nanos,
}

pub(crate) const ENGINE: Engine = Engine {
    write: Nanos(770),
    read: Nanos(660),
    further_block: Nanos(100),
    dense_block: Nanos(810),
    stayed_block: Nanos(810),
};

impl Engine {
    fn stated(&self) -> Vec<Stated> {
        let Self {
            write,
            read,
            further_block,
            dense_block,
            stayed_block,
        } = *self;
        let of = |name, time| Stated {
            source: Some("measured: varve bench ram: on a core of Zen 5, 29 November".to_owned()),
            ..Stated::own(name, micros(time))
        };
        vec![
            of("charge for a write", write),
            of("charge for a read", read),
            of("charge for each further block", further_block),
            of("charge for each dense block", dense_block),
            Stated::own(
                "charge for each block that stays in the log, as for one that is moved",
                micros(stayed_block),
            ),
            PROCESSOR.stated(),
        ]
    }
}

/// Without time, before its pool is made.
pub(super) fn asked_of_placement(request: &WafRequest) -> Vec<Stated> {
    vec![
        Stated::own("over-provisioning", per_cent(request.over_provision)),
        Stated::own(
            "fast tier, of what is exported",
            per_cent(request.fast_tier),
        ),
        Stated::own("map in memory", per_cent(100.0)),
    ]
}

/// In time, before its pool is made.
pub(super) fn asked_of_rig(request: &RigRequest) -> Vec<Stated> {
    let asked = [
        Stated::own("over-provisioning", per_cent(request.over_provision)),
        Stated::own(
            "fast tier, of what is exported",
            per_cent(request.fast_tier),
        ),
        Stated::own("map in memory", per_cent(request.map_cache)),
        Stated::own("protection", request.protect.name()),
        Stated::own("groups of an erase unit", request.groups_per_unit),
        Stated::own("processors", request.cores),
    ];
    asked.into_iter().chain(ENGINE.stated()).collect()
}

/// What its pool is made of.
pub(crate) fn of_pool(geometry: &Geometry, config: &Config) -> Vec<Stated> {
    let of_blocks = |blocks: u32| bytes(u64::from(blocks) * BLOCK_BYTES);
    vec![
        Stated::own("chunks", geometry.chunks),
        Stated::own("chunk", bytes(geometry.chunk_bytes)),
        Stated::own("groups", geometry.groups),
        Stated::own("group", of_blocks(geometry.group_blocks)),
        Stated::own("stripe", of_blocks(geometry.stripe_blocks)),
        Stated::own("copies of the P2L", geometry.p2l_copies),
        Stated::own("slices of the map", u32::from(geometry.slices)),
        Stated::own("images of leaves in memory, at most", config.map.images),
        Stated::own(
            "nodes of changes in memory, at most",
            config.map.delta_nodes,
        ),
        Stated::own("log between checkpoints", bytes(config.checkpoint_bytes)),
        Stated::own("checkpoints that hold the whole state", config.window),
    ]
}

/// Of a pool that starts after the loss of power.
pub(crate) fn of_plan(plan: &Plan) -> Vec<Stated> {
    let request = &plan.request;
    let asked = [
        Stated::own("over-provisioning", per_cent(request.over_provision.into())),
        Stated::own(
            "fast tier, of the dense tier",
            per_cent(request.fast_per_cent.into()),
        ),
        Stated::own("scale of the run", request.scale),
        Stated::own("limit of memory, at that scale", bytes(plan.dram)),
    ];
    let pool = of_pool(&plan.geometry, &plan.config);
    asked.into_iter().chain(pool).collect()
}
