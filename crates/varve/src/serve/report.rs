//! What is served, as the user and his scripts read it.

use super::identity;
use crate::envelope;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// A listener that is open.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Open {
    /// Where it listens.
    pub address: String,
    /// Address that hosts are told.
    pub advertise: std::net::IpAddr,
    /// Port that hosts are told.
    pub port: u16,
    pub is_discovery: bool,
}

/// A namespace that hosts see.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Shown {
    pub nsid: u32,
    /// What stands behind it.
    pub store: String,
    pub bytes: u64,
    pub uuid: String,
}

impl Shown {
    pub(super) fn new(nsid: u32, store: &str, bytes: u64, uuid: &[u8; 16]) -> Self {
        Self {
            nsid,
            store: store.to_owned(),
            bytes,
            uuid: identity::text(uuid),
        }
    }
}

/// What is served.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Serving {
    pub nqn: String,
    pub listeners: Vec<Open>,
    pub namespaces: Vec<Shown>,
    /// Where counters are read.
    pub metrics: Option<String>,
    /// Where commands come in.
    pub socket: Option<String>,
}

impl Serving {
    /// One line of JSON.
    pub(crate) fn json(&self) -> String {
        envelope::json_line("Serving", self)
    }

    /// For people: what is there and what to type on a host.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("serving {}\n", self.nqn);
        for Shown {
            nsid,
            store,
            bytes,
            uuid,
        } in &self.namespaces
        {
            let _ = writeln!(
                text,
                "  namespace {nsid}: {store}, {bytes} bytes, uuid {uuid}"
            );
        }
        for open in &self.listeners {
            let what = if open.is_discovery {
                "discovery"
            } else {
                "I/O"
            };
            let Open {
                address,
                advertise,
                port,
                ..
            } = open;
            let _ = writeln!(
                text,
                "  {what} on {address}, hosts are told {advertise} port {port}"
            );
        }
        if let Some(metrics) = &self.metrics {
            let _ = writeln!(text, "  counters at http://{metrics}/metrics");
        }
        if let Some(socket) = &self.socket {
            let _ = writeln!(text, "  commands at {socket}");
        }
        if let Some(io) = self.listeners.iter().find(|open| !open.is_discovery) {
            let (address, port) = (io.advertise, io.port);
            let _ = writeln!(
                text,
                "connect with: nvme connect -t tcp -a {address} -s {port} -n {} --ctrl-loss-tmo=600",
                self.nqn
            );
        }
        text
    }
}
