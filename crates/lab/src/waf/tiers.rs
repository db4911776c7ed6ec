//! Both tiers under a comparator: where every block lies, and what is written for whom.

use super::dense::Dense;
use super::device::Device;
use super::fifo_tier::FifoTier;
use super::policy::{Moving, Policy, View};
use varve_media::Counters;

/// No place. Places of the fast tier begin where those of the dense tier end.
const NOWHERE: u32 = u32::MAX;

/// Blocks written so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sums {
    /// By hosts.
    pub(crate) host: u64,
    /// To the fast tier.
    pub(crate) fast: u64,
    /// To the dense tier for the first time.
    pub(crate) compacted: u64,
    /// To the dense tier again.
    pub(crate) collected: u64,
    /// By the drive below.
    pub(crate) device: Counters,
}

impl Sums {
    /// What was written since `before`.
    pub(crate) const fn since(&self, before: &Self) -> Self {
        Self {
            host: self.host - before.host,
            fast: self.fast - before.fast,
            compacted: self.compacted - before.compacted,
            collected: self.collected - before.collected,
            device: self.device.since(&before.device),
        }
    }
}

/// What a model may ask of a load.
pub(crate) trait Known {
    /// Whose a block is.
    fn tenant(&self, block: u64) -> usize;

    /// Host writes from one write of a block to the next, on average: what only an oracle knows.
    fn interval(&self, block: u64) -> f64;
}

/// Something that was done behind a host's write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A block went from a slot of the fast tier to a place of the dense one.
    Compacted {
        /// The block.
        block: u32,
        /// The slot.
        from: u32,
        /// The place.
        to: u32,
    },
    /// A block went from one place of the dense tier to another.
    Collected {
        /// The block.
        block: u32,
        /// Where it lay.
        from: u32,
        /// Where it lies.
        to: u32,
    },
    /// The drive is told that places are no longer needed.
    Discarded {
        /// The first of them.
        first: u32,
        /// How many.
        count: u32,
    },
}

/// Fast tier, dense tier and drive.
pub(crate) struct Tiers {
    policy: Box<dyn Policy>,
    dense: Dense,
    dense_blocks: u32,
    fast: Option<FifoTier>,
    /// The account of a drive below, where nobody else keeps one.
    device: Option<Device>,
    /// By block.
    places: Vec<u32>,
    /// By block, when it was written last, in host writes.
    born: Vec<u64>,
    sums: Sums,
    /// What was done, for whoever carries it out in time.
    steps: Option<Vec<Step>>,
}

impl Tiers {
    /// Empty tiers for a volume of `blocks` blocks.
    pub(crate) fn new(
        policy: Box<dyn Policy>,
        dense: Dense,
        fast: Option<FifoTier>,
        device: Option<Device>,
        blocks: u64,
    ) -> Self {
        let dense_blocks = dense.units.count() as u32 * dense.units.blocks();
        Self {
            policy,
            dense,
            dense_blocks,
            fast,
            device,
            places: vec![NOWHERE; blocks as usize],
            born: vec![0; blocks as usize],
            sums: Sums::default(),
            steps: None,
        }
    }

    /// From here on every step is noted.
    pub(crate) fn note_steps(&mut self) {
        self.steps = Some(Vec::new());
    }

    /// The steps noted since the last call.
    pub(crate) fn take_steps(&mut self) -> Vec<Step> {
        self.steps.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Where a block lies: a slot of the fast tier, or a place of the dense one; `None` if nowhere.
    pub(crate) fn place(&self, block: u32) -> Option<Result<u32, u32>> {
        let place = self.places[block as usize];
        (place != NOWHERE).then(|| match place.checked_sub(self.dense_blocks) {
            Some(slot) => Ok(slot),
            None => Err(place),
        })
    }

    /// The stream that owns the unit of a place of the dense tier.
    pub(crate) fn stream_of(&self, place: u32) -> usize {
        self.dense.units.stream(self.dense.unit_of(place))
    }

    fn note(&mut self, step: Step) {
        if let Some(steps) = &mut self.steps {
            steps.push(step);
        }
    }

    /// What was written so far.
    pub(crate) fn sums(&mut self) -> Sums {
        if let Some(device) = &mut self.device {
            self.sums.device = device.counters();
        }
        self.sums
    }

    /// A host writes a block.
    pub(crate) fn write(&mut self, block: u32, known: &dyn Known) {
        self.sums.host += 1;
        let at = block as usize;
        let lifespan = (self.places[at] != NOWHERE).then(|| self.sums.host - self.born[at]);
        self.born[at] = self.sums.host;
        self.policy.written(block, lifespan);
        self.kill(block);
        let Some(due) = self.fast.as_ref().map(FifoTier::due) else {
            self.compact(block, known);
            return;
        };
        for slot in due.into_iter().flatten() {
            let owner = self.fast.as_ref().and_then(|fast| fast.owner(slot));
            let Some(owner) = owner else { continue };
            if self.places[owner as usize] == self.dense_blocks + slot {
                let to = self.compact(owner, known);
                self.note(Step::Compacted {
                    block: owner,
                    from: slot,
                    to,
                });
            }
        }
        let fast = self.fast.as_mut().expect("there is a fast tier");
        self.places[at] = self.dense_blocks + fast.append(block);
        self.sums.fast += 1;
    }

    /// What lies anywhere of a block is dead.
    fn kill(&mut self, block: u32) {
        let place = std::mem::replace(&mut self.places[block as usize], NOWHERE);
        if place < self.dense_blocks {
            self.dense.units.kill(self.dense.unit_of(place));
        }
    }

    /// A block reaches the dense tier; returns its place there.
    fn compact(&mut self, block: u32, known: &dyn Known) -> u32 {
        let stream = self.policy.stream_of_new(&self.moving(block, known));
        // What is moved may open a unit in the stream, which hosts then go on in: one stream mixes.
        while self.dense.needs_unit(stream) && self.dense.units.free() <= self.policy.reserve() {
            self.collect(known);
        }
        self.sums.compacted += 1;
        self.append(stream, block)
    }

    /// Empties a unit.
    fn collect(&mut self, known: &dyn Known) {
        let view = View {
            units: &self.dense.units,
            now: self.sums.host,
        };
        let unit = self.policy.victim(&view);
        let unit = unit.expect("a tier without free units has closed ones");
        self.dense.units.take(unit);
        let from = self.dense.units.stream(unit);
        let places = self.dense.places(unit);
        let (first, count) = (places.start, places.len());
        for place in places {
            let block = self.dense.owner(place);
            if self.places.get(block as usize) != Some(&place) {
                continue;
            }
            let stream = self
                .policy
                .stream_of_moved(&self.moving(block, known), from);
            self.kill(block);
            let to = self.append(stream, block);
            self.note(Step::Collected {
                block,
                from: place,
                to,
            });
            self.sums.collected += 1;
        }
        self.dense.units.release(unit);
        if self.policy.discards() {
            if let Some(device) = &mut self.device {
                device.discard(first.into(), count as u64);
            }
            let count = count as u32;
            self.note(Step::Discarded { first, count });
        }
    }

    fn append(&mut self, stream: usize, block: u32) -> u32 {
        let appended = self.dense.append(stream, block, self.sums.host);
        self.places[block as usize] = appended.place;
        if let Some(device) = &mut self.device {
            device.write(appended.place.into(), 1);
        }
        if let Some(unit) = appended.closed {
            self.policy.closed(unit);
        }
        appended.place
    }

    fn moving(&self, block: u32, known: &dyn Known) -> Moving {
        Moving {
            block,
            tenant: known.tenant(block.into()),
            age: self.sums.host - self.born[block as usize],
            interval: known.interval(block.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::policies::POLICIES;
    use super::super::workload::{Source, Workload};
    use super::*;

    impl Tiers {
        /// Every block lies in one place that names it, and units count what lives in them.
        fn check(&self) {
            let mut live = vec![0; self.dense.units.count()];
            for (block, &place) in self.places.iter().enumerate() {
                let owner = match place.checked_sub(self.dense_blocks) {
                    None => {
                        live[self.dense.unit_of(place) as usize] += 1;
                        Some(self.dense.owner(place))
                    }
                    Some(slot) => self.fast.as_ref().and_then(|fast| fast.owner(slot)),
                };
                assert_eq!(owner, Some(block as u32), "at {place}");
            }
            for (unit, live) in live.into_iter().enumerate() {
                assert_eq!(self.dense.units.live(unit as u32), live, "unit {unit}");
            }
        }
    }

    #[test]
    fn no_block_is_lost_or_doubled_under_any_policy() {
        let (units, unit_blocks, user) = (144, 64, 6000);
        for policy in POLICIES {
            for (load, fast) in [(Workload::Mixed4, 0), (Workload::HotCold(2.0), 300)] {
                let Some(model) = policy.model(user, load.tenants(), units / 2) else {
                    continue;
                };
                let dense = Dense::new(units, unit_blocks, model.streams());
                let device = Device::new(units.into(), unit_blocks.into()).unwrap();
                let mut tiers = Tiers::new(model, dense, FifoTier::new(fast), Some(device), user);
                let mut source = Source::new(&load, user, 1, 5).unwrap();
                (0..user).for_each(|block| tiers.write(block as u32, &source));
                for _ in 0..20 {
                    for _ in 0..user / 4 {
                        let block = source.next().block;
                        tiers.write(block as u32, &source);
                    }
                    tiers.check();
                }
                let sums = tiers.sums();
                assert!(sums.collected > 0, "{policy} {load}");
                let written = sums.compacted + sums.collected;
                assert_eq!(sums.device.host_bytes, written * 4096);
            }
        }
    }
}
