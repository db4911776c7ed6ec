//! Makes promises with a volume and, on the same drives in another state, checks that they were
//! kept. For the guest test `power`, which takes the state from a log of dm-log-writes.
//!
//!     promises make HOME FAST,... DENSE,... MIB
//!     promises age HOME LAST
//!     promises import HOME PATH,...
//!     promises write HOME FIRST LAST close|old|abort COMMAND...
//!     promises verify HOME ROUND
//!
//! What a round writes depends on its number and the volume's size alone. `age` carries out rounds 1 to LAST, until blocks have gone to the dense
//! tier and have been collected there (with LAST 0 none is), and releases the pool for another machine. `write` flushes the volume after each
//! round, and calls the command with the round's number in place of the word `ROUND`; it ends in order, or as if it
//! had been killed. With an old pool it goes on beyond LAST until something has gone to the dense tier meanwhile. `verify ROUND` opens
//! the pool, which has been cut off at any time after that call, and reads the whole volume: each
//! block holds what rounds up to this one left there, or what the next one writes there.

use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, ExitCode};
use std::rc::Rc;
use std::task::Poll;
use varve_control::{Config, CreatePool, CreateVolume, DrivePath, Home, ImportPool, Pools, Volume};
use varve_hostio::Executor;
use varve_io::{Blocks, World};
use varve_units::{BLOCK, Lba};

const POOL: &str = "tank";
const OPERATIONS: u64 = 16;
const RUN_BLOCKS_MAX: u64 = 12;

type Flow = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// What a round does to a run of blocks.
#[derive(Clone, Copy)]
struct Operation {
    lba: u64,
    blocks: u64,
    is_discard: bool,
    is_fua: bool,
}

/// Numbers drawn from a seed (splitmix64, by S. Vigna).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

/// What round `round` does: runs that do not touch each other, to be done at once.
fn operations(size: u64, round: u64) -> Vec<Operation> {
    let mut chance = Chance(round);
    let each = size / OPERATIONS;
    let one = |index| {
        let blocks = 1 + chance.next() % RUN_BLOCKS_MAX;
        Operation {
            lba: index * each + chance.next() % (each - blocks),
            blocks,
            is_discard: chance.next().is_multiple_of(8),
            is_fua: chance.next().is_multiple_of(8),
        }
    };
    (0..OPERATIONS).map(one).collect()
}

/// What `round` leaves in a block that it writes: one word again and again, since an emulated processor makes it.
fn content(lba: u64, round: u64) -> Vec<u8> {
    let word = Chance(lba << 32 | round).next();
    word.to_le_bytes().repeat(BLOCK / 8)
}

/// For each block, the round that wrote it last up to `last`; 0 is never written, or discarded.
fn model(size: u64, last: u64) -> Vec<u64> {
    let mut rounds = vec![0; size as usize];
    for round in 1..=last {
        apply(&mut rounds, round);
    }
    rounds
}

fn apply(rounds: &mut [u64], round: u64) {
    for operation in operations(rounds.len() as u64, round) {
        let run = operation.lba as usize..(operation.lba + operation.blocks) as usize;
        rounds[run].fill(if operation.is_discard { 0 } else { round });
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["make", home, fast, dense, mib] => make(home, fast, dense, number(mib)),
        ["age", home, last] => age(home, number(last)),
        ["import", home, paths] => import(home, paths),
        ["write", home, first, last, end, command @ ..] => {
            write(home, number(first)..=number(last), end, command)
        }
        ["verify", home, round] => verify(home, number(round)),
        _ => Err("called wrongly".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("promises: {error}");
            ExitCode::FAILURE
        }
    }
}

fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}

fn text(error: impl Debug) -> String {
    format!("{error:?}")
}

/// Runs a session of the control plane whose state is at `home`.
fn session<Work>(home: &str, work: impl FnOnce(Rc<Pools>) -> Work) -> Result<(), String>
where
    Work: Future<Output = Result<(), String>> + 'static,
{
    let executor = Executor::new();
    let world: Rc<dyn World> = executor.world();
    let home = Home::open(Path::new(home)).map_err(text)?;
    let pools = Pools::new(world, home, Config::default()).map_err(text)?;
    executor.run(work(pools)).map_err(text)?
}

fn make(home: &str, fast: &str, dense: &str, mib: u64) -> Result<(), String> {
    let drives = |list: &str| -> Vec<DrivePath> {
        let drive = |path: &str| DrivePath {
            path: path.into(),
            create_bytes: None,
        };
        list.split(',').map(drive).collect()
    };
    let pool = CreatePool {
        pool: POOL.to_owned(),
        fast: drives(fast),
        dense: drives(dense),
        protect: None,
        over_provision: None,
        overwrite: false,
        dense_model: None,
        dry_run: false,
    };
    let volume = CreateVolume {
        pool: POOL.to_owned(),
        volume: "v".to_owned(),
        bytes: mib << 20,
        tenant: 0,
    };
    session(home, |pools| async move {
        pools.create_pool(&pool).await.map_err(text)?;
        pools.create_volume(&volume).await.map_err(text)?;
        close(&pools).await
    })
}

/// How many rounds an old pool may need beyond those it is asked for until something has gone to its dense tier: chunks
/// are cleaned in bursts.
const MORE_ROUNDS: u64 = 60;
/// Flushes of aging: few beside its rounds.
const AGED_ROUNDS: u64 = 8;

fn age(home: &str, last: u64) -> Result<(), String> {
    session(home, |pools| async move {
        let volume = open(&pools).await?;
        for round in 1..=last {
            carry_out_all(&volume, round).await?;
            if round % AGED_ROUNDS == 0 {
                volume.flush().await.map_err(text)?;
            }
        }
        let (compacted, collected) = moved(&pools)?;
        println!("{compacted} blocks compacted, {collected} collected");
        if last > 0 && (compacted == 0 || collected == 0) {
            return Err("the pool is not old enough".to_owned());
        }
        drop(volume);
        pools.export(POOL, false).await.map_err(text).map(drop)
    })
}

fn import(home: &str, paths: &str) -> Result<(), String> {
    let wanted = ImportPool {
        paths: paths.split(',').map(Into::into).collect(),
        ..ImportPool::default()
    };
    session(home, |pools| async move {
        pools.import(&wanted).await.map_err(text)?;
        close(&pools).await
    })
}

/// Blocks that went to the dense tier since the pool was opened, and those that were moved within it.
fn moved(pools: &Pools) -> Result<(u64, u64), String> {
    let counters = pools.counters(POOL).map_err(text)?;
    let of = |name| counters.get(name).copied().unwrap_or(0);
    Ok((of("compacted_blocks"), of("gc_blocks")))
}

async fn open(pools: &Pools) -> Result<Volume, String> {
    pools.open(POOL).await.map_err(text)?;
    pools.volume(POOL, "v").map_err(text)
}

async fn close(pools: &Pools) -> Result<(), String> {
    for (_, outcome) in pools.close_all().await {
        outcome.map_err(text)?;
    }
    Ok(())
}

fn write(
    home: &str,
    rounds: std::ops::RangeInclusive<u64>,
    end: &str,
    command: &[&str],
) -> Result<(), String> {
    let (is_killed, is_old) = (end == "abort", end == "old");
    let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
    session(home, |pools| async move {
        let volume = open(&pools).await?;
        let last = *rounds.end();
        for round in *rounds.start()..=last + MORE_ROUNDS {
            if round > last && (!is_old || moved(&pools)?.0 > 0) {
                break;
            }
            carry_out_all(&volume, round).await?;
            volume.flush().await.map_err(text)?;
            call(&command, round)?;
        }
        if is_killed {
            // As if the process had been killed.
            std::process::exit(0);
        }
        let (compacted, collected) = moved(&pools)?;
        println!("NOTE {compacted} blocks compacted and {collected} collected under the log");
        if is_old && compacted == 0 {
            return Err("nothing has gone to the dense tier".to_owned());
        }
        close(&pools).await
    })
}

async fn carry_out_all(volume: &Volume, round: u64) -> Result<(), String> {
    let size = volume.info().size.0;
    let flows = operations(size, round).into_iter();
    all(flows
        .map(|one| carry_out(volume.clone(), one, round))
        .collect())
    .await
}

fn carry_out(volume: Volume, one: Operation, round: u64) -> Flow {
    Box::pin(async move {
        let Operation { lba, blocks, .. } = one;
        if one.is_discard {
            return volume.discard(Lba(lba), blocks).await.map_err(text);
        }
        let mut data = Blocks::zeroed(blocks as usize);
        for (index, block) in data.bytes_mut().chunks_exact_mut(BLOCK).enumerate() {
            block.copy_from_slice(&content(lba + index as u64, round));
        }
        volume.write(Lba(lba), data, one.is_fua).await.map_err(text)
    })
}

/// Runs flows side by side until all have ended, or one fails.
async fn all(mut flows: Vec<Flow>) -> Result<(), String> {
    let mut failed = None;
    poll_fn(|context| {
        flows.retain_mut(|flow| match flow.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(done) => {
                failed = failed.take().or(done.err());
                false
            }
        });
        if flows.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    failed.map_or(Ok(()), Err)
}

fn call(command: &[String], round: u64) -> Result<(), String> {
    let round = round.to_string();
    let words = command
        .iter()
        .map(|word| if word == "ROUND" { &round } else { word });
    let words: Vec<&String> = words.collect();
    let status = Command::new(words[0]).args(&words[1..]).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("{words:?}: {other:?}")),
    }
}

fn verify(home: &str, round: u64) -> Result<(), String> {
    session(home, |pools| async move {
        let volume = open(&pools).await?;
        let size = volume.info().size.0;
        let promised = model(size, round);
        let mut next = promised.clone();
        apply(&mut next, round + 1);
        let zeroes = vec![0; BLOCK];
        let of = |lba: u64, round: u64| match round {
            0 => zeroes.clone(),
            _ => content(lba, round),
        };
        let run = 256;
        for first in (0..size).step_by(run) {
            let read = volume.read(Lba(first), Blocks::zeroed(run)).await;
            let read = read.map_err(|error| format!("blocks from {first}: {error:?}"))?;
            for (lba, found) in (first..).zip(read.bytes().chunks_exact(BLOCK)) {
                let (old, new) = (promised[lba as usize], next[lba as usize]);
                if found != of(lba, old) && found != of(lba, new) {
                    let known = (0..=round + 1).rev().find(|&round| found == of(lba, round));
                    return Err(format!(
                        "block {lba}: not of round {old} or {new}, but of {known:?}; \
                         {round} rounds were flushed"
                    ));
                }
            }
        }
        close(&pools).await
    })
}
