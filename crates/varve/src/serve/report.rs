//! What is served, as the user and his scripts read it.

use super::identity;
use crate::cli::typed;
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
            let _ = writeln!(text, "  metrics at http://{metrics}/metrics");
        }
        if let Some(socket) = &self.socket {
            let _ = writeln!(text, "  commands at {socket}");
        }
        text + &self.connecting()
    }

    /// What to type: on a host, or here, where a host would find nothing.
    fn connecting(&self) -> String {
        let mut text = String::new();
        if self.namespaces.is_empty() {
            let steps = "varve pool list shows what there is; varve pool create NAME --fast PATH... --dense \
                         PATH... makes a pool; varve volume create POOL/NAME SIZE makes a volume";
            let _ = writeln!(text, "nothing to connect to yet: {}", typed(steps));
        }
        let Some(io) = self.listeners.iter().find(|open| !open.is_discovery) else {
            let _ = writeln!(
                text,
                "no listener for I/O: hosts can ask what there is and cannot use it"
            );
            return text;
        };
        let (address, port) = (io.advertise, io.port);
        let _ = writeln!(
            text,
            "connect with: nvme connect -t tcp -a {address} -s {port} -n {} --ctrl-loss-tmo=600",
            self.nqn
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn serving(is_discovery: bool, namespaces: Vec<Shown>) -> Serving {
        let open = Open {
            address: "127.0.0.1:4420".to_owned(),
            advertise: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 4420,
            is_discovery,
        };
        Serving {
            nqn: "nqn.2026-11.io.varve:a".to_owned(),
            listeners: vec![open],
            namespaces,
            metrics: None,
            socket: None,
        }
    }

    /// A host that followed what is told would find something, or it is told that it would not.
    #[test]
    fn what_hosts_lack_is_told() {
        let volume = || vec![Shown::new(1, "tank/db", 4096, &[1; 16])];
        let whole = serving(false, volume()).text();
        assert!(whole.contains("connect with: nvme connect"), "{whole}");
        assert!(!whole.contains("nothing to connect to"), "{whole}");
        let empty = serving(false, Vec::new()).text();
        assert!(empty.contains("nothing to connect to yet: varve pool list"));
        assert!(empty.contains("connect with: nvme connect"), "{empty}");
        let silent = serving(true, volume()).text();
        assert!(silent.contains("no listener for I/O"), "{silent}");
        assert!(!silent.contains("nvme connect"), "{silent}");
    }
}
