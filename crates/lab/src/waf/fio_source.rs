//! Which blocks the jobs of a file write, one write after the other.
//!
//! Jobs are served alike: the next I/O is a job's as often as its I/Os in flight are among those of all
//! jobs. Its clones take turns. Writes count, reads are passed over.

use super::fio_load::FioLoad;
use super::workload::Write;
use crate::draw::Random;
use crate::fio::{AreaError, Job, Stream};
use varve_units::BLOCK_BYTES;

/// Blocks of one write at most: longer I/Os are split, as hosts split them. Chosen: 512 KiB.
const WRITE_BLOCKS_MAX: u64 = 128;

/// The writes of all jobs.
pub(super) struct FioSource {
    random: Random,
    tenants: Vec<Tenant>,
    /// Of all tenants.
    in_flight: u64,
    /// What is left of a write that was split.
    rest: Write,
    /// By block: blocks that hosts write from one write of it to the next, on average.
    intervals: Vec<f32>,
}

/// A job.
struct Tenant {
    /// Its first block.
    first: u64,
    in_flight: u64,
    /// Share of its I/Os that are writes.
    writes: f64,
    write_bytes: u64,
    clones: Vec<Stream>,
    /// Whose turn it is.
    next: usize,
}

impl Tenant {
    fn new(
        load: &FioLoad,
        at: usize,
        blocks: u64,
        ranks_per_block: u32,
        seed: u64,
    ) -> Result<Self, AreaError> {
        let job: &Job = &load.jobs()[at];
        let areas = load.areas(job, blocks)?;
        let clones = areas.iter().zip(0..);
        Ok(Self {
            first: at as u64 * (blocks / load.tenants() as u64),
            in_flight: u64::from(job.depth) * u64::from(job.clones),
            writes: f64::from(100 - job.reads_per_cent) / 100.0,
            write_bytes: job.block_bytes.write,
            clones: clones
                .map(|(area, clone)| Stream::new(job, clone, area, ranks_per_block, seed))
                .collect(),
            next: 0,
        })
    }

    /// Blocks of which an I/O writes all or a part.
    const fn touched(&self, offset: u64, bytes: u64) -> Write {
        let block = offset / BLOCK_BYTES;
        Write {
            block: self.first + block,
            blocks: (offset + bytes).div_ceil(BLOCK_BYTES) - block,
        }
    }

    /// The next I/O of the next clone, if it is a write.
    fn next(&mut self) -> Option<Write> {
        let clone = self.next;
        self.next = (clone + 1) % self.clones.len();
        let io = self.clones[clone].next()?;
        (!io.is_read).then(|| self.touched(io.offset, io.bytes))
    }

    /// Adds to each block how often the tenant writes it.
    fn add_rates(&self, rates: &mut [f64]) {
        let weight = self.in_flight as f64 * self.writes / self.clones.len() as f64;
        for (offset, share) in self.clones.iter().flat_map(Stream::write_shares) {
            let write = self.touched(offset, self.write_bytes);
            for block in write.range() {
                rates[block as usize] += weight * share;
            }
        }
    }
}

impl FioSource {
    /// The load on a volume of so many blocks.
    ///
    /// # Errors
    /// If a job does not fit.
    pub(super) fn new(
        load: &FioLoad,
        blocks: u64,
        ranks_per_block: u32,
        seed: u64,
    ) -> Result<Self, AreaError> {
        let tenants = 0..load.tenants();
        let tenants = tenants.map(|at| Tenant::new(load, at, blocks, ranks_per_block, seed));
        let tenants = tenants.collect::<Result<Vec<_>, _>>()?;
        let mut rates = vec![0.0; blocks as usize];
        tenants
            .iter()
            .for_each(|tenant| tenant.add_rates(&mut rates));
        let total: f64 = rates.iter().sum();
        // A block that is never written again has a rate of 0, and an interval that is still a number.
        let interval = |rate: &f64| (total / rate).min(f32::MAX.into()) as f32;
        Ok(Self {
            random: Random::new(seed),
            in_flight: tenants.iter().map(|tenant| tenant.in_flight).sum(),
            tenants,
            rest: Write::NOTHING,
            intervals: rates.iter().map(interval).collect(),
        })
    }

    /// The next write.
    pub(super) fn next(&mut self) -> Write {
        while self.rest.blocks == 0 {
            let at = self.random.below(self.in_flight);
            self.rest = self.tenant(at).next().unwrap_or(Write::NOTHING);
        }
        let blocks = self.rest.blocks.min(WRITE_BLOCKS_MAX);
        let block = self.rest.block;
        self.rest.block += blocks;
        self.rest.blocks -= blocks;
        Write { block, blocks }
    }

    /// Whose an I/O in flight is.
    fn tenant(&mut self, mut at: u64) -> &mut Tenant {
        let place = self.tenants.iter().position(|tenant| {
            let is_it = at < tenant.in_flight;
            at = at.saturating_sub(tenant.in_flight);
            is_it
        });
        &mut self.tenants[place.expect("I/Os in flight are some tenant's")]
    }

    /// Blocks that hosts write from one write of a block to the next, on average.
    pub(super) fn interval(&self, block: u64) -> f64 {
        self.intervals[block as usize].into()
    }
}
