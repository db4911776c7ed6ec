//! The daemon: listeners, namespaces and signals around one [`varve_server::Server`].
//!
//! [`Plan`] says what is to be served and refuses what makes no sense before anything is opened;
//! [`run`] serves it until a signal.

mod config;
mod counted;
mod door;
mod ending;
mod error;
mod exposition;
mod identity;
mod metrics;
mod notify;
mod opening;
mod plan;
mod ports;
mod readings;
mod report;
mod run;
mod test_namespace;
mod vigil;

pub(crate) use config::{DISCOVERY_LISTENER, IO_LISTENER, read as read_config};
pub(crate) use error::{ServeError, bind_code};
pub(crate) use plan::{
    DATA_BYTES_USUAL, DRAIN_USUAL, ListenerPlan, Plan, Source, TestKind, TestNamespace,
};
pub(crate) use report::Serving;
pub(crate) use run::run;
