//! After the last life: the fast tier is lost, and the map is made anew from the dense drives.
//!
//! 1. The pool is opened once more; what lies on the dense tier is read, and the pool closed.
//! 2. New fast drives take the place of all old ones. Now and then a dense drive goes as well.
//! 3. The map is rebuilt, in some runs with a crash or several before that ends.
//! 4. The pool is opened. Every block that was on the dense tier reads the same, or what a host wrote there later and a
//!    crash took from it; every other one what was once written there, or zeroes. The audit passes.
//! 5. Hosts write, the power fails, the pool is opened again and holds what was flushed.
//!
//! **Invariant**: what is drawn comes from a stream of its own. A seed that does not draw it is what it is without this.

use super::{Machine, PATIENCE};
use crate::content::{Content, WriteId, fill, identify};
use crate::drive::SimDrive;
use crate::executor::{Executor, Reactor, Stop, Trigger};
use crate::rng::Rng;
use crate::subject::{Dense, Outcome, Subject, SubjectError};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use varve_io::{Blocks, World};
use varve_units::{Lba, VolumeId};

/// One of so many seeds of such pools loses its fast tier. Arbitrary.
const LOST_ONE_IN: u64 = 2;
/// Rebuilds that a crash may cut short. Arbitrary.
const CUTS_MAX: u64 = 3;
/// Actions within which it does. Arbitrary: few rebuilds take more.
const CUT_ACTIONS: u64 = 6000;
/// First identity of what is written behind the rebuild: above all that hosts have given theirs.
const FIRST_ID: WriteId = 1 << 40;
/// Blocks of a write, at most.
const WRITE_BLOCKS: u64 = 32;

/// What each block may hold at least: the write that it was last known to hold.
type Known = BTreeMap<(VolumeId, u64), WriteId>;

impl Machine<'_> {
    /// Loses the fast tier, if the seed draws that, and goes on from the dense one.
    pub(super) fn lose_fast_tier(&mut self) -> Result<(), String> {
        let config = &self.plan.config;
        let may = self.options.is_whole() && config.dense != Dense::None && !config.is_elided;
        let mut rng = self.rng.split("fast tier lost");
        if !may || !rng.chance(1, LOST_ONE_IN) {
            return Ok(());
        }
        let known = self.alone("record", record)?;
        let known = known.map_err(|what| format!("before the loss: {what}"))?;
        self.drives.iter().for_each(SimDrive::power_fail);
        let (fast, dense) = self.drives.split_at(self.plan.config.fast);
        fast.iter().for_each(SimDrive::replace);
        // Blocks that were freed and come back may have no redundancy: half of their group was discarded. So what is to
        // be lost is lost now.
        dense.iter().for_each(SimDrive::leave);
        let is_lost = rng.chance(1, 3) && self.lose_dense(&mut rng);
        if !self.rebuild(&mut rng)? {
            self.shared.count("map_rebuilds_refused");
            return Ok(());
        }
        for (index, drive) in self.drives.iter().enumerate().take(self.plan.config.fast) {
            self.atlas.borrow_mut().restore(index);
            drive.note_given_up();
        }
        self.shared.count("map_rebuilt");
        if is_lost {
            self.shared.count("map_rebuilt_without_a_drive");
        }
        self.go_on(&mut rng, known)
    }

    /// A dense drive goes, if redundancy can do without it.
    fn lose_dense(&self, rng: &mut Rng) -> bool {
        let dense = &self.drives[self.plan.config.fast..];
        dense[rng.index(dense.len())].lose()
    }

    /// Rebuilds the map, however often that is cut short. False if there is no room for what came back.
    fn rebuild(&mut self, rng: &mut Rng) -> Result<bool, String> {
        let mut cuts = match rng.chance(1, 2) {
            true => rng.within(1, CUTS_MAX),
            false => 0,
        };
        loop {
            let mut executor = self.machine("rebuild", cuts);
            let reactor = executor.reactor();
            if cuts > 0 {
                let action = rng.magnitude(1, CUT_ACTIONS);
                reactor.arm(Trigger::Action(self.journal.actions() + action));
            }
            let config = self.plan.config.clone();
            let world: Rc<dyn World> = Rc::clone(&reactor) as Rc<dyn World>;
            let drives = self.drives.iter().map(|drive| drive.attach(&reactor));
            let flow = self.factory.rebuild(world, drives.collect(), config);
            let Some(flow) = flow else { return Ok(false) };
            let end = executor.run(flow);
            self.now = executor.crash();
            self.drives.iter().for_each(SimDrive::power_fail);
            match end {
                Ok(Ok(did)) => {
                    self.collect(&did);
                    return Ok(true);
                }
                Ok(Err(SubjectError::CapacityExceeded)) => return Ok(false),
                Ok(Err(error)) => return Err(format!("rebuild: {error}")),
                Err(Stop::Crash) => {
                    self.shared.count("map_rebuilds_cut");
                    cuts -= 1;
                }
                Err(stop) => return Err(self.stopped("rebuild", stop)),
            }
        }
    }

    /// Lives on the rebuilt map: one that ends in a crash, and one behind it.
    fn go_on(&mut self, rng: &mut Rng, known: Known) -> Result<(), String> {
        let seed = rng.bits();
        let blocks = 2 * self.plan.config.fast_bytes / varve_units::BLOCK_BYTES;
        let written = self.alone("after the rebuild", move |this| async move {
            let mut known = this.check(known).await?;
            this.audit().await?;
            this.write(&mut known, Rng::new(seed), blocks).await?;
            Ok::<_, String>(known)
        })?;
        let written = written.map_err(|what| format!("after the rebuild: {what}"))?;
        self.drives.iter().for_each(SimDrive::power_fail);
        let ended = self.alone("behind that", move |this| async move {
            this.check(written).await?;
            this.audit().await?;
            let closed = this.subject.close().await;
            closed.map_err(|error| format!("close: {error}"))
        })?;
        ended.map_err(|what| format!("after the rebuild and a crash: {what}"))
    }

    fn machine(&self, name: &str, number: u64) -> Executor {
        let order = self.rng.split("aftermath").split_at(name, number);
        let executor = Executor::new(Rc::clone(&self.journal), order, self.now);
        let reactor = executor.reactor();
        reactor.set_patience(PATIENCE);
        reactor.seat(self.plan.config.lanes);
        executor
    }

    /// Opens the pool, does something with it, and lets the power fail.
    fn alone<T: 'static, Doing>(
        &mut self,
        name: &str,
        what: impl FnOnce(Open) -> Doing + 'static,
    ) -> Result<Result<T, String>, String>
    where
        Doing: Future<Output = Result<T, String>> + 'static,
    {
        let mut executor = self.machine(name, 0);
        let reactor = executor.reactor();
        let (world, config) = (
            Rc::clone(&reactor) as Rc<dyn World>,
            self.plan.config.clone(),
        );
        let drives = self.drives.iter().map(|drive| drive.attach(&reactor));
        let opening = self.factory.open(world, drives.collect(), config);
        let stamp_seed = self.seed;
        let end = executor.run(async move {
            let subject = opening.await.map_err(|error| format!("start: {error}"))?;
            what(Open {
                subject,
                reactor,
                seed: stamp_seed,
            })
            .await
        });
        self.now = executor.crash();
        end.map_err(|stop| self.stopped(name, stop))
    }

    fn stopped(&self, name: &str, stop: Stop) -> String {
        let failure = self.journal.failure();
        failure.unwrap_or_else(|| format!("{name}: no progress ({stop:?})"))
    }
}

/// A pool that was opened for one of these lives.
struct Open {
    subject: Rc<dyn Subject>,
    reactor: Rc<Reactor>,
    seed: u64,
}

/// Notes what lies on the dense tier, and closes the pool.
async fn record(open: Open) -> Result<Known, String> {
    let mut known = Known::new();
    for (volume, lba) in open.subject.on_dense().await? {
        match open.read(volume, lba).await? {
            Some(Content::Write(id)) => {
                known.insert((volume, lba.0), id);
            }
            found => return Err(format!("block {lba:?} of {volume} holds {found:?}")),
        }
    }
    let closed = open.subject.close().await;
    closed.map_err(|error| format!("close: {error}"))?;
    Ok(known)
}

impl Open {
    /// What a block holds; `None` if it cannot be read.
    async fn read(&self, volume: VolumeId, lba: Lba) -> Result<Option<Content>, String> {
        self.reactor.progress();
        let block = match self.subject.read(volume, lba, Blocks::zeroed(1)).await {
            Ok(block) => block,
            Err(SubjectError::Lost | SubjectError::Media) => return Ok(None),
            Err(error) => return Err(format!("block {lba:?} of {volume}: {error}")),
        };
        let stamp = crate::content::Stamp {
            volume,
            lba,
            seed: self.seed,
        };
        Ok(Some(identify(block.block(0), stamp)))
    }

    /// Every block holds what it was known to hold, or something that was written there later; what is not known may
    /// hold anything that was ever written there, or be lost. Returns what is known from here on.
    async fn check(&self, known: Known) -> Result<Known, String> {
        let volumes: BTreeMap<VolumeId, u64> = self.subject.volumes().into_iter().collect();
        for (volume, lba) in known.keys() {
            if volumes.get(volume).is_none_or(|size| lba >= size) {
                return Err(format!("block {lba} of {volume} is gone with its volume"));
            }
        }
        let mut found = Known::new();
        for (volume, size) in volumes {
            for lba in 0..size {
                let least = known.get(&(volume, lba)).copied();
                match (self.read(volume, Lba(lba)).await?, least) {
                    (Some(Content::Write(id)), _) if least.is_none_or(|least| id >= least) => {
                        found.insert((volume, lba), id);
                    }
                    // Of what was freed, or was in the log alone, anything may be left.
                    (Some(Content::Zero) | None, None) => {}
                    (content, least) => {
                        return Err(format!(
                            "block {lba} of {volume} holds {content:?}, of the writes from {least:?} on"
                        ));
                    }
                }
            }
        }
        Ok(found)
    }

    async fn audit(&self) -> Result<(), String> {
        self.subject
            .audit()
            .await
            .map_err(|what| format!("audit: {what}"))
    }

    /// Writes about so many blocks anywhere; notes what is flushed.
    async fn write(&self, known: &mut Known, mut rng: Rng, blocks: u64) -> Result<(), String> {
        let volumes = self.subject.volumes();
        let (mut id, mut written) = (FIRST_ID, 0);
        let mut unflushed = Known::new();
        while written < blocks && !volumes.is_empty() {
            let (volume, size) = volumes[rng.index(volumes.len())];
            let count = rng.magnitude(1, WRITE_BLOCKS).min(size);
            let lba = rng.below(size - count + 1);
            let mut data = Blocks::zeroed(count as usize);
            for index in 0..count {
                let stamp = crate::content::Stamp {
                    volume,
                    lba: Lba(lba + index),
                    seed: self.seed,
                };
                fill(&mut data, index as usize, stamp, id);
            }
            self.reactor.progress();
            let done = self.subject.write(volume, Lba(lba), data, false).await;
            if took(done)? {
                unflushed.extend((lba..lba + count).map(|at| ((volume, at), id)));
            }
            (id, written) = (id + 1, written + count);
            if rng.chance(1, 16) {
                let flushed = self.subject.flush().await;
                flushed.map_err(|error| format!("flush: {error}"))?;
                known.append(&mut unflushed);
            }
        }
        Ok(())
    }
}

/// True if a write was done; false if the pool had no room for it.
fn took(done: Outcome<()>) -> Result<bool, String> {
    match done {
        Ok(()) => Ok(true),
        Err(SubjectError::CapacityExceeded) => Ok(false),
        Err(error) => Err(format!("write: {error}")),
    }
}
