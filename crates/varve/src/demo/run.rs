//! A demonstration from its directory to its end.

use super::error::DemoError;
use super::preflight::Preflight;
use super::report::{Report, connect_lines};
use super::selftest::SelfTest;
use super::server::Server;
use super::site::{DENSE, FAST, POOL, SHEET, Site, VOLUMES};
use crate::signalled::Signalled;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;
use varve_hostio::{Executor, Io, Signals, hold_signals};
use varve_io::World;

/// A demonstration, as asked for.
pub(crate) struct Request {
    /// Where it lives; a temporary directory if none is named.
    pub(crate) directory: Option<PathBuf>,
    /// End after the self-test.
    pub(crate) once: bool,
    /// Where hosts connect.
    pub(crate) listen: SocketAddr,
    /// Where hosts ask what there is.
    pub(crate) discovery: SocketAddr,
}

/// Runs a demonstration. `tell` is given what people read on the way, `show` the report as soon as the
/// self-test has ended.
///
/// # Errors
/// As [`DemoError`] says; nothing is left behind in a temporary directory.
pub(crate) fn run(
    request: &Request,
    tell: impl Fn(&str) + 'static,
    show: impl FnOnce(&Report) + 'static,
) -> Result<bool, DemoError> {
    let begun = now();
    // Before anything is made that a signal would leave behind.
    hold_signals().map_err(DemoError::Signals)?;
    let site = Rc::new(Site::open(request.directory.as_deref())?);
    let preflight = Preflight::look(&site, request.listen, request.discovery)?;
    tell(&preflight.text());
    let made = site.make_pool()?;
    site.write_config(request.listen, request.discovery)?;
    tell(&made_text(&site, made.is_some()));
    let capacity_bytes = match made {
        Some(plan) => plan.capacity_bytes,
        None => site.status()?.capacity_bytes.unwrap_or(0),
    };
    let executor = Executor::new();
    let world = executor.world();
    let once = request.once;
    let outcome = executor.run(async move {
        let demo = Demo {
            signalled: hear(&world)?,
            world,
            site,
            capacity_bytes,
            has_module: preflight.has_module,
            begun,
        };
        demo.run(once, tell, show).await
    });
    outcome.map_err(DemoError::Stalled)?
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a demonstration takes is shown; nothing it does depends on that"
)]
fn now() -> Instant {
    Instant::now()
}

fn made_text(site: &Site, is_new: bool) -> String {
    let mib = |(_, bytes): (usize, u64)| bytes >> 20;
    let volumes = VOLUMES.map(|(name, bytes, tenant)| {
        format!("{POOL}/{name} ({} GiB, tenant {tenant})", bytes >> 30)
    });
    format!(
        "{} in {}\n  fast tier   {} files of {} MiB, mirrored\n  dense tier  {} files of {} MiB, {}+1 parity, \
         with an account of {SHEET} flash\n  volumes     {}, thin\n",
        if is_new { "made" } else { "found" },
        site.directory().display(),
        FAST.0,
        mib(FAST),
        DENSE.0,
        mib(DENSE),
        DENSE.0 - 1,
        volumes.join(", ")
    )
}

/// Hears signals from now on.
fn hear(world: &Rc<dyn World>) -> Result<Signalled, DemoError> {
    let io = Io::of(&**world).map_err(DemoError::NoIo)?;
    let signals = Signals::take(io).map_err(DemoError::Signals)?;
    Ok(Signalled::watch(
        world,
        signals,
        || {},
        "ended by a second signal",
    ))
}

struct Demo {
    world: Rc<dyn World>,
    site: Rc<Site>,
    signalled: Signalled,
    capacity_bytes: u64,
    has_module: bool,
    begun: Instant,
}

impl Demo {
    /// True if the self-test passed.
    async fn run(
        self,
        once: bool,
        tell: impl Fn(&str),
        show: impl FnOnce(&Report),
    ) -> Result<bool, DemoError> {
        let server = Server::start(&*self.world, &self.site).await?;
        self.fix_ports(&server)?;
        let test = SelfTest::new(
            Rc::clone(&self.world),
            Rc::clone(&self.site),
            &server,
            self.capacity_bytes,
            Rc::clone(self.signalled.came()),
        );
        let (outcome, server) = test.await?.run(server).await?;
        let report = Report::new(outcome, &server, self.begun.elapsed());
        tell(&report.text());
        show(&report);
        if !once {
            tell(&connect_lines(&server, self.has_module));
            tell("Ctrl-C ends it\n");
            self.signalled.wait().await;
        }
        server.stop(&*self.world, &self.site).await?;
        if !self.site.is_temporary() {
            let directory = self.site.directory().display();
            tell(&format!("everything is kept in {directory}\n"));
        }
        Ok(report.ok)
    }

    /// A server that is started again must listen where hosts know it.
    fn fix_ports(&self, server: &Server) -> Result<(), DemoError> {
        let of = |is_discovery| {
            let listeners = server.serving.listeners.iter();
            let mut found = listeners.filter(|open| open.is_discovery == is_discovery);
            let address = found.next().and_then(|open| open.address.parse().ok());
            address.ok_or_else(|| DemoError::Server("it does not listen as it should".to_owned()))
        };
        self.site.write_config(of(false)?, of(true)?)
    }
}
