//! Garbage collection: groups to groups.
//!
//! On the first reactor, with streams of their own: one set of them for the pool is what the reserve
//! of groups is derived from.
//!
//! Victims by cost-benefit: (1 - u) / u x age. The P2L of a victim's stripes says what each block
//! was; the map says whether it still is; the checksum says whether it was read well.

use crate::cleaner::{Candidate, Work};
use crate::config::Canary;
use crate::geometry::{Tier, UnitId};
use crate::limits::GC_VICTIMS_MAX;
use crate::placement::{Progress, Writer};
use crate::shared::Shared;
use crate::units::UnitState;
use crate::ways::Ways;
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_format::{P2l, P2lEntry};
use varve_io::Sectors;
use varve_units::{BLOCK, BLOCK_BYTES, VolumeId};

impl Shared {
    /// Empties groups whenever fewer are free than the pool wants; runs for the engine's life.
    ///
    /// One victim is read at a time. What it leaves of a stripe waits for the next victim to fill
    /// it: padding is written only if groups are short and no other victim is to be had.
    pub(crate) async fn run_gc(self: Rc<Self>) {
        let work = Rc::new(Work::default());
        while !self.is_stopped() {
            if let Some(victim) = self.next_group(&work) {
                self.begin(victim, &work);
                continue;
            }
            let control = self.control();
            if work.is_idle() && control.are_groups_due() {
                control.ask_checkpoint();
            } else if work.all_wait() && (self.is_short_of_groups() || control.has_group_waiters())
            {
                self.gather_tails();
                self.flush_streams(Writer::GarbageCollection);
            }
            self.control().gc_wanted.listen().await;
        }
    }

    fn begin(self: &Rc<Self>, victim: u32, work: &Rc<Work>) {
        let control = self.control();
        let is_spread = self.can_spread();
        if !is_spread {
            self.gather_tails();
        }
        control.gc_is_collapsed.set(!is_spread);
        self.units
            .transition(UnitId::group(victim), UnitState::Cleaning);
        work.running.set(work.running.get() + 1);
        let spread = &control.gc_spread;
        spread.set(spread.get() + usize::from(is_spread));
        let (shared, work) = (Rc::clone(self), Rc::clone(work));
        self.spawn(async move {
            shared.collect(victim, &work).await;
            work.running.set(work.running.get() - 1);
            if !shared.is_stopped() {
                let control = shared.control();
                let spread = &control.gc_spread;
                spread.set(spread.get() - usize::from(is_spread));
                control.gc_wanted.notify();
                control.freed.notify();
            }
        });
    }

    /// True if there are groups enough for each tenant's blocks to go to their own stream: a
    /// victim can make each stream open one, and two victims one more.
    fn can_spread(&self) -> bool {
        let streams = self.config.reserve.tenant_streams as usize;
        streams > 1 && self.control().free_groups() >= streams + 2
    }

    /// Free groups below which garbage collection works.
    fn gc_target(&self) -> usize {
        let reserve = &self.config.reserve;
        let ahead = self.units.geometry().groups / 64;
        (reserve.gc_groups + reserve.tenant_streams + ahead) as usize + 1
    }

    fn is_short_of_groups(&self) -> bool {
        let control = self.control();
        control.free_groups() + control.emptied_groups() < self.gc_target()
    }

    /// The group with the best gain for its cost, if one should be emptied.
    ///
    /// Another one is begun when those before wait for their last stripe to fill: padding would
    /// cost what a victim gains. What needs a free group first is one victim at a time, because
    /// the blocks of the first are written before those of the next. Where several streams are
    /// written each can need one, so two victims are the most there.
    fn next_group(&self, work: &Work) -> Option<u32> {
        let control = self.control();
        let most = match self.config.reserve.tenant_streams {
            1 => GC_VICTIMS_MAX,
            _ => 2,
        };
        let running = work.running.get();
        let has_room = running == 0 || (running < most && work.all_wait());
        let ready = control.free_groups() + control.emptied_groups();
        if !has_room || !self.is_short_of_groups() {
            return None;
        }
        let user = u64::from(self.units.geometry().stripe_user_blocks())
            * u64::from(self.units.geometry().group_stripes());
        // A full pool with nothing to do must not copy its groups over and over.
        let is_urgent =
            control.has_group_waiters() && ready <= self.config.reserve.gc_groups as usize;
        let gain = if is_urgent { 1 } else { (user / 8).max(1) };
        let now = self.world.now().0;
        let live = |id: &UnitId| u64::from(self.units.unit(*id).live());
        // Read once: it falls while others look.
        let closed: Vec<(UnitId, u64)> = self
            .units
            .ids(Tier::Dense)
            .filter(|id| {
                let unit = self.units.unit(*id);
                unit.state() == UnitState::Closed
                    && !unit.is_awaiting_moves()
                    && !control.is_stuck(*id)
            })
            .map(|id| (id, live(&id)))
            .collect();
        let best = closed
            .iter()
            .filter(|(_, live)| live + gain <= user)
            .max_by_key(|(id, live)| {
                let age = now.saturating_sub(control.closed_at(id.index)) / 1000 + 1;
                u128::from(user - live) * u128::from(age) * 1000 / (u128::from(*live) + 1)
            });
        // A group in which all seems live is looked at once after a start, if there is no other:
        // bits that the start brought back may be all that keeps it full.
        let full = || {
            let doubtful = closed
                .iter()
                .filter(|(id, _)| self.units.unit(*id).is_doubtful());
            doubtful.min_by_key(|(id, _)| control.closed_at(id.index))
        };
        best.or_else(full).map(|(id, _)| id.index)
    }

    async fn collect(self: &Rc<Self>, group: u32, work: &Work) {
        let id = UnitId::group(group);
        let progress = Rc::new(Progress::default());
        let geometry = *self.units.geometry();
        let stripes = self.units.unit(id).write_pointer() / geometry.stripe_blocks;
        let mut unreadable = false;
        for stripe in 0..stripes {
            if !self.stripe_has_live(group, stripe) {
                continue;
            }
            match self.read_p2l(group, stripe).await {
                Ok(entries) => {
                    let candidates = self.stripe_candidates(group, stripe, &entries).await;
                    let writer = Writer::GarbageCollection;
                    self.move_all(id, &candidates, writer, &progress).await;
                }
                Err(ways) if ways.is_lost() => unreadable = true,
                Err(_) => progress.fail(),
            }
            if progress.has_failed() {
                break;
            }
        }
        work.waiting.set(work.waiting.get() + 1);
        self.control().gc_wanted.notify();
        progress.settled().await;
        work.waiting.set(work.waiting.get() - 1);
        if self.is_stopped() {
            return;
        }
        if unreadable || progress.has_failed() {
            self.count("gc_failures", 1);
            if unreadable && !progress.has_failed() {
                self.control().set_stuck(id);
            }
            self.units.transition(id, UnitState::Closed);
            self.world.sleep(crate::limits::RETRY_PAUSE).await;
            return;
        }
        self.count("groups_collected", 1);
        self.control().emptied(self, id);
    }

    fn stripe_has_live(&self, group: u32, stripe: u32) -> bool {
        let blocks = self.units.geometry().stripe_blocks;
        let unit = self.units.unit(UnitId::group(group));
        (stripe * blocks..(stripe + 1) * blocks).any(|bit| unit.is_set(bit))
    }

    /// First block of user data of a stripe, counted from the group's start.
    pub(crate) fn stripe_first_user_block(&self, stripe: u32) -> u32 {
        let geometry = self.units.geometry();
        let area = geometry.stripe_p2l_blocks() / geometry.p2l_copies;
        stripe * geometry.stripe_blocks + area * (geometry.p2l_copies - 1)
    }

    /// The P2L of a stripe, by whichever area and copy passes its checks, or what all came to.
    pub(crate) async fn read_p2l(&self, group: u32, stripe: u32) -> Result<Vec<P2lEntry>, Ways> {
        let geometry = self.units.geometry();
        let dense = self.dense.as_ref().expect("a group lies on a dense tier");
        let area = geometry.stripe_p2l_blocks() / geometry.p2l_copies;
        let start = u64::from(group) * u64::from(geometry.group_blocks)
            + u64::from(stripe) * u64::from(geometry.stripe_blocks);
        let last = start + u64::from(geometry.stripe_blocks - area);
        let places = if geometry.p2l_copies == 2 {
            &[last, start][..]
        } else {
            &[last][..]
        };
        let generation = self.units.unit(UnitId::group(group)).generation();
        let used = P2l::blocks_for(geometry.stripe_user_blocks() as usize) * BLOCK;
        let mut ways = Ways::default();
        for place in places {
            for copy in 0..dense.info().copies {
                let into = Sectors::zeroed(area as usize * BLOCK / varve_units::SECTOR);
                let read = dense.read_meta(place * BLOCK_BYTES, into, copy).await;
                let sectors = match read {
                    Ok(sectors) => sectors,
                    Err(error) => {
                        ways.note_error(error);
                        continue;
                    }
                };
                ways.note_mismatch();
                let Ok(p2l) = P2l::decode(&sectors.bytes()[..used], group, stripe) else {
                    continue;
                };
                let trusting = self.config.is_planted(Canary::P2lUnverified);
                if trusting || p2l.generation == generation {
                    return Ok(p2l.entries);
                }
            }
        }
        Err(ways)
    }

    /// Blocks of a stripe that the map perhaps still needs.
    async fn stripe_candidates(
        &self,
        group: u32,
        stripe: u32,
        entries: &[P2lEntry],
    ) -> Vec<Candidate> {
        let geometry = self.units.geometry();
        let first = self.stripe_first_user_block(stripe);
        let trusting = self.config.is_planted(Canary::P2lUnverified);
        let unit = self.units.unit(UnitId::group(group));
        // Who trusts the P2L takes the live bits at their word, too.
        let is_believed = |index: usize| !trusting || unit.is_set(first + index as u32);
        let found = entries
            .iter()
            .enumerate()
            .filter(|(index, entry)| entry.volume != VolumeId(0) && is_believed(*index))
            .map(|(index, entry)| Candidate {
                volume: entry.volume,
                lba: entry.lba,
                ppa: geometry.dense_ppa(group, first + index as u32),
                birth: entry.birth,
                crc: entry.crc,
                class: 0,
            })
            .collect();
        if trusting {
            return found;
        }
        self.perhaps_live(found).await
    }
}
