//! `varve bench`.

use super::{Exit, complain};
use crate::bench::{self, BenchError, Load, PlanRequest, RemoteRequest, Request};
use crate::load::{Direction, Order};
use crate::remote::{Address, Terms};
use clap::{Args, ValueEnum};
use std::time::Duration;
use varve_nvme::tcp::Digests;

/// Options of `varve bench`.
#[derive(Args)]
pub(crate) struct Options {
    /// What to measure: `ram:`, an in-process pool on drives in memory (the engine's cost alone), or
    /// a remote namespace, `nvme+tcp://host:port/NQN` with `?nsid=N` behind it for another than the
    /// first
    #[arg(value_parser = parse_target)]
    target: Target,
    /// Kind of load: randwrite for `ram:` if nothing is said, randread for a remote namespace
    #[arg(long, value_enum)]
    rw: Option<Rw>,
    /// Block size in bytes, a multiple of 4096; `k` and `m` are understood
    #[arg(long, default_value = "4k", value_parser = parse_bytes)]
    bs: u64,
    /// Operations each job keeps in flight, on each core
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    iodepth: u32,
    /// Jobs; each has an I/O queue of its own to a remote namespace
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: u32,
    /// Seconds the measured window lasts
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86400))]
    runtime: u64,
    /// Check that each read returns the newest version of each block. All of --size is written
    /// first, whatever the load is
    #[arg(long)]
    verify: bool,
    /// Skew of random loads: Zipf's exponent, above 0 and not 1
    #[arg(long, value_parser = parse_theta)]
    zipf: Option<f64>,
    /// Seed of the load
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// User data in bytes, `m` and `g` are understood: 4g if nothing is said, less if a remote
    /// namespace has less. Of a namespace its first bytes
    #[arg(long, value_parser = parse_bytes)]
    size: Option<u64>,
    /// Digests of PDUs to a remote namespace
    #[arg(long, value_enum, default_value_t = Digest::None)]
    digest: Digest,
    /// Dense capacity that is not exported, per cent of its raw data blocks
    #[arg(long, help_heading = POOL, default_value_t = 20, value_parser = clap::value_parser!(u32).range(5..=80))]
    over_provision: u32,
    /// Size of the fast tier, per cent of the dense tier
    #[arg(long, help_heading = POOL, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=100))]
    fast_tier: u32,
    /// Reactors, each on a thread of its own with a load of its own: at most as many as processors
    #[arg(long, help_heading = POOL, default_value_t = 1, value_parser = parse_cores)]
    cores: u16,
    /// Protection of the fast tier (the dense tier is always 4+1)
    #[arg(long, help_heading = POOL, value_enum, default_value_t = Protect::None)]
    protect: Protect,
    /// Leaves of the map that the cache holds, per cent of all
    #[arg(long, help_heading = POOL, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    map_cache: u32,
    /// Blocks are symbols of 8 bytes, and the dense tier has no parity: the engine's cost without
    /// moving data
    #[arg(long, help_heading = POOL)]
    elided: bool,
    /// Times the user data are overwritten, at least, before the window opens
    #[arg(long, help_heading = POOL, default_value_t = 2.0)]
    warm_up: f64,
    /// Seconds after which an engine that is still not in steady state counts as failed
    #[arg(long, help_heading = POOL, default_value_t = 100)]
    warm_up_max: u64,
    /// Write the result as JSON
    #[arg(long)]
    json: bool,
}

/// Over what the options about a pool stand.
const POOL: &str = "Pool of `ram:`";

#[derive(Clone, PartialEq, Eq, Debug)]
enum Target {
    Ram,
    Remote(Address),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Digest {
    None,
    Header,
    Data,
    Both,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Rw {
    Read,
    Write,
    Randread,
    Randwrite,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Protect {
    None,
    Mirror,
}

impl Options {
    /// Runs the benchmark and prints its result.
    pub(crate) fn run(&self) -> Exit {
        if self.zipf.is_some() && matches!(self.rw(), Rw::Read | Rw::Write) {
            complain(
                "--zipf makes no sense for a sequential load",
                "use --rw randread or randwrite",
            );
            return Exit::Usage;
        }
        if self.verify && self.iodepth * self.jobs > VERIFIED_MAX {
            complain(
                "--verify follows fewer operations in flight",
                "use an --iodepth times --jobs of at most 32767",
            );
            return Exit::Usage;
        }
        let outcome = match &self.target {
            Target::Ram => bench::run(&self.request()),
            Target::Remote(address) => bench::run_remote(self.remote_request(address)),
        };
        match outcome {
            Ok(report) => {
                print!(
                    "{}",
                    if self.json {
                        report.json()
                    } else {
                        report.table()
                    }
                );
                match report.shortcoming() {
                    None => Exit::Ok,
                    Some(what) => {
                        complain(what, report.next());
                        Exit::Failed
                    }
                }
            }
            Err(error) => {
                complain(&error.to_string(), error.next());
                match error {
                    BenchError::Plan(_) => Exit::Usage,
                    BenchError::Memory { .. } => Exit::Refused,
                    _ => Exit::Failed,
                }
            }
        }
    }

    /// The load that was asked for, or one that suits the target: nothing is written to a remote
    /// namespace unless it was asked for.
    fn rw(&self) -> Rw {
        let usual = match self.target {
            Target::Ram => Rw::Randwrite,
            Target::Remote(_) => Rw::Randread,
        };
        self.rw.unwrap_or(usual)
    }

    fn load(&self) -> Load {
        let order = match (self.rw(), self.zipf) {
            (Rw::Read | Rw::Write, _) => Order::Sequential,
            (_, None) => Order::Uniform,
            (_, Some(theta)) => Order::Zipf(theta),
        };
        let direction = match self.rw() {
            Rw::Read | Rw::Randread => Direction::Read,
            Rw::Write | Rw::Randwrite => Direction::Write,
        };
        Load {
            direction,
            order,
            bytes: self.bs,
            in_flight: self.iodepth * self.jobs,
            verifies: self.verify,
            seed: self.seed,
        }
    }

    fn remote_request(&self, address: &Address) -> RemoteRequest {
        let (header, data) = match self.digest {
            Digest::None => (false, false),
            Digest::Header => (true, false),
            Digest::Data => (false, true),
            Digest::Both => (true, true),
        };
        RemoteRequest {
            address: address.clone(),
            load: self.load(),
            size: self.size,
            terms: Terms {
                queues: self.jobs as u16,
                depth: self.iodepth,
                digests: Digests { header, data },
            },
            runtime: Duration::from_secs(self.runtime),
        }
    }

    fn request(&self) -> Request {
        Request {
            target: RAM.to_owned(),
            load: self.load(),
            plan: PlanRequest {
                user_bytes: self.size.unwrap_or(SIZE_DEFAULT),
                over_provision: self.over_provision,
                fast_per_cent: self.fast_tier,
                is_mirrored: self.protect == Protect::Mirror,
                map_cache: self.map_cache,
                io_bytes: self.bs,
                cores: self.cores,
                is_elided: self.elided,
            },
            runtime: Duration::from_secs(self.runtime),
            overwrites: self.warm_up,
            warm_up_max: Duration::from_secs(self.warm_up_max),
        }
    }
}

/// The target in this process.
const RAM: &str = "ram:";
/// Operations in flight that can be checked.
const VERIFIED_MAX: u32 = (1 << 15) - 1;
/// User data of a pool in memory if nothing is said.
const SIZE_DEFAULT: u64 = 4 << 30;

fn parse_target(text: &str) -> Result<Target, String> {
    match text {
        RAM => Ok(Target::Ram),
        _ => text.parse().map(Target::Remote),
    }
}

/// Bytes: a number with `k`, `m` or `g` (powers of 1024) behind it, or none.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.to_ascii_lowercase();
    let digits = text.trim_end_matches(['k', 'm', 'g']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err("one of k, m, g may stand behind the number".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "a number of bytes".to_owned())?;
    let bytes = number.checked_mul(1 << shift).ok_or("too large")?;
    if bytes == 0 || !bytes.is_multiple_of(4096) {
        return Err("a multiple of 4096 bytes".to_owned());
    }
    Ok(bytes)
}

/// Reactors: each needs a processor, because one that is kept waiting keeps others waiting.
fn parse_cores(text: &str) -> Result<u16, String> {
    let most = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    match text.parse() {
        Ok(cores @ 1..) if usize::from(cores) <= most => Ok(cores),
        _ => Err(format!(
            "a number from 1 to {most}, the processors there are"
        )),
    }
}

fn parse_theta(text: &str) -> Result<f64, String> {
    let theta: f64 = text.parse().map_err(|_| "a number".to_owned())?;
    if theta > 0.0 && theta < 5.0 && (theta - 1.0).abs() > 1e-6 {
        Ok(theta)
    } else {
        Err("above 0, below 5 and not 1 (0.99 or 1.01 are as good)".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("4k"), Ok(4096));
        assert_eq!(parse_bytes("128K"), Ok(128 << 10));
        assert_eq!(parse_bytes("4g"), Ok(4 << 30));
        assert_eq!(parse_bytes("8192"), Ok(8192));
        assert!(parse_bytes("512").is_err());
        assert!(parse_bytes("4kk").is_err());
        assert!(parse_bytes("").is_err());
        assert!(parse_bytes("99999999999g").is_err());
    }

    #[test]
    fn cores_are_those_there_are() {
        assert_eq!(parse_cores("1"), Ok(1));
        assert!(parse_cores("0").is_err());
        assert!(parse_cores("60000").is_err());
        assert!(parse_cores("two").is_err());
    }

    #[test]
    fn a_skew_of_one_is_refused() {
        assert_eq!(parse_theta("1.2"), Ok(1.2));
        assert!(parse_theta("1").is_err());
        assert!(parse_theta("0").is_err());
        assert!(parse_theta("x").is_err());
    }
}
