//! The drive against a simple one that keeps sets, and against the rules of flash: operations drawn
//! from a seed.

use crate::common::Rng;
use std::collections::{BTreeMap, BTreeSet};
use varve_media::{Op, Place, Shape, Ssd, Why};

const SECTOR: u64 = 512;

/// What flash allows: each place of an erase unit is programmed once, in order, between erases.
struct Flash {
    unit_ius: u32,
    programmed: Vec<u32>,
}

impl Flash {
    fn see(&mut self, op: Op) {
        match op {
            Op::Program(place, why) => {
                let (unit, offset) = (place.0 / self.unit_ius, place.0 % self.unit_ius);
                let programmed = &mut self.programmed[unit as usize];
                assert_eq!(*programmed, offset, "in order, once");
                *programmed += 1;
                let is_kept = why != Why::Host || offset > 0 || self.programmed.contains(&0);
                assert!(is_kept, "the last free unit is not the host's");
            }
            Op::Read(place, _) => assert!(self.holds(place), "read of nothing"),
            Op::Erase(unit) => {
                let programmed = &mut self.programmed[unit as usize];
                assert_eq!(*programmed, self.unit_ius, "erased when full");
                *programmed = 0;
            }
        }
    }

    fn holds(&self, place: Place) -> bool {
        place.0 % self.unit_ius < self.programmed[(place.0 / self.unit_ius) as usize]
    }

    fn is_open(&self, programmed: u32) -> bool {
        programmed > 0 && programmed < self.unit_ius
    }
}

/// The buffer and the map as sets.
struct Simple {
    iu_bytes: u64,
    slots_max: usize,
    is_protected: bool,
    /// Sectors that wait, one bit each, the least recently written IU first.
    waiting: Vec<(u64, u128)>,
    mapped: BTreeSet<u64>,
    rmws: u64,
    programs: u64,
}

impl Simple {
    fn write(&mut self, offset: u64, length: u64) {
        let mut parts = BTreeMap::<u64, u128>::new();
        for at in (offset..offset + length).step_by(SECTOR as usize) {
            let (iu, within) = (at / self.iu_bytes, at % self.iu_bytes);
            *parts.entry(iu).or_default() |= 1 << (within / SECTOR);
        }
        for (iu, part) in parts {
            let is_whole = |part: u128| u64::from(part.count_ones()) == self.iu_bytes / SECTOR;
            let before = self.waiting.iter().position(|(waiting, _)| *waiting == iu);
            let sectors = part | before.map_or(0, |at| self.waiting.remove(at).1);
            if is_whole(sectors) {
                self.program(iu, true);
                continue;
            }
            if self.waiting.len() == self.slots_max {
                let (oldest, _) = self.waiting.remove(0);
                self.program(oldest, false);
            }
            self.waiting.push((iu, sectors));
        }
    }

    fn program(&mut self, iu: u64, is_whole: bool) {
        let was_mapped = !self.mapped.insert(iu);
        self.rmws += u64::from(was_mapped && !is_whole);
        self.programs += 1;
    }

    fn deallocate(&mut self, offset: u64, length: u64) {
        let ius = offset.div_ceil(self.iu_bytes)..(offset + length) / self.iu_bytes;
        for iu in ius {
            self.mapped.remove(&iu);
            self.waiting.retain(|(waiting, _)| *waiting != iu);
        }
    }

    fn flush(&mut self) {
        if !self.is_protected {
            for (iu, _) in std::mem::take(&mut self.waiting) {
                self.program(iu, false);
            }
        }
    }
}

fn shape(rng: &mut Rng) -> Shape {
    let iu_bytes = 4096 << rng.below(5);
    let units = 24 + rng.below(40);
    let unit_ius = 16 + rng.below(48);
    let bytes = units * unit_ius * u64::from(iu_bytes);
    let spare = 1_000_001 + rng.below(400_000);
    let slots = 1 + rng.below(8) as u32;
    let shape = Shape::new(bytes, iu_bytes, units, spare, slots, rng.below(2) == 0);
    shape.expect("a possible shape")
}

/// A range that is small, large or whole IUs; one of `cold` begins anywhere, the others in the first
/// eighth.
fn range(rng: &mut Rng, shape: &Shape, cold: u64) -> (u64, u64) {
    let iu = u64::from(shape.iu_bytes);
    let unit = if rng.below(2) == 0 { SECTOR } else { iu };
    let places = shape.bytes / unit;
    let start = match rng.below(cold) {
        0 => rng.below(places),
        _ => rng.below(places.div_ceil(8)),
    };
    let most = (4 * iu / unit).min(places - start);
    (start * unit, (1 + rng.below(most)) * unit)
}

fn check(ssd: &Ssd, simple: &Simple, flash: &Flash) {
    let iu = simple.iu_bytes;
    let mut places = BTreeSet::new();
    for at in 0..u64::from(ssd.shape().ius) {
        let place = ssd.place(at * iu);
        assert_eq!(place.is_some(), simple.mapped.contains(&at), "IU {at}");
        let Some(place) = place else { continue };
        assert!(flash.holds(place), "IU {at} at an erased {place:?}");
        assert!(places.insert(place), "two IUs at {place:?}");
    }
    let open = flash.programmed.iter();
    assert!(open.filter(|count| flash.is_open(**count)).count() <= 3);
}

/// Returns IUs programmed for wear levelling.
fn run(seed: u64) -> u64 {
    let mut rng = Rng(seed);
    let cold = 1 << rng.below(12);
    let shape = shape(&mut rng);
    let mut ssd = Ssd::new(shape);
    let mut flash = Flash {
        unit_ius: shape.unit_ius,
        programmed: vec![0; shape.units as usize],
    };
    let mut simple = Simple {
        iu_bytes: u64::from(shape.iu_bytes),
        slots_max: shape.merge_slots as usize,
        is_protected: shape.is_protected,
        waiting: Vec::new(),
        mapped: BTreeSet::new(),
        rmws: 0,
        programs: 0,
    };
    let (mut gc_programs, mut wear_programs, mut erases) = (0, 0, 0);
    let mut on = |op: Op| {
        gc_programs += u64::from(matches!(op, Op::Program(_, Why::Gc | Why::Wear)));
        wear_programs += u64::from(matches!(op, Op::Program(_, Why::Wear)));
        erases += u64::from(matches!(op, Op::Erase(_)));
        flash.see(op);
    };
    for write in 0..16 * shape.ius {
        if rng.below(512) == 0 {
            ssd = Ssd::restore(shape, &ssd.save()).expect("what was just saved");
        }
        let cold = if write < shape.ius { 1 } else { cold };
        let (offset, length) = range(&mut rng, &shape, cold);
        match rng.below(40) {
            0 => {
                ssd.deallocate(offset, length);
                simple.deallocate(offset, length);
            }
            1 => {
                ssd.flush(&mut on);
                simple.flush();
            }
            _ => {
                ssd.write(offset, length, &mut on);
                simple.write(offset, length);
            }
        }
    }
    let sums = ssd.counters();
    let iu = simple.iu_bytes;
    assert_eq!(sums.rmw_reads, simple.rmws);
    assert_eq!(sums.media_bytes, (simple.programs + gc_programs) * iu);
    assert_eq!(sums.gc_moved_bytes, gc_programs * iu);
    assert_eq!(sums.erases, erases);
    assert_eq!(sums.erases, ssd.wear().erases);
    assert_eq!(ssd.waiting(), simple.waiting.len());
    assert!(erases > 0, "the run is too short");
    check(&ssd, &simple, &flash);
    wear_programs
}

#[test]
fn each_iu_is_at_one_place_and_flash_is_used_as_flash() {
    let wear_programs: u64 = (0..40).map(run).sum();
    assert!(wear_programs > 0, "no seed levelled wear");
}

/// What happens to the flash does not depend on how the host cuts whole IUs into commands: runs are programmed
/// and deallocated in steps of their own, and everything else must come between them where it would.
#[test]
fn runs_cost_what_their_ius_do() {
    for seed in 0..60 {
        let mut rng = Rng(seed);
        let shape = shape(&mut rng);
        let iu = u64::from(shape.iu_bytes);
        let mut drives = [Ssd::new(shape), Ssd::new(shape)];
        let mut ops = [Vec::new(), Vec::new()];
        let most = 1 + rng.below(3 * u64::from(shape.unit_ius));
        for _ in 0..2000 {
            let first = rng.below(u64::from(shape.ius));
            let count = 1 + rng.below(most.min(u64::from(shape.ius) - first));
            let whole = vec![(first * iu, count * iu)];
            let each = (first..first + count).map(|at| (at * iu, iu)).collect();
            let kind = rng.below(20);
            for ((ssd, ops), ranges) in drives.iter_mut().zip(&mut ops).zip([whole, each]) {
                let mut on = |op| ops.push(op);
                if kind == 0 {
                    ssd.write(first * iu, SECTOR, &mut on);
                }
                for (offset, length) in ranges {
                    if kind < 3 {
                        ssd.deallocate(offset, length);
                    } else {
                        ssd.write(offset, length, &mut on);
                    }
                }
            }
        }
        let [runs, each] = drives;
        assert_eq!(ops[0], ops[1], "seed {seed}");
        assert_eq!(runs.save(), each.save(), "seed {seed}");
    }
}
