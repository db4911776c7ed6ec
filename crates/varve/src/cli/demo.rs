//! `varve demo`.

use super::failure::keep;
use super::{Exit, complain};
use crate::demo::{self, DemoError, Report, Request};
use crate::out;
use crate::serve::{DISCOVERY_LISTENER, IO_LISTENER};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Options of `varve demo`.
#[derive(Args)]
pub(crate) struct Options {
    /// End after the self-test: with code 0 if it passed, with code 1 if it did not
    #[arg(long)]
    once: bool,
    /// Directory for the files, kept afterwards; a demonstration that is there goes on [default: a
    /// temporary one]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Address and port for I/O; port 0 is any that is free
    #[arg(long, default_value_t = IO_LISTENER)]
    listen: SocketAddr,
    /// Address and port for discovery; port 0 is any that is free
    #[arg(long, default_value_t = DISCOVERY_LISTENER)]
    discovery: SocketAddr,
    /// Write the self-test's result as JSON
    #[arg(long)]
    json: bool,
}

impl Options {
    /// Runs a demonstration.
    pub(crate) fn run(&self) -> Exit {
        let request = Request {
            directory: self.dir.clone(),
            once: self.once,
            listen: self.listen,
            discovery: self.discovery,
        };
        let is_json = self.json;
        let tell = move |text: &str| {
            if is_json {
                eprint!("{text}");
            } else {
                print(text);
            }
        };
        let show = move |report: &Report| {
            if is_json {
                print(&report.json());
            }
        };
        match demo::run(&request, tell, show) {
            Ok(true) => Exit::Ok,
            Ok(false) => Exit::Failed,
            Err(error) => {
                complain(error.code(), &error.to_string(), &error.next());
                if let DemoError::Control(failure) = &error {
                    keep((**failure).clone());
                }
                error.exit()
            }
        }
    }
}

fn print(text: &str) {
    print!("{text}");
    out::flush();
}
