//! Drives, arrays and engine of a plan.

use super::plan::{DATA_STRIPS, Plan, STRIP_BLOCKS};
use std::rc::Rc;
use varve_array::{AssembleError, Member, Membership, Mirror, Protection, StripeSet};
use varve_ftl::Seats;
use varve_hostio::{RamDrive, RamMemory};
use varve_io::{Completion, Drive, IoError, World};
use varve_units::BLOCK_BYTES;

/// A loss on drives in memory is a bug: nothing is ever served degraded.
struct NoLoss;

impl Membership for NoLoss {
    fn lost(&self, _member: usize, why: IoError) -> Completion {
        Completion::ready(Err(why))
    }
}

/// The memory of a pool's drives, for any number of reactors.
#[derive(Clone)]
pub(super) struct Rig {
    fast: Vec<RamMemory>,
    dense: Vec<RamMemory>,
}

/// Bytes written to the drives of each tier, redundancy included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// To one side of the fast tier.
    pub(super) fast: u64,
    /// To all dense drives.
    pub(super) dense: u64,
}

impl Rig {
    /// Blank memory for a plan, taken from the system unless its blocks are symbols, which take little.
    pub(super) fn new(plan: &Plan) -> Self {
        let sides = if plan.is_mirrored { 2 } else { 1 };
        let fast = || RamMemory::new(plan.fast_bytes(), plan.geometry.lba_bytes);
        // Symbols have no parity.
        let (drives, strips) = match plan.config.elided {
            true => (1, DATA_STRIPS),
            false => (DATA_STRIPS + 1, 1),
        };
        let bytes = plan.dense_bytes() / DATA_STRIPS * strips;
        let rig = Self {
            fast: (0..sides).map(|_| fast()).collect(),
            dense: (0..drives)
                .map(|_| RamMemory::new(bytes, BLOCK_BYTES as u32))
                .collect(),
        };
        if !plan.config.elided {
            let drives = rig.fast.iter().chain(&rig.dense);
            drives.for_each(RamMemory::take_all);
        }
        rig
    }

    /// What one reactor's part of an engine of the plan runs on: drives and arrays of its own over the
    /// common memory.
    pub(super) fn seats(&self, plan: &Plan, world: Rc<dyn World>) -> Result<Seats, AssembleError> {
        let fast = self.fast_tier(&world)?;
        let dense = self.dense_tier(plan, &world)?;
        Ok(Seats {
            world,
            fast,
            dense: Some(dense),
        })
    }

    fn dense_tier(
        &self,
        plan: &Plan,
        world: &Rc<dyn World>,
    ) -> Result<Rc<dyn Drive>, AssembleError> {
        if let [single] = &self.dense[..] {
            return Ok(Rc::new(RamDrive::over(single.clone())));
        }
        let geometry = &plan.geometry;
        let zone_strips = u64::from(geometry.group_blocks) / (DATA_STRIPS * STRIP_BLOCKS);
        let layout = varve_array::Geometry::new(
            self.dense.len(),
            STRIP_BLOCKS,
            zone_strips,
            u64::from(geometry.groups),
            Protection::Parity {
                data: DATA_STRIPS as usize,
            },
        );
        let layout = layout.expect("a plan's stripes fit its drives");
        let members = live(&self.dense);
        let dense = StripeSet::new(layout, members, Rc::new(NoLoss), Rc::clone(world))?;
        Ok(Rc::new(dense))
    }

    fn fast_tier(&self, world: &Rc<dyn World>) -> Result<Rc<dyn Drive>, AssembleError> {
        if let [single] = &self.fast[..] {
            return Ok(Rc::new(RamDrive::over(single.clone())));
        }
        let mirror = Mirror::new(live(&self.fast), Rc::new(NoLoss), Rc::clone(world))?;
        Ok(Rc::new(mirror))
    }

    /// Bytes written so far.
    pub(super) fn written(&self) -> Written {
        Written {
            fast: self.fast[0].traffic().written,
            dense: self.dense.iter().map(|drive| drive.traffic().written).sum(),
        }
    }
}

fn live(drives: &[RamMemory]) -> Vec<Member> {
    let member = |memory: &RamMemory| {
        let drive = RamDrive::over(memory.clone());
        Member::live(Rc::new(drive), 0)
    };
    drives.iter().map(member).collect()
}
