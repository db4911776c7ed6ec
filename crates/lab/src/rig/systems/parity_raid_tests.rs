use super::super::stripe_update::Method;
use super::*;
use crate::draw::Random;
use std::cell::RefCell;
use std::collections::BTreeMap;
use varve_media::AnySheet;
use varve_sim::executor::{Executor, Journal};
use varve_sim::rng::Rng;
use varve_units::{BLOCK_BYTES, Nanos};

/// A page of a stripe: stripe, row, data strip or parity strip.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Page {
    Data(u64, u64, u64),
    Parity(u64, u64, u64),
}

/// Content as an array has it: a number a page. An update knows only what it has read.
struct Content {
    rotation: Rotation,
    pages: RefCell<BTreeMap<Page, u64>>,
    /// What updates under way have read.
    held: RefCell<BTreeMap<u64, BTreeMap<Page, u64>>>,
    /// How often each method was used.
    methods: RefCell<BTreeMap<&'static str, u64>>,
}

/// A data page's part of parity `which`: the sum of all is the parity.
fn part(which: u64, strip: u64, value: u64) -> u64 {
    value.rotate_left((which * strip) as u32)
}

fn rows(update: &Update) -> impl Iterator<Item = u64> + use<> {
    update.rows.clone().step_by(BLOCK_BYTES as usize)
}

impl Content {
    fn page(&self, page: Page) -> u64 {
        self.pages.borrow().get(&page).copied().unwrap_or(0)
    }

    /// Every parity of every stripe is the sum of its data.
    fn check(&self) -> usize {
        let pages = self.pages.borrow();
        let mut checked = 0;
        for (page, value) in &*pages {
            let Page::Parity(stripe, row, which) = *page else {
                continue;
            };
            let parts = (0..self.rotation.data())
                .map(|strip| part(which, strip, self.page(Page::Data(stripe, row, strip))));
            assert_eq!(*value, parts.fold(0, |sum, part| sum ^ part), "{page:?}");
            checked += 1;
        }
        checked
    }
}

impl Witness for Content {
    fn has_read(&self, number: u64, update: &Update) {
        let stripe = update.stripe;
        let held = rows(update).flat_map(|row| {
            let data = update.reads_data(self.rotation);
            let parity = update.reads_parity(self.rotation);
            data.map(move |strip| Page::Data(stripe, row, strip))
                .chain(parity.map(move |which| Page::Parity(stripe, row, which)))
        });
        let held = held.map(|page| (page, self.page(page))).collect();
        self.held.borrow_mut().insert(number, held);
    }

    fn has_written(&self, number: u64, update: &Update) {
        let old = self.held.borrow_mut().remove(&number).expect("it has read");
        let new = |row: u64, strip: u64| (number << 20) ^ (row << 8) ^ strip ^ 1;
        for row in rows(update) {
            for which in 0..self.rotation.parity() {
                let page = Page::Parity(update.stripe, row, which);
                let mut parity = if update.method == Method::ReadModifyWrite {
                    old[&page]
                } else {
                    0
                };
                for strip in 0..self.rotation.data() {
                    let is_new = update.strips.contains(&strip);
                    let old = |strip| old[&Page::Data(update.stripe, row, strip)];
                    parity ^= match (update.method, is_new) {
                        (Method::ReadModifyWrite, false) => 0,
                        (Method::ReadModifyWrite, true) => {
                            part(which, strip, old(strip) ^ new(row, strip))
                        }
                        (_, true) => part(which, strip, new(row, strip)),
                        (_, false) => part(which, strip, old(strip)),
                    };
                }
                self.pages.borrow_mut().insert(page, parity);
            }
            for strip in update.strips.clone() {
                let page = Page::Data(update.stripe, row, strip);
                self.pages.borrow_mut().insert(page, new(row, strip));
            }
        }
        let name = match update.method {
            Method::FullStripe => "full",
            Method::ReadModifyWrite => "modify",
            Method::ReconstructWrite => "reconstruct",
        };
        *self.methods.borrow_mut().entry(name).or_default() += 1;
    }
}

/// Runs a flow on an array of fast drives with content.
fn on_array<F: Future<Output = ()> + 'static>(
    (drives, parity, rmw_level): (usize, usize, u8),
    flow: impl FnOnce(Rc<ParityRaid>, Rc<Content>) -> F,
) {
    let journal = Rc::new(Journal::default());
    let mut executor = Executor::new(journal, Rng::new(5), Nanos(0)).in_order();
    let sheet = AnySheet::named("slc-002").unwrap();
    let station = |_| Station::new(&sheet, 64 << 20, &executor.reactor()).unwrap();
    let stations: Vec<_> = (0..drives).map(station).collect();
    let content = Rc::new(Content {
        rotation: Rotation::new(drives, parity),
        pages: RefCell::default(),
        held: RefCell::default(),
        methods: RefCell::default(),
    });
    let world = executor.reactor() as Rc<dyn World>;
    let witness = Rc::clone(&content) as Rc<dyn Witness>;
    let raid = ParityRaid::new(world, stations, parity, rmw_level, witness);
    raid.start();
    let ran = executor.run(flow(raid, content));
    executor.crash();
    ran.expect("the flow ends");
}

/// Writes of all sizes, many at once and close together: each stripe's parity is that of its data.
#[test]
fn parity_is_that_of_the_data() {
    for shape in [
        (3, 1, 1),
        (8, 1, 1),
        (8, 1, 0),
        (8, 2, 1),
        (8, 2, 0),
        (6, 2, 2),
    ] {
        on_array(shape, |raid, content| async move {
            let mut random = Random::new(9);
            let area = 2 * raid.rotation.data() * CHUNK_BYTES;
            for _ in 0..40 {
                let writes: Vec<_> = (0..32)
                    .map(|_| {
                        let bytes = match random.below(4) {
                            0 => raid.rotation.data() * CHUNK_BYTES,
                            1 => (1 + random.below(256)) * BLOCK_BYTES,
                            _ => (1 + random.below(8)) * BLOCK_BYTES,
                        };
                        let last = (area - bytes) / BLOCK_BYTES + 1;
                        let offset = match random.below(3) {
                            0 => 0,
                            1 => random.below(64).min(last - 1) * BLOCK_BYTES,
                            _ => random.below(last) * BLOCK_BYTES,
                        };
                        let io = Io {
                            is_read: false,
                            offset,
                            bytes,
                        };
                        let served = Rc::clone(&raid).serve(io);
                        raid.world.run(served)
                    })
                    .collect();
                for write in writes {
                    write.await.expect("models do not fail");
                }
                assert!(content.check() > 0);
            }
            let methods = content.methods.borrow();
            assert!(
                methods["full"] > 0 && methods["reconstruct"] > 0,
                "{methods:?}"
            );
            assert_eq!(
                methods.contains_key("modify"),
                raid.rmw_level > 0 && shape.0 > 3
            );
        });
    }
}

/// Commands and bytes that random 16 KiB writes cost, as theory counts them.
#[test]
fn a_small_write_costs_what_theory_says() {
    let theory = [
        // Drives, parity strips, rmw_level: reads and writes of each write.
        ((8, 2, 0), (5, 3)),
        ((8, 2, 1), (3, 3)),
        ((8, 1, 0), (6, 2)),
        ((8, 1, 1), (2, 2)),
    ];
    for (shape, (reads, writes)) in theory {
        on_array(shape, move |raid, _| async move {
            let (bytes, count) = (16 << 10, 100);
            let mut random = Random::new(2);
            for at in 0..2 * count {
                let offset = random.below(raid.bytes() / bytes) * bytes;
                let is_read = at % 2 == 0;
                let io = Io {
                    is_read,
                    offset,
                    bytes,
                };
                Rc::clone(&raid)
                    .serve(io)
                    .await
                    .expect("models do not fail");
            }
            let mut sums = [0; 4];
            for (_, drive) in raid.drives() {
                let traffic = drive.traffic();
                sums[0] += traffic.reads;
                sums[1] += traffic.writes;
                sums[2] += traffic.read_bytes;
                sums[3] += traffic.written_bytes;
            }
            let reads = count * (1 + reads);
            let writes = count * writes;
            assert_eq!(sums, [reads, writes, reads * bytes, writes * bytes]);
        });
    }
}
