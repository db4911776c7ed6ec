//! A dense tier that lacks a drive: what is written then bears the loss of one more.

use crate::common::ram::Ram;
use crate::common::rig::{BLOCKS, MIB, OPTIONS, Rig, dense, dense_drive, run};
use std::rc::Rc;
use varve_io::Blocks;
use varve_pool::{PoolOptions, SlotState};
use varve_units::Lba;

/// Where the rig's drives are: two fast ones, then the dense ones.
const DENSE: usize = 2;

impl Rig {
    fn counter(&self, name: &str) -> u64 {
        self.pool.counters().get(name).copied().unwrap_or(0)
    }

    fn dense_of(&self, member: usize) -> &Rc<Ram> {
        &self.drives[DENSE + member]
    }

    /// Live blocks of the dense tier that another loss can make unreadable.
    fn exposed(&self) -> u64 {
        self.pool.engine().exposed_blocks()
    }

    /// Takes a dense drive away and writes until its loss is known.
    fn lose(&self, member: usize, seed: u64) {
        self.dense_of(member).set_gone(true);
        for round in 0.. {
            self.write(seed + round, 100);
            self.world.drain();
            if self.state(dense(member as u8)) == SlotState::Lost {
                return;
            }
            assert!(round < 20, "the loss of {member} is noticed");
        }
    }

    /// Writes until all that lives on the dense tier is in narrow stripes.
    fn write_until_narrow(&self, seed: u64) {
        for round in 0..200 {
            self.write(seed + round, 100);
            self.world.drain();
            if self.exposed() == 0 {
                assert!(self.pool.engine().writes_narrow());
                return;
            }
        }
        panic!("{} blocks are never written anew", self.exposed());
    }

    /// Blocks that cannot be read; what can be is right.
    fn unreadable(&self) -> u64 {
        let rig = self.clone();
        run(&self.world, async move {
            let mut unreadable = 0;
            for lba in 0..BLOCKS {
                let engine = rig.pool.engine();
                let read = engine.read(rig.volume, Lba(lba), Blocks::zeroed(1));
                let Ok(block) = read.await else {
                    unreadable += 1;
                    continue;
                };
                let byte = rig.content.borrow().get(&lba).copied().unwrap_or(0);
                assert!(block.bytes().iter().all(|found| *found == byte), "{lba}");
            }
            unreadable
        })
    }

    fn audit(&self) {
        let pool = Rc::clone(&self.pool);
        let (outcome, _) = run(&self.world, async move { pool.audit().await });
        outcome.unwrap();
    }
}

/// Every pair of drives: one is lost, all is written anew, another is away.
#[test]
fn what_is_written_after_a_loss_bears_another() {
    // Whichever is first, with its neighbour in the rotation and with one that is none.
    for (first, second) in (0..10).map(|pair| (pair / 2, (pair / 2 + 1 + pair % 2) % 5)) {
        let rig = Rig::new(5, 40 + 5 * first as u64 + second as u64);
        rig.write(1, 600);
        rig.lose(first, 1000);
        rig.write_until_narrow(2000);
        rig.audit();
        rig.dense_of(second).set_gone(true);
        let before = rig.counter("narrow_reads");
        rig.check();
        let narrow = rig.counter("narrow_reads") - before;
        assert!(narrow > 0, "{first} {second}");
        // Nobody was given up: it is back, and all is as before.
        assert_eq!(rig.state(dense(second as u8)), SlotState::Live);
        rig.dense_of(second).set_gone(false);
        rig.check();
        assert_eq!(rig.counter("blocks_lost"), 0);
    }
}

/// Of three drives a narrow stripe has one block of data for each of parity: there is not room for all that a pool holds.
/// What cannot be read without two drives is no more than is told.
#[test]
fn no_more_is_exposed_than_is_told() {
    for (first, second) in [(0, 1), (1, 2), (2, 0)] {
        let options = PoolOptions {
            strip_blocks: 8,
            zone_strips: 8,
            ..OPTIONS
        };
        let rig = Rig::of(3, 90 + first as u64, options);
        rig.write(1, 600);
        rig.lose(first, 1000);
        rig.write(2000, 2500);
        rig.world.drain();
        let exposed = rig.exposed();
        assert!(exposed < BLOCKS, "{exposed}");
        rig.dense_of(second).set_gone(true);
        let unreadable = rig.unreadable();
        assert!(unreadable <= exposed, "{unreadable} {exposed}");
        assert!(rig.counter("narrow_reads") > 0);
    }
}

/// What lies in stripes of full width cannot be read while two are away, and that is no loss: it is back with the drive.
#[test]
fn what_was_written_before_the_loss_does_not() {
    let rig = Rig::new(5, 7);
    rig.write(1, 3000);
    rig.world.drain();
    rig.lose(1, 1000);
    assert!(rig.exposed() > 0);
    rig.dense_of(3).set_gone(true);
    let unreadable = rig.unreadable();
    assert!(unreadable > 0 && unreadable < BLOCKS, "{unreadable}");
    rig.dense_of(3).set_gone(false);
    rig.check();
    assert_eq!(rig.counter("blocks_lost"), 0);
}

/// A new drive gets the stripes as they are, full ones are written from then on, and then any drive may die.
#[test]
fn a_new_drive_ends_it() {
    for (first, second) in [(0, 4), (3, 1), (2, 3)] {
        let mut rig = Rig::new(5, 60 + first as u64);
        rig.write(1, 600);
        rig.lose(first, 1000);
        rig.write_until_narrow(2000);
        rig.audit();
        rig.replace(dense(first as u8), DENSE + first, dense_drive());
        rig.audit();
        assert!(!rig.pool.engine().writes_narrow());
        let before = rig.counter("narrow_stripes");
        rig.write(9000, 400);
        rig.world.drain();
        assert_eq!(rig.counter("narrow_stripes"), before);
        rig.dense_of(second).set_gone(true);
        rig.write(9001, 50);
        rig.check();
    }
}

/// Starts find the stripes whatever was committed, and tell of as much that bears a loss as before.
#[test]
fn starts_go_on_with_narrow_stripes() {
    for (first, second) in [(0, 4), (4, 0), (2, 3)] {
        let mut rig = Rig::new(5, 80 + first as u64);
        rig.write(1, 600);
        rig.lose(first, 1000);
        rig.write_until_narrow(2000);
        rig.restart(5);
        rig.audit();
        assert!(rig.pool.engine().narrow_blocks() > 0);
        // All is written anew.
        rig.write(3000, 2500);
        rig.restart(6);
        rig.check();
        rig.dense_of(second).set_gone(true);
        rig.check();
        assert!(rig.counter("narrow_reads") > 0);
    }
}

/// Blocks of narrow stripes that a drive has wrong are mended while another one is missing.
#[test]
fn rot_is_mended_while_a_drive_is_missing() {
    let rig = Rig::new(5, 33);
    rig.write(1, 600);
    rig.lose(2, 1000);
    rig.write_until_narrow(2000);
    for at in (0..8 << 20).step_by(4096 * 3) {
        rig.dense_of(0).flip(at + 5);
    }
    rig.check();
    assert!(rig.counter("narrow_reads") > 0 && rig.counter("repairs") > 0);
    let before = rig.counter("narrow_reads");
    rig.check();
    assert_eq!(rig.counter("narrow_reads"), before, "all are mended");
}

/// A drive that has lost all it held gets it again from a scrub. What narrow stripes end with is summed up anew: parity
/// is not made to fit what was read there.
#[test]
fn a_scrub_mends_sums() {
    // The last strip of a stripe whose parity is on one drive lies on the drive before.
    for (first, bad) in [(0, 4), (3, 2), (2, 1)] {
        let mut rig = Rig::new(5, 110 + first as u64);
        rig.write(1, 600);
        rig.lose(first, 1000);
        rig.write_until_narrow(2000);
        rig.replace(dense(first as u8), DENSE + first, dense_drive());
        let content = |rig: &Rig| rig.dense_of(first).content(MIB, 8 * MIB as usize);
        let before = content(&rig);
        rig.dense_of(bad).erase_content();
        let pool = Rc::clone(&rig.pool);
        let scrub = async move { pool.scrub(None, &mut |_| true).await };
        let report = run(&rig.world, scrub).unwrap();
        assert!(report.is_clean() && report.repairs > 0, "{report:?}");
        assert!(
            content(&rig) == before,
            "the others' drives are as they were"
        );
        rig.audit();
        rig.check();
    }
}

/// A pool that is rather full goes on with stripes of full width.
#[test]
fn a_full_pool_writes_full_stripes() {
    let rig = Rig::new(5, 21);
    let capacity = rig.pool.engine().capacity();
    let bigger = rig.clone();
    let volume = run(&rig.world, async move {
        let new = varve_ftl::NewVolume {
            name: "w",
            size: varve_units::Blocks(capacity - BLOCKS),
            tenant: varve_units::TenantId(1),
            uuid: [3; 16],
            nguid: [4; 16],
        };
        bigger.pool.engine().create_volume(new).await.unwrap()
    });
    let filler = rig.clone();
    run(&rig.world, async move {
        let engine = filler.pool.engine();
        for lba in (0..capacity - BLOCKS).step_by(8) {
            let count = 8.min(capacity - BLOCKS - lba);
            let mut data = Blocks::zeroed(count as usize);
            data.bytes_mut().fill(7);
            engine.write(volume, Lba(lba), data, false).await.unwrap();
        }
    });
    rig.write(1, 600);
    rig.lose(1, 1000);
    rig.write(2, 1500);
    rig.world.drain();
    assert!(!rig.pool.engine().writes_narrow());
    assert_eq!(rig.counter("narrow_stripes"), 0);
    rig.audit();
    rig.check();
    // As soon as there is room stripes are narrow.
    let engine = Rc::clone(&rig.pool);
    run(&rig.world, async move {
        engine.engine().delete_volume(volume).await.unwrap();
    });
    rig.write(3, 1500);
    rig.world.drain();
    assert!(rig.counter("narrow_stripes") > 0);
    rig.write_until_narrow(4000);
    rig.audit();
}
