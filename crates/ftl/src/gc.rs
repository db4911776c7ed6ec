//! Garbage collection: groups to groups.
//!
//! Victims by cost-benefit: (1 - u) / u x age. The P2L of a victim's stripes says what each block
//! was; the map says whether it still is; the checksum says whether it was read well.

use crate::cleaner::{Candidate, Verdict};
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
        let control = self.control();
        while !self.is_stopped() {
            let work = &control.collecting;
            let is_full = work.running.get() >= GC_VICTIMS_MAX;
            let victim = if work.busy() > 0 || is_full {
                None
            } else {
                self.next_group()
            };
            let Some(victim) = victim else {
                if control.are_groups_due() {
                    control.ask_checkpoint();
                }
                if work.all_wait() && self.is_short_of_groups() {
                    self.flush_streams(Writer::GarbageCollection);
                    self.tell_others(|there| there.flush_streams(Writer::GarbageCollection));
                }
                control.gc_wanted.listen().await;
                continue;
            };
            let id = UnitId::group(victim);
            self.units.transition(id, UnitState::Cleaning);
            work.running.set(work.running.get() + 1);
            let shared = Rc::clone(&self);
            self.spawn(async move { shared.have_collected(id).await });
        }
    }

    /// Has a victim emptied by the reactor that knows most of it.
    async fn have_collected(self: &Rc<Self>, id: UnitId) {
        let collect = move |there: Rc<Self>| async move { there.collect(id.index).await };
        let verdict = self.call(self.worker(id), collect).await;
        if self.is_stopped() {
            return;
        }
        if let Ok(Some(verdict)) = verdict {
            self.conclude(id, verdict, "gc_failures").await;
        }
        let control = self.control();
        let work = &control.collecting;
        work.running.set(work.running.get() - 1);
        control.gc_wanted.notify();
    }

    /// Free groups below which garbage collection works.
    fn gc_target(&self) -> usize {
        let spare = self.units.geometry().groups as usize / 32;
        self.config.reserve_groups as usize + spare.max(2)
    }

    fn is_short_of_groups(&self) -> bool {
        let control = self.control();
        control.free_groups() + control.emptied_groups() < self.gc_target()
    }

    /// The group with the best gain for its cost, if one should be emptied.
    fn next_group(&self) -> Option<u32> {
        let control = self.control();
        if !self.is_short_of_groups() {
            return None;
        }
        let user = u64::from(self.units.geometry().stripe_user_blocks())
            * u64::from(self.units.geometry().group_stripes());
        let now = self.world.now().0;
        self.units
            .ids(Tier::Dense)
            .filter(|id| {
                let unit = self.units.unit(*id);
                unit.state() == UnitState::Closed
                    && !unit.is_awaiting_moves()
                    && !control.is_stuck(*id)
            })
            // Read once: it falls while others look.
            .map(|id| (id, u64::from(self.units.unit(id).live())))
            .filter(|(_, live)| *live < user)
            .max_by_key(|(id, live)| {
                let age = now.saturating_sub(control.closed_at(id.index)) / 1000 + 1;
                u128::from(user - live) * u128::from(age) * 1000 / (u128::from(*live) + 1)
            })
            .map(|(id, _)| id.index)
    }

    /// Empties one group, on whichever reactor. `None` if the engine stopped.
    async fn collect(self: &Rc<Self>, group: u32) -> Option<Verdict> {
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
        self.tell_control(|control, _| {
            control.collecting.settles(1);
            control.gc_wanted.notify();
        });
        progress.settled().await;
        self.tell_control(|control, _| control.collecting.settles(-1));
        if self.is_stopped() {
            return None;
        }
        if progress.has_failed() {
            return Some(Verdict::Failed);
        }
        if unreadable {
            self.count("gc_failures", 1);
            return Some(Verdict::Stuck);
        }
        self.count("groups_collected", 1);
        Some(Verdict::Emptied)
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
        let found = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.volume != VolumeId(0))
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
