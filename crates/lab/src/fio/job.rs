//! A job, after defaults and `[global]`.

/// A number of bytes, or a share of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Per cent of the disk, if nothing else is said.
    PerCent(u8),
}

/// One value for reads and one for writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Directions {
    /// For reads.
    pub read: u64,
    /// For writes.
    pub write: u64,
}

impl Directions {
    /// The value for a direction.
    #[must_use]
    pub const fn of(&self, is_read: bool) -> u64 {
        if is_read { self.read } else { self.write }
    }
}

/// In which order blocks of the area come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Order {
    /// From the first to the last and again; reads and writes of a mixed job each for themselves.
    Sequential,
    /// All equally likely.
    Uniform {
        /// True if all come once before one comes again, as with fio's map of what it has done
        /// (no `norandommap`); false if each is drawn without a look at those before.
        is_mapped: bool,
    },
    /// Zipf's law with this exponent, scattered over the area; each clone has hot blocks of its own.
    Zipf {
        /// The exponent.
        theta: f64,
    },
}

/// How intended starts of an open loop follow one another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Process {
    /// At equal distances.
    Linear,
    /// A Poisson process.
    Poisson,
}

/// An open loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// I/Os a second of each clone; of a direction that the job does not have it is 0.
    pub per_second: Directions,
    /// How they follow one another.
    pub process: Process,
}

/// A job: what each of its clones does.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// Place in the file, from 0: part of its seeds.
    pub number: u32,
    /// Line at which its section begins, from 1.
    pub line: u32,
    /// Reads of 100 I/Os. Of a mixed open loop the rates decide instead, as in fio.
    pub reads_per_cent: u8,
    /// Where they go.
    pub order: Order,
    /// Bytes of an I/O, multiples of 512.
    pub block_bytes: Directions,
    /// I/Os in flight of each clone.
    pub depth: u32,
    /// Clones, at least 1: they share all of this but seed and offset.
    pub clones: u32,
    /// Where the area of the first clone begins.
    pub offset: Amount,
    /// How much further the area of the next clone begins.
    pub offset_increment: Amount,
    /// How long the area is; to the end of the disk if nothing is said.
    pub size: Option<Amount>,
    /// How much each clone reads and writes, per cent of the area; as much as that is long, if nothing is
    /// said.
    pub io_size: Option<Amount>,
    /// Time after which it ends, in nanoseconds, behind `ramp_ns`.
    pub runtime_ns: Option<u64>,
    /// True if only time ends it, not the amount.
    pub is_time_based: bool,
    /// Time before anything counts, in nanoseconds.
    pub ramp_ns: u64,
    /// Open loop; closed if there is none.
    pub rate: Option<Rate>,
    /// Part of its seeds.
    pub randseed: u64,
    /// True if it begins when all jobs before it have ended.
    pub is_behind_wall: bool,
    /// True if its end ends all jobs that run beside it.
    pub ends_all: bool,
    /// True if one figure of all clones is wanted rather than one of each.
    pub is_reported_as_group: bool,
}

impl Job {
    /// True if it has I/Os of this direction.
    #[must_use]
    pub const fn has(&self, is_read: bool) -> bool {
        if is_read {
            self.reads_per_cent > 0
        } else {
            self.reads_per_cent < 100
        }
    }

    /// Bytes of its smallest I/O.
    #[must_use]
    pub fn block_bytes_min(&self) -> u64 {
        let of = |is_read| self.has(is_read).then(|| self.block_bytes.of(is_read));
        let sizes = [of(true), of(false)].into_iter().flatten();
        sizes.min().expect("a job reads or writes")
    }
}
