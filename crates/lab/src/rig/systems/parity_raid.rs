//! RAID-5 and RAID-6 in place, as md does them.

use super::super::station::Station;
use super::super::system::{Flow, Io, Role, System, pieces};
use super::CHUNK_BYTES;
use super::rotation::Rotation;
use super::row_locks::RowLocks;
use super::stripe_update::Update;
use std::cell::Cell;
use std::rc::Rc;
use varve_io::World;

/// Told what updates do: who keeps content needs no more.
pub(crate) trait Witness {
    /// What update `number` had to read has been read.
    fn has_read(&self, number: u64, update: &Update);
    /// What it writes, data and parity, has been written.
    fn has_written(&self, number: u64, update: &Update);
}

/// Nobody keeps content.
pub(crate) struct Nobody;

impl Witness for Nobody {
    fn has_read(&self, _number: u64, _update: &Update) {}
    fn has_written(&self, _number: u64, _update: &Update) {}
}

/// Stripes with rotating parity, written in place.
///
/// Where md has choices that cost time this takes the cheaper one: rows that are written alike are
/// one command to a drive (md's plug merges them), a write waits for no other rows of its stripe,
/// the stripe cache is as large as it needs to be (md's grows to 32,768 rows, from memory) and keeps nothing,
/// parity costs no processor, there is no write-intent bitmap. What md has and this has not: writes of *several* requests
/// to one stripe are not gathered, so sequential writes below a stripe read more than md's do.
///
/// # Source
/// Linux `drivers/md/raid5.c` (6.6): `raid5_compute_sector()`, `handle_stripe_dirtying()`; reads within a
/// chunk pass the stripe cache by (`raid5_read_one_chunk()`, from memory).
pub(crate) struct ParityRaid {
    world: Rc<dyn World>,
    drives: Vec<Rc<Station>>,
    rotation: Rotation,
    rmw_level: u8,
    stripes: u64,
    locks: RowLocks,
    updates: Cell<u64>,
    started: Cell<bool>,
    witness: Rc<dyn Witness>,
}

impl ParityRaid {
    /// Over drives that are all alike.
    pub(crate) fn new(
        world: Rc<dyn World>,
        drives: Vec<Rc<Station>>,
        parity: usize,
        rmw_level: u8,
        witness: Rc<dyn Witness>,
    ) -> Rc<Self> {
        Rc::new(Self {
            world,
            rotation: Rotation::new(drives.len(), parity),
            rmw_level,
            stripes: drives[0].bytes() / CHUNK_BYTES,
            drives,
            locks: RowLocks::default(),
            updates: Cell::new(0),
            started: Cell::new(false),
            witness,
        })
    }

    async fn read(&self, io: Io) {
        let data = self.rotation.data();
        let started: Vec<_> = pieces(io.offset, io.bytes, CHUNK_BYTES)
            .map(|(chunk, within, bytes)| {
                let (stripe, strip) = (chunk / data, chunk % data);
                let drive = self.rotation.data_drive(stripe, strip);
                self.drives[drive].read(stripe * CHUNK_BYTES + within, bytes)
            })
            .collect();
        for part in started {
            part.await;
        }
    }

    async fn write(self: &Rc<Self>, io: Io) {
        let stripe_bytes = self.rotation.data() * CHUNK_BYTES;
        let of = |(stripe, within, bytes): (u64, u64, u64)| {
            let bytes = (stripe, within..within + bytes);
            Update::all_of(self.rotation, CHUNK_BYTES, bytes, self.rmw_level)
        };
        let updates: Vec<Update> = pieces(io.offset, io.bytes, stripe_bytes)
            .flat_map(of)
            .collect();
        if let [update] = &updates[..] {
            return self.carry_out(update).await;
        }
        let begin = |update: Update| {
            let raid = Rc::clone(self);
            self.world.run(async move { raid.carry_out(&update).await })
        };
        let started: Vec<_> = updates.into_iter().map(begin).collect();
        for part in started {
            part.await;
        }
    }

    async fn carry_out(&self, update: &Update) {
        let number = self.updates.get();
        self.updates.set(number + 1);
        self.locks.lock(update.stripe, &update.rows).await;
        let offset = update.stripe * CHUNK_BYTES + update.rows.start;
        let bytes = update.rows.end - update.rows.start;
        let rotation = self.rotation;
        let data = |strip| &self.drives[rotation.data_drive(update.stripe, strip)];
        let parity = |which| &self.drives[rotation.parity_drive(update.stripe, which)];
        // Before time counts reads change nothing.
        if self.started.get() {
            let old = update.reads_data(rotation).map(data);
            let old = old.chain(update.reads_parity(rotation).map(parity));
            let reads: Vec<_> = old.map(|drive| drive.read(offset, bytes)).collect();
            for read in reads {
                read.await;
            }
        }
        self.witness.has_read(number, update);
        let new = update.strips.clone().map(data);
        let new = new.chain((0..rotation.parity()).map(parity));
        let writes: Vec<_> = new.map(|drive| drive.write(offset, bytes)).collect();
        for write in writes {
            write.await;
        }
        self.witness.has_written(number, update);
        self.locks.unlock(update.stripe, &update.rows);
    }
}

impl System for ParityRaid {
    fn bytes(&self) -> u64 {
        self.stripes * self.rotation.data() * CHUNK_BYTES
    }

    fn serve(self: Rc<Self>, io: Io) -> Flow {
        Box::pin(async move {
            if io.is_read {
                self.read(io).await;
            } else {
                self.write(io).await;
            }
            Ok(())
        })
    }

    fn drives(&self) -> Vec<(Role, Rc<Station>)> {
        let of = |drive| (Role::Dense, Rc::clone(drive));
        self.drives.iter().map(of).collect()
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = super::array_parameters(&self.drives);
        parameters.push(("layout", "left-symmetric".to_owned()));
        parameters.push(("rmw_level", self.rmw_level.to_string()));
        parameters
    }

    fn start(&self) {
        self.started.set(true);
        self.drives.iter().for_each(|drive| drive.start());
    }
}

#[cfg(test)]
#[path = "parity_raid_tests.rs"]
mod tests;
