//! What each option does to a job.

use super::draft::{BLOCK_BYTES, Draft, Law, Mix};
use super::error::{FioError, shown};
use super::ignored::{self, Ignored};
use super::job::Process;
use super::section::Setting;
use super::value;
use crate::draw::Zipf;

/// Exponent of `zipf` without a number.
///
/// # Source
/// fio 3.42, as it runs; its HOWTO wants the number.
const ZIPF_THETA: f64 = 1.1;
/// Bytes of an I/O: of a sector at least, of what fio can number at most.
const BLOCK_BYTES_MIN: u64 = 512;
const BLOCK_BYTES_MAX: u64 = 1 << 30;
/// I/Os in flight at most, as in the laboratory's other loads.
const DEPTH_MAX: u64 = 65_536;
/// I/Os a second at most: ten of them in a microsecond, the unit in which fio itself counts.
const RATE_MAX: u64 = 10_000_000;

/// Engines that do one I/O at a time. Which engine it is matters for nothing else, and a file that names none has the
/// experiment's, which is none of these (fio's own is `psync`).
///
/// # Source
/// fio 3.33: it says of each that a depth of 8 "will be capped at 1", and of `libaio`, `io_uring`, `posixaio` not.
const SYNCHRONOUS: [&str; 7] = [
    "sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice",
];

const RW: &str = "one of read, write, randread, randwrite, rw, readwrite, randrw";
const LAW: &str = "random, zipf or zipf:THETA with THETA above 0 and below 5";
const BLOCK: &str = "bytes of I/Os, or of reads and writes with a comma between: multiples of 512, at \
                     most 1g";
const RATE: &str = "I/Os a second, or of reads and writes with a comma between: at most 10m";

/// Applies an option; tells of one that does nothing.
pub(super) fn apply(draft: &mut Draft, setting: &Setting<'_>) -> Result<Option<Ignored>, FioError> {
    match setting.option {
        "ioengine" => {
            let value = setting.value.unwrap_or_default();
            draft.is_synchronous = SYNCHRONOUS.contains(&value);
            return Ok(ignored::find(setting.option));
        }
        "rw" | "readwrite" => pattern(draft, setting)?,
        "random_distribution" => draft.law = law(setting)?,
        "norandommap" => draft.is_mapped = !setting.flag()?,
        "rwmixread" => draft.mixed_reads = setting.number(0, 100)? as u8,
        "rwmixwrite" => draft.mixed_reads = 100 - setting.number(0, 100)? as u8,
        "bs" | "blocksize" => draft.block_bytes = block(setting)?,
        "bs_is_seq_rand" => draft.is_block_by_order = setting.flag()?,
        "iodepth" => draft.depth = setting.number(1, DEPTH_MAX)? as u32,
        "randseed" => draft.randseed = setting.number(0, u64::MAX)?,
        "name" => draft.name = Some(shown(setting.text("a name")?)),
        "group_reporting" => draft.is_reported_as_group = setting.flag()?,
        _ => return extent(draft, setting),
    }
    Ok(None)
}

/// Options of where, how much, how long and how many.
fn extent(draft: &mut Draft, setting: &Setting<'_>) -> Result<Option<Ignored>, FioError> {
    match setting.option {
        "numjobs" => draft.clones = setting.number(1, u32::MAX.into())? as u32,
        "offset" => draft.offset = setting.amount(0)?,
        "offset_increment" => draft.offset_increment = setting.amount(0)?,
        "size" => draft.size = Some(setting.amount(1)?),
        "filesize" => draft.filesize = Some(setting.amount(1)?),
        "io_size" | "io_limit" => draft.io_size = Some(setting.amount(1)?),
        "runtime" | "timeout" => draft.runtime_ns = Some(setting.time()?).filter(|ns| *ns > 0),
        "time_based" => draft.is_time_based = setting.flag()?,
        "ramp_time" => draft.ramp_ns = setting.time()?,
        "rate_iops" => draft.rates = setting.directions(0, RATE, rate)?,
        "rate_process" => draft.process = process(setting)?,
        "stonewall" | "wait_for_previous" => draft.is_behind_wall = setting.flag()?,
        "exitall" => draft.ends_all = setting.flag()?,
        option => {
            let refused = || FioError::Option {
                line: setting.line,
                option: shown(option),
            };
            return ignored::find(option).map(Some).ok_or_else(refused);
        }
    }
    Ok(None)
}

fn pattern(draft: &mut Draft, setting: &Setting<'_>) -> Result<(), FioError> {
    (draft.mix, draft.is_random) = match setting.text(RW)? {
        "read" => (Mix::Reads, false),
        "write" => (Mix::Writes, false),
        "rw" | "readwrite" => (Mix::Both, false),
        "randread" => (Mix::Reads, true),
        "randwrite" => (Mix::Writes, true),
        "randrw" => (Mix::Both, true),
        _ => return Err(setting.wrong(RW)),
    };
    Ok(())
}

fn law(setting: &Setting<'_>) -> Result<Law, FioError> {
    let text = setting.text(LAW)?;
    if text == "random" {
        return Ok(Law::Uniform);
    }
    let theta = match text.strip_prefix("zipf") {
        Some("") => Some(ZIPF_THETA),
        Some(rest) => rest.strip_prefix(':').and_then(|theta| theta.parse().ok()),
        None => None,
    };
    let theta = theta.filter(|theta| 0.0 < *theta && *theta < Zipf::THETA_END);
    theta.map(Law::Zipf).ok_or_else(|| setting.wrong(LAW))
}

fn block(setting: &Setting<'_>) -> Result<super::Directions, FioError> {
    setting.directions(BLOCK_BYTES, BLOCK, |text| {
        value::bytes(text).filter(|bytes| {
            (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(bytes)
                && bytes.is_multiple_of(BLOCK_BYTES_MIN)
        })
    })
}

/// Unlike sizes, rates have no unit of their own, but fio reads them alike.
fn rate(text: &str) -> Option<u64> {
    value::bytes(text).filter(|rate| *rate <= RATE_MAX)
}

fn process(setting: &Setting<'_>) -> Result<Process, FioError> {
    const EXPECTED: &str = "linear or poisson";
    match setting.text(EXPECTED)? {
        "linear" => Ok(Process::Linear),
        "poisson" => Ok(Process::Poisson),
        _ => Err(setting.wrong(EXPECTED)),
    }
}
