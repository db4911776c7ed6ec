//! Placement handles: what lies beside what, what that is worth, and that it is kept.

use crate::common::{Rng, formula, nobody};
use std::collections::{BTreeMap, BTreeSet};
use varve_media::{
    AnySheet, Counters, HandleCounters, Isolation, Placement, Shape, ShapeError, SnapshotError,
    Ssd, Why,
};

const IU: u64 = 4096;
const KINDS: [Isolation; 2] = [Isolation::Initially, Isolation::Persistently];

fn drive(user_units: u64, unit_ius: u64, spare: f64, handles: u8, isolation: Isolation) -> Ssd {
    let bytes = user_units * unit_ius * IU;
    let shape = Shape::new(bytes, IU as u32, user_units, (spare * 1e6) as u64, 32, true);
    let shape = shape.and_then(|shape| shape.with_placement(Placement { handles, isolation }));
    Ssd::new(shape.expect("a possible shape"))
}

/// The handle under which each IU was written last, against where it lies.
struct Owners(BTreeMap<u64, u8>);

impl Owners {
    /// Units that hold data of more than one handle.
    fn mixed(&self, ssd: &Ssd) -> BTreeSet<u32> {
        let mut units = BTreeMap::<u32, BTreeSet<u8>>::new();
        for (iu, handle) in &self.0 {
            let place = ssd.place(iu * IU).expect("it was written");
            let unit = place.0 / ssd.shape().unit_ius;
            units.entry(unit).or_default().insert(*handle);
        }
        let mixed = units.into_iter().filter(|(_, handles)| handles.len() > 1);
        mixed.map(|(unit, _)| unit).collect()
    }
}

/// Writes under handles drawn from a seed, in whole and in part, flushed and deallocated now and
/// then: units of one handle hold nothing of another; shared ones are those of garbage collection,
/// and there are none with persistent isolation. A drive that was saved and restored goes on the
/// same way.
#[test]
fn handles_do_not_mix() {
    for (seed, isolation) in (0..12).zip(KINDS.into_iter().cycle()) {
        let mut rng = Rng(seed);
        let handles = 2 + rng.below(4) as u8;
        let mut ssd = drive(60, 64, 1.4, handles, isolation);
        let ius = u64::from(ssd.shape().ius);
        let mut owners = Owners(BTreeMap::new());
        let (mut shared, mut host_bytes) = (BTreeSet::new(), vec![0; usize::from(handles)]);
        for step in 0..8 * ius {
            let (iu, handle) = (rng.below(ius), rng.below(u64::from(handles)) as u8);
            let on = &mut |op| match op {
                varve_media::Op::Program(place, why) => {
                    let unit = place.0 / 64;
                    if why == Why::Host {
                        assert!(!shared.contains(&unit), "a host writes to its own unit");
                    } else if isolation == Isolation::Initially {
                        shared.insert(unit);
                    }
                }
                varve_media::Op::Erase(unit) => {
                    shared.remove(&unit);
                }
                varve_media::Op::Read(..) => {}
            };
            ssd.write_to(handle, iu * IU, IU, on);
            host_bytes[usize::from(handle)] += IU;
            owners.0.insert(iu, handle);
            if step % ius == 0 {
                let gone = rng.below(ius);
                ssd.deallocate(gone * IU, IU);
                owners.0.remove(&gone);
                let mixed = owners.mixed(&ssd);
                assert!(mixed.is_subset(&shared), "seed {seed}: {mixed:?}");
                let bytes = ssd.save();
                let back = Ssd::restore(*ssd.shape(), &bytes).expect("what was saved");
                assert_eq!(back.save(), bytes);
                assert_eq!(back.handles(), ssd.handles());
                ssd = back;
            }
        }
        assert_eq!(
            isolation == Isolation::Initially,
            !owners.mixed(&ssd).is_empty()
        );
        check_sums(&ssd, &host_bytes);
    }
}

fn check_sums(ssd: &Ssd, host_bytes: &[u64]) {
    let told: Vec<_> = ssd.handles().iter().map(|sums| sums.host_bytes).collect();
    assert_eq!(told, host_bytes);
    let sum = |of: fn(&HandleCounters) -> u64| ssd.handles().iter().map(of).sum::<u64>();
    let all = ssd.counters();
    assert_eq!(sum(|handle| handle.host_bytes), all.host_bytes);
    let shared = all.media_bytes - sum(|handle| handle.media_bytes);
    assert_eq!(
        shared,
        all.gc_moved_bytes - sum(|handle| handle.moved_bytes)
    );
    let is_shared = ssd.shape().placement.isolation == Isolation::Initially;
    assert_eq!(is_shared, shared > 0);
}

/// Bytes whose checksum is right and whose content is not never make a drive that breaks.
#[test]
fn nonsense_is_refused() {
    for isolation in KINDS {
        let mut ssd = drive(40, 32, 1.4, 3, isolation);
        let (ius, mut rng) = (u64::from(ssd.shape().ius), Rng(4));
        let write = |ssd: &mut Ssd, rng: &mut Rng| {
            let (iu, handle) = (rng.below(ius), rng.below(3) as u8);
            let (from, length) = [(0, IU), (512, 1024)][usize::from(rng.below(8) == 0)];
            ssd.write_to(handle, iu * IU + from, length, &mut nobody);
        };
        (0..5 * ius).for_each(|_| write(&mut ssd, &mut rng));
        let bytes = ssd.save();
        // Behind magic, shape with handles, sums, sums of handles and the number of victims.
        let (from, body) = (8 + (9 + 7 + 9 + 1) * 8, bytes.len() - 8);
        let mut refused = 0;
        for _ in 0..2000 {
            let mut nonsense = bytes.clone();
            // Half of the time among units and what waits, not in the map.
            let to = [body, from + 40 * 9 + 200][rng.below(2) as usize];
            let at = from + rng.below((to - from) as u64) as usize;
            nonsense[at] ^= 1 << rng.below(8);
            let step =
                |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            let check = nonsense[..body].iter().fold(0xcbf2_9ce4_8422_2325, step);
            nonsense[body..].copy_from_slice(&check.to_le_bytes());
            match Ssd::restore(*ssd.shape(), &nonsense) {
                Ok(mut drive) => (0..ius / 4).for_each(|_| write(&mut drive, &mut rng)),
                Err(_) => refused += 1,
            }
        }
        println!("{isolation:?}: {refused} of 2000 refused");
        assert!((1000..2000).contains(&refused), "{isolation:?}: {refused}");
    }
}

/// An IU that was written in part waits under the handle of its last write.
#[test]
fn parts_belong_to_the_last_handle() {
    let shape = Shape::new(60 * 64 * 16384, 16384, 60, 1_400_000, 2, true);
    let placement = Placement {
        handles: 3,
        isolation: Isolation::Persistently,
    };
    let shape = shape.and_then(|shape| shape.with_placement(placement));
    let mut ssd = Ssd::new(shape.expect("a possible shape"));
    ssd.write_to(1, 0, 4096, &mut nobody);
    ssd.write_to(2, 4096, 4096, &mut nobody);
    let mut ssd = Ssd::restore(*ssd.shape(), &ssd.save()).expect("what was saved");
    // Others need the slots.
    ssd.write_to(0, 16384, 4096, &mut nobody);
    ssd.write_to(0, 32768, 4096, &mut nobody);
    let media: Vec<_> = ssd.handles().iter().map(|sums| sums.media_bytes).collect();
    assert_eq!(media, [0, 0, 16384]);
}

/// What two streams of different lifetime cost: one writes its region in order, over and over, the
/// other one anywhere in its own, in equal measure. If it is told, the drive hears of each segment
/// of the first one, of the size of an erase unit, before it is written again. Sums of the drive,
/// and of each handle.
fn streams(
    handles: [u8; 2],
    isolation: Isolation,
    is_told: bool,
) -> (Counters, [HandleCounters; 2]) {
    let mut ssd = drive(228, 512, 1.144, 2, isolation);
    let (ius, unit_ius) = (u64::from(ssd.shape().ius), u64::from(ssd.shape().unit_ius));
    let log = ius / 4 / unit_ius * unit_ius;
    let (mut rng, mut at) = (Rng(5), 0);
    for iu in 0..ius {
        let handle = handles[usize::from(iu >= log)];
        ssd.write_to(handle, iu * IU, IU, &mut nobody);
    }
    let mut run = |ssd: &mut Ssd, writes: u64| {
        for _ in 0..writes {
            if is_told && at % unit_ius == 0 {
                ssd.deallocate(at % log * IU, unit_ius * IU);
            }
            ssd.write_to(handles[0], at % log * IU, IU, &mut nobody);
            at += 1;
            let any = log + rng.below(ius - log);
            ssd.write_to(handles[1], any * IU, IU, &mut nobody);
        }
    };
    run(&mut ssd, 4 * ius);
    let before = (*ssd.counters(), [ssd.handles()[0], ssd.handles()[1]]);
    run(&mut ssd, 2 * ius);
    let handles = [0, 1].map(|at| ssd.handles()[at].since(&before.1[at]));
    (ssd.counters().since(&before.0), handles)
}

fn waf(sums: &Counters) -> f64 {
    sums.waf_device().expect("something was written")
}

/// On two handles the stream in order costs what it writes: its units empty as a whole. All spare is
/// then the other one's, and what that costs is the formula of uniform writes. On one handle its
/// data lie among the others', and are moved.
#[test]
fn two_streams_cost_less_on_two_handles() {
    let (one, _) = streams([0, 0], Isolation::Initially, true);
    // The spare of the whole drive over three quarters of its data; the stream in order keeps its
    // quarter.
    let paper = (1.0 + formula((1.144 - 0.25) / 0.75)) / 2.0;
    println!("one handle {:.3}, paper for two {paper:.3}", waf(&one));
    for isolation in KINDS {
        let (two, handles) = streams([0, 1], isolation, true);
        let off = (waf(&two) / paper - 1.0) * 100.0;
        println!("{isolation:?}: {:.3}, {off:+.1} %; {handles:?}", waf(&two));
        assert!(
            off.abs() < 5.0,
            "{isolation:?}: {} against {paper}",
            waf(&two)
        );
        assert!(waf(&two) < 0.85 * waf(&one), "{isolation:?}");
        assert_eq!(handles[0].moved_bytes, 0, "a log is moved nowhere");
        assert!(handles[0].waf_device() == Some(1.0));
    }
}

/// Handles are worth less to a stream whose units empty slowly: greedy cleaning takes them while they
/// do, as those with the least to move.
#[test]
fn handles_are_worth_less_to_a_drive_that_is_not_told() {
    let (one, _) = streams([0, 0], Isolation::Initially, false);
    println!("untold, one handle {:.3}", waf(&one));
    for isolation in KINDS {
        let (told, _) = streams([0, 1], isolation, true);
        let (untold, handles) = streams([0, 1], isolation, false);
        println!("untold, {isolation:?}: {:.3}", waf(&untold));
        assert!(handles[0].moved_bytes > 0, "{isolation:?}");
        assert!(waf(&untold) > 1.15 * waf(&told), "{isolation:?}");
        assert!(waf(&untold) < waf(&one), "{isolation:?}");
    }
}

/// Handles that nobody uses cost nothing: the sheet's drive with one in use is that of the formula.
#[test]
fn unused_handles_cost_nothing() {
    let waf = |handles| {
        let mut ssd = drive(288, 512, 1.144, handles, Isolation::Initially);
        let (ius, mut rng) = (u64::from(ssd.shape().ius), Rng(9));
        let mut before = *ssd.counters();
        for write in 0..7 * ius {
            if write == 5 * ius {
                before = *ssd.counters();
            }
            let iu = if write < ius { write } else { rng.below(ius) };
            ssd.write_to(handles - 1, iu * IU, IU, &mut nobody);
        }
        ssd.counters().since(&before).waf_device()
    };
    assert_eq!(waf(8), waf(1));
    let off = waf(8).expect("something was written") / formula(1.144) - 1.0;
    assert!(off.abs() < 0.04, "{off}");
}

#[test]
fn impossible_placements_are_refused() {
    let shape = Shape::new(228 * 64 * IU, IU as u32, 228, 1_086_000, 32, true);
    let shape = shape.expect("a possible shape");
    let with = |handles, isolation| {
        let placement = Placement { handles, isolation };
        shape
            .with_placement(placement)
            .map(|shape| shape.placement.handles)
    };
    assert_eq!(with(0, KINDS[0]), Err(ShapeError::Handles(0)));
    assert_eq!(with(129, KINDS[0]), Err(ShapeError::Handles(129)));
    // 20 units are spare.
    assert_eq!(with(8, KINDS[0]), Ok(8));
    assert_eq!(with(16, KINDS[1]), Err(ShapeError::Open(48)));
    let two = shape.with_placement(Placement {
        handles: 2,
        isolation: KINDS[0],
    });
    let two = two.expect("a possible shape");
    let (plain, placed) = (Ssd::new(shape).save(), Ssd::new(two).save());
    assert_eq!(Ssd::restore(two, &plain).err(), Some(SnapshotError::Shape));
    assert_eq!(
        Ssd::restore(shape, &placed).err(),
        Some(SnapshotError::Shape)
    );
}

#[test]
fn the_sheet_has_the_handles_of_the_drive() {
    let Ok(AnySheet::Flash(sheet)) = AnySheet::named("fdp-pm9d3a") else {
        panic!("it comes with the program");
    };
    let shape = Shape::scaled(&sheet, Shape::smallest(&sheet)).expect("a possible drive");
    assert_eq!(shape.placement.handles, 8);
    assert_eq!(shape.placement.isolation, Isolation::Initially);
    let unit = sheet.flash.erase_unit_bytes.value;
    assert_eq!(sheet.capacity.user_bytes.value, 288 * unit);
}
