//! Whether a start that accepts a loss comes as far as it can without writing.
//!
//! Its first label says whom it gives up, so it must not be written before: the drives that are away may be
//! the ones that hold what these have lost. Other starts note nobody's loss before the engine writes.

use crate::assembly::Assembly;
use crate::error::PoolError;
use crate::label::{Import, LabelStore, first_proposal};
use crate::options::{PlanError, engine_geometry};
use crate::settings::{Settings, engine_config};
use alloc::rc::Rc;
use varve_array::Membership;
use varve_ftl::{Engine, Identity};
use varve_io::{Completion, IoError, World};

/// Nobody is given up.
pub(crate) struct Refusal;

impl Membership for Refusal {
    fn lost(&self, _: usize, _: IoError) -> Completion {
        Completion::ready(Err(IoError::Gone))
    }
}

/// Reads what the start will read, over the drives that it will use, if it accepts a loss.
///
/// # Errors
/// What would fail the start.
pub(crate) async fn rehearse(
    world: &Rc<dyn World>,
    stores: &[Rc<LabelStore>],
    import: &Import,
    settings: Settings,
) -> Result<(), PoolError> {
    match import.loss {
        None => Ok(()),
        Some(_) => could_start(world, stores, import, settings).await,
    }
}

/// Reads what a start would read, over the drives that it would use.
///
/// # Errors
/// What would fail it.
pub(crate) async fn could_start(
    world: &Rc<dyn World>,
    stores: &[Rc<LabelStore>],
    import: &Import,
    settings: Settings,
) -> Result<(), PoolError> {
    let (state, _) = first_proposal(import, settings.owner);
    let geometry = state.geometry;
    let assembly = Assembly {
        world,
        table: &state.members,
        stores,
        import,
        canary: settings.canary,
    };
    let seats = assembly.bare(&geometry, &(Rc::new(Refusal) as Rc<dyn Membership>))?;
    let sizes = engine_geometry(&geometry);
    // What is read is the same by however many.
    let settings = Settings {
        lanes: 1,
        ..settings
    };
    let config = engine_config(&sizes, geometry.over_provision_per_mille, &settings)
        .map_err(PlanError::Reserve)?;
    let identity = Identity {
        pool: state.pool.0,
        epoch: state.epoch,
    };
    Ok(Engine::rehearse(seats, sizes, config, identity).await?)
}
