//! The zones of a drive against a simple one that counts anew what is open each time: commands drawn
//! from a seed, without time, in time one after another, and in time all at once.

use crate::common::Rng;
use std::collections::BTreeMap;
use varve_media::timed::{ZoneAsk, ZoneCompletion, ZoneRequest, ZonedDrive};
use varve_media::zoned_sheet::ZonedSheet;
use varve_media::{AnySheet, ZoneError, ZoneShape, ZoneShapeError, ZoneState, Zones};
use varve_units::Nanos;

const ROW: u64 = 96 << 10;

/// The drive of the sheet with 12 zones of two rows, three of which may be open, five active.
fn sheet() -> ZonedSheet {
    let Ok(AnySheet::Zoned(mut sheet)) = AnySheet::named("zns-zn540") else {
        panic!("it comes with the program");
    };
    sheet.zones.count.value = 12;
    sheet.zones.open_max.value = 3;
    sheet.zones.active_max.value = 5;
    sheet.nand.dies.value = 2;
    *sheet
}

fn shape() -> ZoneShape {
    let shape = ZoneShape::scaled(&sheet(), 1).expect("a possible drive");
    assert_eq!((shape.zones, shape.capacity_bytes), (12, 2 * ROW));
    shape
}

/// State and written bytes of each zone, and since when it is so.
struct Simple {
    shape: ZoneShape,
    zones: Vec<(ZoneState, u64, u64)>,
    now: u64,
    host_bytes: u64,
    /// Bytes programmed, of zones that were reset since.
    gone_bytes: u64,
    erases: u64,
}

impl Simple {
    fn new(shape: ZoneShape) -> Self {
        Self {
            shape,
            zones: vec![(ZoneState::Empty, 0, 0); shape.zones as usize],
            now: 0,
            host_bytes: 0,
            gone_bytes: 0,
            erases: 0,
        }
    }

    fn count(&self, states: &[ZoneState]) -> u32 {
        let is_counted = |zone: &&(ZoneState, u64, u64)| states.contains(&zone.0);
        self.zones.iter().filter(is_counted).count() as u32
    }

    fn open(&self) -> u32 {
        self.count(&[ZoneState::ImplicitlyOpen, ZoneState::ExplicitlyOpen])
    }

    fn active(&self) -> u32 {
        self.open() + self.count(&[ZoneState::Closed])
    }

    fn set(&mut self, zone: usize, state: ZoneState) {
        self.now += 1;
        if self.zones[zone].0 != state {
            self.zones[zone].0 = state;
            self.zones[zone].2 = self.now;
        }
    }

    fn make_room(&mut self, zone: usize) -> Result<(), ZoneError> {
        let (open_max, active_max) = (self.shape.open_max, self.shape.active_max);
        if self.zones[zone].0 == ZoneState::Empty && self.active() >= active_max {
            return Err(ZoneError::TooManyActive { active_max });
        }
        if self.open() >= open_max {
            let implicit = (0..self.zones.len())
                .filter(|other| self.zones[*other].0 == ZoneState::ImplicitlyOpen);
            let oldest = implicit.min_by_key(|other| self.zones[*other].2);
            let oldest = oldest.ok_or(ZoneError::TooManyOpen { open_max })?;
            self.set(oldest, ZoneState::Closed);
        }
        Ok(())
    }

    fn start(&self, zone: usize) -> u64 {
        zone as u64 * self.shape.zone_bytes
    }

    fn put(&mut self, zone: usize, length: u64) -> Result<u64, ZoneError> {
        let (state, written, _) = self.zones[zone];
        let at = self.start(zone) + written;
        if written + length > self.shape.capacity_bytes {
            let end = self.start(zone) + self.shape.capacity_bytes;
            return Err(ZoneError::Boundary { end });
        }
        if state == ZoneState::Empty || state == ZoneState::Closed {
            self.make_room(zone)?;
            self.set(zone, ZoneState::ImplicitlyOpen);
        }
        self.zones[zone].1 += length;
        self.host_bytes += length;
        if self.zones[zone].1 == self.shape.capacity_bytes {
            self.set(zone, ZoneState::Full);
        }
        Ok(at)
    }

    /// What a zone holds in flash.
    fn programmed(&self, zone: usize) -> u64 {
        match self.zones[zone] {
            (ZoneState::Full, ..) => self.shape.capacity_bytes,
            (_, written, _) => written - written % ROW,
        }
    }

    fn run(&mut self, ask: ZoneAsk, offset: u64, length: u64) -> Result<u64, ZoneError> {
        let bytes = self.start(self.zones.len());
        let has_data = matches!(ask, ZoneAsk::Read | ZoneAsk::Write | ZoneAsk::Append);
        if has_data && (length == 0 || !length.is_multiple_of(512) || !offset.is_multiple_of(512)) {
            return Err(ZoneError::Misaligned);
        }
        if offset >= bytes || has_data && length > bytes - offset {
            return Err(ZoneError::Beyond { bytes });
        }
        let zone = (offset / self.shape.zone_bytes) as usize;
        let (state, written, _) = self.zones[zone];
        let start = self.start(zone);
        if !matches!(ask, ZoneAsk::Read | ZoneAsk::Write) && offset != start {
            return Err(ZoneError::NotAStart { start });
        }
        match (ask, state) {
            (ZoneAsk::Read, _) if offset + length > start + self.shape.zone_bytes => {
                let end = start + self.shape.zone_bytes;
                return Err(ZoneError::Boundary { end });
            }
            (ZoneAsk::Write | ZoneAsk::Append, ZoneState::Full) => return Err(ZoneError::Full),
            (ZoneAsk::Write, _) if offset != start + written => {
                let pointer = start + written;
                return Err(ZoneError::NotAtPointer { pointer });
            }
            (ZoneAsk::Write | ZoneAsk::Append, _) => return self.put(zone, length),
            (ZoneAsk::Open, ZoneState::Full)
            | (ZoneAsk::Close, ZoneState::Empty | ZoneState::Full) => {
                return Err(ZoneError::Transition { state });
            }
            (ZoneAsk::Open, ZoneState::Empty | ZoneState::Closed) => {
                self.make_room(zone)?;
                self.set(zone, ZoneState::ExplicitlyOpen);
            }
            (ZoneAsk::Open, _) => self.set(zone, ZoneState::ExplicitlyOpen),
            (ZoneAsk::Close, _) => self.set(zone, ZoneState::Closed),
            (ZoneAsk::Finish, _) => self.set(zone, ZoneState::Full),
            (ZoneAsk::Reset, _) => {
                let programmed = self.programmed(zone);
                self.gone_bytes += programmed;
                self.erases += u64::from(programmed > 0);
                self.set(zone, ZoneState::Empty);
                self.zones[zone].1 = 0;
            }
            (ZoneAsk::Read | ZoneAsk::Flush, _) => {}
        }
        Ok(offset)
    }

    fn check(&self, zones: &Zones) {
        let theirs = zones.all().iter().map(|zone| (zone.state, zone.written));
        let ours = self.zones.iter().map(|zone| (zone.0, zone.1));
        assert!(theirs.eq(ours), "{:?} {:?}", zones.all(), self.zones);
        assert_eq!(zones.open_count(), self.open());
        assert_eq!(zones.active_count(), self.active());
        assert!(self.open() <= self.shape.open_max && self.active() <= self.shape.active_max);
        let sums = zones.counters();
        let programmed: u64 = (0..self.zones.len())
            .map(|zone| self.programmed(zone))
            .sum();
        assert_eq!(sums.host_bytes, self.host_bytes);
        assert_eq!(sums.media_bytes, programmed + self.gone_bytes);
        assert_eq!(sums.erases, self.erases);
    }
}

/// A command that is possible more often than not.
fn draw(rng: &mut Rng, zones: &Zones) -> (ZoneAsk, u64, u64) {
    let zone = rng.below(u64::from(zones.shape().zones)) as u32;
    let start = zones.start(zone);
    let written = zones.all()[zone as usize].written;
    let length = (1 + rng.below(2 * ROW / 512)) * 512;
    // The rest of a zone, a small piece, any.
    let length = match rng.below(3) {
        0 => (2 * ROW - written).max(512),
        1 => 4096,
        _ => length,
    };
    let (ask, offset) = match rng.below(20) {
        0..=6 => (ZoneAsk::Write, start + written),
        7..=10 => (ZoneAsk::Append, start),
        11 => (ZoneAsk::Read, start + rng.below(2 * ROW / 512) * 512),
        12..=13 => (ZoneAsk::Open, start),
        14 => (ZoneAsk::Close, start),
        15 => (ZoneAsk::Finish, start),
        16..=18 => (ZoneAsk::Reset, start),
        _ => (ZoneAsk::Write, start),
    };
    // Now and then something that is wrong on its face.
    match rng.below(50) {
        0 => (ask, offset + 100, length),
        1 => (ask, offset + 512, length),
        2 => (ask, zones.shape().bytes(), length),
        3 => (ask, offset, 0),
        4 => (ask, offset, 1 << 40),
        _ => (ask, offset, length),
    }
}

fn account(zones: &mut Zones, ask: ZoneAsk, offset: u64, length: u64) -> Result<u64, ZoneError> {
    match ask {
        ZoneAsk::Read => zones.read(offset, length).map(|()| offset),
        ZoneAsk::Write => zones.write(offset, length).map(|written| written.offset),
        ZoneAsk::Append => zones.append(offset, length).map(|written| written.offset),
        ZoneAsk::Open => zones.open(offset).map(|_| offset),
        ZoneAsk::Close => zones.close(offset).map(|_| offset),
        ZoneAsk::Finish => zones.finish(offset).map(|_| offset),
        ZoneAsk::Reset => zones.reset(offset).map(|_| offset),
        ZoneAsk::Flush => Ok(offset),
    }
}

#[test]
fn the_account_does_as_the_simple_one() {
    for seed in 0..40 {
        let (mut rng, mut zones, mut simple) =
            (Rng(seed), Zones::new(shape()), Simple::new(shape()));
        let mut refused = BTreeMap::new();
        for step in 0..2_000 {
            let (ask, offset, length) = draw(&mut rng, &zones);
            let ours = simple.run(ask, offset, length);
            let theirs = account(&mut zones, ask, offset, length);
            assert_eq!(
                theirs, ours,
                "seed {seed}, step {step}: {ask:?} {offset} {length}"
            );
            simple.check(&zones);
            if let Err(error) = ours {
                let name = format!("{error:?}");
                let name = name.split(' ').next().expect("a name").to_owned();
                *refused.entry(name).or_insert(0) += 1;
            }
        }
        // Each way to be refused has been taken.
        assert_eq!(refused.len(), 9, "seed {seed}: {refused:?}");
    }
}

/// Runs everything there is; what ended.
fn settle(drive: &mut ZonedDrive, from: Nanos) -> (Nanos, Vec<ZoneCompletion>) {
    let (mut now, mut ends) = (from, Vec::new());
    while let Some(at) = drive.next() {
        assert!(at >= now, "time goes on");
        now = at;
        drive.advance(now, &mut |end| ends.push(end));
    }
    (now, ends)
}

#[test]
fn the_drive_does_as_the_simple_one() {
    for seed in 0..20 {
        let mut rng = Rng(seed);
        let mut drive = ZonedDrive::new(Zones::new(shape()), &sheet());
        let (mut simple, mut now) = (Simple::new(shape()), Nanos(0));
        for id in 0..500 {
            let (ask, offset, length) = draw(&mut rng, drive.zones());
            let request = ZoneRequest {
                id,
                ask,
                offset,
                length,
            };
            drive.submit(now, request);
            let (at, ends) = settle(&mut drive, now);
            let [end] = ends[..] else {
                panic!("seed {seed}: {request:?} ended {} times", ends.len());
            };
            assert_eq!((end.id, end.result), (id, simple.run(ask, offset, length)));
            assert!(end.at >= now && end.at <= at, "seed {seed}: {request:?}");
            simple.check(drive.zones());
            now = at;
        }
    }
}

/// Whatever is in flight at once, resets of what is written among it, every command ends, once, and
/// the limits hold.
#[test]
fn commands_all_at_once_end_once_each() {
    for seed in 0..20 {
        let mut rng = Rng(seed);
        let mut drive = ZonedDrive::new(Zones::new(shape()), &sheet());
        let (mut now, mut ends) = (Nanos(0), Vec::new());
        for id in 0..4_000 {
            let (ask, offset, length) = draw(&mut rng, drive.zones());
            drive.submit(
                now,
                ZoneRequest {
                    id,
                    ask,
                    offset,
                    length,
                },
            );
            now = Nanos(now.0 + rng.below(200_000));
            drive.advance(now, &mut |end| ends.push(end));
            assert!(drive.zones().open_count() <= 3 && drive.zones().active_count() <= 5);
        }
        ends.extend(settle(&mut drive, now).1);
        let mut ids: Vec<_> = ends.iter().map(|end| end.id).collect();
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..4_000), "seed {seed}");
        assert!(ends.iter().filter(|end| end.result.is_ok()).count() > 1_000);
    }
}

/// As many zones as may be active are begun and left with less than a row each: the buffer holds
/// that, and still takes what fills them.
#[test]
fn rows_that_wait_for_their_rest_stop_nothing() {
    let mut sheet = sheet();
    sheet.zones.open_max.value = 5;
    sheet.controller.buffer_bytes.value = 5 * ROW;
    let shape = ZoneShape::scaled(&sheet, 1).expect("a possible drive");
    let mut drive = ZonedDrive::new(Zones::new(shape), &sheet);
    let mut id = 0;
    for length in [ROW - 4096, 4096 + ROW] {
        for zone in 0..5 {
            id += 1;
            let offset = drive.zones().start(zone);
            drive.submit(
                Nanos(0),
                ZoneRequest {
                    id,
                    ask: ZoneAsk::Append,
                    offset,
                    length,
                },
            );
        }
    }
    let (_, ends) = settle(&mut drive, Nanos(0));
    assert_eq!(ends.len(), 10);
    assert!(
        drive.zones().all()[..5]
            .iter()
            .all(|zone| zone.state == ZoneState::Full)
    );
    sheet.controller.buffer_bytes.value -= 1;
    assert_eq!(
        ZoneShape::scaled(&sheet, 1),
        Err(ZoneShapeError::Buffer { bytes_min: 5 * ROW })
    );
}

#[test]
fn impossible_shapes_are_refused() {
    let good = shape();
    assert_eq!(good.check(), Ok(good));
    let row = ZoneShape {
        row_bytes: 512,
        ..good
    };
    assert_eq!(row.check(), Err(ZoneShapeError::Row(512)));
    let large = ZoneShape {
        capacity_bytes: good.zone_bytes.next_multiple_of(ROW) + ROW,
        ..good
    };
    assert!(matches!(large.check(), Err(ZoneShapeError::Capacity(_))));
    for (open_max, active_max) in [(0, 5), (6, 5), (3, 13)] {
        let limits = ZoneShape {
            open_max,
            active_max,
            ..good
        };
        assert!(matches!(limits.check(), Err(ZoneShapeError::Limits { .. })));
    }
    let many = ZoneShape {
        zones: u32::MAX,
        ..good
    };
    assert_eq!(many.check(), Err(ZoneShapeError::TooLarge));
}
