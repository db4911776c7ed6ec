//! The demonstration: a pool on sparse files, served to hosts of this machine, and a self-test that
//! shows what it promises.
//!
//! 1. `site`: a directory, files for drives, a pool, volumes of two tenants. Dense drives keep account
//!    of what their writes would cost QLC flash (`control::model`).
//! 2. `server`: `varve serve` as a process of its own, so that it can be killed.
//! 3. `selftest`: both volumes are filled and overwritten over NVMe/TCP until the dense tier has been
//!    written twice, then verified; they are overwritten on, the server is killed with SIGKILL in the
//!    midst of that and started again, and everything is verified once more.
//! 4. `report`: what was measured; then the pool is served until a signal.
//!
//! **Not here**: the load (`load`), the host's side of NVMe/TCP (`remote`), pools (`control`).

mod error;
mod preflight;
mod report;
mod run;
mod selftest;
mod server;
mod site;
mod tenant;
mod watch;

pub(crate) use error::DemoError;
pub(crate) use report::Report;
pub(crate) use run::{Request, run};
