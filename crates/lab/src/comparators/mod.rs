//! What is compared with, and by which parameters: the values of its documents, in one place.
//!
//! A file for each comparator. It has a struct of parameters, a constant with its documents' values, and a list of them for
//! reports. The models read the constant and have no values of their own, so what a report states is what ran. Each list
//! takes its struct apart field by field: the compiler tells of a field that nobody states.
//!
//! A source is a document, a place in a program, or the word *chosen* with the reason, where a model had to have a value that
//! no document tells. The engine states its parameters too, and has no source to name.
//!
//! **Not here**: what the modelled drives are made of (`media`, sheet by sheet with its sources), loads, and the figures that
//! results are held against (`experiments`).

mod csal;
mod csal_paper;
mod csal_today;
mod disks;
mod dm_zoned;
mod drop_in;
mod engine;
mod md;
mod open_cas;
mod oracle;
mod processor;
mod sepbit;
mod stated;
mod text_book;
mod tiers;

pub use stated::{Stated, StatedOf, Value, listed};

pub(crate) use csal::{CSAL, Charge};
pub(crate) use csal_paper::CSAL_PAPER;
pub(crate) use csal_today::CSAL_TODAY;
pub(crate) use disks::DISKS;
pub(crate) use dm_zoned::DM_ZONED;
pub(crate) use drop_in::DROP_IN;
pub(crate) use engine::{ENGINE, of_plan, of_pool};
pub(crate) use md::MD;
pub(crate) use open_cas::OPEN_CAS;
pub(crate) use oracle::ORACLE;
pub(crate) use processor::PROCESSOR;
pub(crate) use sepbit::SEPBIT;
pub(crate) use stated::{join, rows};
pub(crate) use text_book::TEXT_BOOK;
pub(crate) use tiers::{TIERS, Tiers};

use crate::rig::{RigRequest, SystemName};
use crate::waf::{PolicyName, WafRequest};

/// What a storage system is given if nobody says otherwise: the configuration of CSAL's documents, and md's own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Usual {
    /// Blocks of the dense tier that are not exported, per cent of all.
    pub over_provision: f64,
    /// Fast tier, per cent of what is exported.
    pub fast_tier: f64,
    /// Memory for the map, per cent of four bytes a block.
    pub map_cache: f64,
    /// Processors.
    pub cores: usize,
    /// md's choice of how parity is made anew.
    pub rmw_level: u8,
}

/// See [`Usual`].
pub const USUAL: Usual = Usual {
    over_provision: CSAL_PAPER.over_provision,
    fast_tier: CSAL_PAPER.fast_tier,
    map_cache: CSAL_PAPER.map_cache,
    cores: CSAL_PAPER.cores,
    rmw_level: MD.rmw_level,
};

/// What a placement policy goes by, of what is known before it runs.
pub(crate) fn of_policy(request: &WafRequest) -> Vec<Stated> {
    let own = match request.policy {
        PolicyName::Varve => return engine::asked_of_placement(request),
        PolicyName::CsalToday => CSAL_TODAY.stated(),
        PolicyName::CsalPaper => CSAL_PAPER.stated(),
        PolicyName::Greedy1
        | PolicyName::Fifo1
        | PolicyName::Greedy2
        | PolicyName::CostBenefit2 => TEXT_BOOK.stated_of(request.policy),
        PolicyName::Sepbit => SEPBIT.stated(),
        PolicyName::Oracle => ORACLE.stated(),
    };
    [own, TIERS.stated(request.fast_tier > 0.0)].concat()
}

/// What a storage system goes by, of what is known before it is built.
pub(crate) fn of_system(request: &RigRequest) -> Vec<Stated> {
    match request.system {
        SystemName::Varve => engine::asked_of_rig(request),
        SystemName::CsalToday => [
            CSAL_TODAY.stated(),
            CSAL_TODAY.stated_in_time(request),
            CSAL.stated(),
        ]
        .concat(),
        SystemName::CsalPaper => [
            CSAL_PAPER.stated(),
            CSAL_PAPER.stated_in_time(request),
            CSAL.stated(),
        ]
        .concat(),
        SystemName::HddArray => DISKS.stated(request),
        SystemName::DropIn => DROP_IN.stated(),
        SystemName::OpenCas => OPEN_CAS.stated(request),
        SystemName::DmZoned => DM_ZONED.stated(request),
        SystemName::Raid0 | SystemName::Raid10 | SystemName::Raid5 | SystemName::Raid6 => {
            MD.stated(request)
        }
    }
}
