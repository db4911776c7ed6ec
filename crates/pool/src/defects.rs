//! Which drives hold copies that do not pass their check.

use crate::options::engine_geometry;
use crate::pool::Pool;
use crate::replace::Slot;
use crate::rows::Rows;
use crate::tier::{Array, Tier};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use varve_array::MemberState;
use varve_ftl::{AuditError, AuditNews, AuditReport, AuditStep, BadCopy, Geometry};
use varve_io::Flow;

/// Copies that do not pass their check though another one does, by who holds them. Drives that do not
/// hold all they should are not among them, nor is one that is kept while another takes its place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Defects {
    /// Blocks, pieces of the map and blocks of parity that each drive holds wrong.
    pub drives: BTreeMap<Slot, u64>,
    /// Rows of blocks, one of each drive of a stripe, whose parity is not that of the others though
    /// every block that is needed is right, and nobody can tell which of the others is not; and what was
    /// read from two drives of a mirror. None of the rows is told while a drive is away.
    pub unnamed: u64,
}

impl Defects {
    /// All of them.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.drives.values().sum::<u64>() + self.unnamed
    }
}

/// Takes bad copies down while they are told.
#[derive(Default)]
struct Notes {
    defects: Defects,
    /// Where, on every dense drive, a block is wrong that the map needs.
    wrong: BTreeSet<u64>,
    /// Where the other drives do not add up to a block, and which.
    unlike: BTreeMap<u64, u64>,
    /// Read from two drives of a mirror.
    shared: u64,
}

impl Notes {
    fn note(&mut self, tier: &Tier, bad: BadCopy) {
        if usize::from(bad.copy) >= tier.usual_ways() {
            return;
        }
        let member = match &tier.array {
            Array::Fast(mirror, _) => {
                let first = mirror.member_of(bad.offset, bad.copy);
                let last = mirror.member_of(bad.offset + bad.bytes - 1, bad.copy);
                let member = (first == last).then_some(first);
                self.shared += u64::from(member.is_none());
                member
            }
            Array::Dense(set) => {
                let member = set.member_of(bad.offset, bad.copy);
                let height = set.height_of(bad.offset);
                match member {
                    Some(_) => drop(self.wrong.insert(height)),
                    None => drop(self.unlike.insert(height, bad.offset)),
                }
                member
            }
        };
        if let Some(member) = member {
            self.count(tier, member);
        }
    }

    fn count(&mut self, tier: &Tier, member: usize) {
        if tier.state(member) == MemberState::Live {
            let slot = Slot {
                role: tier.role(),
                number: member as u8,
            };
            *self.defects.drives.entry(slot).or_insert(0) += 1;
        }
    }

    /// Names who is wrong where parity does not fit.
    async fn look_at_rows(&mut self, tier: &Tier, sizes: Geometry, watch: &dyn Fn(AuditStep)) {
        let Array::Dense(set) = &tier.array else {
            return;
        };
        let mut rows = Rows::new(set, sizes);
        let unlike = core::mem::take(&mut self.unlike);
        let all = unlike.len() as u64;
        for (done, (height, offset)) in (0..).zip(unlike) {
            let of = "stripes that do not add up";
            watch(AuditStep { of, done, all });
            // What adds up to a wrong block of another drive is that drive's fault.
            if self.wrong.contains(&height) {
                continue;
            }
            match rows.wrong_member(offset).await {
                Some(member) => self.count(tier, member),
                None => self.defects.unnamed += 1,
            }
        }
    }
}

impl Pool {
    /// [`varve_ftl::Engine::audit_all_copies`], and who holds the copies that do not pass their check.
    /// On errors these are the ones found before.
    pub fn audit(&self) -> Flow<'_, (Result<AuditReport, AuditError>, Defects)> {
        Box::pin(async move { self.audit_watched(&|_| ()).await })
    }

    /// [`Pool::audit`], which tells how far it is.
    pub fn audit_watched<'a>(
        &'a self,
        watch: &'a dyn Fn(AuditStep),
    ) -> Flow<'a, (Result<AuditReport, AuditError>, Defects)> {
        Box::pin(async move {
            let mut notes = Notes::default();
            let mut found = |news: AuditNews| {
                let bad = match news {
                    AuditNews::Bad(bad) => bad,
                    AuditNews::Step(step) => return watch(step),
                };
                let mut tiers = self.tiers.iter();
                let tier = match bad.tier {
                    varve_ftl::Tier::Fast => tiers.next(),
                    varve_ftl::Tier::Dense => tiers.nth(1),
                };
                notes.note(tier.expect("a copy was read from it"), bad);
            };
            let outcome = self.engine().audit_all_copies(&mut found).await;
            let is_whole = |tier: &Rc<Tier>| {
                let mut slots = 0..tier.losses.slots();
                slots.all(|slot| tier.state(slot) == MemberState::Live)
            };
            if self.tiers.iter().all(is_whole) {
                notes.defects.unnamed = notes.shared;
                for tier in &self.tiers {
                    let sizes = engine_geometry(self.geometry());
                    notes.look_at_rows(tier, sizes, watch).await;
                }
            }
            (outcome, notes.defects)
        })
    }
}
