//! Whether a start that accepts a loss comes as far as it can without writing.
//!
//! Its first label says whom it gives up, so it must not be written before: the drives that are away may be
//! the ones that hold what these have lost. Other starts note nobody's loss before the engine writes.

use crate::assembly::Assembly;
use crate::error::PoolError;
use crate::label::{Import, LabelState, LabelStore, first_proposal};
use crate::options::{PlanError, engine_geometry};
use crate::settings::{Settings, engine_config};
use alloc::rc::Rc;
use varve_array::Membership;
use varve_ftl::{Config, Engine, Identity, Seats};
use varve_io::{Completion, IoError, World};

/// Nobody is given up.
struct Refusal;

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
    let bare = Bare::of(world, stores, import, &state, settings)?;
    Ok(Engine::rehearse(bare.seats, bare.sizes, bare.config, bare.identity).await?)
}

/// What an engine is given that runs before labels say anything of it: on one reactor, over arrays that give nobody up.
pub(crate) struct Bare {
    pub(crate) seats: Seats,
    pub(crate) sizes: varve_ftl::Geometry,
    pub(crate) config: Config,
    pub(crate) identity: Identity,
}

impl Bare {
    /// Over the drives of an import, in the places and the epoch of `state`.
    ///
    /// # Errors
    /// Drives that are too few, a reserve that does not fit.
    pub(crate) fn of(
        world: &Rc<dyn World>,
        stores: &[Rc<LabelStore>],
        import: &Import,
        state: &LabelState,
        settings: Settings,
    ) -> Result<Self, PoolError> {
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
        // What is read is the same by however many, and a start may have as many as it likes.
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
        Ok(Self {
            seats,
            sizes,
            config,
            identity,
        })
    }
}
