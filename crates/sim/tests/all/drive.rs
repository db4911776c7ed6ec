//! The simulated drive keeps its promises, and its faults lie over pristine content.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::rc::Rc;
use varve_io::{Blocks, Drive, Gather, IoError, Sectors};
use varve_sim::atlas::{Atlas, Extent, Layout, Scheme, Tier};
use varve_sim::drive::{DriveSpec, Misread, Refusals, SimDrive, WriteFault, gather_of};
use varve_sim::executor::{Executor, Journal};
use varve_sim::rng::Rng;
use varve_units::Nanos;

const BYTES: u64 = 1 << 20;

struct Bench {
    atlas: Rc<RefCell<Atlas>>,
    tier: Tier,
    drives: Rc<[SimDrive]>,
    journal: Rc<Journal>,
}

/// Three mirrored drives without a label area.
fn bench(seed: u64, volatile_cache: bool) -> Bench {
    bench_of(seed, Scheme::Mirror, 3, (BYTES, volatile_cache))
}

/// The drives of one tier, of so many bytes each, without a label area.
fn bench_of(seed: u64, scheme: Scheme, count: usize, (bytes, volatile): (u64, bool)) -> Bench {
    let extents = (0..count).map(|drive| Extent {
        drive,
        base: 0,
        bytes,
    });
    let tier = Tier {
        scheme,
        extents: extents.collect(),
    };
    let atlas = Rc::new(RefCell::new(Atlas::new(Layout {
        drives: count,
        tiers: vec![tier.clone()],
        guard_bytes: 0,
        losses_max: 1,
    })));
    let spec = DriveSpec {
        bytes,
        lba_bytes: 512,
        volatile_cache: volatile,
        handles: 1,
        gap_blocks: 0,
        hangs_repairs: false,
    };
    let drives = (0..count)
        .map(|index| {
            let rng = Rng::new(seed).split_at("drive", index as u64);
            SimDrive::new(index, spec, rng, Rc::clone(&atlas))
        })
        .collect();
    Bench {
        atlas,
        tier,
        drives,
        journal: Rc::default(),
    }
}

impl Bench {
    /// One life with drive 0, ending in a power failure.
    fn live<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        flow: impl FnOnce(Rc<dyn Drive>) -> F,
    ) -> T {
        let mut executor = Executor::new(Rc::clone(&self.journal), Rng::new(1), Nanos(0));
        let drive = self.drives[0].attach(&executor.reactor());
        let value = executor.run(flow(drive)).expect("the flow ends");
        executor.crash();
        self.drives[0].power_fail();
        value
    }
}

fn page(value: u8) -> Gather {
    gather_of(Sectors::from_bytes(&[value; 4096]))
}

async fn first(drive: &Rc<dyn Drive>, offset: u64) -> Result<Vec<u8>, IoError> {
    let sectors = drive.read_meta(offset, Sectors::zeroed(8), 0).await?;
    Ok(sectors.bytes().iter().step_by(512).copied().collect())
}

/// Flushed content survives; unflushed content meets several fates, torn ones among them; without
/// a volatile cache everything completed survives.
#[test]
fn power_failure_respects_flushes() {
    let mut fates = BTreeSet::new();
    for seed in 0..60 {
        let bench = bench(seed, true);
        bench.live(|drive| async move {
            drive.write(0, page(1)).await.expect("written");
            drive.flush().await.expect("flushed");
            drive.write(4096, page(2)).await.expect("written");
        });
        let (kept, fate) = bench.live(|drive| async move {
            let kept = first(&drive, 0).await.expect("read");
            (kept, first(&drive, 4096).await.expect("read"))
        });
        assert_eq!(kept, [1; 8]);
        fates.insert(fate);
    }
    assert!(fates.contains(&vec![0; 8]) && fates.contains(&vec![2; 8]));
    assert!(fates.len() > 6, "{fates:?}");
    for seed in 0..20 {
        let bench = bench(seed, false);
        bench.live(|drive| async move { drive.write(0, page(3)).await.expect("written") });
        let kept = bench.live(|drive| async move { first(&drive, 0).await.expect("read") });
        assert_eq!(kept, [3; 8]);
    }
}

/// Rot and media errors last until the place is rewritten; then the claim ends too.
#[test]
fn flaws_end_when_rewritten() {
    let bench = bench(1, true);
    bench.live(|drive| async move {
        drive.write(0, page(1)).await.expect("written");
        drive.flush().await.expect("flushed");
    });
    let mut rng = Rng::new(5);
    assert!(bench.drives[0].break_media(&mut rng));
    let claimed = bench.atlas.borrow().claimed_sectors(0);
    assert!(claimed > 0);
    let media = bench.live(|drive| async move {
        let before = drive.read_meta(0, Sectors::zeroed(256), 0).await.err();
        drive
            .write(0, gather_of(Sectors::zeroed(512)))
            .await
            .expect("written");
        (
            before,
            drive.read_meta(0, Sectors::zeroed(256), 0).await.err(),
        )
    });
    assert_eq!(media, (Some(IoError::Media), None));
    assert_eq!(bench.atlas.borrow().claimed_sectors(0), 0);
    assert!(bench.drives[0].rot(&mut rng));
    let read = bench.live(|drive| async move {
        let sectors = drive
            .read_meta(0, Sectors::zeroed(512), 0)
            .await
            .expect("read");
        sectors
            .bytes()
            .iter()
            .map(|byte| byte.count_ones())
            .sum::<u32>()
    });
    assert!(read > 0, "some bits flipped");
    bench.drives[0].heal();
    assert_eq!(bench.atlas.borrow().claimed_sectors(0), 0);
}

/// A lost write leaves the old content, a misdirected one also spoils another place; neither
/// strikes where the atlas forbids it.
#[test]
fn writes_go_astray_where_they_may() {
    let bench = bench(2, true);
    bench.live(|drive| async move {
        drive.write(0, page(1)).await.expect("written");
        drive.write(8192, page(2)).await.expect("written");
        drive.flush().await.expect("flushed");
    });
    bench.drives[0].arm(WriteFault::Lost);
    let seen = bench.live(|drive| async move {
        drive.write(0, page(3)).await.expect("acknowledged");
        drive.flush().await.expect("flushed");
        first(&drive, 0).await.expect("read")
    });
    assert_eq!(seen, [1; 8]);
    bench.drives[0].arm(WriteFault::Misdirected(16));
    assert!(bench.atlas.borrow_mut().claim(1, 8192..8704));
    let seen = bench.live(|drive| async move {
        drive.write(0, page(4)).await.expect("written");
        first(&drive, 0).await.expect("read")
    });
    assert_eq!(
        seen, [4; 8],
        "the place it would go to is claimed on another member"
    );
    bench.atlas.borrow_mut().release(1, 0..BYTES);
    let (seen, spoilt) = bench.live(|drive| async move {
        drive.write(0, page(5)).await.expect("acknowledged");
        let spoilt = first(&drive, 8192).await.expect("read");
        (first(&drive, 0).await.expect("read"), spoilt)
    });
    assert_ne!(seen, [5; 8]);
    assert_eq!(spoilt, [5; 8]);
}

/// A write that one drive refuses may be there, or a part of it; to the atlas the drive is lost, and where it may
/// not be the write is taken.
#[test]
fn refused_writes_are_stored() {
    let mut fates = BTreeSet::new();
    for seed in 0..60 {
        let bench = bench(seed, false);
        bench.live(|drive| async move { drive.write(0, page(1)).await.expect("written") });
        bench.drives[0].arm(WriteFault::Refused(IoError::ReadOnly));
        assert!(bench.atlas.borrow_mut().lose(1));
        bench.live(|drive| async move { drive.write(0, page(2)).await.expect("the only peer") });
        bench.atlas.borrow_mut().restore(1);
        let (refused, fate) = bench.live(|drive| async move {
            let refused = drive.write(0, page(3)).await.err();
            (refused, first(&drive, 0).await.expect("read"))
        });
        assert_eq!(refused, Some(IoError::ReadOnly));
        assert!(bench.atlas.borrow().is_lost(0));
        assert!(fate.iter().all(|&byte| byte == 2 || byte == 3), "{fate:?}");
        let kept = bench.live(|drive| async move { first(&drive, 0).await.expect("read") });
        assert_eq!(kept, fate, "without a cache");
        fates.insert(fate);
    }
    assert!(fates.contains(&vec![2; 8]) && fates.contains(&vec![3; 8]));
    assert!(fates.len() > 6, "{fates:?}");
}

/// A tier of one drive refuses a write that is stored, none of labels, and one alone; nothing is lost by it.
#[test]
fn a_tier_refuses_what_it_stores() {
    let mut fates = BTreeSet::new();
    for seed in 0..60 {
        let bench = bench_of(seed, Scheme::Single, 1, (4 * BYTES, true));
        let refusals = Refusals::new(&bench.tier, Rng::new(seed), Rc::default());
        bench.drives[0].join(Rc::new(RefCell::new(refusals)));
        bench.drives[0].arm_refusal(IoError::NoSpace);
        let at = 2 * BYTES;
        let (refused, fate) = bench.live(|drive| async move {
            drive.write(0, page(1)).await.expect("a label");
            let refused = drive.write(at, page(2)).await.err();
            let fate = first(&drive, at).await.expect("read");
            drive.write(at, page(3)).await.expect("written");
            assert_eq!(first(&drive, at).await.expect("read"), [3; 8]);
            (refused, fate)
        });
        assert_eq!(refused, Some(IoError::NoSpace));
        assert!(!bench.atlas.borrow().is_lost(0));
        assert_eq!(bench.drives[0].tally()["refused_stripe"], 1);
        fates.insert(fate);
    }
    assert!(fates.contains(&vec![0; 8]) && fates.contains(&vec![2; 8]));
    assert!(fates.len() > 6, "{fates:?}");
}

/// A read that goes elsewhere returns what lies there, once or until the range is written again; what it struck stays
/// claimed till then, and a copy that somebody may be reading because of it is spared.
#[test]
fn reads_go_astray() {
    const AT: u64 = 2 << 20;
    for lasts in [false, true] {
        let bench = bench_of(1, Scheme::Mirror, 3, (4 * BYTES, false));
        let misread = Misread { blocks: 8, lasts };
        bench.drives[0].misdirect_read(misread);
        let seen = bench.live(move |drive| async move {
            drive.write(AT, page(1)).await.expect("written");
            drive.write(AT + 4096, page(2)).await.expect("written");
            let mut seen = Vec::new();
            for _ in 0..2 {
                seen.push(first(&drive, AT).await.expect("read")[0]);
            }
            seen
        });
        assert_eq!(seen, [2, if lasts { 2 } else { 1 }]);
        assert_eq!(bench.atlas.borrow().claimed_sectors(0), 8);
        let now = bench.live(|drive| async move {
            drive.write(AT, page(3)).await.expect("written");
            first(&drive, AT).await.expect("read")[0]
        });
        assert_eq!(now, 3);
        let atlas = bench.atlas.borrow();
        assert_eq!(atlas.claimed_sectors(0), 0);
        let range = AT..AT + 4096;
        assert!(!atlas.may_claim_for_a_read(1, &range, Nanos::from_millis(500)));
        assert!(atlas.may_claim_for_a_read(1, &range, Nanos::from_secs(9)));
    }
}

/// A range that fails for good outlives a write; a drive that turned read-only reads; one that does not flush does all
/// else. The last two count as lost.
#[test]
fn some_faults_last() {
    let bench = bench(1, true);
    bench.live(|drive| async move {
        drive.write(0, page(1)).await.expect("written");
        drive.flush().await.expect("flushed");
    });
    assert!(bench.drives[0].break_for_good(&mut Rng::new(5), false));
    let errors = bench.live(|drive| async move {
        let zeroes = gather_of(Sectors::zeroed(512));
        drive.write(0, zeroes).await.expect("written");
        drive.read_meta(0, Sectors::zeroed(256), 0).await.err()
    });
    assert_eq!(errors, Some(IoError::Media));
    bench.drives[0].heal();
    assert!(bench.drives[0].fail_flushes(IoError::Timeout, false));
    assert!(bench.atlas.borrow().is_lost(0));
    let flushed = bench.live(|drive| async move {
        drive.write(0, page(2)).await.expect("written");
        let flushed = drive.flush().await.err();
        assert_eq!(first(&drive, 0).await, Ok(vec![2; 8]));
        flushed
    });
    assert_eq!(flushed, Some(IoError::Timeout));
    bench.atlas.borrow_mut().restore(0);
    assert!(bench.drives[0].turn_read_only());
    bench.live(|drive| async move {
        assert_eq!(drive.write(0, page(3)).await.err(), Some(IoError::ReadOnly));
        assert!(first(&drive, 0).await.is_ok());
    });
}

/// A drive that is gone fails everything; who attached to the old one never reaches the new one.
#[test]
fn gone_drives_are_replaced_blank() {
    let bench = bench(3, true);
    let drives = Rc::clone(&bench.drives);
    let (old, anew) = bench.live(|attached| async move {
        attached.write(0, page(1)).await.expect("written");
        assert!(drives[0].lose());
        assert_eq!(attached.flush().await, Err(IoError::Gone));
        drives[0].replace();
        (attached.flush().await, 0)
    });
    assert_eq!((old, anew), (Err(IoError::Gone), 0));
    assert!(bench.atlas.borrow().is_lost(0) && !bench.drives[0].is_gone());
    let seen = bench.live(|drive| async move { first(&drive, 0).await.expect("read") });
    assert_eq!(seen, [0; 8]);
}

/// A drive that is handed over goes on for who attached to it, beside the blank one in its place.
#[test]
fn a_drive_that_is_handed_over_goes_on() {
    let bench = bench(3, true);
    let drives = Rc::clone(&bench.drives);
    let kept = bench.live(|attached| async move {
        attached.write(0, page(1)).await.expect("written");
        drives[0].hand_over();
        attached.flush().await.expect("it works");
        first(&attached, 0).await.expect("read")
    });
    assert_ne!(kept, [0; 8]);
    assert_eq!(bench.drives[0].tally()["handed_over"], 1);
    let seen = bench.live(|drive| async move { first(&drive, 0).await.expect("read") });
    assert_eq!(seen, [0; 8]);
}

/// Symbolic blocks at an odd sector come back as symbols, rotten ones as something else.
#[test]
fn symbols_survive() {
    let bench = bench(4, true);
    let read = |bench: &Bench| {
        bench.live(|drive| async move {
            let blocks = drive
                .read_data(512, Blocks::elided(3), 0)
                .await
                .expect("read");
            blocks.symbols().to_vec()
        })
    };
    bench.live(|drive| async move {
        let mut blocks = Blocks::elided(3);
        blocks.symbols_mut().copy_from_slice(&[7, 0, 9]);
        let mut gather = Gather::new();
        gather.push_data(blocks);
        drive.write(512, gather).await.expect("written");
        drive.flush().await.expect("flushed");
    });
    assert_eq!(read(&bench), [7, 0, 9]);
    assert!(bench.drives[0].rot(&mut Rng::new(9)));
    assert_ne!(read(&bench), [7, 0, 9]);
}
