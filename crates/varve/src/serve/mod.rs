//! The daemon: listeners, namespaces and signals around one [`varve_server::Server`].
//!
//! [`Plan`] says what is to be served and refuses what makes no sense before anything is opened;
//! [`run`] serves it until a signal.

mod error;
mod identity;
mod plan;
mod report;
mod run;

pub(crate) use plan::{ListenerPlan, Plan, TestKind, TestNamespace};
pub(crate) use report::Serving;
pub(crate) use run::run;
