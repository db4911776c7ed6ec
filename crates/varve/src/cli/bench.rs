//! `varve bench`.

use super::bench_pool::PoolOptions;
use super::front::{self, parse_place};
use super::{Exit, complain, hint, note};
use crate::bench::{
    self, BenchError, Load, PlanError, RemoteRequest, Request, VolumeRequest, Wanted,
};
use crate::load::{Direction, Order};
use crate::remote::{Address, Terms};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use varve_control::{Home, parse_size};
use varve_nvme::tcp::Digests;

/// Options of `varve bench`.
#[derive(Args)]
pub(crate) struct Options {
    /// What to measure: `ram:`, an in-process pool on drives in memory (the engine's cost alone);
    /// `pool:NAME/VOLUME`, a volume whose pool is opened in this process and that no daemon has open; or a
    /// remote namespace, `nvme+tcp://host:port/NQN` with `?nsid=N` behind it for another than the first
    #[arg(value_parser = parse_target)]
    target: Target,
    /// Kind of load: randwrite for `ram:` if nothing is said, randread for anything else
    #[arg(long, value_enum)]
    rw: Option<Rw>,
    /// Block size, a multiple of 4096 bytes
    #[arg(long, default_value = "4k", value_parser = parse_size)]
    bs: u64,
    /// Operations each job keeps in flight, on each core
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    iodepth: u32,
    /// Jobs: so many times --iodepth in flight; each has an I/O queue of its own to a remote namespace
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: u32,
    /// Seconds the measured window lasts
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86400))]
    runtime: u64,
    /// Check that each read returns the newest version of each block. All of --size is written
    /// first, whatever the load is
    #[arg(long)]
    verify: bool,
    /// Write also where a volume holds something, or to a remote namespace, of which nobody here knows
    /// whether it does: what is there is lost
    #[arg(long)]
    overwrite: bool,
    /// Skew of random loads: Zipf's exponent, above 0 and below 5
    #[arg(long, value_parser = parse_theta)]
    zipf: Option<f64>,
    /// Seed of the load
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// User data: 4g if nothing is said, less if a namespace or volume has less. Of these the first bytes
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// Digests of PDUs to a remote namespace: none if nothing is said
    #[arg(long, value_enum)]
    digest: Option<Digest>,
    /// State directory that knows the pool of `pool:` [default: as for `varve pool`]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    pool: PoolOptions,
    /// Write the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Target {
    Ram,
    /// Pool and volume.
    Volume(String, String),
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

impl Options {
    /// Runs the benchmark and prints its result.
    pub(crate) fn run(&self) -> Exit {
        if let Some((code, what, next)) = self.nonsense() {
            complain(code, &what, next);
            return Exit::Usage;
        }
        hint::set_state(self.state.as_deref());
        if let (Target::Remote(address), true) = (&self.target, self.would_overwrite()) {
            let what = format!("what {} holds would be overwritten", address.nqn);
            return Self::wants_overwrite(&what);
        }
        let outcome = match &self.target {
            Target::Ram => bench::run(&self.request()),
            Target::Volume(pool, volume) => bench::run_volume(self.volume_request(pool, volume)),
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
                    Some(short) if short.is_failure => {
                        complain(short.code, &short.what, short.next);
                        Exit::Failed
                    }
                    Some(short) => {
                        note(&short.what, short.next);
                        Exit::Ok
                    }
                }
            }
            Err(BenchError::Control(failure)) => front::fail(&failure),
            Err(error @ BenchError::HoldsData(_)) => Self::wants_overwrite(&error.to_string()),
            Err(error) => {
                complain(error.code(), &error.to_string(), error.next());
                match error {
                    BenchError::Plan(PlanError::TooLarge { .. }) | BenchError::Memory { .. } => {
                        Exit::Refused
                    }
                    BenchError::Plan(_) | BenchError::Small { .. } => Exit::Usage,
                    BenchError::Unreachable(error) => error.exit(),
                    _ => Exit::Failed,
                }
            }
        }
    }

    /// True if it writes where something may be, and nobody has said that it may go.
    fn would_overwrite(&self) -> bool {
        self.load().writes() && !self.overwrite
    }

    /// Nothing is written to what is there unless that was said.
    fn wants_overwrite(what: &str) -> Exit {
        let again = hint::again("--overwrite");
        let next = format!("{again}, if what is there may go");
        complain("would-overwrite", what, &next);
        Exit::Refused
    }

    /// What of the options makes no sense: a code, why, and what to do.
    fn nonsense(&self) -> Option<(&'static str, String, &'static str)> {
        let in_flight = self.iodepth * self.jobs;
        let said = |code, what: &str, next| Some((code, what.to_owned(), next));
        if self.zipf.is_some() && matches!(self.rw(), Rw::Read | Rw::Write) {
            return said(
                "unfit-option",
                "--zipf makes no sense for a sequential load",
                "use --rw randread or randwrite",
            );
        }
        if self.verify && in_flight > VERIFIED_MAX {
            return said(
                "too-many-in-flight",
                "--verify follows fewer operations in flight",
                "use an --iodepth times --jobs of at most 32767",
            );
        }
        if u64::from(in_flight).saturating_mul(self.bs) > IN_FLIGHT_MAX {
            return said(
                "too-many-in-flight",
                "operations in flight would take more than 1 GiB of memory",
                "use a --bs times --iodepth times --jobs of at most 1G",
            );
        }
        let misplaced = self.misplaced();
        misplaced.map(|(what, next)| ("unfit-option", what, next))
    }

    /// Options that say something about another kind of target, and what to do: a result that was not
    /// measured as asked for would mislead.
    fn misplaced(&self) -> Option<(String, &'static str)> {
        let digest = self.digest.map(|_| "--digest");
        let state = self.state.as_ref().map(|_| "--state");
        let about_ram = (self.pool.given(), "the pool of `ram:` has");
        let about_remote = (digest.into_iter().collect(), "a remote namespace has");
        let about_volume = (
            state.into_iter().collect(),
            "a volume, `pool:NAME/VOLUME`, has",
        );
        let overwrite = self.overwrite.then_some("--overwrite");
        let about_there = (
            overwrite.into_iter().collect(),
            "a volume or a remote namespace has",
        );
        let (others, next): (Vec<(Vec<&str>, &str)>, _) = match self.target {
            Target::Ram => (
                vec![about_remote, about_volume, about_there],
                "leave it out: the pool in memory is made for the run",
            ),
            Target::Volume(..) => (
                vec![about_ram, about_remote],
                "leave it out: a volume is as its pool made it",
            ),
            Target::Remote(_) => (
                vec![about_ram, about_volume],
                "leave it out: a remote namespace is as its target made it",
            ),
        };
        let mut others = others.into_iter().filter(|(given, _)| !given.is_empty());
        let (given, whose) = others.next()?;
        Some((format!("only {whose} {}", given.join(", ")), next))
    }

    /// The load that was asked for, or one that suits the target: nothing is written to what is there
    /// already unless it was asked for.
    fn rw(&self) -> Rw {
        let usual = match self.target {
            Target::Ram => Rw::Randwrite,
            Target::Volume(..) | Target::Remote(_) => Rw::Randread,
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
            None | Some(Digest::None) => (false, false),
            Some(Digest::Header) => (true, false),
            Some(Digest::Data) => (false, true),
            Some(Digest::Both) => (true, true),
        };
        RemoteRequest {
            address: address.clone(),
            terms: Terms {
                queues: self.jobs as u16,
                depth: self.iodepth,
                digests: Digests { header, data },
            },
            wanted: self.wanted(),
        }
    }

    fn volume_request(&self, pool: &str, volume: &str) -> VolumeRequest {
        VolumeRequest {
            home: self.state.clone().unwrap_or_else(Home::usual),
            pool: pool.to_owned(),
            volume: volume.to_owned(),
            wanted: self.wanted(),
            overwrite: self.overwrite,
        }
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            load: self.load(),
            size: self.size,
            runtime: Duration::from_secs(self.runtime),
        }
    }

    fn request(&self) -> Request {
        let user_bytes = self.size.unwrap_or(SIZE_DEFAULT);
        Request {
            target: RAM.to_owned(),
            load: self.load(),
            plan: self.pool.plan(user_bytes, self.bs),
            runtime: Duration::from_secs(self.runtime),
            overwrites: self.pool.overwrites(),
            warm_up_max: self.pool.warm_up_max(),
        }
    }
}

/// The target in this process.
const RAM: &str = "ram:";
/// How a volume begins.
const POOL: &str = "pool:";
/// How a remote namespace begins, as far as it is told from anything else.
const NVME: &str = "nvme";
/// Operations in flight that can be checked.
const VERIFIED_MAX: u32 = (1 << 15) - 1;
/// Bytes in flight: buffers of as many are held. Arbitrary; 64 jobs of 4,096 operations of 4 KiB.
const IN_FLIGHT_MAX: u64 = 1 << 30;
/// User data of a pool in memory if nothing is said.
const SIZE_DEFAULT: u64 = 4 << 30;

fn parse_target(text: &str) -> Result<Target, String> {
    if text == RAM {
        return Ok(Target::Ram);
    }
    if let Some(place) = text.strip_prefix(POOL) {
        let (pool, volume) = parse_place(place).map_err(|_| "write pool:NAME/VOLUME".to_owned())?;
        return Ok(Target::Volume(pool, volume));
    }
    if text.starts_with(NVME) {
        return text.parse().map(Target::Remote);
    }
    Err("one of ram:, pool:NAME/VOLUME and nvme+tcp://host:port/NQN".to_owned())
}

fn parse_theta(text: &str) -> Result<f64, String> {
    let theta: f64 = text.parse().map_err(|_| "a number".to_owned())?;
    if theta > 0.0 && theta < 5.0 {
        Ok(theta)
    } else {
        Err("above 0 and below 5".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench_pool::POOL;
    use super::*;
    use clap::FromArgMatches;

    #[test]
    fn targets_are_told_apart() {
        let volume = |text| match parse_target(text) {
            Ok(Target::Volume(pool, volume)) => Some((pool, volume)),
            _ => None,
        };
        assert_eq!(volume("pool:p/v"), Some(("p".to_owned(), "v".to_owned())));
        for wrong in [
            "pool:",
            "pool:p",
            "pool:p/",
            "pool:/v",
            "pool:p/v/w",
            "p/v",
            "",
            "ram",
        ] {
            assert!(parse_target(wrong).is_err(), "{wrong}");
        }
        assert!(matches!(parse_target("ram:"), Ok(Target::Ram)));
        assert!(matches!(parse_target(REMOTE), Ok(Target::Remote(_))));
    }

    #[test]
    fn skews_are_read() {
        assert_eq!(parse_theta("1.2"), Ok(1.2));
        assert_eq!(parse_theta("1"), Ok(1.0));
        assert!(parse_theta("5").is_err());
        assert!(parse_theta("0").is_err());
        assert!(parse_theta("x").is_err());
    }

    /// `varve bench` with these arguments.
    fn parse(arguments: &[&str]) -> Options {
        let command = Options::augment_args(clap::Command::new("bench").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments).unwrap();
        Options::from_arg_matches(&matches).unwrap()
    }

    const REMOTE: &str = "nvme+tcp://127.0.0.1/nqn.2026-11.io.varve:pool.vol";

    /// Each option that stands under the pool's heading, as the help shows them: one that is added and
    /// forgotten in `given` fails here.
    #[test]
    fn what_is_about_the_other_target_is_refused_by_name() {
        let command = Options::augment_args(clap::Command::new("bench"));
        let about_pool = command
            .get_arguments()
            .filter(|argument| argument.get_help_heading() == Some(POOL));
        let options: Vec<_> = about_pool
            .map(|argument| {
                let name = format!("--{}", argument.get_long().unwrap());
                (name, argument.get_action().takes_values())
            })
            .collect();
        assert!(options.len() >= 8, "{options:?}");
        for (name, takes_value) in &options {
            let value = match name.as_str() {
                "--protect" => "mirror",
                "--over-provision" => "7",
                _ => "1",
            };
            let given = |target| {
                let words = [target, name.as_str(), value];
                parse(&words[..if *takes_value { 3 } else { 2 }])
            };
            let (what, next) = given(REMOTE).misplaced().unwrap();
            assert_eq!(what, format!("only the pool of `ram:` has {name}"));
            assert!(!next.is_empty());
            assert_eq!(given("ram:").misplaced(), None);
        }
        let two = parse(&[REMOTE, "--map-cache", "5", "--cores", "1"]);
        let (what, _) = two.misplaced().unwrap();
        assert_eq!(what, "only the pool of `ram:` has --cores, --map-cache");
        let (what, _) = parse(&["ram:", "--digest", "none"]).misplaced().unwrap();
        assert_eq!(what, "only a remote namespace has --digest");
        assert_eq!(parse(&[REMOTE, "--digest", "both"]).misplaced(), None);
        assert_eq!(parse(&[REMOTE, "--size", "1g"]).misplaced(), None);
        let (what, _) = parse(&["ram:", "--state", "x"]).misplaced().unwrap();
        assert_eq!(what, "only a volume, `pool:NAME/VOLUME`, has --state");
        let (what, _) = parse(&["pool:p/v", "--cores", "1"]).misplaced().unwrap();
        assert_eq!(what, "only the pool of `ram:` has --cores");
        assert_eq!(parse(&["pool:p/v", "--state", "x"]).misplaced(), None);
    }
}
