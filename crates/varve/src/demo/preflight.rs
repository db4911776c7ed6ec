//! What this machine offers, told before anything is made.

use super::error::DemoError;
use super::site::{DENSE, FAST, Site};
use crate::memory;
use std::fmt::Write;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

/// Bytes of memory that the server and the self-test take. Measured, rounded up.
const MEMORY_BYTES: u64 = 400 << 20;

/// What was found.
pub(super) struct Preflight {
    lines: String,
    /// True if this machine's kernel could connect at once.
    pub(super) has_module: bool,
}

impl Preflight {
    /// Looks at the machine.
    ///
    /// # Errors
    /// [`DemoError::Anybody`], [`DemoError::Port`], [`DemoError::Room`], [`DemoError::Directory`].
    pub(super) fn look(
        site: &Site,
        listen: SocketAddr,
        discovery: SocketAddr,
    ) -> Result<Self, DemoError> {
        for address in [listen, discovery] {
            // Who may connect would have to be named in a configuration that is written anew each time.
            if !address.ip().is_loopback() {
                return Err(DemoError::Anybody(address));
            }
        }
        // Both at once, so that two equal ones are told.
        let bind =
            |address| TcpListener::bind(address).map_err(|error| DemoError::Port(address, error));
        drop((bind(listen)?, bind(discovery)?));
        let mut lines = String::new();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut line = |is_good: bool, text: String| {
            let sign = if is_good { "ok  " } else { "note" };
            let _ = writeln!(lines, "  {sign}  {text}");
        };
        line(true, format!("kernel {}", kernel.trim()));
        line(true, format!("ports {listen} and {discovery} are free"));
        let needed = FAST.0 as u64 * FAST.1 + DENSE.0 as u64 * DENSE.1;
        let directory = site.directory();
        let failed = |error| DemoError::Directory(directory.to_owned(), error);
        let free = varve_hostio::free_bytes(directory).map_err(failed)?;
        // All of it is written, more than once.
        let left = needed.saturating_sub(site.taken_bytes());
        if left > free {
            return Err(DemoError::Room(directory.to_owned(), left, free));
        }
        line(
            true,
            format!(
                "sparse files of {} MB at most in {}, where {} MB are free",
                needed >> 20,
                directory.display(),
                free >> 20
            ),
        );
        if let Some(available) = memory::available() {
            line(
                available > MEMORY_BYTES,
                format!("{} MB of memory are free", available >> 20),
            );
        }
        let has_module = Path::new("/sys/module/nvme_tcp").exists();
        line(
            has_module,
            if has_module {
                "nvme_tcp is loaded: this machine can connect".to_owned()
            } else {
                "nvme_tcp is not loaded; to connect from this machine: sudo modprobe nvme_tcp"
                    .to_owned()
            },
        );
        Ok(Self { lines, has_module })
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        format!("preflight\n{}", self.lines)
    }
}
