//! Where a remote namespace is: `nvme+tcp://host:port/NQN?nsid=N`.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use varve_nvme::{NSID_ALL, Nqn};

/// How an address begins.
const SCHEME: &str = "nvme+tcp://";
/// The port for I/O that IANA has registered.
const PORT: u16 = 4420;

/// Where a remote namespace is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    host: String,
    port: u16,
    /// The subsystem.
    pub(crate) nqn: Nqn,
    /// The namespace; the first one if none is named.
    pub(crate) nsid: Option<u32>,
}

impl Address {
    /// Where to connect to, one after the other: a name may stand for several addresses.
    ///
    /// # Errors
    /// The name is not known.
    pub(crate) fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let all: Vec<_> = (self.host.as_str(), self.port).to_socket_addrs()?.collect();
        if all.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(all)
    }

    /// The same namespace elsewhere.
    pub(super) fn at(&self, place: SocketAddr) -> Self {
        Self {
            host: place.ip().to_string(),
            port: place.port(),
            ..self.clone()
        }
    }

    /// True if it names the port that is registered for I/O.
    pub(super) const fn is_at_port_for_io(&self) -> bool {
        self.port == PORT
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "expected nvme+tcp://host:port/NQN or nvme+tcp://host:port/NQN?nsid=1";
        let rest = text.strip_prefix(SCHEME).ok_or_else(form)?;
        let (place, path) = rest.split_once('/').ok_or_else(form)?;
        let (name, query) = match path.split_once('?') {
            Some((name, query)) => (name, Some(query)),
            None => (path, None),
        };
        let (host, port) = split_place(place)?;
        let nqn = Nqn::new(name).map_err(|error| format!("`{name}`: {error}"))?;
        if nqn.is_discovery() {
            return Err("the discovery subsystem has no namespaces".to_owned());
        }
        let nsid = query.map(parse_query).transpose()?;
        Ok(Self {
            host,
            port,
            nqn,
            nsid,
        })
    }
}

/// Host and port; IPv6 addresses stand in brackets.
fn split_place(place: &str) -> Result<(String, u16), String> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("a `]` is missing")?;
            (host, rest.strip_prefix(':'))
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    if host.is_empty() {
        return Err("the host is missing".to_owned());
    }
    let port = match port {
        None => PORT,
        Some(port) => port
            .parse()
            .map_err(|_| format!("`{port}` is no port; an IPv6 address stands in brackets"))?,
    };
    Ok((host.to_owned(), port))
}

fn parse_query(query: &str) -> Result<u32, String> {
    let number = query.strip_prefix("nsid=").and_then(|n| n.parse().ok());
    let nsid = number.filter(|nsid| (1..NSID_ALL).contains(nsid));
    nsid.ok_or_else(|| format!("`{query}`: only nsid=N is known, from 1 up"))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = match self.host.contains(':') {
            true => ("[", "]"),
            false => ("", ""),
        };
        let (host, port, nqn) = (&self.host, self.port, &self.nqn);
        write!(f, "{SCHEME}{open}{host}{close}:{port}/{nqn}")?;
        match self.nsid {
            Some(nsid) => write!(f, "?nsid={nsid}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NQN: &str = "nqn.2026-11.io.varve:pool.vol";

    #[test]
    fn addresses() {
        for (text, host, port, nsid) in [
            ("127.0.0.1:4421", "127.0.0.1", 4421, None),
            ("storage.example", "storage.example", 4420, Some(7)),
            ("[::1]:9", "::1", 9, Some(1)),
            ("[fe80::1]", "fe80::1", 4420, None),
        ] {
            let query = nsid.map_or(String::new(), |nsid| format!("?nsid={nsid}"));
            let address: Address = format!("{SCHEME}{text}/{NQN}{query}").parse().unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port));
            assert_eq!((address.nqn.as_str(), address.nsid), (NQN, nsid));
            assert_eq!(address.to_string().parse(), Ok(address));
        }
    }

    #[test]
    fn what_is_none() {
        let discovery = varve_nvme::nqn::DISCOVERY_NQN;
        for text in [
            String::new(),
            format!("tcp://a/{NQN}"),
            format!("{SCHEME}a"),
            format!("{SCHEME}/{NQN}"),
            format!("{SCHEME}a:x/{NQN}"),
            format!("{SCHEME}::1/{NQN}"),
            format!("{SCHEME}[::1/{NQN}"),
            format!("{SCHEME}a/volume"),
            format!("{SCHEME}a/{NQN}?nsid=0"),
            format!("{SCHEME}a/{NQN}?nsid=4294967295"),
            format!("{SCHEME}a/{NQN}?lun=1"),
            format!("{SCHEME}a/{discovery}"),
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
