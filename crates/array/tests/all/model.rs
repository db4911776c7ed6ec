//! Model property tests: random commands over random faults, against a flat reference.
//!
//! Each seed draws a layout, the order in which drives answer, the writes in flight together,
//! the moment a drive is lost, and the order of faults, repairs and rebuilds. A failure names its
//! seed.

use crate::common::{
    BLOCK, Executor, MemoryDrive, Recorder, drives, gap, gather, pattern, read, torn_gather,
};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use varve_array::{Geometry, Member, MemberState, Mirror, Protection, StripeSet};
use varve_io::{Command, Drive, IoError, Receiver, World};

const SEEDS: u64 = 150;
const BASE: u64 = 4096;

/// What the model knows of one array.
struct Model {
    seed: u64,
    executor: Rc<Executor>,
    drive: Rc<dyn Drive>,
    drives: RefCell<Vec<Rc<MemoryDrive>>>,
    /// The content the array must have.
    flat: RefCell<Vec<u8>>,
    /// Unit of writes: a stripe, or a block.
    unit: usize,
    writes: RefCell<u64>,
}

impl Model {
    /// Starts writes of random ranges that do not overlap; the content counts as written at once,
    /// because nobody reads those ranges before the ends.
    fn start_writes(&self, count: usize) -> Vec<Receiver<Result<(), IoError>>> {
        let units = self.flat.borrow().len() / self.unit;
        let mut used = BTreeSet::new();
        let mut ends = Vec::new();
        for _ in 0..count {
            let first = self.executor.below(units);
            let last = (first + 1 + self.executor.below(4)).min(units);
            if (first..last).any(|unit| used.contains(&unit)) {
                continue;
            }
            used.extend(first..last);
            let mut writes = self.writes.borrow_mut();
            *writes += 1;
            let bytes = pattern(self.seed << 20 | *writes, (last - first) * self.unit);
            self.flat.borrow_mut()[first * self.unit..last * self.unit].copy_from_slice(&bytes);
            let gather = torn_gather(&self.executor, &bytes);
            let (drive, offset) = (Rc::clone(&self.drive), (first * self.unit) as u64);
            let write = async move { drive.write(offset, gather).await };
            ends.push((&*self.executor as &dyn World).run(write));
        }
        ends
    }

    async fn write_some(&self) {
        for end in self.start_writes(4) {
            assert_eq!(end.await, Ok(()), "seed {}", self.seed);
        }
    }

    /// Reads a random range every way; returns how many ways served it.
    async fn read_some(&self) -> usize {
        let blocks = self.flat.borrow().len() / BLOCK;
        let first = self.executor.below(blocks);
        let count = (1 + self.executor.below(40)).min(blocks - first);
        self.read_ways(first * BLOCK, count * BLOCK).await
    }

    async fn read_ways(&self, offset: usize, bytes: usize) -> usize {
        let mut served = 0;
        for copy in 0..self.drive.info().copies {
            let Ok(found) = read(&*self.drive, offset, bytes, copy).await else {
                continue;
            };
            let is_equal = found == self.flat.borrow()[offset..offset + bytes];
            assert!(is_equal, "seed {} copy {copy} at {offset}", self.seed);
            served += 1;
        }
        served
    }

    async fn read_many(&self, least: usize) {
        for _ in 0..6 {
            let served = self.read_some().await;
            assert!(served >= least, "seed {}: {served} ways", self.seed);
        }
    }

    /// Breaks a drive while writes are in flight; every write must still succeed.
    async fn lose(&self, member: usize) {
        let ends = self.start_writes(5);
        for _ in 0..self.executor.below(12) {
            self.executor.yield_now().await;
        }
        let drive = Rc::clone(&self.drives.borrow()[member]);
        drive.broken.set(Some(IoError::Gone));
        for end in ends {
            assert_eq!(end.await, Ok(()), "seed {}", self.seed);
        }
        // Nothing may have touched the drive since: the next flush finds it out.
        assert_eq!(self.drive.flush().await, Ok(()));
    }

    /// Spoils ranges of one drive; reads find a way block by block and repair the bad one.
    async fn spoil_and_repair(&self, member: usize) {
        let drive = Rc::clone(&self.drives.borrow()[member]);
        let sectors = drive.info().bytes / 512 - BASE / 512;
        for _ in 0..6 {
            let sector = self.executor.below(sectors as usize - 9) as u64;
            let count = 1 + self.executor.below(9) as u64;
            drive.spoil(BASE + sector * 512, count * 512);
        }
        let blocks = self.flat.borrow().len() / BLOCK;
        for block in 0..blocks {
            let offset = block * BLOCK;
            let Err(why) = read(&*self.drive, offset, BLOCK, 0).await else {
                continue;
            };
            assert_eq!(why, IoError::Media, "seed {}", self.seed);
            let good = read(&*self.drive, offset, BLOCK, 1).await.unwrap();
            assert!(good == self.flat.borrow()[offset..offset + BLOCK]);
            let (offset, copy) = (offset as u64, 0);
            let gather = gather(&good);
            let repair = Command::Repair {
                offset,
                gather,
                copy,
            };
            assert!(self.drive.submit(repair).await.is_ok());
            let found = read(&*self.drive, block * BLOCK, BLOCK, 0).await;
            assert!(found.unwrap() == good, "seed {}", self.seed);
        }
        // What lies under parity or another copy is rewritten by the next writes.
        drive.unspoil();
    }

    /// A new drive for a seat, filled with rubbish.
    fn fresh(&self, member: usize) -> Rc<MemoryDrive> {
        let bytes = self.drives.borrow()[member].info().bytes;
        let fresh = MemoryDrive::new(Rc::clone(&self.executor), bytes);
        fresh.poke(0, &pattern(self.seed ^ 77, bytes as usize));
        self.drives.borrow_mut()[member] = Rc::clone(&fresh);
        fresh
    }

    /// Writes batch after batch until `end` has come.
    async fn write_until<T>(&self, mut end: Receiver<T>) -> T {
        loop {
            self.write_some().await;
            if let Some(value) = end.try_take() {
                return value;
            }
        }
    }

    async fn read_all(&self) {
        let copies = usize::from(self.drive.info().copies);
        let bytes = self.flat.borrow().len();
        assert_eq!(self.read_ways(0, bytes).await, copies, "seed {}", self.seed);
    }
}

fn mirror_members(drives: &[Rc<MemoryDrive>]) -> Vec<Member> {
    let one = |drive: &Rc<MemoryDrive>| Member::live(Rc::clone(drive) as _, BASE);
    drives.iter().map(one).collect()
}

fn model(seed: u64, drive: Rc<dyn Drive>, drives: &[Rc<MemoryDrive>], unit: usize) -> Rc<Model> {
    let executor = drives[0].executor();
    let bytes = drive.info().bytes as usize;
    Rc::new(Model {
        seed,
        executor,
        drive,
        drives: RefCell::new(drives.to_vec()),
        flat: RefCell::new(vec![0; bytes]),
        unit,
        writes: RefCell::new(0),
    })
}

#[test]
fn mirror_against_a_flat_reference() {
    for seed in 1..=SEEDS {
        let executor = Executor::new(seed);
        let count = 2 + executor.below(3);
        let drives = drives(&executor, count, BASE + (1 << 20) + (1 << 18));
        let membership = Recorder::new(&executor);
        let members = mirror_members(&drives);
        let world = Rc::clone(&executor) as Rc<dyn World>;
        let mirror = Rc::new(Mirror::new(members, membership as _, world).unwrap());
        let model = model(seed, Rc::clone(&mirror) as _, &drives, BLOCK);
        executor.block_on(async move {
            for _ in 0..2 {
                model.write_some().await;
                model.read_many(count).await;
                let member = model.executor.below(count);
                model.spoil_and_repair(member).await;
                let member = model.executor.below(count);
                model.lose(member).await;
                assert_eq!(mirror.state(member), MemberState::Lost);
                model.read_many(1).await;
                remirror(&model, &mirror, member).await;
                model.read_all().await;
                let bytes = model.flat.borrow().len();
                for drive in &*model.drives.borrow() {
                    let is_equal = drive.peek(BASE as usize, bytes) == *model.flat.borrow();
                    assert!(is_equal, "seed {seed}: members differ");
                }
            }
        });
    }
}

/// Replaces a lost member with writes in flight, copies everything under load, sets it live.
async fn remirror(model: &Model, mirror: &Rc<Mirror>, member: usize) {
    let early = model.start_writes(4);
    let fresh = model.fresh(member);
    mirror.replace(member, fresh, BASE).unwrap();
    let (copying, bytes) = (Rc::clone(mirror), mirror.info().bytes);
    // Small ranges, so that many bounds meet the writes.
    let ranges: Vec<_> = (0..bytes.div_ceil(40960))
        .map(|index| index * 40960..bytes.min((index + 1) * 40960))
        .collect();
    let flow = async move { copying.rebuild(member, &ranges, &gap, |_| ()).await };
    let end = (&*model.executor as &dyn World).run(flow);
    for early in early {
        assert_eq!(early.await, Ok(()));
    }
    let restored = model.write_until(end).await.unwrap();
    assert!(restored.unreadable.is_empty());
    model.write_some().await;
    mirror.set_live(member);
}

#[test]
fn stripe_set_against_a_flat_reference() {
    for seed in 1..=SEEDS {
        let executor = Executor::new(seed);
        let (count, protection) = match executor.below(3) {
            0 => (2 + 2 * executor.below(2), Protection::Mirror),
            _ => {
                let data = 2 + executor.below(4);
                (data + 1, Protection::Parity { data })
            }
        };
        let strip = 1 + executor.below(3) as u64;
        let geometry = Geometry::new(count, strip, 7, 3, protection).unwrap();
        let drives = drives(&executor, count, BASE + geometry.member_bytes());
        let membership = Recorder::new(&executor);
        let members = mirror_members(&drives);
        let world = Rc::clone(&executor) as Rc<dyn World>;
        let set = StripeSet::new(geometry, members, membership as _, world).unwrap();
        let set = Rc::new(set);
        let unit = geometry.stripe_bytes() as usize;
        let model = model(seed, Rc::clone(&set) as _, &drives, unit);
        executor.block_on(async move {
            for _ in 0..2 {
                model.write_some().await;
                model.read_many(2).await;
                let member = model.executor.below(count);
                model.spoil_and_repair(member).await;
                let member = model.executor.below(count);
                model.lose(member).await;
                assert_eq!(set.state(member), MemberState::Lost);
                model.read_many(1).await;
                model.write_some().await;
                model.read_many(1).await;
                rebuild(&model, &set, member).await;
                model.read_all().await;
                assert_redundant(&model, &geometry);
            }
        });
    }
}

async fn rebuild(model: &Model, set: &Rc<StripeSet>, member: usize) {
    let early = model.start_writes(3);
    let fresh = model.fresh(member);
    set.replace(member, fresh, BASE).unwrap();
    let copying = Rc::clone(set);
    let flow = async move {
        let ranges: Vec<_> = (0..copying.geometry().stripes())
            .map(|s| s..s + 1)
            .collect();
        copying.rebuild(member, &ranges, |_| ()).await
    };
    let end = (&*model.executor as &dyn World).run(flow);
    for early in early {
        assert_eq!(early.await, Ok(()));
    }
    let restored = model.write_until(end).await.unwrap();
    assert!(restored.unreadable.is_empty());
    set.set_live(member);
}

/// Pairs are equal, or the XOR over all drives is zero.
fn assert_redundant(model: &Model, geometry: &Geometry) {
    let bytes = geometry.member_bytes() as usize;
    let drives = model.drives.borrow();
    let content: Vec<_> = drives
        .iter()
        .map(|drive| drive.peek(BASE as usize, bytes))
        .collect();
    if geometry.protection() == Protection::Mirror {
        let is_equal = content.chunks(2).all(|pair| pair[0] == pair[1]);
        assert!(is_equal, "seed {}: pairs differ", model.seed);
        return;
    }
    let mut sum = vec![0; bytes];
    for strip in &content {
        varve_gf::xor_into(&mut sum, strip);
    }
    let is_zero = sum.iter().all(|&byte| byte == 0);
    assert!(is_zero, "seed {}: stripe xor is not zero", model.seed);
}
