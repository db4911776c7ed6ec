//! The ports hosts connect to.

use super::error::ServeError;
use super::plan::ListenerPlan;
use super::report::Open;
use std::io::ErrorKind;
use std::net::SocketAddr;
use varve_hostio::{Endpoint, Io, Listener};
use varve_io::World;
use varve_server::Server;
use varve_units::Nanos;

/// How long what a killed server had may stay taken: the kernel ends its ring, with the accepts, reads
/// and writes in flight, after the process is gone. Tens of milliseconds were seen.
pub(super) const REMAINS_TIME_MAX: Nanos = Nanos::from_secs(3);
/// Between two looks at it.
pub(super) const REMAINS_PAUSE: Nanos = Nanos::from_millis(20);

/// Ports that are taken; hosts are not accepted yet.
pub(super) struct Ports(Vec<(Listener, varve_target::Listener)>);

impl Ports {
    /// Takes all ports, or none. One that is busy is waited for as long as a killed server may keep
    /// it.
    ///
    /// # Errors
    /// One cannot be had.
    pub(super) async fn bind(
        world: &dyn World,
        io: &Io,
        plans: &[ListenerPlan],
    ) -> Result<Self, ServeError> {
        let until = world.now() + REMAINS_TIME_MAX;
        let mut bound = Vec::new();
        for plan in plans {
            bound.push(loop {
                match bind(io, plan) {
                    Err(ServeError::Bind(_, error))
                        if error.kind() == ErrorKind::AddrInUse && world.now() < until =>
                    {
                        world.sleep(REMAINS_PAUSE).await;
                    }
                    outcome => break outcome?,
                }
            });
        }
        Ok(Self(bound))
    }

    /// What hosts are told.
    pub(super) fn told(&self) -> Vec<varve_target::Listener> {
        self.0.iter().map(|(_, told)| *told).collect()
    }

    /// Accepts hosts.
    pub(super) fn open(self, server: &Server) -> Vec<Open> {
        let open = self.0.into_iter().map(|(listener, told)| Open {
            address: server.listen(listener).to_string(),
            advertise: told.advertise.ip(),
            port: told.advertise.port(),
            is_discovery: told.is_discovery,
        });
        open.collect()
    }
}

fn bind(io: &Io, plan: &ListenerPlan) -> Result<(Listener, varve_target::Listener), ServeError> {
    let failed = |error| ServeError::Bind(plan.address, error);
    let listener = Listener::bind(io.clone(), &Endpoint::Tcp(plan.address)).map_err(failed)?;
    let port = match listener.endpoint() {
        Endpoint::Tcp(address) => address.port(),
        Endpoint::Unix(_) => plan.address.port(),
    };
    let told = varve_target::Listener {
        advertise: SocketAddr::new(
            plan.advertise.unwrap_or(plan.address.ip()),
            plan.advertise_port.unwrap_or(port),
        ),
        is_discovery: plan.is_discovery,
    };
    Ok((listener, told))
}
