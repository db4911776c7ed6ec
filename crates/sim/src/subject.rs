//! What is simulated: a pool behind two small traits.
//!
//! A [`Factory`] makes one pool per seed and starts it again after each crash; whatever survives
//! lives on the drives. A [`Subject`] is one life of the pool.

use crate::atlas::Layout;
use crate::checker::space::Space;
use crate::checker::volumes::{Found, Naming};
use crate::laps::LogArea;
use crate::wire::WireCanary;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use varve_ftl::Recall;
use varve_io::{Blocks, Drive, World};
use varve_units::{Lba, Nanos, VolumeId};

/// A boxed flow of one reactor.
pub type Flow<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// How the dense tier protects its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dense {
    /// There is no dense tier.
    None,
    /// One drive.
    Single,
    /// Two drives with the same content.
    Mirror,
    /// This many drives, one parity strip in each row.
    Parity(usize),
}

impl Dense {
    /// Number of drives.
    #[must_use]
    pub const fn drives(self) -> usize {
        match self {
            Self::None => 0,
            Self::Single => 1,
            Self::Mirror => 2,
            Self::Parity(drives) => drives,
        }
    }
}

/// The pool of a seed, as drawn. Drives `0..fast` are the fast tier, the rest is the dense tier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Seed of whatever the subject draws itself (pool identity).
    pub seed: u64,
    /// Drives of the fast tier; more than one is a mirror.
    pub fast: usize,
    /// The dense tier.
    pub dense: Dense,
    /// Bytes of each fast drive.
    pub fast_bytes: u64,
    /// Bytes of each dense drive.
    pub dense_bytes: u64,
    /// Map slices.
    pub slices: u16,
    /// Log lanes, drawn anew at each start.
    pub lanes: u16,
    /// Most log lanes.
    pub lanes_max: u16,
    /// Smallest unit of a transfer of every drive: 512 or 4096.
    pub lba_bytes: u32,
    /// Blocks of one command at most.
    pub count_max: u64,
    /// Blocks of one leaf that the pool takes whole; of more, each so many from the first on.
    pub record_blocks: u64,
    /// Bytes of memory for the map.
    pub map_bytes: u64,
    /// Age in records at which changes of the map are merged.
    pub chain_age: u64,
    /// Images of leaves that each shard of the map has at least.
    pub images_min: u64,
    /// After so long without commands of hosts the pool makes room for bursts.
    pub idle_after: Nanos,
    /// True if blocks are symbols.
    pub is_elided: bool,
    /// True if the drives may lose completed writes that were not flushed.
    pub volatile_cache: bool,
}

impl Config {
    /// Number of drives.
    #[must_use]
    pub const fn drives(&self) -> usize {
        self.fast + self.dense.drives()
    }
}

/// Why an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SubjectError {
    /// The pool is full.
    CapacityExceeded,
    /// There is no room beneath the pool's drives.
    NoSpace,
    /// A drive that is needed for it does not answer.
    Away,
    /// A block cannot be read or written.
    Media,
    /// A block's content is known to be lost.
    Lost,
    /// The pool does not serve any more.
    Stopped,
    /// The pool cannot be created or opened.
    Unusable,
    /// Writes that were answered may be gone with a cache; told by one flush of a host.
    CacheLost,
    /// It was done, and then the power failed, before the answer arrived: without a flush it may be
    /// lost.
    Outlived,
}

impl fmt::Display for SubjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CapacityExceeded => "capacity exceeded",
            Self::NoSpace => "no space beneath the drives",
            Self::Away => "a drive does not answer",
            Self::Media => "unrecovered media error",
            Self::Lost => "content lost",
            Self::Stopped => "pool stopped",
            Self::Unusable => "pool cannot be opened",
            Self::Outlived => "answered by a machine that has failed since",
            Self::CacheLost => "writes may be lost: they were not flushed in time",
        })
    }
}

impl std::error::Error for SubjectError {}

/// Outcome of an operation.
pub type Outcome<T> = Result<T, SubjectError>;

/// Makes and restarts the pool of one seed.
pub trait Factory {
    /// Changes what was drawn as far as such a pool could not be made.
    fn adapt(&self, config: &mut Config);

    /// Where the tiers of such a pool lie on its drives, for the fault atlas.
    fn layout(&self, config: &Config) -> Layout;

    /// Makes the pool, on blank drives or after a creation that was cut short.
    fn create(
        &self,
        world: Rc<dyn World>,
        drives: Vec<Rc<dyn Drive>>,
        config: Config,
    ) -> Flow<'static, Outcome<Rc<dyn Subject>>>;

    /// True if a creation that was cut short can be repeated on the same drives; they are wiped
    /// otherwise.
    fn repeats_creation(&self) -> bool {
        false
    }

    /// The life of another pool on the same drives, before this one is made: at its end the drives
    /// are as blank as their owner would make them. `None` if there is no such thing.
    fn earlier(
        &self,
        world: Rc<dyn World>,
        drives: Vec<Rc<dyn Drive>>,
        config: Config,
    ) -> Option<Flow<'static, Outcome<()>>> {
        let _ = (world, drives, config);
        None
    }

    /// Starts the pool from its drives (recovery included). A drive may be gone, blank or stale.
    fn open(
        &self,
        world: Rc<dyn World>,
        drives: Vec<Rc<dyn Drive>>,
        config: Config,
    ) -> Flow<'static, Outcome<Rc<dyn Subject>>>;

    /// Makes the pool anew from what its dense drives hold, on blank fast drives, without starting it; what it did, by
    /// feature. Cut short, it may be done again. `None` if there is no such thing.
    fn rebuild(
        &self,
        world: Rc<dyn World>,
        drives: Vec<Rc<dyn Drive>>,
        config: Config,
    ) -> Option<Flow<'static, Outcome<BTreeMap<&'static str, u64>>>> {
        let _ = (world, drives, config);
        None
    }

    /// Features that a campaign must have seen, by their names in [`Subject::status`].
    fn features(&self) -> &'static [&'static str];

    /// Those of them that every seed must have seen with such a pool.
    fn essentials(&self, config: &Config) -> &'static [&'static str];

    /// Where the chunks of the fast tier lie, if it is a log: every seed must have wrapped it.
    fn log_area(&self, config: &Config) -> Option<LogArea>;

    /// True if a pool knows its drives by what they hold, whichever it is given.
    fn knows_drives(&self) -> bool {
        false
    }

    /// True if a pool tells its hosts when there is no room beneath a drive, and goes on when there is.
    fn tells_shortage(&self) -> bool {
        false
    }

    /// A bug to be planted between the pool and its hosts.
    fn wire_canary(&self) -> Option<WireCanary> {
        None
    }
}

/// What a scrub came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scrubbed {
    /// It looked at everything in every way, and nothing is wrong any more.
    pub is_clean: bool,
    /// Blocks that no drive gives, and stripes and parts of the log of which nothing says the content.
    pub lost: u64,
}

/// One life of a pool.
pub trait Subject {
    /// False if every acknowledged write is durable.
    fn is_volatile(&self) -> bool;

    /// Writes blocks; durable at acknowledgement if `forced`.
    fn write(
        &self,
        volume: VolumeId,
        lba: Lba,
        blocks: Blocks,
        forced: bool,
    ) -> Flow<'_, Outcome<()>>;

    /// [`Subject::write`] of a host that may be lost before anything of it is done.
    fn write_for<'a>(
        &'a self,
        recall: &'a Recall,
        volume: VolumeId,
        lba: Lba,
        blocks: Blocks,
        forced: bool,
    ) -> Flow<'a, Outcome<()>> {
        let _ = recall;
        self.write(volume, lba, blocks, forced)
    }

    /// Reads blocks into a buffer of the right length.
    fn read(&self, volume: VolumeId, lba: Lba, into: Blocks) -> Flow<'_, Outcome<Blocks>>;

    /// Deallocates `count` blocks: they read as zeroes.
    fn discard(&self, volume: VolumeId, lba: Lba, count: u64) -> Flow<'_, Outcome<()>>;

    /// Writes zeroes to `count` blocks.
    fn write_zeroes(&self, volume: VolumeId, lba: Lba, count: u64) -> Flow<'_, Outcome<()>>;

    /// Makes everything acknowledged durable.
    fn flush(&self) -> Flow<'_, Outcome<()>>;

    /// Creates a volume of `count` blocks; durable at acknowledgement.
    fn create_volume<'a>(&'a self, identity: &'a Naming, count: u64)
    -> Flow<'a, Outcome<VolumeId>>;

    /// Deletes a volume; durable at acknowledgement.
    fn delete_volume(&self, volume: VolumeId) -> Flow<'_, Outcome<()>>;

    /// Moves the end of a volume; durable at acknowledgement.
    fn resize_volume(&self, volume: VolumeId, count: u64) -> Flow<'_, Outcome<()>>;

    /// The volumes and their sizes in blocks.
    fn volumes(&self) -> Vec<(VolumeId, u64)>;

    /// The same with what they are called.
    fn found(&self) -> Vec<Found> {
        let volumes = self.volumes().into_iter();
        let found = volumes.map(|(id, size)| Found {
            id,
            size,
            identity: None,
        });
        found.collect()
    }

    /// Puts a blank drive in the place of drive `index`, which may be read from meanwhile if it `works`; ends when
    /// redundancy is whole again, or with [`SubjectError::Stopped`] if service ends before.
    fn replace(&self, index: usize, drive: Rc<dyn Drive>, works: bool) -> Flow<'_, Outcome<()>>;

    /// True if drive `index` holds all it should: a rebuild that a start began again has ended.
    fn is_whole(&self, index: usize) -> bool;

    /// Reads everything in every way, at `limit` bytes a second at most, and mends what is wrong, until `go_on` says no.
    /// Nothing where a pool cannot.
    fn scrub(
        &self,
        limit: Option<u64>,
        go_on: Rc<dyn Fn() -> bool>,
    ) -> Flow<'_, Outcome<Option<Scrubbed>>> {
        let _ = (limit, go_on);
        Box::pin(async { Ok(None) })
    }

    /// Copies and parity that do not pass their check; nothing is in flight.
    ///
    /// # Errors
    /// As [`Subject::audit`].
    fn wrong_copies(&self) -> Flow<'_, Result<u64, String>> {
        Box::pin(async { Ok(0) })
    }

    /// Reads all that the pool says bears the loss of one more drive although one is lost; nothing is in flight. How many
    /// blocks that is.
    ///
    /// # Errors
    /// One that cannot be read, in words.
    fn read_narrow(&self) -> Flow<'_, Result<u64, String>> {
        Box::pin(async { Ok(0) })
    }

    /// Ends service in good order.
    fn close(&self) -> Flow<'_, Outcome<()>>;

    /// Space in use.
    fn space(&self) -> Space;

    /// Counters of this life, by feature.
    fn status(&self) -> BTreeMap<&'static str, u64>;

    /// What its flows wait for, of each reactor, by name: told when it makes no progress.
    fn waits(&self) -> Vec<BTreeMap<&'static str, u64>> {
        Vec::new()
    }

    /// Blocks whose content lies on the dense tier alone; nothing is in flight.
    ///
    /// # Errors
    /// What is wrong with the map, in words.
    fn on_dense(&self) -> Flow<'_, Result<Vec<(VolumeId, Lba)>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Whole-state invariants, the map against the P2L among them; nothing is in flight.
    ///
    /// # Errors
    /// The first invariant that does not hold, in words.
    fn audit(&self) -> Flow<'_, Result<(), String>>;
}
