//! `varve serve`.

use super::bench::parse_bytes;
use super::{Exit, complain};
use crate::serve::{self, ListenerPlan, Plan, Serving, TestKind, TestNamespace};
use clap::Args;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};

/// Options of `varve serve`.
#[derive(Args)]
pub(crate) struct Options {
    /// Serve one namespace without a pool, to measure everything but storage
    #[arg(long, value_enum)]
    test_namespace: TestKind,
    /// Size of the test namespace in bytes; `m` and `g` are understood
    #[arg(long, default_value = "1g", value_parser = parse_bytes)]
    size: u64,
    /// Address and port for I/O; port 0 is any that is free
    #[arg(long, default_value = "127.0.0.1:4420")]
    listen: SocketAddr,
    /// Address and port for discovery; port 0 is any that is free
    #[arg(long, default_value = "127.0.0.1:8009")]
    discovery: SocketAddr,
    /// Address that hosts are told to connect to, where it differs (behind a NAT, say)
    #[arg(long)]
    advertise: Option<IpAddr>,
    /// Name of the subsystem
    #[arg(long, default_value = "nqn.2026-11.io.varve:test")]
    nqn: String,
    /// Name of a host that may connect; anybody on this machine if none is named
    #[arg(long, value_name = "NQN")]
    allow_host: Vec<String>,
    /// Say on one line of JSON when and where hosts can connect
    #[arg(long)]
    json: bool,
}

impl Options {
    /// Serves until a signal.
    pub(crate) fn run(&self) -> Exit {
        let is_json = self.json;
        let when_ready = move |serving: &Serving| {
            let text = if is_json {
                serving.json()
            } else {
                serving.text()
            };
            // A reader that is gone does not keep hosts from being served.
            let mut out = std::io::stdout();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        };
        match serve::run(self.plan(), when_ready) {
            Ok(()) => Exit::Ok,
            Err(error) => {
                complain(&error.to_string(), error.next());
                error.exit()
            }
        }
    }

    fn plan(&self) -> Plan {
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
            test: Some(TestNamespace {
                kind: self.test_namespace,
                bytes: self.size,
            }),
        }
    }
}
