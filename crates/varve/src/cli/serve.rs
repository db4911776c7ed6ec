//! `varve serve`.

use super::front;
use super::{Exit, complain, hint};
use crate::out;
use crate::serve::{
    self, DATA_BYTES_USUAL, DISCOVERY_LISTENER, DRAIN_USUAL, IO_LISTENER, ListenerPlan, Plan,
    ServeError, Serving, Source, TestKind, TestNamespace,
};
use clap::Args;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::thread::Builder;
use varve_control::{Failure, parse_size};
use varve_units::Nanos;

/// Options of `varve serve`.
#[derive(Args)]
pub(crate) struct Options {
    /// Configuration, in place of the options below but --test-namespace; also for memory of the map and
    /// pools that lack drives: deploy/varve.toml has all of it. Without one the usual state directory is
    /// served on loopback
    #[arg(long, conflicts_with_all = ["state", "listen", "discovery", "advertise", "nqn", "allow_host", "metrics", "spin_us"])]
    config: Option<PathBuf>,
    /// Serve one namespace without a pool, to measure everything but storage
    #[arg(long, value_enum, conflicts_with = "state")]
    test_namespace: Option<TestKind>,
    /// Size of the test namespace, a multiple of 4096 bytes
    #[arg(long, default_value = "1g", value_parser = parse_size, requires = "test_namespace")]
    size: u64,
    /// State directory: which pools there are [default: /var/lib/varve for root, else
    /// $XDG_STATE_HOME/varve, which is ~/.local/state/varve if that is not set]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Address and port for I/O; port 0 is any that is free. Off loopback hosts have to be named with
    /// --allow-host, and 0.0.0.0 needs --advertise
    #[arg(long, default_value_t = IO_LISTENER)]
    listen: SocketAddr,
    /// Address and port for discovery; port 0 is any that is free
    #[arg(long, default_value_t = DISCOVERY_LISTENER)]
    discovery: SocketAddr,
    /// Address that hosts are told to connect to, where it differs (behind a NAT, say)
    #[arg(long)]
    advertise: Option<IpAddr>,
    /// Name of the subsystem; made from the state directory's identity if none is given
    #[arg(long)]
    nqn: Option<String>,
    /// Name of a host that may connect, once for each; anybody on this machine if none is named and all
    /// listeners are on loopback
    #[arg(long, value_name = "NQN")]
    allow_host: Vec<String>,
    /// Address and port for metrics, for Prometheus at http://ADDRESS/metrics; on loopback only, nowhere if left out
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Microseconds the reactor looks for new commands before it sleeps, at most 10000: worth a wake-up at low depth, on
    /// a processor that has nothing else to do
    #[arg(long, value_name = "N", default_value_t = 0)]
    spin_us: u32,
    /// Drain and end when standard input ends, as by a signal: for who starts a server and may be killed
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
    /// Say on one line of JSON when and where hosts can connect
    #[arg(long)]
    json: bool,
}

/// Waits for the end of standard input, then sends this process what a service manager would.
fn until_stdin_ends() {
    // Whatever comes, it is the end that counts; an error is one.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    let own = std::process::id();
    if let Err(error) = varve_hostio::terminate(own) {
        complain(
            "no-end",
            &format!("process {own} cannot be told to end: {error}"),
            "",
        );
    }
}

impl Options {
    /// Serves until a signal.
    pub(crate) fn run(&self) -> Exit {
        let (is_json, is_led) = (self.json, self.until_stdin_ends);
        let when_ready = move |serving: &Serving| {
            let text = if is_json {
                serving.json()
            } else {
                serving.text()
            };
            print!("{text}");
            out::flush();
            if is_led {
                let thread = Builder::new().name("varve-stdin".to_owned());
                if let Err(error) = thread.spawn(until_stdin_ends) {
                    complain(
                        "no-thread",
                        &format!("standard input cannot be watched: {error}"),
                        "",
                    );
                }
            }
        };
        let served = self.plan().and_then(|plan| {
            if let Source::Pools { state_dir, .. } = &plan.source {
                hint::set_state(state_dir.as_deref());
            }
            serve::run(plan, when_ready)
        });
        match served {
            Ok(()) => Exit::Ok,
            Err(ServeError::Control(error)) => front::fail(&Failure::from(error)),
            Err(error) => {
                let next = error.next(self.config.is_some());
                complain(error.code(), &error.to_string(), &next);
                error.exit()
            }
        }
    }

    fn plan(&self) -> Result<Plan, ServeError> {
        let mut plan = match &self.config {
            Some(path) => serve::read_config(path).map_err(ServeError::Config)?,
            None => self.plan_of_options(),
        };
        if let Some(kind) = self.test_namespace {
            plan.source = Source::Test(TestNamespace {
                kind,
                bytes: self.size,
            });
        }
        Ok(plan)
    }

    fn plan_of_options(&self) -> Plan {
        let listener = |address, is_discovery| ListenerPlan {
            address,
            advertise: self.advertise,
            advertise_port: None,
            is_discovery,
        };
        Plan {
            nqn: self.nqn.clone(),
            listeners: vec![listener(self.listen, false), listener(self.discovery, true)],
            hosts: self.allow_host.clone(),
            source: Source::Pools {
                state_dir: self.state.clone(),
                map_bytes: None,
                degraded: false,
            },
            metrics: self.metrics,
            spin: Nanos::from_micros(self.spin_us.into()),
            data_bytes: DATA_BYTES_USUAL,
            drain: DRAIN_USUAL,
        }
    }
}
